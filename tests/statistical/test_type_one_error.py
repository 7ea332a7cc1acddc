"""Error rates and power of the production decision, by enumeration of every outcome (no simulation)."""

import time

import numpy as np
import pytest
from scipy import special

from quantgate.stats.lattice import largest_regressions, region_probability
from quantgate.stats.paired import p_loss_at_least
from quantgate.stats.power import power
from statistical.boundaries import ALPHA, flip_rates, passing, spared

QUICK = [(52, 0.05), (65, 0.04), (133, 0.02), (156, 0.02)]
SLOW = [(218, 0.03), (268, 0.01), (300, 0.03), (388, 0.03), (500, 0.02), (1_000, 0.02)]
CASES = [*QUICK, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)]


@pytest.mark.parametrize(("n", "margin"), CASES)
def test_false_pass_at_the_margin(n: int, margin: float) -> None:
    """P(pass | true loss = margin) is at most alpha, whatever the flip rate."""
    error = region_probability(n, margin, flip_rates(margin), np.arange(n + 1), passing(n, margin))
    assert 0.02 < error.max() <= ALPHA


@pytest.mark.parametrize(("n", "margin"), CASES)
def test_false_fail_at_the_margin(n: int, margin: float) -> None:
    """P(fail | true loss = margin) is at most alpha, whatever the flip rate."""
    error = 1 - region_probability(n, margin, flip_rates(margin), np.arange(n + 1), spared(n, margin))
    assert 0.02 < error.max() <= ALPHA


@pytest.mark.parametrize(("n", "margin", "most"), [(65, 0.04, 0.070), (133, 0.02, 0.069)])
def test_tango_alone_passes_too_often(n: int, margin: float, most: float) -> None:
    """Why the decision is exact: with the normal quantile 7 % pass at the margin."""
    error = region_probability(n, margin, flip_rates(margin), np.arange(n + 1), passing_by_tango(n, margin))
    assert error.max() == pytest.approx(most, abs=0.001)


def test_tango_alone_fails_too_often() -> None:
    """With the normal quantile 10 % fail at the margin."""
    n, margin = 156, 0.02
    kept = largest_regressions(n, margin, np.arange(n + 1), -float(special.ndtri(ALPHA)) - 2e-9)
    error = 1 - region_probability(n, margin, flip_rates(margin), np.arange(n + 1), kept)
    assert error.max() == pytest.approx(0.099, abs=0.001)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "margin"), [case for case in SLOW if case != (268, 0.01)])
def test_exactness_costs_little_power(n: int, margin: float) -> None:
    """From 200 items on the power is within 0.05 of Tango's own, and on average within 0.01."""
    exact, asymptotic = powers(n, margin)
    assert np.abs(exact - asymptotic).max() <= 0.05
    assert abs(float((asymptotic - exact).mean())) <= 0.01


@pytest.mark.slow
def test_it_costs_everything_where_tango_alone_is_wrong() -> None:
    """268 items without a flip pass 1 point by Tango, which is wrong 7 % of the time; the exact rule asks for 299."""
    exact, asymptotic = powers(268, 0.01)
    assert (exact[0], asymptotic[0]) == (0.0, pytest.approx(1.0))
    assert np.abs(exact - asymptotic)[RATES >= 0.03].max() <= 0.05


PLANNED = [
    (0.02, 0.02, 401),
    (0.05, 0.02, 819),
    (0.05, 0.03, 388),
    (0.05, 0.05, 158),
    (0.08, 0.02, 1_266),
    (0.08, 0.03, 577),
    (0.08, 0.05, 221),
    (0.15, 0.03, 1_042),
    (0.15, 0.05, 382),
    (0.30, 0.05, 745),
]
LARGE = [
    (0.02, 0.01, 1_354),
    (0.05, 0.01, 3_142),
    (0.08, 0.01, 4_975),
    (0.15, 0.01, 9_288),
    (0.15, 0.02, 2_331),
    (0.30, 0.01, 18_554),
    (0.30, 0.02, 4_641),
    (0.30, 0.03, 2_064),
]


@pytest.mark.parametrize(
    ("flip_rate", "margin", "n"), [*PLANNED, *(pytest.param(*cell, marks=pytest.mark.slow) for cell in LARGE)]
)
def test_planned_sizes_have_their_power(flip_rate: float, margin: float, n: int) -> None:
    """At the sizes of the planning table the power is 0.8 within 3 points."""
    assert power(n=n, flip_rate=flip_rate, margin=margin) == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize(("margin", "n"), [(0.05, 101), (0.03, 218)])
def test_sizes_with_few_flips_have_more(margin: float, n: int) -> None:
    """At 2 to 4 expected flips one flip is worth 6 to 11 points of power: the table's sizes lie above such a jump."""
    assert 0.8 <= power(n=n, flip_rate=0.02, margin=margin) <= 0.86


@pytest.mark.parametrize(("b", "c"), [(510, 490), (3_000, 2_800), (200, 0)])
def test_a_p_value_of_twenty_thousand_items_is_quick(b: int, c: int) -> None:
    """Under half a second of processor time, the best of three."""
    spent = []
    for _ in range(3):
        start = time.process_time()
        p_loss_at_least(b=b, c=c, n=20_000, margin=0.02)
        spent.append(time.process_time() - start)
    assert min(spent) < 0.5


RATES = np.linspace(0.0, 0.5, 101)


def powers(n: int, margin: float) -> tuple[np.ndarray, np.ndarray]:
    """P(pass | true loss 0) over the flip rates, of the production rule and of Tango's normal quantile."""
    exact, asymptotic = (
        region_probability(n, 0.0, RATES, np.arange(n + 1), region)
        for region in (passing(n, margin), passing_by_tango(n, margin))
    )
    return exact, asymptotic


def passing_by_tango(n: int, margin: float) -> np.ndarray:
    """For each number of flips the most regressions that pass by the normal quantile of Tango's statistic."""
    return largest_regressions(n, margin, np.arange(n + 1), float(special.ndtri(ALPHA)))
