"""How long a user waits, over the batch size: for the first token, and for each token after it. Two panels on logarithmic scales."""

from __future__ import annotations

import math
from collections.abc import Callable

from quantgate.records import MeasurementRow, Report, SpeedRow
from quantgate.render import plot, quantities as q
from quantgate.render.canvas import Canvas, Scale

_HEIGHT = 150
_GAP = 64
_WIDEN = 1.15
Figure = Callable[[SpeedRow], float | None]


def latency_figure(report: Report, *, ident: str = "latency", heading: bool = True) -> str:
    """Draw time to the first token and time per token over the batch size; a variant's ceiling ends its line with a thick bar."""
    rows = [row for row in plot.timed_rows(report) if _points(row, _ttft) or _points(row, _tpot)]
    if not rows:
        return ""
    canvas = Canvas(ident, latency_finding(report), heading)
    batches = sorted({batch for row in rows for batch, _ in [*_points(row, _ttft), *_points(row, _tpot)]})
    across, styles = plot.batch_scale(batches), plot.styles(report)
    top = canvas.top + 22
    for title, figure in (("time per token after the first, ms", _tpot), ("time to the first token, prompts read, ms", _ttft)):
        _panel(canvas, (across, top), (title, figure), [(row, styles[row.variant]) for row in rows])
        plot.batch_axis(canvas, across, top + _HEIGHT, batches)
        top += _HEIGHT + _GAP
    said = "requests in a batch; both axes logarithmic; a thick bar is the batch ceiling"
    canvas.note((plot.LEFT + plot.RIGHT) / 2, top - _GAP + 38, said, anchor="middle")
    return canvas.svg(top - _GAP + 48)


def latency_finding(report: Report) -> str:
    """Say what a token takes with the chosen (else the first timed) candidate at its ends of the scale, and with the reference."""
    rows = [row for row in plot.timed_rows(report) if _points(row, _tpot)]
    row, reference = plot.chosen_row(report, rows), plot.reference_row(report)
    if row is None:
        return "Latency over batch size"
    said = f"A token takes {_range(row)} with {row.variant}"
    return f"{said}." if reference is None or not _points(reference, _tpot) else f"{said}; with {reference.variant} {_range(reference)}."


def _range(row: MeasurementRow) -> str:
    points = _points(row, _tpot)
    (least, first), (most, last) = points[0], points[-1]
    start = f"{q.milliseconds(first)} ms at batch {q.count(least)}"
    return start if least == most else f"{start} and {q.milliseconds(last)} ms at {q.count(most)}"


def _tpot(row: SpeedRow) -> float | None:
    return row.tpot_s


def _ttft(row: SpeedRow) -> float | None:
    return row.ttft_s


def _points(row: MeasurementRow, figure: Figure) -> list[tuple[int, float]]:
    found = [(speed.batch_size, value) for speed in row.speed if (value := figure(speed)) is not None and value > 0]
    return sorted(one for one in found if one[0] > 0)


def _panel(
    canvas: Canvas, at: tuple[Scale, float], drawn: tuple[str, Figure], rows: list[tuple[MeasurementRow, plot.Style]]
) -> None:
    """One figure of every variant; nothing but its title where none has it."""
    (across, top), (title, figure) = at, drawn
    lines = [(row, style, points) for row, style in rows if (points := _points(row, figure))]
    canvas.note(14, top - 9, title)
    if not lines:
        return
    values = [value * 1000 for _, _, points in lines for _, value in points]
    low, high = min(values) / _WIDEN, max(values) * _WIDEN
    up = Scale((math.log10(low), math.log10(high)), (top + _HEIGHT, top))
    marks = plot.log_ticks(low, high)
    plot.value_axis(canvas, up, [math.log10(mark) for mark in marks], [q.significant(mark, 1) for mark in marks])
    ends = []
    for row, (colour, dash, shape), points in lines:
        spots = [(across(math.log2(batch)), up(math.log10(value * 1000))) for batch, value in points]
        canvas.path(spots, colour, dash)
        for (x, y), (batch, _) in zip(spots, points, strict=True):
            if row.ceiling is not None and batch == row.ceiling.confirmed:
                canvas.line((x, y - 10), (x, y + 10), stroke=colour, width=4)
            canvas.mark(shape, x, y, fill=colour)
        ends.append(spots[-1])
    labels = [
        (f"{q.shortened(row.variant, 14)}: {q.milliseconds(points[-1][1])} ms at {q.count(points[-1][0])}", style[0])
        for row, style, points in lines
    ]
    plot.end_labels(canvas, ends, labels, (top + 4, top + _HEIGHT))
