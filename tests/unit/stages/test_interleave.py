"""Quadruples in turn, further looks while something is open, and a time budget that is kept."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from quantgate.records import CheckRule, SpeedPoint, SpeedRun, Workload
from quantgate.stages.interleave import Job, interleave
from quantgate.stages.sweep import Target
from quantgate.stats.speed import look_sizes
from racing import Race

WORK = Workload(prompt_tokens=8, output_tokens=64)
RULE = CheckRule(kind="min_speed_ratio", minimum=0.95, at=1)


def point(batch: int, reference: int | None = -1) -> SpeedPoint:
    return SpeedPoint(batch_size=batch, reference_batch=batch if reference == -1 else reference)


def job(*targets: Target, budget_s: float | None = None, level: float = 0.05, **fields: float) -> Job:
    return Job(targets=targets, workloads={"main": WORK}, level=level, budget_s=budget_s, **fields)  # type: ignore[arg-type]


def checked(batch: int = 1, *rules: CheckRule) -> Target:
    return Target(point=point(batch), least=4, rules=rules or (RULE,))


def started(most: int = 32) -> SpeedRun:
    return SpeedRun(variant="int8", generations=(), looks=look_sizes(most))


def counted(run: SpeedRun) -> dict[SpeedPoint, int]:
    return dict(Counter(one.point for one in run.quadruples))


def test_a_quadruple_is_reference_variant_variant_reference() -> None:
    """One side works at a time, in this order; what it measured is found again at the places that it names."""
    race = Race(pace=lambda who, work, batch: 0.01 if who == "reference" else 0.02)
    run = interleave(job(Target(point=point(4, 2), least=2)), started(), race.hands())
    assert race.asked == [("reference", 2), ("variant", 4), ("variant", 4), ("reference", 2)] * 2
    assert [(one.variant, one.reference) for one in run.quadruples] == [((0, 1), (0, 1)), ((2, 3), (2, 3))]
    assert {one.batch_size for one in run.generations} == {4} and {one.batch_size for one in run.partner} == {2}
    assert run.complete and run.seconds == pytest.approx(2 * 64 * 0.06)


def test_a_variant_above_the_references_ceiling_runs_alone() -> None:
    """Twice, without a partner."""
    race = Race(pace=lambda who, work, batch: 0.01)
    run = interleave(job(Target(point=point(8, None), least=1)), started(), race.hands())
    assert race.asked == [("variant", 8)] * 2 and run.quadruples[0].reference is None


def test_what_is_shown_at_the_first_look_is_timed_no_further() -> None:
    """A quiet machine and no difference: four quadruples, kept one after the other."""
    rng = random.Random(1)
    race = Race(pace=lambda who, work, batch: 0.01 * (1 + rng.gauss(0, 0.002)))
    run = interleave(job(checked()), started(), race.hands())
    assert counted(run) == {point(1): 4}
    assert [len(one.quadruples) for one in race.kept] == [1, 2, 3, 4] and not any(one.complete for one in race.kept)


def test_what_is_open_goes_on_to_its_next_look() -> None:
    """A noisier machine: more quadruples, and their number is one of the planned ones; at the end of the plan it is left open."""
    rng = random.Random(3)
    race = Race(pace=lambda who, work, batch: 0.01 * (1 + rng.gauss(0, 0.04)))
    run = interleave(job(checked()), started(), race.hands())
    assert 4 < len(run.quadruples) <= 32 and len(run.quadruples) in run.looks
    edge = Race(pace=lambda who, work, batch: 0.01 * (1 + rng.gauss(0, 0.02)) * (1 if who == "reference" else 1 / 0.95))
    assert len(interleave(job(checked()), started(9), edge.hands()).quadruples) == 9


def test_a_machine_that_is_too_noisy_is_given_up() -> None:
    """Where even a variant without a loss would need several times the planned number, no time is wasted on it."""
    rng = random.Random(5)
    race = Race(pace=lambda who, work, batch: 0.01 * (1 + abs(rng.gauss(0, 0.9))))
    assert len(interleave(job(checked()), started(), race.hands()).quadruples) == 6


def test_points_take_turns() -> None:
    """The one with the fewest quadruples first: a drift falls on all alike."""
    race = Race(pace=lambda who, work, batch: 0.01)
    run = interleave(job(checked(1), checked(2)), started(), race.hands())
    assert [one.point.batch_size for one in run.quadruples] == [1, 2] * 4


def test_what_is_decided_on_is_never_timed_twice_by_the_same_processes() -> None:
    """Both are started anew before a checked point's next quadruple; points share a pair once each, and a sweep needs no new one."""
    race = Race(pace=lambda who, work, batch: 0.01)
    unchecked = [Target(point=point(4), least=2), Target(point=point(8), least=2, sweep=True)]
    run = interleave(job(checked(1), checked(2), *unchecked), started(), race.hands())
    assert race.renewed == [8, 16, 24]
    pairs = [(one.point.batch_size, one.pair) for one in run.quadruples]
    assert pairs[:8] == [(1, 1), (2, 1), (1, 2), (2, 2), (1, 3), (2, 3), (1, 4), (2, 4)] and {pair for _, pair in pairs[8:]} == {4}
    kept = Race(pace=lambda who, work, batch: 0.01)
    assert {one.pair for one in interleave(job(checked(1), fresh=False), started(), kept.hands()).quadruples} == {1}
    assert kept.renewed == []


