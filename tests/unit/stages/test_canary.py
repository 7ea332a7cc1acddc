"""The canary: what it shows, what it spares, and that nothing passes by it."""

from __future__ import annotations

from dataclasses import replace
from math import log
from typing import Any

import pytest

import evidence as made
from quantgate.records import Canary, CanaryReading, Evidence, Policy
from quantgate.stages import canary
from quantgate.stages.gate import judge

RULE = Canary()


def reading(**changes: Any) -> CanaryReading:
    """A sane candidate on the one golden set of the made evidence, unless told otherwise."""
    golden = made.passing().golden_sets[0]
    values = {
        "golden_set": golden.name, "golden_sha256": golden.sha256, "items": len(golden.item_ids), "prompts": 32, "mean_kl": 0.05,
        "top1_agreement": 0.9, **changes,
    }  # fmt: skip
    return CanaryReading(**values)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"mean_kl": log(10.0)}, ""),
        ({"top1_agreement": 0.5}, ""),
        ({"mean_kl": log(10.1)}, "10.1 times the reference's perplexity; allowed 10"),
        ({"mean_kl": 5000.0}, "beyond all number"),
        ({"top1_agreement": 15 / 32}, "likeliest token at 46.9 %; allowed 50.0 % or more"),
        ({"nonfinite": "logits are not finite"}, "numerically invalid"),
    ],
)
def test_what_shows_a_broken_candidate(changes: dict[str, Any], words: str) -> None:
    """Only beyond a limit, and the sentence says by which figure."""
    said = canary.broken(reading(**changes), RULE)
    assert (words in said) and bool(said) == bool(words)
    assert canary.ended(reading(**changes), RULE).stopped == bool(words)


@pytest.mark.parametrize(("items", "asked"), [(0, 0), (63, 0), (64, 32), (1000, 32)])
def test_small_sets_are_scored_at_once(items: int, asked: int) -> None:
    """The canary is asked where there is something to spare, and never without a rule in the policy."""
    policy = Policy(name="p", why="a test", checks=(), canary=RULE)
    assert canary.asked_on(policy, items) == asked
    assert canary.asked_on(replace(policy, canary=None), items) == 0


def verdict(policy: Policy, evidence: Evidence) -> Any:
    """The verdict on the candidate."""
    decision = judge(evidence, policy, policy_sha256="p", evidence_sha256="e", created_at="2026-01-01T00:00:00+00:00")
    return next(one for one in decision.verdicts if one.role == "candidate")


def with_candidate(evidence: Evidence, **changes: Any) -> Evidence:
    """The evidence with its candidate changed."""
    return replace(
        evidence,
        variants=tuple(replace(one, **changes) if one.variant.role == "candidate" else one for one in evidence.variants),
    )


STOPPED: dict[str, Any] = {"sheets": (), "canaries": (reading(top1_agreement=0.1, stopped=True),)}


def test_a_stopped_candidate_fails_by_the_canary_alone() -> None:
    """What was not scored is shown and does not hide the fail behind 'not measured'."""
    found = verdict(made.policy(canary=RULE), with_candidate(made.passing(), **STOPPED))
    assert found.outcome == "fail"
    assert found.because.startswith("is broken: at 32 prompts")
    checks = {one.name: one for one in found.checks}
    assert (checks["canary"].outcome, checks["canary"].tier) == ("fail", "required")
    assert all(one.because == canary.LEFT_OUT for one in found.checks if one.outcome == "not_measured")
    assert checks["finite"].outcome == "not_measured" and checks["finite"].tier == "advisory"


def test_what_the_canary_did_not_cause_stays_not_measured() -> None:
    """A stage that failed is no doing of the canary: not measured goes before fail as ever."""
    failure = made.failure("int8", "capacity")
    found = verdict(made.policy(canary=RULE), with_candidate(made.passing(), **STOPPED, failures=(failure,)))
    assert found.outcome == "not_measured"


@pytest.mark.parametrize("rule", [None, Canary(top1_agreement=0.05), Canary(items=64)])
def test_a_stop_counts_under_no_other_policy(rule: Canary | None) -> None:
    """Without a canary, with one that would have gone on, or with one that asks otherwise: not measured, never a pass."""
    found = verdict(made.policy(canary=rule), with_candidate(made.passing(), **STOPPED))
    assert found.outcome == "not_measured"
    assert "score it in full" in found.because


def test_a_stop_never_passes_even_with_whole_scores() -> None:
    """Sheets beside a stop, as in evidence that was pieced together, do not outweigh it."""
    whole = with_candidate(made.passing(), canaries=STOPPED["canaries"])
    assert verdict(made.policy(canary=RULE), whole).outcome == "fail"
    assert verdict(made.policy(), whole).outcome == "not_measured"


def test_a_sane_candidate_is_judged_by_its_scores() -> None:
    """A reading within the limits changes nothing but for a check that says so; without any reading there is no check."""
    run = made.passing()
    plain = verdict(made.policy(), run)
    found = verdict(made.policy(canary=RULE), with_candidate(run, canaries=(reading(),)))
    assert found.outcome == plain.outcome == "pass"
    assert [one.outcome for one in found.checks if one.name == "canary"] == ["pass"]
    assert [one.name for one in verdict(made.policy(canary=RULE), run).checks] == [one.name for one in plain.checks]


def test_only_candidates_are_asked() -> None:
    """A control's fail has to come from the checks themselves."""
    run = made.passing()
    other = replace(run, variants=tuple(replace(one, canaries=STOPPED["canaries"]) for one in run.variants))
    decision = judge(other, made.policy(canary=RULE), policy_sha256="p", evidence_sha256="e")
    named = {one.variant: [check.name for check in one.checks] for one in decision.verdicts if one.role != "candidate"}
    assert named and not any("canary" in names for names in named.values())
