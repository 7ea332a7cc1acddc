"""Pair two score sheets item by item, and account for every item that cannot be paired.

An item that the variant did not answer counts as wrong for the variant and right for the reference, also where both miss it: a tie would
favour a pass. An item the reference did not answer counts as right for the reference; more than the policy's share of those, unknown or
duplicate ids, and different or unknown conditions make the comparison not measured.

A known-bad control turns the direction round: there a fail is what is hoped for, so its missing answers are held to the reference's limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from quantgate.records import BatchPlan, GoldenReference, ItemScore, Role, ScoreSheet
from quantgate.render.quantities import count
from quantgate.stats.inputs import exact

CONDITIONS = ("bos", "device", "driver", "threads", "tokenizer")
"""What a sheet must say of the circumstances it was taken under; a device without a driver says None."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pairs:
    """Right or wrong on both sides, one entry an item of the golden set."""

    reference_right: tuple[bool, ...]
    """An item without an answer, on either side, counts as right here."""
    variant_right: tuple[bool, ...]
    clusters: tuple[str, ...] | None
    """Cluster of each item, None where no two items share one."""
    reference_answered_right: int
    """Items the reference really answered, and rightly."""
    absent_variant: int
    absent_reference: int

    @property
    def n(self) -> int:
        """Items of the golden set."""
        return len(self.reference_right)

    @property
    def b(self) -> int:
        """Regressions: the reference right, the variant wrong."""
        return sum(left and not right for left, right in zip(self.reference_right, self.variant_right, strict=True))

    @property
    def c(self) -> int:
        """Recoveries: the reference wrong, the variant right."""
        return sum(right and not left for left, right in zip(self.reference_right, self.variant_right, strict=True))

    @property
    def losses(self) -> tuple[int, ...]:
        """1 for a regression, -1 for a recovery, 0 for a tie, in item order."""
        return tuple(
            int(left) - int(right) for left, right in zip(self.reference_right, self.variant_right, strict=True)
        )


def pair(
    reference: ScoreSheet,
    variant: ScoreSheet,
    golden: GoldenReference,
    role: Role,
    max_absent: float,
    *,
    foreign: bool = False,
) -> Pairs | str:
    """The pairs, or half a sentence why the two sheets cannot be compared.

    ``foreign``: another tool wrote the scores. What it states must be equal; what it does not state is unknown and no reason to refuse.
    """
    reason = (
        _why_not_whole("the reference", reference, golden)
        or _why_not_whole("the variant", variant, golden)
        or (_why_stated_otherwise(reference, variant) if foreign else _why_not_comparable(reference, variant, role))
        or _why_not_answered(reference, variant, golden, role, max_absent)
    )
    return reason or _pairs(_by_id(reference), _by_id(variant), golden)


def right_on_both(reference: ItemScore | None, variant: ItemScore | None) -> tuple[bool, bool]:
    """Whether an item counts as right for the reference and for the variant; an answer that is missing never helps the variant."""
    base, other = _value(reference), _value(variant)
    return base is None or other is None or bool(base), bool(other)


def paired_items(reference: ScoreSheet, variant: ScoreSheet) -> list[tuple[ItemScore, ItemScore]]:
    """Items present on both sides, in the variant's order, for display."""
    left = _by_id(reference)
    return [(left[item.item_id], item) for item in variant.items if item.item_id in left]


def _pairs(left: Mapping[str, ItemScore], right: Mapping[str, ItemScore], golden: GoldenReference) -> Pairs:
    both = [right_on_both(left.get(one), right.get(one)) for one in golden.item_ids]
    return Pairs(
        reference_right=tuple(base for base, _ in both),
        variant_right=tuple(other for _, other in both),
        clusters=_clusters(left, right, golden),
        reference_answered_right=sum(bool(_value(left.get(one))) for one in golden.item_ids),
        absent_variant=len(_absent(right, golden)),
        absent_reference=len(_absent(left, golden)),
    )


def _by_id(sheet: ScoreSheet) -> dict[str, ItemScore]:
    return {item.item_id: item for item in sheet.items}


def _value(item: ItemScore | None) -> float | None:
    return None if item is None else item.value


