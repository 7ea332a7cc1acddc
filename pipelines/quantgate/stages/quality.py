"""Quality: is it shown that a variant loses no more than the margin on a golden set, or on a slice of one? Pure.

A question is either a set of pairs to decide on, or the reason why there is none. The decision is the statistics' alone; what stands here
is which evidence may be compared, and the sentence that says what was found.

Slices that are required join the intersection, at the candidate's own level. Advisory ones are looked at in search of something: each is
shown at alpha over the number of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from quantgate.records import Check, CheckRule, Failure, GoldenReference, Outcome, ScoreSheet, VariantEvidence
from quantgate.render.quantities import count, level_percent, margin_points, percent, points
from quantgate.stages.figures import why_weighted
from quantgate.stages.pairing import Pairs, pair
from quantgate.stages.subject import Subject, one_line, sheet_of
from quantgate.stats.clusters import clustered_loss
from quantgate.stats.inputs import exact
from quantgate.stats.noninferiority import Decision, assay_sensitive, decide_clustered, decide_paired
from quantgate.stats.paired import p_loss_at_least
from quantgate.stats.power import items_needed


@dataclass(frozen=True, kw_only=True, slots=True)
class QualityQuestion:
    """A quality rule on one golden set: the pairs, or why there are none."""

    rule: CheckRule
    name: str
    where: str
    """``" on everyday"`` where the run has several golden sets, ``" on arithmetic"`` for a slice, else nothing."""
    pairs: Pairs | None
    why_not: str
    without_pairs: Outcome = "not_measured"
    """``fail`` where there are no pairs because the variant computed NaN."""
    looked_at: int | None = None
    """For an advisory slice: how many slices are looked at."""

    def p_pass(self) -> float:
        """P-value of "the loss is at least the margin"; 1 where it was not measured."""
        if self.pairs is None:
            return 1.0
        if self.pairs.clusters is not None:
            return clustered_loss(self.pairs.losses, self.pairs.clusters).p_at_least(self.margin)
        return p_loss_at_least(b=self.pairs.b, c=self.pairs.c, n=self.pairs.n, margin=self.margin)

    def check(self, alpha: float, power: float) -> Check:
        """The question decided at one-sided level ``alpha``."""
        if self.pairs is None:
            return Check(
                name=self.name,
                tier=self.rule.tier,
                outcome=self.without_pairs,
                because=self.why_not,
                margin=self.rule.margin,
            )
        decision = self._decide(self.pairs, alpha)
        return Check(
            name=self.name,
            tier=self.rule.tier,
            outcome=decision.outcome,
            because=_sentence(decision, self.pairs, self, power),
            estimate=decision.estimate,
            lower=decision.lower,
            bound=decision.upper,
            margin=self.margin,
            level=_confidence(decision.level),
            p_value=decision.p_pass,
            n=self.pairs.n,
            b=self.pairs.b,
            c=self.pairs.c,
        )

    def untested(self, because: str) -> Check:
        """The question left open although there is evidence: a candidate before this one stopped the sequence. It has no bounds."""
        if self.pairs is None:
            return self.check(0.5, 0.5)
        return Check(
            name=self.name,
            tier=self.rule.tier,
            outcome="inconclusive",
            because=because,
            estimate=(self.pairs.b - self.pairs.c) / self.pairs.n,
            margin=self.margin,
            n=self.pairs.n,
            b=self.pairs.b,
            c=self.pairs.c,
        )

    @property
    def margin(self) -> float:
        """The largest loss that is allowed; ``ValueError`` for a rule without one, which has no pairs either."""
        if self.rule.margin is None:
            raise ValueError("a quality rule has a margin")
        return self.rule.margin

    def _decide(self, pairs: Pairs, alpha: float) -> Decision:
        if pairs.clusters is not None:
            return decide_clustered(losses=pairs.losses, clusters=pairs.clusters, margin=self.margin, alpha=alpha)
        return decide_paired(b=pairs.b, c=pairs.c, n=pairs.n, margin=self.margin, alpha=alpha)


def quality_questions(subject: Subject) -> tuple[QualityQuestion, ...]:
    """One question a quality rule and golden set, or slice. A rule for a set the run does not have stays as not measured."""
    found = tuple(_questions(subject))
    looked_at = sum(_is_only_looked_at(one.rule) for one in found)
    return tuple(replace(one, looked_at=looked_at) if _is_only_looked_at(one.rule) else one for one in found)


def _is_only_looked_at(rule: CheckRule) -> bool:
    return rule.tier == "advisory" and bool(rule.slices)


def slice_names(rule: CheckRule, golden: GoldenReference) -> tuple[str, ...]:
    """The slices of a golden set that a rule means: those it names, or all for ``*``; none where it means the whole set."""
    every = tuple(part.name for part in golden.parts) or ("*",)
    return tuple(dict.fromkeys(one for name in rule.slices for one in (every if name == "*" else (name,))))


def part_of(golden: GoldenReference, name: str) -> GoldenReference | None:
    """A slice as a golden set of its own, with the digest of the whole; None where the set has none of that name."""
    part = next((one for one in golden.parts if one.name == name), None)
    return None if part is None else replace(golden, item_ids=part.item_ids, chance_level=part.chance_level, parts=(part,))


def _questions(subject: Subject) -> Iterator[QualityQuestion]:
    where = "" if len(subject.golden_sets) == 1 else " on {}"
    for rule in (one for one in subject.policy.checks if one.kind == "quality"):
        chosen = subject.chosen(rule.golden_set)
        for golden in chosen:
            if not rule.slices:
                yield _question(subject, golden, rule, where.format(golden.name))
            for name in slice_names(rule, golden):
                yield _slice_question(subject, golden, name, rule)
        if not chosen:
            which = "golden set" if rule.golden_set == "*" else f"golden set named {rule.golden_set}"
            why_not = f"is not measured: the run has no {which}"
            yield QualityQuestion(rule=rule, name=f"quality/{rule.golden_set}", where="", pairs=None, why_not=why_not)


def _question(subject: Subject, golden: GoldenReference, rule: CheckRule, where: str) -> QualityQuestion:
    found = _pairs(subject, golden, golden, rule)
    known = QualityQuestion(rule=rule, name=f"quality/{golden.name}", where=where, pairs=None, why_not="")
    return _answered(known, found, subject, golden, golden.name)


def _slice_question(subject: Subject, golden: GoldenReference, name: str, rule: CheckRule) -> QualityQuestion:
    called = name if len(subject.golden_sets) == 1 else f"{name} of {golden.name}"
    known = QualityQuestion(rule=rule, name=f"quality/{golden.name}/{name}", where=f" on {called}", pairs=None, why_not="")
    part = part_of(golden, name)
    if part is None:
        nothing = "this evidence does not say which items a slice has" if not golden.parts else f"{golden.name} has no slice '{name}'"
        return replace(known, why_not=f"is not measured on {called}: {nothing}")
    return _answered(known, _pairs(subject, golden, part, rule), subject, golden, called)


def _answered(
    known: QualityQuestion, found: Pairs | str, subject: Subject, golden: GoldenReference, called: str
) -> QualityQuestion:
    """The question with its pairs, or with the reason why there are none."""
    if isinstance(found, Pairs):
        return replace(known, pairs=found)
    invalid = _invalid(subject, golden)
    if invalid is not None:
        why_not = f"is numerically invalid on {called}: {one_line(invalid.message)}"
        return replace(known, why_not=why_not, without_pairs="fail")
    return replace(known, why_not=f"is not measured on {called}: {found}")


# ---------------------------------------------------------------------------------------------- what may be compared


def _pairs(subject: Subject, golden: GoldenReference, target: GoldenReference, rule: CheckRule) -> Pairs | str:
    """The pairs of ``target``, which is the golden set or a slice of it. The sheets must be whole and comparable on all of the set."""
    if (reason := _why_unfit(target, rule, rule.minimum_items or subject.policy.minimum_items)) is not None:
        return reason
    reference = _own_sheet("the reference", subject.reference, golden)
    variant = _own_sheet("the variant", subject.variant, golden)
    if isinstance(reference, str) or isinstance(variant, str):
        return reference if isinstance(reference, str) else str(variant)
    if (reason := why_weighted(reference, target.item_ids) or why_weighted(variant, target.item_ids)) is not None:
        return reason
    if any(item.evidence.nonfinite for item in reference.items):
        return "the reference gave NaN or infinity"
    role, absent = subject.variant.variant.role, subject.policy.max_absent_reference
    pairs = pair(reference, variant, golden, role, absent, foreign=subject.variant.source == "file")
    if target is not golden and not isinstance(pairs, str):
        parts = _only(reference, target), _only(variant, target)
        pairs = pair(*parts, target, role, absent, foreign=subject.variant.source == "file")
    return pairs if isinstance(pairs, str) else _insensitive(pairs, target, rule) or pairs


def _only(sheet: ScoreSheet, part: GoldenReference) -> ScoreSheet:
    """A sheet's items that belong to a slice."""
    ids = set(part.item_ids)
    return replace(sheet, items=tuple(item for item in sheet.items if item.item_id in ids))


