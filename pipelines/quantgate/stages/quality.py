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
from quantgate.render.quantities import Towards, check_limit, count, level_percent, loss, percent, significant
from quantgate.stages.deciding import Decided, decide, known, p_pass, why_never
from quantgate.stages.early import Early, early_of, order, seed_of, why_not_stopped
from quantgate.stages.figures import why_weighted
from quantgate.stages.pairing import Pairs, pair, why_scales_doubtful
from quantgate.stages.subject import Subject, one_line, sheet_of
from quantgate.stats.clusters import clustered_loss
from quantgate.stats.graded import scores_needed
from quantgate.stats.inputs import exact
from quantgate.stats.noninferiority import assay_sensitive, assay_sensitive_scores
from quantgate.stats.power import items_needed
from quantgate.stats.sequential import anytime_p


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
    early: Early | None = None
    """How it may be looked at before its last item; None: once."""

    @property
    def measured(self) -> bool:
        """Whether there is something to decide on."""
        return self.pairs is not None

    def p_pass(self) -> float:
        """P-value of "the loss is at least the margin"; 1 where it was not measured."""
        return 1.0 if self.pairs is None else p_pass(self.pairs, self.margin, self.early)

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
        found = decide(self.pairs, self.margin, alpha, self.early)
        decision = found.decision
        return Check(
            name=self.name,
            tier=self.rule.tier,
            outcome=decision.outcome,
            because=_sentence(found, self.pairs, self, power),
            estimate=decision.estimate,
            lower=known(decision.lower),
            bound=known(decision.upper),
            margin=self.margin,
            level=_confidence(decision.level),
            p_value=decision.p_pass if self.early is None else self.p_pass(),
            n=self.pairs.n,
            b=self.pairs.b,
            c=self.pairs.c,
            scale=self.pairs.scale,
            items_used=None if self.early is None else found.items,
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
            estimate=self.pairs.estimate,
            margin=self.margin,
            n=self.pairs.n,
            b=self.pairs.b,
            c=self.pairs.c,
            scale=self.pairs.scale,
        )

    @property
    def margin(self) -> float:
        """The largest loss that is allowed; ``ValueError`` for a rule without one, which has no pairs either."""
        if self.rule.margin is None:
            raise ValueError("a quality rule has a margin")
        return self.rule.margin


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
    bare = QualityQuestion(rule=rule, name=f"quality/{golden.name}", where=where, pairs=None, why_not="")
    return _answered(replace(bare, early=_early(subject, golden, golden, rule)), found, subject, golden, golden.name)


def _slice_question(subject: Subject, golden: GoldenReference, name: str, rule: CheckRule) -> QualityQuestion:
    called = name if len(subject.golden_sets) == 1 else f"{name} of {golden.name}"
    bare = QualityQuestion(rule=rule, name=f"quality/{golden.name}/{name}", where=f" on {called}", pairs=None, why_not="")
    part = part_of(golden, name)
    if part is None:
        nothing = "this evidence does not say which items a slice has" if not golden.parts else f"{golden.name} has no slice '{name}'"
        return replace(bare, why_not=f"is not measured on {called}: {nothing}")
    bare = replace(bare, early=_early(subject, golden, part, rule))
    return _answered(bare, _pairs(subject, golden, part, rule), subject, golden, called)


def _early(subject: Subject, golden: GoldenReference, target: GoldenReference, rule: CheckRule) -> Early | None:
    return early_of(subject.policy, golden, target.item_ids, rule.minimum_items or subject.policy.minimum_items)


def _answered(
    bare: QualityQuestion, found: Pairs | str, subject: Subject, golden: GoldenReference, called: str
) -> QualityQuestion:
    """The question with its pairs, or with the reason why there are none."""
    if isinstance(found, Pairs):
        why_not = why_never(found, bare.early)
        return replace(bare, pairs=found) if why_not is None else replace(bare, why_not=f"is not measured on {called}: {why_not}")
    invalid = _invalid(subject, golden)
    if invalid is not None:
        why_not = f"is numerically invalid on {called}: {one_line(invalid.message)}"
        return replace(bare, why_not=why_not, without_pairs="fail")
    return replace(bare, why_not=f"is not measured on {called}: {found}")


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
    if (reason := why_scales_doubtful(reference, variant, rule, foreign=subject.variant.source == "file")) is not None:
        return reason
    if (reason := _why_stopped(reference, variant, golden, subject)) is not None:
        return reason
    asked = _asked(variant, golden, subject)
    pairs = _paired(reference, variant, asked, subject, rule)
    if target is not golden and not isinstance(pairs, str):
        among = set(target.item_ids)
        part = replace(target, item_ids=tuple(one for one in asked.item_ids if one in among))
        if len(part.item_ids) < (fewest := rule.minimum_items or subject.policy.minimum_items) or not part.item_ids:
            return f"{count(len(part.item_ids))} of its items were asked before scoring stopped, and the policy asks for at least {fewest}"
        pairs = _paired(reference, variant, part, subject, rule)
    return pairs if isinstance(pairs, str) else _insensitive(pairs, target, rule) or pairs


