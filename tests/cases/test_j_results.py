"""Public bug reports, part J: results as they are stored, and golden sets that change between runs."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from chain import Chain, items, report_of, reused_of, write_golden
from quantgate import plugins, rundir, worker
from quantgate.devices.fake import FakeDevice
from quantgate.errors import EngineError, RunFolderError
from quantgate.measuring import keys
from quantgate.records import DeviceConfig

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


class Card(FakeDevice):
    """A card whose model and driver a test sets."""

    model, driver = "card 80", "550.1"

    def __init__(self, config: DeviceConfig) -> None:
        super().__init__(config)
        self.info = replace(self.info, kind="card", name=self.model, driver=self.driver)


def test_what_another_card_or_driver_gave_is_not_used_again(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same machine and config with another card, or the same card with another driver: built artifacts stay, measurements do not."""
    points = [EntryPoint("card", f"{__name__}:Card", "quantgate.device")]
    monkeypatch.setattr(plugins, "entry_points", lambda group: points if group == "quantgate.device" else [])
    monkeypatch.setitem(sys.modules, __name__, ModuleType(__name__))
    sys.modules[__name__].Card = Card  # type: ignore[attr-defined]
    device = {"kind": "card", "threads": 1, "memory_budget": "450MB"}
    expected = [("card 80", "550.1", False), ("card 80", "550.1", True), ("card 40", "550.1", False), ("card 40", "560.2", False)]
    for model, driver, reused in expected:
        monkeypatch.setattr(Card, "model", model)
        monkeypatch.setattr(Card, "driver", driver)
        done = chain.run(device=device)
        assert done.code == 0, done.err
        stages = reused_of(chain.last)["int8"]
        assert ("capacity" in stages, any(one.startswith("score") for one in stages)) == (reused, reused), stages
    assert "quantize" in stages


def test_what_a_card_without_a_name_gave_is_not_used_again(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that cannot be asked for its name is measured in every run, roofs included, and is no reason to fail."""

    def silent(desk: object, request: object) -> None:
        raise EngineError("the driver does not answer")

    monkeypatch.setattr(keys, "HOST_KINDS", ())
    monkeypatch.setitem(worker.ACTIONS, "device_info", silent)
    for _ in range(2):
        done = chain.run()
        assert done.code == 0, done.err
        assert report_of(chain.last)["roofs"] is not None
        assert not {"load", "capacity"} & set(reused_of(chain.last)["int8"])


def test_b86_a_sealed_golden_set_is_not_edited(chain: Chain) -> None:
    """B86: under a manifest the edited file is refused; as a new version it is another set."""
    changed = [{**row, "slice": "other"} for row in items()]
    folder = chain.root / "golden" / "sums" / "v1"
    (folder / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in changed), encoding="utf-8")
    assert chain.run().code == 2
    write_golden(chain.root / "golden" / "sums" / "v2", changed)
    assert chain.run(golden_sets=["golden/sums/v2"]).code == 0
    assert report_of(chain.last)["golden_sets"][0]["version"] == "v2"
