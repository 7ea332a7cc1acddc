"""Speed: is it shown that a variant is slower than the reference by no more than a margin? Pure.

The loss is ln(reference / variant) of a rate and ln(variant / reference) of a time, so that more is worse in both; the margin is the
limit's own logarithm. Decided over quadruples at planned looks (``stats.speed``). Speed decides only where a policy asks: a variant that
frees memory and runs slower is what many people want.

The reference timed against itself (the identity control) gives the noise floor: half the width of the interval that quadruples of this
machine, on this afternoon, leave around no difference at all. A margin below it is told, and changes no outcome.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp, isfinite, log

from quantgate.records import MAIN, Check, CheckRule, Policy, SpeedPoint, SpeedRun, VariantEvidence
from quantgate.render.policy import Paragraph
from quantgate.render.quantities import Towards, check_limit, count, fixed, level_percent, percent
from quantgate.stages.against_roofs import against_roofs
from quantgate.stages.deciding import known
from quantgate.stages.quadruples import KINDS, check_name, losses, other_machine, point_of
from quantgate.stages.subject import Subject
from quantgate.stats.inputs import exact
from quantgate.stats.noninferiority import Decision
from quantgate.stats.speed import (
    LEAST,
    SMALLEST_DEVIATION,
    asked_for,
    decide,
    deviation,
    interval,
    look_sizes,
    looks,
    units_needed,
)

OLD_LOOKS = look_sizes(32)
"""For evidence that does not say which looks were planned."""
EXPLAINED_CVS = (0.01, 0.02, 0.03, 0.05, 0.10)
HOPELESS_FROM, HOPELESS_TIMES = 6, 3
"""From so many quadruples on, a check that would need so many times the planned ones is not timed any further."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeedQuestion:
    """A speed rule on one variant: a log ratio a quadruple, or why there are none."""

    rule: CheckRule
    losses: tuple[float, ...] = ()
    why_not: str = ""
    sizes: tuple[int, ...] = OLD_LOOKS
    """The planned looks."""
    floor: float | None = None
    """Half width of the interval of the reference against itself; None without an identity control that was timed there."""
    looked_at: int | None = None
    batches: str = ""
    """Which batches the ceilings are; empty elsewhere."""
    pairs: int = 0
    """How many pairs of processes timed them; what differs from pair to pair is in the interval only where each quadruple had its own."""

    @property
    def name(self) -> str:
        """The check's name."""
        return check_name(self.rule)

    @property
    def measured(self) -> bool:
        """Whether there is something to decide on."""
        return bool(self.losses)

    @property
    def margin(self) -> float:
        """The largest loss allowed, as a logarithm; negative where a gain is asked for. ``ValueError`` for a rule without a limit."""
        if (found := margin_of(self.rule)) is None:
            raise ValueError("a speed rule has a limit")
        return found

    def p_pass(self) -> float:
        """P-value of "the loss is at least the margin", over all looks; 1 where it was not measured."""
        return self._decided(0.05).p_pass if self.measured else 1.0

    def check(self, alpha: float, power: float) -> Check:
        """The question decided at one-sided level ``alpha`` over all looks together."""
        if not self.measured:
            because = f"is not measured: {self.why_not}"
            return Check(name=self.name, tier=self.rule.tier, outcome="not_measured", because=because, margin=margin_of(self.rule))
        found = self._decided(alpha)
        return Check(
            name=self.name,
            tier=self.rule.tier,
            outcome=found.outcome,
            because=_sentence(found, self, power),
            estimate=found.estimate,
            lower=known(found.lower),
            bound=known(found.upper),
            margin=self.margin,
            level=float(1 - exact(alpha)),
            p_value=found.p_pass,
            n=len(self.losses),
        )

    def untested(self, because: str) -> Check:
        """The question left open although there is evidence: a candidate before this one stopped the sequence."""
        if not self.measured:
            return self.check(0.5, 0.5)
        estimate = sum(self.losses) / len(self.losses)
        return Check(
            name=self.name, tier=self.rule.tier, outcome="inconclusive", because=because, estimate=estimate, margin=self.margin
        )

    def _decided(self, alpha: float) -> Decision:
        return decide(self.losses, margin=self.margin, alpha=alpha, sizes=self.sizes)


def margin_of(rule: CheckRule) -> float | None:
    """The limit as a loss: -ln(minimum) of a rate, ln(maximum) of a time; None where the rule gives none that is a number above 0."""
    limit = rule.minimum if KINDS[rule.kind].sign < 0 else rule.maximum
    if limit is None or not isfinite(limit) or limit <= 0:
        return None
    return KINDS[rule.kind].sign * log(limit)


def rules_of(policy: Policy) -> tuple[CheckRule, ...]:
    """What a policy asks about speed, advisory rules included."""
    return tuple(rule for rule in policy.checks if rule.kind in KINDS)


