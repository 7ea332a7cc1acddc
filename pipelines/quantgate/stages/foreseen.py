"""What cannot pass whatever is measured, known before a run: a demand on a figure that a variant, or the reference, will not have. Pure.

A run does not refuse any of it: a variant may be there as a floor for the others. So these are notes, and each says what would help.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass

from quantgate.forecasts import VariantForecast
from quantgate.records import Policy, Variant
from quantgate.stages.quadruples import KINDS as OF_SPEED

OF_CEILINGS = frozenset({"ceiling_ratio", "cost_ratio", "cost_per_million_tokens", *OF_SPEED})
"""What needs the ceiling of the reference and of a variant: speed is timed, and cost reckoned, where both are confirmed."""
OF_PACKED_WEIGHTS = OF_CEILINGS | {"freed_share", "batching_utilisation_gain", "batching_itl_p99_ratio"}
"""What a variant whose rounded weights stay in float never has."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What is known of a run: its variants with what was forecast of each, which of them keep their weights in float, and its limits."""

    variants: tuple[tuple[Variant, VariantForecast], ...]
    simulated: Set[str]
    budget_bytes: int | None
    max_batch: int


def notes(plan: Plan, policy: Policy) -> Iterator[str]:
    """A line for each candidate that would run and cannot pass, and for a reference without the ceiling that is asked for."""
    candidates = [one for one, _ in plan.variants if one.role == "candidate"]
    lost = {one.name: why for one, found in plan.variants if found.why_not is None and (why := _why_lost(one, plan, policy))}
    for name, why in lost.items():
        yield f"{name}: {why}{_others(name, policy)}"
    if candidates and len(lost) == len(candidates):
        yield "no candidate of this run can pass"
    reference = next((found for one, found in plan.variants if one.role == "reference"), None)
    if reference is not None:
        yield from _of_reference(reference, plan, policy)


def _why_lost(one: Variant, plan: Plan, policy: Policy) -> str:
    """Empty where it may pass."""
    if one.role != "candidate":
        return ""
    if one.name in plan.simulated and (asked := _required(policy, OF_PACKED_WEIGHTS)):
        return f"simulated, its rounded weights stay in float, so {asked}: it cannot pass, and is scored as a floor for the others"
    if one.measure == "quality" and (asked := _required(policy, OF_CEILINGS)):
        return f"only its quality is measured, so {asked}: it cannot pass; leave 'measure' out if it is meant to"
    return ""


def _required(policy: Policy, kinds: Set[str]) -> str:
    """The required demands among the kinds, in the policy's order; empty where there are none."""
    asked = list(dict.fromkeys(rule.kind for rule in policy.checks if rule.tier == "required" and rule.kind in kinds))
    if not asked:
        return ""
    return f"the required {' and '.join(asked)} {'is' if len(asked) == 1 else 'are'} not measured"


def _others(name: str, policy: Policy) -> str:
    """What comes of it for the other candidates."""
    if policy.require == "all":
        return "; the policy asks it of every candidate, so nothing goes out"
    after = policy.order[policy.order.index(name) + 1 :] if policy.correction == "fixed_sequence" and name in policy.order else ()
    return f"; the sequence stops there, before {', '.join(after)}" if after else ""


def _of_reference(found: VariantForecast, plan: Plan, policy: Policy) -> Iterator[str]:
    if found.most_requests == 0 and (asked := _required(policy, OF_CEILINGS)):
        yield f"{found.variant}: no request fits beside the reference, so {asked}, and no candidate can pass: raise device.memory_budget"
    if found.most_requests == plan.max_batch and (asked := _required(policy, {"ceiling_ratio"})):
        holds = _by_arithmetic(found, plan.budget_bytes)
        yield (
            f"{found.variant}: by arithmetic the reference holds {holds:,} requests, and the search ends at {plan.max_batch:,}; where it "
            f"gets there its ceiling is >= {plan.max_batch:,}, so {asked}: set workload.max_batch above {holds:,}, or lower "
            "device.memory_budget"
        )


def _by_arithmetic(found: VariantForecast, budget_bytes: int | None) -> int:
    """Requests beside the weights, without the search cap."""
    weights, least, budget = found.weight_bytes or 0, found.least_budget_bytes or 0, budget_bytes or 0
    return (budget - weights) // max(1, least - weights)
