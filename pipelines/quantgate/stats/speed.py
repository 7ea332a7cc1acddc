"""Is one thing slower than another? Both are timed in turn, and machines drift.

The unit is one quadruple A B B A: the logarithm of its ratio, in which a steady drift drops out. Runs inside a quadruple
share the machine's mood and quadruples do not, so only quadruples count: a t interval over them, four at least, with one
degree of freedom less than there are.

Timing goes on until something is shown, which is a second chance unless it was planned. The looks are fixed beforehand:
after 4, 6, 9, 14, 21, 32, ... quadruples. Look k is taken at the level alpha x (1 / k) / (1 + 1/2 + ... + 1 / K), so that
the levels of all K looks add up to alpha: whatever the looks have in common, and wherever one stops, at most alpha errs
(Bonferroni). Early looks get the larger parts, because most machines are quiet enough to end there. The bounds are the
tightest of those at the looks, so that they agree with the outcome. What was shown early stands only if the mean over all
quadruples agrees.

Source: Student, Biometrika 6 (1908); power by the noncentral t distribution, Johnson and Welch, Biometrika 31 (1940).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, fsum, inf, isfinite, sqrt

from scipy import special  # type: ignore[import-untyped, unused-ignore]

from quantgate.stats.inputs import checked_count, checked_share
from quantgate.stats.noninferiority import Decision
from quantgate.stats.proportions import Interval

LEAST = 4
"""Fewest quadruples on which anything is shown."""
SMALLEST_DEVIATION = 1e-4
"""Quadruples that agree more closely than to 0.01 % agree by the clock's coarseness: no interval is narrower than that allows."""
TOO_CLOSE = 0.2
"""A true loss within this share of the margin has no feasible number of quadruples."""
CAP = 10_000
"""More quadruples than this are not a plan."""
_GROWTH = 1.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """One look of the plan."""

    units: int
    """Quadruples seen at this look, those of earlier looks included."""
    level: float
    """The one-sided level it is taken at."""


def look_sizes(most: int) -> tuple[int, ...]:
    """Numbers of quadruples at which one looks: 4, then half as many again each time, the last `most`; empty under 4."""
    sizes = [LEAST] if checked_count(most, "the largest number of quadruples") >= LEAST else []
    while sizes and sizes[-1] < most:
        sizes.append(min(most, ceil(_GROWTH * sizes[-1])))
    return tuple(sizes)


def looks(sizes: Sequence[int], *, alpha: float) -> tuple[Look, ...]:
    """The plan at these sizes; the levels add up to alpha.

    Raises:
        ValueError: sizes that do not rise or lie under 2; alpha outside (0, 1).
    """
    level = checked_share(alpha, "alpha")
    counts = [checked_count(size, "a look's number of quadruples", at_least=2) for size in sizes]
    if any(after <= before for before, after in pairwise(counts)):
        raise ValueError(f"looks need rising numbers of quadruples, found {list(sizes)}")
    return tuple(Look(units=size, level=level * share) for size, share in zip(counts, _shares(len(counts)), strict=True))


def decide(losses: Sequence[float], *, margin: float, alpha: float, sizes: Sequence[int]) -> Decision:
    """Decide whether it is shown that the mean log ratio is at most the margin, over the looks reached so far.

    Args:
        losses: one log ratio a quadruple, in the order they were timed; positive is worse.
        margin: the largest loss allowed, as a logarithm; negative where a gain is asked for.
        alpha: one-sided level over all looks together.
        sizes: of all planned looks, also those to come.

    Quadruples behind the last look reached count in the estimate and in nothing else. With fewer than the first look
    nothing is shown, and `reason` says so; the bounds are infinite then.

    Raises:
        ValueError: no quadruple (not measured), a log ratio or margin that is not finite; otherwise as `looks`.
    """
    values, limit = _checked(losses), _finite(margin)
    reached = [one for one in looks(sizes, alpha=alpha) if one.units <= len(values)]
    estimate = fsum(values) / len(values)
    p_pass, p_fail = (_over_looks(values, sizes, limit, sign) for sign in (1, -1))
    lower = max((_bound(values[: one.units], one.level, -1) for one in reached), default=-inf)
    upper = min((_bound(values[: one.units], one.level, 1) for one in reached), default=inf)
    shown = (p_pass <= alpha, p_fail <= alpha)
    return Decision(
        outcome="pass" if shown == (True, False) else "fail" if shown == (False, True) else "inconclusive",
        estimate=estimate,
        lower=min(lower, estimate),
        upper=max(upper, estimate),
        p_pass=p_pass,
        p_fail=p_fail,
        level=alpha,
        reason=None if reached else _too_few(len(values), sizes),
    )


