"""The checks of a policy on levers, from evidence to ``Check``. Pure.

A drafter that is a candidate is asked of that candidate; any other one goes out beside whichever candidate is promoted, so every candidate
is asked. Speed and acceptance are those of the pass that one would serve with, the fastest; losslessness is asked of every output.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite

from quantgate.records import Check, CheckRule, Outcome, SpeculationRun
from quantgate.render.quantities import Towards, check_limit, count, fixed, percent
from quantgate.stages.speculation import fastest, partings
from quantgate.stages.subject import Subject, one_line

SPECULATION = frozenset({"speculation_acceptance", "speculation_lossless", "speculation_speed_ratio"})
EXACT = "float32"
"""The type in which a parting from plain decoding is a fault, whatever rounding there is."""


def lever_checks(subject: Subject) -> Iterator[Check]:
    """Every check of the policy on a lever; one that cannot be looked at is not measured and never left out."""
    for rule in (one for one in subject.policy.checks if one.kind in SPECULATION):
        if not subject.speculation:
            yield _check(rule, "*", "not_measured", "is not measured: the run has no speculation under 'levers'")
        for run in subject.speculation:
            if _is_asked(run, subject):
                yield _of_run(rule, run)


def _is_asked(run: SpeculationRun, subject: Subject) -> bool:
    kind, _, name = run.drafter.partition(":")
    named = [one.variant.name for one in subject.candidates if kind == "self" and one.variant.name == name]
    return not named or subject.variant.variant.name == name


def _of_run(rule: CheckRule, run: SpeculationRun) -> Check:
    if (why := _why_unknown(run)) is not None:
        return _check(rule, run.drafter, "not_measured", f"is not measured with {run.drafter}: {why}")
    if rule.kind == "speculation_lossless":
        return _lossless(rule, run)
    best = fastest(run)
    value = None if best is None else best.acceptance if rule.kind == "speculation_acceptance" else best.speed_ratio
    if best is None or value is None or not isfinite(value):
        missing = "nothing was drafted" if best is not None else "no pass has a speed"
        return _check(rule, run.drafter, "not_measured", f"is not measured with {run.drafter}: {missing}")
    if rule.minimum is None or not isfinite(rule.minimum):
        return _check(rule, run.drafter, "not_measured", "is not measured: the policy gives no limit for it")
    low, comes = value < rule.minimum, f"comes with the drafter {run.drafter}"
    towards: Towards = "down" if low else "nearest"
    where = f"at batch {best.batch_size} with {best.draft_tokens} drafted tokens, its fastest"
    if rule.kind == "speculation_acceptance":
        said = f"{comes}, of whose drafts the reference accepts {percent(value, digits=1, towards=towards)}, {where}"
    else:
        said = f"{comes}, with which the reference decodes at {fixed(value, 2, towards=towards)} times its plain speed, {where}"
    because = f"{said}; at least {check_limit(rule.kind, rule.minimum)} is asked for"
    return _check(rule, run.drafter, "fail" if low else "pass", because, value)


def _lossless(rule: CheckRule, run: SpeculationRun) -> Check:
    compared, parted, beyond = partings(run)
    comes = f"comes with the drafter {run.drafter}, with which"
    if not parted:
        because = f"{comes} all {count(compared)} outputs of the reference are token-identical to plain greedy decoding"
        return _check(rule, run.drafter, "pass", because, 0.0)
    said = f"{comes} {count(parted)} of {count(compared)} outputs of the reference part from plain greedy decoding"
    if run.dtype == EXACT or beyond:
        why = f"in {run.dtype} none may" if run.dtype == EXACT else f"rounding in {run.dtype} does not explain {count(beyond)} of them"
        return _check(rule, run.drafter, "fail", f"{said}; {why}", parted / compared)
    because = f"{said}; each where rounding in {run.dtype} could turn the two likeliest tokens round, so lossless is not shown"
    return _check(rule, run.drafter, "inconclusive", because, parted / compared)


def _why_unknown(run: SpeculationRun) -> str | None:
    if run.why_not is not None:
        return one_line(run.why_not)
    if not run.passes or not all(one.compared > 0 for one in run.passes):
        return "no output was compared"
    odd = next((one for one in run.passes if not one.adds_up), None)
    return None if odd is None else f"its counters do not add up at batch {odd.batch_size} with {odd.draft_tokens} drafted tokens"


def _check(rule: CheckRule, drafter: str, outcome: Outcome, because: str, estimate: float | None = None) -> Check:
    return Check(
        name=f"{rule.kind}/{drafter}", tier=rule.tier, outcome=outcome, because=because, estimate=estimate, margin=rule.minimum
    )
