"""Error rates of speed checks at planned looks, on machines that are quiet, noisy and drifting, by simulated runs."""

from __future__ import annotations

from collections import Counter
from math import log

import numpy as np
import pytest

from quantgate.stats.speed import asked_for, decide, look_sizes

RUNS, MARGIN, ALPHA, MOST = 2_000, -log(0.95), 0.05, 32
SLACK = 2 * (ALPHA * (1 - ALPHA) / RUNS) ** 0.5
"""Two standard errors of a share of 5 % over so many runs."""


def judged(*, cv: float, slower: float, most: int = MOST, drift: float = 0.0, mood: float = 0.0, seed: int = 0) -> Counter[str]:
    """Outcomes of simulated comparisons; timing goes on from look to look until something is shown.

    ``drift``: what the machine gets slower from one run to the next. ``mood``: what runs of a quadruple share with each other.
    """
    rng, sizes = np.random.default_rng(seed), look_sizes(most)
    outcomes: Counter[str] = Counter()
    for _ in range(RUNS):
        log_s = rng.normal(0.0, cv, (most, 4)) + drift * np.arange(4 * most).reshape(most, 4) + rng.normal(0.0, mood, (most, 1))
        log_s[:, 1:3] += -log(1 - slower)
        losses = ((log_s[:, 1] + log_s[:, 2]) - (log_s[:, 0] + log_s[:, 3])) / 2
        reached = (decide(losses[:size].tolist(), margin=MARGIN, alpha=ALPHA, sizes=sizes).outcome for size in sizes)
        outcomes[next((one for one in reached if one != "inconclusive"), "inconclusive")] += 1
    return outcomes


def test_three_percent_of_noise_and_a_margin_of_five() -> None:
    """No change passes in 80 % or more, 5 % slower in 5 % or less, 15 % slower never; no change never fails in more than 5 %."""
    good = judged(cv=0.03, slower=0.0)
    assert good["pass"] >= 0.80 * RUNS and good["fail"] <= ALPHA * RUNS
    edge = judged(cv=0.03, slower=0.05, seed=1)
    assert edge["pass"] <= (ALPHA + SLACK) * RUNS and edge["fail"] <= (ALPHA + SLACK) * RUNS
    assert judged(cv=0.03, slower=0.15, seed=2)["pass"] == 0


def test_the_quadruples_asked_for_are_enough() -> None:
    """With no more than the number that is asked for at 3 % of noise, 80 % of the good pass and 5 % of those at the margin."""
    most = asked_for(cv=0.03, margin=MARGIN) or 0
    assert judged(cv=0.03, slower=0.0, most=most, seed=3)["pass"] >= 0.80 * RUNS
    assert judged(cv=0.03, slower=0.05, most=most, seed=4)["pass"] <= (ALPHA + SLACK) * RUNS
    assert judged(cv=0.03, slower=0.15, most=most, seed=5)["pass"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("cv", [0.01, 0.10])
def test_quiet_and_noisy_machines(cv: float) -> None:
    """1 % and 10 % of noise: the errors hold; the quiet machine passes all that is good."""
    good = judged(cv=cv, slower=0.0, seed=6)
    assert good["fail"] <= ALPHA * RUNS and good["pass"] >= (0.999 if cv == 0.01 else 0.4) * RUNS
    edge = judged(cv=cv, slower=0.05, seed=7)
    assert edge["pass"] <= (ALPHA + SLACK) * RUNS and edge["fail"] <= (ALPHA + SLACK) * RUNS
    assert judged(cv=cv, slower=0.15, seed=8)["pass"] == 0


@pytest.mark.slow
def test_a_drifting_and_moody_machine() -> None:
    """Half a percent slower from run to run, and moods of 20 %: both drop out of a quadruple."""
    good = judged(cv=0.03, slower=0.0, drift=0.005, mood=0.2, seed=9)
    assert good["pass"] >= 0.80 * RUNS and good["fail"] <= ALPHA * RUNS
    assert judged(cv=0.03, slower=0.05, drift=0.005, mood=0.2, seed=10)["pass"] <= (ALPHA + SLACK) * RUNS
    assert judged(cv=0.03, slower=0.15, drift=0.005, mood=0.2, seed=11)["pass"] == 0


@pytest.mark.slow
def test_looking_at_full_alpha_each_time_errs() -> None:
    """What the plan is for: stopping at the first look that passes at 5 % passes far more than 5 % at the margin."""
    rng, passed = np.random.default_rng(12), 0
    for _ in range(RUNS):
        losses = rng.normal(MARGIN, 0.03, MOST).tolist()
        looks = (decide(losses[:size], margin=MARGIN, alpha=ALPHA, sizes=(size,)).outcome for size in look_sizes(MOST))
        passed += "pass" in list(looks)
    assert passed > 0.10 * RUNS
