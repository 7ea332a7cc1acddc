"""How far next-token distributions moved, on the page: statistics, the same by slice, and a figure over positions.

Distance says how much changed and never which way; no word here calls it better or worse.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from quantgate.records import KLPart, KLStatistics, ReadingRow, Report
from quantgate.render import quantities as q
from quantgate.render.canvas import MUTED, RULE, SERIES, Canvas, Scale, ticks
from quantgate.render.elements import Cell, Column, Html, el, figure, fold, join, table, words

Measured = Sequence[tuple[str, KLStatistics]]


def after_prompts(rows: Measured) -> Html:
    """Statistics right after the prompts of a golden set, by slice in a fold; nothing where nothing was measured."""
    return join(
        [
            _statistics("KL divergence from the reference, after the prompts: how much changed, not which way", rows),
            _slices(rows),
        ]
    )


def over_texts(report: Report) -> Html:
    """Perplexity and divergence over the run's texts; nothing where the run had none."""
    if not report.readings:
        return Html("")
    first = report.readings[0]
    rows = [(one.variant, one.kl) for one in report.readings if one.kl is not None]
    cut = f"; {q.count(first.cut)} were longer and read up to there" if first.cut else ""
    said = f"{q.count(first.tokens)} tokens, at most {q.count(first.tokens_per_text)} of each text{cut}."
    recomputed = any(one.reference == "recomputed" for one in report.readings)
    how = "run again beside each variant" if recomputed else "stored once, as 16-bit codes"
    bad = {row.variant for row in report.measurements if row.role == "known_bad"}
    drawn = [row for row in rows if row[0] not in bad] or rows  # a control far off would press the others on the axis
    reasons = [f"{one.variant}: {one.why_no_kl}" for one in report.readings if one.why_no_kl]
    return join(
        [
            el("h3", f"Texts {first.texts}, {q.count(first.count)} texts"),
            el("p", f"{said} The reference's distributions were {how}."),
            _reading_table(report.readings),
            figure(position_figure(drawn), position_finding(drawn)),
            _statistics("KL divergence from the reference, over texts: how much changed, not which way", rows),
            _slices(rows),
            el("ul", *(el("li", reason) for reason in reasons), class_="sentences") if reasons else "",
        ]
    )


def _reading_table(rows: Sequence[ReadingRow]) -> Html:
    columns = [words("Variant"), Column("Perplexity"), Column("vs reference"), Column("Tokens")]
    cells: list[list[Cell]] = [
        [
            row.variant,
            q.significant(row.perplexity, 4),
            q.UNKNOWN if row.ratio_to_reference is None else f"{q.significant(row.ratio_to_reference, 4)}x",
            q.count(row.tokens),
        ]
        for row in rows
    ]
    return table("Perplexity over all tokens of the texts, exp(total nats / total tokens)", columns, cells)


def _statistics(caption: str, rows: Measured) -> Html:
    if not rows:
        return Html("")
    true_token = any(kl.rms_dp is not None for _, kl in rows)
    columns = [
        words("Variant"),
        Column("Mean, nats"),
        *([Column("Standard error")] if true_token else []),
        Column("Median, nats"),
        Column("p99, nats"),
        *([Column("p99.9, nats")] if true_token else []),
        Column("Largest, nats"),
        Column("Same top token, %"),
        *([Column("RMS change of true token, %")] if true_token else []),
        Column("Positions"),
    ]
    return table(caption, columns, [_cells(variant, kl, true_token=true_token) for variant, kl in rows])


def _cells(variant: str, kl: KLStatistics, *, true_token: bool) -> list[Cell]:
    return [
        variant,
        q.significant(kl.mean),
        *([q.significant(kl.standard_error, 2)] if true_token else []),
        q.significant(kl.median),
        q.significant(kl.p99),
        *([q.significant(kl.p999)] if true_token else []),
        q.significant(kl.maximum),
        q.percent_number(kl.top1_agreement, digits=1),
        *([q.percent_number(kl.rms_dp, digits=2)] if true_token else []),
        q.count(kl.positions),
    ]


