"""Error rates of the production decision, by enumeration of every outcome (no simulation)."""

from collections.abc import Callable

import numpy as np
import pytest

from quantgate.stats.lattice import region_probability
from quantgate.stats.paired import p_loss_at_least, p_loss_at_most

ALPHA = 0.05
CASES = [(52, 0.05), (65, 0.04), (133, 0.02), (156, 0.02), (218, 0.03), (300, 0.03)]


def boundary(n: int, holds: Callable[[int, int], bool]) -> np.ndarray:
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


def flip_rates(margin: float) -> np.ndarray:
    """From the margin, where every flip is a regression, to 100 %."""
    return np.unique(np.concatenate([np.geomspace(margin, 1.0, 150), np.linspace(margin, 1.0, 150)]).clip(margin, 1.0))


@pytest.mark.parametrize(("n", "margin"), CASES)
def test_false_pass_at_the_margin(n: int, margin: float) -> None:
    """P(pass | true loss = margin) is at most alpha, whatever the flip rate."""
    passes = boundary(n, lambda b, c: p_loss_at_least(b=b, c=c, n=n, margin=margin) <= ALPHA)
    error = region_probability(n, margin, flip_rates(margin), np.arange(n + 1), passes)
    assert 0.02 < error.max() <= ALPHA


@pytest.mark.parametrize(("n", "margin"), CASES)
def test_false_fail_at_the_margin(n: int, margin: float) -> None:
    """P(fail | true loss = margin) is at most alpha, whatever the flip rate."""
    spared = boundary(n, lambda b, c: p_loss_at_most(b=b, c=c, n=n, margin=margin) > ALPHA)
    error = 1 - region_probability(n, margin, flip_rates(margin), np.arange(n + 1), spared)
    assert 0.02 < error.max() <= ALPHA