def speed_questions(subject: Subject) -> tuple[SpeedQuestion, ...]:
    """One question a speed rule; what cannot be looked at stays as not measured."""
    return tuple(_question(rule, subject) for rule in rules_of(subject.policy))


def _question(rule: CheckRule, subject: Subject) -> SpeedQuestion:
    if margin_of(rule) is None:
        return SpeedQuestion(rule=rule, why_not="the policy gives no limit for it")
    run, point = subject.variant.speed, point_of(rule, subject.variant, subject.reference)
    if run is None:
        return SpeedQuestion(rule=rule, why_not="its speed was not measured")
    if not run.complete:
        return SpeedQuestion(rule=rule, why_not="its timing did not come to its end")
    if point is None:
        return SpeedQuestion(rule=rule, why_not="its batch ceiling or the reference's is not confirmed")
    if (reason := other_machine(subject.variant, subject.reference)) is not None:
        return SpeedQuestion(rule=rule, why_not=reason)
    if isinstance(found := losses(run, point, rule.kind), str):
        return SpeedQuestion(rule=rule, why_not=found)
    if (fault := _over_roof(point, subject)) is not None:
        return SpeedQuestion(rule=rule, why_not=fault)
    batches = f" (batch {point.batch_size}, the reference's {point.reference_batch})" if rule.at == "ceiling" else ""
    pairs = len({one.pair for one in run.at(point)})
    return SpeedQuestion(
        rule=rule, losses=found, sizes=run.looks or OLD_LOOKS, floor=_floor(rule, subject), batches=batches, pairs=pairs
    )


def _over_roof(point: SpeedPoint, subject: Subject) -> str | None:
    """Why a side's times are a measuring fault; a run refuses them, and stored ones decide nothing either."""
    sides = ((subject.variant, point.batch_size), (subject.reference, point.reference_batch))
    for one, batch in sides:
        for row in against_roofs(one, subject.roofs):
            if row.fault is not None and (row.workload, row.batch_size) == (point.workload, batch):
                return f"{one.variant.name} at batch {count(row.batch_size)}: {row.fault}"
    return None


def resolved(run: SpeedRun, point: SpeedPoint, rules: tuple[CheckRule, ...], level: float) -> bool:
    """Whether more quadruples of a point would change nothing: each rule on it is shown, one way or the other, or cannot be decided.

    ``level``: the strictest that a rule may be decided at. Call it at a planned look only.
    """
    for rule in rules:
        found, margin = losses(run, point, rule.kind), margin_of(rule)
        if isinstance(found, str) or margin is None:
            continue
        if decide(found, margin=margin, alpha=level, sizes=run.looks).outcome == "inconclusive":
            return False
    return True


def hopeless(run: SpeedRun, point: SpeedPoint, rules: tuple[CheckRule, ...], level: float) -> bool:
    """Whether all open rules vary so much that even a variant without a loss would need several times the planned quadruples.

    It ends timing as inconclusive, so it can make nothing pass and nothing fail. Not asked before the second look: four quadruples say too
    little of how much they vary.
    """
    if len(run.at(point)) < HOPELESS_FROM:
        return False
    still_open = [rule for rule in rules if not resolved(run, point, (rule,), level)]
    return all(_varies_too_much(losses(run, point, rule.kind), margin_of(rule), run, level) for rule in still_open)


def _varies_too_much(found: tuple[float, ...] | str, margin: float | None, run: SpeedRun, level: float) -> bool:
    spread = None if isinstance(found, str) else deviation(found)
    if isinstance(found, str) or margin is None or not spread:
        return False
    gain = min(0.0, sum(found) / len(found)) if margin <= 0 else 0.0
    needed = units_needed(deviation=spread, margin=margin, true_loss=gain, alpha=level)
    return needed is None or needed > HOPELESS_TIMES * run.looks[-1]


def speed_needs(policy: Policy) -> Iterator[Paragraph]:
    """For each speed rule with a margin to lose: how many quadruples it is expected to take, by how much single runs vary."""
    for rule in rules_of(policy):
        if (margin := margin_of(rule)) is None or margin <= 0:
            continue
        needed = [asked_for(cv=cv, margin=margin, alpha=policy.alpha, power=policy.power) for cv in EXPLAINED_CVS]
        lines = [
            f"runs vary by {percent(cv)}: {'no feasible number' if one is None else count(max(LEAST, one))}"
            for cv, one in zip(EXPLAINED_CVS, needed, strict=True)
        ]
        yield Paragraph(
            sentence=f"{check_name(rule)}: quadruples after which a variant that loses nothing passes with probability {policy.power:g}:",
            lines=tuple(lines),
        )


# ---------------------------------------------------------------------------------------------- the noise floor


def _floor(rule: CheckRule, subject: Subject) -> float | None:
    """Over the identity controls that were timed there, the widest."""
    found = [_half_width(rule, one, subject) for one in subject.identities]
    return max((one for one in found if one is not None), default=None)


