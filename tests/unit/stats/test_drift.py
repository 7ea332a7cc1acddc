"""Change points of one series: where they start, when they are told, and what is never told."""

from __future__ import annotations

import numpy as np
import pytest

from quantgate.stats import drift


def items(losses: np.ndarray) -> drift.ItemChanges:
    moved = np.diff(losses, axis=0)
    return drift.ItemChanges(squares=(moved**2).sum(axis=1), fourths=(moved**4).sum(axis=1), items=losses.shape[1])


def lost(counts: list[int], of: int = 200) -> np.ndarray:
    """Each night's items, the first ``count`` of them lost."""
    return np.array([[1.0] * count + [0.0] * (of - count) for count in counts])


def test_a_step_without_noise_is_told_at_once() -> None:
    """Ten of 200 items gone on the ninth night: told that very night, with the means on both sides."""
    losses = lost([2] * 8 + [12] * 4)
    (found,) = drift.changes(losses.mean(axis=1), noise=items(losses))
    assert (found.start, found.told) == (8, 8)
    assert (found.before, found.after) == (pytest.approx(0.01), pytest.approx(0.06))
    assert found.z > 0


def test_one_item_more_is_no_change() -> None:
    """A single item that stays lost is within what one item may do."""
    losses = lost([2] * 10 + [3] * 20)
    assert drift.changes(losses.mean(axis=1), noise=items(losses)) == ()


def test_two_changes_are_both_told() -> None:
    """A loss and its repair, each with its night and its sign."""
    losses = lost([2] * 8 + [14] * 8 + [2] * 8)
    found = drift.changes(losses.mean(axis=1), noise=items(losses))
    assert [(one.start, one.z > 0) for one in found] == [(8, True), (16, False)]


@pytest.mark.parametrize("nights", [0, 1, 2, 5])
def test_few_nights_tell_nothing(nights: int) -> None:
    """Under six nights there is nothing to compare with, whatever happened."""
    values = np.array([0.0, 0.0, 0.0, 0.0, 9.0])[:nights]
    assert drift.changes(values, noise=0.001) == ()


def test_a_constant_series_has_no_change() -> None:
    """No scatter and no floor is not an infinitely precise measurement: nothing is told, and nothing is divided by zero."""
    assert drift.changes(np.full(20, 3.0), noise=0.0) == ()
    assert drift.changes(np.zeros(20), noise=0.0) == ()


def test_a_plain_series_with_a_step() -> None:
    """Tokens per second that fall by a tenth, with a hundredth of scatter: told, and the start is right to a night."""
    rng = np.random.default_rng(1)
    values = np.where(np.arange(30) >= 20, 90.0, 100.0) + rng.standard_normal(30)
    (found,) = drift.changes(values, noise=0.1)
    assert abs(found.start - 20) <= 1
    assert found.told <= 24
    assert found.after < found.before
