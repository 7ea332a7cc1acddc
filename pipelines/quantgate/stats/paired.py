"""Exact decision about the loss between two paired proportions, and the bounds that agree with it.

Tango's statistic orders the outcomes; the p-value is exact and unconditional: the largest probability, over the flip
rate that is not known, of an outcome at least as extreme. Only flip rates in a (1 - gamma) interval around the one seen
are searched, and gamma is added to the p-value, which keeps it valid.

Outcomes are whole numbers, so as a function of the loss asked about the p-value falls with small rises between. A bound
is therefore found on the side of the margin that the decision itself names, and never contradicts it.

Sources: Tango, Statistics in Medicine 17 (1998); Berger and Boos, JASA 89 (1994); Clopper and Pearson (1934).
"""

from fractions import Fraction
from functools import lru_cache
from math import log

import numpy as np
from scipy import special  # type: ignore[import-untyped, unused-ignore]

from quantgate.stats.inputs import Number, checked_counts, checked_margin, checked_share
from quantgate.stats.lattice import Floats, flip_grid, flip_window, largest_regressions, region_probability
from quantgate.stats.proportions import clopper_pearson_arrays
from quantgate.stats.rootfinding import falling_root
from quantgate.stats.tango import tango_bounds, tango_statistic

GAMMA = 1e-4
"""Error spent on the flip rate's interval; no p-value is smaller, so no level at or below it can be met."""
_GRID, _FINER = 49, (17, 17)
_BOUND_TOLERANCE = 1e-7


def p_loss_at_least(*, b: int, c: int, n: int, margin: Number) -> float:
    """Exact p-value of "the true loss is at least the margin"; small: shown that less is lost.

    1.0 when the estimate (b - c) / n is at or above the margin, compared as exact fractions.

    Raises:
        ValueError: counts negative, not whole or b + c > n, n < 1; margin outside (0, 1).
    """
    return _p_at_least(*checked_counts(b, c, n), checked_margin(margin))


def p_loss_at_most(*, b: int, c: int, n: int, margin: Number) -> float:
    """Exact p-value of "the true loss is at most the margin"; small: shown that more is lost.

    The mirror of `p_loss_at_least`: 1.0 when the estimate is at or below the margin.

    Raises:
        ValueError: as `p_loss_at_least`.
    """
    b, c, n = checked_counts(b, c, n)
    return _p_at_least(c, b, n, -checked_margin(margin))


def loss_upper(*, b: int, c: int, n: int, alpha: float, margin: Number | None = None) -> float:
    """Exact one-sided upper bound of the loss: where its p-value falls to alpha, to 1e-7 and rounded up.

    With `margin` the bound agrees with the decision by construction: upper <= margin exactly when `p_loss_at_least` is
    <= alpha. b = n has the bound 1; so has every outcome when alpha < GAMMA.

    Raises:
        ValueError: as `p_loss_at_least`, or alpha outside (0, 1).
    """
    b, c, n = checked_counts(b, c, n)
    alpha = checked_share(alpha, "alpha")
    return _upper(b, c, n, alpha, None if margin is None else checked_margin(margin))


def loss_lower(*, b: int, c: int, n: int, alpha: float, margin: Number | None = None) -> float:
    """Exact one-sided lower bound of the loss, the mirror of `loss_upper`; c = n has the bound -1.

    Raises:
        ValueError: as `loss_upper`.
    """
    b, c, n = checked_counts(b, c, n)
    alpha = checked_share(alpha, "alpha")
    return -_upper(c, b, n, alpha, None if margin is None else -checked_margin(margin))


@lru_cache(maxsize=4096)
def _p_at_least(b: int, c: int, n: int, loss: Fraction | float) -> float:
    """P-value of "true loss >= loss" for any loss in [-1, 1]. Kept: a bound's search, its decision and a report ask for the same ones."""
    if Fraction(b - c, n) >= loss:
        return 1.0
    loss = float(loss)
    low, high = (float(end) for end in clopper_pearson_arrays(b + c, n, GAMMA))
    low = max(low, abs(loss))
    if low > high:
        return GAMMA
    return min(1.0, GAMMA + _largest_tail(n, loss, float(tango_statistic(b, c, n, loss)), (low, high)))


def _largest_tail(n: int, loss: float, seen: float, rates: tuple[float, float]) -> float:
    """Find the largest P(T <= seen) over the flip rates: a grid, then finer ones around its maximum."""
    flips = flip_window(n, *rates)
    largest = largest_regressions(n, loss, flips, seen)

    def tail(grid: Floats) -> Floats:
        return region_probability(n, loss, grid, flips, largest)

    grid, best = flip_grid(*rates, _GRID), 0.0
    for points in (_GRID, *_FINER):
        heights = tail(grid)
        top = int(np.argmax(heights))
        best = max(best, float(heights[top]))
        grid = flip_grid(grid[max(top - 1, 0)], grid[min(top + 1, points - 1)], _FINER[0])
    return best


def _upper(b: int, c: int, n: int, alpha: float, known: Fraction | None) -> float:
    """Where the p-value of "true loss >= D" falls to alpha; searched on one side of `known` if given."""
    if b == n or alpha < GAMMA:
        return 1.0

    def height(loss: float) -> float:
        return log(_p_at_least(b, c, n, loss) / alpha)

    start = tango_bounds(b=b, c=c, n=n, critical=-float(special.ndtri(alpha))).upper
    low, high = (b - c) / n, 1.0
    if known is not None and low < known:
        passed = _p_at_least(b, c, n, known) <= alpha
        low, high = (low, float(known)) if passed else (float(known), high)
    return falling_root(height, low, high, start, _BOUND_TOLERANCE)