def _why_unfit(golden: GoldenReference, rule: CheckRule, minimum_items: int) -> str | None:
    """Why nothing could be decided on this set whatever was measured."""
    n = len(golden.item_ids)
    if rule.margin is None or not 0 < rule.margin < 1:
        given = "the policy gives no margin" if rule.margin is None else f"the policy's margin is {rule.margin}"
        return f"{given}; it must lie between 0 and 1"
    if n == 0:
        return "it has no items"
    if len(set(golden.item_ids)) < n:
        return "two of its items have the same id"
    if n < minimum_items:
        return (
            f"it has {count(n)} {'item' if n == 1 else 'items'} and the policy asks for at least {count(minimum_items)}"
        )
    if not 0 <= golden.chance_level < 1:
        return f"its chance level is {golden.chance_level}; it must lie between 0 and 1"
    return None


def _own_sheet(who: str, one: VariantEvidence, golden: GoldenReference) -> ScoreSheet | str:
    sheet = sheet_of(one, golden)
    if sheet is None:
        twice = any(found.golden_sha256 == golden.sha256 for found in one.sheets)
        return f"{who} has two score sheets for it" if twice else f"{who} was not scored on it"
    if sheet.variant != one.variant.name:
        return f"the scores of {who} are those of {sheet.variant}; a cache was reused"
    return sheet


