"""Two runs, last night's and tonight's: what moved in each variant of the same name. Pure; it decides nothing.

Answers are paired by item where the golden set has the same digest: b got worse, c got better, exact McNemar, and the loss from the earlier
run to the later one with its exact interval. Two runs are compared only where what was asked and what it ran on are equal: model,
libraries, the variant's definition, golden-set digest, batch plan, conditions, for memory the lengths and the budget, for ceiling and speed
the device. What is not comparable says which field differs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from quantgate.records import (
    OPEN_ENDED,
    Capacity,
    Comparison,
    Evidence,
    FigureChange,
    GoldenReference,
    ScoreSheet,
    SetChange,
    SpeedRow,
    SpeedRun,
    VariantChange,
    VariantEvidence,
)
from quantgate.stages import alike
from quantgate.stages.pairing import right_on_both
from quantgate.stages.subject import sheet_of
from quantgate.stages.timings import rows
from quantgate.stats.paired import loss_lower, loss_upper
from quantgate.stats.proportions import mcnemar_exact

ALPHA = 0.05
"""One-sided level of each end of an interval, which is a 90 % one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """A run with its evidence."""

    run_id: str
    created_at: str
    evidence: Evidence


def compare(first: Side, second: Side) -> Comparison:
    """What moved from the first run to the second."""
    before, after = _by_name(first.evidence), _by_name(second.evidence)
    shared = [name for name in before if name in after]
    why_not = _other_run(first, second) or (None if shared else "the runs have no variant of the same name")
    changes = [] if why_not else [_variant(before[name], after[name], first.evidence, second.evidence) for name in shared]
    return Comparison(
        first=first.run_id,
        second=second.run_id,
        why_not=why_not,
        variants=tuple(changes),
        only_first=tuple(name for name in before if name not in after),
        only_second=tuple(name for name in after if name not in before),
        notes=tuple(_notes(first, second)),
    )


def _by_name(evidence: Evidence) -> dict[str, VariantEvidence]:
    return {one.variant.name: one for one in evidence.variants}


def _notes(first: Side, second: Side) -> Iterator[str]:
    if first.run_id == second.run_id:
        yield "Both are the same run: nothing can have moved."
    elif first.created_at > second.created_at:
        yield f"{first.run_id} is the later run: what it gained since {second.run_id} is shown as lost."
    if first.evidence.fingerprint.source_sha256 != second.evidence.fingerprint.source_sha256:
        yield "The parts of quantgate that measure are not the same in both runs: what moved may come from there."


# ---------------------------------------------------------------------------------------------- comparable


def _other_run(first: Side, second: Side) -> str | None:
    before, after = first.evidence.fingerprint, second.evidence.fingerprint
    return alike.differs("the model's digest", before.model_sha256, after.model_sha256) or alike.keys(before.libraries, after.libraries)


def _other_sheet(before: ScoreSheet, after: ScoreSheet) -> str | None:
    return (
        alike.fields(("max_rows", "token_budget", "order"), before.batch_plan, after.batch_plan)
        or alike.keys(before.conditions, after.conditions)
        or (None if before.first_prompt == after.first_prompt else "not comparable: the prompt template differs")
    )


# ---------------------------------------------------------------------------------------------- one variant


def _variant(before: VariantEvidence, after: VariantEvidence, first: Evidence, second: Evidence) -> VariantChange:
    why_not = alike.other_definition(before, after)
    return VariantChange(
        variant=after.variant.name,
        role=after.variant.role,
        why_not=why_not,
        golden_sets=() if why_not else tuple(_sets(before, after, first, second)),
        figures=() if why_not else tuple(_figures(before, after, first, second)),
    )


def _sets(before: VariantEvidence, after: VariantEvidence, first: Evidence, second: Evidence) -> Iterator[SetChange]:
    later = {one.name: one for one in second.golden_sets}
    for golden in first.golden_sets:
        if golden.name in later:
            yield _set(before, after, golden, later[golden.name])


def _set(before: VariantEvidence, after: VariantEvidence, golden: GoldenReference, later: GoldenReference) -> SetChange:
    if why_not := alike.differs("the golden set's digest", golden.sha256, later.sha256):
        return SetChange(golden_set=golden.name, why_not=why_not)
    old, new = sheet_of(before, golden), sheet_of(after, golden)
    if old is None or new is None:
        return SetChange(golden_set=golden.name, why_not=f"it was not scored in the {'first' if old is None else 'second'} run")
    why_not = _other_sheet(old, new) or _no_counts(old, new)
    return SetChange(golden_set=golden.name, why_not=why_not) if why_not else _paired(golden, old, new)


