"""The roofline plot: operations a second over operations a byte, the measured roofs, and where each variant's decode steps lie.

Both axes are logarithmic. Left of the ridge memory is the roof, right of it arithmetic. A line goes through a variant's batch sizes,
whose numbers stand beside the first and the last; the nearer a mark lies to its roof, the less there is to win with another kernel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from quantgate.records import MAIN, MeasurementRow, Report, RooflineRow, RoofRate, Roofs
from quantgate.render import plot, quantities as q
from quantgate.render.canvas import INK, MUTED, RULE, Canvas, Scale

_HEIGHT = 270


@dataclass(frozen=True, kw_only=True, slots=True)
class _Axes:
    across: Scale
    up: Scale

    def at(self, intensity: float, rate: float) -> plot.Spot:
        """The place of a point."""
        return self.across(math.log10(intensity)), self.up(math.log10(rate))


def roofline_figure(report: Report, *, ident: str = "roofline", heading: bool = True) -> str:
    """Draw the roofs that were measured and the decode steps of every variant; the empty string without roofs or steps."""
    rows = [(row, points) for row in plot.timed_rows(report) if (points := _points(row))]
    read, multiplies = _drawn_roofs(report.roofs)
    if not rows or read is None or not multiplies:
        return ""
    canvas = Canvas(ident, roofline_finding(report), heading)
    top = canvas.top + 22
    axes = _axes([point for _, points in rows for point in points], read, multiplies, top)
    _frame(canvas, axes, top)
    _roofs(canvas, axes, read, multiplies)
    styles, ends = plot.styles(report), []
    for row, points in rows:
        ends.append(_draw(canvas, axes, points, styles[row.variant]))
    plot.end_labels(canvas, ends, [(_label(row, points), styles[row.variant][0]) for row, points in rows], (top, top + _HEIGHT))
    said = "operations a byte of a decode step, logarithmic; small numbers are batch sizes"
    canvas.note((plot.LEFT + plot.RIGHT) / 2, top + _HEIGHT + 38, said, anchor="middle")
    canvas.note(14, top - 9, "operations a second, logarithmic")
    return canvas.svg(top + _HEIGHT + 48)


def roofline_finding(report: Report) -> str:
    """Say which roof binds, and how near the reference and the chosen (else the first) candidate come to it."""
    rows = [row for row in plot.timed_rows(report) if _points(row)]
    if not rows:
        return "Speed against the device's roofs"
    bounds = {point.bound for row in rows for point in _points(row)}
    reference, chosen = plot.reference_row(report), plot.chosen_row(report, rows)
    shown = [row for row in (reference, chosen) if row is not None and _points(row)] or rows[:1]
    if bounds == {"memory"}:
        which = "Memory is the nearer roof at every timed batch"
    elif bounds == {"compute"}:
        which = "Arithmetic is the nearer roof at every timed batch"
    else:
        which = "Memory is the nearer roof at small batches, arithmetic at large ones"
    return f"{which}: {'; '.join(_reaches(row) for row in shown)}."


def _reaches(row: MeasurementRow) -> str:
    point = _points(row)[0]
    share = point.mbu if point.bound == "memory" else point.mfu
    what = "the bandwidth" if point.bound == "memory" else "the matrix rate"
    return f"{row.variant} uses {q.percent(share)} of {what} at batch {q.count(point.batch_size)}"


def _points(row: MeasurementRow) -> list[RooflineRow]:
    own = [one for one in row.roofline if one.workload == MAIN]  # a line goes through one workload's lengths
    found = [one for one in own if one.intensity and one.flops_per_s and one.intensity > 0 and one.flops_per_s > 0]
    return sorted(found, key=lambda one: one.batch_size)


def _drawn_roofs(roofs: Roofs | None) -> tuple[RoofRate | None, Sequence[RoofRate]]:
    """Memory beyond the cache, which is the slowest of the bandwidths, and every matrix rate."""
    if roofs is None or not roofs.reads:
        return None, ()
    return max(roofs.reads, key=lambda one: one.working_set_bytes), sorted(roofs.multiplies, key=lambda one: -one.median_per_s)


def _axes(points: Sequence[RooflineRow], read: RoofRate, multiplies: Sequence[RoofRate], top: float) -> _Axes:
    """Wide enough for every point, the ridge and the highest roof."""
    best = max(one.median_per_s for one in multiplies)
    intensities = [one.intensity or 1.0 for one in points]
    low, high = min(intensities) / 2, 2 * max([*intensities, best / read.median_per_s])
    rates = [one.flops_per_s or 1.0 for one in points]
    return _Axes(
        across=Scale((math.log10(low), math.log10(high)), (plot.LEFT, plot.RIGHT)),
        up=Scale((math.log10(min([*rates, low * read.median_per_s]) / 1.5), math.log10(best * 2.2)), (top + _HEIGHT, top)),
    )


def _frame(canvas: Canvas, axes: _Axes, top: float) -> None:
    low, high = (10.0**value for value in axes.up.domain)
    marks = [one for one in plot.log_ticks(low, high) if low <= one <= high]
    plot.value_axis(canvas, axes.up, [math.log10(one) for one in marks], [_tick(one) for one in marks])
    low, high = (10.0**value for value in axes.across.domain)
    for mark in plot.log_ticks(low, high):
        x = axes.across(math.log10(mark))
        canvas.line((x, top), (x, top + _HEIGHT + 4), stroke=RULE)
        canvas.note(x, top + _HEIGHT + 17, f"{mark:,g}", size=11, anchor="middle")


def _tick(value: float) -> str:
    """A round number with its prefix, as ``50 G``."""
    number, _, prefix = q.rate(value, "").partition(" ")
    return f"{float(number):g} {prefix}".strip()


def _roofs(canvas: Canvas, axes: _Axes, read: RoofRate, multiplies: Sequence[RoofRate]) -> None:
    """The slope of memory up to the highest rate, and each rate from its own ridge on, named on the line."""
    start = 10.0 ** axes.across.domain[0]
    best, bandwidth = multiplies[0].median_per_s, read.median_per_s
    left = max(start, 10.0 ** axes.up.domain[0] / bandwidth)
    first, last = axes.at(left, left * bandwidth), axes.at(best / bandwidth, best)
    canvas.line(first, last, width=2.5)
    at = (first[0] + 0.52 * (last[0] - first[0]), first[1] + 0.52 * (last[1] - first[1]))
    canvas.text(at[0] - 8, at[1] - 6, f"memory {q.rate(bandwidth, 'B/s')}", size=12, anchor="end", weight=600)
    for index, one in enumerate(multiplies):
        ridge, level = axes.at(one.median_per_s / bandwidth, one.median_per_s)
        canvas.line((ridge, level), (plot.RIGHT, level), width=2.5 if index == 0 else 1.5, stroke=INK if index == 0 else MUTED)
        y = level - 6 if index == 0 else level + 15  # lower roofs are named below their lines, each further left than the one above
        canvas.text(plot.RIGHT - 130 * max(0, index - 1), y, _roof_words(one), size=12, anchor="end", weight=600)
    _ridge(canvas, axes.at(best / bandwidth, best), best / bandwidth)


def _ridge(canvas: Canvas, at: plot.Spot, intensity: float) -> None:
    """Where the highest roofs meet."""
    base = canvas.top + 22 + _HEIGHT
    canvas.line(at, (at[0], base), stroke=MUTED, dash="2 4")
    canvas.note(at[0] + 5, base - 7, f"ridge {q.significant(intensity, 2)}", size=11)


def _roof_words(one: RoofRate) -> str:
    return f"{one.dtype} {q.rate(one.median_per_s, 'op/s' if 'int' in one.dtype else 'FLOP/s')}"


def _draw(canvas: Canvas, axes: _Axes, points: Sequence[RooflineRow], style: plot.Style) -> plot.Spot:
    colour, dash, shape = style
    spots = [axes.at(one.intensity or 1.0, one.flops_per_s or 1.0) for one in points]
    canvas.path(spots, colour, dash)
    for x, y in spots:
        canvas.mark(shape, x, y, fill=colour)
    for index in sorted({0, len(spots) - 1}):
        x, y = spots[index]
        canvas.text(x, y + 19, q.count(points[index].batch_size), size=11, fill=colour, anchor="middle")
    return spots[-1]


def _label(row: MeasurementRow, points: Sequence[RooflineRow]) -> str:
    first, last = points[0], points[-1]
    used = f"{q.percent(first.mbu)}" if first is last else f"{q.percent(first.mbu)} to {q.percent(last.mbu)}"
    return f"{q.shortened(row.variant, 14)}: MBU {used}"
