"""Figures of a report as SVG text: losses against the margin, memory under the budget. Those of speed stand in modules of their own.

Each figure carries a title that says the finding. Nothing is told by colour alone: outcomes differ in marker shape,
variants in dash and marker, memory in pattern, and every figure names its numbers in text. A figure of which nothing
was measured is the empty string. Sizes are in units of the view box, 720 wide, so text scales with the figure. No
scripts, no links.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from quantgate.records import Check, MeasurementRow, Outcome, Report, Verdict
from quantgate.render import quantities as q
from quantgate.render.canvas import (
    BAND as _BAND,
    INK as _INK,
    MUTED as _MUTED,
    RULE as _RULE,
    Canvas as _Canvas,
    Scale as _Scale,
    ticks as _ticks,
)

_Domain = tuple[float, float]


# ---------------------------------------------------------------------------------------------- losses and the margin


def interval_figure(report: Report, golden_set: str, *, ident: str = "intervals", heading: bool = True) -> str:
    """Draw each variant's loss on a golden set with its bounds, zero and the margin. ``heading``: write the title out.

    A control that lies far beyond the margin does not squeeze the rest: its line ends in an arrow at the edge.
    """
    rows = _judged(report, golden_set)
    if not rows:
        return ""
    canvas = _Canvas(ident, interval_finding(report, golden_set), heading)
    left, right, top, step = 170, 480, canvas.top + 26, 38
    bottom = top + step * len(rows)
    domain = loss_domain(rows)
    scale = _Scale(domain, (left, right))
    _loss_axes(canvas, scale, (top, bottom), [check for _, check in rows])
    for index, (verdict, check) in enumerate(rows):
        middle = top + step * (index + 0.5)
        canvas.text(12, middle - 2, q.shortened(verdict.variant, 18), weight=600)
        canvas.note(12, middle + 13, _short_word(verdict), size=11)
        _interval(canvas, scale, middle, check)
        canvas.text(right + 14, middle + 4, _interval_words(check), size=12)
    unit = "in score" if any(check.scale == "unbounded" for _, check in rows) else "points"
    canvas.note((left + right) / 2, bottom + 36, f"loss, {unit} (positive: worse than the reference)", anchor="middle")
    return canvas.svg(bottom + 46)


def interval_finding(report: Report, golden_set: str) -> str:
    """Say what the intervals show: who stays within the margin, who exceeds it, of whom neither is shown."""
    rows = [(verdict.variant, check) for verdict, check in _judged(report, golden_set) if verdict.role == "candidate"]
    said = {"pass": "within the margin", "fail": "beyond the margin", "inconclusive": "not decided"}
    said["not_measured"] = "not measured"
    parts = [
        f"{q.listed([name for name, check in rows if check.outcome == outcome])}: {words}"
        for outcome, words in said.items()
        if any(check.outcome == outcome for _, check in rows)
    ]
    return f"Loss on {q.golden_label(report, golden_set)}. {'; '.join(parts) or 'No candidate was judged'}."


def interval_strip(check: Check | None, domain: _Domain, *, ident: str) -> str:
    """Draw one interval small, for a table cell; the empty string where there is no interval."""
    if check is None or check.bound is None:
        return ""
    canvas = _Canvas(
        ident, f"Loss in points: {_interval_words(check)}; {_margin_words(check.margin)}", False, width=190
    )
    scale = _Scale(domain, (6, 184))
    _band(canvas, scale, (0, 28), check.margin)
    _interval(canvas, scale, 14, check)
    return canvas.svg(28)


def strip_axis(domain: _Domain, margin: float | None, *, ident: str) -> str:
    """Label the zero and the margin above a column of strips."""
    canvas = _Canvas(ident, f"Axis: zero and {_margin_words(margin)}", False, width=190)
    scale = _Scale(domain, (6, 184))
    canvas.note(scale(0), 13, "0", size=13, anchor="middle")
    if margin:
        canvas.note(scale(margin), 13, q.margin_points(margin), size=13, anchor="middle")
    return canvas.svg(16)


def loss_domain(rows: Iterable[tuple[Verdict, Check]]) -> _Domain:
    """Choose the stretch of losses to draw: zero and margin well apart, every candidate in it up to five margins."""
    rows = list(rows)
    margin = max((check.margin for _, check in rows if check.margin), default=0.03)
    near = [check for verdict, check in rows if verdict.role != "known_bad"]
    low = min([-margin, *(check.lower for check in near if check.lower is not None)])
    high = max([2 * margin, *(check.bound for check in near if check.bound is not None)])
    low, high = max(low, -3 * margin), min(high, 5 * margin)
    return low - 0.06 * (high - low), high + 0.06 * (high - low)


def _judged(report: Report, golden_set: str) -> list[tuple[Verdict, Check]]:
    """Return the variants with a quality check on the set, candidates first."""
    found = [
        (verdict, check)
        for verdict in report.verdicts
        for check in verdict.checks
        if q.is_quality(check) and q.golden_label(report, q.check_set(check)) == q.golden_label(report, golden_set)
    ]
    return sorted(found, key=lambda pair: q.is_control(pair[0].role))


def _loss_axes(canvas: _Canvas, scale: _Scale, rows: _Domain, checks: Sequence[Check]) -> None:
    check = next((one for one in checks if one.margin is not None), None)
    margin = None if check is None else check.margin
    a_point = 1 if any(one.scale == "unbounded" for one in checks) else 100
    _band(canvas, scale, rows, margin)
    canvas.note(scale(0) - 4, rows[0] - 8, "no loss", anchor="end")
    if margin:
        canvas.note(scale(margin) + 4, rows[0] - 8, f"margin {q.margin_cell(check)}")
    for tick in _ticks(scale.domain[0] * a_point, scale.domain[1] * a_point, 7):
        x = scale(tick / a_point)
        canvas.line((x, rows[1]), (x, rows[1] + 4), stroke=_MUTED)
        canvas.note(x, rows[1] + 17, f"{tick:g}", size=11, anchor="middle")


def _band(canvas: _Canvas, scale: _Scale, rows: _Domain, margin: float | None) -> None:
    """Shade what is allowed; a solid line at zero, a dashed one at the margin."""
    if margin is not None:
        end = scale(margin)
        canvas.add("rect", x=scale.span[0], y=rows[0], width=end - scale.span[0], height=rows[1] - rows[0], fill=_BAND)
        canvas.line((end, rows[0]), (end, rows[1]), stroke=_INK, dash="4 3")
    canvas.line((scale(0), rows[0]), (scale(0), rows[1]), stroke=_MUTED)


def _interval(canvas: _Canvas, scale: _Scale, y: float, check: Check) -> None:
    """Draw bounds with end caps, arrows where they leave the stretch, and the estimate as a shape of its outcome."""
    ends = [value for value in (check.lower, check.estimate, check.bound) if value is not None]
    if not ends:
        return
    (low, high), (start, stop) = scale.domain, scale.span
    left, right = scale(min(ends)), scale(max(ends))
    canvas.line((min(max(left, start), stop - 16), y), (max(min(right, stop), start + 16), y), width=2)
    for value, x, beyond, inward in ((min(ends), left, min(ends) < low, 1), (max(ends), right, max(ends) > high, -1)):
        edge = start if inward == 1 else stop
        if beyond:
            canvas.polygon([(edge, y), (edge + 9 * inward, y - 5), (edge + 9 * inward, y + 5)])
        elif low <= value <= high:
            canvas.line((x, y - 5), (x, y + 5), width=2)
    if check.estimate is not None and low <= check.estimate <= high:
        _outcome_mark(canvas, scale(check.estimate), y, check.outcome)


def _outcome_mark(canvas: _Canvas, x: float, y: float, outcome: Outcome) -> None:
    """Mark a pass with a filled circle, a fail with a filled square, anything else with a hollow circle."""
    match outcome:
        case "pass":
            canvas.mark("circle", x, y, fill=_INK)
        case "fail":
            canvas.mark("square", x, y, fill=_INK)
        case _:
            canvas.mark("circle", x, y, fill="#ffffff")


def _interval_words(check: Check) -> str:
    if check.bound is None:
        return "not measured" if check.estimate is None else "not tested"
    like = check.margin if check.scale == "unbounded" else None
    low, high = q.loss(check.lower, check.scale, like=like, towards="down"), q.loss(check.bound, check.scale, like=like, towards="up")
    return f"{q.loss(check.estimate, check.scale, like=like)} ({low} to {high}), {q.level_percent(check.level)}"


def _margin_words(margin: float | None) -> str:
    return "no margin" if margin is None else f"margin {q.margin_points(margin)}"


def _short_word(verdict: Verdict) -> str:
    return q.verdict_word(verdict) if len(q.verdict_word(verdict)) < 22 else "CONTROL WRONG"


# ---------------------------------------------------------------------------------------------- memory


def memory_figure(report: Report, *, ident: str = "memory", heading: bool = True) -> str:
    """Draw what weights and other fixed memory take of the budget and what is left for requests, a bar per variant."""
    rows = [row for row in report.measurements if row.weight_bytes is not None]
    if not rows:
        return ""
    canvas = _Canvas(ident, memory_finding(report), heading)
    canvas.patterns()
    left, right, top, step = 170, 480, canvas.top + 26, 38
    bottom = top + step * len(rows)
    largest = max(_extent(row) for row in rows)
    unit, size = q.byte_column((largest,))
    scale = _Scale((0.0, largest * 1.02 / size), (left, right))
    for tick in _ticks(0.0, scale.domain[1], 5):
        canvas.line((scale(tick), top), (scale(tick), bottom + 4), stroke=_RULE)
        canvas.note(scale(tick), bottom + 17, f"{tick:,g}", size=11, anchor="middle")
    for index, row in enumerate(rows):
        _bar(canvas, scale, row, (top + step * index + 7, size))
    _budget_line(canvas, scale, rows, (top, bottom, size))
    canvas.note((left + right) / 2, bottom + 36, unit, anchor="middle")
    _legend(canvas, left, bottom + 58)
    return canvas.svg(bottom + 70)


def memory_finding(report: Report) -> str:
    """Say how much the chosen (else the first measured) candidate frees and how many requests then fit."""
    reference = next((row for row in report.measurements if row.role == "reference"), None)
    freed = [row for row in report.measurements if row.role == "candidate" and row.freed_bytes is not None]
    row = next((row for row in freed if row.variant == report.chosen), freed[0] if freed else None)
    if row is None:
        return "Memory by variant"
    said = f"{row.variant} frees {q.decimal_bytes(row.freed_bytes)} of weights"
    fits = q.batch_ceiling(row.ceiling)
    before = q.UNKNOWN if reference is None else q.batch_ceiling(reference.ceiling)
    return f"{said}." if q.UNKNOWN in (fits, before) else f"{said}: {fits} requests fit instead of {before}."


def _parts(row: MeasurementRow) -> tuple[int, int, int]:
    """Split a variant's memory into weights, other fixed bytes and room for requests; 0 is drawn as nothing."""
    weights, ceiling = row.weight_bytes or 0, row.ceiling
    if ceiling is None or ceiling.fixed_bytes is None:
        return weights, 0, 0
    room = 0 if ceiling.budget_bytes is None else max(0, ceiling.budget_bytes - ceiling.fixed_bytes)
    return weights, max(0, ceiling.fixed_bytes - weights), room


