"""Results of NeMo Evaluator: problems, repeats, the bundle beside them, and sums that cannot be judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import foreign
from quantgate.errors import ResultsError
from quantgate.readers.nemo import NemoReader
from quantgate.records import ReadOptions, Results


def read(path: Path, **options: str) -> Results:
    """A file or folder."""
    return NemoReader().read(path, ReadOptions(**options))


def test_a_folder(tmp_path: Path) -> None:
    """Problems with their categories; the bundle names the benchmark and what must be alike."""
    folder = foreign.nemo(tmp_path / "out", [1.0, 0.0, 1.0], seed=7, model="m", model_url="http://localhost")
    (task,) = read(folder).tasks
    assert [(item.item_id, item.value, item.slice) for item in task.items] == [
        ("0", 1.0, "geometry"),
        ("1", 0.0, "algebra"),
        ("2", 1.0, "geometry"),
    ]
    assert (task.name, task.metric) == ("gsm8k", "reward")
    assert dict(task.conditions) == {"repeats": 1, "temperature": 0.0, "seed": 7}
    assert (task.items[0].answered, task.items[0].expected) == ("The answer is 7.", "0")
    assert set(task.marks) == {"expected_answer"}


@pytest.mark.parametrize("name", ["results.jsonl", "eval-20260225T143012Z-gsm8k.json"])
def test_either_file_of_a_folder(tmp_path: Path, name: str) -> None:
    """The results, or the bundle beside them: the same items and the same benchmark."""
    folder = foreign.nemo(tmp_path / "out", [1.0, 0.0])
    assert NemoReader().recognises(folder / name)
    assert read(folder / name).tasks == read(folder).tasks


def test_repeats_become_one_item(tmp_path: Path) -> None:
    """Their mean; a problem that lacks a repeat has no score."""
    folder = foreign.nemo(tmp_path / "out", [1.0, 1.0, 1.0, 0.0], repeats=2)
    results = read(folder)
    assert [item.value for item in results.tasks[0].items] == [1.0, 0.5]
    assert "mean over 2 repeats" in results.notes[0]
    rows = (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()
    (folder / "results.jsonl").write_text("\n".join(rows[:-1]) + "\n", encoding="utf-8")
    assert [item.why_unscored for item in read(folder).tasks[0].items] == [None, "1 of 2 repeats have a reward"]


def test_a_problem_that_stands_twice(tmp_path: Path) -> None:
    """It stays twice, and the note has both lines."""
    path = foreign.lines(tmp_path / "results.jsonl", [{"problem_idx": one, "reward": 1.0} for one in (3, 4, 3)])
    results = read(path)
    assert [item.item_id for item in results.tasks[0].items] == ["3", "4", "3"]
    assert "'3 repeat 0' on lines 1 and 3" in results.notes[0]


def test_several_benchmarks(tmp_path: Path) -> None:
    """One subfolder each; two of one name are refused."""
    foreign.nemo(tmp_path / "out" / "a", [1.0], benchmark="gsm8k")
    foreign.nemo(tmp_path / "out" / "b", [1.0], benchmark="mmlu")
    assert [task.name for task in read(tmp_path / "out").tasks] == ["gsm8k", "mmlu"]
    foreign.nemo(tmp_path / "out" / "c", [1.0], benchmark="mmlu")
    with pytest.raises(ResultsError, match="holds benchmark mmlu twice"):
        read(tmp_path / "out")


def test_a_reward_that_is_not_finite(tmp_path: Path) -> None:
    """NaN is no score and no fail: the item is marked, None is kept."""
    path = foreign.lines(
        tmp_path / "results.jsonl", [{"problem_idx": 0, "reward": float("nan")}, {"problem_idx": 1, "reward": None}]
    )
    items = read(path).tasks[0].items
    assert [(item.value, item.evidence.nonfinite) for item in items] == [(None, True), (None, False)]


def test_sums_alone(tmp_path: Path) -> None:
    """The launcher's results.yml holds no items."""
    (tmp_path / "results.yml").write_text("results: {}\n", encoding="utf-8")
    assert NemoReader().recognises(tmp_path)
    with pytest.raises(ResultsError, match=r"holds no results\.jsonl; its results\.yml has sums"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ({"reward": 1.0}, "problem_idx: missing"),
        ({"problem_idx": "7", "reward": 1.0}, "problem_idx: found the string '7'"),
        ({"problem_idx": 7, "repeat": 0.5, "reward": 1.0}, "repeat: found the number 0.5"),
        ({"problem_idx": 7}, "reward: missing"),
        ({"problem_idx": 7, "reward": "0.6667"}, "reward: found the string '0.6667'"),
    ],
)
def test_what_is_refused(tmp_path: Path, row: dict[str, Any], what: str) -> None:
    """One line that names file, line and field."""
    path = foreign.lines(tmp_path / "results.jsonl", [{"problem_idx": 0, "reward": 1.0}, row])
    with pytest.raises(ResultsError, match=r"results\.jsonl:2: " + what):
        read(path)


def test_another_metric(tmp_path: Path) -> None:
    """There is only the reward."""
    with pytest.raises(ResultsError, match="has the reward alone, not 'acc'"):
        read(foreign.nemo(tmp_path / "out", [1.0]), metric="acc")
