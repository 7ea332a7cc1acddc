"""Probabilities of regions against a plain sum over every outcome."""

from math import comb

import numpy as np
import pytest

from quantgate.stats.lattice import flip_grid, flip_window, largest_regressions, region_probability
from quantgate.stats.tango import tango_statistic


@pytest.mark.parametrize(("loss", "rate"), [(0.05, 0.05), (0.05, 0.2), (-0.1, 0.3), (0.0, 1.0), (0.3, 0.9)])
def test_region_probability_is_the_plain_sum(loss: float, rate: float) -> None:
    """The vectorised sum equals the trinomial sum over the outcomes of the region."""
    n, limit = 13, -0.4
    flips = np.arange(n + 1)
    largest = largest_regressions(n, loss, flips, limit)
    plain = 0.0
    for b in range(n + 1):
        for c in range(n + 1 - b):
            if float(tango_statistic(b, c, n, loss)) <= limit:
                ways = comb(n, b) * comb(n - b, c)
                plain += ways * ((rate + loss) / 2) ** b * ((rate - loss) / 2) ** c * (1 - rate) ** (n - b - c)
    assert region_probability(n, loss, np.array([rate]), flips, largest)[0] == pytest.approx(plain, abs=1e-12)


def test_the_whole_lattice_has_probability_one() -> None:
    """All outcomes within the window add up to one, at small and large n and at the ends of the flip rate."""
    for n in (1, 30, 5_000):
        for rate in (0.0, 1e-4, 0.05, 0.7, 1.0):
            flips = flip_window(n, rate, rate)
            assert region_probability(n, 0.0, np.array([rate]), flips, flips)[0] == pytest.approx(1.0, abs=1e-9)


def test_grid_covers_its_ends_and_ascends() -> None:
    """The grid holds both ends exactly and never steps back."""
    grid = flip_grid(0.01, 0.4, 49)
    assert (grid[0], grid[-1]) == (0.01, 0.4)
    assert np.all(np.diff(grid) > 0)
