"""`quantgate plan`: what a config would do, exit 0 where it works and 2 where it cannot, and nothing is measured."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tiny
from chain import CONTROL, REFERENCE, Chain, candidate, verdicts_of
from quantgate import planning
from quantgate.records import Variant

ROOT = Path(__file__).resolve().parents[2]
DRAWN = {"count": 4, "prompt_tokens": 6, "output_tokens": 4}


def test_a_config_that_works(chain: Chain) -> None:
    """Every variant, what the golden set resolves, the disk; no run folder and no cache afterwards."""
    done = chain.cli("plan", chain.config())
    assert done.code == 0, done.err
    for part in ("float32", "int8", "int2", "quality/sums", "240", "free", "Nothing stands against it"):
        assert part in done.out
    assert not chain.reports.exists() and not (chain.root / "cache").exists()


def test_times_come_from_earlier_runs_of_this_machine(chain: Chain) -> None:
    """After a run the stages have times, and they are summed."""
    assert "time: not known" in chain.cli("plan", chain.config()).out
    assert chain.run().code == 0
    found = json.loads(chain.cli("plan", chain.config(), "--json").out)
    stages = {stage["stage"]: stage["seconds"] for one in found["variants"] if one["variant"] == "int8" for stage in one["stages"]}
    assert stages["capacity"] > 0 and stages["score sums"] is not None and stages["quantize"] is not None
    assert found["seconds"] > 0
    assert "time of int8: " in chain.cli("plan", chain.config()).out


def test_json_holds_what_the_text_says(chain: Chain) -> None:
    """One document, units in the names, unknown as null."""
    found = json.loads(chain.cli("plan", chain.config(), "--json").out)
    assert {one["variant"] for one in found["variants"]} == {"float32", "int8", "int2"}
    assert [one["weight_bytes"] for one in found["variants"]] == [400_000_000, 130_000_000, None]
    assert found["budget_bytes"] == 450_000_000
    assert found["disk_free_bytes"] > 0
    assert (found["refusals"], found["golden_sets"][0]["items"]) == ([], 240)


def test_what_cannot_work_is_refused(chain: Chain) -> None:
    """A golden set too small for its margin, and no control where one is demanded: each named, exit 2, both in the JSON too."""
    chain.policy(checks=[{"kind": "quality", "margin": 0.01}])
    path = chain.config(variants=[REFERENCE, candidate()])
    done = chain.cli("plan", path)
    assert done.code == 2
    assert "This cannot work:" in done.out and "known-bad control" in done.out and "--allow-underpowered" in done.out
    found = json.loads(chain.cli("plan", path, "--json").out)
    assert len(found["refusals"]) == 3  # too few items to pass, to tell noise from loss, and no control
    assert chain.cli("plan", path, "--allow-underpowered").code == 2
    assert chain.cli("plan", chain.config(variants=[REFERENCE, candidate(), CONTROL]), "--allow-underpowered").code == 0


@pytest.mark.parametrize(
    ("levers", "said"),
    [
        ({"batching": {"drawn": DRAWN, "rows": 2, "engines": ["fake"], "arrivals": ["given"]}},
         "'given' needs 'arrives_s'"),
        ({"batching": {"requests": "none.jsonl", "rows": 2, "engines": ["fake"]}}, "none.jsonl"),
    ],
)  # fmt: skip
def test_a_lever_that_cannot_be_measured_is_refused(chain: Chain, levers: dict[str, Any], said: str) -> None:
    """Requests and prompts that a run would refuse before anything is measured: exit 2, as by the run."""
    done = chain.cli("plan", chain.config(levers=levers))
    assert done.code == 2
    assert said in " ".join(done.out.split())


def test_levers_are_told(chain: Chain) -> None:
    """What would be measured beside quantization, how long it took before, and an engine whose interpreter is not there."""
    there, missing = {"name": "fake"}, {"name": "vllm", "python": "none/python"}
    batching = {"drawn": DRAWN, "rows": 2, "engines": [there]}
    speculation = {"prompts": {"golden_set": "sums"}, "drafters": ["prompt_lookup"]}
    asked = chain.config(levers={"batching": batching, "speculation": speculation})
    assert "time not known" in chain.cli("plan", asked).out
    assert chain.cli("run", asked).code in (0, 1)
    found = json.loads(chain.cli("plan", asked, "--json").out)["levers"]
    assert [(one["lever"], one["why_not"], one["runs"]) for one in found] == [("batching", None, 1), ("speculation", None, 1)]
    assert all(one["seconds"] > 0 for one in found)
    done = chain.cli("plan", chain.config(levers={"batching": {**batching, "engines": [there, missing]}}))
    assert done.code == 0 and "batching by vllm: not run, there is no interpreter" in done.out


def test_a_mistake_in_the_config_is_one_line(chain: Chain) -> None:
    """A config that cannot be read is refused as by run."""
    done = chain.cli("plan", chain.config(engine="fak"))
    assert (done.code, done.out) == (2, "")
    assert "did you mean" in done.err


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"device": {"kind": "cpu", "memory_budget": "100kB"}}, "raise device.memory_budget"),
        ({"model": {"name": "m", "path": "nowhere"}}, "nowhere"),
        ({"variants": ["bits: 5"]}, "bits is 5"),
        ({"variants": ["group:48"]}, "group size 48"),
    ],
)
def test_a_real_engine_is_asked_before_anything_is_loaded(chain: Chain, changes: dict, named: str) -> None:  # type: ignore[type-arg]
    """Sizes from the model's files; a budget nothing fits into, a model that is not there and a scheme that cannot be: exit 2."""
    tiny.llama(chain.root / "model")
    reference = {"name": "float32", "role": "reference", "quantizer": "reference"}
    nf4 = {"name": "nf4", "quantizer": "bitsandbytes", "bits": 4, "granularity": "group:64"}
    rtn = {"name": "rtn2", "role": "known_bad", "quantizer": "rtn", "bits": 2, "granularity": "group:32"}
    values = {"model": {"name": "m", "path": "model"}, "device": "cpu", "engine": "transformers", "variants": [reference, nf4, rtn]}
    works = chain.cli("plan", chain.config(**values))
    assert works.code == 0, works.out
    if changes.get("variants") == ["bits: 5"]:
        changes = {"variants": [reference, {**nf4, "bits": 5}, rtn]}
    if changes.get("variants") == ["group:48"]:
        changes = {"variants": [reference, nf4, {**rtn, "granularity": "group:48"}]}
    done = chain.cli("plan", chain.config(**{**values, **changes}))
    assert done.code == 2
    assert named in done.out, done.out


