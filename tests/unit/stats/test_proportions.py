"""Single proportions and McNemar's test against published figures."""

import pytest

from quantgate.stats.proportions import clopper_pearson, mcnemar_exact, standard_error, wilson


@pytest.mark.parametrize(("b", "c", "expected"), [(10, 5, 0.15088), (9, 0, 0.001953), (0, 0, 1.0), (0, 9, 1.0)])
def test_mcnemar_one_sided(b: int, c: int, expected: float) -> None:
    """The one-sided p-value is the binomial tail of the regressions at one half."""
    assert mcnemar_exact(b=b, c=c).one_sided == pytest.approx(expected, abs=5e-6)


def test_mcnemar_two_sided_is_symmetric_and_at_most_one() -> None:
    """Swapping regressions and recoveries changes nothing, and equal counts give 1."""
    assert mcnemar_exact(b=10, c=5).two_sided == pytest.approx(mcnemar_exact(b=5, c=10).two_sided)
    assert mcnemar_exact(b=10, c=5).two_sided == pytest.approx(0.30176, abs=5e-6)
    assert mcnemar_exact(b=4, c=4).two_sided == 1.0


@pytest.mark.parametrize(
    ("k", "n", "lower", "upper"),
    [(0, 10, 0.0, 0.3085), (10, 10, 0.6915, 1.0), (1, 10, 0.0025, 0.4450), (5, 10, 0.1871, 0.8129)],
)
def test_clopper_pearson_95_percent(k: int, n: int, lower: float, upper: float) -> None:
    """The two-sided 95 % interval agrees with the published tables to four digits."""
    found = clopper_pearson(k=k, n=n, alpha=0.05)
    assert (found.lower, found.upper) == pytest.approx((lower, upper), abs=5e-5)


def test_clopper_pearson_zero_of_n_is_the_power_formula() -> None:
    """The upper end for nothing of n is 1 - (alpha / 2)^(1 / n)."""
    assert clopper_pearson(k=0, n=37, alpha=0.01).upper == pytest.approx(1 - 0.005 ** (1 / 37))


@pytest.mark.parametrize(
    "bad", [{"k": -1, "n": 5}, {"k": 6, "n": 5}, {"k": 0, "n": 0}, {"k": 1.5, "n": 5}, {"k": True, "n": 5}]
)
def test_clopper_pearson_refuses_impossible_counts(bad: dict[str, int]) -> None:
    """Counts that cannot be are refused, not repaired."""
    with pytest.raises(ValueError, match="found"):
        clopper_pearson(**bad, alpha=0.05)


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, float("nan"), float("inf"), None, "5 %"])
def test_clopper_pearson_refuses_levels_outside_zero_one(alpha: float) -> None:
    """A level outside the open interval (0, 1) is refused."""
    with pytest.raises(ValueError, match="alpha"):
        clopper_pearson(k=1, n=5, alpha=alpha)


@pytest.mark.parametrize(
    ("k", "n", "lower", "upper"), [(5, 10, 0.2366, 0.7634), (0, 20, 0.0, 0.1611), (20, 20, 0.8389, 1.0), (1, 1, 0.2065, 1.0)]
)
def test_wilson_95_percent(k: int, n: int, lower: float, upper: float) -> None:
    """Textbook values; mirrored for the other outcome; the ends are exact at none and all."""
    found, mirrored = wilson(k=k, n=n, alpha=0.05), wilson(k=n - k, n=n, alpha=0.05)
    assert (found.lower, found.upper) == (pytest.approx(lower, abs=1e-4), pytest.approx(upper, abs=1e-4))
    assert (1 - mirrored.upper, 1 - mirrored.lower) == (pytest.approx(found.lower), pytest.approx(found.upper))


@pytest.mark.parametrize("bad", [{"k": 3, "n": 2}, {"k": -1, "n": 2}, {"k": 0, "n": 0}])
def test_wilson_refuses_impossible_counts(bad: dict[str, int]) -> None:
    """More right than there are, fewer than none, none at all."""
    with pytest.raises(ValueError):
        wilson(**bad, alpha=0.05)


def test_a_standard_error_needs_two_items() -> None:
    """None of one item or none, zero where all are alike; impossible counts are refused."""
    assert [standard_error(k=0, n=0), standard_error(k=1, n=1), standard_error(k=3, n=3)] == [None, None, 0.0]
    with pytest.raises(ValueError, match="k must not exceed n"):
        standard_error(k=2, n=1)
