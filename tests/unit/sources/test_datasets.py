"""Rows of real local files as golden items, through the real library; the hub behind a stub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import datasets
import pyarrow
import pyarrow.parquet
import pytest

from quantgate import golden
from quantgate.errors import ConfigError, GoldenSetError
from quantgate.records import DatasetSource, GoldenItem, GoldenSet
from quantgate.sources.datasets import DatasetsSource

COMMIT = "0123456789abcdef0123456789abcdef01234567"
COLUMNS = {"prompt": "question", "answers": "answer"}


def gather(file: Path | None, **fields: Any) -> GoldenSet:
    asked = DatasetSource(**{"name": "set", "path": None if file is None else str(file), "columns": COLUMNS, **fields})
    into = Path(fields.get("path") or file or "/nowhere").parent / "made"
    return DatasetsSource().gather(asked, into)


def items(file: Path, **fields: Any) -> tuple[GoldenItem, ...]:
    return gather(file, **fields).items


def written(folder: Path, name: str, data: str | bytes) -> Path:
    file = folder / name
    file.write_bytes(data.encode() if isinstance(data, str) else data)
    return file


ROWS = [{"question": "2+2=", "answer": "4"}, {"question": "who?", "answer": "NA"}]


def in_format(folder: Path, suffix: str) -> Path:
    file = folder / f"rows{suffix}"
    match suffix:
        case ".csv" | ".tsv":
            sign = "," if suffix == ".csv" else "\t"
            file.write_text("".join(sign.join(row) + "\n" for row in (["question", "answer"], *(one.values() for one in ROWS))), "utf-8")
        case ".json":
            file.write_text(json.dumps(ROWS), "utf-8")
        case ".parquet":
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), file)
        case _:
            file.write_text("".join(json.dumps(row) + "\n" for row in ROWS), "utf-8")
    return file


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet"])
def test_every_format_gives_the_same_items(tmp_path: Path, suffix: str) -> None:
    """The items do not depend on the format: prompts, answers, ids by row; the digest is that of the lines written."""
    made = gather(in_format(tmp_path, suffix))
    assert [(one.item_id, one.prompt, one.answers) for one in made.items] == [("0", "2+2=", ("4",)), ("1", "who?", ("NA",))]
    assert golden.load(Path(made.path)).sha256 == made.sha256
    assert (made.name, made.version) == ("set", "unversioned")
    assert gather(in_format(tmp_path, ".jsonl")).sha256 == made.sha256


def test_cells_of_a_table_stay_as_written(tmp_path: Path) -> None:
    """8.540 does not become 8.54, 007 not 7, and an answer None or NA is no missing value."""
    file = written(tmp_path, "a.csv", 'question,answer\na?,8.540\nb?,007\nc?,None\n"d, or e?","1,000"\n')
    assert [one.answers[0] for one in items(file)] == ["8.540", "007", "None", "1,000"]
    lines = written(tmp_path, "a.jsonl", '{"question": "a?", "answer": 8.540}\n{"question": "b?", "answer": 42.0}\n')
    assert [one.answers[0] for one in items(lines)] == ["8.540", "42.0"]


@pytest.mark.parametrize(
    ("data", "line", "what"),
    [
        ("question,answer\nx,y\nx,y,z\n", 3, "3 cells, and there are 2"),
        ("question,answer\nx\n", 2, "1 cells"),
        ("a,a\nx,y\n", 1, "named 'a'"),
    ],
)
def test_a_table_whose_lines_do_not_fit_is_refused(tmp_path: Path, data: str, line: int, what: str) -> None:
    """A cell too many would move all the others by one column; the line is named."""
    with pytest.raises(GoldenSetError, match=what) as caught:
        gather(written(tmp_path, "a.csv", data))
    assert caught.value.line == line


def test_choices_in_columns_of_their_own(tmp_path: Path) -> None:
    """Several columns make a list, an empty one is left out; the right one by its letter, its index or its label."""
    file = written(tmp_path, "a.csv", "question,A,B,C,right,at\nx?,red,blue,green,B,1\ny?,up,down,,A,0\n")
    columns: dict[str, Any] = {"prompt": "question", "choices": ("A", "B", "C")}
    by_label = items(file, columns={**columns, "answer": "right"}, labels=("A", "B", "C"))
    by_index = items(file, columns={**columns, "answer": "at"})
    assert [(one.choices, one.answer) for one in by_label] == [(("red", "blue", "green"), 1), (("up", "down"), 0)]
    assert [one.answer for one in by_index] == [1, 0]


def test_fields_within_a_column(tmp_path: Path) -> None:
    """Choices and labels within one column, as many hub datasets have them."""
    row = {"question": "x?", "choices": {"text": ["red", "blue"], "label": ["1", "2"]}, "answerKey": "2"}
    file = written(tmp_path, "a.json", json.dumps([row]))
    columns = {"prompt": "question", "choices": "choices.text", "answer": "answerKey"}
    (one,) = items(file, columns=columns, labels="choices.label")
    assert (one.choices, one.answer) == (("red", "blue"), 1)


def test_format_extract_and_constants(tmp_path: Path) -> None:
    """A prompt around a column, the answer by the last match of an expression, and values that all items share."""
    text = "She has 3 + 4 = #### 7\nso\n#### 1,234"
    file = written(tmp_path, "a.jsonl", json.dumps({"question": "How {many}?", "answer": text}))
    (one,) = items(
        file,
        columns={"answers": "answer"},
        format={"prompt": "Question: {question}\nAnswer:"},
        extract={"answers": r"#### (.+)"},
        constants={"template": "raw", "stop": ("\n",), "max_new_tokens": 16, "slice": "sums"},
    )
    assert one.prompt == "Question: How {many}?\nAnswer:"
    assert (one.answers, one.template, one.stop, one.max_new_tokens, one.slice) == (("1,234",), "raw", ("\n",), 16, "sums")


def test_the_first_rows(tmp_path: Path) -> None:
    """A limit takes the first rows, and more than there are is no error."""
    for suffix in (".csv", ".jsonl"):
        file = in_format(tmp_path, suffix)
        assert len(items(file, limit=1)) == 1
        assert len(items(file, limit=10)) == 2


@pytest.mark.parametrize(
    ("name", "data", "fields", "what"),
    [
        ("a.txt", "x", {}, r"a\.txt is none of \.csv"),
        ("a.csv", "q,answer\nx,y\n", {}, "there is no column 'question'; the data have q, answer"),
        ("a.csv", "question,answer\nx,y\n", {"extract": {"answers": "("}}, "is no regular expression"),
        ("a.csv", "question,answer\nx,y\n", {"extract": {"answers": "([0-9]+)"}}, "row 0: extract finds nothing in answers"),
        ("a.csv", "question,answer\nx,y\n", {"extract": {"answers": "y"}}, "has no group"),
        ("a.csv", "question,answer,right\nx,y,A\n", {"columns": {**COLUMNS, "answer": "right"}, "labels": ("A", "A")}, "'A' twice"),
        ("a.csv", "question,answer\nx,y\n", {"extract": {"choices": "y"}}, "'choices' is neither in columns nor in format"),
        ("a.csv", "question,answer\nx,y\n", {"constants": {"prompt": "p"}}, "'prompt' is given in two of"),
        ("a.csv", 'question,answer\nx,"y\n', {}, "cannot be read: "),
        ("a.json", "[{", {}, "cannot be read: "),
        ("a.csv", "question,answer\nx,y\n", {"split": "test"}, "cannot be read: "),
        ("a.jsonl", '{"question": "x", "answer": "y"}', {"split": "test"}, "the one split 'train'"),
        ("a.csv", "question,answer,right\nx,y,Z\n", {"columns": {**COLUMNS, "answer": "right"}, "labels": ("A", "B")}, "labels A, B"),
    ],
)  # fmt: skip
def test_what_cannot_be_mapped_is_refused(tmp_path: Path, name: str, data: str, fields: dict[str, Any], what: str) -> None:
    """Each refusal says which golden set, what was found and what there is."""
    with pytest.raises(ConfigError, match=what) as caught:
        gather(written(tmp_path, name, data), **fields)
    assert "golden set set" in str(caught.value)


def test_the_golden_reader_has_the_last_word(tmp_path: Path) -> None:
    """What a hand-written set may not hold, a mapped one may not: faults name the line, one after the row's number."""
    file = written(tmp_path, "a.csv", "question,answer\na?,x\n,y\nc?,\n")
    with pytest.raises(GoldenSetError) as caught:
        gather(file)
    assert caught.value.line == 2 and "prompt: missing" in str(caught.value) and ":3: answers: missing" in str(caught.value)
    with pytest.raises(GoldenSetError, match="id: 'q' stands on lines 1 and 2"):
        gather(written(tmp_path, "b.csv", "question,answer,id\na?,x,q\nb?,y,q\n"), columns={**COLUMNS, "id": "id"})


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.json"])
def test_a_file_without_rows_is_refused(tmp_path: Path, name: str) -> None:
    """Nothing measured must not look like nothing wrong."""
    data = {"a.jsonl": "\n", "a.csv": "question,answer\n", "a.json": "[]"}[name]
    with pytest.raises((GoldenSetError, ConfigError)):
        gather(written(tmp_path, name, data))


