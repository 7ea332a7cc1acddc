"""Error rates of the perplexity ratio, by seeded simulation of documents whose mean change is exactly the limit."""

from math import exp

import numpy as np
import pytest

from quantgate.stats.ratios import perplexity_ratio

LIMIT = 0.02
"""Of ln(ratio)."""


@pytest.mark.parametrize(
    ("documents", "spread", "skewed", "most"),
    [
        (10, 0.0, False, 0.065),
        (30, 0.8, False, 0.08),
        (100, 0.8, False, 0.07),
        (100, 0.0, True, 0.085),
        pytest.param(300, 0.8, True, 0.09, marks=pytest.mark.slow),
    ],
)
def test_ratio_at_the_limit(documents: int, spread: float, skewed: bool, most: float) -> None:
    """False passes and fails stay near alpha; skewed: a lognormal change (sigma 1), where plain t passes 12 to 21 %."""
    rng, runs, outcomes = np.random.default_rng([documents, skewed]), 2_000, []
    for _ in range(runs):
        tokens = np.ceil(rng.lognormal(6, spread, documents))
        tail = rng.lognormal(0, 1, documents) - exp(0.5) if skewed else 2 * rng.standard_normal(documents)
        reference = 2.5 * tokens
        variant = reference + tokens * (LIMIT + 0.01 * tail)
        found = perplexity_ratio(reference_nats=reference, variant_nats=variant, tokens=tokens)
        outcomes.append(found.decide(limit=exp(LIMIT), alpha=0.05).outcome)
    assert outcomes.count("pass") / runs <= most
    assert outcomes.count("fail") / runs <= most
