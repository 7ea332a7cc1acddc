"""How far a variant's next-token distributions moved from the reference's, right after the golden prompts.

The reference's logits at up to 256 prompts, spread evenly over the golden set, are stored once; each variant runs the same prompts in the
same batches and its rows are compared one batch at a time, so that no more than a batch of the vocabulary is in memory. A divergence may
block a variant and never passes one: near the reference it measures how much changed, not which way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from quantgate.divergence import MINIMUM_POSITIONS, kl_rows, parts_of, same_top, statistics
from quantgate.errors import NotComparable, NumericallyInvalid
from quantgate.ports import Progress, Session
from quantgate.records import BatchPlan, CanaryReading, GoldenItem, GoldenSet, KLStatistics

POSITIONS = 256
Rows: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """The prompts to compare at, and the batches they run in."""

    golden: GoldenSet
    plan: BatchPlan


def positions(items: int) -> int:
    """Prompts that are compared at; 0 where the set is too small for statistics."""
    return min(items, POSITIONS) if items >= MINIMUM_POSITIONS else 0


def distributions(session: Session, job: Job, progress: Progress) -> Iterator[tuple[NDArray[np.intp], Rows]]:
    """Raw logits [rows, vocabulary] in float32 with the position of each row, a batch at a time.

    Raises ``NumericallyInvalid`` at the first row that is not finite.
    """
    chosen = _chosen(job.golden)
    contexts = [session.tokenizer.encode(session.tokenizer.render(item), add_bos=True) for item in chosen]
    done = 0
    for part in _batches([len(one) for one in contexts], job.plan):
        rows: Rows = np.concatenate([np.asarray(block) for block in session.distributions([contexts[at] for at in part])])
        _refuse_nonfinite(rows, [chosen[at] for at in part])
        done += len(part)
        progress(done, len(contexts), f"comparing distributions on {job.golden.label}")
        yield np.array(part), rows


def divergence(session: Session, job: Job, reference: Any, progress: Progress) -> KLStatistics:
    """Statistics against the stored logits ``reference`` [positions, vocabulary], which may be a file mapped into memory."""
    if reference.shape[1] != session.shape.vocabulary:
        raise NotComparable("vocabulary size", int(reference.shape[1]), session.shape.vocabulary)
    kl = np.empty(len(reference))
    same = np.empty(len(reference), dtype=bool)
    for places, rows in distributions(session, job, progress):
        base = np.asarray(reference[places])
        kl[places], same[places] = kl_rows(base, rows), same_top(base, rows)
    slices = [item.slice for item in _chosen(job.golden)]
    return replace(statistics(kl, same), by_slice=parts_of(kl, same, slices))


def canary_rows(session: Session, job: Job, prompts: int, progress: Progress) -> Rows:
    """Raw logits [prompts, vocabulary] right after so many prompts spread evenly over the set. Raises ``NumericallyInvalid``."""
    chosen = _spread(job.golden, prompts)
    contexts = [session.tokenizer.encode(session.tokenizer.render(item), add_bos=True) for item in chosen]
    found, done = np.empty((len(chosen), session.shape.vocabulary), dtype=np.float32), 0
    for part in _batches([len(one) for one in contexts], job.plan):
        rows: Rows = np.concatenate([np.asarray(block) for block in session.distributions([contexts[at] for at in part])])
        _refuse_nonfinite(rows, [chosen[at] for at in part])
        found[part] = rows
        done += len(part)
        progress(done, len(contexts), f"asking the canary of {job.golden.label}")
    return found


def canary(session: Session, job: Job, reference: Any, progress: Progress) -> CanaryReading:
    """A variant beside the reference's logits [prompts, vocabulary]; numbers that are not finite are its finding and no error."""
    if reference.shape[1] != session.shape.vocabulary:
        raise NotComparable("vocabulary size", int(reference.shape[1]), session.shape.vocabulary)
    named = CanaryReading(
        golden_set=job.golden.name,
        golden_sha256=job.golden.sha256,
        items=len(job.golden.items),
        prompts=len(reference),
        mean_kl=0.0,
        top1_agreement=0.0,
    )
    try:
        rows = canary_rows(session, job, len(reference), progress)
    except NumericallyInvalid as error:
        return replace(named, nonfinite=str(error))
    kl, base = kl_rows(np.asarray(reference), rows), np.asarray(reference)
    return replace(named, mean_kl=float(kl.mean()), top1_agreement=float(same_top(base, rows).mean()))


def why_none(golden: GoldenSet) -> str | None:
    """Why divergence is not taken on a golden set; None where it is."""
    if positions(len(golden.items)):
        return None
    return f"its {len(golden.items)} items are too few, at least {MINIMUM_POSITIONS} positions are needed"


def _chosen(golden: GoldenSet) -> list[GoldenItem]:
    """Items spread evenly, so that every slice is seen."""
    return _spread(golden, positions(len(golden.items)))


def _spread(golden: GoldenSet, wanted: int) -> list[GoldenItem]:
    return [golden.items[at * len(golden.items) // wanted] for at in range(wanted)]


def _batches(lengths: list[int], plan: BatchPlan) -> Iterator[list[int]]:
    """Places of the prompts, longest first, each batch within the plan's rows and tokens."""
    order = sorted(range(len(lengths)), key=lambda at: -lengths[at])
    while order:
        rows = max(1, min(plan.max_rows, plan.token_budget // lengths[order[0]]))
        yield order[:rows]
        order = order[rows:]


def _refuse_nonfinite(rows: Rows, items: list[GoldenItem]) -> None:
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        raise NumericallyInvalid("next-token logits are not finite", item_id=items[int(np.argmin(finite))].item_id)
