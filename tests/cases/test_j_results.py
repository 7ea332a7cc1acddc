"""Public bug reports, part J: results as they are stored, and golden sets that change between runs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from chain import Chain, items, report_of, reused_of, write_golden
from quantgate import rundir
from quantgate.errors import RunFolderError

RESULTS: dict[str, Any] = {"acc": np.float32(2 / 3), "ok": np.bool_(True), "kl": float("nan"), "n": np.int64(3)}


@dataclass(frozen=True, kw_only=True, slots=True)
class Baseline:
    """A stored figure."""

    acc: float | None
    why: str = ""


@pytest.mark.parametrize("name", RESULTS)
def test_b85_what_is_no_json_is_never_written(name: str) -> None:
    """B85: a numpy scalar or NaN is an error before anything is written, not a quoted string or a bare NaN token."""
    with pytest.raises((TypeError, ValueError)):
        rundir.encode({name: RESULTS[name]})


def test_b85_plain_values_are_strict_json() -> None:
    """B85: numbers are numbers, truth is truth, unknown is null with its reason."""
    text = rundir.encode(
        {
            "acc": float(RESULTS["acc"]),
            "ok": bool(RESULTS["ok"]),
            "kl": None,
            "why": "not finite",
            "n": int(RESULTS["n"]),
        }
    )
    assert json.loads(text) == {"acc": pytest.approx(2 / 3), "ok": True, "kl": None, "why": "not finite", "n": 3}


def test_b85_a_number_in_quotes_is_not_read() -> None:
    """B85: a baseline with "acc": "0.6667" is refused, never compared as text."""
    with pytest.raises(RunFolderError, match="acc"):
        rundir.decode(Baseline, '{"acc": "0.6667", "why": ""}')
    assert rundir.decode(Baseline, '{"acc": 0.6667, "why": ""}').acc == 0.6667


def test_b86_a_golden_set_edited_between_two_runs(chain: Chain) -> None:
    """B86: the digest and the number of items stand in every run; an edited file at the same path is scored anew."""
    path = chain.root / "set.jsonl"
    rows = items()
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert chain.run(golden_sets=["set.jsonl"]).code == 0
    first = report_of(chain.last)["golden_sets"][0]
    rows[0] = {**rows[0], "prompt": "11 + 22 =", "choices": ["33", "34"], "answer": 0}
    path.write_text("".join(json.dumps(row) + "\n" for row in rows[:-1]), encoding="utf-8")
    assert chain.run(golden_sets=["set.jsonl"]).code == 0
    second = report_of(chain.last)["golden_sets"][0]
    assert (first["items"], second["items"]) == (len(rows), len(rows) - 1)
    assert first["sha256"] != second["sha256"]
    assert [stage for stage in reused_of(chain.last)["int8"] if "set" not in stage] == ["quantize", "load", "capacity"]
    assert not [stage for stage in reused_of(chain.last)["int8"] if "set" in stage]


def test_b15_a_search_that_ran_out_of_time_is_made_again(chain: Chain) -> None:
    """The ceiling that a busy machine cut short is no other run's; one that was found is."""
    short = {"prompt_tokens": 8, "output_tokens": 8, "max_batch": 4, "fill_repeats": 1, "fill_budget": "0.0001s"}
    for _ in range(2):
        assert chain.run(workload=short).code == 0
        assert [one["ceiling"]["limited_by"] for one in report_of(chain.last)["measurements"] if one["ceiling"]] == ["time"] * 2
        assert "capacity" not in reused_of(chain.last)["int8"]
    for expected in (False, True):
        chain.run(workload={**short, "fill_budget": "1min"})
        assert ("capacity" in reused_of(chain.last)["int8"]) is expected


def test_b86_a_sealed_golden_set_is_not_edited(chain: Chain) -> None:
    """B86: under a manifest the edited file is refused; as a new version it is another set."""
    changed = [{**row, "slice": "other"} for row in items()]
    folder = chain.root / "golden" / "sums" / "v1"
    (folder / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in changed), encoding="utf-8")
    assert chain.run().code == 2
    write_golden(chain.root / "golden" / "sums" / "v2", changed)
    assert chain.run(golden_sets=["golden/sums/v2"]).code == 0
    assert report_of(chain.last)["golden_sets"][0]["version"] == "v2"
