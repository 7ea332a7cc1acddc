"""The gate decides whether it is shown that a variant loses no more than the margin.

Pure: no I/O, no clock, no randomness. The same evidence and policy give the same decision to the byte, so a stored run can be judged again.
"No significant difference" is another statement and never a pass; what is missing, broken or not comparable never passes either.

Several candidates that compete for one promotion are several chances to pass: under ``require: any`` each is tested at its level of Holm's
step-down over all candidates of the run (or as many as the policy counts), whether or not they were measured; or one after the other in
the order that the policy fixed, until one is no pass. Under ``require: all`` no correction is needed.

A waiver keeps a fail or inconclusive check of one variant from blocking, until its day, and changes neither the check's outcome nor what
the variant's other checks must show. What was not measured is never waived, nor is what shows that the variant ran and is what it says.

Where a run has a baseline, its reference is held against the pinned one first: if that moved, or cannot be compared, nothing is measured,
and no candidate is said to have lost what the reference may have gained.

A ``because`` is said after the name of what it is about: "int8 " + "loses 2.9 points, ...". It has no full stop of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from quantgate.errors import MeasureError
from quantgate.records import NEVER_WAIVED, Check, Decision, Evidence, Outcome, Policy, VariantEvidence, Verdict
from quantgate.render.quantities import outcome_word
from quantgate.stages import baseline
from quantgate.stages.canary import canary, left_out
from quantgate.stages.checks import budget, demands, distinct, finite, plain_checks, ran, served, unchanged, unquantized
from quantgate.stages.choosing import choose
from quantgate.stages.perplexity import PerplexityQuestion, perplexity_questions
from quantgate.stages.quality import QualityQuestion, quality_questions
from quantgate.stages.speed import SpeedQuestion, speed_questions
from quantgate.stages.subject import Subject, one_line
from quantgate.stats.multiplicity import fixed_sequence, holm, intersection_p

EXIT_CODES: Mapping[Outcome, int] = {"pass": 0, "fail": 1, "inconclusive": 3, "not_measured": 4}
Question: TypeAlias = QualityQuestion | PerplexityQuestion | SpeedQuestion
_QUALITY = ("quality", "perplexity_ratio")
_WORST_FIRST: tuple[Outcome, ...] = ("not_measured", "fail", "inconclusive", "pass")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Test:
    """How a candidate's quality is tested: at a one-sided level, or not at all and why."""

    level: float
    untested: str = ""


def judge(
    evidence: Evidence, policy: Policy, *, policy_sha256: str, evidence_sha256: str, created_at: str | None = None
) -> Decision:
    """The decision on a run that was begun at ``created_at`` (ISO 8601): a waiver must hold on that day; without one none does.

    Raises ``MeasureError``, hence exit code 4, for evidence without exactly one reference or with two variants of one name, and
    ``ValueError`` for a level outside (0, 1): of these nothing can be said, not even about one variant.
    """
    reference = _reference(evidence)
    pinned = baseline.Pinned(checks=baseline.checks(evidence))
    subjects = {
        one.variant.name: _pinned(_subject(one, reference, evidence, policy, created_at), pinned) for one in evidence.variants
    }
    tests = _tests(subjects, policy)
    verdicts = tuple(_verdict(one, tests) for one in subjects.values())
    outcome, because = _outcome(verdicts, policy, pinned)
    chosen, how = choose(verdicts, evidence, policy) if outcome == "pass" else (None, "")
    return Decision(
        outcome=outcome,
        verdicts=verdicts,
        chosen=chosen,
        because=because if chosen is None else f"{chosen} {_waived(chosen, verdicts, because)}{how}",
        policy_sha256=policy_sha256,
        evidence_sha256=evidence_sha256,
    )


def worst(outcomes: Sequence[Outcome]) -> Outcome:
    """Not measured, then fail, then inconclusive, then pass; nothing at all is not measured."""
    return next((one for one in _WORST_FIRST if one in outcomes), "not_measured")


def _reference(evidence: Evidence) -> VariantEvidence:
    twice = [name for name, times in Counter(one.variant.name for one in evidence.variants).items() if times > 1]
    if twice:
        raise MeasureError(f"the evidence holds two variants named {twice[0]}; each needs a name of its own")
    found = [one for one in evidence.variants if one.variant.role == "reference"]
    if len(found) != 1:
        raise MeasureError(f"the evidence must hold exactly one reference, found {len(found)}")
    return found[0]


