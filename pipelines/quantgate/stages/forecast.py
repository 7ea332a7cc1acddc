"""What a run would do, said before anything is loaded: sizes from shapes, times from earlier runs, power from the policy. Pure.

A batch is an upper limit here: weights and KV cache are arithmetic, activations are not, and only the run's own fills confirm a ceiling.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from quantgate.forecasts import Forecast, GoldenForecast, StageTime, VariantForecast
from quantgate.kvcache import kept_by, row_bytes, why_no_blocks
from quantgate.parameters import Matrices
from quantgate.records import BatchPlan, Evidence, ModelShape, Policy, Variant, VariantEvidence, Workload
from quantgate.stages.alike import other_scheme
from quantgate.stages.diverge import positions
from quantgate.stages.plan import Question, resolution
from quantgate.weightbytes import is_filled, is_ready, packing_of, weight_bytes

LOGIT_BYTES = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """What is known of the model before it is loaded; ``matrices`` None where its weights cannot be counted."""

    shape: ModelShape
    matrices: tuple[Matrices, ...] | None
    float_bytes: int
    """Bytes of an element as the engine computes on this device."""
    unpacked: bool
    """The reference has to be written to disk first."""


# ---------------------------------------------------------------------------------------------- sizes


def sized(variant: Variant, sizes: Sizes | None, budget_bytes: int | None, workload: Workload) -> VariantForecast:
    """The sizes of one variant, with neither times nor a reason yet."""
    blank = VariantForecast(
        variant=variant.name, role=variant.role, scheme=variant.scheme, why_not=None, weight_bytes=None, stored_bytes=None,
        kv_bytes_per_request=None, most_requests=None, stages=(),
    )  # fmt: skip
    if sizes is None or sizes.matrices is None:
        return blank
    weights = weight_bytes(sizes.matrices, packing_of(variant, sizes.float_bytes))
    stored = 0 if variant.role == "reference" and not sizes.unpacked else weights
    shape = kept_by(sizes.shape, "transformers")
    if variant.kv_cache is not None and (why := why_no_blocks(shape, variant.kv_cache)) is not None:
        return replace(blank, why_not=why)
    row = row_bytes(shape, workload.prompt_tokens, workload.output_tokens, sizes.float_bytes, variant.kv_cache)
    request = row + logits_bytes(1, 1, sizes.shape.vocabulary)
    filled = is_filled(variant) and not is_ready(variant)
    most = None
    if filled and budget_bytes is not None:
        most = min(workload.max_batch, max(0, (budget_bytes - weights) // request))
    return replace(
        blank, weight_bytes=weights, stored_bytes=stored, kv_bytes_per_request=row if filled else None, most_requests=most,
        least_budget_bytes=weights + request if filled else None,
    )  # fmt: skip


def why_no_room(one: VariantForecast, budget_bytes: int | None, workload: Workload) -> str | None:
    """Why not even one request of the workload fits beside the weights, and what would do; None where one does or nobody knows.

    A reference is scored all the same: the others are compared with it.
    """
    if one.role == "reference" or one.most_requests != 0 or budget_bytes is None:
        return None
    weights = one.weight_bytes or 0
    if weights >= budget_bytes:
        return f"its weights alone take {weights:,} bytes, and the budget is {budget_bytes:,}: {budget_that_does(one, workload)}"
    tokens = workload.prompt_tokens + workload.output_tokens
    return (
        f"beside {weights:,} bytes of weights the budget of {budget_bytes:,} leaves no room for one request of {tokens:,} tokens "
        f"({one.kv_bytes_per_request or 0:,} bytes of cache): {budget_that_does(one, workload)}"
    )


def budget_that_does(one: VariantForecast, workload: Workload) -> str:
    """The smallest budget in words, from arithmetic: an engine's activations come on top."""
    if one.least_budget_bytes is None:
        return f"more than {one.weight_bytes or 0:,} bytes are needed, requests not counted"
    tokens = workload.prompt_tokens + workload.output_tokens
    return f"{one.least_budget_bytes:,} bytes would do for them and one request of {tokens:,} tokens, activations not counted"


def logits_bytes(rows: int, positions: int, vocabulary: int) -> int:
    """Float32 logits of some positions of each row. An engine that keeps those of a whole prompt hides a variant's weights behind them."""
    return rows * positions * vocabulary * LOGIT_BYTES


