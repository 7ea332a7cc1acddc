"""The exact decision: anchors, agreement of bound and decision, monotony, bad input."""

import time
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from quantgate.stats.lattice import largest_regressions, region_probability
from quantgate.stats.paired import GAMMA, loss_lower, loss_upper, p_loss_at_least, p_loss_at_most
from quantgate.stats.proportions import clopper_pearson
from quantgate.stats.tango import tango_statistic


def outcomes(seed: int, how_many: int) -> list[tuple[int, int, int, float]]:
    """Seeded (b, c, n, margin), from nothing flips to nearly everything flips."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(how_many):
        n, d = int(rng.choice([10, 21, 52, 65, 133])), float(rng.choice([0.02, 0.1, 0.4, 0.9]))
        b, c, _ = (int(k) for k in rng.multinomial(n, [d / 2, d / 2, 1 - d]))
        found.append((b, c, n, float(rng.choice([0.01, 0.02, 0.05, 0.1, 0.2]))))
    return found


@pytest.mark.parametrize(("n", "points"), [(10, 25.90), (100, 2.95), (300, 0.99)])
def test_upper_bound_without_a_flip(n: int, points: float) -> None:
    """Nothing flipped still leaves an upper bound, known from 1 - (alpha - gamma)^(1 / n)."""
    upper = loss_upper(b=0, c=0, n=n, alpha=0.05)
    assert upper * 100 == pytest.approx(points, abs=0.005)
    assert upper == pytest.approx(1 - (0.05 - GAMMA) ** (1 / n), abs=2e-7)


@pytest.mark.parametrize(("margin", "smallest"), [(0.01, 299), (0.02, 149), (0.03, 99), (0.05, 59)])
def test_smallest_n_that_passes_without_a_flip(margin: float, smallest: int) -> None:
    """One item fewer is inconclusive."""
    assert p_loss_at_least(b=0, c=0, n=smallest, margin=margin) <= 0.05
    assert p_loss_at_least(b=0, c=0, n=smallest - 1, margin=margin) > 0.05


@pytest.mark.parametrize(
    ("b", "c", "n", "margin"), [(2, 1, 52, 0.1), (0, 5, 21, 0.02), (9, 7, 133, 0.05), (30, 35, 65, 0.1)]
)
def test_p_value_is_the_maximum_over_a_brute_grid(b: int, c: int, n: int, margin: float) -> None:
    """A grid of 4,000 flip rates finds no larger tail than the search does."""
    ends = clopper_pearson(k=b + c, n=n, alpha=GAMMA)
    rates = np.linspace(max(ends.lower, margin), ends.upper, 4_000)
    flips = np.arange(n + 1)
    region = largest_regressions(n, margin, flips, float(tango_statistic(b, c, n, margin)))
    brute = GAMMA + region_probability(n, margin, rates, flips, region).max()
    assert p_loss_at_least(b=b, c=c, n=n, margin=margin) == pytest.approx(brute, rel=2e-5)


@pytest.mark.parametrize("margin", [0.02, Decimal("0.02"), Fraction(1, 50)])
def test_an_estimate_at_the_margin_shows_nothing(margin: float) -> None:
    """4 of 200 against 2 points is exactly at the margin: neither pass nor fail, at any level."""
    assert p_loss_at_least(b=4, c=0, n=200, margin=margin) == 1.0
    assert p_loss_at_most(b=4, c=0, n=200, margin=margin) == 1.0


def test_an_estimate_above_the_margin_never_passes_nor_one_below_fails() -> None:
    """The point estimate's side of the margin is closed to the other verdict."""
    assert p_loss_at_least(b=30, c=0, n=100, margin=0.05) == 1.0
    assert p_loss_at_most(b=0, c=0, n=5_000, margin=0.05) == 1.0


