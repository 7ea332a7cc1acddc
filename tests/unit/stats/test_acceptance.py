"""The whole passing region against the one-by-one decision."""

import numpy as np
import pytest

from quantgate.stats.acceptance import most_regressions_that_pass
from quantgate.stats.lattice import flip_window
from quantgate.stats.paired import GAMMA, p_loss_at_least


@pytest.mark.parametrize(
    ("n", "margin", "alpha"), [(30, 0.1, 0.05), (52, 0.05, 0.05), (65, 0.04, 0.025), (90, 0.2, 0.3)]
)
def test_region_is_the_decision_for_every_outcome(n: int, margin: float, alpha: float) -> None:
    """For every number of flips, the largest b that passes passes, and one more does not."""
    largest = most_regressions_that_pass(n, margin, alpha, np.arange(n + 1))
    for t, b in enumerate(largest):
        if b >= 0:
            assert p_loss_at_least(b=int(b), c=int(t - b), n=n, margin=margin) <= alpha + 1e-5
        if b < t:
            assert p_loss_at_least(b=int(b) + 1, c=int(t - b) - 1, n=n, margin=margin) > alpha - 1e-5


def test_region_of_a_large_set_matches_on_its_edge() -> None:
    """At 2,000 items the fast region and the decision agree within 1e-4 of the level."""
    n, margin = 2_000, 0.02
    flips = flip_window(n, 0.08, 0.08, width=2.0)[::12]
    for t, b in zip(flips, most_regressions_that_pass(n, margin, 0.05, flips), strict=True):
        assert p_loss_at_least(b=int(b), c=int(t - b), n=n, margin=margin) <= 0.0501
        assert p_loss_at_least(b=int(b) + 1, c=int(t - b) - 1, n=n, margin=margin) > 0.0499


def test_no_region_at_or_below_gamma() -> None:
    """No outcome passes at a level that the search interval has used up."""
    assert np.all(most_regressions_that_pass(100, 0.05, GAMMA, np.arange(101)) == -1)
