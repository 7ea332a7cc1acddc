"""What plots over the batch size share: axes, one line a variant, labels that keep apart, and which variant is drawn how.

A variant has the same colour, dash and marker in every figure of a report, so that a reader learns them once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from quantgate.records import MeasurementRow, Report
from quantgate.render import quantities as q
from quantgate.render.canvas import MUTED, RULE, SERIES, Canvas, Scale

LEFT, RIGHT, LABELS = 66, 500, 520
Style = tuple[str, str, str]
Spot = tuple[float, float]


def timed_rows(report: Report) -> list[MeasurementRow]:
    """The variants of which a speed is known, in the order of the run."""
    return [row for row in report.measurements if row.speed or row.tokens_per_s_at_ceiling is not None]


def styles(report: Report) -> Mapping[str, Style]:
    """Variant -> colour, dash and marker."""
    return {row.variant: SERIES[index % len(SERIES)] for index, row in enumerate(timed_rows(report))}


def batch_scale(batches: Sequence[int]) -> Scale:
    """A doubling scale over the batch sizes."""
    return Scale((math.log2(min(batches)), math.log2(max(max(batches), 2 * min(batches)))), (LEFT, RIGHT))


def batch_axis(canvas: Canvas, across: Scale, base: float, batches: Sequence[int]) -> None:
    """Tick each batch size, and name those that have room."""
    shown = -math.inf
    for batch in sorted(set(batches)):
        x = across(math.log2(batch))
        canvas.line((x, base), (x, base + 4), stroke=MUTED)
        if x - shown >= 24:
            canvas.note(x, base + 17, q.count(batch), size=11, anchor="middle")
            shown = x


def value_axis(canvas: Canvas, up: Scale, values: Sequence[float], words: Sequence[str]) -> None:
    """Rule a line across for each value of the scale, with its words at the left."""
    for value, said in zip(values, words, strict=True):
        canvas.line((LEFT, up(value)), (RIGHT, up(value)), stroke=RULE)
        canvas.note(LEFT - 8, up(value) + 4, said, size=11, anchor="end")


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten within ``low``..``high``; powers alone over more than two decades."""
    factors = (1, 2, 5) if math.log10(high / low) <= 2 else (1,)
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    found = [factor * 10.0**power for power in powers for factor in factors]
    return [value for value in found if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]


def end_labels(canvas: Canvas, ends: Sequence[Spot], labels: Sequence[tuple[str, str]], rows: Spot) -> None:
    """Write each line's label (text and colour) at the right, as near to its end as the others allow, with a thin leader."""
    order = sorted(range(len(ends)), key=lambda index: ends[index][1])
    height, previous = 18.0, rows[0] - 18.0
    for rank, index in enumerate(order):
        latest = rows[1] - height * (len(order) - 1 - rank)
        y = max(min(ends[index][1], latest), previous + height)
        canvas.path([(ends[index][0] + 7, ends[index][1]), (LABELS - 12, y), (LABELS - 4, y)], RULE, "")
        canvas.text(LABELS, y + 4, labels[index][0], size=12, fill=labels[index][1])
        previous = y


def chosen_row(report: Report, rows: Sequence[MeasurementRow]) -> MeasurementRow | None:
    """The candidate that a finding is about: the chosen one, else the first."""
    candidates = [row for row in rows if row.role == "candidate"]
    return next((row for row in candidates if row.variant == report.chosen), candidates[0] if candidates else None)


def reference_row(report: Report) -> MeasurementRow | None:
    """The reference."""
    return next((row for row in report.measurements if row.role == "reference"), None)