def _subject(
    one: VariantEvidence, reference: VariantEvidence, evidence: Evidence, policy: Policy, created_at: str | None
) -> Subject:
    return Subject(
        variant=one,
        reference=reference,
        others=tuple(other for other in evidence.variants if other is not one and other.variant.role != "identity"),
        identities=tuple(other for other in evidence.variants if other.variant.role == "identity"),
        golden_sets=evidence.golden_sets,
        policy=policy,
        waivers=tuple(
            waiver for waiver in policy.waivers if waiver.variant == one.variant.name and waiver.holds(created_at)
        ),
        batching=tuple(run for run in evidence.batching if run.variant == one.variant.name),
        speculation=evidence.speculation,
        price=evidence.price,
        budget=evidence.budget,
        roofs=evidence.roofs,
    )


def _pinned(subject: Subject, pinned: baseline.Pinned) -> Subject:
    """With what the baseline says of the reference, or of a candidate that would be compared with it. Controls test the gate alone."""
    match subject.variant.variant.role:
        case "reference":
            return replace(subject, baseline=pinned.checks)
        case "candidate":
            return replace(subject, baseline=tuple(pinned.of_variant()))
        case _:
            return subject


# ---------------------------------------------------------------------------------------------- levels


def _tests(subjects: Mapping[str, Subject], policy: Policy) -> Mapping[str, _Test]:
    """How each candidate is tested. A candidate's p-value is the largest of its required checks'."""
    candidates = {name: one for name, one in subjects.items() if one.variant.variant.role == "candidate"}
    if policy.require == "all" or policy.correction == "none" or not candidates:
        return dict.fromkeys(candidates, _Test(level=policy.alpha))
    if policy.correction == "fixed_sequence":
        return _in_order(candidates, policy)
    p_values = {name: _p_value(one) for name, one in candidates.items()}
    steps = holm(p_values, alpha=policy.alpha, k=policy.family(len(candidates)))
    return {step.name: _Test(level=step.bound_level) for step in steps}


def _in_order(candidates: Mapping[str, Subject], policy: Policy) -> Mapping[str, _Test]:
    """One after the other at alpha; anything but a pass stops the sequence: a waiver, or a candidate that the run does not have, too."""
    p_values = [(name, _unwaived_p(candidates.get(name))) for name in policy.order]
    steps = fixed_sequence(p_values, alpha=policy.alpha)
    stop = next((step.name for step in steps if step.tested and not step.rejected), "")
    tested = {step.name for step in steps if step.tested}
    behind = f"is not tested: {stop} stands before it in the policy's order and is not a pass"
    why = {name: behind if name in policy.order else "is not tested: the policy's order does not name it" for name in candidates}
    return {name: _Test(level=policy.alpha, untested="" if name in tested else why[name]) for name in candidates}


def _unwaived_p(subject: Subject | None) -> float | None:
    return None if subject is None else _p_value(replace(subject, waivers=()))


def _p_value(subject: Subject) -> float:
    """1 for a candidate that a plain check keeps from passing: it takes its chance with it and leaves none to the others.

    A waived check cannot keep it from passing, so its p-value is that of the rest; with nothing left to show it is 1 as well.
    """
    plain = [*_always(subject), *(check for check in plain_checks(subject) if check.tier != "advisory")]
    if worst([check.outcome for check in plain if not _waivers_of(subject, check)]) != "pass":
        return 1.0
    required = [question for question in _questions(subject) if question.rule.tier != "advisory"]
    waived = {waiver.check for waiver in subject.waivers}
    rest = [question.p_pass() for question in required if question.name not in waived or not question.measured]
    return intersection_p(rest) if rest or required else 0.0


# ---------------------------------------------------------------------------------------------- verdicts


def _verdict(subject: Subject, tests: Mapping[str, _Test]) -> Verdict:
    match subject.variant.variant.role:
        case "reference":
            return _of_reference(subject)
        case "candidate":
            return _of_candidate(subject, tests[subject.variant.variant.name])
        case "identity":
            return _of_identity(subject)
        case _:
            return _of_known_bad(subject)


def _always(subject: Subject) -> list[Check]:
    always = [ran(subject), finite(subject), distinct(subject), *canary(subject), *served(subject), *demands(subject)]
    return [*subject.baseline, *always]


def _of_reference(subject: Subject) -> Verdict:
    """The reference is measured or it is not; numbers that are not finite are no evidence here, and no fault of a variant."""
    checks = (ran(subject), finite(subject), unquantized(subject), *subject.baseline)
    outcome: Outcome = "pass" if all(check.outcome == "pass" for check in checks) else "not_measured"
    because = "is the reference" if outcome == "pass" else _why(checks, outcome)
    return Verdict(
        variant=subject.variant.variant.name, role="reference", outcome=outcome, checks=checks, because=because
    )