def test_an_interrupted_run_goes_on_with_a_new_pair() -> None:
    """The processes of before are gone: their number is not given again."""
    before = Race(pace=lambda who, work, batch: 0.01)
    interleave(job(checked()), started(), before.hands())
    rest = interleave(job(checked()), before.kept[1], (race := Race(pace=lambda who, work, batch: 0.01)).hands())
    assert [one.pair for one in rest.quadruples] == [1, 2, 3, 4] and race.renewed == [4]


@pytest.mark.parametrize("opening_s", [1.0, 30.0])
@pytest.mark.parametrize("budget_s", [20.0, 60.0, 150.0])
def test_starting_processes_anew_is_within_the_budget(budget_s: float, opening_s: float) -> None:
    """It is counted before it is done, from what is known of loading and then from what it took; what does not fit is told."""
    race = Race(pace=lambda who, work, batch: 0.01, opening_s=opening_s)
    run = interleave(job(checked(), budget_s=budget_s, opening_s=opening_s), started(), race.hands())
    assert race.now_s <= budget_s and run.seconds <= budget_s
    assert bool(run.left_out) == (len(run.quadruples) < 4) == (4 * 2.56 + 3 * opening_s > budget_s)


def test_out_of_memory_closes_a_point_and_nothing_else() -> None:
    """It is noted with the side and the batch; the others are timed."""
    race = Race(pace=lambda who, work, batch: "out of memory" if batch == 8 and who == "variant" else 0.01)
    targets = [Target(point=point(batch), least=1, sweep=batch > 1) for batch in (1, 8, 16)]
    run = interleave(job(*targets), started(), race.hands())
    assert counted(run) == {point(1): 1, point(16): 1}
    assert [(one.point, one.because) for one in run.left_out] == [
        (point(8), "the variant ran out of memory at batch 8: so it was told")
    ]


@pytest.mark.parametrize("budget_s", [1.0, 20.0, 60.0, 400.0])
def test_the_budget_is_kept(budget_s: float) -> None:
    """Whatever it is: no more is used, and all that was not timed is told with the reason."""
    race = Race(pace=lambda who, work, batch: 0.01 * batch)
    targets = [checked(), *(Target(point=point(2**k), least=1, sweep=True) for k in range(1, 7))]
    run = interleave(job(*targets, budget_s=budget_s), started(), race.hands())
    assert race.now_s <= budget_s and run.seconds <= budget_s
    missed = {one.point for one in run.left_out}
    assert missed == {one.point for one in targets if len(run.at(one.point)) < one.least}
    assert all("budget" in one.because for one in run.left_out)
    assert bool(missed) == (budget_s < 400)


def test_a_prediction_that_was_too_low_is_cut_at_the_end_of_the_budget() -> None:
    """A batch that takes fifty times as long as predicted is ended where the budget ends."""
    race = Race(pace=lambda who, work, batch: 0.01 if batch == 1 else 1.0)
    targets = [Target(point=point(1), least=1), Target(point=point(2), least=1, sweep=True)]
    run = interleave(job(*targets, budget_s=30.0), started(), race.hands())
    assert race.now_s == pytest.approx(30.0) and run.left_out[0].because == "the reference did not end within the time budget at batch 2"


def test_a_look_that_does_not_fit_is_not_begun() -> None:
    """Between two looks nothing can be shown, so a half of the way to the next is worth nothing."""
    rng = random.Random(3)
    race = Race(pace=lambda who, work, batch: 0.01 * (1 + rng.gauss(0, 0.04)))
    run = interleave(job(checked(), budget_s=4 * 2.56 + 3.0), started(), race.hands())
    assert len(run.quadruples) == 4
    assert run.left_out[0].because == "the time budget ends before the next planned look at 6 quadruples"


def test_nothing_is_begun_where_loading_takes_all_the_budget() -> None:
    """Both sides must be loaded first."""
    race = Race(pace=lambda who, work, batch: 0.01)
    run = interleave(job(checked(), budget_s=10.0, opening_s=12.0), started(), race.hands())
    assert not race.asked and len(run.left_out) == 1


def test_an_interrupted_run_goes_on_where_it_was() -> None:
    """What was kept is not timed again, and its time counts against the budget."""
    race = Race(pace=lambda who, work, batch: 0.01)
    interleave(job(checked()), started(), race.hands())
    after_two = race.kept[1]
    again = Race(pace=lambda who, work, batch: 0.01)
    run = interleave(job(checked(), budget_s=3 * 2.56 + 0.1), after_two, again.hands())
    assert len(again.asked) == 4 and len(run.quadruples) == 3 and run.quadruples[:2] == after_two.quadruples
    assert run.generations[:4] == after_two.generations


def test_points_that_were_left_out_beforehand_stay_so() -> None:
    """Such as a batch beyond the ceiling."""
    race = Race(pace=lambda who, work, batch: 0.01)
    before = interleave(job(checked(8), budget_s=0.0), started(), race.hands())
    run = interleave(job(checked(8)), replace(before, seconds=0.0), race.hands())
    assert not race.asked and run.left_out == before.left_out