# ---------------------------------------------------------------------------------------------- the hub


class Hub:
    """Stands for the network: remembers what was asked for and answers with rows."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows, self.asked = rows, {}

    def load_dataset(self, path: str, name: str | None = None, **more: Any) -> Any:
        self.asked = {"path": path, "name": name, **more}
        return datasets.Dataset.from_list(self.rows)


def test_a_hub_dataset_is_asked_for_at_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Name, configuration, split and revision go out as given; the version shown is the commit."""
    hub = Hub(ROWS)
    monkeypatch.setattr(datasets, "load_dataset", hub.load_dataset)
    asked = DatasetSource(name="set", hub="owner/name", revision=COMMIT, config="main", split="test", columns=COLUMNS, limit=1)
    made = DatasetsSource().gather(asked, tmp_path)
    assert hub.asked == {"path": "owner/name", "name": "main", "split": "test", "revision": COMMIT}
    assert (len(made.items), made.version) == (1, COMMIT[:12])


@pytest.mark.parametrize("revision", [None, "main", "v1.0", COMMIT[:7]])
def test_a_hub_dataset_without_a_commit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, revision: str | None) -> None:
    """A branch, a tag or a part of a commit may point elsewhere tomorrow; nothing is asked of the network."""
    hub = Hub(ROWS)
    monkeypatch.setattr(datasets, "load_dataset", hub.load_dataset)
    with pytest.raises(ConfigError, match="40 digits of a commit"):
        DatasetsSource().gather(DatasetSource(name="set", hub="owner/name", revision=revision, columns=COLUMNS), tmp_path)
    assert hub.asked == {}


def test_a_network_that_fails_is_an_error_of_the_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the library raises becomes a sentence with the dataset's name and commit."""

    def fails(*_: Any, **__: Any) -> Any:
        raise ConnectionError("no route")

    monkeypatch.setattr(datasets, "load_dataset", fails)
    with pytest.raises(ConfigError, match=f"owner/name at {COMMIT} cannot be read: ConnectionError: no route"):
        DatasetsSource().gather(DatasetSource(name="set", hub="owner/name", revision=COMMIT, columns=COLUMNS), tmp_path)


def test_one_place_is_needed(tmp_path: Path) -> None:
    """A file and the hub, or neither, is a question back."""
    for fields in ({}, {"path": str(in_format(tmp_path, ".csv")), "hub": "owner/name", "revision": COMMIT}):
        with pytest.raises(ConfigError, match="exactly one of path and hub"):
            DatasetsSource().gather(DatasetSource(name="set", columns=COLUMNS, **fields), tmp_path)
    with pytest.raises(ConfigError, match="there is no file"):
        gather(tmp_path / "none.csv")
