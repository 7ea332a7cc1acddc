"""Pair two score sheets item by item, and account for every item that cannot be paired.

An item that the variant did not answer counts as wrong for the variant and right for the reference, also where both miss it: a tie would
favour a pass. An item the reference did not answer counts as right for the reference; more than the policy's share of those, unknown or
duplicate ids, and different or unknown conditions make the comparison not measured.

Scores are right or wrong, graded in [0, 1], or unbounded. Which way they go is stated, by the metric or by the policy, and never guessed
from a name. An unbounded score has no worst value that an item without an answer could count as, so there none may be missing.

A known-bad control turns the direction round: there a fail is what is hoped for, so its missing answers are held to the reference's limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

from quantgate.records import BatchPlan, Better, CheckRule, GoldenReference, ItemScore, Role, Scale, ScoreSheet
from quantgate.render.quantities import count
from quantgate.stages.subject import one_line
from quantgate.stats.inputs import exact

LARGEST_SCORE = 1e90
"""The third power of a larger one is no float, and skewness needs it."""
FIRST_DIFFERENT = ", first different at item "
"""Parts a digest of marks from the first item that has another one."""
CONDITIONS = ("bos", "device", "driver", "threads", "tokenizer")
"""What a sheet must say of the circumstances it was taken under; a device without a driver says None."""

_UNSAID = (None, "", "all")
"""Cluster or slice of an item of which a file says nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pairs:
    """What each item of the golden set lost."""

    losses: tuple[float, ...]
    """Positive where the variant is worse, in the golden set's order: 1, 0 or -1 where scores are right or wrong."""
    scale: Scale
    clusters: tuple[str, ...] | None
    """Cluster of each item, None where no two items share one."""
    reference_answered: tuple[float, ...]
    """Scores of the items that the reference really answered; in [0, 1] turned so that 1 is best."""
    absent_variant: int
    absent_reference: int

    @property
    def n(self) -> int:
        """Items of the golden set."""
        return len(self.losses)

    @property
    def b(self) -> int:
        """Items that lost: the reference right and the variant wrong, or the variant's score the worse one."""
        return sum(one > 0 for one in self.losses)

    @property
    def c(self) -> int:
        """Items that gained."""
        return sum(one < 0 for one in self.losses)

    @property
    def estimate(self) -> float:
        """Mean loss."""
        return (self.b - self.c) / self.n if self.scale == "binary" else sum(self.losses) / self.n

    @property
    def reference_answered_right(self) -> int:
        """Items the reference really answered, and rightly; for right or wrong."""
        return sum(one == 1 for one in self.reference_answered)

    def first(self, items: int) -> Pairs:
        """The first so many items alone."""
        return Pairs(
            losses=self.losses[:items],
            scale=self.scale,
            clusters=None if self.clusters is None else _if_shared(self.clusters[:items]),
            reference_answered=self.reference_answered,
            absent_variant=self.absent_variant,
            absent_reference=self.absent_reference,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Meaning:
    """What the numbers of two sheets are."""

    scale: Scale
    better: Better

    def loss(self, reference: float | None, variant: float | None) -> float:
        """What an item lost. Without an answer, on either side, the reference has the best score and the variant the worst."""
        best, worst = (1.0, 0.0) if self.better == "higher" else (0.0, 1.0)
        base = best if reference is None or variant is None else reference
        other = worst if variant is None else variant
        return base - other if self.better == "higher" else other - base

    def turned(self, score: float) -> float:
        """A score in [0, 1] as one whose best is 1; others as they are."""
        return 1 - score if self.better == "lower" and self.scale != "unbounded" else score


def pair(
    reference: ScoreSheet,
    variant: ScoreSheet,
    golden: GoldenReference,
    role: Role,
    max_absent: float,
    *,
    foreign: bool = False,
    rule: CheckRule | None = None,
) -> Pairs | str:
    """The pairs, or half a sentence why the two sheets cannot be compared.

    ``foreign``: another tool wrote the scores. What it states must be equal; what it does not state is unknown and no reason to refuse.
    ``rule``: says what scores are where their sheets do not.
    """
    reason = conditions_differ(reference, variant, golden, role, foreign=foreign)
    reason = reason or _why_not_answered(reference, variant, golden, role, max_absent)
    if reason is not None:
        return reason
    found = meaning(reference, variant, rule, foreign=foreign)
    if isinstance(found, str):
        return found
    left, right = _by_id(reference), _by_id(variant)
    absent = sorted({*_absent(left, golden), *_absent(right, golden)}) if found.scale == "unbounded" else []
    if absent:
        return f"item {absent[0]} lacks a score on one of the sides, and scores without bounds have no worst one that it could count as"
    return _pairs(left, right, golden, found)


def conditions_differ(
    reference: ScoreSheet, variant: ScoreSheet, golden: GoldenReference, role: Role, *, foreign: bool
) -> str | None:
    """Why two sheets are no sheets of one golden set taken alike, before anything is asked of their items; None where they are."""
    return (
        _why_not_whole("the reference", reference, golden)
        or _why_not_whole("the variant", variant, golden)
        or (_why_stated_otherwise(reference, variant) if foreign else _why_not_comparable(reference, variant, role))
        or _why_grouped_otherwise(reference, variant)
    )


def _why_grouped_otherwise(reference: ScoreSheet, variant: ScoreSheet) -> str | None:
    """The first item that the two sides put into different slices or clusters; a side that says nothing of an item is no reason."""
    ours = _by_id(reference)
    for item in variant.items:
        if (base := ours.get(item.item_id)) is None:
            continue
        for field, left, right in (("slice", base.slice, item.slice), ("cluster", base.cluster, item.cluster)):
            if left != right and left not in _UNSAID and right not in _UNSAID:
                what = f"not comparable: item {item.item_id} is in {field} '{one_line(str(left))}'"
                return f"{what} for the reference and in '{one_line(str(right))}' for the variant"
    return None


def meaning(reference: ScoreSheet, variant: ScoreSheet, rule: CheckRule | None, *, foreign: bool) -> Meaning | str:
    """What the scores of two sheets are by what is stated of them, or half a sentence why that does not fit together or the numbers.

    A session's sheet that states nothing is of a time when there was only right and wrong; where task code of others scored, it is
    what the numbers are.
    """
    unstated: Scale | None = None if foreign or all("tasks" in one.conditions for one in (reference, variant)) else "binary"
    stated = {one for sheet in (reference, variant) if (one := sheet.scale or unstated) is not None}
    asked = None if rule is None else rule.scale
    if len(stated) > 1:
        return f"not comparable: the scale of the scores is {reference.scale} for the reference and {variant.scale} for the variant"
    scale: Scale = next(iter(stated)) if stated else asked or "unit"
    if asked is not None and scale != asked:
        return f"the policy says that the scores have no bounds and their metric says that they are {_SCALES[scale]}"
    if scale == "unbounded" and asked is None:
        return f"its scores have no bounds: {_HOW_UNBOUNDED}"
    if (reason := _odd_score("the reference", reference, scale) or _odd_score("the variant", variant, scale)) is not None:
        return reason
    values = {item.value for sheet in (reference, variant) for item in sheet.items}
    if scale == "unit" and values <= {None, 0, 1}:
        scale = "binary"
    ways = {one for one in (reference.better, variant.better, None if rule is None else rule.better) if one is not None}
    if len(ways) > 1:
        said = (("the reference's results", reference.better), ("the variant's", variant.better), ("the policy", rule and rule.better))
        each = ", ".join(f"{way} by {who}" for who, way in said if way)
        return f"which scores are better is stated in two ways: {each}; they must agree"
    if not ways and scale != "binary":
        return "nothing says whether higher scores are better: write 'better: higher' or 'better: lower' into the check"
    return Meaning(scale=scale, better=next(iter(ways), "higher"))


def why_scales_doubtful(reference: ScoreSheet, variant: ScoreSheet, rule: CheckRule, *, foreign: bool) -> str | None:
    """Why the scores of two whole sheets are not what is said of them, where only the policy, or nobody, says what they are.

    Scores that all lie in 0 to 1 have bounds, and with bounds the reference must be able to show a loss. Right or wrong beside graded
    scores are two scales. A metric that states its scale is believed.
    """
    if not foreign or reference.scale is not None or variant.scale is not None:
        return None
    sides = [("the reference", reference), ("the variant", variant)]
    values = [item.value for _, sheet in sides for item in sheet.items if item.value is not None]
    if rule.scale == "unbounded":
        if not values or not all(0 <= one <= 1 for one in values):
            return None
        return (
            "the policy says that the scores have no bounds and all of them lie in 0 to 1: leave 'scale: unbounded' out, with a margin "
            "between 0 and 1"
        )
    graded = [next((item for item in sheet.items if item.value not in (None, 0, 1)), None) for _, sheet in sides]
    odd = next((one for one in graded if one is not None), None)
    if odd is None or None not in graded:
        return None
    (coarse, _), (fine, _) = sides if graded[0] is None else reversed(sides)
    return (
        f"not comparable: every score of {coarse} is 0 or 1, and those of {fine} are graded (item {odd.item_id} has {odd.value:g}); the "
        "scales differ"
    )


_SCALES = {"binary": "right (1) or wrong (0)", "unit": "graded in 0 to 1"}
_HOW_UNBOUNDED = "write 'scale: unbounded' into the check, with a margin in the score's own unit, or name the golden sets that it is for"


def _odd_score(who: str, sheet: ScoreSheet, scale: Scale) -> str | None:
    """The first score that is not on its scale."""
    values = {item.value for item in sheet.items} - {None, 0, 1}
    if not values or (scale != "binary" and all(_fits(one, scale) for one in values if one is not None)):
        return None
    for item in sheet.items:
        if (value := item.value) is None:
            continue
        what = f"item {item.item_id} of {who} has the score {value}"
        if not isfinite(value):
            return f"{what}, which is no number"
        if abs(value) > LARGEST_SCORE:
            return f"{what}, which is beyond any use: scores go from -{LARGEST_SCORE:g} to {LARGEST_SCORE:g}"
        if scale == "binary" and value not in (0, 1):
            return f"{what}, which a comparison of right (1) and wrong (0) cannot use"
        if scale == "unit" and not 0 <= value <= 1:
            return f"{what}, which is not between 0 and 1: {_HOW_UNBOUNDED}"
    return None


def _fits(value: float, scale: Scale) -> bool:
    return 0 <= value <= 1 if scale == "unit" else isfinite(value) and abs(value) <= LARGEST_SCORE


def right_on_both(reference: ItemScore | None, variant: ItemScore | None) -> tuple[bool, bool]:
    """Whether an item counts as right for the reference and for the variant; an answer that is missing never helps the variant."""
    base, other = _value(reference), _value(variant)
    return base is None or other is None or bool(base), bool(other)


def paired_items(reference: ScoreSheet, variant: ScoreSheet) -> list[tuple[ItemScore, ItemScore]]:
    """Items present on both sides, in the variant's order, for display."""
    left = _by_id(reference)
    return [(left[item.item_id], item) for item in variant.items if item.item_id in left]


def _pairs(left: Mapping[str, ItemScore], right: Mapping[str, ItemScore], golden: GoldenReference, found: Meaning) -> Pairs:
    both = [(_value(left.get(one)), _value(right.get(one))) for one in golden.item_ids]
    return Pairs(
        losses=tuple([found.loss(base, other) for base, other in both]),
        scale=found.scale,
        clusters=_clusters(left, right, golden),
        reference_answered=tuple([found.turned(base) for base, _ in both if base is not None]),
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
        said = (item.cluster for item in (left.get(one), right.get(one)) if item is not None)
        cluster = next((name for name in said if name is not None), None)
        names.append(f"item\0{one}" if cluster is None else f"cluster\0{cluster}")
    return _if_shared(tuple(names))


def _if_shared(names: tuple[str, ...]) -> tuple[str, ...] | None:
    return names if max(Counter(names).values(), default=0) > 1 else None


def _why_not_whole(who: str, sheet: ScoreSheet, golden: GoldenReference) -> str | None:
    """A sheet may lack items, which are accounted for; it may not hold one twice or one too many."""
    if sheet.golden_sha256 != golden.sha256:
        return f"{who} was scored on another golden set than the run's"
    counts, known = Counter(item.item_id for item in sheet.items), set(golden.item_ids)
    if (twice := next((one for one, times in counts.items() if times > 1), None)) is not None:
        return f"{who} has item {twice} more than once"
    if (unknown := next((one for one in counts if one not in known), None)) is not None:
        return f"{who} has item {unknown}, which the golden set does not have"
    return None


def _why_not_comparable(reference: ScoreSheet, variant: ScoreSheet, role: Role) -> str | None:
    """The first condition that differs, or that nobody wrote down. Only the identity control may use other batches."""
    if role != "identity" and reference.batch_plan != variant.batch_plan:
        plan, other = plan_words(reference.batch_plan), plan_words(variant.batch_plan)
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
            mark, comma, first = theirs.partition(FIRST_DIFFERENT) if isinstance(theirs, str) else (theirs, "", "")
            return f"not comparable: {field} is {ours!r} for the reference and {mark!r} for the variant{comma}{first}"
    return None


def plan_words(plan: BatchPlan) -> str:
    """A batch plan as a sentence has it."""
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