def _paired(
    reference: ScoreSheet, variant: ScoreSheet, target: GoldenReference, subject: Subject, rule: CheckRule
) -> Pairs | str:
    """The pairs of the items that ``target`` names, in its order; what the sheets hold of the set's other items is left out."""
    everything = {one for golden in subject.golden_sets if golden.sha256 == target.sha256 for one in golden.item_ids}
    others = everything - set(target.item_ids)
    if others:
        reference, variant = _without(reference, others), _without(variant, others)
    role, absent = subject.variant.variant.role, subject.policy.max_absent_reference
    return pair(reference, variant, target, role, absent, foreign=subject.variant.source == "file", rule=rule)


def _why_stopped(reference: ScoreSheet, variant: ScoreSheet, golden: GoldenReference, subject: Subject) -> str | None:
    """Why an early stop of either sheet cannot be used: the reference answers everything, and a control too."""
    if reference.stopped is not None:
        return "the scoring of the reference stopped early; it has to answer all items"
    if variant.stopped is not None and subject.variant.variant.role != "candidate":
        return "the scoring of a control stopped early; it has to answer all items"
    return why_not_stopped(variant, golden, subject.policy)


def _asked(variant: ScoreSheet, golden: GoldenReference, subject: Subject) -> GoldenReference:
    """The items that were asked; in the order of asking where the policy looks early."""
    if subject.policy.looks is None and subject.policy.sequential is None:
        return golden
    asked = order(golden, seed_of(subject.policy))
    return replace(golden, item_ids=asked if variant.stopped is None else asked[: variant.stopped.asked])


def _without(sheet: ScoreSheet, others: set[str]) -> ScoreSheet:
    """A sheet without items that are not looked at. One that the golden set does not know stays, so that it is seen."""
    return replace(sheet, items=tuple(item for item in sheet.items if item.item_id not in others))


def _why_unfit(golden: GoldenReference, rule: CheckRule, minimum_items: int) -> str | None:
    """Why nothing could be decided on this set whatever was measured."""
    n = len(golden.item_ids)
    most = math.inf if rule.scale == "unbounded" else 1.0
    if rule.margin is None or not 0 < rule.margin < most:
        given = "the policy gives no margin" if rule.margin is None else f"the policy's margin is {rule.margin}"
        return f"{given}; it must lie {'above 0' if rule.scale == 'unbounded' else 'between 0 and 1'}"
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
    """Why a loss could not be seen on this set: the reference itself is hardly better than guessing.

    Unbounded scores have no level of guessing; there only a reference that scores the same everywhere shows nothing.
    """
    scores, margin = pairs.reference_answered, rule.margin or 0.0
    if pairs.scale == "unbounded":
        return "the reference has the same score on every item, so a loss could not be seen" if len(set(scores)) < 2 else None
    if pairs.scale == "binary":
        right = pairs.reference_answered_right
        assay = assay_sensitive(right=right, n=pairs.n, chance=golden.chance_level, margin=margin)
        found = f"is right on {percent(assay.accuracy, digits=1)}"
    else:
        assay = assay_sensitive_scores(scores=scores, n=pairs.n, chance=golden.chance_level, margin=margin)
        found = f"scores {percent(assay.accuracy, digits=1)} of what could be had"
    if assay.sensitive:
        return None
    if assay.accuracy - assay.chance >= 2 * margin:
        return (
            f"with {pairs.n} items the reference's own score is not known well enough: it {found} and guessing gives "
            f"{percent(assay.chance, digits=1)}, so a loss of {check_limit('quality', margin)} could be missed; use more items"
        )
    return (
        f"the reference {found} and guessing gives {percent(assay.chance, digits=1)}, "
        f"so a loss of {check_limit('quality', margin)} could not be seen; use a set that the reference can do"
    )


# ---------------------------------------------------------------------------------------------- what is said


def _confidence(alpha: float) -> float:
    """1 - alpha without the noise of a float: 0.93 for 0.07."""
    return float(1 - exact(alpha))


def _sentence(found: Decided, pairs: Pairs, question: QualityQuestion, power: float) -> str:
    decision = found.decision
    said = f"{_found(found, pairs, question)}{_when(found, pairs, question)}{_absent(pairs)}{_looked_at(question)}"
    if decision.outcome == "inconclusive":
        return f"{said}. {_help(found, pairs, question, power)}"
    return f"{said}; the loss is shown, within the margin" if decision.outcome == "pass" and decision.loss_shown else said


