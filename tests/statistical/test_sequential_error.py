"""Error rates of looking more than once: planned looks by enumeration, the anytime-valid mode exactly and simulated."""

from math import log

import numpy as np
import pytest
from scipy.special import gammaln, xlogy

from quantgate.stats.acceptance import most_regressions_that_pass
from quantgate.stats.sequential import anytime, growth_bet, planned_looks, simulated_stops

MARGIN, RATE, ALPHA = 0.03, 0.05, 0.05


@pytest.mark.parametrize("rate", [0.03, 0.05, 0.10, 0.30])
def test_two_planned_looks_at_the_margin(rate: float) -> None:
    """P(pass at 150 or at 300 items | true loss = margin), every path enumerated, is at most alpha."""
    first, last = planned_looks([150, 300], alpha=ALPHA)
    error = passes_at_either(rate, first.level, last.level)
    assert 0.015 < error <= ALPHA


def test_the_same_level_at_both_looks_errs_more_often() -> None:
    """Without a plan two looks at 5 % pass more than 5 %."""
    assert passes_at_either(0.10, ALPHA, ALPHA) > 0.07


@pytest.mark.parametrize(
    ("rate", "margin", "bet"), [(0.03, 0.03, None), (0.05, 0.03, None), (0.05, 0.03, 0.9), (0.15, 0.05, None)]
)
def test_anytime_false_passes_exactly(rate: float, margin: float, bet: float | None) -> None:
    """P(E ever reaches 1 / alpha within 1,500 items | true loss = margin) is at most alpha."""
    chosen = bet or growth_bet(flip_rate=max(rate, RATE), margin=margin)
    assert crossing(rate, margin, margin, chosen, items=1_500)[-1] <= ALPHA


def test_anytime_figures_of_the_default_setting() -> None:
    """At 5 % flips and 3 points: type I about 0.045, and half of the good variants have passed by about 300 items."""
    bet = growth_bet(flip_rate=RATE, margin=MARGIN)
    assert crossing(RATE, MARGIN, MARGIN, bet, items=3_000)[-1] == pytest.approx(0.045, abs=0.003)
    passed = crossing(RATE, 0.0, MARGIN, bet, items=600)
    assert int(np.argmax(passed >= 0.5)) + 1 == pytest.approx(300, abs=15)


@pytest.mark.parametrize("runs", [2_000, pytest.param(40_000, marks=pytest.mark.slow)])
def test_anytime_simulation_agrees_with_the_exact_figures(runs: int) -> None:
    """Simulated stops have the exact median, and at the margin the exact error."""
    bet = growth_bet(flip_rate=RATE, margin=MARGIN)
    setting = {"flip_rate": RATE, "margin": MARGIN, "alpha": ALPHA, "bet": bet, "runs": runs}
    good = simulated_stops(**setting, rng=np.random.default_rng(1))
    bad = simulated_stops(**setting, true_loss=MARGIN, cap=2_000, rng=np.random.default_rng(2))
    exact = crossing(RATE, 0.0, MARGIN, bet, items=600)
    assert np.median(good) == pytest.approx(int(np.argmax(exact >= 0.5)) + 1, abs=15)
    assert np.isfinite(bad).mean() == pytest.approx(
        crossing(RATE, MARGIN, MARGIN, bet, items=2_000)[-1], abs=3 * (0.05 / runs) ** 0.5
    )


@pytest.mark.parametrize("runs", [400, pytest.param(4_000, marks=pytest.mark.slow)])
def test_anytime_decisions_at_the_margin(runs: int) -> None:
    """The production decision over 1,500 items passes, and fails, at most alpha of variants that lose the margin."""
    rng, bet = np.random.default_rng(8), growth_bet(flip_rate=RATE, margin=MARGIN)
    chances = [(RATE + MARGIN) / 2, (RATE - MARGIN) / 2, 1 - RATE]
    drawn = [rng.choice([1.0, -1.0, 0.0], p=chances, size=1_500) for _ in range(runs)]
    found = [anytime(x, margin=MARGIN, alpha=ALPHA, bet=bet).outcome for x in drawn]
    assert found.count("pass") / runs <= ALPHA + 2 * (0.05 * 0.95 / runs) ** 0.5
    assert found.count("fail") / runs <= ALPHA + 2 * (0.05 * 0.95 / runs) ** 0.5


def passes_at_either(rate: float, early_level: float, last_level: float) -> float:
    """P(pass at 150, or at 300 of which these are the first half | true loss = margin)."""
    half, early, size = outcomes(150, rate, MARGIN), passing(150, early_level), (301, 301)
    going = np.where(early, 0.0, half)
    both = np.fft.irfft2(np.fft.rfft2(going, size) * np.fft.rfft2(half, size), size)
    return float(half[early].sum() + both[passing(300, last_level)].sum())


def outcomes(n: int, rate: float, loss: float) -> np.ndarray:
    """P(b regressions, c recoveries), shape (n + 1, n + 1)."""
    b, c = np.meshgrid(np.arange(n + 1), np.arange(n + 1), indexing="ij")
    kept = n - b - c
    ways = gammaln(n + 1) - gammaln(b + 1) - gammaln(c + 1) - gammaln(np.maximum(kept, 0) + 1)
    logs = ways + xlogy(b, (rate + loss) / 2) + xlogy(c, (rate - loss) / 2) + xlogy(np.maximum(kept, 0), 1 - rate)
    return np.where(kept >= 0, np.exp(logs), 0.0)


def passing(n: int, level: float) -> np.ndarray:
    """Whether (b, c) passes, shape (n + 1, n + 1)."""
    most = most_regressions_that_pass(n, MARGIN, level, np.arange(n + 1))
    b, c = np.meshgrid(np.arange(n + 1), np.arange(n + 1), indexing="ij")
    return (b + c <= n) & (b <= most[np.minimum(b + c, n)])


def crossing(rate: float, loss: float, margin: float, bet: float, *, items: int) -> np.ndarray:
    """P(E has reached 1 / alpha after k items), k = 1 .. items, over all numbers of regressions and recoveries."""
    lost, gained = (rate + loss) / 2, (rate - loss) / 2
    shape = [int(items * p + 8 * (items * p) ** 0.5 + 10) for p in (lost, gained)]
    b, c = np.meshgrid(np.arange(shape[0]), np.arange(shape[1]), indexing="ij")
    tie = np.log1p(bet * margin)
    fixed = b * (np.log1p(bet * (margin - 1)) - tie) + c * (np.log1p(bet * (margin + 1)) - tie)
    now, crossed, total = np.zeros(shape), np.empty(items), 0.0
    now[0, 0] = 1.0
    for k in range(items):
        after = (1 - rate) * now
        after[1:] += lost * now[:-1]
        after[:, 1:] += gained * now[:, :-1]
        over = fixed >= -log(ALPHA) - (k + 1) * tie
        total += float(after[over].sum())
        crossed[k] = total
        now = np.where(over, 0.0, after)
    return crossed
