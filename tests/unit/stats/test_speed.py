"""Log ratios of quadruples: how many are asked for, when one looks, and what is then shown."""

from __future__ import annotations

from math import inf, log, sqrt

import numpy as np
import pytest

from quantgate.stats.speed import LEAST, asked_for, decide, deviation, interval, look_sizes, looks, units_needed

MARGIN = -log(0.95)
SIZES = look_sizes(32)


@pytest.mark.parametrize(
    ("margin", "wanted"), [(0.05, (3, 4, 6, 14, 49)), (0.10, (2, 3, 3, 5, 13)), (0.02, (5, 14, 29, 78, 305))]
)
def test_quadruples_asked_for(margin: float, wanted: tuple[int, ...]) -> None:
    """Pairs for power 0.8 at no loss, by run-to-run variation of 1, 2, 3, 5 and 10 %."""
    assert tuple(asked_for(cv=cv, margin=-log(1 - margin)) for cv in (0.01, 0.02, 0.03, 0.05, 0.10)) == wanted


def test_looks_are_planned() -> None:
    """4, then half as many again; the last is what was allowed; under four there are none."""
    assert SIZES == (4, 6, 9, 14, 21, 32)
    assert (look_sizes(4), look_sizes(5), look_sizes(3), look_sizes(10)) == ((4,), (4, 5), (), (4, 6, 9, 10))


@pytest.mark.parametrize("alpha", [0.05, 0.05 / 3, 0.001])
def test_levels_add_up_to_alpha(alpha: float) -> None:
    """Whatever the looks have in common, together they err with no more than alpha."""
    plan = looks(SIZES, alpha=alpha)
    assert sum(one.level for one in plan) == pytest.approx(alpha)
    assert sum(one.level for one in plan) <= alpha
    assert [one.level for one in plan] == sorted((one.level for one in plan), reverse=True)


def test_a_single_look_is_the_t_interval() -> None:
    """Four log ratios and one planned look: mean and t quantile 2.353 of three degrees of freedom, worked by hand."""
    values = [0.01, -0.01, 0.02, 0.00]
    found = decide(values, margin=MARGIN, alpha=0.05, sizes=(4,))
    half = 2.3533634 * sqrt(sum((one - 0.005) ** 2 for one in values) / 3) / 2
    assert (found.estimate, found.lower, found.upper) == pytest.approx((0.005, 0.005 - half, 0.005 + half), rel=1e-6)
    bounds = interval(values, alpha=0.05)
    assert bounds is not None and (bounds.lower, bounds.upper) == pytest.approx((found.lower, found.upper))


def test_fewer_than_four_show_nothing() -> None:
    """However well they agree: no bounds, and the reason is said."""
    found = decide([0.0, 0.0, 0.0], margin=MARGIN, alpha=0.05, sizes=SIZES)
    assert (found.outcome, found.lower, found.upper) == ("inconclusive", -inf, inf)
    assert found.reason == "there are 3 quadruples, and the first planned look is at 4"
    assert interval([0.0] * 3, alpha=0.05) is None
    assert decide([0.0] * 9, margin=MARGIN, alpha=0.05, sizes=()).outcome == "inconclusive"


def test_only_planned_looks_count() -> None:
    """A fifth quadruple enters the estimate and no bound: it was not to be looked at."""
    four, five = [0.01, 0.0, -0.01, 0.0], [0.01, 0.0, -0.01, 0.0, 0.05]
    first, second = (decide(one, margin=MARGIN, alpha=0.05, sizes=SIZES) for one in (four, five))
    assert second.upper == first.upper and second.estimate > first.estimate


