"""Levers in a run: speculation and a cache in fewer bits, measured, judged, shown, and kept like everything else."""

from __future__ import annotations

import json
from typing import Any

import pytest

import speculators
from chain import CONTROL, REFERENCE, Chain, candidate, report_of, stages_of, verdicts_of, write_golden
from quantgate import rundir
from quantgate.records import Report
from quantgate.sinks.mlflow_figures import speculation_of

DRAFTERS = ["prompt_lookup", {"self": "int8"}, {"model": {"name": "small", "path": "golden/sums/v1"}}]
SPECULATION: dict[str, Any] = {
    "drafters": DRAFTERS, "prompts": {"golden_set": "sums"}, "draft_tokens": [2, 4], "batch_sizes": [1, 4], "max_prompts": 8,
}  # fmt: skip
FAST = [REFERENCE, candidate(step_s=0.003), CONTROL]
QUALITY = {"kind": "quality", "margin": 0.06}
KV4 = {"name": "kv4", "quantizer": "fake", "kv_cache": {"bits": 4}, "options": {"weight_bytes": 400_000_000}}


def test_speculation_is_part_of_the_run(chain: Chain) -> None:
    """Raw counters stand in the evidence, figures in the report, a table on both pages, figures for MLflow, and a check decides."""
    chain.policy(checks=[QUALITY, {"kind": "speculation_lossless"}, {"kind": "speculation_acceptance", "minimum": 0.5, "tier": "advisory"}])
    done = chain.run(variants=FAST, levers={"speculation": SPECULATION})
    assert done.code == 0, done.err
    assert "Speculation with self:int8 is faster than plain decoding" in " ".join(done.out.split())
    evidence = json.loads((chain.last / "evidence.json").read_text(encoding="utf-8"))["body"]["speculation"]
    assert [one["drafter"] for one in evidence] == ["prompt_lookup", "self:int8", "model:small"]
    assert all(one["emitted"] == one["accepted"] + one["steps"] for run in evidence for one in run["passes"])
    rows = report_of(chain.last)["speculation"]
    assert [(one["draft_tokens"], one["batch_size"]) for one in rows[1]["figures"]] == [(2, 1), (4, 1), (2, 4), (4, 4)]
    assert (rows[0]["draft_weight_bytes"], rows[1]["draft_weight_bytes"]) == (0, 130_000_000)
    assert rows[1]["ceiling_beside"] < rows[1]["ceiling"]
    assert "Speculative decoding" in (chain.last / "report.html").read_text(encoding="utf-8")
    assert "## Speculative decoding" in (chain.last / "report.md").read_text(encoding="utf-8")
    checks = {check["name"]: check["outcome"] for each in report_of(chain.last)["verdicts"] for check in each["checks"]}
    assert checks["speculation_lossless/self:int8"] == "pass"
    assert checks["speculation_acceptance/prompt_lookup"] == "fail"
    figures = {(one.name, one.step) for one in speculation_of(rundir.decode(Report, (chain.last / "report.json").read_text()))}
    assert ("levers/speculation/self:int8/draft_4/acceptance", 4) in figures
    assert ("levers/speculation/self:int8/ceiling_beside", 0) in figures
    assert [one for one in stages_of(chain.last)["float32"] if one.startswith("speculate")][1] == "speculate self:int8"


def test_a_required_check_on_speculation_blocks(chain: Chain) -> None:
    """A drafter that is slower than asked for keeps the variant that drafts from going out; stored runs are judged alike."""
    chain.policy(checks=[QUALITY, {"kind": "speculation_speed_ratio", "minimum": 50.0}])
    done = chain.run(variants=FAST, levers={"speculation": {**SPECULATION, "drafters": [{"self": "int8"}]}})
    assert done.code == 1
    assert "times its plain speed" in done.out
    policy = chain.policy("other.yaml", checks=[QUALITY, {"kind": "speculation_speed_ratio", "minimum": 1.0}])
    assert chain.cli("judge", chain.last, "--policy", policy).code == 0


def test_a_drafter_that_cannot_draft_takes_nothing_along(chain: Chain) -> None:
    """A variant that was not built is told as the reason, and the run goes on; a demand on it is not measured."""
    broken = candidate("int4", bits=4, fault="crash")
    levers = {"speculation": {**SPECULATION, "drafters": [{"self": "int4"}, {"self": "int2"}]}}
    done = chain.run(variants=[*FAST, broken], levers=levers)
    assert done.code == 0, done.err
    rows = report_of(chain.last)["speculation"]
    assert "was not built" in rows[0]["why_not"]
    assert "simulated" in rows[1]["why_not"]
    policy = chain.policy("other.yaml", checks=[QUALITY, {"kind": "speculation_lossless"}])
    assert chain.cli("judge", chain.last, "--policy", policy).code == 4


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"prompts": {"golden_set": "other"}}, "golden set 'other', which the run does not have: sums"),
        ({"max_prompts": 3}, "speculation is asked for at batch 4, and golden set sums gives 3 prompts"),
        ({"drafters": [{"model": {"name": "gone", "path": "gone"}}]}, "there is no folder or file"),
    ],
)
def test_speculation_is_refused_before_anything_is_measured(chain: Chain, changes: dict[str, Any], said: str) -> None:
    """Prompts and models that are not there: exit 2, and no run folder."""
    done = chain.run(levers={"speculation": {**SPECULATION, **changes}})
    assert done.code == 2
    assert said in " ".join(done.err.split())
    assert not chain.runs


