"""Public bug reports, part M, through the command line: gates that fail open, codes that disagree, thresholds misread."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from chain import CONTROL, REFERENCE, Chain, candidate, junit_is_green, report_of, verdicts_of

WORSE = candidate(error_rate=0.32)


def test_b109_an_empty_golden_set(chain: Chain) -> None:
    """B109: 0 items is a usage error, not a pass."""
    (chain.root / "set.jsonl").write_text("", encoding="utf-8")
    done = chain.run("--allow-underpowered", golden_sets=["set.jsonl"])
    assert (done.code, "has 0 items" in done.err) == (2, True)
    assert not chain.reports.exists()


def test_b109_only_non_finite_scores(chain: Chain) -> None:
    """B109: a candidate that gives NaN throughout is blocked, and no item of it counts as scored."""
    done = chain.run(variants=[REFERENCE, candidate(fault="nonfinite"), CONTROL])
    assert done.code == 1
    row = next(one for one in report_of(chain.last)["quality"] if one["variant"] == "int8")
    assert (row["scored"], row["accuracy"]) == (0, None)


def test_b109_nothing_measured(chain: Chain) -> None:
    """B109: every candidate broke: not measured, with a code of its own."""
    done = chain.run(variants=[REFERENCE, candidate("a", fault="crash"), candidate("b", fault="refuse"), CONTROL])
    assert done.code == 4
    assert report_of(chain.last)["outcome"] == "not_measured"


RUNS: dict[str, tuple[list[Any], int]] = {
    "pass": ([REFERENCE, candidate(), CONTROL], 0),
    "regress": ([REFERENCE, WORSE, CONTROL], 1),
    "crash": ([REFERENCE, candidate("broken", fault="crash"), CONTROL], 4),
    "crash and regress": ([REFERENCE, candidate("broken", fault="crash"), WORSE, CONTROL], 4),
}


@pytest.mark.parametrize("kind", RUNS)
def test_b110_the_code_follows_the_verdict(chain: Chain, kind: str) -> None:
    """B110: 0, 1 and 4 for pass, regression and crash, a crash outranking a regression; JSON, JUnit, output and code agree."""
    variants, code = RUNS[kind]
    done = chain.run(variants=variants)
    report = report_of(chain.last)
    assert done.code == report["exit_code"] == code
    assert junit_is_green(chain.last) is (code == 0)
    assert done.out.rstrip().endswith(f"exit {code}")
    assert (report["outcome"] == "pass") is (code == 0)
    assert chain.cli("show", chain.last).out.rstrip().endswith(f"exit {code}")


THRESHOLDS = {
    "1e-3": "write 0.001",
    '"0.03"': "write 0.03",
    "on": "YAML reads on",
    ".inf": "found inf",
    "1%": "write 0.01",
}


@pytest.mark.parametrize("written", THRESHOLDS)
def test_b116_a_threshold_is_never_guessed(chain: Chain, written: str) -> None:
    """B116: text, truth and infinity as a margin are refused with how to write it."""
    path = chain.root / "policy.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("margin: 0.06", f"margin: {written}"), encoding="utf-8")
    done = chain.run()
    assert (done.code, THRESHOLDS[written] in done.err) == (2, True), done.err
    assert not chain.reports.exists()


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"bits": "4"}, "this is text to YAML; write 4"),
        ({"name": True}, "YAML reads on, off, yes and no as true or false"),
        ({"name": 8}, "expected text; found 8"),
    ],
)
def test_b116_a_variant_is_never_guessed(chain: Chain, change: dict[str, Any], what: str) -> None:
    """B116: bits in quotes, and names that YAML turns into truth or numbers, are refused."""
    done = chain.run(variants=[REFERENCE, {**candidate(), **change}, CONTROL])
    assert (done.code, what in done.err) == (2, True), done.err


def test_b116_a_misspelt_threshold_is_not_ignored(chain: Chain) -> None:
    """B116: max_dorp is unknown, and a check without its limit is none."""
    for check, what in (({"margin": 0.06, "max_dorp": 0.01}, "unknown key 'max_dorp'"), ({}, "needs 'margin'")):
        chain.policy(checks=[{"kind": "quality", **check}])
        done = chain.run()
        assert (done.code, what in done.err) == (2, True), done.err


def test_b116_a_written_policy_is_read_back_unchanged(chain: Chain) -> None:
    """B116: what YAML writes for 0.00001 is read as a number again, or refused: never compared as text."""
    chain.policy(
        checks=[{"kind": "quality", "margin": 0.06}, {"kind": "kl_mean", "maximum": 0.00001, "tier": "advisory"}]
    )
    assert "1.0e-05" in (chain.root / "policy.yaml").read_text(encoding="utf-8")
    assert chain.run().code == 0
    rule = json.loads((chain.last / "policy.json").read_text(encoding="utf-8"))["checks"][1]
    assert rule["maximum"] == 0.00001
    assert yaml.safe_load("1e-5") == "1e-5"


def test_b118_a_quantized_reference(chain: Chain) -> None:
    """B118: a reference with bits is refused, whatever the variants are."""
    done = chain.run(variants=[{**REFERENCE, "bits": 8}, candidate(), CONTROL])
    assert (done.code, "the reference is the unquantized model" in done.err) == (2, True)


def test_b118_the_reference_is_never_a_candidate(chain: Chain) -> None:
    """B118: the reference is measured in every run beside its variants and can never be what is promoted."""
    assert chain.run().code == 0
    assert verdicts_of(chain.last)["float32"] == "pass"
    assert report_of(chain.last)["chosen"] == "int8"
    done = chain.run(variants=[{**REFERENCE, "role": "candidate"}, candidate()])
    assert (done.code, "exactly one variant must have 'role: reference'" in done.err) == (2, True)
