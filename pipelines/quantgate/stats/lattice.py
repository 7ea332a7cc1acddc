"""Probabilities on the lattice of outcomes (b regressions, c recoveries) of n paired items.

Two numbers describe the truth: the flip rate d = P(item flips) and the loss L = P(regression) - P(recovery), |L| <= d.
Flips t = b + c are Binomial(n, d); given t flips, b is Binomial(t, (1 + L / d) / 2). A *region* is, for each t, "b at
most so many": every region of Tango's statistic has that shape, because the statistic rises with b at fixed t.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import special  # type: ignore[import-untyped, unused-ignore]

from quantgate.stats.tango import tango_statistic

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NEGLIGIBLE = 1e-13
"""Probability of one flip count that is left out; thousands of them stay far below the 1e-4 of Berger and Boos."""
TIE = 1e-9
"""Statistics closer than this are the same point of the order; counting one more is the careful side."""


def flip_window(n: int, rate_low: float, rate_high: float, width: float = 7.0) -> Ints:
    """List the flip counts to expect at rates from low to high: `width` standard deviations, and 20 more."""
    low = n * rate_low - width * np.sqrt(n * rate_low * (1 - rate_low)) - 20
    high = n * rate_high + width * np.sqrt(n * rate_high * (1 - rate_high)) + 20
    return np.arange(max(0, int(low)), min(n, int(high) + 1) + 1)


def flip_grid(low: float, high: float, points: int) -> Floats:
    """Flip rates from low to high: even on the arcsine scale (one standard error everywhere), dense near both ends."""
    ends = np.arcsin(np.sqrt([low, high]))
    steps = (1 - np.cos(np.linspace(0, np.pi, points))) / 2
    grid: Floats = np.sin(ends[0] + (ends[1] - ends[0]) * steps) ** 2
    grid[0], grid[-1] = low, high
    return grid


def largest_regressions(n: int, loss: float, flips: Ints, at_most: float | Floats) -> Ints:
    """For each flip count the largest b whose statistic T(loss) is at most `at_most`; -1 where none is.

    `at_most` is one number or one per flip count; ties within `TIE` count as inside.
    """
    limit = at_most + TIE
    low, high = np.full(flips.shape, -1, dtype=np.int64), flips.astype(np.int64)
    while np.any(low < high):
        middle = (low + high + 1) // 2
        inside = tango_statistic(middle, flips - middle, n, loss) <= limit
        low, high = np.where(inside, middle, low), np.where(inside, high, middle - 1)
    return low


def flip_log_probability(n: int, flips: Ints, rates: Floats) -> Floats:
    """Return ln P(t flips of n), shape (flips, rates); -inf where impossible."""
    t = flips[:, None].astype(float)
    ways = special.gammaln(n + 1) - special.gammaln(t + 1) - special.gammaln(n - t + 1)
    logs: Floats = ways + special.xlogy(t, rates) + special.xlog1py(n - t, -rates)
    return logs


def region_probability(n: int, loss: float, rates: Floats, flips: Ints, largest: Ints) -> Floats:
    """P(b at most `largest[t]`) at a true loss, one value per flip rate; flip counts not listed add nothing.

    Shapes: rates (R,), flips and largest (F,); result (R,). Needs |loss| <= every rate.
    """
    weights = np.exp(flip_log_probability(n, flips, rates))
    recovery = np.clip((1 - loss / np.maximum(rates, 1e-300)) / 2, 0.0, 1.0)
    row, column = np.nonzero((weights > NEGLIGIBLE) & (largest >= 0)[:, None])
    below = np.ones(row.size)
    inner = np.flatnonzero(largest[row] < flips[row])
    b, t = largest[row[inner]], flips[row[inner]]
    below[inner] = special.betainc(t - b, b + 1.0, recovery[column[inner]])
    sums: Floats = np.bincount(column, weights=below * weights[row, column], minlength=rates.size).astype(np.float64)
    return sums
