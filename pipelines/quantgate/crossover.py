"""Where a ratio of speeds goes through 1 along the batch sizes. Knows ratios at batch sizes, and nothing of how they were measured.

Between two measured batches the logarithm of the ratio is taken as a straight line over the logarithm of the batch, so that swapping the
two models gives the same place. A place is only ever told between measured batches, never beyond them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import exp, log

from quantgate.records import Crossover


@dataclass(frozen=True, kw_only=True, slots=True)
class RatioAt:
    """Variant over reference at one batch size, with its interval where there is one."""

    batch_size: int
    ratio: float
    low: float | None = None
    high: float | None = None
    level: float | None = None


def crossover(found: Sequence[RatioAt]) -> Crossover:
    """What the ratios say, in order of batch size. Ratios must be positive; two at one batch size are a mistake of the caller's.

    Where every batch has an interval, the place has one too: from where the bound nearer to 1 crosses to where the other does. Ratios
    whose intervals all hold 1 are told apart from nothing: ``even``.
    """
    points = sorted(found, key=lambda one: one.batch_size)
    if not points:
        return Crossover(kind="not_measured", why_not="no batch size was timed beside the reference")
    if any(one.ratio <= 0 for one in points):
        return Crossover(kind="not_measured", why_not="a ratio of speeds is not positive")
    known = all(one.low is not None and one.high is not None and one.low > 0 for one in points)
    level = points[0].level if known else None
    base = Crossover(kind="even", level=level, smallest=points[0].batch_size, largest=points[-1].batch_size)
    if known and all((one.low or 0) <= 1 <= (one.high or 0) for one in points):
        return base
    places = _places([(one.batch_size, one.ratio) for one in points])
    if not places:
        if all(one.ratio == 1 for one in points):
            return base
        return replace(base, kind="faster" if max(one.ratio for one in points) > 1 else "slower")
    if len(places) > 1:
        why = "the ratio goes through 1 more than once"
        return replace(base, kind="several", batch=places[0][0], falls=places[0][1], why_no_interval=why)
    low, high, why_none = _interval(points, known, falls=places[0][1])
    return replace(base, kind="crosses", batch=places[0][0], falls=places[0][1], low=low, high=high, why_no_interval=why_none)


def _places(points: Sequence[tuple[int, float]]) -> list[tuple[float, bool]]:
    """Each batch at which a line of ratios goes through 1, and whether it falls there. Touching 1 without passing it is no place."""
    sides = [(batch, log(ratio)) for batch, ratio in points if ratio != 1]
    return [(_between(points, left, right), left[1] > 0) for left, right in pairwise(sides) if (left[1] > 0) != (right[1] > 0)]


def _between(points: Sequence[tuple[int, float]], left: tuple[int, float], right: tuple[int, float]) -> float:
    """Where the line is 1: on a measured batch that is exactly 1, in the middle of several such, else on the straight line."""
    level = [batch for batch, ratio in points if ratio == 1 and left[0] < batch < right[0]]
    if level:
        return exp((log(level[0]) + log(level[-1])) / 2)
    share = left[1] / (left[1] - right[1])
    return exp(log(left[0]) + share * (log(right[0]) - log(left[0])))


def _interval(points: Sequence[RatioAt], known: bool, *, falls: bool) -> tuple[float | None, float | None, str | None]:
    """Where the two bounds go through 1. A falling ratio's lower bound does so first; a rising one's upper bound."""
    if not known:
        return None, None, "not every batch has an interval of its ratio: more quadruples give one"
    lows = _places([(one.batch_size, one.low or 1.0) for one in points])
    highs = _places([(one.batch_size, one.high or 1.0) for one in points])
    first, second = (lows, highs) if falls else (highs, lows)
    if len(first) > 1 or len(second) > 1:
        return None, None, "a bound of the ratio goes through 1 more than once"
    low, high = (first[0][0] if first else None), (second[0][0] if second else None)
    if low is None or high is None:
        end = "below" if low is None and high is not None else "above" if high is None and low is not None else "on both sides of"
        return low, high, f"the interval reaches {end} the batches that were timed"
    return low, high, None
