"""Planned looks and the anytime-valid mode."""

from math import log1p

import numpy as np
import pytest
from scipy import special

from quantgate.stats.sequential import (
    anytime,
    anytime_p,
    crossing_probability,
    growth_bet,
    planned_looks,
    planned_p,
    random_order,
    simulated_stops,
)

BET = growth_bet(flip_rate=0.05, margin=0.03)


@pytest.mark.parametrize(("looks", "last"), [(1, 1.645), (2, 1.678), (3, 1.710), (5, 1.751)])
def test_the_last_quantile_is_that_of_the_tables(looks: int, last: float) -> None:
    """O'Brien and Fleming at one-sided 0.05, looks at equal distances."""
    plan = planned_looks([100 * k for k in range(1, looks + 1)], alpha=0.05)
    assert plan[-1].z == pytest.approx(last, abs=6e-4)
    assert [look.z for look in plan] == pytest.approx([plan[-1].z * (looks / k) ** 0.5 for k in range(1, looks + 1)])
    assert [look.level for look in plan] == pytest.approx(list(special.ndtr([-look.z for look in plan])))
    assert [look.number for look in plan] == list(range(1, looks + 1))


def test_other_levels_and_uneven_looks() -> None:
    """One-sided 0.025 at four looks (2.024), and looks at 20, 25 and 100 %: together alpha."""
    assert planned_looks([1, 2, 3, 4], alpha=0.025)[-1].z == pytest.approx(2.024, abs=6e-4)
    uneven = planned_looks([200, 250, 1_000], alpha=0.01)
    crossed = crossing_probability([0.2, 0.25, 1.0], [look.z for look in uneven])
    assert crossed == pytest.approx(0.01, abs=1e-7)


def test_crossing_agrees_with_a_simulation() -> None:
    """Two looks at 1.645 each: more than 5 %."""
    walks = np.cumsum(np.random.default_rng(1).standard_normal((200_000, 2)), axis=1) / np.sqrt([1, 2])
    simulated = (walks >= 1.645).any(axis=1).mean()
    assert crossing_probability([0.5, 1.0], [1.645, 1.645]) == pytest.approx(simulated, abs=0.002)
    assert crossing_probability([1.0], [1.645]) == pytest.approx(special.ndtr(-1.645), abs=1e-12)


@pytest.mark.parametrize(
    ("sizes", "alpha"), [([], 0.05), ([100, 100], 0.05), ([200, 100], 0.05), ([0, 10], 0.05), ([10], 0.6), ([10], 0)]
)
def test_plans_that_make_no_sense_are_refused(sizes: list[int], alpha: float) -> None:
    """No looks, sizes that do not rise, levels out of range."""
    with pytest.raises(ValueError, match="found"):
        planned_looks(sizes, alpha=alpha)


def test_e_is_the_product_of_the_bets() -> None:
    """A loss, a tie and a gain, by hand."""
    found = anytime([1, 0, -1], margin=0.03, alpha=0.05, bet=0.5)
    assert found.running == pytest.approx(np.cumprod([1 - 0.5 * 0.97, 1 + 0.5 * 0.03, 1 + 0.5 * 1.03]))
    assert (found.outcome, found.stopped_at, found.items) == ("inconclusive", None, 3)
    assert found.e_value == found.running[-1]
    assert found.estimate == 0.0


def test_it_stops_at_the_first_item_that_shows_a_pass() -> None:
    """Ties alone: as many as log(20) / log(1 + bet margin); what comes after counts for nothing."""
    needed = int(np.ceil(np.log(20) / log1p(BET * 0.03)))
    found = anytime([0] * needed + [1] * 50, margin=0.03, alpha=0.05, bet=BET)
    assert (found.outcome, found.stopped_at, found.items) == ("pass", needed, needed)
    assert found.e_value >= 20 > found.running[-2]
    assert found.upper <= 0.03
    assert found.lower < 0 == found.estimate


def test_it_stops_where_a_fail_is_shown() -> None:
    """A row of losses."""
    found = anytime([1] * 30, margin=0.03, alpha=0.05, bet=BET)
    assert (found.outcome, found.upper) == ("fail", 1.0)
    assert 0.03 <= found.lower < 1
    assert found.stopped_at is not None
    assert found.stopped_at < 15


@pytest.mark.parametrize("seed", range(6))
def test_bounds_agree_with_the_outcome(seed: int) -> None:
    """Random items: a bound is on the side of the margin that the outcome names, and there E is 1 / alpha."""
    rng = np.random.default_rng(seed)
    x = rng.choice([1.0, -1.0, 0.0], p=[0.03 + 0.03 * (seed % 3), 0.02, 0.95 - 0.03 * (seed % 3)], size=400)
    found = anytime(x, margin=0.03, alpha=0.05, bet=BET)
    assert (found.outcome == "pass") == (found.upper <= 0.03)
    assert (found.outcome == "fail") == (found.lower >= 0.03)
    assert found.lower < found.estimate < found.upper
    if found.upper < 1:
        assert np.log1p(BET * (found.upper - x[: found.items])).sum() == pytest.approx(np.log(20), abs=1e-4)


def test_more_items_never_undo_what_was_shown() -> None:
    """The verdict of the first items is that of all."""
    x = np.zeros(400)
    first = anytime(x[:300], margin=0.03, alpha=0.05, bet=BET)
    again = anytime(np.append(x[:300], np.ones(100)), margin=0.03, alpha=0.05, bet=BET)
    assert (first.outcome, first.stopped_at, first.upper) == (again.outcome, again.stopped_at, again.upper)


