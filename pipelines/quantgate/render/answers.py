"""The page's section on quality: golden sets, answers and their intervals, slices."""

from __future__ import annotations

from collections.abc import Sequence

from quantgate.records import GoldenRow, Policy, QualityRow, Report, Scale, SliceRow
from quantgate.render import distance, figures, flips, quantities as q
from quantgate.render.elements import (
    Cell as _Cell,
    Column as _Column,
    Html as _Html,
    el as _el,
    figure as _figure,
    join as _join,
    section as _section,
    table as _table,
    words as _words,
)
from quantgate.render.terminal import variant_lines


def section(report: Report) -> _Html:
    """Each golden set: answers, figures, slices, distances and flips."""
    parts = [_golden(report, golden, index) for index, golden in enumerate(report.golden_sets)]
    return _section("quality", "Quality", *(parts or [_el("p", "No golden set was used.")]), distance.over_texts(report))


def _golden(report: Report, golden: GoldenRow, index: int) -> _Html:
    rows = [row for row in report.quality if row.golden_set in (golden.name, f"{golden.name} {golden.version}")]
    roles = {line.variant: line.role for line in variant_lines(report)}
    reference = next((variant for variant, role in roles.items() if role == "reference"), "")
    compared = [row for row in rows if row.variant != reference]
    flipped = [flip for flip in report.flips if flip.golden_set in (golden.name, f"{golden.name} {golden.version}")]
    counts = [one for one in report.flip_counts if one.golden_set in (golden.name, f"{golden.name} {golden.version}")]
    drawing = figures.interval_figure(report, golden.name, ident=f"intervals-{index}", heading=False)
    return _join(
        [
            _el("h3", f"{golden.name} {golden.version}, {q.count(golden.items)} items"),
            _figure(drawing, figures.interval_finding(report, golden.name)),
            _answer_table(golden, rows, reference, of_files=report.device is None) if rows else _el("p", "Nothing was scored."),
            _figure_table(rows),
            _slice_table(compared, report.policy) if any(row.slices for row in compared) else "",
            distance.after_prompts([(row.variant, row.kl) for row in rows if row.kl is not None]),
            flips.flips(f"{golden.name} {golden.version}", flipped, roles, counts),
        ]
    )


def _answer_table(golden: GoldenRow, rows: Sequence[QualityRow], measured_on: str, *, of_files: bool) -> _Html:
    """``of_files``: results of other tools, which do not state what was generated; unknown is never 0."""
    reference = next((row.output_tokens for row in rows if row.variant == measured_on), None)
    columns = [
        _words("Variant"),
        _Column(_mean_header([row.scale for row in rows])),
        _Column("Scored"),
        _Column("Unscored"),
        _Column("Truncated"),
        _Column("Empty"),
        _Column("Refusal-like"),
        _Column("Output, tokens"),
        _Column("Output vs reference"),
        _Column("McNemar p"),
    ]
    cells = [
        [
            row.variant,
            q.mean_score(row.accuracy, row.scale),
            f"{q.count(row.scored)} of {q.count(row.items)}",
            q.count(row.unscored),
            q.count(row.truncated if row.output_tokens or not of_files else None),
            q.count(row.empty) if row.texts else q.UNKNOWN,
            q.count(row.refusals) if row.texts else q.UNKNOWN,
            q.count(row.output_tokens if row.output_tokens or not of_files else None),
            q.ratio(row.output_tokens / reference if reference and row.variant != measured_on else None),
            q.p_value(row.mcnemar_p),
        ]
        for row in rows
    ]
    chance = q.percent(golden.chance_level)
    caption = (
        f"Answers on {golden.name} {golden.version}; guessing gives {chance}. McNemar tests a loss of 0; neither it nor a count decides"
    )
    return _table(caption, columns, cells)


def _mean_header(scales: Sequence[Scale]) -> str:
    """What a column of answers' means is called."""
    if "unbounded" in scales:
        return "Mean score"
    return "Mean score, %" if "unit" in scales else "Right, %"


def _figure_table(rows: Sequence[QualityRow]) -> _Html:
    """Each metric's own figure; nothing where a share of right answers says it all."""
    if not any(row.figures for row in rows):
        return _Html("")
    columns = [_words("Metric"), _words("Variant"), _Column("Figure")]
    columns += [_Column("From"), _Column("To"), _words("Unit"), _words("Better"), _Column("Scored")]
    names = list(dict.fromkeys(one.metric.name for row in rows for one in row.figures))
    cells = [
        [
            one.metric.name,
            row.variant,
            *(q.significant(figure) for figure in (one.value, one.lower, one.upper)),
            one.metric.unit if one.equal_weights else f"{one.metric.unit}, weighted",
            "lower" if one.metric.figure_lower_is_better else "higher",
            f"{q.count(one.scored)} of {q.count(one.items)}",
        ]
        for name in names
        for row in rows
        for one in row.figures
        if one.metric.name == name
    ]
    return _table("Figures of each metric over the set, shares with 95 % intervals; shown, and no part of any decision", columns, cells)


def _slice_table(rows: Sequence[QualityRow], policy: Policy) -> _Html:
    scales: list[Scale] = [row.scale for row in rows]
    unit = "in score" if "unbounded" in scales else "points"
    columns = [
        _words("Slice"),
        _words("Variant"),
        _Column("Items"),
        _Column(f"Reference {_mean_header(scales)[:1].lower()}{_mean_header(scales)[1:]}"),
        _Column(_mean_header(scales)),
        _Column("Got worse"),
        _Column("Got better"),
        _Column(f"Loss, {unit}"),
        _Column(f"From, {unit}"),
        _Column(f"To, {unit}"),
        _Column("Level"),
    ]
    names = list(dict.fromkeys(part.slice for row in rows for part in row.slices))
    cells = [
        [part.slice, row.variant, *_slice_cells(part)]
        for name in names
        for row in rows
        for part in row.slices
        if part.slice == name
    ]
    named = any(rule.slices for rule in policy.checks)
    decide = "the checks above decide on those that the policy names" if named else "shown and never decided on"
    return _table(f"Slices: {len(names)} looked at, {decide}", columns, cells)


def _slice_cells(part: SliceRow) -> list[_Cell]:
    return [
        q.count(part.n),
        q.mean_score(part.reference_accuracy, part.scale),
        q.mean_score(part.accuracy, part.scale),
        q.count(part.b),
        q.count(part.c),
        q.loss(part.loss, part.scale),
        q.loss(part.lower, part.scale, towards="down"),
        q.loss(part.upper, part.scale, towards="up"),
        q.level_percent(part.level),
    ]
