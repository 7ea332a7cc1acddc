"""The outcomes that the production rule passes and fails, found by asking it about every outcome near the edge."""

from collections.abc import Callable
from functools import cache

import numpy as np

from quantgate.stats.paired import p_loss_at_least, p_loss_at_most

ALPHA = 0.05


@cache
def passing(n: int, margin: float) -> np.ndarray:
    """For each number of flips the most regressions that still pass; -1 where none do."""
    return _boundary(n, lambda b, c: p_loss_at_least(b=b, c=c, n=n, margin=margin) <= ALPHA)


@cache
def spared(n: int, margin: float) -> np.ndarray:
    """For each number of flips the most regressions that do not fail."""
    return _boundary(n, lambda b, c: p_loss_at_most(b=b, c=c, n=n, margin=margin) > ALPHA)


def flip_rates(margin: float) -> np.ndarray:
    """From the margin, where every flip is a regression, to 100 %."""
    return np.unique(np.concatenate([np.geomspace(margin, 1.0, 150), np.linspace(margin, 1.0, 150)]).clip(margin, 1.0))


def _boundary(n: int, holds: Callable[[int, int], bool]) -> np.ndarray:
    """For each number of flips the largest b for which a condition on (b, c) holds, walking along the edge."""
    found, b = [], -1
    for t in range(n + 1):
        b = min(b, t)
        while b >= 0 and not holds(b, t - b):
            b -= 1
        while b < t and holds(b + 1, t - b - 1):
            b += 1
        found.append(b)
    return np.array(found)
