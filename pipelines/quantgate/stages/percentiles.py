"""Middle and tail of measured values, of which some may be missing. Knows no unit and nothing of what was measured."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median


def median_of_known(values: Iterable[float | None]) -> float | None:
    """The median of those that are known; None where none is."""
    known = [value for value in values if value is not None]
    return median(known) if known else None


def percentile(values: Iterable[float], percent: int) -> float | None:
    """By nearest rank: the smallest value that so many percent of them do not exceed, so one that was measured; None of nothing."""
    ordered = sorted(values)
    return ordered[-(-percent * len(ordered) // 100) - 1] if ordered else None
