"""Tango's score statistic and interval for the loss between two paired proportions.

b items got worse, c got better, of n; loss L = (b - c) / n. The statistic compares L with a hypothesised loss D, with
the variance that fits D best. Its own normal bounds are asymptotic: `paired` builds the exact decision on the same
statistic. Here b, c and n may be fractions (sums of graded losses and gains, or counts divided by a design effect).

Source: Tango, Statistics in Medicine 17 (1998) 891-908.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quantgate.stats.inputs import checked_amounts
from quantgate.stats.proportions import Interval

Floats = NDArray[np.float64]


def restricted_recovery_rate(b: ArrayLike, c: ArrayLike, n: float, loss: float) -> Floats:
    """Most likely probability of a recovery if the true loss is `loss`; b and c broadcast.

    The larger root of 2n q^2 + (-b - c + (2n - b + c) D) q - c D (1 - D) = 0, at least max(0, -D). D < 0 goes through
    the mirror (swap b and c, change the sign of D), which is the same number without the cancellation.
    """
    if loss < 0:
        return restricted_recovery_rate(c, b, n, -loss) - loss
    b, c = np.asarray(b, dtype=float), np.asarray(c, dtype=float)
    linear = (2 * n - b + c) * loss - b - c
    constant = -c * loss * (1 - loss)
    root = np.sqrt(np.maximum(linear * linear - 8 * n * constant, 0.0))
    stable = -2 * constant / np.where(linear > 0, linear + root, 1.0)
    rate: Floats = np.where(linear > 0, stable, (root - linear) / (4 * n))
    return np.maximum(rate, 0.0)


def tango_statistic(b: ArrayLike, c: ArrayLike, n: float, loss: float) -> Floats:
    """T(D) = (b - c - nD) / sqrt(n (2q + D (1 - D))); b and c broadcast; loss D in [-1, 1].

    Falls as D rises, rises with b. 0 where numerator and variance both vanish, infinite where only the variance does.
    """
    excess = np.asarray(b, dtype=float) - np.asarray(c, dtype=float) - n * loss
    variance = n * (2 * restricted_recovery_rate(b, c, n, loss) + loss * (1 - loss))
    known = variance > 1e-12 * n
    degenerate = np.where(np.abs(excess) <= 1e-9 * n, 0.0, np.copysign(np.inf, excess))
    statistic: Floats = np.where(known, excess / np.sqrt(np.where(known, variance, 1.0)), degenerate)
    return statistic


def tango_bounds(*, b: float, c: float, n: float, critical: float) -> Interval:
    """Find the losses at which T = +critical (lower) and T = -critical (upper), to 1e-12.

    Edge cases: b = n has upper bound 1, c = n has lower bound -1; b = c = 0 still has a width.

    Raises:
        ValueError: counts not finite, negative, or b + c above n; critical not finite.
    """
    b, c, n = checked_amounts(b, c, n)
    if not np.isfinite(critical):
        raise ValueError(f"critical value must be finite, found {critical}")
    lower = -1.0 if c >= n else _last_true(lambda loss: bool(tango_statistic(b, c, n, loss) >= critical))
    upper = 1.0 if b >= n else _last_true(lambda loss: bool(tango_statistic(b, c, n, loss) >= -critical))
    return Interval(lower=lower, upper=upper)


def _last_true(holds: Callable[[float], Any]) -> float:
    """Where a condition on the loss stops holding, on [-1, 1]; 42 halvings reach 1e-12."""
    low, high = -1.0, 1.0
    for _ in range(42):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return high
