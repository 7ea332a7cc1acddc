"""From a run's evidence to a diagnosis: what the reference shows, what candidates promised and held, and what stays unknown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import evidence as made
from quantgate.records import Evidence, FillOutcome, Generation, Probe, SpeedRun, VariantEvidence
from quantgate.stages.diagnose import examine, symptoms_of
from quantgate.symptoms import Diagnosis, Symptoms, Timing


def generation(batch: int, step_s: float, *, warmup: bool = False) -> Generation:
    """Four steps of equal length."""
    steps = tuple(0.1 + step_s * number for number in range(4))
    return Generation(batch_size=batch, prompt_tokens=8, output_tokens=4, produced_tokens=4 * batch, step_s=steps, warmup=warmup)


def speed(name: str, steps: dict[int, float], partner: dict[int, float] | None = None) -> SpeedRun:
    """A generation at each batch size, with a warm-up that must not count."""
    timed = tuple(generation(batch, step_s) for batch, step_s in steps.items())
    beside = tuple(generation(batch, step_s) for batch, step_s in (partner or {}).items())
    return SpeedRun(variant=name, generations=(generation(1, 9.0, warmup=True), *timed), partner=beside)


def probe(batch: int, outcome: FillOutcome, peak_bytes: int) -> Probe:
    """A probe of the ceiling's search."""
    return Probe(batch_size=batch, outcome=outcome, peak_bytes=peak_bytes, purpose="probe")


STEPS = {1: 0.058, 6: 0.070, 12: 0.080}


def reference(**changes: Any) -> VariantEvidence:
    """A reference of 4,000 bytes in a budget of 5,000: 12 rows of 75 bytes fit, 13 do not."""
    capacity = made.capacity(12, budget_bytes=5000, fixed_bytes=4080, decode_bytes_per_row=75, prefill_bytes_per_row=70)
    capacity = replace(capacity, probes=(probe(12, "fits", 4980), probe(13, "over budget", 5060), probe(20, "out of memory", 5600)))
    return replace(made.reference(), capacity=replace(capacity, **changes), speed=speed("float32", STEPS))


def candidate(name: str = "int8", b: int = 2) -> VariantEvidence:
    """A quarter of the weights, slower at equal batches, and more rows."""
    beside = speed(name, {1: 0.087, 6: 0.105, 48: 0.120}, partner={1: 0.058, 6: 0.070})
    capacity = made.capacity(48, budget_bytes=5000, fixed_bytes=1080, limited_by="search cap")
    return made.candidate(name, b=b, capacity=capacity, speed=beside, weight_bytes=1000)


def diagnosed(*variants: VariantEvidence, added: Symptoms | None = None) -> Diagnosis:
    """The diagnosis of a run, judged by the usual policy."""
    found = made.evidence(*variants)
    verdict = examine(found, made.decided(found).verdicts, added)
    assert verdict is not None
    return verdict


def test_what_a_reference_shows() -> None:
    """The confirmed and the smallest failed batch, the fill's peak, the steps without warm-ups, the step at the ceiling."""
    seen = symptoms_of(reference())
    assert (seen.memory_total_bytes, seen.memory_used_bytes, seen.weight_bytes, seen.weight_bits) == (5000, 4980, 4000, 32)
    assert (seen.fitting_batch, seen.failed_batch, seen.out_of_memory, seen.batch, seen.request_bytes) == (12, 13, True, 12, 75)
    assert seen.timings == tuple(Timing(batch=batch, step_s=pytest.approx(step_s)) for batch, step_s in STEPS.items())
    assert seen.step_s == pytest.approx(0.080)


def test_steps_at_other_lengths_are_no_timings_of_the_run() -> None:
    """A second workload with steps four times as long leaves the run's own steps, and the step at its ceiling, as they are."""
    one = reference()
    assert one.speed is not None
    other = tuple(replace(each, workload="summarise", step_s=tuple(4 * at for at in each.step_s)) for each in one.speed.generations)
    mixed = replace(one, speed=replace(one.speed, generations=(*one.speed.generations, *other)))
    assert symptoms_of(mixed) == symptoms_of(one)


def test_a_run_that_is_memory_bound() -> None:
    """Memory ran out and rows still pay: quantize, with what it promised, held and cost in this run."""
    found = diagnosed(reference(), candidate(), made.known_bad())
    assert found.limit == "memory-bound"
    assert found.line.startswith("memory-bound at batch 12 with compute to spare; quantizing fits, speculative decoding does not (")
    quantization = found.levers[0]
    # (5000 - 4080 + 3000) / (5000 - 4080) = 4.26 times the room; steps grow as the batch to the power 0.19
    assert "int8: 4.26x the room for requests, batch 12 -> 51" in quantization.predicted
    assert quantization.predicted_gain == pytest.approx(4 ** (1 - 0.19265), rel=1e-3)
    assert quantization.measured_gain == pytest.approx((48 / 0.120) / (12 / 0.080))
    assert "batch 12 -> >= 48, 2.67x the tokens/s there" in quantization.measured
    assert "measured in this run: int8: PASS, loss 0.0 points, at most" in quantization.cost
    assert "0.67x at batch 1, 0.67x at batch 6 of the reference's: bound by dequantization" in quantization.cost
    assert found.notes == ("figures are of float32, the run's reference, at its own batch ceiling",)


