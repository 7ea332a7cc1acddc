"""A run's evidence -> symptoms of the reference as it runs today, and the levers that the run tried -> ``Diagnosis``.

The reference is what a team serves now; its candidates are quantization, tried. Nothing is measured or decided here, and
what the run did not measure stays unknown: a person may add it, for example compute utilisation read beside the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from quantgate import gains
from quantgate.diagnosis import diagnose
from quantgate.limits import step_growth
from quantgate.records import MAIN, OPEN_ENDED, Capacity, Evidence, SpeedRun, VariantEvidence, Verdict
from quantgate.render import quantities as q
from quantgate.stages.tried import readings_of
from quantgate.symptoms import Diagnosis, Symptoms, Timing, Trial, overlaid

NO_ROOM = ("over budget", "out of memory")
BITS = {"float32": 32, "float16": 16, "bfloat16": 16}


def examine(evidence: Evidence, verdicts: Sequence[Verdict], added: Symptoms | None = None) -> Diagnosis | None:
    """The diagnosis of a run; ``added``: what a person knows besides. None where neither fills nor times nor anything added are there."""
    reference = next((one for one in evidence.variants if one.variant.role == "reference"), None)
    if reference is None or (reference.capacity is None and reference.speed is None and added is None):
        return None
    load = _load(reference, added or Symptoms())
    measured, trials = readings_of(evidence, load)
    seen = overlaid(overlaid(symptoms_of(reference, load), measured), added or Symptoms())
    tried = (*_quantized(evidence, reference, verdicts, step_growth(seen)), *trials)
    where = "at its own batch ceiling" if load is None else f"its steps at batch {q.count(load)}, its memory at its own batch ceiling"
    notes = [f"figures are of {reference.variant.name}, the run's reference, {where}"] if reference.capacity else []
    return diagnose(seen, tried, notes)


def _load(reference: VariantEvidence, added: Symptoms) -> int | None:
    """The batch that a person means instead of the ceiling: as stated, or no more rows than requests that come at once."""
    if added.batch is not None:
        return added.batch
    confirmed = None if reference.capacity is None else reference.capacity.confirmed
    if added.streams is None or confirmed is None:
        return None
    rows = added.streams - (added.waiting_requests or 0)
    return rows if 0 < rows < confirmed else None


# ---------------------------------------------------------------------------------------------- what the reference shows


def symptoms_of(one: VariantEvidence, load: int | None = None) -> Symptoms:
    """What is known of a variant that was filled or timed: its memory at the batch ceiling, and its steps at every batch.

    ``load``: the batch that runs; None for the ceiling. A step is only taken of that very batch.
    """
    step, timings = _step_at(one, load), _timings(one.speed)
    loaded, capacity = one.loaded, one.capacity
    known = Symptoms(
        weight_bytes=None if loaded is None else loaded.weight_bytes,
        weight_bits=None if loaded is None else BITS.get(loaded.dtype) if not loaded.quantized_parameters else None,
        timings=timings,
        batch=load if step is None else step.batch,
        step_s=None if step is None else step.step_s,
    )
    return known if capacity is None else overlaid(known, _filled(capacity))


def _filled(capacity: Capacity) -> Symptoms:
    rows = [each for each in (capacity.prefill_bytes_per_row, capacity.decode_bytes_per_row, capacity.kv_bytes_per_row) if each]
    confirmed = capacity.confirmed
    return Symptoms(
        memory_total_bytes=capacity.budget_bytes or None,
        memory_used_bytes=_peak(capacity),
        request_bytes=max(rows, default=None),
        fitting_batch=confirmed or None,
        failed_batch=_failed(capacity),
        out_of_memory=None if confirmed is None else capacity.limited_by == "memory",
    )


def _peak(capacity: Capacity) -> int | None:
    """The most that a fill of the confirmed batch took; None where it is not known or more than the budget, which a fill may not take."""
    peaks = [one.peak_bytes for one in capacity.probes if one.batch_size == capacity.confirmed and one.outcome == "fits" and one.peak_bytes]
    most = max(peaks, default=None)
    return None if most is not None and capacity.budget_bytes is not None and most > capacity.budget_bytes else most


def _failed(capacity: Capacity) -> int | None:
    """The smallest batch above the confirmed one that memory had no room for."""
    if capacity.confirmed is None or capacity.limited_by != "memory":
        return None
    tried = [one.batch_size for one in capacity.probes if one.outcome in NO_ROOM and one.batch_size > capacity.confirmed]
    return min(tried, default=1 if capacity.confirmed == 0 else None)


def _timings(run: SpeedRun | None) -> tuple[Timing, ...]:
    """The median decode step at each batch size of the run's own workload, ascending: other lengths have other steps."""
    found: dict[int, list[float]] = {}
    for one in () if run is None else run.generations:
        if not one.warmup and one.workload == MAIN and one.tpot_s is not None and one.tpot_s > 0:
            found.setdefault(one.batch_size, []).append(one.tpot_s)
    return tuple(Timing(batch=batch, step_s=median(steps)) for batch, steps in sorted(found.items()))


def _step_at(one: VariantEvidence, load: int | None) -> Timing | None:
    """The step at that batch, else at the confirmed one; None where it was not timed."""
    batch = load if load is not None or one.capacity is None else one.capacity.confirmed
    return next((each for each in _timings(one.speed) if each.batch == batch), None)


