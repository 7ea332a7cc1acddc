"""What a report shows of speed: faults are left out with a sentence, heat and held clocks are told."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest

from evidence import candidate, decided, evidence, policy, reference
from quantgate.records import (
    DeviceState,
    Evidence,
    Generation,
    ModelSource,
    Quadruple,
    Report,
    Roofs,
    SpeedPoint,
    SpeedRun,
)
from quantgate.stages import report
from speeds import PRICE, ROOFS, generation, loaded, timed


def _report(found: Evidence) -> Report:
    context = report.Context(
        run_id="x", created_at="", model=ModelSource(name="m", path="/m"), golden_sets=(), policy=policy(), commands=(), seconds=0.0
    )
    return report.build(context, found, decided(found), None)


def _evidence(steps: dict[int, float], roofs: Roofs = ROOFS) -> Evidence:
    base, one = timed("float32"), timed("int8", steps)
    facts = {"weights_sha256": "ab" * 32}
    made = evidence(
        replace(reference(), loaded=base.loaded, capacity=base.capacity, speed=base.speed),
        replace(candidate(), loaded=replace(loaded("int8"), **facts), capacity=one.capacity, speed=one.speed),
    )
    return replace(made, roofs=roofs, price=PRICE)


def test_a_batch_above_the_roof_is_not_shown() -> None:
    """At batch 8 the timing cannot be: its row, its place as the ceiling and its cost are gone, and a sentence says so."""
    found = _report(_evidence({1: 0.034, 8: 0.001}))
    row = found.measurements[1]
    assert [one.batch_size for one in row.speed] == [1]
    assert row.tokens_per_s_at_ceiling is None and row.ratio_at_ceiling is None
    assert row.cost is not None and row.cost.batch_size == 1
    assert any("the speed at batch 8 is not shown" in one and "measuring fault" in one for one in found.sentences)


def test_whole_evidence_shows_shares_and_cost() -> None:
    """Without a fault every batch has a share, and no sentence is added."""
    found = _report(_evidence({1: 0.034, 8: 0.110}))
    assert [one.mbu is not None for one in found.measurements[1].roofline] == [True, True]
    assert not any("not shown" in one for one in found.sentences)
    assert found.roofs == ROOFS and found.price == PRICE


def test_heat_and_held_clocks_are_told() -> None:
    """Three slow-downs between the two looks; a GPU whose clocks are held down at the end."""
    hot = replace(ROOFS, before=DeviceState(throttle_events=4), after=DeviceState(throttle_events=7))
    assert any("slowed the CPU down 3 times" in one for one in _report(_evidence({1: 0.034}, hot)).sentences)
    held = replace(ROOFS, before=DeviceState(throttled=()), after=DeviceState(throttled=("software power cap",)))
    assert any("held down" in one and "software power cap" in one for one in _report(_evidence({1: 0.034}, held)).sentences)
    cool = replace(ROOFS, before=DeviceState(throttle_events=4, throttled=()), after=DeviceState(throttle_events=4, throttled=()))
    assert not any("slowed" in one or "held down" in one for one in _report(_evidence({1: 0.034}, cool)).sentences)


def test_a_fault_of_another_workload_takes_only_its_own_figures_away() -> None:
    """Batch 8 is at fault at the lengths of summarise: its row there is gone, the run's own row stays, and the sentence says which."""
    found = _evidence({1: 0.034, 8: 0.110})
    one = found.variants[1]
    assert one.speed is not None
    wrong = replace(generation(8, 0.001), workload="summarise")
    mixed = replace(one, speed=replace(one.speed, generations=(*one.speed.generations, wrong)))
    made = _report(replace(found, variants=(found.variants[0], mixed)))
    assert [row.batch_size for row in made.measurements[1].speed] == [1, 8]
    assert made.measurements[1].other_speed == ()
    assert any("at batch 8 of summarise is not shown" in line for line in made.sentences)


def test_what_is_left_out_moves_no_ratio_to_other_runs() -> None:
    """Quadruples at batch 1 that cannot be stand before those at 8, which vary: their ratio is that of the very runs they name."""
    steps = (0.110, 0.130, 0.150, 0.170)
    ours: list[Generation] = []
    theirs: list[Generation] = []
    quadruples: list[Quadruple] = []
    for batch, paces in ((1, (0.001,) * 4), (8, steps)):
        for pace in paces:
            at = (len(ours), len(ours) + 1)
            ours += [generation(batch, pace)] * 2
            theirs += [generation(batch, 0.120)] * 2
            point = SpeedPoint(batch_size=batch, reference_batch=batch)
            quadruples.append(Quadruple(point=point, variant=at, reference=at, seconds=1.0))
    run = SpeedRun(variant="int8", generations=tuple(ours), partner=tuple(theirs), quadruples=tuple(quadruples))
    found = _evidence({1: 0.034, 8: 0.110})
    made = _report(replace(found, variants=(found.variants[0], replace(found.variants[1], speed=run))))
    (row,) = made.measurements[1].speed
    assert row.batch_size == 8 and row.quadruples == 4
    assert row.ratio_to_reference == pytest.approx(prod(0.120 / step for step in steps) ** 0.25)