def _of_candidate(subject: Subject, test: _Test) -> Verdict:
    quality = [_answer(question, test, subject.policy) for question in _questions(subject)]
    asked = left_out((*_always(subject), *quality, *plain_checks(subject), *budget(subject)), subject)
    checks = tuple(replace(check, waived_by=_waivers_of(subject, check) or None) for check in asked)
    required = [check for check in checks if check.tier != "advisory"]
    outcome = worst([check.outcome for check in required if check.waived_by is None])
    because = _why(required, outcome)
    if outcome == "pass" and (waived := [check for check in required if check.waived_by is not None]):
        because = _with_waivers(waived, [check for check in required if check.waived_by is None])
    return Verdict(
        variant=subject.variant.variant.name, role="candidate", outcome=outcome, checks=checks, because=because
    )


def _questions(subject: Subject) -> tuple[Question, ...]:
    """Everything that is decided by a test: losses of scores, ratios of perplexities, ratios of speeds."""
    return (*_quality_questions(subject), *speed_questions(subject))


def _quality_questions(subject: Subject) -> tuple[Question, ...]:
    return (*quality_questions(subject), *perplexity_questions(subject))


def _answer(question: Question, test: _Test, policy: Policy) -> Check:
    """Advisory checks are no chance to pass: they are shown at alpha, advisory slices at alpha over their number."""
    if question.rule.tier == "advisory":
        return question.check(policy.alpha / (question.looked_at or 1), policy.power)
    return question.untested(test.untested) if test.untested else question.check(test.level, policy.power)


# ---------------------------------------------------------------------------------------------- waivers


def _waivers_of(subject: Subject, check: Check) -> str:
    """Who keeps this check from blocking, why and until when; empty where it does not block or cannot be waived."""
    if check.tier == "advisory" or check.outcome not in ("fail", "inconclusive") or check.name in NEVER_WAIVED:
        return ""
    held = [one for one in subject.waivers if one.check == check.name]
    return "; ".join(f"{one.owner}: {one_line(one.reason)}, until {one.expires}" for one in held)


def _with_waivers(waived: Sequence[Check], rest: Sequence[Check]) -> str:
    """Each waiver with what it waives, then what was shown in spite of them."""
    each = [f"passes with a waiver for {check.name} by {check.waived_by}; it {check.because}" for check in waived]
    shown = [check for check in rest if check.bound is not None and check.margin is not None]
    return ". It ".join([*each, *([_tightest(shown)] if shown else [])])


def _of_identity(subject: Subject) -> Verdict:
    """The reference again must pass every required golden set: a gate that blocks it blocks on noise."""
    checks = (ran(subject), finite(subject), unchanged(subject), *_required_quality(subject))
    outcome = worst([check.outcome for check in checks])
    must = f"must pass every required golden set{_and_slice(subject.policy)}"
    return _of_control(subject, checks, outcome, ok=outcome == "pass", must=must)


def _of_known_bad(subject: Subject) -> Verdict:
    """A model known to be bad must be shown to fail on every required golden set, not merely not pass: else the gate is decoration."""
    quality = _required_quality(subject)
    checks = (ran(subject), finite(subject), *quality)
    measured = "not_measured" not in [check.outcome for check in checks]
    ok = measured and all(check.outcome == "fail" for check in quality)
    return _of_control(
        subject,
        checks,
        worst([check.outcome for check in checks]),
        ok=ok,
        must=f"must fail on every required golden set{_and_slice(subject.policy)}",
    )


def _and_slice(policy: Policy) -> str:
    return " and slice" if any(rule.slices for rule in policy.checks if rule.tier == "required") else ""


def _required_quality(subject: Subject) -> list[Check]:
    """At alpha: a control is no chance to pass. Without a required quality check a control tests nothing, which is not measured."""
    questions = [question for question in _quality_questions(subject) if question.rule.tier != "advisory"]
    if not questions:
        because = "tests nothing: the policy has no required quality check"
        return [Check(name="quality", tier="required", outcome="not_measured", because=because)]
    return [question.check(subject.policy.alpha, subject.policy.power) for question in questions]