def disk_bytes(variants: Sequence[VariantForecast], items: Sequence[int], sizes: Sizes | None) -> int | None:
    """What the run would write into its cache if nothing of it were there yet; None where sizes are not known."""
    if sizes is None or any(one.stored_bytes is None for one in variants):
        return None
    logits = sum(logits_bytes(1, positions(one), sizes.shape.vocabulary) for one in items)
    return sum(one.stored_bytes or 0 for one in variants) + logits


# ---------------------------------------------------------------------------------------------- times


def stage_times(
    variant: Variant, golden_sha256: dict[str, str], workload: Workload, plan: BatchPlan, earlier: Sequence[Evidence]
) -> tuple[StageTime, ...]:
    """Medians over earlier runs of the same variant, stage by stage; callers give only runs of this machine and model."""
    alike = [one for evidence in earlier for one in evidence.variants if other_scheme(one.variant, variant) is None]
    found = [_time("quantize", [one.artifact.build_s for one in alike if one.artifact and one.artifact.build_s is not None])]
    found += [_time("load", [one.loaded.load_s for one in alike if one.loaded is not None])]
    if variant.role in ("reference", "candidate"):
        found.append(_time("capacity", [one.capacity.seconds for one in alike if one.capacity and _same_lengths(one, workload)]))
    for name, digest in golden_sha256.items():
        sheets = [sheet for one in alike for sheet in one.sheets if sheet.golden_sha256 == digest and sheet.batch_plan == plan]
        found.append(_time(f"score {name}", [sheet.seconds for sheet in sheets]))
    if variant.role == "candidate":
        found.append(_time("time", list(_timed(alike, workload))))
    return tuple(found)


def _same_lengths(one: VariantEvidence, workload: Workload) -> bool:
    found = one.capacity
    return found is not None and (found.prompt_tokens, found.output_tokens) == (workload.prompt_tokens, workload.output_tokens)


def _timed(alike: Sequence[VariantEvidence], workload: Workload) -> Iterator[float]:
    for one in alike:
        if one.speed is not None and one.variant.role == "candidate" and _same_lengths(one, workload):
            yield sum(each.step_s[-1] for each in (*one.speed.generations, *one.speed.partner) if each.step_s)


def _time(stage: str, seconds: Sequence[float]) -> StageTime:
    return StageTime(stage=stage, seconds=median(seconds) if seconds else None, runs=len(seconds))


# ---------------------------------------------------------------------------------------------- what golden sets resolve


def resolved(question: Question, policy: Policy) -> GoldenForecast:
    """A quality check's power at its first level."""
    found = resolution(question, policy)
    return GoldenForecast(
        check=question.check,
        golden=question.golden,
        tier=question.rule.tier,
        items=question.items,
        margin=question.margin,
        power=found.power,
        smallest_margin=found.smallest_margin,
        items_needed=found.items_needed,
    )


# ---------------------------------------------------------------------------------------------- what cannot work


def refusals(forecast: Forecast, policy: Policy, least_power: float) -> tuple[str, ...]:
    """Why the run would be refused, or would measure nothing: each with what to change."""
    said = [f"variant {one.variant}: {one.why_not}" for one in forecast.variants if one.why_not is not None]
    for check in forecast.golden_sets:
        if check.tier == "required" and check.power < least_power:
            needed = "no number of items would do" if check.items_needed is None else f"about {check.items_needed:,} items are needed"
            said.append(
                f"{check.check}: with {check.items:,} items a variant that loses nothing would pass with probability "
                f"{check.power:.2f} only; {needed}, or a wider margin, or --allow-underpowered"
            )
    if policy.require_controls and not any(one.role == "known_bad" for one in forecast.variants):
        said.append("the policy requires a known-bad control and the config has none: such a run is not measured")
    if forecast.disk_bytes is not None and forecast.disk_free_bytes is not None and forecast.disk_bytes > forecast.disk_free_bytes:
        said.append(
            f"the cache needs {forecast.disk_bytes:,} bytes and its disk has {forecast.disk_free_bytes:,}: make room, or set 'cache' to "
            "another place"
        )
    return tuple(said)
