"""Tango's statistic and interval against published examples."""

from statistics import NormalDist

import numpy as np
import pytest

from quantgate.stats.proportions import Interval
from quantgate.stats.tango import restricted_recovery_rate, tango_bounds, tango_statistic


def tango_interval(*, b: float, c: float, n: float, level: float) -> Interval:
    """Two-sided, with half of what the level leaves outside each end."""
    return tango_bounds(b=b, c=c, n=n, critical=NormalDist().inv_cdf((1 + level) / 2))


@pytest.mark.parametrize(
    ("b", "c", "n", "level", "expected"),
    [
        (1, 7, 21, 0.95, (-0.517, -0.026)),
        (40, 20, 160, 0.95, (0.0309, 0.2181)),
        (0, 0, 10, 0.90, (-0.2129, 0.2129)),
        (0, 0, 100, 0.90, (-0.0263, 0.0263)),
        (0, 0, 300, 0.90, (-0.0089, 0.0089)),
    ],
)
def test_interval_anchors(b: int, c: int, n: int, level: float, expected: tuple[float, float]) -> None:
    """The interval agrees with the published examples."""
    found = tango_interval(b=b, c=c, n=n, level=level)
    assert (found.lower, found.upper) == pytest.approx(expected, abs=5e-4)


def test_everything_lost_or_gained_reaches_the_end() -> None:
    """All lost (b = n) has upper bound 1, all gained (c = n) lower bound -1, both with a width."""
    assert tango_interval(b=9, c=0, n=9, level=0.95).upper == 1.0
    assert tango_interval(b=0, c=9, n=9, level=0.95).lower == -1.0
    assert tango_interval(b=9, c=0, n=9, level=0.95).lower < 1.0


def test_swapping_regressions_and_recoveries_mirrors_the_interval() -> None:
    """The interval of (c, b) is the interval of (b, c) with signs changed."""
    one, other = tango_interval(b=7, c=2, n=40, level=0.9), tango_interval(b=2, c=7, n=40, level=0.9)
    assert (one.lower, one.upper) == pytest.approx((-other.upper, -other.lower), abs=1e-11)


@pytest.mark.parametrize("loss", [-0.4, -0.03, 0.0, 0.01, 0.3])
def test_restricted_rate_is_the_root_and_maximises_the_likelihood(loss: float) -> None:
    """No other recovery rate makes the counts likelier under the hypothesised loss."""
    b, c, n = 6, 9, 60
    q = float(restricted_recovery_rate(b, c, n, loss))
    rates = np.linspace(max(0.0, -loss) + 1e-6, (1 - loss) / 2 - 1e-6, 20_001)

    def fit(rate: object) -> object:
        return b * np.log(rate + loss) + c * np.log(rate) + (n - b - c) * np.log(1 - 2 * rate - loss)

    assert fit(q) >= np.max(fit(rates)) - 1e-9


@pytest.mark.parametrize("n", [5, 21, 60])
@pytest.mark.parametrize("loss", [-0.3, -0.02, 0.0, 0.01, 0.05, 0.6])
def test_statistic_rises_with_regressions(n: int, loss: float) -> None:
    """At any number of flips, one more regression instead of a recovery never lowers the statistic."""
    for t in range(n + 1):
        b = np.arange(t + 1)
        assert np.all(np.diff(tango_statistic(b, t - b, n, loss)) > 0)


def test_statistic_falls_as_the_hypothesised_loss_rises() -> None:
    """A larger hypothesised loss makes the same counts look better."""
    found = [float(tango_statistic(5, 3, 40, loss)) for loss in np.linspace(-0.99, 0.99, 199)]
    assert np.all(np.diff(found) < 0)


def test_statistic_is_zero_where_nothing_flips_and_nothing_is_asked() -> None:
    """No flips against loss 0 is 0, not NaN; certainty against a contradiction is infinite."""
    assert tango_statistic(0, 0, 10, 0.0) == 0.0
    assert tango_statistic(10, 0, 10, 1.0) == 0.0
    assert tango_statistic(3, 0, 10, 1.0) == -np.inf


def test_dividing_the_counts_widens_the_interval() -> None:
    """Fractional counts are accepted, and a third of the evidence gives a wider interval around the same estimate."""
    whole = tango_interval(b=6, c=4, n=100, level=0.9)
    third = tango_interval(b=2, c=4 / 3, n=100 / 3, level=0.9)
    assert third.lower < whole.lower < 0.02 < whole.upper < third.upper


@pytest.mark.parametrize("bad", [(-1, 0, 5), (3, 3, 5), (0, 0, 0), (float("nan"), 0, 5), (0, float("inf"), 5)])
def test_bad_amounts_are_refused(bad: tuple[float, float, float]) -> None:
    """Amounts that cannot be raise with what was found."""
    with pytest.raises(ValueError, match="found"):
        tango_bounds(b=bad[0], c=bad[1], n=bad[2], critical=1.6)