# ---------------------------------------------------------------------------------------------- quantization, tried


def _quantized(
    evidence: Evidence, reference: VariantEvidence, verdicts: Sequence[Verdict], exponent: float | None
) -> Iterator[Trial]:
    """Each candidate that was filled or timed: what its weights promised, what it holds and how fast, and what it cost in quality."""
    said = {one.variant: one for one in verdicts}
    for one in evidence.variants:
        if one.variant.role == "candidate" and (one.capacity is not None or one.speed is not None):
            ours, theirs = one.tokens_per_s_at_ceiling, reference.tokens_per_s_at_ceiling
            gain = ours / theirs if ours and theirs else None
            room = _room(one, reference)
            yield Trial(
                lever="quantization",
                name=one.variant.name,
                gain=gain,
                measured=_measured(one, reference, gain),
                cost="; ".join(part for part in (_quality(one, said.get(one.variant.name)), _slower(one)) if part),
                predicted="" if room is None else _promised(room, one, reference, exponent),
                predicted_gain=None if room is None else _gain(_grown(one, reference) or room, exponent),
                alone_gain=None if one.speed is None else one.speed.ratio(1),
                refused=one.variant.name in said and said[one.variant.name].outcome == "fail",
            )


def _room(one: VariantEvidence, reference: VariantEvidence) -> float | None:
    """Room for requests beside the freed weights, over room now, by arithmetic on the reference's own fills."""
    capacity = reference.capacity
    if capacity is None or capacity.budget_bytes is None or capacity.fixed_bytes is None or one.loaded is None or reference.loaded is None:
        return None
    freed = reference.loaded.weight_bytes - one.loaded.weight_bytes
    return gains.room_ratio(capacity.budget_bytes, capacity.fixed_bytes, capacity.fixed_bytes - freed)


def _grown(one: VariantEvidence, reference: VariantEvidence) -> float | None:
    """The batch that was confirmed over the reference's: what a prediction of its speed is compared at."""
    now, then = (None if each.capacity is None else each.capacity.confirmed for each in (reference, one))
    return then / now if now and then and not _open_ended(reference) else None


def _gain(batch_ratio: float, exponent: float | None) -> float:
    """Tokens/s at that many times the batch: as steps have grown so far, else at most as much."""
    return gains.throughput_ratio(batch_ratio, exponent or 0.0)


def _promised(room: float, one: VariantEvidence, reference: VariantEvidence, exponent: float | None) -> str:
    grown, batch = _grown(one, reference), None if reference.capacity is None else reference.capacity.confirmed
    if reference.capacity is not None and _open_ended(reference):  # what the search stopped at is no ceiling
        batch = reference.capacity.predicted
    rows = f", batch {q.count(batch)} -> {q.count(int(batch * room))}" if batch else ""
    words = f"{q.ratio(room)} the room for requests{rows}"
    if exponent is None:
        return f"{words}, tokens/s at most as much"
    there = "" if grown is None else f", {q.ratio(_gain(grown, exponent))} at the batch that was confirmed"
    return f"{words}, tokens/s about {q.ratio(_gain(room, exponent))} if steps go on growing as the reference's{there}"


def _measured(one: VariantEvidence, reference: VariantEvidence, gain: float | None) -> str:
    now, then = (None if each.capacity is None else each.capacity.confirmed for each in (reference, one))
    held = "its batch ceiling was not measured" if now is None or then is None else f"batch {_held(reference)} -> {_held(one)}"
    return f"{held}, {'its speed there was not measured' if gain is None else f'{q.ratio(gain)} the tokens/s there'}"


def _open_ended(one: VariantEvidence) -> bool:
    return one.capacity is not None and one.capacity.limited_by in OPEN_ENDED


def _held(one: VariantEvidence) -> str:
    return f"{'>= ' if _open_ended(one) else ''}{q.count(None if one.capacity is None else one.capacity.confirmed)}"


def _quality(one: VariantEvidence, verdict: Verdict | None) -> str:
    """Loss with its bound, flips and divergence; empty where quality was not measured."""
    check = None if verdict is None else q.worst_quality(verdict)
    parts = [] if verdict is None else [q.outcome_word(verdict.outcome)]
    if check is not None and check.estimate is not None:
        bound = q.check_figure(check, check.bound, towards="up")
        parts.append(f"loss {q.check_figure(check, check.estimate)}, at most {bound} ({q.level_percent(check.level)})")
        parts += [f"{q.count(check.b + (check.c or 0))} flips"] if check.b is not None and check.scale == "binary" else []
    kl = [sheet.kl.mean for sheet in one.sheets if sheet.kl is not None]
    return ", ".join([*parts, *([f"KL mean {q.significant(max(kl))} nats"] if kl else [])])


def _slower(one: VariantEvidence) -> str:
    """Its speed beside the reference's at equal batches: what dequantizing costs or saves."""
    batches = [] if one.speed is None else sorted({each.batch_size for each in one.speed.generations})
    ratios = [] if one.speed is None else [(batch, ratio) for batch in batches if (ratio := one.speed.ratio(batch)) is not None]
    if not ratios:
        return ""
    words = ", ".join(f"{q.ratio(ratio)} at batch {batch}" for batch, ratio in ratios)
    bound = ": bound by dequantization" if all(ratio < 1 for _, ratio in ratios) else ""
    return f"speed {words} of the reference's{bound}"
