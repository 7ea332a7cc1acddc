"""The gate decides whether it is shown that a variant loses no more than the margin.

Pure: no I/O, no clock, no randomness. The same evidence and policy give the same decision to the byte, so a stored run can be judged again.
"No significant difference" is another statement and never a pass; what is missing, broken or not comparable never passes either.

Several candidates that compete for one promotion are several chances to pass: under ``require: any`` each is tested at its level of Holm's
step-down over all candidates of the run, whether or not they were measured. Under ``require: all`` no correction is needed.

A ``because`` is said after the name of what it is about: "int8 " + "loses 2.9 points, ...". It has no full stop of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from quantgate.errors import MeasureError
from quantgate.records import Check, Decision, Evidence, Outcome, Policy, VariantEvidence, Verdict
from quantgate.render.quantities import outcome_word
from quantgate.stages.checks import demands, distinct, finite, plain_checks, ran, served, unchanged, unquantized
from quantgate.stages.quality import QualityQuestion, quality_questions
from quantgate.stages.subject import Subject
from quantgate.stats.multiplicity import holm, intersection_p

EXIT_CODES: Mapping[Outcome, int] = {"pass": 0, "fail": 1, "inconclusive": 3, "not_measured": 4}
_WORST_FIRST: tuple[Outcome, ...] = ("not_measured", "fail", "inconclusive", "pass")


def judge(evidence: Evidence, policy: Policy, *, policy_sha256: str, evidence_sha256: str) -> Decision:
    """The decision on a run.

    Raises ``MeasureError``, hence exit code 4, for evidence without exactly one reference or with two variants of one name, and
    ``ValueError`` for a level outside (0, 1): of these nothing can be said, not even about one variant.
    """
    reference = _reference(evidence)
    subjects = {one.variant.name: _subject(one, reference, evidence, policy) for one in evidence.variants}
    levels = _levels(subjects, policy)
    verdicts = tuple(_verdict(one, levels) for one in subjects.values())
    outcome, because = _outcome(verdicts, policy)
    chosen = _choose(verdicts, evidence, policy) if outcome == "pass" else None
    return Decision(
        outcome=outcome,
        verdicts=verdicts,
        chosen=chosen,
        because=because if chosen is None else f"{chosen} {because}",
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


def _subject(one: VariantEvidence, reference: VariantEvidence, evidence: Evidence, policy: Policy) -> Subject:
    others = tuple(other for other in evidence.variants if other is not one and other.variant.role != "identity")
    return Subject(variant=one, reference=reference, others=others, golden_sets=evidence.golden_sets, policy=policy)


# ---------------------------------------------------------------------------------------------- levels


def _levels(subjects: Mapping[str, Subject], policy: Policy) -> Mapping[str, float]:
    """One-sided level of each candidate. A candidate's p-value is the largest of its required checks'."""
    candidates = {name: one for name, one in subjects.items() if one.variant.variant.role == "candidate"}
    if policy.require == "all" or policy.correction == "none" or not candidates:
        return dict.fromkeys(candidates, policy.alpha)
    steps = holm({name: _p_value(one) for name, one in candidates.items()}, alpha=policy.alpha, k=len(candidates))
    return {step.name: step.bound_level for step in steps}


def _p_value(subject: Subject) -> float:
    """1 for a candidate that a plain check keeps from passing: it takes its chance with it and leaves none to the others."""
    plain = [*_always(subject), *(check for check in plain_checks(subject) if check.tier != "advisory")]
    if worst([check.outcome for check in plain]) != "pass":
        return 1.0
    required = [question.p_pass() for question in quality_questions(subject) if question.rule.tier != "advisory"]
    return intersection_p(required) if required else 0.0


# ---------------------------------------------------------------------------------------------- verdicts


def _verdict(subject: Subject, levels: Mapping[str, float]) -> Verdict:
    match subject.variant.variant.role:
        case "reference":
            return _of_reference(subject)
        case "candidate":
            return _of_candidate(subject, levels[subject.variant.variant.name])
        case "identity":
            return _of_identity(subject)
        case _:
            return _of_known_bad(subject)


def _always(subject: Subject) -> list[Check]:
    return [ran(subject), finite(subject), distinct(subject), *served(subject), *demands(subject)]


def _of_reference(subject: Subject) -> Verdict:
    """The reference is measured or it is not; numbers that are not finite are no evidence here, and no fault of a variant."""
    checks = (ran(subject), finite(subject), unquantized(subject))
    outcome: Outcome = "pass" if all(check.outcome == "pass" for check in checks) else "not_measured"
    because = "is the reference" if outcome == "pass" else _why(checks, outcome)
    return Verdict(
        variant=subject.variant.variant.name, role="reference", outcome=outcome, checks=checks, because=because
    )


def _of_candidate(subject: Subject, level: float) -> Verdict:
    quality = [
        question.check(_level(question, level, subject.policy), subject.policy.power)
        for question in quality_questions(subject)
    ]
    checks = (*_always(subject), *quality, *plain_checks(subject))
    required = [check for check in checks if check.tier != "advisory"]
    outcome = worst([check.outcome for check in required])
    because = _why(required, outcome)
    return Verdict(
        variant=subject.variant.variant.name, role="candidate", outcome=outcome, checks=checks, because=because
    )


def _level(question: QualityQuestion, level: float, policy: Policy) -> float:
    """Advisory checks are no chance to pass and are shown at alpha."""
    return policy.alpha if question.rule.tier == "advisory" else level


def _of_identity(subject: Subject) -> Verdict:
    """The reference again must pass every required golden set: a gate that blocks it blocks on noise."""
    checks = (ran(subject), finite(subject), unchanged(subject), *_required_quality(subject))
    outcome = worst([check.outcome for check in checks])
    return _of_control(subject, checks, outcome, ok=outcome == "pass", must="must pass every required golden set")


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
        must="must fail on every required golden set",
    )


def _required_quality(subject: Subject) -> list[Check]:
    """At alpha: a control is no chance to pass. Without a required quality check a control tests nothing, which is not measured."""
    questions = [question for question in quality_questions(subject) if question.rule.tier != "advisory"]
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
    return [check for check in checks if check.name.startswith("quality") and check.outcome != "fail"]


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
    quality = [
        (check.bound - check.margin, check) for check in checks if check.bound is not None and check.margin is not None
    ]
    return max(quality, key=lambda one: one[0])[1].because if quality else "meets every required check"


# ---------------------------------------------------------------------------------------------- the run


def _outcome(verdicts: Sequence[Verdict], policy: Policy) -> tuple[Outcome, str]:
    """A reference or control that is wrong makes the run not measured, whatever the candidates are."""
    reference = next(one for one in verdicts if one.role == "reference")
    if reference.outcome != "pass":
        return "not_measured", f"Not measured: the reference {reference.because}"
    if wrong := [one for one in verdicts if one.role in ("identity", "known_bad") and one.control_ok is not True]:
        return "not_measured", f"Not measured: {wrong[0].variant} {wrong[0].because}"
    if policy.require_controls and not any(one.role == "known_bad" for one in verdicts):
        return "not_measured", "Not measured: the policy requires a known-bad control and the run has none"
    candidates = [one for one in verdicts if one.role == "candidate"]
    outcomes = [one.outcome for one in candidates]
    if policy.require == "any" and "pass" in outcomes:
        return "pass", "passes and goes forward"
    outcome = worst(outcomes)
    if outcome == "pass":
        return "pass", "goes forward: every candidate passes" if len(candidates) > 1 else "passes and goes forward"
    return outcome, _blocked(candidates, policy)


def _blocked(candidates: Sequence[Verdict], policy: Policy) -> str:
    if not candidates:
        return "Promotion is blocked: the run has no candidate"
    rule = "no candidate passes" if policy.require == "any" or len(candidates) == 1 else "not every candidate passes"
    each = ", ".join(
        f"{one.variant} {outcome_word(one.outcome).lower()}" for one in candidates if one.outcome != "pass"
    )
    return f"Promotion is blocked: {rule} ({each})"


def _choose(verdicts: Sequence[Verdict], evidence: Evidence, policy: Policy) -> str | None:
    """The passing candidate with the best figure of the policy's objective; ties and missing figures go by config order."""
    passing = [one for one in verdicts if one.role == "candidate" and one.outcome == "pass"]
    by_name = {one.variant.name: one for one in evidence.variants}
    figures = [_figure(by_name[one.variant], one, policy) for one in passing]
    ranked = [(figure is not None, figure or 0.0, -place) for place, figure in enumerate(figures)]
    return passing[-max(ranked)[2]].variant if ranked else None


def _figure(one: VariantEvidence, verdict: Verdict, policy: Policy) -> float | None:
    match policy.objective:
        case "freed_bytes":
            return None if one.loaded is None else -float(one.loaded.weight_bytes)
        case "ceiling":
            return None if one.capacity is None or one.capacity.confirmed is None else float(one.capacity.confirmed)
        case "tokens_per_s_at_ceiling":
            return one.tokens_per_s_at_ceiling
        case _:
            losses = [
                check.estimate
                for check in verdict.checks
                if check.tier != "advisory" and check.b is not None and check.estimate is not None
            ]
            return -max(losses) if losses else None