def _of_control(subject: Subject, checks: tuple[Check, ...], outcome: Outcome, *, ok: bool, must: str) -> Verdict:
    variant = subject.variant.variant
    if ok:
        because = f"is a control and came out as it must: it {_why(checks, outcome)}"
    elif outcome == "fail" and variant.role == "known_bad":
        because = f"is a control that {must} and does not: it {_why(_not_blocking(checks), 'inconclusive')}"
    else:
        wrong = _not_blocking(checks) if variant.role == "known_bad" and outcome != "not_measured" else checks
        because = f"is a control that {must} and came out as {outcome_word(outcome).lower()}: it {_why(wrong, outcome)}"
    return Verdict(
        variant=variant.name, role=variant.role, outcome=outcome, checks=checks, because=because, control_ok=ok
    )


def _not_blocking(checks: Sequence[Check]) -> list[Check]:
    return [check for check in checks if check.name.split("/")[0] in _QUALITY and check.outcome != "fail"]


def _why(checks: Sequence[Check], outcome: Outcome) -> str:
    """The sentences that decided: all that did not pass, or the tightest quality check of a pass.

    Where the variant did not run, that says it all; only a fail that was shown is worth saying beside it.
    """
    if outcome == "pass":
        return _tightest(checks)
    said = [check for check in checks if check.outcome != "pass"] or checks
    if lost := [check for check in said if check.name == "ran"]:
        said = [*lost, *(check for check in said if check.outcome == "fail")]
    return ". It ".join(dict.fromkeys(check.because for check in said))


def _tightest(checks: Sequence[Check]) -> str:
    """The check with the least room; where scores have units of their own, as a share of its margin (a ratio's is what it exceeds 1 by)."""
    decisive = [check for check in checks if check.name.split("/")[0] in _QUALITY]
    known = [(check.bound, check.margin, check) for check in decisive if check.bound is not None and check.margin is not None]
    alike = all(check.scale != "unbounded" and check.name.split("/")[0] == "quality" for _, _, check in known)
    quality = [
        (bound - margin if alike else (bound - margin) / (margin - _unchanged(check) or 1.0), check) for bound, margin, check in known
    ]
    return max(quality, key=lambda one: one[0])[1].because if quality else "meets every required check"


def _unchanged(check: Check) -> float:
    """What no change is in a check's figures."""
    return 1.0 if check.name.startswith("perplexity_ratio") else 0.0


# ---------------------------------------------------------------------------------------------- the run


def _outcome(verdicts: Sequence[Verdict], policy: Policy, pinned: baseline.Pinned) -> tuple[Outcome, str]:
    """A reference or control that is wrong makes the run not measured, whatever the candidates are."""
    reference = next(one for one in verdicts if one.role == "reference")
    if reference.outcome != "pass":
        return "not_measured", f"Promotion is blocked: {pinned.headline(reference)}the reference {reference.because}"
    if wrong := [one for one in verdicts if one.role in ("identity", "known_bad") and one.control_ok is not True]:
        return "not_measured", f"Promotion is blocked: {wrong[0].variant} {wrong[0].because}"
    if policy.require_controls and not any(one.role == "known_bad" for one in verdicts):
        return "not_measured", "Promotion is blocked: the policy requires a known-bad control and the run has none"
    candidates = [one for one in verdicts if one.role == "candidate"]
    outcomes = [one.outcome for one in candidates]
    if policy.require == "any" and "pass" in outcomes:
        return "pass", "passes and goes forward"
    outcome = worst(outcomes)
    if outcome == "pass":
        return "pass", "goes forward: every candidate passes" if len(candidates) > 1 else "passes and goes forward"
    return outcome, _blocked(candidates, policy)


def _waived(chosen: str, verdicts: Sequence[Verdict], because: str) -> str:
    """What is said of the chosen one, where it or, under ``require: all``, another one passes by a waiver only."""
    passing = [one for one in verdicts if one.role == "candidate" and one.outcome == "pass"]
    names = [one.variant for one in passing if any(check.waived_by for check in one.checks)]
    if because.startswith("passes"):
        return because.replace("passes", "passes with a waiver", 1) if chosen in names else because
    return f"{because} ({', '.join(names)} with a waiver)" if names else because


def _blocked(candidates: Sequence[Verdict], policy: Policy) -> str:
    if not candidates:
        return "Promotion is blocked: the run has no candidate"
    rule = "no candidate passes" if policy.require == "any" or len(candidates) == 1 else "not every candidate passes"
    each = ", ".join(
        f"{one.variant} {outcome_word(one.outcome).lower()}" for one in candidates if one.outcome != "pass"
    )
    return f"Promotion is blocked: {rule} ({each})"
