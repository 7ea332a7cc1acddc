"""The studentised mean and its skewness correction."""

import numpy as np
import pytest
from scipy import special

from quantgate.stats.studentised import Studentised, pseudo_values


def of(values: list[float] | np.ndarray) -> Studentised:
    x = np.asarray(values, dtype=float)
    return Studentised.of(x, mean=float(x.mean()), degrees_of_freedom=x.size - 1)


def test_without_skewness_it_is_the_t_test() -> None:
    """Symmetrical values: Student's p-value and bound."""
    found, x = of([-2.0, -1.0, 0.0, 1.0, 2.0]), np.arange(-2.0, 3.0)
    error = x.std(ddof=1) / 5**0.5
    assert found.skewness == pytest.approx(0.0)
    assert found.p_at_least(1.0) == pytest.approx(special.stdtr(4, -1 / error))
    assert found.bounds(0.05).upper == pytest.approx(special.stdtrit(4, 0.95) * error)


def test_a_long_tail_moves_both_bounds_towards_it() -> None:
    """Rare large losses: higher bounds on both sides than the t interval has."""
    values = np.concatenate([np.zeros(90), np.full(10, 1.0)])
    skewed, plain = of(values).bounds(0.05), special.stdtrit(99, 0.95) * values.std(ddof=1) / 10
    assert skewed.upper > values.mean() + plain
    assert values.mean() - plain < skewed.lower < values.mean()


@pytest.mark.parametrize("sign", [1, -1])
def test_bounds_are_where_the_p_values_are_alpha(sign: int) -> None:
    """The cubic and its inverse agree, for either tail."""
    found = of(sign * np.random.default_rng(1).lognormal(-3, 1.5, 200))
    bounds = found.bounds(0.05)
    assert found.p_at_least(bounds.upper) == pytest.approx(0.05)
    assert found.p_at_most(bounds.lower) == pytest.approx(0.05)


def test_p_values_rise_with_the_mean_seen() -> None:
    """More loss is never better evidence."""
    base = np.random.default_rng(2).lognormal(-3, 1, 60)
    found = [of(base + shift).p_at_least(0.2) for shift in np.linspace(-0.1, 0.2, 40)]
    assert found == sorted(found)


def test_a_mean_at_or_beyond_the_limit_shows_nothing() -> None:
    """The mirror questions: one of the two is 1."""
    found = of([0.1, 0.2, 0.3])
    assert (found.p_at_least(0.1), found.p_at_most(0.3)) == (1.0, 1.0)


def test_values_that_differ_by_rounding_do_not_vary() -> None:
    """0.1 + 0.2 and 0.3 are the same value."""
    assert of([0.1 + 0.2, 0.3, 0.3]).deviation == 0.0
    assert of([0.5]).deviation == 0.0


def test_pseudo_values_are_the_jackknife() -> None:
    """Units of one size: their means. Unequal ones: the spread of the estimate when one is left out at a time."""
    sums, sizes = np.array([1.0, 0.0, 3.0]), np.array([2.0, 5.0, 3.0])
    mean = sums.sum() / sizes.sum()
    left_out = (sums.sum() - sums) / (sizes.sum() - sizes)
    assert pseudo_values(sums, sizes, mean) == pytest.approx(mean - 2 * (left_out - mean))
    assert pseudo_values(sums, np.full(3, 4.0), 4 / 12) == pytest.approx(sums / 4)