def _slices(rows: Measured) -> Html:
    """The same by slice, folded; nothing where there is one slice only."""
    parts = [(variant, part) for variant, kl in rows for part in kl.by_slice]
    if not parts:
        return Html("")
    columns = [
        words("Slice"),
        words("Variant"),
        Column("Mean, nats"),
        Column("p99, nats"),
        Column("Largest, nats"),
        Column("Same top token, %"),
        Column("Positions"),
    ]
    names = list(dict.fromkeys(part.name for _, part in parts))
    cells = [_part_cells(variant, part) for name in names for variant, part in parts if part.name == name]
    return fold(f"Divergence in {q.count(len(names))} slices", table("KL divergence by slice", columns, cells))


def _part_cells(variant: str, part: KLPart) -> list[Cell]:
    return [
        part.name,
        variant,
        q.significant(part.mean),
        q.significant(part.p99),
        q.significant(part.maximum),
        q.percent_number(part.top1_agreement, digits=1),
        q.count(part.positions),
    ]


# ---------------------------------------------------------------------------------------------- over positions


def position_figure(rows: Measured, *, ident: str = "positions", heading: bool = False) -> str:
    """Draw the mean divergence over the token's number in its text, a line a variant; the empty string without positions."""
    lines = [(variant, kl.by_position) for variant, kl in rows if kl.by_position]
    if not lines:
        return ""
    canvas = Canvas(ident, position_finding(rows), heading)
    left, right, top, base = 60, 500, canvas.top + 16, canvas.top + 236
    last = max(part.last or 1 for _, parts in lines for part in parts)
    across = Scale((0.0, math.log2(max(last, 2))), (left, right))
    up = Scale((0.0, max(part.mean for _, parts in lines for part in parts) * 1.05 or 1.0), (base, top))
    _axes(canvas, across, up, lines[0][1])
    height, previous = 18.0, top - 18.0
    ends = []
    for index, (variant, parts) in enumerate(lines):
        colour, dash, shape = SERIES[index % len(SERIES)]
        spots = [(across(math.log2(_middle(part))), up(part.mean)) for part in parts]
        canvas.path(spots, colour, dash)
        for x, y in spots:
            canvas.mark(shape, x, y, fill=colour)
        ends.append((spots[-1], variant, parts[-1].mean, colour))
    for rank, ((x, y), variant, mean, colour) in enumerate(sorted(ends, key=lambda end: end[0][1])):
        row = max(min(y, base - height * (len(ends) - 1 - rank)), previous + height)
        canvas.path([(x + 7, y), (508, row), (516, row)], RULE, "")
        canvas.text(
            520, row + 4, f"{q.shortened(variant, 18)}: {q.significant(mean, 2)} at the end", size=12, fill=colour
        )
        previous = row
    canvas.note((left + right) / 2, base + 38, "token's number in its text", anchor="middle")
    canvas.note(left - 48, top - 6, "mean KL, nats a token")
    return canvas.svg(base + 48)


def position_finding(rows: Measured) -> str:
    """Say of each variant where it differs most from the reference."""
    found = []
    for variant, kl in rows:
        if kl.by_position:
            most = max(kl.by_position, key=lambda part: part.mean)
            end = kl.by_position[-1]
            figures = f"{q.significant(most.mean, 2)} nats; at the end {q.significant(end.mean, 2)}"
            found.append(f"{variant} differs most at tokens {most.name} ({figures})")
    return f"{'; '.join(found)}." if found else "Divergence over positions"


def _middle(part: KLPart) -> float:
    """Geometric middle of a bin."""
    return math.sqrt((part.first or 1) * (part.last or 1))


def _axes(canvas: Canvas, across: Scale, up: Scale, bins: Sequence[KLPart]) -> None:
    (left, right), (base, _) = across.span, up.span
    for tick in ticks(0.0, up.domain[1], 5):
        canvas.line((left, up(tick)), (right, up(tick)), stroke=RULE)
        canvas.note(left - 8, up(tick) + 4, f"{tick:,g}", size=11, anchor="end")
    for edge in dict.fromkeys(part.last or 1 for part in bins):
        x = across(math.log2(edge))
        canvas.line((x, base), (x, base + 4), stroke=MUTED)
        canvas.note(x, base + 17, q.count(edge), size=11, anchor="middle")
