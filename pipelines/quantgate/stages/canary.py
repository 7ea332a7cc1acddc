"""The canary: a look at the first prompts that spares the scoring of a candidate that is plainly broken. Pure.

What it may say is fail, never pass: a candidate that comes through is scored like any other. It is asked of candidates only; controls are
scored whole, for a known-bad one has to be shown to fail by the checks themselves. Where it ended the scoring, what was therefore not
scored decides nothing beside its fail; under a policy whose canary would not have ended it, the candidate is not measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import exp, isfinite, log

from quantgate.records import Canary, CanaryReading, Check, Outcome, Policy, VariantEvidence
from quantgate.render.quantities import count, percent, significant
from quantgate.stages.subject import Subject, one_line

NAME = "canary"
LEFT_OUT = "was not scored to the end: the canary stopped it"
_OF_SCORES = (
    "finite", "quality", "perplexity_ratio", "kl_mean", "kl_p99", "kl_p999", "rms_probability_change", "top1_agreement", "output_length",
)  # fmt: skip
_LARGEST_EXPONENT = 700.0


def broken(reading: CanaryReading, rule: Canary) -> str:
    """Half a sentence on what shows that a candidate is broken; empty where nothing does."""
    if reading.nonfinite:
        return f"is numerically invalid on {reading.golden_set}: {one_line(reading.nonfinite)}"
    at = f"at {count(reading.prompts)} prompts of {reading.golden_set}"
    if not isfinite(reading.mean_kl) or reading.mean_kl > log(rule.perplexity_ratio):
        times = f"{significant(exp(reading.mean_kl), 3)} times" if reading.mean_kl < _LARGEST_EXPONENT else "beyond all number"
        return f"is broken: {at} it has {times} the reference's perplexity; allowed {rule.perplexity_ratio:g}"
    if reading.top1_agreement < rule.top1_agreement:
        found, least = percent(reading.top1_agreement, digits=1), percent(rule.top1_agreement, digits=1)
        return f"is broken: {at} it has the reference's likeliest token at {found}; allowed {least} or more"
    return ""


def ended(reading: CanaryReading, rule: Canary) -> CanaryReading:
    """The reading, marked where it ends the scoring."""
    return replace(reading, stopped=bool(broken(reading, rule)))


def canary(subject: Subject) -> list[Check]:
    """The canary's check of a candidate; none where none was asked that this policy knows and nothing was stopped."""
    readings = subject.variant.canaries if subject.variant.variant.role == "candidate" else ()
    outcome = list(_outcomes(readings, subject))
    found = next((one for name in ("not_measured", "fail") for one in outcome if one.outcome == name), None)
    return [found] if found is not None else outcome[:1]


def _outcomes(readings: Sequence[CanaryReading], subject: Subject) -> Iterator[Check]:
    rule = subject.policy.canary
    for one in readings:
        said = "" if rule is None or _why_other(one, rule, subject) else broken(one, rule)
        if said:
            yield _check("fail", f"{said}. {_what_ended(one)}" if one.stopped else said, one)
        elif one.stopped:
            why = "this policy has no canary" if rule is None else _why_other(one, rule, subject) or "this policy's canary would not have"
            yield _check("not_measured", f"is not measured: a canary stopped its scoring, and {why}; score it in full", one)
        elif rule is not None and not _why_other(one, rule, subject):
            because = f"comes through the canary at {count(one.prompts)} prompts of {one.golden_set}"
            yield _check("pass", because, one)


def _check(outcome: Outcome, because: str, reading: CanaryReading) -> Check:
    return Check(name=NAME, tier="required", outcome=outcome, because=because, n=reading.prompts)


def _what_ended(reading: CanaryReading) -> str:
    return f"Its scoring ended there: {count(reading.items)} items of {reading.golden_set} were spared, and all sets after it"


def _why_other(reading: CanaryReading, rule: Canary, subject: Subject) -> str:
    """Why a reading is none of this policy's canary; empty where it is."""
    golden = next((one for one in subject.golden_sets if one.sha256 == reading.golden_sha256), None)
    if golden is None:
        return "it was asked on another golden set than the run's"
    if reading.prompts != rule.items:
        return f"this policy's canary asks {count(rule.items)} prompts and not {count(reading.prompts)}"
    if not 0 <= reading.top1_agreement <= 1 or reading.mean_kl < -1e-6:
        return f"a mean divergence of {reading.mean_kl:g} with an agreement of {reading.top1_agreement:g} is not possible"
    return ""


def left_out(checks: Sequence[Check], subject: Subject) -> tuple[Check, ...]:
    """The checks of a candidate; beside the canary's fail, what its stop kept from being measured does not decide."""
    stopped = any(one.name == NAME and one.outcome == "fail" for one in checks) and is_stopped(subject.variant)
    if not stopped:
        return tuple(checks)
    return tuple(
        replace(one, tier="advisory", because=LEFT_OUT)
        if one.outcome == "not_measured" and one.name.split("/")[0] in _OF_SCORES
        else one
        for one in checks
    )


def is_stopped(variant: VariantEvidence) -> bool:
    """Whether a canary ended the scoring of a variant."""
    return any(one.stopped for one in variant.canaries)


def asked_on(policy: Policy, items: int) -> int:
    """Prompts that the canary asks of a golden set with that many items; 0 where it is not asked there.

    A set with hardly more items than the canary is scored at once: there is little to spare, and few prompts would say too little.
    """
    rule = policy.canary
    return 0 if rule is None or items < 2 * rule.items else rule.items
