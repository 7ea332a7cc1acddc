"""Change points over nights: a planted step and a planted drift are found within five nights, and clean series stay silent.

Simulated item by item: each night every item is asked again, some of them come out by chance. Only items that ever change are drawn; the
others add nothing to any sum. Every series is looked at every night, as a nightly run does.
"""

from __future__ import annotations

import numpy as np
import pytest

from quantgate.stats import drift

NIGHTS, ITEMS, SERIES = 30, 664, 2000
ONSET = 17  # the 18th night
Seeded = np.random.Generator


def series(rng: Seeded, *, flaky: float, lost: np.ndarray, count: int = SERIES) -> tuple[drift.Array, drift.Noise]:
    """Mean loss and noise of each series: ``flaky`` share of the items answered by chance, ``lost[t]`` items gone on night t."""
    chance = rng.uniform(0.1, 0.9, size=(count, 1, round(ITEMS * flaky)))
    by_chance = rng.random((count, NIGHTS, chance.shape[-1])) < chance
    gone = np.broadcast_to(np.arange(lost.max(initial=0)) < lost[:, None], (count, NIGHTS, lost.max(initial=0)))
    losses = np.concatenate([by_chance, gone], axis=-1).astype(np.int8)
    moved = np.diff(losses, axis=1)
    squares = (moved**2).sum(axis=-1).astype(float)
    return losses.sum(axis=-1) / ITEMS, drift.noise_of_items(squares, squares, ITEMS)


def told(rng: Seeded, *, flaky: float, points_lost: np.ndarray) -> np.ndarray:
    """Night of the first alarm of each series, -1 for none."""
    lost = np.round(points_lost / 100 * ITEMS).astype(int)
    return drift.first_alarm(*series(rng, flaky=flaky, lost=lost))[0]


@pytest.mark.parametrize("flaky", [0.0, 0.005, 0.02, 0.05, 0.1])
def test_clean_series_are_silent(flaky: float) -> None:
    """At most one series in a hundred tells of a change that is none, however many items come out by chance."""
    alarms = told(np.random.default_rng(1), flaky=flaky, points_lost=np.zeros(NIGHTS)) >= 0
    assert alarms.mean() <= 0.01


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_clean_plain_series_are_silent(spread: float) -> None:
    """The same for figures without items, whose noise is only their own scatter; and for one without any scatter."""
    values = 100 + spread * np.random.default_rng(2).standard_normal((20_000, NIGHTS))
    alarms = drift.first_alarm(values, drift.noise_of_series(values, 0.0))[0] >= 0
    assert alarms.mean() <= 0.01


@pytest.mark.parametrize("flaky", [0.0, 0.005, 0.02])
def test_a_step_is_found_within_five_nights(flaky: float) -> None:
    """1.5 points lost from night 18 on: told by night 22 in 99 of 100 series, and not before it happened."""
    step = np.where(np.arange(NIGHTS) >= ONSET, 1.5, 0.0)
    night = told(np.random.default_rng(3), flaky=flaky, points_lost=step)
    assert ((night >= ONSET) & (night < ONSET + 5)).mean() >= 0.99


@pytest.mark.parametrize("flaky", [0.005, 0.02])
def test_a_drift_is_found_within_five_nights(flaky: float) -> None:
    """0.3 points a night, about as much as a night's own noise, from night 18 on: told by night 22 in 98 of 100 series."""
    slope = np.clip(np.arange(NIGHTS) - ONSET + 1, 0, None) * 0.3
    night = told(np.random.default_rng(4), flaky=flaky, points_lost=slope)
    assert ((night >= ONSET) & (night < ONSET + 5)).mean() >= 0.98


@pytest.mark.parametrize("flaky", [0.005, 0.02])
def test_a_slow_drift_is_found_before_it_costs_much(flaky: float) -> None:
    """0.1 points a night, a third of a night's noise: told at the latest five nights after it has cost 1.5 points."""
    slope = np.clip(np.arange(NIGHTS) - 9, 0, None) * 0.1
    night = told(np.random.default_rng(5), flaky=flaky, points_lost=slope)
    assert ((night >= 10) & (night < 10 + 15 + 5)).mean() >= 0.99
    assert np.median(night[night >= 10] - 9) <= 10
