"""Which of several passing candidates goes forward, by the policy's objective. Pure; says nothing about whether one passes.

Losses are compared over the same items: where the scoring of one ended early, each counts with the items that all of them were asked, which
are the first in an order fixed beforehand. An objective that is known of none gives way to the smallest loss, and that is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from quantgate.records import Check, EarlyStop, Evidence, Policy, ScoreSheet, VariantEvidence, Verdict
from quantgate.stages.quality import quality_questions
from quantgate.stages.subject import Subject

_RANKED_BY = {
    "freed_bytes": "The memory freed",
    "ceiling": "The batch ceiling",
    "tokens_per_s_at_ceiling": "The speed at the batch ceiling",
    "smallest_loss": "The loss",
}
_Losses: TypeAlias = dict[str, float]


def choose(verdicts: Sequence[Verdict], evidence: Evidence, policy: Policy) -> tuple[str | None, str]:
    """The passing candidate with the best figure of the objective, None where none passes; and what must be said of the choice.

    One whose figure is not known comes after all whose is; ties go by the order in which the candidates are given.
    """
    passing = [one for one in verdicts if one.role == "candidate" and one.outcome == "pass"]
    if not passing:
        return None, ""
    by_name = {one.variant.name: one for one in evidence.variants}
    figures = [_figure(by_name[one.variant], policy) for one in passing]
    said = ""
    if all(one is None for one in figures):
        figures = _smallest_losses(passing, evidence, policy)
        unranked = all(one is None for one in figures)
        if len(passing) > 1 and (unranked or policy.objective != "smallest_loss"):
            by = "the order in which they are given decides" if unranked else "the one with the smallest loss goes forward"
            said = f". {_RANKED_BY[policy.objective]} is known of none that passes, so {by}"
    ranked = [(figure is not None, figure or 0.0, -place) for place, figure in enumerate(figures)]
    return passing[-max(ranked)[2]].variant, said


def _figure(one: VariantEvidence, policy: Policy) -> float | None:
    """More is better; None where it is not known, and for losses, which are compared with each other."""
    match policy.objective:
        case "freed_bytes":
            return None if one.loaded is None else -float(one.loaded.weight_bytes)
        case "ceiling":
            return None if one.capacity is None or one.capacity.confirmed is None else float(one.capacity.confirmed)
        case "tokens_per_s_at_ceiling":
            return one.tokens_per_s_at_ceiling
        case _:
            return None


# ---------------------------------------------------------------------------------------------- losses


def _smallest_losses(passing: Sequence[Verdict], evidence: Evidence, policy: Policy) -> list[float | None]:
    """Minus the largest loss of each over its required checks; as shares of the margins where these are in units of their own."""
    return [_loss(one, _over_shared_items(one, passing, evidence, policy)) for one in passing]


def _loss(verdict: Verdict, shared: _Losses) -> float | None:
    asked = [check for check in verdict.checks if check.tier != "advisory" and (check.b is not None or _is_ratio(check))]
    known = [(shared.get(check.name, check.estimate), check) for check in asked if check.estimate is not None]
    mixed = any(check.scale == "unbounded" or _is_ratio(check) for _, check in known)
    losses = [_share(loss, check) if mixed else loss for loss, check in known if loss is not None]
    return -max(losses) if losses else None


def _is_ratio(check: Check) -> bool:
    return check.name.startswith("perplexity_ratio")


def _share(estimate: float, check: Check) -> float:
    """Of what may be lost, which for a ratio is what it may exceed 1 by."""
    unchanged = 1.0 if _is_ratio(check) else 0.0
    return (estimate - unchanged) / ((check.margin or 0.0) - unchanged or 1.0)


def _over_shared_items(verdict: Verdict, passing: Sequence[Verdict], evidence: Evidence, policy: Policy) -> _Losses:
    """The loss of each quality check over the items that every passing candidate was asked; empty where all were asked all."""
    names = {one.variant for one in passing}
    sheets = [sheet for one in evidence.variants if one.variant.name in names for sheet in one.sheets]
    stops: dict[str, EarlyStop] = {}
    for sheet in sheets:
        if (stop := sheet.stopped) is not None:
            first = stops.get(sheet.golden_sha256, stop)
            stops[sheet.golden_sha256] = min(first, stop, key=lambda one: one.asked)
    if not stops:
        return {}
    shortest = [sheet for sheet in sheets if sheet.stopped is not None and sheet.stopped == stops.get(sheet.golden_sha256)]
    ids = {sheet.golden_sha256: {item.item_id for item in sheet.items} for sheet in shortest}
    own = next(one for one in evidence.variants if one.variant.name == verdict.variant)
    cut = replace(own, sheets=tuple(_cut(sheet, stops, ids) for sheet in own.sheets))
    reference = next(one for one in evidence.variants if one.variant.role == "reference")
    subject = Subject(variant=cut, reference=reference, others=(), golden_sets=evidence.golden_sets, policy=policy)
    return {one.name: one.pairs.estimate for one in quality_questions(subject) if one.pairs is not None}


def _cut(sheet: ScoreSheet, stops: dict[str, EarlyStop], ids: dict[str, set[str]]) -> ScoreSheet:
    stop = stops.get(sheet.golden_sha256)
    if stop is None:
        return sheet
    return replace(sheet, items=tuple(one for one in sheet.items if one.item_id in ids[sheet.golden_sha256]), stopped=stop)
