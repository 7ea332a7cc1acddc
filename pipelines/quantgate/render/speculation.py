"""Speculative decoding on the page and in Markdown: what each drafter brings, where it loses, and what it takes.

Ratios under one are losses and are shown as such; a drafter that could not be measured says why.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from quantgate.records import Report, SpeculationFigures, SpeculationRow
from quantgate.render import quantities as q
from quantgate.render.canvas import INK, MUTED, RULE, SERIES, Canvas, Scale, ticks
from quantgate.render.elements import Cell, Column, Html, el, figure, join, table, words

HEADER = ("Drafter", "Batch", "Drafted", "Accepted, %", "Tokens a step", "Tokens/s", "Plain", "vs plain", "Parted")


def part(report: Report) -> Html:
    """A heading, the figure, a table of passes and one of what the drafters take; nothing where speculation was not asked for."""
    if not report.speculation:
        return Html("")
    lines = [*(row.sentence for row in report.speculation), *_partings(report)]
    return join(
        [
            el("h3", "Speculative decoding"),
            figure(ratio_figure(report), ratio_finding(report)),
            el("ul", *(el("li", line) for line in lines), class_="sentences"),
            _passes(report.speculation),
            _prices(report.speculation),
        ]
    )


def _partings(report: Report) -> Iterator[str]:
    """Where the earliest output parts, for each pass that has one."""
    for row in report.speculation:
        for one in row.figures:
            if (found := one.first_parting) is not None:
                lead, noise = (q.significant(value) for value in (found.margin, found.noise))
                where = f"{row.drafter}, {one.draft_tokens} drafted tokens at batch {one.batch_size}"
                yield (
                    f"{where}: {found.prompt} parts at token {found.at + 1} of its output, where the likeliest token leads by {lead} and "
                    f"reading in another order moves a logit by {noise} at most."
                )


def cells(row: SpeculationRow, one: SpeculationFigures) -> list[Cell]:
    """One pass under ``HEADER``."""
    unexplained = f", {q.count(one.partings_beyond_rounding)} beyond rounding" if one.partings else ""
    return [
        row.drafter,
        q.count(one.batch_size),
        q.count(one.draft_tokens),
        q.percent_number(one.acceptance, digits=1),
        q.fixed(one.mean_length, 2),
        q.per_s(one.tokens_per_s),
        q.per_s(one.plain_tokens_per_s),
        q.ratio(one.speed_ratio),
        f"{q.count(one.partings)}{unexplained}",
    ]


def _passes(rows: Sequence[SpeculationRow]) -> Html:
    made = [
        [*cells(row, one), " ".join(q.percent_number(share) for share in one.acceptance_at), _spread(one)]
        for row in rows
        for one in row.figures
    ]
    if not made:
        return Html("")
    columns = [words(HEADER[0]), *map(Column, HEADER[1:]), Column("Accepted by place, %"), Column("Lowest to highest")]
    caption = (
        "Greedy decoding with drafts beside plain greedy decoding, batch by batch in turn; accepted is the share of drafted tokens, parted "
        "are outputs that are not token-identical"
    )
    return table(caption, columns, made)


def _spread(one: SpeculationFigures) -> str:
    return q.UNKNOWN if one.speed_ratio_low is None else f"{q.ratio(one.speed_ratio_low)} to {q.ratio(one.speed_ratio_high)}"


def _prices(rows: Sequence[SpeculationRow]) -> Html:
    measured = [row for row in rows if row.draft_weight_bytes is not None]
    if not measured:
        return Html("")
    columns = [
        words("Drafter"), Column("Weights beside"), Column("Own cache a request"), Column("Requests alone"),
        Column("Requests beside it"), Column("A loss from batch"),
    ]  # fmt: skip
    made = [
        [
            row.drafter,
            q.decimal_bytes(row.draft_weight_bytes),
            q.decimal_bytes(row.draft_kv_bytes_per_row),
            q.count(row.ceiling),
            q.count(row.ceiling_beside),
            q.count(row.loss_from_batch),
        ]
        for row in measured
    ]
    return table("What a drafter takes: requests are predicted, not filled; a loss is looked for at the batches measured", columns, made)


# ---------------------------------------------------------------------------------------------- the figure


def ratio_figure(report: Report, *, ident: str = "speculation", heading: bool = False) -> str:
    """Draw each drafter's best speed ratio over the batch size, with plain decoding as the line at one; empty where nothing was timed."""
    lines = [(row.drafter, found) for row in report.speculation if (found := best_by_batch(row))]
    if not lines:
        return ""
    canvas = Canvas(ident, ratio_finding(report), heading)
    top, height = canvas.top + 16, 200
    batches = sorted({batch for _, points in lines for batch, _ in points})
    most = max(1.0, *(ratio for _, points in lines for _, ratio in points)) * 1.1
    across = Scale((math.log2(batches[0]), math.log2(max(batches[-1], 2 * batches[0]))), (66, 480))
    up = Scale((0.0, most), (top + height, top))
    for value in ticks(0.0, most, 4):
        canvas.line((66, up(value)), (480, up(value)), stroke=RULE)
        canvas.note(58, up(value) + 4, q.ratio(value), anchor="end")
    for batch in batches:
        canvas.note(across(math.log2(batch)), top + height + 18, q.count(batch), anchor="middle")
    canvas.line((66, up(1.0)), (480, up(1.0)), stroke=INK, width=1.5)
    canvas.text(486, up(1.0) + 4, "plain decoding", size=12, fill=MUTED)
    for index, (name, points) in enumerate(lines):
        colour, dash, shape = SERIES[index % len(SERIES)]
        spots = [(across(math.log2(batch)), up(ratio)) for batch, ratio in points]
        canvas.path(spots, colour, dash)
        for x, y in spots:
            canvas.mark(shape, x, y, fill=colour)
        canvas.mark(shape, 492, top + 14 + 20 * index, fill=colour)
        canvas.text(504, top + 18 + 20 * index, q.shortened(name, 26), size=12)
    canvas.note(273, top + height + 38, "requests in a batch, doubling scale", anchor="middle")
    return canvas.svg(top + height + 48)


def ratio_finding(report: Report) -> str:
    """Say which drafter is fastest, or that none is faster than plain decoding."""
    best = [(ratio, row.drafter, batch) for row in report.speculation for batch, ratio in best_by_batch(row)]
    if not best:
        return "Speed of speculative decoding"
    ratio, drafter, batch = max(best)
    if ratio <= 1:
        return f"No drafter decodes faster than plain greedy decoding; the nearest is {drafter}, {q.ratio(ratio)} at batch {batch}."
    return f"{drafter} decodes fastest: {q.ratio(ratio)} the plain speed at batch {batch}."


def best_by_batch(row: SpeculationRow) -> list[tuple[int, float]]:
    """(batch, largest speed ratio over the numbers of drafted tokens), by batch."""
    found: dict[int, float] = {}
    for one in row.figures:
        if one.speed_ratio is not None:
            found[one.batch_size] = max(one.speed_ratio, found.get(one.batch_size, 0.0))
    return sorted(found.items())