def test_the_configs_of_this_repository_are_planned() -> None:
    """smoke.yaml works as it stands."""
    assert Chain(root=ROOT).cli("plan", ROOT / "configs/smoke.yaml").code == 0


RTN = {"name": "rtn2", "role": "known_bad", "quantizer": "rtn", "bits": 2, "granularity": "group:32"}
SHAPES = {
    "model_type": "llama", "num_hidden_layers": 4, "hidden_size": 2048, "intermediate_size": 6144, "num_attention_heads": 16,
    "num_key_value_heads": 16, "vocab_size": 1000, "tie_word_embeddings": True,
}  # fmt: skip
"""A model of 218 million weights in its layers."""


def test_libraries_that_announce_themselves_are_not_heard(
    chain: Chain, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """What a library writes past Python's streams while it is loaded is not part of the plan; what is written afterwards is there."""

    def loud(config: Any) -> Any:
        os.write(2, b"no kernels for this machine\n")
        return heard(config)

    heard = planning._device
    monkeypatch.setattr(planning, "_device", loud)
    assert chain.cli("plan", chain.config()).code == 0
    os.write(2, b"afterwards\n")
    assert capfd.readouterr().err == "afterwards\n"


def test_what_does_not_fit_the_budget_is_not_run(chain: Chain) -> None:
    """Planned and run alike: 8-bit weights over the budget are refused before they are built, with the width that fits; 4 bits are run."""
    (chain.root / "shapes").mkdir()
    (chain.root / "shapes" / "config.json").write_text(json.dumps(SHAPES))
    device = {"kind": "fake", "threads": 1, "memory_budget": "210MB"}
    variants = [REFERENCE, candidate(), candidate("int4", bits=4), CONTROL]
    values = {"model": {"name": "m", "path": "shapes"}, "variants": variants, "device": device}
    why = "its weights alone take at least 226 MB at 8 bits, and there are 210 MB: the largest width whose weights fit is 6 bits"
    planned = chain.cli("plan", chain.config(**values))
    assert planned.code == 2
    assert f"variant int8: {why}; or raise device.memory_budget: 227," in planned.out
    assert "float32: no request fits beside its weights within the budget; it is scored" in planned.out
    assert "int4: " not in planned.out.partition("This cannot work")[2]
    done = chain.run(**values)
    assert done.code == 0, done.err
    assert verdicts_of(chain.last)["int8"] == "not_measured"
    assert verdicts_of(chain.last)["int4"] == "pass"
    assert f"not run: {why}" in (chain.last / "report.md").read_text(encoding="utf-8")
    assert chain.run(**values, policy=str(chain.policy("all.yaml", require="all").name)).code == 4


def test_the_table_says_what_the_refusal_says(chain: Chain) -> None:
    """Weights that fit without their scales and not with them: no in the table, and a budget that works in the sentence."""
    (chain.root / "shapes").mkdir()
    (chain.root / "shapes" / "config.json").write_text(json.dumps(SHAPES))
    values: dict[str, Any] = {"model": {"name": "m", "path": "shapes"}}
    device = {"kind": "fake", "threads": 1, "memory_budget": 226_500_000}
    planned = chain.cli("plan", chain.config(**values, device=device))
    assert planned.code == 2
    (row,) = [line for line in planned.out.splitlines() if line.startswith("int8 ")]
    assert row.split()[-2:] == ["0", "no"]
    told = re.search(r"int8: its weights alone take ([\d,]+) bytes, and the budget is 226,500,000: ([\d,]+) bytes would do", planned.out)
    assert told is not None, planned.out
    weights, enough = (int(one.replace(",", "")) for one in told.groups())
    assert weights > 226_500_000
    again = chain.cli("plan", chain.config(**values, device={**device, "memory_budget": enough}))
    (row,) = [line for line in again.out.splitlines() if line.startswith("int8 ")]
    assert row.split()[-2:] == ["1", "yes"]
    assert "int8: " not in again.out.partition("This cannot work")[2]


def test_fakes_say_their_own_weights(chain: Chain) -> None:
    """Where no shapes tell, the weights in a fake's options are held against the budget, as its run would."""
    device = {"kind": "fake", "threads": 1, "memory_budget": "1MB"}
    planned = chain.cli("plan", chain.config(device=device))
    assert planned.code == 2
    assert "variant int8: its weights alone take 130,000,000 bytes, and the budget is 1,000,000: more than 130,000,000" in planned.out
    assert "float32: no request fits beside its weights" in planned.out


def test_what_cannot_pass_is_noted(chain: Chain) -> None:
    """A simulated candidate that must free memory, and a reference at the search cap under a demand on ceilings: notes, and exit 0."""
    tiny.llama(chain.root / "model")
    checks = [{"kind": "quality", "margin": 0.06}, {"kind": "freed_share", "minimum": 0.25}, {"kind": "ceiling_ratio", "minimum": 1.1}]
    chain.policy(checks=checks)
    reference = {"name": "float32", "role": "reference", "quantizer": "reference"}
    nf4 = {"name": "nf4", "quantizer": "bitsandbytes", "bits": 4, "granularity": "group:64"}
    floor = {"name": "rtn4", "quantizer": "rtn", "bits": 4, "granularity": "group:32"}
    values = {"model": {"name": "m", "path": "model"}, "device": "cpu", "engine": "transformers"}
    planned = chain.cli("plan", chain.config(**values, variants=[reference, nf4, floor, RTN]))
    assert planned.code == 0, planned.out
    assert "rtn4: simulated, its rounded weights stay in float, so the required freed_share and ceiling_ratio are not" in planned.out
    assert "the search ends at 4; where it gets there its ceiling is >= 4" in planned.out
    assert "nf4: " not in planned.out


@pytest.mark.parametrize(("method", "simulated"), [("compressed-tensors", True), ("gptq", False)])
def test_checkpoints_that_are_unpacked_are_simulated(tmp_path: Path, method: str, simulated: bool) -> None:
    """A checkpoint's config says whether it is computed with in float here, a GGUF file's name does; one that is not there says nothing."""
    (tmp_path / "config.json").write_text(json.dumps({"quantization_config": {"quant_method": method}}))
    made = Variant(name="c", quantizer="checkpoint", weight_bits=4, options={"path": str(tmp_path)})
    assert planning._is_simulated(made) is simulated
    assert planning._is_simulated(replace(made, options={"path": str(tmp_path / "model.gguf")}))
    assert not planning._is_simulated(replace(made, options={"path": str(tmp_path / "nowhere")}))


def test_calibration_texts_are_looked_at(chain: Chain) -> None:
    """A file that shares a golden question, and one with fewer tokens than asked for, are refused as the run would refuse them."""
    pytest.importorskip("gptqmodel")
    tiny.llama(chain.root / "model")
    reference = {"name": "float32", "role": "reference", "quantizer": "reference"}
    gptq = {"name": "g4", "quantizer": "gptq", "bits": 4, "granularity": "group:32"}
    texts = chain.root / "texts.txt"
    values = {"model": {"name": "m", "path": "model"}, "device": "cpu", "engine": "transformers", "variants": [reference, gptq, RTN]}
    values["calibration"] = {"name": "mine", "file": "texts.txt", "tokens": 4000}
    texts.write_text("a short text about nothing in particular\n")
    short = chain.cli("plan", chain.config(**values))
    assert short.code == 2
    assert "calibration set mine holds 40 tokens of this model, and 4000 are asked for" in short.out
    first = json.loads((chain.root / "golden/sums/v1/items.jsonl").read_text().splitlines()[0])
    texts.write_text(first["prompt"] + "\n\n" + "".join(f"{one} pears, and somebody asked for more\n\n" for one in range(200)))
    shared = chain.cli("plan", chain.config(**values))
    assert (shared.code, "share the words of 1 items" in shared.out) == (2, True), shared.out
