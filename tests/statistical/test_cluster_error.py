"""Error rates of the cluster rule, by seeded simulation.

Generator: an item's loss (1, -1 or 0) is with probability sqrt(rho) the one that its cluster drew, else its own draw, so
that two items of a cluster have correlation rho. Sizes are equal, Poisson, or geometric (a few clusters hold most items).
"""

import numpy as np
import pytest

from quantgate.stats.clusters import clustered_loss

NOISE = (0.07 * 0.93 / 2_000) ** 0.5
"""One standard error of 2,000 runs."""
QUICK = [(40, 10, 0.1), (12, 20, 0.3)]
GRID = [(g, size, rho) for g in (10, 15, 30, 60, 100, 300) for size in (5, 20) for rho in (0.0, 0.1, 0.3)]
HARD = [
    (30, 20, 0.3, "equal", 0.153),
    (20, 50, 0.1, "equal", 0.206),
    (60, 20, 0.3, "geometric", 0.196),
    (100, 20, 0.1, "geometric", 0.139),
]


@pytest.mark.slow
@pytest.mark.parametrize(("clusters", "size", "correlation"), GRID)
def test_cluster_rule_at_the_margin(clusters: int, size: int, correlation: float) -> None:
    """At a true loss equal to the margin, false passes and false fails stay at 7 %, with one standard error of noise."""
    for sizes in ("poisson", "equal"):
        assert max(errors(clusters, size, correlation, 0.10, 0.03, runs=2_000, sizes=sizes)) <= 0.07 + NOISE


@pytest.mark.parametrize(("clusters", "size", "correlation"), QUICK)
def test_cluster_rule_at_the_margin_in_short(clusters: int, size: int, correlation: float) -> None:
    """The same with fewer runs, and more noise allowed."""
    assert max(errors(clusters, size, correlation, 0.10, 0.03, runs=800, sizes="equal")) <= 0.07 + 3 * NOISE


@pytest.mark.slow
@pytest.mark.parametrize(("clusters", "size", "correlation", "sizes", "error"), HARD)
def test_whole_clusters_lost_are_a_known_limit(
    clusters: int, size: int, correlation: float, sizes: str, error: float
) -> None:
    """Where nearly every flip is a loss, and few large clusters go together, up to a fifth passes: 6 % flips at 5 points.

    A sample in which no such cluster was lost looks independent. This pins how bad it is, not that it is well.
    """
    passed, failed = errors(clusters, size, correlation, 0.06, 0.05, runs=1_500, sizes=sizes)
    assert passed == pytest.approx(error, abs=0.035)
    assert failed <= 0.07


def errors(
    clusters: int, size: int, correlation: float, rate: float, margin: float, *, runs: int, sizes: str
) -> tuple[float, float]:
    """Shares of false passes and of false fails."""
    rng = np.random.default_rng([clusters, size, round(100 * correlation)])
    chances = [(rate + margin) / 2, (rate - margin) / 2, 1 - rate]
    found = []
    for _ in range(runs):
        ids = np.repeat(np.arange(clusters), drawn_sizes(rng, clusters, size, sizes))
        found.append(clustered_loss(losses(rng, ids, chances, correlation), ids))
    passed = np.mean([loss.p_at_least(margin) <= 0.05 for loss in found])
    failed = np.mean([loss.p_at_most(margin) <= 0.05 for loss in found])
    return float(passed), float(failed)


def drawn_sizes(rng: np.random.Generator, clusters: int, size: int, sizes: str) -> np.ndarray:
    """Numbers of items, at least one each."""
    if sizes == "geometric":
        return rng.geometric(1 / size, clusters)
    return np.maximum(rng.poisson(size, clusters), 1) if sizes == "poisson" else np.full(clusters, size)


def losses(rng: np.random.Generator, ids: np.ndarray, chances: list[float], correlation: float) -> np.ndarray:
    """Losses of items, of which two in a cluster have this correlation."""
    own = rng.choice([1.0, -1.0, 0.0], p=chances, size=ids.size)
    drawn = rng.choice([1.0, -1.0, 0.0], p=chances, size=ids.max() + 1)[ids]
    return np.where(rng.random(ids.size) < correlation**0.5, drawn, own)
