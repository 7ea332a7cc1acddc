"""Scores that another tool wrote, under the checks that are always asked: what is not known is no fault, what is broken never passes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from evidence import QUALITY, candidate, decided, evidence, golden, known_bad, policy, reference, sheet
from quantgate.records import Check, Evidence, ScoreSheet, VariantEvidence


def foreign(one: VariantEvidence, **fields: Any) -> VariantEvidence:
    """The variant as a file tells of it: scores and nothing else."""
    sheets = tuple(replace(made, conditions={}) for made in one.sheets)
    return replace(
        one, source="file", artifact=None, loaded=None, capacity=None, device=None, **{"sheets": sheets, **fields}
    )


def run(variant: VariantEvidence | None = None, base: VariantEvidence | None = None) -> Evidence:
    """A foreign reference, a candidate and a control."""
    return evidence(base or foreign(reference()), variant or foreign(candidate()), foreign(known_bad()))


def outcome(found: Evidence) -> str:
    return decided(found, policy(QUALITY)).outcome


def check(found: Evidence, name: str, *, of: str = "int8") -> Check:
    """One check of a variant."""
    verdict = next(one for one in decided(found, policy(QUALITY)).verdicts if one.variant == of)
    return next(one for one in verdict.checks if one.name == name)


def stated(one: VariantEvidence, **conditions: Any) -> VariantEvidence:
    """The variant with these conditions on its sheet."""
    return replace(one, sheets=(replace(one.sheets[0], conditions=conditions),))


def bare(made: ScoreSheet) -> ScoreSheet:
    """A sheet without log-likelihoods."""
    items = tuple(replace(item, evidence=replace(item.evidence, loglikelihoods=())) for item in made.items)
    return replace(made, items=items, conditions={})


def test_scores_alone_pass() -> None:
    """Unknown weights, device and conditions are no reason to refuse; the sentences say that they are unknown."""
    assert outcome(run()) == "pass"
    assert check(run(), "ran").because == "was scored by another tool"
    assert "its weights are not known" in check(run(), "distinct").because
    assert "taken for the unquantized model" in check(run(), "unquantized", of="float32").because


def test_the_same_without_a_source_does_not() -> None:
    """Evidence of a session without artifact and weights stays not measured: the exemption is for files alone."""
    found = run(replace(foreign(candidate()), source="session"))
    assert outcome(found) == "not_measured"


def test_no_sheet_is_not_measured() -> None:
    """A file without any of the reference's items."""
    assert check(run(foreign(candidate(), sheets=())), "ran").outcome == "not_measured"
    assert outcome(run(foreign(candidate(), sheets=()))) == "not_measured"
    assert outcome(run(base=foreign(reference(), sheets=()))) == "not_measured"


@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_nan_is_not_measured_and_never_a_fail(side: str) -> None:
    """Our own session would make it a fail of the variant; of a file nobody knows."""
    broken = sheet(range(160), of="float32" if side == "reference" else "int8", nonfinite=[3])
    one = (
        foreign(reference(broken))
        if side == "reference"
        else foreign(candidate(), sheets=(replace(broken, conditions={}),))
    )
    found = run(base=one) if side == "reference" else run(one)
    assert outcome(found) == "not_measured"
    assert check(found, "finite", of=one.variant.name).outcome == "not_measured"


def test_bit_equal_log_likelihoods_are_refused() -> None:
    """One model was scored twice."""
    twin = replace(sheet(range(160), of="float32"), variant="int8", conditions={})
    found = run(foreign(candidate(), sheets=(twin,)))
    assert check(found, "distinct").outcome == "not_measured"
    assert "bit-equal with those of float32" in check(found, "distinct").because


def test_equal_scores_alone_are_not() -> None:
    """Without log-likelihoods b = c = 0 is what a good variant looks like."""
    base = foreign(reference(), sheets=(bare(sheet(range(160), of="float32")),))
    variant = foreign(candidate(), sheets=(bare(sheet(range(160))),))
    assert outcome(run(variant, base)) == "pass"


def test_conditions_that_both_state() -> None:
    """They must be equal, and the field is named; one that a side alone states is unknown."""
    base = stated(foreign(reference()), prompt_hash="a", filter="none")
    assert outcome(run(stated(foreign(candidate()), prompt_hash="a", extra=1), base)) == "pass"
    other = run(stated(foreign(candidate()), prompt_hash="b"), base)
    assert outcome(other) == "not_measured"
    because = check(other, f"quality/{golden().name}").because
    assert "not comparable: prompt_hash is 'a' for the reference and 'b' for the variant" in because
