"""Middle and tail of measured values, of which some may be missing. Knows no unit and nothing of what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, floor
from statistics import median


def median_of_known(values: Iterable[float | None]) -> float | None:
    """The median of those that are known; None where none is."""
    known = [value for value in values if value is not None]
    return median(known) if known else None


def percentile(values: Sequence[float], share: float) -> float | None:
    """The value under which this share of them lies, interpolated between neighbours; None of nothing."""
    ordered = sorted(values)
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    low, high = ordered[floor(place)], ordered[ceil(place)]
    return low + (high - low) * (place - floor(place))
