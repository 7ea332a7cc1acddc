"""Golden sets made from sources, from the config to the verdict, on fakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chain import Chain, items, report_of, reused_of, verdicts_of
from harness import CHOICES, task


def sums(chain: Chain) -> Path:
    """The chain's own sums as rows of another layout."""
    file = chain.root / "sums.jsonl"
    rows = [{"q": one["prompt"], "a": one["answers"][0]} for one in items(400) if "answers" in one]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


def dataset(**changes: Any) -> dict[str, Any]:
    constants = {"template": "raw", "stop": ["\n"], "max_new_tokens": 6}
    values = {"name": "mapped", "path": "sums.jsonl", "columns": {"prompt": "q", "answers": "a"}, "constants": constants}
    return {"datasets": {**values, **changes}}


def test_a_dataset_is_judged_like_any_golden_set(chain: Chain) -> None:
    """Its digest stands in evidence and report; a second run uses the scores again."""
    sums(chain)
    assert chain.run(golden_sets=[dataset()], run_id="one").code == 0
    report = report_of(chain.last)
    assert [(one["name"], one["items"]) for one in report["golden_sets"]] == [("mapped", 200)]
    assert verdicts_of(chain.last) == {"float32": "pass", "int8": "pass", "int2": "fail"}
    evidence = json.loads((chain.last / "evidence.json").read_text(encoding="utf-8"))["body"]
    assert evidence["golden_sets"][0]["sha256"] == report["golden_sets"][0]["sha256"]
    again = chain.run(golden_sets=[dataset()], run_id="two")
    assert again.code == 0 and "score mapped" in reused_of(chain.reports / "two")["int8"] and "other items" not in again.err


def test_an_upstream_that_changed_is_told_and_a_pin_refuses_it(chain: Chain) -> None:
    """B86: other content under the same path is scored anew and said; with a pinned digest nothing is measured."""
    file = sums(chain)
    chain.run(golden_sets=[dataset()], run_id="one")
    known = report_of(chain.last)["golden_sets"][0]["sha256"]
    file.write_text(file.read_text(encoding="utf-8").replace('"q": "', '"q": "Sum: ', 1), encoding="utf-8")
    done = chain.run(golden_sets=[dataset()], run_id="two")
    assert "golden set mapped: its source gives other items than the last time" in done.err
    assert "score mapped" not in reused_of(chain.reports / "two")["int8"]
    done = chain.run(golden_sets=[dataset(sha256=known)], run_id="three")
    assert done.code == 2 and f"the config pins {known}" in done.err
    assert not (chain.reports / "three").exists()


def test_tasks_of_the_harness_are_judged_like_any_golden_set(chain: Chain) -> None:
    """Both candidates of the chain come out as they do on the chain's own set; the sheet says by whose code and metric."""
    pytest.importorskip("lm_eval")
    rows = [{"prompt": one["prompt"], "choices": one["choices"], "answer": one["answer"]} for one in items(600) if "choices" in one]
    task(chain.root, "choose_sum", rows, CHOICES)
    golden = [{"lm_eval": {"tasks": ["choose_sum.yaml"]}}]
    done = chain.run(golden_sets=golden, run_id="one")
    assert done.code == 0, done.err
    assert verdicts_of(chain.last) == {"float32": "pass", "int8": "pass", "int2": "fail"}
    (row,) = report_of(chain.last)["golden_sets"]
    assert (row["name"], row["items"], row["slices"], row["chance_level"]) == ("choose_sum", 300, ["choose_sum"], 0.25)
    stored = json.loads((chain.last / "variants" / "int8" / "score" / "choose_sum.json").read_text(encoding="utf-8"))["body"]
    assert (stored["conditions"]["tasks"], stored["conditions"]["metric"]) == ("lm_eval", "acc")
    assert chain.run(golden_sets=golden, run_id="two").code == 0
    assert "score choose_sum" in reused_of(chain.reports / "two")["int8"]
    assert chain.cli("judge", chain.last, "--policy", chain.policy("other.yaml", why="again")).code == 0


@pytest.mark.parametrize(
    ("entry", "what"),
    [
        ({"datasets": {"name": "x", "hub": "owner/name", "columns": {"prompt": "q"}}}, "run.yaml:.*: a hub dataset needs 'revision'"),
        ({"datasets": {"name": "x", "hub": "o/n", "revision": "main", "columns": {}}}, "revision"),
        ({"datasets": {"name": "x", "columns": {}}}, "exactly one of path and hub; found none"),
        ({"datasets": {"name": "x", "path": "a.csv", "colums": {}}}, "unknown key 'colums': did you mean 'columns'"),
        ({"datasets": {"name": "x", "path": "none.csv", "columns": {}}}, "there is no file"),
        ({"lm_eval": {"tasks": []}}, "tasks"),
        ({"lm_eval": {"tasks": ["none.yaml"]}}, "there is no task"),
        ({"lm_eval": {"tasks": ["a"]}, "datasets": {"name": "x", "path": "a.csv"}}, "one of 'datasets' and 'lm_eval'"),
        ({}, "one of 'datasets' and 'lm_eval'"),
        (7, "golden_sets"),
    ],
)
def test_a_source_that_cannot_be_read_ends_the_run_before_it_begins(chain: Chain, entry: Any, what: str) -> None:
    """Exit 2, what is wrong, and no run folder."""
    if isinstance(entry, dict) and "none.yaml" in str(entry):
        pytest.importorskip("lm_eval")
    done = chain.run(golden_sets=[entry])
    assert done.code == 2
    assert what.split(".*")[-1] in done.err, done.err
    assert chain.runs == []
