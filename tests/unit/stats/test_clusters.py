"""The cluster rule: design effect, degrees of freedom, and when nothing is shown."""

import numpy as np
import pytest

from quantgate.stats.clusters import clustered_loss, membership
from quantgate.stats.tango import tango_bounds

Z95 = 1.6448536269514722


def test_counts_and_effective_clusters() -> None:
    """Losses and gains are summed, and G_eff = n^2 / sum of squared sizes."""
    found = clustered_loss([1, 0, -1, 1, 0, 0], ["a", "a", "a", "b", "b", "c"])
    assert (found.n, found.b, found.c, found.clusters, found.clusters_with_flip) == (6, 2.0, 1.0, 3, 2)
    assert found.effective_clusters == pytest.approx(36 / 14)


def test_few_clusters_with_a_flip_take_the_largest_design_effect() -> None:
    """Under five clusters with a flip: deff = sum(size^2) / n and df = G_eff - 1."""
    losses, ids = np.zeros(120), np.repeat(np.arange(30), 4)
    losses[0] = 1
    found = clustered_loss(losses, ids)
    assert found.design_effect == 4.0
    assert found.degrees_of_freedom == pytest.approx(29.0)


def test_the_jackknife_design_effect_of_copies_is_the_cluster_size() -> None:
    """Items that are copies of one another count about once per cluster."""
    rng = np.random.default_rng(3)
    one_each = rng.choice([1.0, 0.0, -1.0], p=[0.2, 0.7, 0.1], size=200)
    found = clustered_loss(np.repeat(one_each, 5), np.repeat(np.arange(200), 5))
    assert found.design_effect == pytest.approx(5.0, rel=0.01)
    assert found.degrees_of_freedom == 199


def test_independent_items_cost_nothing_but_degrees_of_freedom() -> None:
    """Clusters of one have deff 1, so only the t quantile widens Tango's interval."""
    losses = np.array([1.0] * 8 + [-1.0] * 6 + [0.0] * 286)
    found = clustered_loss(losses, np.arange(300))
    tango, bounds = tango_bounds(b=8, c=6, n=300, critical=Z95), found.bounds(0.05)
    assert found.design_effect == pytest.approx(1.0)
    assert bounds.lower < tango.lower < tango.upper < bounds.upper


def test_flips_apart_may_hide_a_correlation_of_three_tenths() -> None:
    """Twelve flips in twelve clusters of 5 show none, but 2.4 clusters' worth of flips do not rule 0.3 out."""
    losses, ids = np.zeros(500), np.repeat(np.arange(100), 5)
    losses[:60:5] = np.tile([1.0, -1.0], 6)
    assert clustered_loss(losses, ids).design_effect == pytest.approx(1 + 4 * 0.3)


def test_many_flips_apart_rule_most_of_a_correlation_out() -> None:
    """One flip in each of 400 clusters of 5: had 80 clusters' worth come together, ten in a hundred samples show none of 2.3."""
    losses, ids = np.zeros(2_000), np.repeat(np.arange(400), 5)
    losses[::5] = np.tile([1.0, -1.0], 200)
    assert clustered_loss(losses, ids).design_effect == pytest.approx(1 + 4 * np.log(10) / 80, abs=1e-3)


def test_what_is_seen_together_counts_in_full() -> None:
    """Six clusters of 5 lost whole among 100: correlation 1, however few."""
    found = clustered_loss(np.repeat([1.0, 0.0], [30, 470]), np.repeat(np.arange(100), 5))
    assert found.design_effect == pytest.approx(5.0, rel=0.02)


def test_clusters_of_one_are_independent_items() -> None:
    """Whatever bound the correlation has, nothing shares a cluster."""
    losses = np.array([1.0] * 3 + [-1.0] * 2 + [0.0] * 295)
    assert clustered_loss(losses, np.arange(300)).design_effect == pytest.approx(1.0)


def test_without_a_flip_there_is_still_a_width() -> None:
    """No flips in 40 clusters of 5: an interval as for 40 items, not a point."""
    found = clustered_loss(np.zeros(200), np.repeat(np.arange(40), 5))
    assert found.bounds(0.05).upper > tango_bounds(b=0, c=0, n=40, critical=Z95).upper > 0.06


def test_too_few_effective_clusters_show_nothing() -> None:
    """Nine clusters, however many items, answer every question with "not shown"."""
    found = clustered_loss(np.ones(900), np.repeat(np.arange(9), 100))
    assert not found.enough
    assert (found.p_at_least(0.05), found.p_at_most(0.05)) == (1.0, 1.0)
    assert (found.bounds(0.05).lower, found.bounds(0.05).upper) == (-1.0, 1.0)


def test_exactly_ten_equal_clusters_are_enough() -> None:
    """The limit is inclusive and free of rounding."""
    assert clustered_loss(np.zeros(70), np.repeat(np.arange(10), 7)).enough
    assert not clustered_loss(np.zeros(71), np.append(np.repeat(np.arange(10), 7), 0)).enough


@pytest.mark.parametrize("margin", [0.01, 0.03, 0.05, 0.1])
def test_bounds_agree_with_the_p_values(margin: float) -> None:
    """A p-value is within the level exactly when the bound is on its side of the margin."""
    rng = np.random.default_rng(11)
    losses = rng.choice([1.0, 0.0, -1.0], p=[0.06, 0.9, 0.04], size=600)
    found = clustered_loss(losses, np.repeat(np.arange(100), 6))
    bounds = found.bounds(0.05)
    assert (found.p_at_least(margin) <= 0.05) == (bounds.upper <= margin)
    assert (found.p_at_most(margin) <= 0.05) == (bounds.lower >= margin)


def test_an_estimate_at_the_margin_shows_nothing() -> None:
    """10 of 200 against 5 points is exactly at the margin."""
    losses = np.array([1.0] * 10 + [0.0] * 190)
    found = clustered_loss(losses, np.arange(200))
    assert (found.p_at_least(0.05), found.p_at_most(0.05)) == (1.0, 1.0)


def test_clusters_are_numbered_in_order_of_appearance() -> None:
    """Names and an array of whole numbers alike."""
    names = [7, 3, 7, -1, 3]
    assert membership(names, 5).tolist() == membership(np.array(names), 5).tolist() == [0, 1, 0, 2, 1]


@pytest.mark.parametrize(
    ("losses", "ids"),
    [([], []), ([1.0], ["a", "b"]), ([2.0], ["a"]), ([float("nan")], ["a"]), ([0.0], [None]), ([0.0], [float("nan")])],
)
def test_bad_input_is_refused(losses: list[float], ids: list[object]) -> None:
    """Nothing, unequal lengths, impossible losses and items without a cluster raise."""
    with pytest.raises(ValueError, match=r"found|finite"):
        clustered_loss(losses, ids)
