"""The continuous batching lever through the whole chain on fakes: evidence, report, pages, policy, and what cannot run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from chain import CONTROL, REFERENCE, Chain, candidate, junit_is_green, policy, report_of, verdicts_of
from quantgate import serving
from quantgate.config import load_run
from quantgate.workloads import prepared

ROOT = Path(__file__).parents[2]
DRAWN = {"count": 8, "prompt_tokens": 6, "output_tokens": {"lognormal": {"median": 12, "sigma": 0.9, "most": 40}}}


def levers(**changes: Any) -> dict[str, Any]:
    """Eight requests of unequal lengths through three rows of the fake engine."""
    return {"batching": {"drawn": DRAWN, "rows": 3, "engines": ["fake"], "repeats": 1, **changes}}


def rows(chain: Chain) -> list[dict[str, Any]]:
    """The lever's rows of the last report."""
    found: list[dict[str, Any]] = report_of(chain.last)["batching"]
    return found


def checked(**changes: Any) -> list[dict[str, Any]]:
    """A policy's checks with one on batching."""
    check = {"kind": "batching_utilisation_gain", "minimum": 1.1, **changes}
    return [*policy()["checks"], {key: value for key, value in check.items() if value is not None}]


def test_one_run_holds_static_and_continuous_side_by_side(chain: Chain) -> None:
    """Raw times in the evidence, ratios in the report, the same figures on every page; the verdict is what it was without the lever."""
    done = chain.run(levers=levers(arrivals=["at_once", {"poisson": 20.0}]))
    assert done.code == 0, done.err
    alone, static, continuous, later_static, later = rows(chain)
    assert [alone["mode"], static["mode"], continuous["mode"]] == ["alone", "static", "continuous"]
    assert later["arrivals"] == later_static["arrivals"] == "Poisson, 20 a second"
    assert continuous["steps"] < static["steps"]
    assert continuous["utilisation"] == pytest.approx(continuous["useful_tokens"] / (3 * continuous["steps"]))
    assert continuous["utilisation_gain"] == pytest.approx(continuous["utilisation"] / static["utilisation"])
    assert continuous["differing"] == 0
    runs = json.loads((chain.last / "evidence.json").read_text())["body"]["batching"]
    assert all(len(one["ids"]) == one["requested_tokens"] == len(one["token_s"]) for run in runs for one in run["requests"])
    said = f"continuous batching with fake, all at once, gives {continuous['useful_tokens_per_s']:.0f}"[:55]
    assert said in " ".join(done.out.split())
    markdown = (chain.last / "report.md").read_text()
    assert "## Continuous batching" in markdown
    assert f"{continuous['speed_ratio']:.2f}x" in markdown
    html = (chain.last / "report.html").read_text()
    assert 'id="batching"' in html
    assert "Which row held which request" in html


