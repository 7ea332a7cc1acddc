"""Samples of lm-evaluation-harness: which line counts, what is read of it, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import foreign
from quantgate.errors import ResultsError
from quantgate.readers.lm_eval import LmEvalReader
from quantgate.records import ReadOptions, TaskResults


def read(path: Path, **options: str) -> TaskResults:
    """The one task of a file."""
    (task,) = LmEvalReader().read(path, ReadOptions(**options)).tasks
    return task


@foreign.real_files
@pytest.mark.parametrize(("name", "acc", "acc_norm"), [("fp32", 199, 190), ("int8", 206, 193), ("nf4", 185, 185)])
def test_a_real_file(name: str, acc: int, acc_norm: int) -> None:
    """Every item of a real file is read: the sums are those that the harness itself gave, and the log-likelihoods are numbers."""
    path = foreign.LM_EVAL_FILES / f"mc400-{name}.jsonl"
    task = read(path)
    assert (len(task.items), sum(item.value or 0 for item in task.items)) == (400, acc)
    assert sum(item.value or 0 for item in read(path, metric="acc_norm").items) == acc_norm
    assert {item.slice for item in task.items} == {"hyperbaton", "movie_recommendation", "date_understanding", "snarks"}
    row = json.loads(path.read_text(encoding="utf-8").splitlines()[7])
    assert task.items[7].evidence.loglikelihoods == tuple(float(one[0]) for one in row["filtered_resps"])
    assert task.marks["prompt_hash"]["7"] == row["prompt_hash"]


@foreign.real_files
def test_the_chance_level_of_a_real_file() -> None:
    """Guessing is the mean of 1 / choices over the items, one of which has a single choice."""
    path = foreign.LM_EVAL_FILES / "mc400-fp32.jsonl"
    choices = [len(json.loads(line)["doc"]["choices"]) for line in path.read_text(encoding="utf-8").splitlines()]
    assert read(path).chance_level == pytest.approx(sum(1 / one for one in choices) / 400)


def test_the_task_is_in_the_name_of_the_file(tmp_path: Path) -> None:
    """``samples_<task>_<time>.jsonl`` names the task, underscores included; another name says nothing."""
    named = foreign.lm_eval(tmp_path / "samples_arc_easy_2026-11-29T17-29-00.123456.jsonl", [1, 0])
    assert read(named).name == "arc_easy"
    assert read(foreign.lm_eval(tmp_path / "int8.jsonl", [1, 0])).name == ""


def test_a_folder_of_several_tasks(tmp_path: Path) -> None:
    """Each task's file is read; a task that is there twice is refused."""
    folder = tmp_path / "out"
    for task in ("arc_easy", "boolq"):
        foreign.lm_eval(folder / "model" / f"samples_{task}_2026-11-29T17-29-00.1.jsonl", [1, 0, 1])
    results = LmEvalReader().read(folder, ReadOptions())
    assert [task.name for task in results.tasks] == ["arc_easy", "boolq"]
    foreign.lm_eval(folder / "model" / "samples_boolq_2026-11-30T17-29-00.1.jsonl", [1])
    with pytest.raises(ResultsError, match=r"out: holds task boolq twice"):
        LmEvalReader().read(folder, ReadOptions())


def test_the_metric(tmp_path: Path) -> None:
    """``acc`` first, then ``exact_match``, then the first that is 0 or 1 throughout; a name that is not there is refused with what is."""
    path = foreign.lm_eval(tmp_path / "a.jsonl", [1, 0], metrics=["f1", "exact_match"], exact_match=1.0, f1=0.5)
    assert read(path).metric == "exact_match"
    path = foreign.lm_eval(tmp_path / "b.jsonl", [1, 0], metrics=["f1", "right"], right=1.0, f1=0.5)
    assert read(path).metric == "right"
    assert read(path, metric="f1").items[0].value == 0.5
    with pytest.raises(ResultsError, match=r"b\.jsonl: metric: the file has f1, right, not 'bleu'"):
        read(path, metric="bleu")
    path = foreign.lm_eval(tmp_path / "c.jsonl", [1, 0], metrics=["f1"], f1=0.5)
    with pytest.raises(ResultsError, match=r"none of f1 is 0 or 1 for every item; name one with --metric"):
        read(path)


def test_several_filters_must_be_named(tmp_path: Path) -> None:
    """A task with two filters has each item twice: one must be chosen, and it is written down."""
    rows = [
        foreign.lm_eval_row(place, value, filter=name, metrics=["exact_match"], exact_match=value)
        for name, value in (("strict-match", 0), ("flexible-extract", 1))
        for place in range(3)
    ]
    path = foreign.lines(tmp_path / "gsm8k.jsonl", rows)
    with pytest.raises(
        ResultsError, match=r"filter: the file has strict-match, flexible-extract; name one of them with --filter"
    ):
        read(path)
    task = read(path, filter="flexible-extract")
    assert [item.value for item in task.items] == [1, 1, 1]
    assert task.conditions["filter"] == "flexible-extract"
    with pytest.raises(ResultsError, match="not 'none'"):
        read(path, filter="none")