def _no_counts(old: ScoreSheet, new: ScoreSheet) -> str | None:
    if old.stopped is not None or new.stopped is not None:
        return f"scoring stopped early in the {'first' if old.stopped is not None else 'second'} run; only whole sets are compared"
    if "lower" in (old.better, new.better) or "unbounded" in (old.scale, new.scale):
        return "only right (1) and wrong (0) are compared"
    odd = next((item for sheet in (old, new) for item in sheet.items if item.value not in (None, 0, 1)), None)
    return None if odd is None else f"item {odd.item_id} has the score {odd.value}; only right (1) and wrong (0) are compared"


def _paired(golden: GoldenReference, old: ScoreSheet, new: ScoreSheet) -> SetChange:
    left, right = ({item.item_id: item for item in sheet.items} for sheet in (old, new))
    both = [right_on_both(left.get(one), right.get(one)) for one in golden.item_ids]
    b, c = sum(was and not now for was, now in both), sum(now and not was for was, now in both)
    n = len(both)
    return SetChange(
        golden_set=golden.name,
        n=n,
        b=b,
        c=c,
        loss=(b - c) / n if n else None,
        lower=loss_lower(b=b, c=c, n=n, alpha=ALPHA) if n else None,
        upper=loss_upper(b=b, c=c, n=n, alpha=ALPHA) if n else None,
        level=1 - ALPHA,
        mcnemar_p=mcnemar_exact(b=b, c=c).two_sided,
        accuracy_before=old.mean,
        accuracy_after=new.mean,
        kl_before=None if old.kl is None else old.kl.mean,
        kl_after=None if new.kl is None else new.kl.mean,
    )


def _figures(before: VariantEvidence, after: VariantEvidence, first: Evidence, second: Evidence) -> Iterator[FigureChange]:
    yield FigureChange(name="weights", unit="bytes", before=_weights(before), after=_weights(after))
    if after.variant.role != "reference":
        yield FigureChange(name="freed", unit="bytes", before=_freed(before, first), after=_freed(after, second))
    device = alike.other_device(before.device, after.device)
    ceiling = device or alike.other_lengths(before.capacity, after.capacity)
    if before.capacity is not None or after.capacity is not None:
        yield FigureChange(
            name="batch ceiling",
            unit="requests",
            before=_confirmed(before.capacity),
            after=_confirmed(after.capacity),
            why_not=ceiling,
            before_open=_open(before.capacity),
            after_open=_open(after.capacity),
        )
    for batch in _batches(before.speed, after.speed):
        yield FigureChange(
            name=f"tokens/s at batch {batch}",
            unit="tokens/s",
            before=_rate(before.speed, batch),
            after=_rate(after.speed, batch),
            why_not=device or alike.other_lengths(before.capacity, after.capacity),
        )
        old, new = _row(before.speed, batch), _row(after.speed, batch)
        if any(row is not None and row.ratio_to_reference is not None for row in (old, new)):
            yield FigureChange(
                name=f"speed beside the reference at batch {batch}",
                unit="x",
                before=None if old is None else old.ratio_to_reference,
                after=None if new is None else new.ratio_to_reference,
                why_not=device or alike.other_lengths(before.capacity, after.capacity),
                before_bounds=_bounds(old),
                after_bounds=_bounds(new),
            )


def _row(run: SpeedRun | None, batch: int) -> SpeedRow | None:
    """Paired with the reference of the same run, so that an afternoon on which the machine was slow drops out."""
    found = () if run is None else rows(run, ALPHA)[0]
    return next((row for row in found if row.batch_size == batch), None)


def _bounds(row: SpeedRow | None) -> tuple[float, float] | None:
    return None if row is None or row.ratio_low is None or row.ratio_high is None else (row.ratio_low, row.ratio_high)


def _weights(one: VariantEvidence) -> int | None:
    """Bytes after load; of rounded weights that are kept in float, the bytes they would take."""
    if one.artifact is not None and one.artifact.simulated:
        return one.artifact.simulated_weight_bytes
    return None if one.loaded is None else one.loaded.weight_bytes


def _freed(one: VariantEvidence, evidence: Evidence) -> int | None:
    reference = next((each for each in evidence.variants if each.variant.role == "reference"), None)
    base = None if reference is None else _weights(reference)
    ours = _weights(one)
    return None if base is None or ours is None else base - ours


def _confirmed(capacity: Capacity | None) -> int | None:
    return None if capacity is None else capacity.confirmed


def _open(capacity: Capacity | None) -> bool:
    return capacity is not None and capacity.confirmed is not None and capacity.limited_by in OPEN_ENDED


def _batches(before: SpeedRun | None, after: SpeedRun | None) -> list[int]:
    """Batch sizes that were timed in both runs."""
    sizes = [{each.batch_size for each in run.generations} for run in (before, after) if run is not None]
    return sorted(set.intersection(*sizes)) if len(sizes) == 2 else []


def _rate(run: SpeedRun | None, batch: int) -> float | None:
    rates = [] if run is None else run.rates(batch)
    return median(rates) if rates else None
