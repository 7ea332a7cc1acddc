"""The noise floor in a sentence: how far the reference moves by itself when only its batches change.

Read from the identity control. A variant that moves no further than this has shown nothing. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from quantgate.records import BatchPlan, Evidence, ItemScore, ScoreSheet, VariantEvidence
from quantgate.render.quantities import count


def sentences(evidence: Evidence, reference: VariantEvidence) -> Iterator[str]:
    """One for each identity control and golden set that both it and the reference were scored on."""
    for one in evidence.variants:
        if one.variant.role != "identity":
            continue
        for sheet in one.sheets:
            base = next((each for each in reference.sheets if each.golden_sha256 == sheet.golden_sha256), None)
            if base is not None:
                yield _sentence(one.variant.name, base, sheet)


def _sentence(name: str, base: ScoreSheet, sheet: ScoreSheet) -> str:
    ours = {item.item_id: item for item in base.items}
    pairs = [(ours[item.item_id], item) for item in sheet.items if item.item_id in ours]
    changed = sum(left.value != right.value for left, right in pairs)
    parts = [f"{count(changed)} of {count(len(pairs))} items score otherwise"]
    if base.mean is not None and sheet.mean is not None:
        parts.append(f"the mean is {sheet.mean:.4f} against {base.mean:.4f}")
    if (furthest := _furthest(pairs)) is not None:
        parts.append(f"no log-likelihood moves by more than {furthest:.1g} nats")
    if sheet.kl is not None:
        parts.append(f"the mean KL divergence is {sheet.kl.mean:.1g} nats a token")
    plans = f"{_rows(sheet.batch_plan)} instead of {_rows(base.batch_plan)}"
    return f"Noise floor on {base.golden_set} {base.golden_version}: {name}, the reference in batches of {plans}: {', '.join(parts)}."


def _rows(plan: BatchPlan) -> str:
    return f"{count(plan.max_rows)} rows"


def _furthest(pairs: list[tuple[ItemScore, ItemScore]]) -> float | None:
    """Largest difference of a log-likelihood that both have; None where there are none to compare."""
    differences = [
        abs(one - other)
        for left, right in pairs
        for one, other in zip(left.evidence.loglikelihoods, right.evidence.loglikelihoods, strict=False)
        if one is not None and other is not None
    ]
    return max(differences, default=None)
