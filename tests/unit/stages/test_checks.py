from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from evidence import (
    CONDITIONS,
    RIGHT,
    candidate,
    capacity,
    changed,
    decided,
    evidence,
    golden,
    policy,
    reference,
    sheet,
    variant,
)
from quantgate.records import Check, CheckRule, Evidence, ItemEvidence, KVCache, Outcome, ScoreSheet

RATIO = CheckRule(kind="ceiling_ratio", minimum=1.5)
LENGTH = CheckRule(kind="output_length", minimum=0.9, maximum=1.1)


def _only(found: Evidence, rule: CheckRule) -> list[Check]:
    """The checks of one rule for the candidate."""
    decision = decided(found, policy(rule, require_controls=False))
    always = ("ran", "finite", "distinct", "served")
    return [one for one in next(one for one in decision.verdicts if one.variant == "int8").checks if one.name not in always]


def _ceilings(base: dict[str, Any], found: dict[str, Any]) -> Check:
    both = evidence(replace(reference(), capacity=capacity(**base)), candidate(capacity=capacity(**found)))
    return _only(both, RATIO)[0]


@pytest.mark.parametrize(
    ("base", "found", "outcome", "words"),
    [
        (
            {"confirmed": 10},
            {"confirmed": 15},
            "pass",
            "holds 1.50 times the reference's batch; at least 1.5x is asked for",
        ),
        ({"confirmed": 1000}, {"confirmed": 1499}, "fail", "holds 1.49 times"),
        ({"confirmed": 10}, {"confirmed": 16, "limited_by": "search cap"}, "pass", "holds at least 1.60 times"),
        ({"confirmed": 12}, {"confirmed": 16, "limited_by": "search cap"}, "not_measured", "lies beyond the search"),
        ({"confirmed": 12}, {"confirmed": 16, "limited_by": "time"}, "not_measured", "lies beyond the search"),
        (
            {"confirmed": 10, "limited_by": "search cap"},
            {"confirmed": 16},
            "not_measured",
            "not known: its search stopped at 10; raise 'max_batch' in the workload; at least 1.5x is asked for",
        ),
        ({"confirmed": 0}, {"confirmed": 16}, "not_measured", "the reference's batch ceiling"),
        ({"confirmed": None}, {"confirmed": 16}, "not_measured", "the reference's batch ceiling"),
        ({"confirmed": 10}, {"confirmed": None}, "not_measured", "its batch ceiling is not known"),
        ({"confirmed": 10}, {"confirmed": 0}, "fail", "holds 0.00 times"),
        (
            {"confirmed": 10},
            {"confirmed": 30, "output_tokens": 8},
            "not_measured",
            "output tokens is 64 for the reference and 8",
        ),
        ({"confirmed": 10}, {"confirmed": 30, "budget_bytes": 9}, "not_measured", "budget bytes is 450000000"),
    ],
)
def test_batch_ceilings(base: dict[str, Any], found: dict[str, Any], outcome: Outcome, words: str) -> None:
    """A ratio of two confirmed ceilings of the same lengths and budget; what is only known from below can pass and never fail."""
    check = _ceilings(base, found)
    assert (check.outcome, words in check.because) == (outcome, True), check.because


@pytest.mark.parametrize("field", ["kind", "name", "driver", "threads"])
def test_memory_of_two_devices_is_not_compared(field: str) -> None:
    """The device's kind, name, driver and threads are equal, or the field that differs is named."""
    one = candidate()
    assert one.device is not None
    other = replace(
        one,
        device=replace(one.device, **{field: 7 if field == "threads" else "other"}),  # type: ignore[arg-type]
    )
    check = _only(evidence(reference(), other), CheckRule(kind="freed_share", minimum=0.1))[0]
    assert check.outcome == "not_measured"
    assert f"{field} is" in check.because
    assert _only(evidence(reference(), replace(one, device=None)), RATIO)[0].outcome == "not_measured"


def _writing(tokens: int, of: str) -> ScoreSheet:
    plain = sheet(range(RIGHT), of=of, conditions=CONDITIONS)
    written = [
        replace(one, evidence=ItemEvidence(item_id=one.item_id, text="x", output_tokens=tokens)) for one in plain.items
    ]
    return replace(plain, items=tuple(written))


@pytest.mark.parametrize(
    ("base", "tokens", "outcome"),
    [(20, 22, "pass"), (20, 18, "pass"), (20, 23, "fail"), (20, 17, "fail"), (15, 15, "not_measured")],
)
def test_output_length(base: int, tokens: int, outcome: Outcome) -> None:
    """0.9 to 1.1 times the reference's tokens, both ends included, on sets with answers of 16 tokens or more."""
    both = evidence(reference(_writing(base, "float32")), variant("int8", _writing(tokens, "int8")))
    checks = _only(both, LENGTH)
    assert [one.outcome for one in checks] == [outcome]
    if outcome == "not_measured":
        assert _only(both, replace(LENGTH, tier="advisory")) == _only(both, replace(LENGTH, tier="advisory"))[:1]


def test_lengths_are_asked_of_the_sets_that_can_tell() -> None:
    """A set of short answers beside one of long answers is left out; a set that one side was not scored on is not measured."""
    law = golden("law")
    short = replace(_writing(3, "float32"), golden_sha256=law.sha256, golden_set="law")
    base = reference(_writing(20, "float32"), short)
    long_only = variant("int8", _writing(20, "int8"), replace(short, variant="int8"))
    found = evidence(base, long_only, golden_sets=(golden(), law))
    assert [(one.name, one.outcome) for one in _only(found, LENGTH)] == [("output_length/everyday", "pass")]
    missing = changed(found, "int8", sheets=(replace(short, variant="int8"),))
    assert [one.outcome for one in _only(missing, LENGTH)] == ["not_measured"]


def test_the_share_of_quantized_parameters() -> None:
    """800 of 1,000 parameters are 80 %."""
    check = _only(evidence(reference(), candidate()), CheckRule(kind="share_quantized", minimum=0.81))[0]
    assert (check.outcome, check.because) == (
        "fail",
        "has 80.0 % of its parameters quantized; at least 81 % is asked for",
    )


def test_a_variant_that_holds_no_request_is_a_fail() -> None:
    """Whatever it answers: a budget that not even one request fits into blocks the variant, and says so."""
    both = evidence(replace(reference(), capacity=capacity(confirmed=10)), candidate(capacity=capacity(confirmed=0)))
    found = next(one for one in decided(both, policy(RATIO, require_controls=False)).verdicts if one.variant == "int8")
    served = next(one for one in found.checks if one.name == "served")
    assert (found.outcome, served.outcome) == ("fail", "fail")
    assert "even one request" in served.because


def test_the_same_weights_with_another_cache_are_no_copy() -> None:
    """A cache in fewer bits is what differs; raw log-likelihoods that do not differ are refused all the same."""
    base = reference()
    assert base.loaded is not None

    def distinct(**fields: Any) -> Outcome:
        found = evidence(base, candidate(**fields))
        return next(one for one in _always(found) if one.name == "distinct").outcome

    same = base.loaded
    assert distinct(loaded=same) == "not_measured"
    assert distinct(loaded=replace(same, kv_cache=KVCache(bits=4))) == "pass"
    assert distinct(loaded=replace(same, kv_cache=KVCache(bits=4)), sheets=base.sheets) == "not_measured"


def _always(found: Evidence) -> tuple[Check, ...]:
    return next(one for one in decided(found, policy(require_controls=False)).verdicts if one.variant == "int8").checks
