"""Margins are read as the decimals a person wrote."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from quantgate.stats.inputs import checked_counts, checked_margin, exact


@pytest.mark.parametrize("value", [0.02, Decimal("0.02"), Fraction(1, 50), np.float64(0.02), 2e-2])
def test_exact_reads_the_written_decimal(value: float) -> None:
    """However it is typed, 0.02 is exactly one fiftieth."""
    assert exact(value) == Fraction(1, 50)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), Decimal("NaN"), Decimal("Infinity"), None, "two"])
def test_exact_refuses_what_is_no_finite_number(value: float) -> None:
    """NaN, infinity and text are refused with what was found."""
    with pytest.raises(ValueError, match="finite"):
        exact(value)


@pytest.mark.parametrize("margin", [0, 1, -0.02, 2, float("nan"), Decimal("1.0")])
def test_margin_lies_strictly_between_zero_and_one(margin: float) -> None:
    """A margin in points (2) or of nothing (0) is refused."""
    with pytest.raises(ValueError, match="found"):
        checked_margin(margin)


@pytest.mark.parametrize("counts", [(-1, 0, 5), (0, -1, 5), (3, 3, 5), (0, 0, 0), (1.0, 0, 5), (True, 0, 5)])
def test_counts_that_cannot_be_are_refused(counts: tuple[int, int, int]) -> None:
    """Negative, fractional and surplus counts, and no items at all, raise."""
    with pytest.raises(ValueError, match="found"):
        checked_counts(*counts)


def test_numpy_integers_are_counts() -> None:
    """Counts that come out of numpy are accepted and become plain ints."""
    assert checked_counts(np.int64(1), np.int32(2), np.int64(9)) == (1, 2, 9)
