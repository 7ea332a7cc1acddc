"""Planning figures against the enumerated table."""

import pytest

from quantgate.stats.power import CAP, items_needed, largest_flip_rate, power, smallest_margin

TABLE = {
    0.02: {0.01: 1_354, 0.02: 401, 0.03: 218, 0.05: 101},
    0.05: {0.01: 3_142, 0.02: 819, 0.03: 388, 0.05: 158},
    0.08: {0.01: 4_975, 0.02: 1_266, 0.03: 577, 0.05: 221},
    0.15: {0.02: 2_331, 0.03: 1_042, 0.05: 382},
    0.30: {0.02: 4_641, 0.03: 2_064, 0.05: 745},
}
CELLS = [(d, m, n) for d, row in TABLE.items() for m, n in row.items()]


@pytest.mark.parametrize(("flip_rate", "margin", "items"), CELLS)
def test_items_needed_is_the_planning_table(flip_rate: float, margin: float, items: int) -> None:
    """Items for power 0.8 at true loss 0 agree with the table within 2 %, and do reach the power."""
    found = items_needed(flip_rate=flip_rate, margin=margin)
    assert found == pytest.approx(items, rel=0.02)
    assert power(n=found, flip_rate=flip_rate, margin=margin) >= 0.8


def test_power_of_the_worked_example() -> None:
    """520 items, 3 points, level 0.025 at 5 % flips: 0.82."""
    assert power(n=520, flip_rate=0.05, margin=0.03, alpha=0.025) == pytest.approx(0.823, abs=0.002)


def test_power_without_flips_is_certainty_or_nothing() -> None:
    """At flip rate 0 a set either passes always or never."""
    assert power(n=99, flip_rate=0, margin=0.03) == pytest.approx(1.0)
    assert power(n=98, flip_rate=0, margin=0.03) == 0.0
    assert items_needed(flip_rate=0, margin=0.03) == 99


def test_power_at_the_margin_is_an_error_rate() -> None:
    """A variant that loses exactly the margin passes with probability at most alpha."""
    assert power(n=400, flip_rate=0.08, margin=0.03, true_loss=0.03) <= 0.05


def test_power_falls_with_true_loss_and_with_flips() -> None:
    """Losing more, and flipping more, both cost power."""
    by_loss = [power(n=400, flip_rate=0.08, margin=0.04, true_loss=loss) for loss in (-0.02, 0.0, 0.01, 0.02, 0.04)]
    by_flips = [power(n=400, flip_rate=rate, margin=0.04) for rate in (0.02, 0.05, 0.1, 0.3, 1.0)]
    assert by_loss == sorted(by_loss, reverse=True)
    assert by_flips == sorted(by_flips, reverse=True)


def test_a_loss_too_close_to_the_margin_has_no_feasible_number() -> None:
    """Within a fifth of the margin, above it, or above the cap: None."""
    assert items_needed(flip_rate=0.05, margin=0.03, true_loss=0.024) is None
    assert items_needed(flip_rate=0.05, margin=0.03, true_loss=0.05) is None
    assert items_needed(flip_rate=0.3, margin=0.001) is None
    assert items_needed(flip_rate=0.05, margin=0.02, cap=500) is None
    assert items_needed(flip_rate=0.05, margin=0.03, true_loss=0.015) < CAP


def test_gains_need_fewer_items() -> None:
    """A variant expected to gain is shown with fewer items."""
    assert items_needed(flip_rate=0.05, margin=0.03, true_loss=-0.02) < items_needed(flip_rate=0.05, margin=0.03)


@pytest.mark.parametrize(("n", "points"), [(50, 9.8), (100, 6.5), (200, 4.4)])
def test_smallest_margin_of_small_sets(n: int, points: float) -> None:
    """At 5 % flips these sets resolve about these points, and what is returned is resolved."""
    found = smallest_margin(n=n, flip_rate=0.05)
    assert found * 100 == pytest.approx(points, rel=0.035)
    assert power(n=n, flip_rate=0.05, margin=found) >= 0.8


def test_largest_flip_rate_is_carried_and_more_is_not() -> None:
    """The set reaches the power at the flip rate returned, and misses it at a tenth more."""
    found = largest_flip_rate(n=520, margin=0.03)
    assert power(n=520, flip_rate=found, margin=0.03) >= 0.8
    assert power(n=520, flip_rate=1.1 * found, margin=0.03) < 0.8


def test_a_set_too_small_carries_nothing() -> None:
    """Fifty items carry no flip rate at 3 points; one item resolves no margin; a huge set carries all flips."""
    assert largest_flip_rate(n=50, margin=0.03) is None
    assert smallest_margin(n=1, flip_rate=0.5) is None
    assert largest_flip_rate(n=200, margin=0.5) == 1.0


@pytest.mark.parametrize(
    "bad",
    [{"n": 0}, {"flip_rate": -0.1}, {"flip_rate": 1.1}, {"margin": 0}, {"alpha": 1.0}, {"true_loss": 0.06}],
)
def test_bad_plans_are_refused(bad: dict[str, float]) -> None:
    """Sizes, rates and levels that cannot be raise, and so does a loss beyond the flip rate."""
    plan = {"n": 100, "flip_rate": 0.05, "margin": 0.03, "alpha": 0.05} | bad
    with pytest.raises(ValueError, match="found"):
        power(**plan)


def test_bad_targets_are_refused() -> None:
    """A power outside (0, 1) cannot be planned for."""
    for target in (0.0, 1.0, float("nan")):
        with pytest.raises(ValueError, match="power"):
            items_needed(flip_rate=0.05, margin=0.03, power=target)
        with pytest.raises(ValueError, match="power"):
            smallest_margin(n=100, flip_rate=0.05, power=target)