def _invalid(subject: Subject, golden: GoldenReference) -> Failure | None:
    """The failure by which the variant showed NaN while it was scored on this set; None where the reference has no scores there either."""
    if sheet_of(subject.reference, golden) is None or sheet_of(subject.variant, golden) is not None:
        return None
    return next(
        (one for one in subject.variant.failures if one.numerical and one.stage == f"score {golden.name}"), None
    )


def _insensitive(pairs: Pairs, golden: GoldenReference, rule: CheckRule) -> str | None:
    """Why a loss could not be seen on this set: the reference itself is hardly better than guessing."""
    right = pairs.reference_answered_right
    assay = assay_sensitive(right=right, n=pairs.n, chance=golden.chance_level, margin=rule.margin or 0.0)
    if assay.sensitive:
        return None
    return (
        f"the reference is right on {percent(assay.accuracy, digits=1)} and guessing gives {percent(assay.chance, digits=1)}, "
        f"so a loss of {margin_points(rule.margin)} points could not be seen; use a set that the reference can do"
    )


# ---------------------------------------------------------------------------------------------- what is said


def _confidence(alpha: float) -> float:
    """1 - alpha without the noise of a float: 0.93 for 0.07."""
    return float(1 - exact(alpha))


def _sentence(decision: Decision, pairs: Pairs, question: QualityQuestion, power: float) -> str:
    found = f"{_found(decision, question)}{_absent(pairs)}{_looked_at(question)}"
    if decision.outcome == "inconclusive":
        return f"{found}. {_help(decision, pairs, question.margin, power)}"
    return (
        f"{found}; the loss is shown, within the margin"
        if decision.outcome == "pass" and decision.loss_shown
        else found
    )


def _found(decision: Decision, question: QualityQuestion) -> str:
    """The estimate, the bound that matters and the margin. Bounds have the margin's digits and round outward: they never contradict it."""
    margin = margin_points(question.margin)
    digits = len(margin.partition(".")[2])
    confidence = f"with {level_percent(_confidence(decision.level))} confidence"
    loss = points(decision.estimate, digits=digits)
    upper = points(decision.upper, towards="up", digits=digits)
    if decision.outcome == "fail":
        lower = points(decision.lower, towards="down", digits=digits)
        return f"loses {loss} points{question.where}, at least {lower} {confidence}; allowed {margin}"
    if decision.upper <= 0:
        gain, least = points(-decision.estimate, digits=digits), points(-decision.upper, towards="down", digits=digits)
        return f"gains {gain} points{question.where}, at least {least} {confidence}"
    if decision.estimate <= 0:
        return f"loses nothing that can be seen{question.where}: at most {upper} points {confidence}; allowed {margin}"
    return f"loses {loss} points{question.where}, at most {upper} {confidence}; allowed {margin}"


def _absent(pairs: Pairs) -> str:
    if not pairs.absent_variant:
        return ""
    items = (
        "1 item without an answer counts"
        if pairs.absent_variant == 1
        else f"{count(pairs.absent_variant)} items without an answer count"
    )
    return f"; {items} as lost"


def _looked_at(question: QualityQuestion) -> str:
    return "" if question.looked_at is None else f"; {count(question.looked_at)} slice{'s' if question.looked_at > 1 else ''} looked at"


def _help(decision: Decision, pairs: Pairs, margin: float, power: float) -> str:
    """What would resolve an inconclusive check: items at the loss seen, and at a true loss of zero."""
    if decision.reason is not None:
        return f"Nothing can be shown: {decision.reason}"
    none_lost = _items(decision, pairs, 0.0, margin, power)
    if none_lost is None:
        return "No feasible number of items would show it"
    if decision.estimate <= 0:
        return f"A true loss of 0 would need about {none_lost} items"
    as_seen = _items(decision, pairs, decision.estimate, margin, power)
    if as_seen is None:
        return f"More items will not help at the loss seen (a true loss of 0 would need about {none_lost})"
    return f"The loss seen would need about {as_seen} items, a true loss of 0 about {none_lost}"


def _items(decision: Decision, pairs: Pairs, true_loss: float, margin: float, power: float) -> str | None:
    """Items for the policy's power at the flip rate seen; where items share sources, as many more as those weigh less."""
    rate = (pairs.b + pairs.c) / pairs.n
    found = items_needed(flip_rate=rate, margin=margin, true_loss=true_loss, alpha=decision.level, power=power)
    if found is None:
        return None
    weight = 1.0 if pairs.clusters is None else clustered_loss(pairs.losses, pairs.clusters).design_effect
    return count(math.ceil(found * weight))