def test_a_candidate_that_failed_is_no_recommendation() -> None:
    """Its figures are told, and another's come first."""
    found = diagnosed(reference(), candidate("nf4", b=60), candidate(), made.known_bad())
    assert found.levers[0].measured.startswith("int8: ") and "nf4: FAIL" in found.levers[0].cost


@pytest.mark.parametrize("limited_by", ["search cap", "engine", "time"])
def test_a_ceiling_that_memory_did_not_set(limited_by: str) -> None:
    """Nothing ran out of memory, whatever probes beyond the cap did: no memory limit, so it abstains."""
    found = diagnosed(reference(limited_by=limited_by), candidate(), made.known_bad())
    assert found.symptoms.out_of_memory is False and found.symptoms.failed_batch is None
    assert found.limit == "abstain"


@pytest.mark.parametrize(("predicted", "rows"), [(40, ", batch 40 -> 170"), (None, "")])
def test_what_the_search_stopped_at_is_no_ceiling(predicted: int | None, rows: str) -> None:
    """A cap of 12 is not multiplied: the prediction is, or nothing; and what is told of the measured batches begins with ``>=``."""
    found = diagnosed(reference(limited_by="search cap", predicted=predicted), candidate(), made.known_bad()).levers[0]
    assert f"int8: 4.26x the room for requests{rows}, tokens/s about" in found.predicted
    assert "at the batch that was confirmed" not in found.predicted and "batch >= 12 -> >= 48" in found.measured


def test_not_even_one_request() -> None:
    """Confirmed 0: batch 1 is what failed, and compute is idle for want of anything to do."""
    found = diagnosed(reference(confirmed=0, probes=(probe(1, "out of memory", 6000),)), candidate(), made.known_bad())
    assert (found.symptoms.fitting_batch, found.symptoms.failed_batch) == (None, 1)
    assert found.limit == "memory-bound" and "not even one request fits" in found.sentence


def test_a_ceiling_that_was_not_measured() -> None:
    """What a stage did not find stays unknown."""
    unknown = reference(confirmed=None, limited_by=None, probes=(), budget_bytes=None, why_not="no memory figure")
    seen = symptoms_of(unknown)
    assert (seen.out_of_memory, seen.failed_batch, seen.memory_total_bytes, seen.batch) == (None, None, None, None)
    assert diagnosed(unknown, candidate(), made.known_bad()).limit == "abstain"


def test_peaks_beyond_the_budget_are_left_out() -> None:
    """A figure that a confirmed fill cannot have is not taken for memory in use."""
    assert symptoms_of(reference(probes=(probe(12, "fits", 5100),))).memory_used_bytes is None


def test_what_a_person_adds_goes_first() -> None:
    """Compute utilisation read beside the run turns the same evidence into another limit."""
    assert diagnosed(reference(), candidate(), made.known_bad(), added=Symptoms(mfu_share=0.7)).limit == "compute-bound"


def test_nothing_filled_and_nothing_timed() -> None:
    """Results of other tools know nothing of memory or speed: no diagnosis, unless a person adds something."""
    bare: Evidence = made.evidence(replace(reference(), capacity=None, speed=None))
    assert examine(bare, ()) is None
    added = examine(bare, (), Symptoms(batch=8))
    assert added is not None and added.limit == "abstain" and added.notes == ()


@pytest.mark.parametrize("added", [Symptoms(batch=1, waiting_requests=0), Symptoms(streams=1), Symptoms(streams=3, waiting_requests=2)])
def test_another_load_than_the_ceiling_takes_its_own_step(added: Symptoms) -> None:
    """One row beside a run that was filled to 12: the step is that of batch 1, and the load is told."""
    found = diagnosed(reference(), made.known_bad(), added=added)
    assert (found.symptoms.batch, found.symptoms.step_s, found.symptoms.fitting_batch) == (1, pytest.approx(STEPS[1]), 12)
    assert "its steps at batch 1" in found.notes[0]


def test_a_load_that_was_not_timed_takes_no_step() -> None:
    """Batch 3 was not timed: no step of another batch stands in for it."""
    found = diagnosed(reference(), made.known_bad(), added=Symptoms(streams=3))
    assert (found.symptoms.batch, found.symptoms.step_s) == (3, None)