def interval(losses: Sequence[float], *, alpha: float) -> Interval | None:
    """Both one-sided (1 - alpha) t bounds of the mean log ratio; None with fewer than four quadruples."""
    values, level = _checked(losses), checked_share(alpha, "alpha")
    if len(values) < LEAST:
        return None
    return Interval(lower=_bound(values, level, -1), upper=_bound(values, level, 1))


def deviation(losses: Sequence[float]) -> float | None:
    """Standard deviation of the log ratios, about the coefficient of variation of a single run where runs are independent.

    None for fewer than two quadruples.
    """
    values = _checked(losses)
    if len(values) < 2:
        return None
    mean = fsum(values) / len(values)
    return sqrt(fsum((one - mean) ** 2 for one in values) / (len(values) - 1))


def units_needed(
    *, deviation: float, margin: float, true_loss: float = 0.0, alpha: float = 0.05, power: float = 0.8
) -> int | None:
    """Fewest units, two at least, with which one look at level alpha passes with probability `power`.

    None: no feasible number, because the true loss lies within a fifth of the margin of it or beyond, or over 10,000.

    Raises:
        ValueError: a deviation that is not above 0, a margin or loss that is not finite; alpha or power outside (0, 1).
    """
    spread, level, wanted = _finite(deviation), checked_share(alpha, "alpha"), checked_share(power, "power")
    room = _finite(margin) - _finite(true_loss)
    if spread <= 0:
        raise ValueError(f"a deviation must lie above 0, found {deviation}")
    if room <= 0 or room < TOO_CLOSE * abs(margin) or _power(CAP, room / spread, level) < wanted:
        return None
    low, high = 1, 2
    while _power(high, room / spread, level) < wanted:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _power(middle, room / spread, level) >= wanted else (middle, high)
    return high


def asked_for(*, cv: float, margin: float, alpha: float = 0.05, power: float = 0.8) -> int | None:
    """Pairs A B that are asked for where single runs vary by `cv` of their mean: such a pair's log ratio by sqrt(2) x cv.

    As many quadruples are enough, since each holds two pairs; what a machine's mood adds inside a quadruple is thereby
    allowed for. The floor of four is the caller's, and None as in `units_needed`.
    """
    return units_needed(deviation=sqrt(2) * _finite(cv), margin=margin, alpha=alpha, power=power)


def _shares(number: int) -> list[float]:
    """Parts of alpha, one a look, that add up to 1 or, by rounding, a little less."""
    total = fsum(1 / k for k in range(1, number + 1)) * (1 + 1e-12)
    return [1 / k / total for k in range(1, number + 1)]


def _over_looks(values: list[float], sizes: Sequence[int], margin: float, sign: int) -> float:
    """P-value over all looks: sign 1 of "the loss is at least the margin", sign -1 of "at most"."""
    if sign * (fsum(values) / len(values) - margin) >= 0:
        return 1.0
    found = [
        _tail(values[:size], margin, sign) / share
        for size, share in zip(sizes, _shares(len(sizes)), strict=True)
        if size <= len(values)
    ]
    return min([1.0, *found])


def _tail(values: list[float], margin: float, sign: int) -> float:
    mean, error = _mean_and_error(values)
    return float(special.stdtr(len(values) - 1, sign * (mean - margin) / error))


def _bound(values: list[float], level: float, sign: int) -> float:
    mean, error = _mean_and_error(values)
    return mean - sign * float(special.stdtrit(len(values) - 1, level)) * error


def _mean_and_error(values: list[float]) -> tuple[float, float]:
    return fsum(values) / len(values), max(deviation(values) or 0.0, SMALLEST_DEVIATION) / sqrt(len(values))


def _power(units: int, effect: float, alpha: float) -> float:
    """Probability that a t test over so many units passes; effect: room to the margin in deviations of one unit."""
    critical = float(special.stdtrit(units - 1, 1 - alpha))
    shift = effect * sqrt(units)
    if shift > critical + 30:  # nctdtr loses its digits out here, and the power is 1 to all of them
        return 1.0
    return 1 - float(special.nctdtr(units - 1, shift, critical))


def _too_few(units: int, sizes: Sequence[int]) -> str:
    first = f"the first planned look is at {sizes[0]}" if sizes else "no look was planned"
    return f"there {'is' if units == 1 else 'are'} {units} quadruple{'' if units == 1 else 's'}, and {first}"


def _checked(losses: Sequence[float]) -> list[float]:
    values = [_finite(one) for one in losses]
    if not values:
        raise ValueError("expected at least one quadruple, found none")
    return values


def _finite(value: float) -> float:
    found = float(value)
    if not isfinite(found):
        raise ValueError(f"expected a finite number, found {value!r}")
    return found
