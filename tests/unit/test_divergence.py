"""KL divergence of next-token distributions, away from the cases of public bug reports."""

import math

import numpy as np
import pytest

from quantgate import divergence
from quantgate.divergence import kl_rows, statistics
from quantgate.errors import NumericallyInvalid


def row(*values: float) -> np.ndarray:
    """Make logits of one row."""
    return np.array([values], dtype=np.float32)


def test_shifted_logits_are_the_same_distribution() -> None:
    """A constant added to all logits of a row changes nothing, even at the ends of float32."""
    assert kl_rows(row(1.0, 2.0, 3.0), row(1001.0, 1002.0, 1003.0))[0] == pytest.approx(0.0, abs=1e-9)
    assert kl_rows(row(3e38, 0.0), row(3e38, 0.0))[0] == 0.0


def test_a_small_divergence_is_not_lost_in_float32() -> None:
    """Two logits that differ by d have KL close to d^2 / 8 at even odds; float64 inside keeps it."""
    assert kl_rows(row(0.0, 0.0), row(0.0, 1e-4))[0] == pytest.approx(1e-8 / 8, rel=1e-3)


def test_no_divergence_is_negative() -> None:
    """Rounding never gives a figure below zero."""
    rng = np.random.default_rng(7)
    logits = rng.normal(size=(200, 50))
    assert (kl_rows(logits, logits + rng.normal(scale=1e-9, size=logits.shape)) >= 0).all()


def test_rows_are_independent() -> None:
    """A broken row leaves its neighbours as they are."""
    reference = np.array([[0.0, 0.0], [np.nan, 0.0], [0.0, 0.0]])
    variant = np.array([[0.0, 0.0], [0.0, 0.0], [0.0, -np.inf]])
    first, second, third = kl_rows(reference, variant)
    assert first == 0.0
    assert math.isnan(second)
    assert third == math.inf


@pytest.mark.parametrize("broken", [math.nan, math.inf])
@pytest.mark.parametrize("side", ["reference", "variant", "both"])
def test_undefined_logits_stay_undefined(broken: float, side: str) -> None:
    """NaN or +inf on either side gives NaN, never a number."""
    good, bad = row(0.0, 1.0), row(0.0, broken)
    reference, variant = (bad if side != "variant" else good), (bad if side != "reference" else good)
    assert math.isnan(kl_rows(reference, variant)[0])


def test_a_row_without_any_token_is_undefined() -> None:
    """Only -inf is no distribution."""
    assert math.isnan(kl_rows(row(-np.inf, -np.inf), row(0.0, 0.0))[0])
    assert math.isnan(kl_rows(row(0.0, 0.0), row(-np.inf, -np.inf))[0])


def test_inputs_are_not_changed() -> None:
    """The caller's arrays are the same afterwards."""
    reference, variant = row(0.0, -np.inf), row(-np.inf, 0.0)
    kl_rows(reference, variant)
    assert (reference == row(0.0, -np.inf)).all()
    assert (variant == row(-np.inf, 0.0)).all()


def test_unlike_vocabularies_are_refused() -> None:
    """Arrays of other shapes are never broadcast."""
    for call in (kl_rows, divergence.same_top):
        with pytest.raises(ValueError, match="one shape"):
            call(row(0.0, 1.0), row(0.0, 1.0, 2.0))
        with pytest.raises(ValueError, match="one shape"):
            call(np.zeros((2, 3)), np.zeros((1, 3)))
        with pytest.raises(ValueError, match="one shape"):
            call(np.zeros(3), np.zeros(3))


def test_same_top_ties_and_broken_rows() -> None:
    """A tie goes to the lowest id on both sides; a row with NaN agrees with nothing, itself included."""
    assert divergence.same_top(row(1.0, 1.0, 0.0), row(1.0, 0.0, 0.0))[0]
    assert not divergence.same_top(row(1.0, 1.0, 0.0), row(0.0, 1.0, 0.0))[0]
    assert not divergence.same_top(row(np.nan, 1.0), row(np.nan, 1.0))[0]


def test_statistics_of_known_values() -> None:
    """Of 1..200: mean and median 100.5, p99 the 198th value, maximum 200; three quarters agree."""
    found = statistics(np.arange(1.0, 201.0), np.arange(200) % 4 > 0)
    assert (found.positions, found.mean, found.median, found.p99) == (200, 100.5, 100.5, 198.0)
    assert (found.maximum, found.top1_agreement) == (200.0, 0.75)


def test_one_infinite_position_shows() -> None:
    """One infinite position makes mean and maximum infinite and leaves median and p99 numbers, none of them NaN."""
    kl = np.zeros(100)
    kl[17] = np.inf
    found = statistics(kl, np.ones(100, dtype=bool))
    assert (found.mean, found.maximum, found.median, found.p99) == (math.inf, math.inf, 0.0, 0.0)


def test_mostly_infinite_positions_are_not_nan() -> None:
    """Infinite everywhere is infinite in every figure."""
    found = statistics(np.full(100, np.inf), np.zeros(100, dtype=bool))
    assert {found.mean, found.median, found.p99, found.maximum} == {math.inf}


def test_too_few_positions_have_no_statistics() -> None:
    """99 positions are refused, 100 are enough."""
    with pytest.raises(ValueError, match="99 positions are too few"):
        statistics(np.zeros(99), np.ones(99, dtype=bool))
    assert statistics(np.zeros(100), np.ones(100, dtype=bool)).positions == 100


def test_undefined_positions_raise() -> None:
    """NaN at any position is an error with its place, never an average."""
    kl = np.zeros(100)
    kl[[3, 5]] = np.nan
    with pytest.raises(NumericallyInvalid, match="NaN at 2 of 100 positions, the first being 3"):
        statistics(kl, np.ones(100, dtype=bool))


def test_arrays_of_unlike_length_are_refused() -> None:
    """A missing agreement flag is not guessed."""
    with pytest.raises(ValueError, match="one length"):
        statistics(np.zeros(100), np.ones(99, dtype=bool))