@pytest.mark.parametrize(("b", "c", "n", "margin"), outcomes(1, 16))
def test_bounds_agree_with_the_decision(b: int, c: int, n: int, margin: float) -> None:
    """The upper bound is within the margin exactly on a pass, the lower at or above it exactly on a fail."""
    for alpha in (0.05, 0.025):
        passed = p_loss_at_least(b=b, c=c, n=n, margin=margin) <= alpha
        failed = p_loss_at_most(b=b, c=c, n=n, margin=margin) <= alpha
        assert passed == (loss_upper(b=b, c=c, n=n, alpha=alpha, margin=margin) <= margin)
        assert failed == (loss_lower(b=b, c=c, n=n, alpha=alpha, margin=margin) >= margin)


@pytest.mark.parametrize(("b", "c", "n", "_"), outcomes(2, 10))
def test_swapping_regressions_and_recoveries_mirrors_the_bounds(b: int, c: int, n: int, _: float) -> None:
    """The lower bound of (b, c) is minus the upper bound of (c, b), and the estimate lies between the bounds."""
    lower, upper = loss_lower(b=b, c=c, n=n, alpha=0.05), loss_upper(b=b, c=c, n=n, alpha=0.05)
    assert lower == -loss_upper(b=c, c=b, n=n, alpha=0.05)
    assert -1 <= lower <= (b - c) / n <= upper <= 1
    assert lower < upper


def test_one_more_regression_never_helps() -> None:
    """At a fixed number of flips the p-value of a pass rises with the regressions."""
    found = [p_loss_at_least(b=b, c=8 - b, n=120, margin=0.06) for b in range(9)]
    assert found == sorted(found)


def test_more_items_without_a_flip_never_hurt() -> None:
    """The upper bound without a flip falls as n rises."""
    found = [loss_upper(b=0, c=0, n=n, alpha=0.05) for n in (1, 5, 20, 80, 320)]
    assert found == sorted(found, reverse=True)


def test_a_stricter_level_widens_the_bounds() -> None:
    """Less error allowed, a larger upper bound."""
    found = [loss_upper(b=3, c=2, n=90, alpha=alpha) for alpha in (0.2, 0.1, 0.05, 0.01, 0.001)]
    assert found == sorted(found)


def test_everything_lost_or_gained_reaches_the_end() -> None:
    """All lost (b = n) has upper bound 1, all gained (c = n) lower bound -1."""
    assert loss_upper(b=12, c=0, n=12, alpha=0.05) == 1.0
    assert loss_lower(b=0, c=12, n=12, alpha=0.05) == -1.0
    assert p_loss_at_most(b=12, c=0, n=12, margin=0.05) <= 0.001


def test_a_level_below_gamma_shows_nothing() -> None:
    """The search interval's own error cannot be undercut."""
    assert p_loss_at_least(b=0, c=0, n=5_000, margin=0.05) == pytest.approx(GAMMA)
    assert loss_upper(b=0, c=0, n=5_000, alpha=GAMMA / 2) == 1.0


@pytest.mark.parametrize("bad", [(-1, 0, 5), (3, 3, 5), (0, 0, 0), (0.5, 0, 5)])
def test_bad_counts_are_refused(bad: tuple[int, int, int]) -> None:
    """Counts that cannot be raise in every public function."""
    b, c, n = bad
    for decide in (p_loss_at_least, p_loss_at_most):
        with pytest.raises(ValueError, match="found"):
            decide(b=b, c=c, n=n, margin=0.02)
    for bound in (loss_upper, loss_lower):
        with pytest.raises(ValueError, match="found"):
            bound(b=b, c=c, n=n, alpha=0.05)


def test_bad_margins_and_levels_are_refused() -> None:
    """Margins and levels outside (0, 1) raise."""
    for margin in (0, 1, -0.02, 2.0, float("nan")):
        with pytest.raises(ValueError, match="found"):
            p_loss_at_least(b=1, c=1, n=50, margin=margin)
    for alpha in (0, 1, -0.1, float("nan")):
        with pytest.raises(ValueError, match="alpha"):
            loss_upper(b=1, c=1, n=50, alpha=alpha)


def test_a_large_set_is_decided_in_time() -> None:
    """20,000 items with 6,000 flips take well under half a second."""
    start = time.perf_counter()
    assert p_loss_at_least(b=3_010, c=2_990, n=20_000, margin=0.01) < 0.05
    assert time.perf_counter() - start < 0.5
