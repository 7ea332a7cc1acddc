"""Logs of Inspect: values, epochs, scorers, and what makes a log no evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import foreign
from quantgate.errors import BrokenResults, ResultsError
from quantgate.readers.inspect import InspectReader
from quantgate.records import ReadOptions, Results


def read(tmp_path: Path, log: dict[str, Any], **options: str) -> Results:
    """A log written and read."""
    return InspectReader().read(foreign.write_json(tmp_path / "log.json", log), ReadOptions(**options))


def test_values(tmp_path: Path) -> None:
    """The values that Inspect itself counts with; NaN and null are its signs for an item that was not scored."""
    (task,) = read(tmp_path, foreign.inspect_log(["C", "I", "P", "N", 1, 0.25, True, float("nan"), None])).tasks
    assert [item.value for item in task.items] == [1, 0, 0.5, 0, 1, 0.25, 1, None, None]
    assert task.items[7].why_unscored == "0 of 1 epochs have a score"
    assert not any(item.evidence.nonfinite for item in task.items)
    assert (task.name, task.metric, task.items[0].slice) == ("sums", "match", "plain")


def test_epochs_become_one_item(tmp_path: Path) -> None:
    """An item asked three times is one item with the mean, never three; one epoch without a score leaves it without."""
    log = foreign.inspect_log(["C", "C", "C", "I", "C", "I", "C", None, "C"], epochs=3)
    results = read(tmp_path, log)
    (task,) = results.tasks
    assert [item.value for item in task.items] == [1, pytest.approx(1 / 3), None]
    assert task.items[2].why_unscored == "2 of 3 epochs have a score"
    assert task.conditions["epochs"] == 3
    assert "mean over 3 epochs" in results.notes[0]


def test_an_epoch_that_is_missing(tmp_path: Path) -> None:
    """The log says how many epochs there were: an item with fewer is not scored by those that are left."""
    log = foreign.inspect_log(["C", "C", "C", "C"], epochs=2)
    log["samples"].pop()
    (task,) = read(tmp_path, log).tasks
    assert [item.value for item in task.items] == [1, None]


def test_an_epoch_that_stands_twice(tmp_path: Path) -> None:
    """The item stands twice then, so that the gate refuses it, and a note names it."""
    log = foreign.inspect_log(["C", "I"])
    log["samples"].append(log["samples"][0])
    results = read(tmp_path, log)
    assert [item.item_id for item in results.tasks[0].items] == ["1", "2", "1"]
    assert "sample '1' stands twice" in results.notes[-1]


def test_several_scorers_must_be_named(tmp_path: Path) -> None:
    """Also one value of a scorer that gives several."""
    log = foreign.inspect_log(["C", "I"])
    for sample in log["samples"]:
        sample["scores"]["judge"] = {"value": {"style": 0, "fact": 1}}
    with pytest.raises(ResultsError, match=r"scores: the log has match, judge; name one of them with --metric"):
        read(tmp_path, log)
    with pytest.raises(ResultsError, match=r"found an object, .* --metric judge\.KEY"):
        read(tmp_path, log, metric="judge")
    with pytest.raises(ResultsError, match="not 'rouge'"):
        read(tmp_path, log, metric="rouge")
    assert [item.value for item in read(tmp_path, log, metric="judge.fact").tasks[0].items] == [1, 1]


def test_choices_give_the_chance_level(tmp_path: Path) -> None:
    """1 / choices where every sample has some, unknown otherwise."""
    log = foreign.inspect_log(["C", "I"])
    assert read(tmp_path, log).tasks[0].chance_level is None
    for sample, choices in zip(log["samples"], (["a", "b"], ["a", "b", "c", "d"]), strict=True):
        sample["choices"] = choices
    assert read(tmp_path, log).tasks[0].chance_level == pytest.approx(0.375)


def test_how_it_was_asked_is_stated(tmp_path: Path) -> None:
    """Temperature, solvers and questions must be alike; the model may not be."""
    one = read(tmp_path, foreign.inspect_log(["C"])).tasks[0]
    warmer = foreign.inspect_log(["C"])
    warmer["eval"]["model_generate_config"]["temperature"] = 1.0
    warmer["eval"]["model"] = "other"
    warmer["eval"]["model_generate_config"]["max_connections"] = 4
    two = read(tmp_path, warmer).tasks[0]
    assert {field for field in one.conditions if one.conditions[field] != two.conditions[field]} == {
        "model_generate_config"
    }
    assert set(one.marks) == {"input", "target"}


def test_a_long_setting_is_compared_to_its_end(tmp_path: Path) -> None:
    """A report shows the beginning of a long text; its digest tells two apart that differ behind it."""
    texts = []
    for end in "ab":
        log = foreign.inspect_log(["C"])
        log["plan"]["steps"][0]["params"] = {"template": "x" * 500 + end}
        texts.append(str(read(tmp_path, log).tasks[0].conditions["plan"]))
    assert texts[0] != texts[1] and max(map(len, texts)) < 200


@pytest.mark.parametrize("status", ["cancelled", "error", "started", None])
def test_a_log_that_did_not_end_well(tmp_path: Path, status: str | None) -> None:
    """It lacks items that nobody can know of: broken evidence, exit code 4."""
    with pytest.raises(BrokenResults, match=r"log\.json: status: the log's status is"):
        read(tmp_path, foreign.inspect_log(["C"], status=status))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"samples": []}, "samples: none"),
        ({"samples": [{"epoch": 1}]}, r"samples\[0\]\.id: missing"),
        (
            {"samples": [{"id": 1, "epoch": "1", "scores": {"match": {"value": "C"}}}]},
            "sample 1: epoch: found the string '1'",
        ),
        (
            {"samples": [{"id": 1, "scores": {"match": {"value": "0.6667"}}}]},
            r"sample 1: scores\.match\.value: found the string '0\.6667'",
        ),
        ({"samples": [{"id": 1, "scores": {}}]}, "scores: the log has no score"),
        ({"eval": {}}, r"eval\.task: missing"),
    ],
)
def test_what_is_refused(tmp_path: Path, change: dict[str, Any], what: str) -> None:
    """One line that names file, sample and field."""
    with pytest.raises(ResultsError, match=r"log\.json: " + what):
        read(tmp_path, foreign.inspect_log(["C"], **change))


def test_the_binary_format(tmp_path: Path) -> None:
    """``.eval`` is named for what it is, with the command that converts it."""
    path = tmp_path / "log.eval"
    path.write_bytes(b"PK\x03\x04")
    assert InspectReader().recognises(path)
    with pytest.raises(ResultsError, match=r"inspect log convert log\.eval --to json"):
        InspectReader().read(path, ReadOptions())


def test_a_file_that_was_cut_off(tmp_path: Path) -> None:
    """The line where it ends."""
    path = foreign.write_json(tmp_path / "log.json", foreign.inspect_log(["C", "I"]))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ResultsError, match=r"log\.json:\d+: invalid JSON"):
        InspectReader().read(path, ReadOptions())