def test_generated_text(tmp_path: Path) -> None:
    """A task that generates has no log-likelihoods and no chance level; answer and target are kept for the report."""
    rows = [
        foreign.lm_eval_row(
            place,
            1,
            resps=[["so it is 42"]],
            filtered_resps=["42"],
            target="42",
            metrics=["exact_match"],
            exact_match=1.0,
            arguments={"gen_args_0": {"arg_0": "Question: 40 + 2?", "arg_1": {"until": ["\n"]}}},
        )
        for place in range(2)
    ]
    task = read(foreign.lines(tmp_path / "g.jsonl", rows))
    assert task.chance_level is None
    assert (task.items[0].answered, task.items[0].expected, task.prompts["0"]) == ("42", "42", "Question: 40 + 2?")
    assert task.items[0].evidence.loglikelihoods == ()
    rows[0]["arguments"]["gen_args_0"]["arg_1"]["until"] = ["Q:"]
    other = read(foreign.lines(tmp_path / "h.jsonl", rows))
    assert {
        item: mark != other.marks["generation_settings"][item]
        for item, mark in task.marks["generation_settings"].items()
    } == {
        "0": True,
        "1": False,
    }


def test_a_filter_that_is_not_there(tmp_path: Path) -> None:
    """A filter that the file lacks is refused, also where it has but one."""
    with pytest.raises(ResultsError, match=r"filter: the file has none, not 'strict'"):
        read(foreign.lm_eval(tmp_path / "a.jsonl", [1, 0]), filter="strict")


def test_a_key_that_stands_twice(tmp_path: Path) -> None:
    """A metric that a line states twice is refused with its line, as is a key inside the item's own fields: nobody knows which counts."""
    path = foreign.lm_eval(tmp_path / "a.jsonl", [1, 0, 1])
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"acc": 0', '"acc": 0, "acc": 1'), encoding="utf-8")
    with pytest.raises(ResultsError, match=r"a\.jsonl:2: acc: the key stands twice"):
        read(path)
    path.write_text(text.replace('"subject": "odd"', '"subject": "odd", "subject": "even"'), encoding="utf-8")
    with pytest.raises(ResultsError, match=r"a\.jsonl:2: subject: the key stands twice"):
        read(path)


def test_one_request_has_no_chance_level(tmp_path: Path) -> None:
    """A task with a single continuation, such as the last word of a text, is no multiple choice."""
    rows = [foreign.lm_eval_row(place, 1, filtered_resps=[["-1.5", "True"]]) for place in range(2)]
    task = read(foreign.lines(tmp_path / "lambada.jsonl", rows))
    assert task.chance_level is None
    assert task.items[0].evidence.loglikelihoods == (-1.5,)


@pytest.mark.parametrize("number", ["nan", "-inf"])
def test_a_number_that_is_not_finite(tmp_path: Path, number: str) -> None:
    """The item has no score, says so and keeps None, never NaN: nothing can be said about an answer chosen among NaN."""
    row = foreign.lm_eval_row(0, 1, filtered_resps=[[number, "False"], ["-1.0", "False"]])
    (item,) = read(foreign.lines(tmp_path / "n.jsonl", [row])).items
    assert (item.value, item.evidence.nonfinite, item.evidence.loglikelihoods) == (None, True, (None, -1.0))


def test_ids_that_stand_twice_are_kept_and_named(tmp_path: Path) -> None:
    """Both lines stay, so that the gate sees them, and the note has their numbers."""
    rows = [foreign.lm_eval_row(place, 1) for place in (0, 1, 0)]
    results = LmEvalReader().read(foreign.lines(tmp_path / "t.jsonl", rows), ReadOptions())
    assert [item.item_id for item in results.tasks[0].items] == ["0", "1", "0"]
    assert "'0' on lines 1 and 3" in results.notes[0]


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ({"acc": 1.0}, r"x\.jsonl:2: doc_id: missing"),
        (foreign.lm_eval_row(1, 1, doc_id="1"), r"x\.jsonl:2: doc_id: found the string '1', expected a whole number"),
        (foreign.lm_eval_row(1, 1, acc="0.6667"), r"x\.jsonl:2: acc: found the string '0\.6667', expected a number"),
        (
            foreign.lm_eval_row(1, 1, filtered_resps=[["no", "False"]]),
            r"x\.jsonl:2: filtered_resps: found .* expected log-likelihoods",
        ),
    ],
)
def test_what_is_refused(tmp_path: Path, row: dict[str, object], what: str) -> None:
    """One clear line with file, line and field."""
    path = foreign.lines(tmp_path / "x.jsonl", [foreign.lm_eval_row(0, 1), row])
    with pytest.raises(ResultsError, match=what):
        read(path)


def test_a_line_that_is_no_json(tmp_path: Path) -> None:
    """A file that was cut off in the middle of a line is refused at that line."""
    path = foreign.lm_eval(tmp_path / "cut.jsonl", [1, 0, 1])
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ResultsError, match=r"cut\.jsonl:3: invalid JSON"):
        read(path)
