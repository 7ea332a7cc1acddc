"""What a report shows of speed beyond the timings: shares of the roofs, crossovers, and what held the device back. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace

from quantgate.crossover import RatioAt, crossover
from quantgate.records import (
    MAIN,
    Crossover,
    Evidence,
    Generation,
    Quadruple,
    RooflineRow,
    Roofs,
    SpeedPoint,
    SpeedRow,
    SpeedRun,
    VariantEvidence,
)
from quantgate.render.quantities import count
from quantgate.stages.against_roofs import against_roofs


def without_faults(
    one: VariantEvidence, reference: VariantEvidence, roofs: Roofs | None
) -> tuple[VariantEvidence, VariantEvidence, tuple[RooflineRow, ...]]:
    """Both without the batches whose speed the device cannot have had, and the first one's rows against the roofs."""
    rows = against_roofs(one, roofs)
    cleaned = _cleaned(one, rows)
    return cleaned, cleaned if one is reference else _cleaned(reference, against_roofs(reference, roofs)), rows


def _cleaned(one: VariantEvidence, rows: Sequence[RooflineRow]) -> VariantEvidence:
    faulty = {(row.workload, row.batch_size) for row in rows if row.fault is not None}
    if one.speed is None or not faulty:
        return one
    return replace(one, speed=_without(one.speed, faulty))


def _without(run: SpeedRun, places: set[tuple[str, int]]) -> SpeedRun:
    def kept(taken: tuple[Generation, ...]) -> tuple[Generation, ...]:
        return tuple(each for each in taken if (each.workload, each.batch_size) not in places)

    quadruples = tuple(_moved(one, run, places) for one in run.quadruples if not _sides(one.point) & places)
    return replace(run, generations=kept(run.generations), partner=kept(run.partner), quadruples=quadruples)


def _sides(point: SpeedPoint) -> set[tuple[str, int | None]]:
    return {(point.workload, point.batch_size), (point.workload, point.reference_batch)}


def _moved(one: Quadruple, run: SpeedRun, places: set[tuple[str, int]]) -> Quadruple:
    """With the places that its generations have once those that are left out are gone."""

    def after(taken: tuple[Generation, ...], pair: tuple[int, int]) -> tuple[int, int]:
        gone = [place for place, each in enumerate(taken) if (each.workload, each.batch_size) in places]
        return pair[0] - bisect_left(gone, pair[0]), pair[1] - bisect_left(gone, pair[1])

    reference = None if one.reference is None else after(run.partner, one.reference)
    return replace(one, variant=after(run.generations, one.variant), reference=reference)


def crossover_of(rows: Sequence[SpeedRow]) -> Crossover:
    """Along the batch sizes that were timed beside the reference."""
    return crossover(
        [
            RatioAt(batch_size=row.batch_size, ratio=row.ratio_to_reference, low=row.ratio_low, high=row.ratio_high, level=row.ratio_level)
            for row in rows
            if row.ratio_to_reference is not None
        ]
    )


def sentences(evidence: Evidence) -> Iterator[str]:
    """What a reader must know beside the figures: batches that cannot be, a device that was slowed down by its heat."""
    for one in evidence.variants:
        for row in against_roofs(one, evidence.roofs):
            if row.fault is not None:
                where = "" if row.workload == MAIN else f" of {row.workload}"
                yield f"{one.variant.name}: the speed at batch {count(row.batch_size)}{where} is not shown: {row.fault}."
    roofs = evidence.roofs
    if roofs is None or roofs.before is None or roofs.after is None:
        return
    before, after = roofs.before.throttle_events, roofs.after.throttle_events
    if before is not None and after is not None and after > before:
        yield f"Heat slowed the CPU down {count(after - before)} times while speed was measured: the speeds are those of a hot machine."
    if held := roofs.after.throttled:
        yield f"The GPU's clocks were held down when everything had been timed ({', '.join(held)}): the speeds are those of a held device."
