"""From a graded item to its score, and from scores to the plain figure: what every metric does alike.

An item's score is turned so that larger is better, whatever the metric's own direction: a gate that forgot to turn it
would let a loss pass as a gain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quantgate.records import GoldenItem, ItemEvidence, ItemScore


@dataclass(frozen=True, kw_only=True, slots=True)
class Grade:
    """What a metric found. ``value`` None: no score, for the reason given."""

    value: float | None
    why_unscored: str | None = None
    answered: str = ""
    expected: str = ""
    parts: tuple[float, ...] = ()


def own(item: GoldenItem, evidence: ItemEvidence) -> None:
    """Refuse another item's evidence."""
    if evidence.item_id != item.item_id:
        raise ValueError(f"evidence of item {evidence.item_id!r} was given for item {item.item_id!r}")


def scored(item: GoldenItem, evidence: ItemEvidence, grade: Grade) -> ItemScore:
    """The item's score with everything that stands beside it."""
    return ItemScore(
        item_id=item.item_id,
        slice=item.slice,
        cluster=item.cluster,
        value=grade.value,
        why_unscored=grade.why_unscored,
        answered=grade.answered,
        expected=grade.expected,
        evidence=evidence,
        weight=item.weight,
        parts=grade.parts,
    )


def weighted_mean(items: Sequence[ItemScore]) -> float | None:
    """Sum of weight x value over the sum of weights, of the items that have a value; None without one."""
    found = [(item.weight, item.value) for item in items if item.value is not None]
    total = sum(weight for weight, _ in found)
    return sum(weight * value for weight, value in found) / total if found else None