def test_a_cache_in_fewer_bits_is_a_variant_like_any_other(chain: Chain) -> None:
    """The reference's weights with another cache are no copy; they hold more requests, and every variant is scored through its cache."""
    chain.policy(checks=[QUALITY], objective="ceiling")
    workload = {"prompt_tokens": 256, "output_tokens": 64, "batch_sizes": [1], "max_batch": 60, "fill_repeats": 1}
    done = chain.run(variants=[REFERENCE, KV4, CONTROL], workload=workload)
    assert done.code == 0, done.out + done.err
    row = next(one for one in report_of(chain.last)["measurements"] if one["variant"] == "kv4")
    assert (row["scheme"], row["kv_bytes"]["measured_bytes"]) == ("float-kv4", row["kv_bytes"]["arithmetic_bytes"])
    assert row["ceiling"]["confirmed"] > 1.5 * report_of(chain.last)["measurements"][0]["ceiling"]["confirmed"]
    assert "cache\n  4 bits (torch)" in chain.cli("show", chain.last, "--variant", "kv4").out
    assert "Caches in fewer bits" in (chain.last / "report.html").read_text(encoding="utf-8")
    kept = chain.run(variants=[REFERENCE, {**KV4, "kv_cache": {"bits": 8}}, CONTROL], workload=workload)
    assert kept.code == 0
    reused = next(one for one in report_of(chain.last)["measurements"] if one["variant"] == "kv4")["reused"]
    assert reused == ["quantize"], "nothing that was measured with another cache is used again"


@pytest.mark.slow
def test_the_real_engine_through_the_whole_gate(chain: Chain) -> None:
    """A small trained model with its cache in 8 bits: the reference's weights, other log-likelihoods, and no loss that counts."""
    speculators.train(chain.root / "model", hidden=32, layers=2, steps=60)
    colours, ends = speculators.COLOURS, ["box.", "cow.", "hat.", "the"]
    rows = [
        {
            "id": f"box-{number}", "slice": "all", "template": "raw", "metric": "multiple_choice", "answer": number % 4,
            "prompt": " ".join(f"the {colours[(number + step) % 4]} box." for step in range(number // 4)) + f" the {colours[number % 4]}",
            "choices": ends[-(number % 4) :] + ends[: -(number % 4)] if number % 4 else ends,
        }
        for number in range(24)
    ]  # fmt: skip
    write_golden(chain.root / "golden" / "words" / "v1", rows)
    chain.policy(checks=[{"kind": "quality", "margin": 0.25}], require_controls=False, objective="smallest_loss")
    done = chain.run(
        "--allow-underpowered",
        model={"name": "tiny", "path": "model"},
        device={"kind": "cpu", "threads": 1, "memory_budget": "64MiB"},
        engine="transformers",
        variants=[
            {"name": "float32", "role": "reference", "quantizer": "reference"},
            {"name": "kv8", "quantizer": "reference", "kv_cache": {"bits": 8}},
        ],
        golden_sets=["golden/words/v1"],
        workload={"prompt_tokens": 8, "output_tokens": 4, "batch_sizes": [1], "max_batch": 1, "fill_repeats": 1},
    )
    row = report_of(chain.last)["measurements"][1]
    assert (row["scheme"], row["kv_bytes"]["measured_bytes"]) == ("float-kv8", row["kv_bytes"]["arithmetic_bytes"])
    checks = {one["name"]: one["outcome"] for one in report_of(chain.last)["verdicts"][1]["checks"]}
    assert (checks["ran"], checks["distinct"]) == ("pass", "pass"), done.out
    assert verdicts_of(chain.last)["kv8"] == "pass", done.out
    stored = json.loads((chain.last / "evidence.json").read_text(encoding="utf-8"))["body"]["variants"]
    assert stored[0]["loaded"]["weights_sha256"] == stored[1]["loaded"]["weights_sha256"]
    assert {one["sheets"][0]["conditions"]["layout"] for one in stored} == {"cached"}


def test_a_resumed_run_goes_on_with_its_speculation(chain: Chain) -> None:
    """What was measured of a drafter is kept in the run's folder and read from there; a run of its own measures anew."""
    asked = {"variants": FAST, "levers": {"speculation": {**SPECULATION, "drafters": ["prompt_lookup"]}}}
    assert chain.run(**asked).code == 0
    path = chain.last / "levers" / "speculation" / "prompt_lookup.json"
    before = path.stat().st_mtime_ns
    assert chain.run("--resume", chain.last, **asked).code == 0
    assert path.stat().st_mtime_ns == before
