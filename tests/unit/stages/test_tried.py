"""What a run measured of its reference besides fills and times, and the levers that it tried, as a diagnosis takes them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import evidence as made
import speeds
import streams
from quantgate.records import DecodeTime, Evidence, Parting, SpeculationPass, SpeculationRun
from quantgate.stages.against_roofs import against_roofs
from quantgate.stages.diagnose import examine
from quantgate.stages.tried import readings_of
from quantgate.symptoms import Symptoms


def found(**fields: Any) -> Evidence:
    """A reference that was filled to batch 8 and timed there, in a run with a known-bad control."""
    return replace(made.evidence(speeds.timed("float32"), made.known_bad()), **fields)


def drafted(*, ratio: float = 0.8, partings: tuple[Parting, ...] = ()) -> SpeculationRun:
    """Prompt lookup with 60 of 100 drafts accepted."""
    one = SpeculationPass(
        draft_tokens=4,
        batch_size=1,
        steps=25,
        drafted=100,
        accepted=60,
        emitted=85,
        drafted_at=(25, 25, 25, 25),
        accepted_at=(25, 20, 10, 5),
        compared=50,
        partings=partings,
        plain=(DecodeTime(seconds=1.0, tokens=100),),
        speculative=(DecodeTime(seconds=1.0 / ratio, tokens=100),),
    )
    return SpeculationRun(drafter="prompt_lookup", dtype="float32", prompts=50, draft_weight_bytes=0, passes=(one,))


def test_the_roofs_give_bandwidth_and_shares() -> None:
    """Bandwidth of reads as large as the weights, MBU at the confirmed batch, and MFU where the arithmetic is plainly spare."""
    row = against_roofs(speeds.timed("float32"), speeds.ROOFS)[-1]
    seen, trials = readings_of(found(roofs=speeds.ROOFS))
    assert seen.bandwidth_bytes_per_s == 23e9 and seen.mbu_share == row.mbu
    assert row.mfu is not None and row.mfu <= 0.30 and seen.mfu_share == row.mfu
    assert trials == ()


@pytest.mark.parametrize(("step_s", "told"), [(0.090, True), (0.050, False), (0.0215, True)])
def test_between_spare_and_full_the_measured_roof_tells_nothing(step_s: float, told: bool) -> None:
    """MFU of a rate that was measured is not that of a datasheet: from 30 % to 80 % it is left out."""
    roofs = replace(speeds.ROOFS, reads=(speeds.rate("read", 90e9),))
    base = speeds.timed("float32", {8: step_s})
    share = against_roofs(base, roofs)[0].mfu
    assert share is not None and (not 0.3 < share < 0.8) == told
    seen, _ = readings_of(replace(made.evidence(base, made.known_bad()), roofs=roofs))
    assert (seen.mfu_share is not None) == told and seen.mbu_share is not None


def test_a_fault_and_a_ceiling_without_a_time_give_no_shares() -> None:
    """A step above its roof is no evidence, and neither is another batch than the confirmed one."""
    slow = replace(speeds.ROOFS, reads=(speeds.rate("read", 1e9),))
    assert readings_of(found(roofs=slow))[0].mbu_share is None
    untimed = replace(made.evidence(speeds.timed("float32", ceiling=99), made.known_bad()), roofs=speeds.ROOFS)
    seen, _ = readings_of(untimed)
    assert (seen.mbu_share, seen.mfu_share, seen.bandwidth_bytes_per_s) == (None, None, 23e9)
    assert readings_of(found()) == (Symptoms(), ())


def test_static_batches_give_utilisation_and_continuous_ones_a_trial() -> None:
    """Five useful tokens of 2 rows x 5 steps; twice the useful tokens/s in 1.5 s instead of 3."""
    runs = [
        streams.run("alone", rows=1, steps=5),
        streams.run("static", steps=5),
        streams.run("continuous", token_s=((0.5, 1.0), (0.5, 1.0, 1.5)), wall_s=1.5),
    ]
    runs = [replace(one, variant="float32") for one in runs]
    seen, (trial,) = readings_of(found(batching=tuple(runs)))
    assert (seen.useful_tokens, seen.row_steps) == (5, 10)
    assert trial.lever == "continuous batching" and trial.gain == pytest.approx(2.0)
    assert "2.00x the useful tokens/s" in trial.measured and "0.50x the ITL p99" in trial.cost
    diagnosis = examine(found(batching=tuple(runs)), ())
    assert diagnosis is not None
    assert any(trial.measured in one.measured for one in diagnosis.levers if one.lever == "continuous batching")


def test_speculation_is_a_trial_and_refused_where_an_output_changed() -> None:
    """A loss is told as one; an output that rounding does not explain is recommended for nothing."""
    _, (trial,) = readings_of(found(speculation=(drafted(),)))
    assert trial.gain == pytest.approx(0.8) and not trial.refused
    assert "0.80x the tokens/s of plain decoding at batch 1" in trial.measured and "60 % of the drafts accepted" in trial.measured
    assert trial.cost == "no second model; 0 of 50 outputs differ from plain decoding"
    parting = Parting(prompt="a", at=3, margin=None, noise=None)
    _, (trial,) = readings_of(found(speculation=(drafted(ratio=2.0, partings=(parting,)),)))
    assert trial.refused and "1 of 50 outputs differ" in trial.cost
    broken = SpeculationRun(drafter="prompt_lookup", why_not="no prompts")
    assert readings_of(found(speculation=(broken,))) == (Symptoms(), ())