def test_what_was_shown_early_needs_the_rest_to_agree() -> None:
    """A pass at the first look falls where the mean over all quadruples lies at or beyond the margin; a fail likewise."""
    early = [0.0, 0.001, -0.001, 0.0]
    assert decide(early, margin=MARGIN, alpha=0.05, sizes=SIZES).outcome == "pass"
    assert decide([*early, *[0.2] * 5], margin=MARGIN, alpha=0.05, sizes=SIZES).outcome == "inconclusive"
    slow = [0.2 + one for one in early]
    assert decide(slow, margin=MARGIN, alpha=0.05, sizes=SIZES).outcome == "fail"
    assert decide([*slow, *[-0.2] * 5], margin=MARGIN, alpha=0.05, sizes=SIZES).outcome == "inconclusive"


def test_outcome_bound_and_p_value_agree() -> None:
    """Pass exactly where the upper bound lies at or below the margin and p at or below alpha; fail on the other side."""
    rng = np.random.default_rng(5)
    seen = set()
    for _ in range(300):
        values = (rng.normal(rng.uniform(-0.02, 0.12), 0.02, int(rng.integers(4, 33)))).tolist()
        found = decide(values, margin=MARGIN, alpha=0.05, sizes=SIZES)
        seen.add(found.outcome)
        assert (found.outcome == "pass") == (found.p_pass <= 0.05)
        assert (found.outcome == "fail") == (found.p_fail <= 0.05)
        assert found.lower <= found.estimate <= found.upper
        if found.outcome == "pass":
            assert found.upper <= MARGIN
        if found.outcome == "fail":
            assert found.lower >= MARGIN
    assert seen == {"pass", "fail", "inconclusive"}


def test_ratios_that_agree_to_the_last_digit_keep_an_interval() -> None:
    """A coarse clock is no proof: a loss that is equal to the margin in every quadruple is not shown either way."""
    assert decide([MARGIN] * 8, margin=MARGIN, alpha=0.05, sizes=SIZES).outcome == "inconclusive"
    found = decide([0.0] * 4, margin=MARGIN, alpha=0.05, sizes=SIZES)
    assert found.outcome == "pass" and 0 < found.upper < 0.001


def test_a_gain_can_be_asked_for() -> None:
    """A negative margin: at least 1.1 times as fast must be shown."""
    gain = -log(1.1)
    assert decide([-log(1.2), -log(1.21), -log(1.19), -log(1.2)], margin=gain, alpha=0.05, sizes=SIZES).outcome == "pass"
    assert decide([0.0, 0.01, -0.01, 0.0], margin=gain, alpha=0.05, sizes=SIZES).outcome == "fail"


def test_units_needed() -> None:
    """None where the true loss leaves no room, or more than ten thousand would be needed."""
    assert units_needed(deviation=0.03, margin=MARGIN, true_loss=MARGIN) is None
    assert units_needed(deviation=0.03, margin=MARGIN, true_loss=0.9 * MARGIN) is None
    assert units_needed(deviation=30.0, margin=MARGIN) is None
    assert units_needed(deviation=1e-4, margin=MARGIN) == 2
    assert deviation([0.1]) is None and LEAST == 4


@pytest.mark.parametrize(
    "call",
    [
        lambda: decide([], margin=MARGIN, alpha=0.05, sizes=SIZES),
        lambda: decide([float("nan")] * 4, margin=MARGIN, alpha=0.05, sizes=SIZES),
        lambda: decide([0.0] * 4, margin=inf, alpha=0.05, sizes=SIZES),
        lambda: decide([0.0] * 4, margin=MARGIN, alpha=0.0, sizes=SIZES),
        lambda: decide([0.0] * 4, margin=MARGIN, alpha=0.05, sizes=(6, 4)),
        lambda: looks((1, 4), alpha=0.05),
        lambda: units_needed(deviation=0.0, margin=MARGIN),
        lambda: look_sizes(-1),
    ],
)
def test_senseless_input_is_refused(call: object) -> None:
    """Nothing is decided on no quadruple, on NaN, without a margin, or at looks that do not rise."""
    with pytest.raises(ValueError):
        call()  # type: ignore[operator]
