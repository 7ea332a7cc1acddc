"""What a run measured besides fills and times -> symptoms of its reference, and the levers that it tried besides quantization.

Knows roofs, batching and speculation as a run stores them. Refuses what is faulty or not whole: a diagnosis then asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator

from quantgate.records import MAIN, BatchingRow, BatchingRun, Evidence, SpeculationRun, VariantEvidence
from quantgate.render import quantities as q
from quantgate.stages import batching_figures
from quantgate.stages.against_roofs import against_roofs, read_roof
from quantgate.stages.speculation import fastest, partings
from quantgate.symptoms import Symptoms, Trial
from quantgate.thresholds import SPARE_MFU

FULL_OF_MEASURED = 0.80
"""Share of a matrix rate that was measured from which arithmetic is the limit: the thresholds of MFU are for datasheets, of which the
measured rate is itself a part. Between the two nothing is told."""


def readings_of(evidence: Evidence, load: int | None = None) -> tuple[Symptoms, tuple[Trial, ...]]:
    """Of the reference: what it used of the measured roofs and of its rows in static batches; and each lever tried.

    ``load``: the batch that roofs are compared at; None for its own ceiling.
    """
    reference = next((one for one in evidence.variants if one.variant.role == "reference"), None)
    if reference is None:
        return Symptoms(), ()
    batches = [one for one in evidence.batching if one.variant == reference.variant.name]
    useful, row_steps = _static(batches)
    mfu, mbu, bandwidth = _of_roofs(reference, evidence, load)
    found = Symptoms(
        mfu_share=mfu, mbu_share=mbu, bandwidth_bytes_per_s=bandwidth, useful_tokens=useful, row_steps=row_steps
    )
    return found, (*_served(batches), *_drafted(evidence.speculation))


def _of_roofs(
    reference: VariantEvidence, evidence: Evidence, load: int | None
) -> tuple[float | None, float | None, float | None]:
    """MFU where it tells something, MBU, and the bandwidth of reads as large as the weights."""
    roofs, loaded = evidence.roofs, reference.loaded
    if roofs is None or loaded is None:
        return None, None, None
    bandwidth = read_roof(roofs, loaded.weight_bytes).median_per_s if roofs.reads else None
    batch = load if load is not None or reference.capacity is None else reference.capacity.confirmed
    rows = [one for one in against_roofs(reference, roofs) if one.workload == MAIN]
    row = next((one for one in rows if one.batch_size == batch), None)
    if row is None or row.fault is not None or row.why_not is not None:
        return None, None, bandwidth
    told = row.mfu is not None and (row.mfu <= SPARE_MFU.value or row.mfu >= FULL_OF_MEASURED)
    return _share(row.mfu) if told else None, _share(row.mbu), bandwidth


def _share(value: float | None) -> float | None:
    """Slightly above its roof is within the roof's scatter, or it would have been a fault."""
    return None if value is None else min(1.0, value)


def _static(batches: list[BatchingRun]) -> tuple[int | None, int | None]:
    """Useful tokens and rows x steps of the first whole run in static batches."""
    one = next((run for run in batches if run.mode == "static" and run.whole and run.steps), None)
    return (None, None) if one is None or one.steps is None else (one.useful_tokens, one.rows * one.steps)


def _served(batches: list[BatchingRun]) -> Iterator[Trial]:
    """Continuous batching, an engine and pattern of arrivals each, against the run's static batches."""
    for row in batching_figures.rows_of(batches):
        if row.mode == "continuous" and row.speed_ratio is not None:
            yield Trial(
                lever="continuous batching",
                name=row.engine,
                gain=row.speed_ratio,
                measured=f"{q.ratio(row.speed_ratio)} the useful tokens/s of static batches of {q.count(row.rows)}, {row.arrivals}",
                cost=_tail(row),
            )


def _tail(row: BatchingRow) -> str:
    waits = "its waits between tokens were not compared" if row.itl_p99_ratio is None else f"{q.ratio(row.itl_p99_ratio)} the ITL p99"
    return waits if row.preemptions is None else f"{waits}, {q.count(row.preemptions)} preemptions"


def _drafted(runs: tuple[SpeculationRun, ...]) -> Iterator[Trial]:
    """Speculative decoding, a drafter each at its fastest setting; refused where an output was not that of plain decoding."""
    for run in runs:
        best = fastest(run)
        if best is None or best.speed_ratio is None:
            continue
        compared, parted, unexplained = partings(run)
        accepted = "" if best.acceptance is None else f", {q.percent(best.acceptance)} of the drafts accepted"
        where = f"at batch {q.count(best.batch_size)} with {q.count(best.draft_tokens)} drafted tokens"
        memory = "no second model" if not run.draft_weight_bytes else f"{q.decimal_bytes(run.draft_weight_bytes)} of drafter weights"
        yield Trial(
            lever="speculative decoding",
            name=run.drafter,
            gain=best.speed_ratio,
            measured=f"{q.ratio(best.speed_ratio)} the tokens/s of plain decoding {where}{accepted}",
            cost=f"{memory}; {q.count(parted)} of {q.count(compared)} outputs differ from plain decoding",
            refused=unexplained > 0,
        )
