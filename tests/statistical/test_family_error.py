"""The chance of any false pass among several candidates."""

from functools import cache

import numpy as np
import pytest
from scipy import special

from quantgate.stats.multiplicity import fixed_sequence, holm
from quantgate.stats.paired import p_loss_at_least
from quantgate.stats.power import power

ALPHA, RUNS = 0.05, 20_000
NOISE = 3 * (ALPHA * (1 - ALPHA) / RUNS) ** 0.5


def null_p_values(candidates: int, correlation: float) -> np.ndarray:
    """Seeded p-values of true nulls, equicorrelated on the normal scale, shape (RUNS, candidates)."""
    rng = np.random.default_rng(20_240_601)
    own, shared = rng.standard_normal((RUNS, candidates)), rng.standard_normal((RUNS, 1))
    return special.ndtr(np.sqrt(1 - correlation) * own + np.sqrt(correlation) * shared)


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.95])
def test_holm_family_error(correlation: float) -> None:
    """With four candidates at the margin, Holm lets any pass in at most alpha of the runs."""
    rows = null_p_values(4, correlation)
    wrong = sum(holm(dict(zip("abcd", row, strict=True)), alpha=ALPHA, k=4)[0].rejected for row in rows)
    assert wrong / RUNS <= ALPHA + NOISE


def test_holm_family_error_with_one_true_pass() -> None:
    """A candidate that rightly passes first does not raise the error on the others."""
    rows = null_p_values(3, 0.0)
    wrong = 0
    for row in rows:
        steps = holm({"good": 1e-9, **dict(zip("abc", row, strict=True))}, alpha=ALPHA, k=4)
        wrong += steps[1].rejected
    assert 0.04 < wrong / RUNS <= ALPHA + NOISE


def test_fixed_sequence_family_error() -> None:
    """Six candidates at the margin in a fixed order: the first alone can let an error in."""
    rows = null_p_values(6, 0.0)
    wrong = sum(fixed_sequence(list(zip("abcdef", row, strict=True)), alpha=ALPHA)[0].rejected for row in rows)
    assert wrong / RUNS <= ALPHA + NOISE


@pytest.mark.parametrize(("n", "margin", "rate"), [(300, 0.03, 0.05), (520, 0.03, 0.08), (1_000, 0.02, 0.05)])
def test_holm_over_the_exact_rule(n: int, margin: float, rate: float) -> None:
    """K independent candidates at the margin, each first tested at alpha / K: by enumeration at most alpha together.

    Candidates beside them that are truly good, and pass at once, leave the rest at alpha / K for a smaller K.
    """
    for k in (1, 2, 3, 4, 5, 6):
        each = power(n=n, flip_rate=rate, margin=margin, true_loss=margin, alpha=ALPHA / k)
        assert 1 - (1 - each) ** k <= ALPHA


LADDER_ITEMS, LADDER_MARGIN, LADDER_RATES = 300, 0.03, (0.05, 0.08, 0.10, 0.15, 0.20, 0.30)


@pytest.mark.parametrize("runs", [150, pytest.param(2_000, marks=pytest.mark.slow)])
def test_holm_over_ladders_at_the_margin(runs: int) -> None:
    """Six candidates that share their items, each losing exactly the margin: any passes in at most 6 % of the ladders."""
    rng = np.random.default_rng(99)
    wrong = sum(any(step.rejected for step in holm(ladder(rng), alpha=ALPHA, k=6)) for _ in range(runs))
    assert wrong / runs <= 0.06


def ladder(rng: np.random.Generator) -> dict[str, float]:
    """P-values of six candidates: an item flips where a normal figure, half its own and half the item's, is large.

    Whether a flip is a regression is drawn in the same way, so candidates tend to lose the same items.
    """
    shared, own = rng.standard_normal((2, LADDER_ITEMS, 1)), rng.standard_normal((2, LADDER_ITEMS, len(LADDER_RATES)))
    flips, lost = special.ndtr(np.sqrt(0.5) * (shared + own))
    flipped = flips < LADDER_RATES
    regressed = flipped & (lost < (1 + LADDER_MARGIN / np.array(LADDER_RATES)) / 2)
    b, t = regressed.sum(axis=0), flipped.sum(axis=0)
    return {f"rung{k}": p_of(int(b[k]), int(t[k] - b[k])) for k in range(len(LADDER_RATES))}


@cache
def p_of(b: int, c: int) -> float:
    """The production p-value; ladders repeat outcomes."""
    return p_loss_at_least(b=b, c=c, n=LADDER_ITEMS, margin=LADDER_MARGIN)
