"""Tokens a second over the batch size: a line a variant, its ceiling marked, and where it crosses the reference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from quantgate.records import Crossover, MeasurementRow, Report
from quantgate.render import plot, quantities as q
from quantgate.render.canvas import BAND, INK, Canvas, Scale, ticks

_HEIGHT = 250


@dataclass(frozen=True, kw_only=True, slots=True)
class _Series:
    variant: str
    points: tuple[tuple[int, float, float | None, float | None], ...]
    """Batch, tokens/s, low, high."""
    ceiling: int | None
    label: str


def throughput_figure(report: Report, *, ident: str = "throughput", heading: bool = True) -> str:
    """Draw tokens/s over the batch size for each timed variant; a thick bar marks its batch ceiling, a dashed rule a crossover."""
    series = [found for row in report.measurements if (found := _series(row)) is not None]
    if not series:
        return ""
    canvas = Canvas(ident, throughput_finding(report), heading)
    crossings = _crossings(report)
    top = canvas.top + 16 + 15 * len(crossings)
    batches = [point[0] for line in series for point in line.points]
    fastest = max(value for line in series for point in line.points for value in point[1:] if value is not None)
    across = plot.batch_scale(batches)
    up = Scale((0.0, fastest * 1.06), (top + _HEIGHT, top))
    for index, (variant, crossing) in enumerate(crossings):
        _crossing(canvas, across, (top, top - 15 * (len(crossings) - index)), (variant, crossing))
    values = ticks(0.0, up.domain[1], 6)
    plot.value_axis(canvas, up, values, [f"{value:,g}" for value in values])
    plot.batch_axis(canvas, across, top + _HEIGHT, batches)
    styles = plot.styles(report)
    ends = [_draw(canvas, (across, up), line, styles[line.variant]) for line in series]
    labels = [(line.label, styles[line.variant][0]) for line in series]
    plot.end_labels(canvas, ends, labels, (top, top + _HEIGHT))
    said = "requests in a batch, doubling scale; a thick bar is the batch ceiling"
    canvas.note((plot.LEFT + plot.RIGHT) / 2, top + _HEIGHT + 38, said, anchor="middle")
    canvas.note(14, top - 4, "tokens/s")
    return canvas.svg(top + _HEIGHT + 48)


def throughput_finding(report: Report) -> str:
    """Say what the chosen (else the first timed) candidate reaches at its own ceiling, beside the reference."""
    reference = plot.reference_row(report)
    timed = [row for row in report.measurements if row.tokens_per_s_at_ceiling is not None]
    row = plot.chosen_row(report, timed)
    if row is None:
        return "Tokens per second over batch size"
    said = f"{row.variant} reaches {_at_ceiling(row)}"
    if reference is None or reference.tokens_per_s_at_ceiling is None or row.ratio_at_ceiling is None:
        return f"{said}."
    said = f"{said}, {q.ratio(row.ratio_at_ceiling)} the {_at_ceiling(reference)} of {reference.variant}."
    found = row.crossover
    if found is None or found.kind != "crosses":
        return said
    return f"{said} At equal batches it is the {'faster' if found.falls else 'slower'} one below batch {_batch(found.batch)} only."


def crossover_sentence(row: MeasurementRow, reference: str) -> str:
    """Where a variant becomes faster or slower than the reference, in one sentence; empty for a variant that has none."""
    found = row.crossover
    if found is None:
        return ""
    span = f"from batch {q.count(found.smallest)} to {q.count(found.largest)}"
    match found.kind:
        case "faster" | "slower":
            return f"{row.variant} is {found.kind} than {reference} at every batch that both were timed at ({span})."
        case "even":
            return f"{row.variant} is told apart from {reference} at no batch that both were timed at ({span})."
        case "several":
            return f"{row.variant} crosses {reference} more than once {span}, first near batch {_batch(found.batch)}: no one place is told."
        case "crosses":
            before, behind = ("faster", "slower") if found.falls else ("slower", "faster")
            place = f"{row.variant} is {before} than {reference} below batch {_batch(found.batch)} and {behind} above it"
            return f"{place} ({_interval(found)}; both were timed {span})."
        case _:
            return f"Where {row.variant} crosses {reference} is not known: {found.why_not}."


def _interval(found: Crossover) -> str:
    """The interval with its level, one end where the other lies beyond what was timed, or why there is none."""
    level = "" if found.level is None else f" at {q.level_percent(found.level)}"
    if found.low is not None and found.high is not None:
        return f"{_batch(found.low)} to {_batch(found.high)}{level}"
    end = f"above {_batch(found.low)}{level}, " if found.low is not None else f"below {_batch(found.high)}{level}, " if found.high else ""
    return f"{end or 'no interval: '}{found.why_no_interval}"


def _batch(value: float | None) -> str:
    return q.significant(value, 2)


def _crossings(report: Report) -> list[tuple[str, Crossover]]:
    rows = plot.timed_rows(report)
    return [(row.variant, row.crossover) for row in rows if row.crossover is not None and row.crossover.kind == "crosses"]


def _crossing(canvas: Canvas, across: Scale, rows: tuple[float, float], crossing: tuple[str, Crossover]) -> None:
    """A dashed rule with its label above; the interval, where there is one, is a shaded band."""
    variant, found = crossing
    if found.batch is None:
        return
    x = across(math.log2(found.batch))
    if found.low is not None and found.high is not None:
        start, end = across(math.log2(found.low)), across(math.log2(found.high))
        canvas.add("rect", x=start, y=rows[0], width=end - start, height=_HEIGHT, fill=BAND)
    canvas.line((x, rows[1] + 2), (x, rows[0] + _HEIGHT), stroke=INK, dash="3 4")
    left = x <= (plot.LEFT + plot.RIGHT) / 2
    said = f"{variant} crosses at batch {_batch(found.batch)}"
    canvas.note(x + (5 if left else -5), rows[1] + 7, said, size=11, anchor="start" if left else "end")


def _at_ceiling(row: MeasurementRow) -> str:
    return f"{q.per_s(row.tokens_per_s_at_ceiling)} tokens/s at batch {q.batch_ceiling(row.ceiling)}"


def _series(row: MeasurementRow) -> _Series | None:
    points = [
        (speed.batch_size, speed.output_tokens_per_s, speed.output_tokens_per_s_low, speed.output_tokens_per_s_high)
        for speed in row.speed
        if speed.output_tokens_per_s is not None and speed.batch_size > 0
    ]
    ceiling = row.ceiling.confirmed if row.ceiling is not None else None
    at_ceiling = row.tokens_per_s_at_ceiling
    if ceiling and at_ceiling is not None and ceiling not in [point[0] for point in points]:
        points.append((ceiling, at_ceiling, None, None))
    if not points:
        return None
    label = f"{q.shortened(row.variant, 14)}: "
    label += (
        _at_ceiling(row).replace(" tokens/s at batch", " at") if at_ceiling is not None else "not timed at its ceiling"
    )
    return _Series(variant=row.variant, points=tuple(sorted(points)), ceiling=ceiling, label=label)


def _draw(canvas: Canvas, scales: tuple[Scale, Scale], line: _Series, style: plot.Style) -> plot.Spot:
    """Draw one variant and return where its line ends."""
    (across, up), (colour, dash, shape) = scales, style
    spots = [(across(math.log2(batch)), up(rate)) for batch, rate, _, _ in line.points]
    canvas.path(spots, colour, dash)
    for (x, y), (batch, _, low, high) in zip(spots, line.points, strict=True):
        if low is not None and high is not None:
            canvas.line((x, up(low)), (x, up(high)), stroke=colour)
        if batch == line.ceiling:
            canvas.line((x, y - 11), (x, y + 11), stroke=colour, width=4)
        canvas.mark(shape, x, y, fill=colour)
    return spots[-1]


def sentences(report: Report) -> Sequence[str]:
    """A sentence on each variant's crossover."""
    reference = plot.reference_row(report)
    name = "the reference" if reference is None else reference.variant
    return [said for row in report.measurements if (said := crossover_sentence(row, name))]
