"""Which batches are timed, in which order, and what each will cost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evidence import candidate, capacity, identity, reference
from quantgate.records import CheckRule, Quadruple, SpeedPoint, SpeedRun, TimingConfig, Workload
from quantgate.stages.sweep import ceiling_at, predicted_s, targets, why_impossible

MAIN = Workload(batch_sizes=(1, 8), max_batch=64)
LONG = Workload(name="summarise", prompt_tokens=256, output_tokens=64, batch_sizes=(1,), max_batch=64)
RULE = CheckRule(kind="min_speed_ratio", minimum=0.95, at=8)
ASKED = (TimingConfig(), 4)


def point(ours: int, theirs: int | None = -1, workload: str = "main") -> SpeedPoint:
    return SpeedPoint(batch_size=ours, reference_batch=ours if theirs == -1 else theirs, workload=workload)


def test_checks_come_first_then_what_was_asked_for_then_the_curve() -> None:
    """A candidate of ceiling 20 beside a reference of 10: the check's batch, the batch sizes, both ceilings, powers of two."""
    found = targets(candidate(), reference(), (MAIN,), (RULE,), ASKED)
    assert [(one.point, one.least, one.sweep) for one in found] == [
        (point(8), 4, False),
        (point(1), 1, False),
        (point(20, 10), 1, False),
        (point(2), 1, True),
        (point(4), 1, True),
        (point(10), 1, True),
        (point(16, None), 1, True),
    ]
    assert found[0].rules == (RULE,)


def test_a_check_at_the_ceiling_is_both_sides_at_their_own() -> None:
    """And a second rule at the same place is decided by the same quadruples."""
    rules = (replace(RULE, at="ceiling"), CheckRule(kind="max_ttft_ratio", maximum=1.2, at="ceiling"))
    first = targets(candidate(), reference(), (MAIN,), rules, ASKED)[0]
    assert (first.point, first.least, first.rules) == (point(20, 10), 4, rules)


def test_without_a_sweep_only_what_was_asked_for() -> None:
    """``sweep: false`` leaves the batch sizes and the ceilings."""
    found = targets(candidate(), reference(), (MAIN,), (), (TimingConfig(sweep=False), 4))
    assert [one.point for one in found] == [point(1), point(8), point(20, 10)]


def test_the_identity_control_is_timed_for_checks_alone() -> None:
    """The reference against itself, at the reference's ceiling where the check is at the ceiling."""
    again = replace(identity(), capacity=None)
    rules = (RULE, replace(RULE, at="ceiling"))
    assert [one.point for one in targets(again, reference(), (MAIN,), rules, ASKED)] == [point(8), point(10)]


def test_a_ceiling_at_other_lengths_follows_from_the_figures_of_a_row() -> None:
    """Prompts of four times the length cost four times as much to read; the cache grows with all tokens."""
    known = capacity(20, fixed_bytes=50, budget_bytes=450, prefill_bytes_per_row=10, decode_bytes_per_row=20, kv_bytes_per_row=16)
    assert ceiling_at(known, Workload()) == 20
    assert ceiling_at(known, LONG) == 400 // 44  # 16 x 320 / 128 of cache and 4 beside it, more than 40 of prefill
    assert ceiling_at(replace(known, predicted=40), LONG) == int(400 // 44 * 0.5)
    assert ceiling_at(replace(known, fixed_bytes=None), LONG) == 5
    assert ceiling_at(None, LONG) == ceiling_at(capacity(0), LONG) == 0
    assert ceiling_at(known, replace(LONG, max_batch=3)) == 3


def test_what_does_not_fit_is_told() -> None:
    """A batch beyond either side's ceiling names the side and the ceiling."""
    assert why_impossible(point(8), candidate(), reference(), MAIN) is None
    said = why_impossible(point(16), candidate(), reference(), MAIN)
    assert said == "the reference does not hold batch 16: its confirmed ceiling is 10"
    assert why_impossible(point(32, 8), candidate(), reference(), MAIN) == "the variant does not hold batch 32: its confirmed ceiling is 20"


def test_costs_are_predicted_from_what_was_timed() -> None:
    """The mean of a point's own without the first, which was warmed up; else scaled by rows and tokens, never downwards."""
    def quadruple(at: SpeedPoint, seconds: float) -> Quadruple:
        return Quadruple(point=at, variant=(0, 1), reference=(0, 1), seconds=seconds)

    workloads = {"main": MAIN, "summarise": LONG}
    run = SpeedRun(variant="x", generations=(), quadruples=(quadruple(point(1), 9.0), quadruple(point(1), 4.0), quadruple(point(1), 6.0)))
    assert predicted_s(run, point(1), workloads) == pytest.approx(5.0)
    assert predicted_s(run, point(4), workloads) == pytest.approx(16.0)
    assert predicted_s(run, point(1, workload="summarise"), workloads) == pytest.approx(16.0)
    assert predicted_s(replace(run, quadruples=()), point(1), workloads) is None
