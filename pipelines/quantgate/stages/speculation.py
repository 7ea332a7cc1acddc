"""What was measured of speculative decoding -> the figures a reader wants: acceptance, speed, where it loses, what the drafter takes.

Pure. A drafter's weights and its own cache take memory that requests would fill, so its price is told in requests too.
"""

from __future__ import annotations

from collections.abc import Sequence

from quantgate.records import Capacity, DecodeTime, SpeculationFigures, SpeculationPass, SpeculationRow, SpeculationRun
from quantgate.render import quantities as q
from quantgate.stages.capacity import predict


def rows(runs: Sequence[SpeculationRun], capacity: Capacity | None) -> tuple[SpeculationRow, ...]:
    """A row for each drafter; ``capacity`` is that of the target."""
    return tuple(_row(one, capacity) for one in runs)


def fastest(run: SpeculationRun) -> SpeculationPass | None:
    """The pass that one would serve with: the largest speed ratio; None where no pass has one."""
    timed = [(one.speed_ratio, one) for one in run.passes if one.speed_ratio is not None]
    return max(timed, key=lambda pair: pair[0])[1] if timed else None


def loss_from_batch(run: SpeculationRun) -> int | None:
    """The smallest batch at which even the best number of drafted tokens is slower than none; None where there is none."""
    best: dict[int, float] = {}
    for one in run.passes:
        if one.speed_ratio is not None:
            best[one.batch_size] = max(one.speed_ratio, best.get(one.batch_size, 0.0))
    return min((batch for batch, ratio in best.items() if ratio < 1), default=None)


def ceiling_beside(capacity: Capacity | None, weight_bytes: int, kv_bytes_per_row: int) -> int | None:
    """Requests predicted to fit beside a drafter: its weights come off the budget, its cache is added to each row. None where not known.

    While prompts are read a row takes the target's prefill; in the last step both caches are full.
    """
    if capacity is None or capacity.budget_bytes is None or capacity.fixed_bytes is None:
        return None
    last_step = max(capacity.decode_bytes_per_row or 0, capacity.kv_bytes_per_row or 0)
    taken = [row for row in (capacity.prefill_bytes_per_row or 0, last_step + kv_bytes_per_row if last_step else 0) if row]
    fixed = capacity.fixed_bytes + weight_bytes
    return min((predict(capacity.budget_bytes, fixed, row) for row in taken), default=None)


def partings(run: SpeculationRun) -> tuple[int, int, int]:
    """Outputs compared, those that are not token-identical, and those of them that rounding does not explain; over all passes."""
    found = [one for each in run.passes for one in each.partings]
    return sum(one.compared for one in run.passes), len(found), sum(not one.is_rounding for one in found)


def _row(run: SpeculationRun, capacity: Capacity | None) -> SpeculationRow:
    known = run.draft_weight_bytes is not None and run.draft_kv_bytes_per_row is not None
    alone = ceiling_beside(capacity, 0, 0)
    beside = ceiling_beside(capacity, run.draft_weight_bytes or 0, run.draft_kv_bytes_per_row or 0) if known else None
    return SpeculationRow(
        drafter=run.drafter,
        dtype=run.dtype,
        prompts=run.prompts,
        why_not=run.why_not,
        figures=tuple(_figures(one) for one in run.passes),
        loss_from_batch=loss_from_batch(run),
        draft_weight_bytes=run.draft_weight_bytes,
        draft_kv_bytes_per_row=run.draft_kv_bytes_per_row,
        ceiling=alone,
        ceiling_beside=beside,
        sentence=_sentence(run, alone, beside),
    )


def _figures(one: SpeculationPass) -> SpeculationFigures:
    return SpeculationFigures(
        draft_tokens=one.draft_tokens,
        batch_size=one.batch_size,
        steps=one.steps,
        drafted=one.drafted,
        accepted=one.accepted,
        emitted=one.emitted,
        acceptance=one.acceptance,
        acceptance_at=one.acceptance_at,
        mean_length=one.mean_length,
        plain_tokens_per_s=_rate(one.plain),
        tokens_per_s=_rate(one.speculative),
        speed_ratio=one.speed_ratio,
        speed_ratio_low=min(one.ratios, default=None),
        speed_ratio_high=max(one.ratios, default=None),
        partings=len(one.partings),
        partings_beyond_rounding=sum(not each.is_rounding for each in one.partings),
        first_parting=min(one.partings, key=lambda each: each.at, default=None),
    )


def _rate(times: Sequence[DecodeTime]) -> float | None:
    seconds, tokens = sum(one.seconds for one in times), sum(one.tokens for one in times)
    return tokens / seconds if tokens and seconds > 0 else None


def _sentence(run: SpeculationRun, alone: int | None, beside: int | None) -> str:
    if run.why_not is not None:
        return f"Speculation with {run.drafter} was not measured: {' '.join(run.why_not.split()).rstrip('.')}."
    best = fastest(run)
    if best is None:
        return f"Speculation with {run.drafter} has no speed: nothing was decoded after the first token."
    shown = round(best.speed_ratio or 0, 2)  # no gain is claimed that the figure beside it does not show
    gain = "as fast as" if shown == 1 else "faster than" if shown > 1 else "slower than"
    where = f"at batch {best.batch_size} with {best.draft_tokens} drafted tokens"
    parts = [
        f"Speculation with {run.drafter} is {gain} plain decoding: {q.ratio(best.speed_ratio)} {where}",
        f"{q.percent(best.acceptance)} of what it drafts is accepted, {q.fixed(best.mean_length, 2)} tokens a step",
    ]
    batch = loss_from_batch(run)
    if batch is not None and shown > 1:
        parts.append(f"it is a loss from batch {batch} on, of those measured")
    if alone is not None and beside is not None and beside != alone:
        parts.append(f"beside it {q.count(beside)} requests are predicted to fit instead of {q.count(alone)}")
    return f"{'; '.join([*parts, _same(run)])}."


def _same(run: SpeculationRun) -> str:
    compared, parted, beyond = partings(run)
    if not parted:
        return f"all {q.count(compared)} outputs are token-identical to plain greedy decoding ({run.dtype})"
    return (
        f"{q.count(parted)} of {q.count(compared)} outputs part from plain greedy decoding ({run.dtype}), "
        f"{q.count(beyond)} of them by more than rounding explains, so it is not called lossless"
    )
