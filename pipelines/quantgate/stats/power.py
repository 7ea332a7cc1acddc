"""What a set of a given size can resolve, before anything is measured.

Power is the probability of a pass, enumerated over the outcomes of the exact rule (no simulation, no normal
approximation). In n it is a saw-tooth, because outcomes are whole numbers: the answers here are sizes from which the
power stays, not the first lucky tooth.
"""

from collections.abc import Callable
from fractions import Fraction
from math import ceil, log, log1p, sqrt

import numpy as np
from scipy import special  # type: ignore[import-untyped, unused-ignore]

from quantgate.stats.acceptance import most_regressions_that_pass
from quantgate.stats.inputs import Number, checked_count, checked_margin, checked_share, exact
from quantgate.stats.lattice import flip_window, region_probability
from quantgate.stats.paired import GAMMA, p_loss_at_least
from quantgate.stats.rootfinding import falling_root

CAP = 200_000
"""More items than this are not a plan."""
TOO_CLOSE = Fraction(1, 5)
"""A true loss within this share of the margin has no feasible number of items."""
_WIDTH = 5.0
_TOLERANCE = 1e-5


def power(*, n: int, flip_rate: Number, margin: Number, true_loss: Number = 0, alpha: float = 0.05) -> float:
    """Probability that n items with this flip rate and true loss pass the margin at one-sided level alpha.

    With `true_loss` equal to the margin this is the type-I error.

    Raises:
        ValueError: n < 1; margin or alpha outside (0, 1); flip rate outside [|true_loss|, 1].
    """
    rate, loss = _checked_truth(flip_rate, true_loss)
    size = checked_count(n, "n", at_least=1)
    return _power(size, rate, float(checked_margin(margin)), loss, checked_share(alpha, "alpha"))


def items_needed(
    *, flip_rate: Number, margin: Number, true_loss: Number = 0, alpha: float = 0.05, power: float = 0.8, cap: int = CAP
) -> int | None:
    """Items from which the power stays at or above `power`; itself always at or above it (above 3,000 to 0.25 % of n).

    None: no feasible number, because the true loss lies within 0.2 margin of the margin or above it, because the number
    exceeds `cap`, or because alpha <= GAMMA.

    Source: first guess (z_(1-alpha) + z_power)^2 d / (m - L)^2, then the exact rule.

    Raises:
        ValueError: margin, alpha or power outside (0, 1); flip rate outside [|true_loss|, 1].
    """
    rate, loss = _checked_truth(flip_rate, true_loss)
    m, level, target = checked_margin(margin), checked_share(alpha, "alpha"), checked_share(power, "power")
    if m - exact(true_loss) <= TOO_CLOSE * m or level <= GAMMA:
        return None

    def reached(n: int) -> float:
        return _power(n, rate, float(m), loss, level)

    least = max(1, int(log(level - GAMMA) / log1p(-float(m))))
    crossing = _crossing(reached, rate, float(m) - loss, level, target, least, cap)
    return None if crossing is None else _stays(reached, crossing, rate, target, cap)


def items_without_a_flip(*, margin: Number, alpha: float = 0.05) -> int | None:
    """Find the fewest items that pass where nothing flips; fewer never pass, whatever is measured. None if alpha <= GAMMA.

    The only passing tail is "no flip", of probability (1 - margin)^n at most.

    Raises:
        ValueError: margin or alpha outside (0, 1).
    """
    m, level = float(checked_margin(margin)), checked_share(alpha, "alpha")
    if level <= GAMMA:
        return None
    n = max(1, int(log(level - GAMMA) / log1p(-m)))
    while p_loss_at_least(b=0, c=0, n=n, margin=margin) > level:
        n += 1
    return n