def _absent(items: Mapping[str, ItemScore], golden: GoldenReference) -> list[str]:
    return [one for one in golden.item_ids if _value(items.get(one)) is None]


def _clusters(
    left: Mapping[str, ItemScore], right: Mapping[str, ItemScore], golden: GoldenReference
) -> tuple[str, ...] | None:
    """Each item's cluster; an item without one is a cluster of its own, under a name no cluster of the file can have."""
    names = []
    for one in golden.item_ids:
        item = left.get(one) or right.get(one)
        names.append(f"cluster\0{item.cluster}" if item is not None and item.cluster is not None else f"item\0{one}")
    return tuple(names) if max(Counter(names).values()) > 1 else None


def _why_not_whole(who: str, sheet: ScoreSheet, golden: GoldenReference) -> str | None:
    """A sheet may lack items, which are accounted for; it may not hold one twice, one too many, or a score that is not right or wrong."""
    if sheet.golden_sha256 != golden.sha256:
        return f"{who} was scored on another golden set than the run's"
    counts, known = Counter(item.item_id for item in sheet.items), set(golden.item_ids)
    if (twice := next((one for one, times in counts.items() if times > 1), None)) is not None:
        return f"{who} has item {twice} more than once"
    if (unknown := next((one for one in counts if one not in known), None)) is not None:
        return f"{who} has item {unknown}, which the golden set does not have"
    odd = next((item for item in sheet.items if item.value not in (None, 0, 1)), None)
    if odd is None:
        return None
    return f"item {odd.item_id} of {who} has the score {odd.value}, which a comparison of right (1) and wrong (0) cannot use"


def _why_not_comparable(reference: ScoreSheet, variant: ScoreSheet, role: Role) -> str | None:
    """The first condition that differs, or that nobody wrote down. Only the identity control may use other batches."""
    if role != "identity" and reference.batch_plan != variant.batch_plan:
        plan, other = _plan(reference.batch_plan), _plan(variant.batch_plan)
        return f"not comparable: the batch plan is {plan} for the reference and {other} for the variant"
    for field in sorted({*CONDITIONS, *reference.conditions, *variant.conditions}):
        for who, sheet in (("the reference", reference), ("the variant", variant)):
            if field not in sheet.conditions:
                return f"not comparable: {field} is not known for {who}"
        if (ours := reference.conditions[field]) != (theirs := variant.conditions[field]):
            return f"not comparable: {field} is {ours!r} for the reference and {theirs!r} for the variant"
    if reference.first_prompt != variant.first_prompt:
        return "not comparable: the prompt template differs, the first prompt is not the same text for the reference and the variant"
    return None


def _why_stated_otherwise(reference: ScoreSheet, variant: ScoreSheet) -> str | None:
    """The first condition that both files state, and not alike."""
    for field in sorted({*reference.conditions} & {*variant.conditions}):
        if (ours := reference.conditions[field]) != (theirs := variant.conditions[field]):
            return f"not comparable: {field} is {ours!r} for the reference and {theirs!r} for the variant"
    return None


def _plan(plan: BatchPlan) -> str:
    return f"{count(plan.max_rows)} rows of {count(plan.token_budget)} tokens in order of {plan.order}"


def _why_not_answered(
    reference: ScoreSheet, variant: ScoreSheet, golden: GoldenReference, role: Role, max_absent: float
) -> str | None:
    left, right = _by_id(reference), _by_id(variant)
    if (reason := _too_many_absent("the reference", _absent(left, golden), golden, max_absent)) is not None:
        return reason
    silent = [one for one in _absent(right, golden) if one not in right or not right[one].evidence.nonfinite]
    if len(silent) == len(golden.item_ids):
        return "the variant answered no item"
    return _too_many_absent("the variant", silent, golden, max_absent) if role == "known_bad" else None


def _too_many_absent(who: str, absent: list[str], golden: GoldenReference, max_absent: float) -> str | None:
    if len(absent) <= exact(max_absent) * len(golden.item_ids):
        return None
    were = "was" if len(absent) == 1 else "were"
    return f"{len(absent)} of {len(golden.item_ids)} items {were} not answered by {who}; at most {max_absent * 100:g} % may be missing"