def _extent(row: MeasurementRow) -> int:
    budget = 0 if row.ceiling is None or row.ceiling.budget_bytes is None else row.ceiling.budget_bytes
    return max(budget, sum(_parts(row)))


def _bar(canvas: _Canvas, scale: _Scale, row: MeasurementRow, at: tuple[float, int]) -> None:
    y, size = at
    canvas.text(12, y + 16, q.shortened(row.variant, 18), weight=600)
    start = 0.0
    for value, fill in zip(_parts(row), (_MUTED, canvas.ref("hatch"), canvas.ref("dots")), strict=True):
        if value:
            x, end = scale(start), scale(start + value / size)
            canvas.add("rect", x=x, y=y, width=end - x, height=24, fill=fill, stroke=_INK, stroke_width=0.8)
            start += value / size
    canvas.text(494, y + 10, f"weights {q.decimal_bytes(row.weight_bytes)}", size=12)
    canvas.note(494, y + 25, _room_words(row))


def _room_words(row: MeasurementRow) -> str:
    if row.ceiling is None or row.ceiling.budget_bytes is None or row.ceiling.fixed_bytes is None:
        return "room for requests: not measured"
    room = q.decimal_bytes(_parts(row)[2])
    fits = q.batch_ceiling(row.ceiling)
    return f"room {room}" if fits == q.UNKNOWN else f"room {room}: {fits} requests"


def _budget_line(canvas: _Canvas, scale: _Scale, rows: Sequence[MeasurementRow], at: tuple[float, float, int]) -> None:
    budgets = {row.ceiling.budget_bytes for row in rows if row.ceiling is not None}
    if len(budgets) != 1 or None in budgets:
        return
    (budget,) = budgets
    x = scale((budget or 0) / at[2])
    canvas.line((x, at[0] - 4), (x, at[1]), stroke=_INK, dash="4 3")
    canvas.note(x, at[0] - 9, f"budget {q.decimal_bytes(budget)}", anchor="end")


def _legend(canvas: _Canvas, x: float, y: float) -> None:
    entries = (("weights", _MUTED, 90), ("other fixed memory", canvas.ref("hatch"), 160), ("room for requests", "", 0))
    for label, fill, advance in entries:
        fill = fill or canvas.ref("dots")
        canvas.add("rect", x=x, y=y - 10, width=16, height=12, fill=fill, stroke=_INK, stroke_width=0.8)
        canvas.text(x + 22, y, label, size=12)
        x += advance


# ---------------------------------------------------------------------------------------------- drawing