def _found(found: Decided, pairs: Pairs, question: QualityQuestion) -> str:
    """The estimate, the bound that matters and the margin. Bounds have the margin's digits and round outward: they never contradict it."""
    decision, scale, where = found.decision, pairs.scale, question.where

    def said(value: float, towards: Towards = "nearest") -> str:
        return loss(value, scale, like=question.margin, towards=towards)

    margin = said(question.margin)
    allowed = f"allowed {margin}"
    confidence = f"with {level_percent(_confidence(decision.level))} confidence"
    unit = {"binary": " points", "unit": " points of score", "unbounded": " in score"}[scale]
    if decision.outcome == "fail":
        return f"loses {said(decision.estimate)}{unit}{where}, at least {said(decision.lower, 'down')} {confidence}; {allowed}"
    if not math.isfinite(decision.upper):
        change = "loses" if decision.estimate > 0 else "gains"
        return f"{change} {said(abs(decision.estimate))}{unit}{where}; {allowed}"
    if decision.upper <= 0:
        return f"gains {said(-decision.estimate)}{unit}{where}, at least {said(-decision.upper, 'down')} {confidence}"
    upper = said(decision.upper, "up")
    if decision.estimate <= 0:
        return f"loses nothing that can be seen{where}: at most {upper}{unit} {confidence}; {allowed}"
    return f"loses {said(decision.estimate)}{unit}{where}, at most {upper} {confidence}; {allowed}"


def _when(found: Decided, pairs: Pairs, question: QualityQuestion) -> str:
    """At which look, and after how many of its items, where the policy looks more than once."""
    if question.early is None:
        return ""
    if question.early.bet is not None:
        if found.decision.outcome == "inconclusive":
            return f"; {count(pairs.n)} items looked at"
        return f"; shown after {count(found.items)} items{_all_of(found, pairs)}"
    if found.look is None:
        return ""
    at = f"at {count(found.items)} of {count(question.early.sizes[-1])} items"
    return f"; look {found.look} of {_looks(question.early)}, {at}{_all_of(found, pairs)}"


def _looks(early: Early) -> str:
    """How many looks there are, and how many were planned."""
    if not early.left_out:
        return f"{len(early.sizes)}"
    are = "is" if early.left_out == 1 else "are"
    return f"{len(early.sizes)} ({early.left_out} of the {len(early.sizes) + early.left_out} planned {are} left out, with too few items)"


def _all_of(found: Decided, pairs: Pairs) -> str:
    """Where the evidence holds more items than were needed: the figures are those of all of them."""
    return "" if found.items == pairs.n else f", the figures are those of all {count(pairs.n)}"


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


def _help(found: Decided, pairs: Pairs, question: QualityQuestion, power: float) -> str:
    """What would resolve an inconclusive check: items at the loss seen, and at a true loss of zero."""
    decision = found.decision
    if decision.reason is not None:
        return f"Nothing can be shown: {decision.reason}"
    if question.early is not None and question.early.bet is not None:
        early = question.early
        p_value = anytime_p(pairs.losses, margin=question.margin, bet=early.bet or 0.0, fewest=early.fewest)
        reached, needed = significant(1 / p_value), significant(1 / decision.level)
        return f"The evidence against a loss of the margin reached {reached} and {needed} is needed; items that are added go on from there"
    none_lost = _items(found, pairs, 0.0, question.margin, power)
    if none_lost is None:
        return "No feasible number of items would show it"
    if decision.estimate <= 0:
        return f"A true loss of 0 would need about {none_lost} items"
    as_seen = _items(found, pairs, decision.estimate, question.margin, power)
    if as_seen is None:
        return f"More items will not help at the loss seen (a true loss of 0 would need about {none_lost})"
    return f"The loss seen would need about {as_seen} items, a true loss of 0 about {none_lost}"


def _items(found: Decided, pairs: Pairs, true_loss: float, margin: float, power: float) -> str | None:
    """Items for the policy's power at the flip rate seen, or for graded scores as they vary.

    Where items share sources, as many more as those weigh less.
    """
    level = found.decision.level
    if pairs.scale != "binary":
        number = scores_needed(
            losses=pairs.losses, clusters=pairs.clusters, margin=margin, true_loss=true_loss, alpha=level, power=power
        )  # fmt: skip
        return None if number is None else count(number)
    rate = (pairs.b + pairs.c) / pairs.n
    needed = items_needed(flip_rate=rate, margin=margin, true_loss=true_loss, alpha=level, power=power)
    if needed is None:
        return None
    weight = 1.0 if pairs.clusters is None else clustered_loss(pairs.losses, pairs.clusters).design_effect
    return count(math.ceil(needed * weight))