def smallest_margin(*, n: int, flip_rate: Number, alpha: float = 0.05, power: float = 0.8) -> float | None:
    """Find a margin that n items resolve at true loss 0, where 1e-5 less fails; None if 0.999 is not resolved.

    For few flips the power is a staircase with small dips: the answer is one of its last rises.

    Raises:
        ValueError: n < 1; flip rate outside [0, 1]; alpha or power outside (0, 1).
    """
    rate, _ = _checked_truth(flip_rate, 0)
    size, level, target = _checked_plan(n, alpha, power)

    def missing(margin: float) -> float:
        return target - _power(size, rate, margin, 0.0, level)

    guess = _z_sum(level, target) * sqrt(rate / size)
    return None if missing(0.999) > 0 else falling_root(missing, _TOLERANCE, 0.999, guess, _TOLERANCE)


def largest_flip_rate(*, n: int, margin: Number, alpha: float = 0.05, power: float = 0.8) -> float | None:
    """Find the largest flip rate that n items carry at true loss 0, to 1e-5, rounded down; None if not even 0.

    Raises:
        ValueError: n < 1; margin, alpha or power outside (0, 1).
    """
    m = float(checked_margin(margin))
    size, level, target = _checked_plan(n, alpha, power)

    def missing(kept: float) -> float:
        return target - _power(size, 1 - kept, m, 0.0, level)

    if missing(1.0) > 0:
        return None
    guess = 1 - size * (m / _z_sum(level, target)) ** 2
    return 1.0 if missing(0.0) <= 0 else 1 - falling_root(missing, 0.0, 1.0, guess, _TOLERANCE)


def _checked_truth(flip_rate: Number, true_loss: Number) -> tuple[float, float]:
    rate, loss = exact(flip_rate), exact(true_loss)
    if not abs(loss) <= rate <= 1:
        raise ValueError(f"flip_rate must lie between |true_loss| = {abs(float(loss))} and 1, found {flip_rate}")
    return float(rate), float(loss)


def _checked_plan(n: int, alpha: float, target: float) -> tuple[int, float, float]:
    return checked_count(n, "n", at_least=1), checked_share(alpha, "alpha"), checked_share(target, "power")


def _power(n: int, rate: float, margin: float, loss: float, alpha: float) -> float:
    flips = flip_window(n, rate, rate, _WIDTH)
    passing = most_regressions_that_pass(n, margin, alpha, flips)
    return float(region_probability(n, loss, np.array([rate]), flips, passing)[0])


def _z_sum(alpha: float, target: float) -> float:
    """z_(1-alpha) + z_power, at least 0.5 so that it can be divided by."""
    return max(0.5, -float(special.ndtri(alpha)) + float(special.ndtri(target)))


def _crossing(
    reached: Callable[[int], float], rate: float, gap: float, alpha: float, target: float, least: int, cap: int
) -> int | None:
    """Find a size with about the power asked for, never below `least`; None above the cap.

    Newton steps on the scale where the power is normal: sqrt(n) is proportional to z_(1-alpha) + z_power.
    """
    n = max(least, ceil(_z_sum(alpha, target) ** 2 * rate / gap**2))
    for _ in range(6):
        if n > 2 * cap:
            return None
        ratio = _z_sum(alpha, target) / _z_sum(alpha, min(max(reached(n), 0.02), 0.98))
        step = max(least, ceil(n * min(ratio, 2.0) ** 2))
        if abs(step - n) <= 0.005 * n:
            break
        n = step
    return n


def _stays(reached: Callable[[int], float], crossing: int, rate: float, target: float, cap: int) -> int | None:
    """Walk down from above the crossing, past every tooth, to the last size before the power drops below target."""
    tooth = 0.12 / sqrt(max(crossing * rate, 0.25))
    n = ceil(crossing * (1 + tooth)) + 1
    while reached(n) < target:
        n = ceil(n * (1 + tooth)) + 1
        if n > 2 * cap:
            return None
    stride = max(1, round(crossing * max(tooth / 24, 0.0025)))
    while n > stride and reached(n - stride) >= target:
        n -= stride
    n = n if stride > 8 else _halve(reached, max(n - stride, 0), n, target)
    return n if n <= cap else None


def _halve(reached: Callable[[int], float], below: int, n: int, target: float) -> int:
    """Find the first size that reaches the target inside a bracket."""
    while n - below > 1:
        middle = (n + below) // 2
        below, n = (below, middle) if reached(middle) >= target else (middle, n)
    return n
