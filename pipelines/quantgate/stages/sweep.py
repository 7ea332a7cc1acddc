"""Which batches are worth timing, in what order, and what each will cost. Pure; times nothing.

The order is the order of worth. First what a policy's checks need, as often as their first look asks; then the batch sizes that were asked
for and both sides at their own ceilings; then 1, 2, 4, ... up to the ceiling, the curve on which the sign of a speed-up flips; then further
quadruples for checks that are still open. A time budget is kept by predicting each step from what was timed before it.

At another workload's lengths no ceiling was confirmed, so it is taken from the figures of a row: what a prompt costs grows with the prompt,
what the cache costs with all of the tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from quantgate.records import MAIN, Capacity, CheckRule, SpeedPoint, SpeedRun, TimingConfig, VariantEvidence, Workload
from quantgate.stages.quadruples import point_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """A point and how many quadruples of it are wanted at least."""

    point: SpeedPoint
    least: int
    rules: tuple[CheckRule, ...] = ()
    """The policy's rules that are decided there."""
    sweep: bool = False
    """Only worth its time for the curve."""


def ceiling_at(capacity: Capacity | None, workload: Workload) -> int:
    """The batch that fits at a workload's lengths: confirmed for the run's own, else from the figures of a row; 0 where not even one.

    Where the rows' figures are not known, or memory did not set the ceiling, no more than was confirmed at lengths as long.
    """
    if capacity is None or not capacity.confirmed:
        return 0
    if (workload.prompt_tokens, workload.output_tokens) == (capacity.prompt_tokens, capacity.output_tokens):
        return capacity.confirmed
    longer = max(
        workload.prompt_tokens / capacity.prompt_tokens,
        (workload.prompt_tokens + workload.output_tokens) / (capacity.prompt_tokens + capacity.output_tokens),
    )
    row = _row_bytes(capacity, workload)
    if capacity.budget_bytes is None or capacity.fixed_bytes is None or not row:
        return int(capacity.confirmed / longer) if longer > 1 else capacity.confirmed
    rows = (capacity.budget_bytes - capacity.fixed_bytes) // row
    if capacity.predicted and capacity.limited_by == "memory":
        rows = int(rows * min(1.0, capacity.confirmed / capacity.predicted))
    return max(0, min(rows, workload.max_batch))


def _row_bytes(capacity: Capacity, workload: Workload) -> int:
    """Bytes of a row at other lengths: the larger of reading its prompt and of its last decode step."""
    tokens, known = workload.prompt_tokens + workload.output_tokens, capacity.prompt_tokens + capacity.output_tokens
    cache = (capacity.kv_bytes_per_row or 0) * tokens / known
    beside = max(0, (capacity.decode_bytes_per_row or 0) - (capacity.kv_bytes_per_row or 0))
    prefill = (capacity.prefill_bytes_per_row or 0) * workload.prompt_tokens / capacity.prompt_tokens
    return int(max(prefill, cache + beside))


def targets(
    variant: VariantEvidence,
    reference: VariantEvidence,
    workloads: Sequence[Workload],
    rules: Sequence[CheckRule],
    asked: tuple[TimingConfig, int],
) -> tuple[Target, ...]:
    """Everything that could be timed of a variant, in the order of worth; ``asked``: the config, and quadruples of a check's first look.

    The identity control is timed for the checks alone.
    """
    timing, first_look = asked
    found: dict[SpeedPoint, Target] = {}
    for point, decided in _checked(variant, reference, rules).items():
        found[point] = Target(point=point, least=first_look, rules=decided)
    if variant.variant.role != "identity":
        for target in _curve(variant, reference, workloads, timing):
            found.setdefault(target.point, target)
    return tuple(found.values())


def _checked(
    variant: VariantEvidence, reference: VariantEvidence, rules: Sequence[CheckRule]
) -> Mapping[SpeedPoint, tuple[CheckRule, ...]]:
    found: dict[SpeedPoint, tuple[CheckRule, ...]] = {}
    for rule in rules:
        if (point := point_of(rule, variant, reference)) is not None:
            found[point] = (*found.get(point, ()), rule)
    return found


def _curve(
    variant: VariantEvidence, reference: VariantEvidence, workloads: Sequence[Workload], timing: TimingConfig
) -> Iterator[Target]:
    """The batch sizes asked for and both ceilings, then powers of two; the run's own workload before the others."""
    fits = {one.name: (ceiling_at(variant.capacity, one), ceiling_at(reference.capacity, one)) for one in workloads}
    for workload in workloads:
        ours, theirs = fits[workload.name]
        for batch in (one for one in workload.batch_sizes if one <= ours):
            yield Target(point=_shared(batch, theirs, workload.name), least=workload.quadruples)
        if workload.name == MAIN and ours and theirs:
            yield Target(point=SpeedPoint(batch_size=ours, reference_batch=theirs), least=workload.quadruples)
    for workload in workloads if timing.sweep else ():
        ours, theirs = fits[workload.name]
        own = {ours} if workload.name == MAIN and ours > theirs > 0 else set()  # timed as each one's own ceiling
        for batch in sorted({*_powers(ours), min(ours, theirs)} - own - {0}):
            yield Target(point=_shared(batch, theirs, workload.name), least=1, sweep=True)


def _shared(batch: int, theirs: int, workload: str) -> SpeedPoint:
    """The same batch on both sides, or the variant alone where the reference does not hold it."""
    return SpeedPoint(batch_size=batch, reference_batch=batch if batch <= theirs else None, workload=workload)


def _powers(most: int) -> set[int]:
    """1, 2, 4, ... up to ``most``, and that."""
    return {*(2**k for k in range(most.bit_length())), most} if most else set()


def why_impossible(point: SpeedPoint, variant: VariantEvidence, reference: VariantEvidence, workload: Workload) -> str | None:
    """Why a batch is beyond what fits; None where it fits or nothing is known, as of the identity control, which is the reference again."""
    sides = {"reference": (reference, point.reference_batch)}
    if variant.variant.role != "identity":
        sides["variant"] = (variant, point.batch_size)
    for who, (one, batch) in sides.items():
        fits = ceiling_at(one.capacity, workload)
        if batch is not None and batch > fits:
            how = "its confirmed ceiling is" if workload.name == MAIN else "by the figures of a row the most that fits is"
            return f"the {who} does not hold batch {batch}: {how} {fits}"
    return None


def predicted_s(run: SpeedRun, point: SpeedPoint, workloads: Mapping[str, Workload]) -> float | None:
    """What a quadruple of a point will cost: the mean of those it had, else scaled from another; None where nothing was timed yet.

    A batch of n times as many rows takes at most n times as long, and so does a workload of n times as many tokens: never too little, for
    machines on which a batch costs no more than a row too much.
    """
    if own := run.at(point):
        later = [one.seconds for one in own[1:]] or [own[0].seconds]
        return sum(later) / len(later)
    known = [one for one in run.quadruples if one.seconds > 0]
    if not known:
        return None
    costs = [(_work(point, one.point, workloads) * one.seconds, one) for one in known]
    return min(costs, key=lambda one: one[0])[0]


def _work(point: SpeedPoint, known: SpeedPoint, workloads: Mapping[str, Workload]) -> float:
    """How many times as long at most, never less than 1."""
    rows = max(1.0, _rows(point) / _rows(known))
    here, there = workloads[point.workload], workloads[known.workload]
    prompt = here.prompt_tokens / there.prompt_tokens
    output = here.output_tokens / there.output_tokens
    return rows * max(1.0, prompt, output)


def _rows(point: SpeedPoint) -> int:
    return max(point.batch_size, point.reference_batch or 0)