def test_long_rows_do_not_overflow() -> None:
    """E after 100,000 gains is capped, its logarithm is not needed."""
    found = anytime(-np.ones(5), margin=0.5, alpha=1e-300, bet=1.9)
    assert found.outcome == "inconclusive"
    assert np.isfinite(anytime(-np.ones(100_000), margin=0.5, alpha=1e-300, bet=1.9).running).all()


def test_the_bet_grows_fastest() -> None:
    """No other bet has a larger mean logarithm."""

    def growth(bet: float) -> float:
        return 0.025 * (log1p(bet * -0.97) + log1p(bet * 1.03)) + 0.95 * log1p(bet * 0.03)

    assert 0 < BET < 1 / 0.97
    assert growth(BET) >= max(growth(BET * factor) for factor in (0.9, 0.99, 1.01, 1.1))


def test_bets_follow_the_planning_figures() -> None:
    """More flips or an expected loss: smaller bets; few flips: towards the limit, never to it."""
    assert growth_bet(flip_rate=0.15, margin=0.03) < BET
    assert growth_bet(flip_rate=0.05, margin=0.03, true_loss=0.01) < BET
    assert BET < growth_bet(flip_rate=0.001, margin=0.03) < 1 / 0.97


def test_the_median_stop_is_about_three_hundred() -> None:
    """5 % flips, 3 points, true loss 0."""
    stops = simulated_stops(flip_rate=0.05, margin=0.03, alpha=0.05, bet=BET, rng=np.random.default_rng(1))
    assert np.median(stops) == pytest.approx(300, abs=20)
    assert stops.min() >= np.log(20) / log1p(BET * 1.03)


def test_runs_that_do_not_stop_are_infinite() -> None:
    """Without flips all stop at once, at the margin next to none do, and the cap holds."""
    setting = {"margin": 0.03, "alpha": 0.05, "bet": BET, "runs": 50, "cap": 700}
    still = simulated_stops(flip_rate=0, rng=np.random.default_rng(1), **setting)
    lost = simulated_stops(flip_rate=0.06, true_loss=0.06, rng=np.random.default_rng(1), **setting)
    assert set(still) == {float(np.ceil(np.log(20) / log1p(BET * 0.03)))}
    assert np.isinf(lost).all()


def test_the_order_is_reproducible() -> None:
    """One seed, one order of all items."""
    first, again = (random_order(50, np.random.default_rng(7)) for _ in range(2))
    assert list(first) == list(again) != list(range(50))
    assert sorted(first) == list(range(50))


@pytest.mark.parametrize(
    ("losses", "bet", "message"),
    [
        ([], 0.5, "at least one"),
        ([2], 0.5, "between"),
        ([np.nan], 0.5, "finite"),
        ([0], 0, "bet"),
        ([0], 1 / 0.97, "bet"),
    ],
)
def test_bad_input_is_refused(losses: list[float], bet: float, message: str) -> None:
    """Nothing, impossible losses and bets at or beyond their limit raise."""
    with pytest.raises(ValueError, match=message):
        anytime(losses, margin=0.03, alpha=0.05, bet=bet)


@pytest.mark.parametrize(
    "wrong", [{"flip_rate": 0}, {"true_loss": 0.03}, {"true_loss": -0.1}, {"flip_rate": 1.5}, {"margin": 1}]
)
def test_bets_without_sense_are_refused(wrong: dict[str, float]) -> None:
    """No flips, a loss at the margin, rates out of range."""
    with pytest.raises(ValueError, match=r"expected|margin"):
        growth_bet(**{"flip_rate": 0.05, "margin": 0.03, **wrong})


@pytest.mark.parametrize("p_values", [[], [0.5] * 4, [1.2], [-0.1]])
def test_a_p_value_over_looks_needs_those_so_far(p_values: list[float]) -> None:
    """None, more than planned, or what is no probability raises."""
    with pytest.raises(ValueError, match="expected 1 to 3 p-values"):
        planned_p(p_values, sizes=[100, 200, 300])


def test_the_p_value_over_looks_is_where_the_plan_just_passes() -> None:
    """At alpha just above it one of the looks is reached, just below none; evidence of nothing gives 1."""
    seen, sizes = [0.2, 0.012, 0.03], [100, 200, 300]
    p = planned_p(seen, sizes=sizes)
    for alpha, passes in ((p + 1e-6, True), (p - 1e-6, False)):
        assert any(one <= look.level for one, look in zip(seen, planned_looks(sizes, alpha=alpha), strict=True)) == passes
    assert planned_p([0.7], sizes=sizes) == 1.0


def test_the_anytime_p_value_is_one_over_the_largest_e() -> None:
    """It agrees with the decision at any alpha, and is 1 where nothing speaks against the margin."""
    x = [0.0] * 150 + [1.0] + [0.0] * 20
    p = anytime_p(x, margin=0.05, bet=0.9)
    assert anytime(x, margin=0.05, alpha=p * 1.001, bet=0.9).outcome == "pass"
    assert anytime(x, margin=0.05, alpha=p * 0.999, bet=0.9).outcome == "inconclusive"
    assert anytime_p([1.0, 1.0], margin=0.05, bet=0.9) == 1.0