def _half_width(rule: CheckRule, one: VariantEvidence, subject: Subject) -> float | None:
    point = point_of(rule, one, subject.reference)
    if one.speed is None or point is None or isinstance(found := losses(one.speed, point, rule.kind), str):
        return None
    bounds = interval(found, alpha=subject.policy.alpha)
    return None if bounds is None else (bounds.upper - bounds.lower) / 2


def floor_sentences(identity: VariantEvidence, reference: VariantEvidence, policy: Policy) -> Iterator[str]:
    """What the reference does against itself, for each speed rule it was timed for."""
    for rule in rules_of(policy):
        point = point_of(rule, identity, reference)
        if identity.speed is None or point is None or isinstance(found := losses(identity.speed, point, rule.kind), str):
            continue
        bounds = interval(found, alpha=policy.alpha)
        if bounds is None:
            continue
        sign, centre = KINDS[rule.kind].sign, sum(found) / len(found)
        low, high = sorted((exp(sign * bounds.lower), exp(sign * bounds.upper)))
        yield (
            f"Speed noise floor at {point.at}: {identity.variant.name}, the reference timed against itself, has "
            f"{fixed(exp(sign * centre), 3)} times {KINDS[rule.kind].words}, between {fixed(low, 3, towards='down')} and "
            f"{fixed(high, 3, towards='up')} with {level_percent(1 - policy.alpha)} confidence on each side, over "
            f"{count(len(found))} quadruples."
        )


# ---------------------------------------------------------------------------------------------- in words


def _sentence(found: Decision, question: SpeedQuestion, power: float) -> str:
    rule, kind = question.rule, KINDS[question.rule.kind]
    at = f"at its own ceiling{question.batches}" if rule.at == "ceiling" else f"at batch {rule.at}"
    where = at if rule.workload == MAIN else f"{at} of workload {rule.workload}"
    head = f"has {_times(found.estimate, kind.sign)} times {kind.words} {where}"
    limit = rule.minimum if kind.sign < 0 else rule.maximum
    asked = f"{'at least' if kind.sign < 0 else 'at most'} {check_limit('', limit)} is {'asked for' if kind.sign < 0 else 'allowed'}"
    number = len(question.losses)
    over = f"over {count(number)} quadruple{'' if number == 1 else 's'}{_spread(question)}{_of_pairs(question)}"
    return f"{head}, {_bound(found, kind.sign, question)} {over}; {asked}{_below_floor(question)}{_more(found, question, power)}"


def _bound(found: Decision, sign: int, question: SpeedQuestion) -> str:
    """The bound that matters: the side on which something was shown, else the one that stands in the way of a pass."""
    if found.reason is not None:
        return f"and nothing can be shown: {found.reason},"
    worse = found.outcome != "fail"
    value = found.upper if worse else found.lower
    at_most = (sign > 0) == worse
    towards: Towards = "up" if at_most else "down"
    confidence = level_percent(float(1 - exact(found.level)))
    return f"{'at most' if at_most else 'at least'} {_times(value, sign, towards)} with {confidence} confidence"


def _times(loss: float, sign: int, towards: Towards = "nearest") -> str:
    return fixed(exp(sign * loss) if abs(loss) < 700 else None, 3, towards=towards)


def _spread(question: SpeedQuestion) -> str:
    found = deviation(question.losses)
    return "" if found is None else f" (CV {percent(found, digits=1)})"


def _of_pairs(question: SpeedQuestion) -> str:
    """Processes of one model differ for as long as they live: what an interval over quadruples of the same ones leaves out."""
    if question.pairs >= len(question.losses):
        return ""
    return f" of {count(question.pairs)} pair{'' if question.pairs == 1 else 's'} of processes, whose own difference it does not contain"


def _below_floor(question: SpeedQuestion) -> str:
    if question.floor is None or abs(question.margin) >= question.floor:
        return ""
    return f". The margin lies below the run's own noise floor of {percent(question.floor, digits=1, towards='up')}"


def _more(found: Decision, question: SpeedQuestion, power: float) -> str:
    """How many quadruples would show it: where nothing is lost, and at the loss seen."""
    spread = deviation(question.losses)
    if found.outcome != "inconclusive" or spread is None:
        return ""
    level = looks(question.sizes, alpha=found.level)[-1].level
    seen = _wanted(question, spread, max(0.0, found.estimate) if question.margin > 0 else found.estimate, (level, power))
    if question.margin <= 0:
        return f". At the ratio seen {seen} would show it"
    return f". Without a loss {_wanted(question, spread, 0.0, (level, power))} would show it, at the ratio seen {seen}"


def _wanted(question: SpeedQuestion, spread: float, loss: float, by: tuple[float, float]) -> str:
    """Quadruples for that power at the level of the last look, the strictest."""
    level, power = by
    found = units_needed(
        deviation=max(spread, SMALLEST_DEVIATION), margin=question.margin, true_loss=loss, alpha=level, power=power
    )
    return "no feasible number" if found is None else f"about {count(max(found, question.sizes[0]))} quadruples"
