"""Error rates and power of the cluster rule, by seeded simulation of clusters whose true loss is exactly the margin.

Three ways in which a cluster's items hang together, each with the same correlation between two of its items: with some
probability an item takes the outcome that its cluster drew; the cluster has a rate of losses and gains of its own
(Dirichlet); or whole clusters are lost beside independent flips. Sizes are equal, Poisson, geometric, or one cluster
holds a quarter of all items.
"""

from dataclasses import dataclass

import numpy as np
import pytest

from quantgate.stats.clusters import UNSEEN, clustered_loss
from quantgate.stats.power import power as power_of

MOST = 0.07
QUICK = [
    ("draw", 30, 20, "equal", 0.3, 0.06, 0.05),
    ("draw", 20, 50, "equal", 0.1, 0.06, 0.05),
    ("whole", 60, 10, "geometric", 0.3, 0.06, 0.03),
    ("rate", 100, 5, "dominant", 0.3, 0.06, 0.03),
]
HARD = [
    ("whole", 100, 50, "equal", 0.3, 0.3, 0.02),
    *(
        (how, clusters, size, sizes, correlation, rate, margin)
        for how in ("draw", "whole", "rate")
        for clusters, size in ((10, 20), (20, 50), (30, 20), (60, 20), (100, 20), (100, 5), (300, 3), (300, 20))
        for sizes in ("equal", "geometric", "dominant")
        for correlation, rate, margin in ((0.1, 0.06, 0.05), (0.3, 0.032, 0.03), (0.3, 0.012, 0.01), (0.3, 0.3, 0.02))
    ),
]
GRID = [
    ("draw", clusters, size, sizes, correlation, 0.10, 0.03)
    for clusters in (10, 15, 30, 60, 100, 300)
    for size in (5, 20)
    for sizes in ("poisson", "equal")
    for correlation in (0.0, 0.1, 0.3)
]


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    """What is simulated."""

    how: str
    clusters: int
    size: int
    sizes: str
    correlation: float
    rate: float
    loss: float

    @property
    def chances(self) -> tuple[float, float]:
        """Of a regression and of a recovery."""
        return (self.rate + self.loss) / 2, (self.rate - self.loss) / 2


@pytest.mark.slow
@pytest.mark.parametrize("cell", [*GRID, *HARD], ids=str)
def test_cluster_rule_at_the_margin(cell: tuple) -> None:
    """At a true loss equal to the margin at most 7 % pass and at most 7 % fail."""
    passed, failed = shares(cell, margin=cell[-1], runs=1_500)
    assert passed <= MOST
    assert failed <= MOST


@pytest.mark.parametrize("cell", QUICK, ids=str)
def test_cluster_rule_at_the_margin_in_short(cell: tuple) -> None:
    """The same where the estimated design effect alone lets up to a third pass; fewer runs, so a standard error of noise."""
    passed, failed = shares(cell, margin=cell[-1], runs=400)
    assert max(passed, failed) <= MOST + (MOST * (1 - MOST) / 400) ** 0.5


@pytest.mark.parametrize(
    ("clusters", "size", "rate", "power"), [(100, 5, 0.05, 0.59), (100, 5, 0.02, 0.84), (300, 5, 0.05, 0.98)]
)
def test_power_at_three_points(clusters: int, size: int, rate: float, power: float) -> None:
    """Correlation 0.1, no true loss; the jackknife alone has 0.74, 0.50 (few clusters flip) and 0.99."""
    passed, failed = shares(("draw", clusters, size, "equal", 0.1, rate, 0.0), margin=0.03, runs=400)
    assert passed == pytest.approx(power, abs=0.06)
    assert failed == 0


@pytest.mark.parametrize(("clusters", "size", "rate"), [(100, 5, 0.05), (100, 20, 0.05), (100, 5, 0.02)])
def test_planning_with_clusters_promises_no_more_than_the_rule_gives(clusters: int, size: int, rate: float) -> None:
    """The exact power of n / (1 + 0.3 (size - 1)) independent items, from one half on, is at most the rule's at correlation 0.1."""
    passed, _ = shares(("draw", clusters, size, "equal", 0.1, rate, 0.0), margin=0.03, runs=400)
    worth = int(clusters * size / (1 + UNSEEN * (size - 1)))
    assert 0.5 <= power_of(n=worth, flip_rate=rate, margin=0.03) <= passed + 0.06


