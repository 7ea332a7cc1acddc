"""Where a ratio of speeds goes through 1: between which batches, with which interval, and when nothing can be told."""

from __future__ import annotations

from math import exp, log

import pytest

from quantgate.crossover import RatioAt, crossover


def at(batch: int, ratio: float, low: float | None = None, high: float | None = None) -> RatioAt:
    return RatioAt(batch_size=batch, ratio=ratio, low=low, high=high, level=None if low is None else 0.95)


def test_a_published_pair_of_ratios_crosses_between_its_batches() -> None:
    """Int4 at 1.33 times at batch 1 and 0.75 times at 8: logarithms are straight in between, so it crosses near batch 2.8."""
    found = crossover([at(8, 0.75), at(1, 1.33)])
    share = log(1.33) / (log(1.33) - log(0.75))
    assert found.kind == "crosses" and found.falls is True
    assert found.batch == pytest.approx(exp(share * log(8)))
    assert found.batch == pytest.approx(2.82, abs=0.01)
    assert (found.smallest, found.largest) == (1, 8)
    assert found.low is None and "more quadruples" in (found.why_no_interval or "")


def test_swapping_the_two_models_gives_the_same_place() -> None:
    """The ratio's inverse rises through 1 at the same batch."""
    there = crossover([at(1, 1.33), at(2, 1.1), at(8, 0.6)])
    back = crossover([at(1, 1 / 1.33), at(2, 1 / 1.1), at(8, 1 / 0.6)])
    assert back.batch == pytest.approx(there.batch) and back.falls is False


def test_intervals_of_the_ratio_give_one_of_the_place() -> None:
    """A falling ratio's lower bound crosses first; at batch 4 it is exactly 1."""
    found = crossover([at(1, 1.4, 1.2, 1.6), at(4, 1.1, 1.0, 1.2), at(16, 0.8, 0.7, 0.9)])
    assert found.low == pytest.approx(4.0)
    assert found.batch is not None and found.high is not None
    assert found.low < found.batch < found.high < 16
    assert found.level == 0.95 and found.why_no_interval is None


def test_a_rising_ratio_has_its_interval_the_other_way_round() -> None:
    """Here the upper bound crosses first."""
    found = crossover([at(1, 0.7, 0.6, 0.8), at(4, 0.9, 0.8, 1.05), at(16, 1.3, 1.2, 1.4)])
    assert found.falls is False
    assert found.low is not None and found.batch is not None and found.high is not None
    assert 1 < found.low < 4 < found.batch < found.high < 16


def test_an_interval_that_leaves_the_measured_batches_is_open_there() -> None:
    """A lower bound under 1 everywhere says nothing of where the place begins."""
    found = crossover([at(1, 1.05, 0.95, 1.2), at(8, 0.7, 0.6, 0.8)])
    assert found.kind == "crosses" and found.low is None and found.high is not None
    assert found.why_no_interval == "the interval reaches below the batches that were timed"


@pytest.mark.parametrize(("ratios", "kind"), [((1.2, 1.1), "faster"), ((0.5, 0.9), "slower"), ((1.0, 1.0), "even"), ((1.2, 1.0), "faster")])
def test_never_crossing_is_said_plainly(ratios: tuple[float, float], kind: str) -> None:
    """Always above, always below, exactly equal; touching 1 at the end is no crossing."""
    found = crossover([at(1, ratios[0]), at(8, ratios[1])])
    assert found.kind == kind and found.batch is None


def test_ratios_that_are_told_apart_from_nothing_are_even() -> None:
    """Where every interval holds 1 a crossing of the estimates is noise."""
    assert crossover([at(1, 1.02, 0.9, 1.15), at(8, 0.99, 0.9, 1.1)]).kind == "even"


def test_more_than_one_crossing_is_no_place() -> None:
    """1.2, 0.9, 1.1 crosses twice: the first is named and no interval is given."""
    found = crossover([at(1, 1.2), at(2, 0.9), at(4, 1.1)])
    assert found.kind == "several" and found.batch is not None and 1 < found.batch < 2


def test_a_batch_that_is_exactly_even_is_the_place() -> None:
    """1.2, 1.0, 0.8: the middle batch itself."""
    found = crossover([at(1, 1.2), at(4, 1.0), at(8, 0.8)])
    assert found.kind == "crosses" and found.batch == pytest.approx(4.0)


def test_nothing_timed_and_impossible_ratios_are_not_measured() -> None:
    """Without a paired batch, or with a ratio that is none, nothing is told."""
    assert crossover([]).kind == "not_measured"
    assert crossover([at(1, 0.0)]).why_not is not None
    assert crossover([at(4, 1.3)]).kind == "faster"
