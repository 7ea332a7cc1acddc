"""Scoring in parts, so that it may end early: where a part ends, how parts become one sheet, and when enough is shown. Pure.

Every variant is asked in the same order and the same parts, the reference too: what stands in one batch is then the same for all. Only a
candidate's scoring may end early, and only on a pass of everything that is required of quality on the set, at the strictest level that the
candidate could be tested at. A fail is scored to its end, so that its report is whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from quantgate.records import GoldenReference, Policy, Scalar, ScoreSheet, VariantEvidence
from quantgate.render.quantities import count
from quantgate.stages.early import look_sizes, order, seed_of, stopped_by
from quantgate.stages.plan import first_level
from quantgate.stages.quality import quality_questions
from quantgate.stages.subject import Subject

AT_A_TIME = 64
"""Items between two looks in the anytime-valid mode: enough to fill batches with."""


def parts(policy: Policy, golden: GoldenReference) -> tuple[tuple[str, ...], ...]:
    """The ids of each part, in the order of asking."""
    asked, n = order(golden, seed_of(policy)), len(golden.item_ids)
    looks = policy.looks if policy.sequential is None and policy.looks is not None else max(1, n // AT_A_TIME)
    ends = look_sizes(n, looks)
    return tuple(asked[start:end] for start, end in zip((0, *ends[:-1]), ends, strict=True))


def joined(sheets: Sequence[ScoreSheet], golden: GoldenReference, policy: Policy) -> ScoreSheet:
    """The parts scored so far as one sheet, items in the golden set's order. The order of asking is a condition of comparing."""
    items = {item.item_id: item for sheet in sheets for item in sheet.items}
    how: dict[str, Scalar] = {"order": f"seed {seed_of(policy)}, {len(parts(policy, golden))} parts"}
    return replace(
        sheets[0],
        items=tuple(items[one] for one in golden.item_ids if one in items),
        figures=(),  # a figure of the first part alone is none of the set; the mean of the scores stays
        conditions={**sheets[0].conditions, **how},
        seconds=sum(sheet.seconds for sheet in sheets),
    )


def enough(sheet: ScoreSheet, golden: GoldenReference, known: Sequence[VariantEvidence], by: tuple[Policy, int]) -> ScoreSheet | None:
    """The sheet with its stop where it shows a pass of all that is required on the set; None where scoring goes on.

    Args:
        known: the reference, and the variant with what is known of it besides this sheet.
        by: the policy, and the number of candidates of the run.
    """
    (reference, variant), (policy, candidates) = known, by
    asked = len(sheet.items)
    if variant.variant.role != "candidate" or asked >= len(golden.item_ids) or _needs_all(policy, golden):
        return None
    if asked < max(rule.minimum_items or policy.minimum_items for rule in policy.checks):
        return None
    because = f"a pass of all that is required of quality was shown by then ({count(asked)} items looked at)"
    stopped = replace(sheet, stopped=stopped_by(policy, asked, len(golden.item_ids), because))
    subject = Subject(
        variant=replace(variant, sheets=(stopped,)), reference=reference, others=(), golden_sets=(golden,), policy=policy
    )
    required = [one for one in quality_questions(subject) if one.rule.tier == "required" and _is_of(one.name, golden)]
    level = first_level(policy, candidates)
    return stopped if required and all(one.check(level, policy.power).outcome == "pass" for one in required) else None


def _is_of(name: str, golden: GoldenReference) -> bool:
    return name == f"quality/{golden.name}" or name.startswith(f"quality/{golden.name}/")


def _needs_all(policy: Policy, golden: GoldenReference) -> bool:
    """Whether something else than quality is asked of the set that needs every item."""
    return any(rule.kind == "perplexity_ratio" and rule.golden_set in ("*", golden.name) for rule in policy.checks)
