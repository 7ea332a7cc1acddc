"""Holm's step-down and the fixed sequence, step by step."""

import pytest

from quantgate.stats.multiplicity import fixed_sequence, holm, intersection_p


def test_holm_levels_grow_with_the_rank() -> None:
    """The candidate of rank r is tested at alpha / (K - r + 1)."""
    steps = holm({"a": 0.010, "b": 0.024, "c": 0.049}, alpha=0.05, k=3)
    assert [step.level for step in steps] == pytest.approx([0.05 / 3, 0.025, 0.05])
    assert [step.rank for step in steps] == [1, 2, 3]
    assert all(step.rejected for step in steps)


def test_holm_stops_at_the_first_that_is_not_rejected() -> None:
    """Behind a stop nothing is rejected, even below its own level, and its bound is taken at the level that stopped it."""
    steps = holm({"a": 0.010, "b": 0.030, "c": 0.040}, alpha=0.05, k=3)
    assert [step.rejected for step in steps] == [True, False, False]
    assert steps[2].p <= steps[2].level
    assert steps[2].bound_level == steps[1].level < steps[2].p


def test_holm_counts_candidates_that_are_not_there() -> None:
    """K stays what the policy says: with six candidates and one measured, that one needs alpha / 6."""
    assert not holm({"a": 0.01}, alpha=0.05, k=6)[0].rejected
    assert holm({"a": 0.008}, alpha=0.05, k=6)[0].rejected


def test_holm_takes_an_unmeasured_candidate_as_one() -> None:
    """None counts as p = 1 and comes last."""
    steps = holm({"a": None, "b": 0.02}, alpha=0.05, k=2)
    assert [(step.name, step.p, step.rejected) for step in steps] == [("b", 0.02, True), ("a", 1.0, False)]


def test_holm_ties_do_not_depend_on_the_order_given() -> None:
    """Equal p-values are ordered by name."""
    assert holm({"b": 0.01, "a": 0.01}, alpha=0.05, k=2) == holm({"a": 0.01, "b": 0.01}, alpha=0.05, k=2)


def test_holm_is_inclusive_at_the_level() -> None:
    """A p-value equal to its level is rejected."""
    assert holm({"a": 0.025}, alpha=0.05, k=2)[0].rejected


def test_no_candidates_no_steps() -> None:
    """Nothing given, nothing rejected."""
    assert holm({}, alpha=0.05, k=1) == ()
    assert fixed_sequence([], alpha=0.05) == ()


def test_fixed_sequence_stops_and_leaves_the_rest_untested() -> None:
    """The first that is not rejected is tested; later ones are not, however small their p."""
    steps = fixed_sequence([("mild", 0.01), ("middle", 0.06), ("harsh", 0.001)], alpha=0.05)
    assert [(step.tested, step.rejected) for step in steps] == [(True, True), (True, False), (False, False)]


def test_fixed_sequence_stops_at_an_unmeasured_candidate() -> None:
    """An unmeasured candidate counts as p = 1 and stops the sequence."""
    assert [step.tested for step in fixed_sequence([("a", None), ("b", 0.0)], alpha=0.05)] == [True, False]


def test_intersection_is_the_largest_p() -> None:
    """All must hold: the largest p-value; nothing measured is never shown."""
    assert intersection_p([0.01, 0.04]) == 0.04
    assert intersection_p([0.01, None]) == 1.0
    assert intersection_p([]) == 1.0


@pytest.mark.parametrize("p", [-0.01, 1.01, float("nan")])
def test_p_values_outside_zero_one_are_refused(p: float) -> None:
    """A NaN p-value must never be ranked."""
    with pytest.raises(ValueError, match="p-value"):
        holm({"a": p}, alpha=0.05, k=1)
    with pytest.raises(ValueError, match="p-value"):
        fixed_sequence([("a", p)], alpha=0.05)


def test_more_candidates_than_k_are_refused() -> None:
    """A candidate the policy did not count makes the level wrong."""
    with pytest.raises(ValueError, match="k = 1"):
        holm({"a": 0.1, "b": 0.1}, alpha=0.05, k=1)


def test_a_name_twice_in_a_sequence_is_refused() -> None:
    """A second chance under the same name is refused."""
    with pytest.raises(ValueError, match="once"):
        fixed_sequence([("a", 0.01), ("a", 0.01)], alpha=0.05)