@pytest.mark.slow
def test_a_stronger_correlation_that_does_not_show_is_a_known_limit() -> None:
    """Beyond the 0.3 that the rule takes a sample to hide, up to a fifth passes. This pins how bad it is, not that it is well."""
    passed, _ = shares(("whole", 60, 20, "equal", 0.8, 0.032, 0.03), margin=0.03, runs=1_500)
    assert passed == pytest.approx(0.18, abs=0.035)


def shares(cell: tuple, *, margin: float, runs: int) -> tuple[float, float]:
    """Shares of passes and of fails at 5 %."""
    how, clusters, size, sizes, correlation, rate, loss = cell
    world = World(how=how, clusters=clusters, size=size, sizes=sizes, correlation=correlation, rate=rate, loss=loss)
    rng = np.random.default_rng([clusters, size, round(100 * correlation), round(1_000 * rate)])
    found = [clustered_loss(*drawn(rng, world)) for _ in range(runs)]
    passed = np.mean([one.p_at_least(margin) <= 0.05 for one in found])
    failed = np.mean([one.p_at_most(margin) <= 0.05 for one in found])
    return float(passed), float(failed)


def drawn(rng: np.random.Generator, world: World) -> tuple[np.ndarray, np.ndarray]:
    """Losses of items and their clusters."""
    sizes = drawn_sizes(rng, world)
    lost, gained = COUNTS[world.how](rng, sizes, world)
    counts = np.stack([lost, gained, sizes - lost - gained], axis=1).ravel()
    losses = np.repeat(np.tile([1.0, -1.0, 0.0], sizes.size), counts)
    return losses, np.repeat(np.arange(sizes.size), sizes)


def drawn_sizes(rng: np.random.Generator, world: World) -> np.ndarray:
    """Numbers of items, at least one each."""
    if world.sizes == "geometric":
        return rng.geometric(1 / world.size, world.clusters)
    if world.sizes == "poisson":
        return np.maximum(rng.poisson(world.size, world.clusters), 1)
    found = np.full(world.clusters, world.size)
    found[0] = world.size if world.sizes == "equal" else round(world.size * (world.clusters - 1) / 3)
    return found


def shared_draw(rng: np.random.Generator, sizes: np.ndarray, world: World) -> tuple[np.ndarray, np.ndarray]:
    """An item takes its cluster's outcome with probability sqrt(correlation)."""
    lose, gain = world.chances
    outcome, together = rng.random(sizes.size), rng.binomial(sizes, world.correlation**0.5)
    lost, gained = independent(rng, sizes - together, lose, gain)
    return lost + together * (outcome < lose), gained + together * ((outcome >= lose) & (outcome < lose + gain))


def shared_rate(rng: np.random.Generator, sizes: np.ndarray, world: World) -> tuple[np.ndarray, np.ndarray]:
    """A Dirichlet draw of the chances for each cluster."""
    lose, gain = world.chances
    if world.correlation == 0:
        return independent(rng, sizes, lose, gain)
    precision = (1 - world.correlation) / world.correlation
    chances = rng.dirichlet(precision * np.array([lose, gain, 1 - lose - gain]), sizes.size)
    return independent(rng, sizes, chances[:, 0], chances[:, 1])


def whole_clusters(rng: np.random.Generator, sizes: np.ndarray, world: World) -> tuple[np.ndarray, np.ndarray]:
    """Clusters lost whole, as many as give the correlation, beside independent losses and gains."""
    lose, gain = world.chances
    whole = min(world.correlation * world.rate, lose)
    lost, gained = independent(rng, sizes, (lose - whole) / (1 - whole), gain / (1 - whole))
    together = rng.random(sizes.size) < whole
    return np.where(together, sizes, lost), np.where(together, 0, gained)


def independent(
    rng: np.random.Generator, sizes: np.ndarray, lose: object, gain: object
) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of losses and of gains among so many items."""
    lost = rng.binomial(sizes, lose)
    return lost, rng.binomial(sizes - lost, np.clip(gain / np.maximum(1 - np.asarray(lose), 1e-12), 0, 1))


COUNTS = {"draw": shared_draw, "rate": shared_rate, "whole": whole_clusters}