def test_a_resumed_run_serves_nothing_again(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the run folder holds of the lever is used as it is; nothing of it is taken from another run."""
    assert chain.run(levers=levers()).code == 0
    first = rows(chain)

    def served(*_: object) -> None:
        raise AssertionError("served again")

    monkeypatch.setattr(serving, "_made", served)
    done = chain.cli("run", chain.root / "run.yaml", "--resume", chain.last)
    assert done.code == 0, done.err
    assert rows(chain) == first
    another = chain.run(levers=levers())
    assert another.code == 4
    assert "served again" in another.err


def test_the_config_that_comes_with_it_is_whole() -> None:
    """Its requests are there and of unequal lengths, and every engine is known."""
    config = load_run(ROOT / "configs" / "levers.yaml")
    found = prepared(config.levers.batching, "levers.yaml")
    assert found is not None
    assert len({one.output_tokens for one in found.requests}) > len(found.requests) / 2
    assert [one.name for one in found.engines] == ["transformers", "vllm"]


@pytest.mark.slow
def test_the_same_run_twice_gives_the_same_figures(chain: Chain) -> None:
    """Requests, arrivals and the fake clock follow from the config alone."""
    for _ in range(2):
        assert chain.run(levers=levers(arrivals=[{"poisson": 5.0}], repeats=2)).code == 0
    first, second = (report_of(folder)["batching"] for folder in chain.runs)
    assert first == second
    assert first[-1]["repeats"] == 2


def test_an_engine_without_its_interpreter_is_named_and_the_rest_goes_on(chain: Chain) -> None:
    """The run passes; the report says which engine did not run and why."""
    done = chain.run(levers=levers(engines=["fake", {"name": "vllm", "python": "nowhere/bin/python"}]))
    assert done.code == 0, done.err
    lost = [row for row in rows(chain) if row["engine"] == "vllm"]
    assert {row["mode"] for row in lost} == {"static", "continuous"}
    assert all(row["why_not"].startswith("not run: there is no interpreter ") for row in lost)
    assert all(row["useful_tokens_per_s"] is None for row in lost)
    said = [one for one in report_of(chain.last)["sentences"] if "vllm" in one]
    assert len(said) == 1
    assert "nowhere/bin/python" in said[0]


def test_a_library_that_is_missing_is_named_with_its_install_line(chain: Chain) -> None:
    """Not an error of the run: a row that says what to install."""
    done = chain.run(levers=levers(engines=["vllm"]))
    assert done.code == 0, done.err
    (why,) = {row["why_not"] for row in rows(chain) if row["engine"] == "vllm"}
    assert why.startswith("not run: batcher 'vllm' needs the library 'vllm', which is not installed: pip install 'quantgate[vllm]'")


@pytest.mark.parametrize("fault", ["cuts", "strays"])
def test_what_is_cut_or_strays_is_not_measured(chain: Chain, fault: str) -> None:
    """A policy that asks for a gain blocks a candidate that was served otherwise than alone, and says how."""
    chain.policy(checks=checked())
    broken = candidate("int8", fault=fault)
    done = chain.run(variants=[REFERENCE, broken, CONTROL], levers=levers(variants=["int8"]))
    assert done.code == 4, done.out
    assert verdicts_of(chain.last)["int8"] == "not_measured"
    assert not junit_is_green(chain.last)
    words = {"cuts": r"of \d+ tokens", "strays": "get other ids than alone in float32"}[fault].replace(r"\d+ ", "")
    assert words.split()[-1] in " ".join(report_of(chain.last)["sentences"])


def test_a_policy_may_ask_for_a_gain_and_limit_its_tail(chain: Chain) -> None:
    """Met it passes, missed it fails, and a lever that was not tried on the candidate is not measured."""
    chain.policy(checks=[*checked(), {"kind": "batching_itl_p99_ratio", "maximum": 2.0, "engine": "fake"}])
    assert chain.run(levers=levers(variants=["float32", "int8"])).code == 0
    checks = {one["name"]: one for one in report_of(chain.last)["verdicts"][1]["checks"]}
    assert checks["lever/batching_utilisation_gain/fake"]["outcome"] == "pass"
    assert "times the utilisation of static batches with fake; at least 1.1x is asked for" in (
        checks["lever/batching_utilisation_gain/fake"]["because"]
    )
    assert checks["lever/batching_itl_p99_ratio/fake"]["estimate"] > 0
    done = chain.run(levers=levers())
    assert done.code == 4
    assert "name it under levers.batching.variants" in " ".join(report_of(chain.last)["sentences"])
    chain.policy(checks=checked(minimum=9.0))
    assert chain.run(levers=levers(variants=["int8"])).code == 1


@pytest.mark.slow
def test_a_check_of_one_engine_can_be_waived(chain: Chain) -> None:
    """By its name, for one variant; without an engine the check has no name beforehand and the waiver is refused."""
    waiver = {"check": "lever/batching_utilisation_gain/fake", "variant": "int8", "owner": "me", "reason": "why", "expires": "2999-01-01"}
    chain.policy(checks=checked(minimum=9.0, engine="fake"), waivers=[waiver])
    assert chain.run(levers=levers(variants=["int8"])).code == 0
    chain.policy(checks=checked(minimum=9.0), waivers=[waiver])
    refused = chain.run(levers=levers(variants=["int8"]))
    assert refused.code == 2
    assert "the policy has no required check 'lever/batching_utilisation_gain/fake'" in refused.err


def test_a_text_longer_than_the_context_is_not_run_and_named(chain: Chain) -> None:
    """Its length is known once the tokenizer is there: no figures, and the request by name."""
    line = json.dumps({"prompt": "long " * 900, "output_tokens": 10})
    (chain.root / "long.jsonl").write_text(line + "\n")
    done = chain.run(levers={"batching": {"requests": "long.jsonl", "engines": ["fake"]}})
    assert done.code == 0, done.err
    assert all("request r1 of the batching workload has" in row["why_not"] for row in rows(chain))


@pytest.mark.slow
def test_an_engine_whose_run_was_ended_is_not_asked_again(chain: Chain) -> None:
    """What the cap left unfinished would run on beside the next run; our own static batches leave nothing behind and are tried again."""
    done = chain.run(levers=levers(arrivals=["at_once", {"poisson": 1000.0}], time_cap=0.05))
    assert done.code == 0, done.err
    reasons = {(row["mode"], row["arrivals"]): row["why_not"] for row in rows(chain)}
    assert "was ended after the time cap of 0.05 s" in reasons["static", "Poisson, 1000 a second"]
    assert "was ended after the time cap of 0.05 s" in reasons["continuous", "all at once"]
    assert reasons["continuous", "Poisson, 1000 a second"].startswith("not run: an earlier run of this engine was ended")


def test_a_simulated_variant_is_not_served(chain: Chain) -> None:
    """Its weights are rounded and kept in float: what it is served in says nothing of its speed."""
    assert chain.run(levers=levers(variants=["int2"])).code == 0
    assert {row["why_not"] for row in rows(chain)} == {
        "not run: its weights are rounded and kept in float, and such a variant is never timed"
    }


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"drawn": {**DRAWN, "output_tokens": 0}}, r"levers\.batching\.drawn\.output_tokens.*must be greater than or equal to 1; found 0"),
        ({"arrivals": [{"poisson": -1.0}]}, r"levers\.batching\.arrivals\.0\.poisson: must be greater than 0; found -1"),
        ({"arrivals": ["at_one"]}, r"levers\.batching\.arrivals\.0: did you mean 'at_once'\? must be 'at_once' or 'given'"),
        ({"engines": ["vlm"]}, r"unknown batcher 'vlm': did you mean vllm\?"),
        ({"requests": "none.jsonl", "drawn": None}, r"none\.jsonl: no such file of requests"),
        ({"variants": ["int9"]}, r"the run has no variant 'int9': did you mean 'int8'\?"),
        ({"requests": "a.jsonl"}, r"the requests come from one of 'requests', a file, and 'drawn'.*; found both"),
        ({"drawn": None}, r"found neither"),
        ({"engines": ["fake", "fake"]}, r"'fake' stands twice"),
        ({"rows": 0}, r"levers\.batching\.rows: must be greater than or equal to 1; found 0"),
        ({"drawn": {**DRAWN, "output_tokens": {"uniform": [9, 3]}}}, r"the shortest length 9 lies above the longest 3"),
        ({"drawn": {**DRAWN, "output_tokens": {}}}, r"lengths are a number, 'uniform' or 'lognormal'"),
        ({"row": 2}, r"unknown key 'row': did you mean 'rows'\?"),
    ],
)
def test_every_bad_input_is_one_line_and_exit_2(chain: Chain, changes: dict[str, Any], said: str) -> None:
    """Before anything is measured: what was found, where, and what is allowed."""
    section = {key: value for key, value in levers(**changes)["batching"].items() if value is not None}
    done = chain.run(levers={"batching": section})
    assert done.code == 2
    (line,) = done.err.strip().splitlines()
    assert re.search(said, line), line
    assert not chain.runs


def test_a_cache_in_fewer_bits_is_served_by_its_own_engine_alone(chain: Chain) -> None:
    """The variant's own process keeps its cache as asked; another way of serving would keep one of its own and is not run."""
    kv4 = {"name": "kv4", "quantizer": "fake", "kv_cache": {"bits": 4}, "options": {"weight_bytes": 400_000_000}}
    chain.run(variants=[REFERENCE, kv4, CONTROL], levers=levers(variants=["kv4"]))
    alone, static, continuous = rows(chain)
    assert (alone["why_not"], static["why_not"]) == (None, None) and static["useful_tokens"]
    assert continuous["why_not"] == f"not run: {serving.KEEPS_ITS_OWN_CACHE}"
