"""Public bug reports, part M (B118, B116): a baseline that is quantized, of another template or harness, or whose limits are misread."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from chain import CONTROL, REFERENCE, Chain, candidate
from evidence import (
    CONDITIONS,
    RIGHT,
    candidate as int8,
    changed,
    decided,
    evidence,
    golden,
    known_bad,
    reference,
    sheet,
)
from quantgate.records import Baseline, BaselineEvidence, BaselineLimits, Evidence
from quantgate.stages import marks

MODEL = "cd" * 32


def held(now: Evidence, **then: Any) -> Evidence:
    """A run with a baseline that pins the usual reference, changed as told."""
    kept = marks.packed(golden(), sheet(range(RIGHT), of="float32"))
    known = replace(now.fingerprint, model_sha256=MODEL, libraries={"transformers": "5.24.0"})
    pinned = Baseline(
        run_id="pinned", created_at="", accepted_at="", accepted_by="Ada", reason="", model="m", model_sha256=MODEL, reference="float32",
        weights_sha256=None, dtype=None, policy="", policy_sha256="", evidence_sha256="", environment=known, golden_sets=(kept,),
    )  # fmt: skip
    found = BaselineEvidence(file="b.json", limits=(BaselineLimits(),), pinned=replace(pinned, **then))
    return replace(now, fingerprint=known, baseline=found)


def night(right: range = range(RIGHT), **fields: Any) -> Evidence:
    """A run in which int8 loses 20 points against the reference that is right on 160 items."""
    return evidence(reference(sheet(right, of="float32", **fields)), int8(b=40, c=0), known_bad())


def test_b118_a_drifted_baseline_is_not_a_regressed_variant() -> None:
    """The reference fell by 20 points over night: baseline moved, exit 4, although int8 lost as much against the old one."""
    moved = held(night(range(120)))
    assert decided(replace(moved, baseline=None)).outcome in ("fail", "pass", "inconclusive")
    decision = decided(moved)
    assert decision.outcome == "not_measured"
    assert decision.because.startswith("Promotion is blocked: the baseline moved")
    assert all(one.outcome == "not_measured" for one in decision.verdicts if one.role == "candidate")


def test_b118_a_regressed_variant_is_still_one_where_the_baseline_holds() -> None:
    """The other half: an unmoved reference, and int8 loses 20 points: a fail, exit 1."""
    decision = decided(held(night()))
    assert decision.outcome == "fail"


def test_b118_another_template_is_not_compared() -> None:
    """A score that moved because the prompt did is no drift of the model: not comparable, and said so."""
    for fields in ({"first_prompt": "<|im_start|>"}, {"conditions": {**CONDITIONS, "template": "chat"}}):
        because = decided(held(night(**fields))).because
        assert "the baseline cannot be used" in because and "template" in because


def test_b118_another_harness_version_is_named() -> None:
    """Same answers under another version: held; other answers: the version stands among what is different."""
    older = {"environment": replace(night().fingerprint, libraries={"transformers": "5.20.0"}, model_sha256=MODEL)}
    same = held(night(), **older)
    assert decided(same).outcome == "fail"
    moved = decided(held(night(range(100)), **older)).because
    assert "transformers 5.20.0 -> 5.24.0" in moved


def test_b118_a_quantized_reference_is_said_to_be_one() -> None:
    """Weights that lost something already are the reason, whatever the baseline says of the answers."""
    base = held(night())
    quantized = changed(base, "float32", loaded=replace(base.variants[0].loaded, quantized_parameters=800))  # type: ignore[type-var]
    assert decided(quantized).because.startswith("Promotion is blocked: the reference is itself quantized")


@pytest.mark.parametrize(
    ("written", "what"),
    [("1e-3", "write 0.001"), ("on", "YAML reads on"), (".inf", "found inf"), ("1%", "write 0.01"), ("5", "write 0.05 for 5 %")],
)
def test_b116_a_limit_is_never_guessed(chain: Chain, written: str, what: str) -> None:
    """Text, truth, infinity and a percentage as a limit of the baseline are refused with how to write it."""
    path = chain.config(variants=[REFERENCE, candidate(), CONTROL], baseline={"file": "b.json", "max_loss": 0.0125})
    path.write_text(path.read_text(encoding="utf-8").replace("0.0125", written), encoding="utf-8")
    done = chain.cli("run", path)
    assert (done.code, what in done.err, chain.reports.exists()) == (2, True, False), done.err
