"""Error rates of the cluster rule, by seeded simulation."""

import numpy as np
import pytest

from quantgate.stats.clusters import clustered_loss

RUNS, LIMIT = 1_500, 0.064
"""The rule is asymptotic: its error was found to stay under 0.064."""


def losses(rng: np.random.Generator, ids: np.ndarray, chances: list[float], copied: float) -> np.ndarray:
    """Losses of items of which a share copies what its cluster drew."""
    own = rng.choice([1.0, -1.0, 0.0], p=chances, size=ids.size)
    drawn = rng.choice([1.0, -1.0, 0.0], p=chances, size=ids.max() + 1)[ids]
    return np.where(rng.random(ids.size) < copied, drawn, own)


@pytest.mark.parametrize(
    ("clusters", "size", "copied", "rate", "margin"),
    [(40, 10, 0.3, 0.10, 0.03), (12, 20, 0.5, 0.10, 0.05), (300, 2, 0.9, 0.05, 0.02), (60, 5, 0.0, 0.08, 0.03)],
)
def test_cluster_rule_at_the_margin(clusters: int, size: int, copied: float, rate: float, margin: float) -> None:
    """At a true loss equal to the margin, false passes and false fails stay near alpha or below."""
    rng = np.random.default_rng(7)
    ids = np.repeat(np.arange(clusters), size)
    chances = [(rate + margin) / 2, (rate - margin) / 2, 1 - rate]
    found = [clustered_loss(losses(rng, ids, chances, copied), ids) for _ in range(RUNS)]
    noise = 2.5 * (LIMIT * (1 - LIMIT) / RUNS) ** 0.5
    assert np.mean([loss.p_at_least(margin) <= 0.05 for loss in found]) <= LIMIT + noise
    assert np.mean([loss.p_at_most(margin) <= 0.05 for loss in found]) <= LIMIT + noise
