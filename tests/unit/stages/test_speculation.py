"""Figures of speculation and what a policy may ask of it: acceptance, speed, losslessness, and the drafter's price in requests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from evidence import QUALITY, candidate, capacity, decided, evidence, known_bad, policy, reference
from quantgate.records import Check, CheckRule, DecodeTime, Evidence, Parting, SpeculationPass, SpeculationRun
from quantgate.stages import speculation

ACCEPTANCE = CheckRule(kind="speculation_acceptance", minimum=0.5)
LOSSLESS = CheckRule(kind="speculation_lossless")
SPEED = CheckRule(kind="speculation_speed_ratio", minimum=1.1)


def one(batch_size: int = 1, draft_tokens: int = 4, *, ratio: float = 1.5, accepted: int = 60, **fields: Any) -> SpeculationPass:
    """100 drafted tokens in 25 steps; plain decoding takes a second for 100 tokens."""
    known = SpeculationPass(
        draft_tokens=draft_tokens,
        batch_size=batch_size,
        steps=25,
        drafted=100,
        accepted=accepted,
        emitted=accepted + 25,
        drafted_at=(25, 25, 25, 25),
        accepted_at=(25, 20, accepted - 50, 5),
        compared=50,
        partings=(),
        plain=(DecodeTime(seconds=1.0, tokens=100),),
        speculative=(DecodeTime(seconds=1.0 / ratio, tokens=100),),
    )
    return replace(known, **fields)


def run(*passes: SpeculationPass, drafter: str = "prompt_lookup", **fields: Any) -> SpeculationRun:
    known = SpeculationRun(
        drafter=drafter, dtype="float32", prompts=50, draft_weight_bytes=100, draft_kv_bytes_per_row=10, passes=passes
    )
    return replace(known, **fields)


def asked(rule: CheckRule, *runs: SpeculationRun, of: str = "int8") -> list[Check]:
    """The checks of one rule for a candidate, of two that the run has."""
    found: Evidence = replace(evidence(reference(), candidate(), candidate("int4"), known_bad()), speculation=runs)
    verdict = next(each for each in decided(found, policy(QUALITY, rule)).verdicts if each.variant == of)
    return [check for check in verdict.checks if check.name.startswith("speculation")]


# ---------------------------------------------------------------------------------------------- figures


def test_figures_follow_from_the_counters() -> None:
    """Acceptance is accepted over drafted, the mean length one more than accepted a step; times give the ratio of each repeat."""
    found = one()
    assert (found.acceptance, found.mean_length, found.adds_up) == (0.6, 1 + 60 / 25, True)
    assert found.acceptance_at == (1.0, 0.8, 0.4, 0.2)
    assert found.speed_ratio == pytest.approx(1.5)
    nothing = one(steps=0, drafted=0, accepted=0, emitted=0, drafted_at=(0,), accepted_at=(0,), plain=(), speculative=())
    assert (nothing.acceptance, nothing.mean_length, nothing.speed_ratio, nothing.acceptance_at) == (None, None, None, (None,))


@pytest.mark.parametrize("fields", [{"accepted": 101}, {"emitted": 86}, {"accepted_at": (25, 20, 11, 5)}, {"drafted": 99}])
def test_counters_that_do_not_add_up_are_seen(fields: dict[str, Any]) -> None:
    """More accepted than drafted, tokens from nowhere, places that sum to something else."""
    assert not replace(one(), **fields).adds_up


def test_a_loss_is_where_even_the_best_draft_loses() -> None:
    """At batch 4 one number of drafted tokens still wins; at 8 none does."""
    found = run(one(), one(4, 2, ratio=1.1), one(4, ratio=0.9), one(8, 2, ratio=0.7), one(8, ratio=0.6))
    assert speculation.loss_from_batch(found) == 8
    assert speculation.loss_from_batch(run(one())) is None
    best = speculation.fastest(found)
    assert best is not None
    assert (best.batch_size, best.draft_tokens) == (1, 4)


def test_a_drafter_takes_requests() -> None:
    """Its weights come off the budget and its cache off every row; without one nothing changes."""
    known = capacity(9, budget_bytes=1000, fixed_bytes=100, prefill_bytes_per_row=60, decode_bytes_per_row=90, kv_bytes_per_row=80)
    assert speculation.ceiling_beside(known, 0, 0) == 10
    assert speculation.ceiling_beside(known, 200, 10) == 7
    assert speculation.ceiling_beside(known, 2000, 10) == 0
    assert speculation.ceiling_beside(replace(known, fixed_bytes=None), 0, 0) is None
    row = speculation.rows([run(one(), drafter="self:int8", draft_weight_bytes=200)], known)[0]
    assert (row.ceiling, row.ceiling_beside) == (10, 7)
    assert "beside it 7 requests are predicted to fit instead of 10" in row.sentence


# ---------------------------------------------------------------------------------------------- checks


@pytest.mark.parametrize(
    ("rule", "found", "outcome"),
    [
        (ACCEPTANCE, run(one()), "pass"),
        (ACCEPTANCE, run(one(accepted=55), one(draft_tokens=2, ratio=1.2, accepted=60)), "pass"),
        (CheckRule(kind="speculation_acceptance", minimum=0.61), run(one()), "fail"),
        (SPEED, run(one()), "pass"),
        (SPEED, run(one(ratio=1.05)), "fail"),
        (LOSSLESS, run(one()), "pass"),
        (LOSSLESS, run(one(partings=(Parting(prompt="p", at=3, margin=1e-9, noise=1e-6),))), "fail"),
        (LOSSLESS, run(one(partings=(Parting(prompt="p", at=3, margin=0.01, noise=0.02),)), dtype="bfloat16"), "inconclusive"),
        (LOSSLESS, run(one(partings=(Parting(prompt="p", at=3, margin=0.1, noise=0.02),)), dtype="bfloat16"), "fail"),
        (LOSSLESS, run(one(partings=(Parting(prompt="p", at=0, margin=None, noise=None),)), dtype="bfloat16"), "fail"),
        (LOSSLESS, run(), "not_measured"),
        (LOSSLESS, run(one(emitted=99)), "not_measured"),
        (LOSSLESS, run(why_not="it broke."), "not_measured"),
        (SPEED, run(one(plain=(), speculative=())), "not_measured"),
        (ACCEPTANCE, run(one(drafted=0, accepted=0, emitted=25, drafted_at=(0,), accepted_at=(0,))), "not_measured"),
        (CheckRule(kind="speculation_acceptance"), run(one()), "not_measured"),
    ],
)  # fmt: skip
def test_a_check_on_speculation(rule: CheckRule, found: SpeculationRun, outcome: str) -> None:
    """Limits are inclusive; in float32 no output may part, in half precision rounding is no proof; what is missing is not measured."""
    checks = asked(rule, found)
    assert [(check.name, check.outcome) for check in checks] == [(f"{rule.kind}/prompt_lookup", outcome)]
    assert checks[0].because


def test_a_demand_on_speculation_that_was_not_asked_for_is_not_measured() -> None:
    """It does not vanish."""
    assert [check.outcome for check in asked(LOSSLESS)] == ["not_measured"]


def test_a_variant_that_drafts_answers_for_its_own_drafts() -> None:
    """Another candidate is not blocked by them; a drafter that is no candidate goes out beside every one."""
    slow = run(one(ratio=0.5), drafter="self:int4")
    assert asked(SPEED, slow) == []
    assert [check.outcome for check in asked(SPEED, slow, of="int4")] == ["fail"]
    assert [check.outcome for check in asked(SPEED, replace(slow, drafter="self:known_bad"))] == ["fail"]
