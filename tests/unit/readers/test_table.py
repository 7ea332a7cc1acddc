"""Tables of scores: every spelling that means the same is read alike, and nothing is guessed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import foreign
from quantgate.errors import ResultsError
from quantgate.readers.parquet import ParquetReader
from quantgate.readers.table import TableReader
from quantgate.records import ItemScore, ReadOptions


def read(path: Path, **options: str) -> tuple[ItemScore, ...]:
    """The items of a table."""
    return TableReader().read(path, ReadOptions(**options)).tasks[0].items


def written(tmp_path: Path, text: str | bytes, name: str = "t.jsonl") -> Path:
    """A file of these bytes."""
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


ROWS = '{"id": "a", "score": 1, "slice": "x", "cluster": "k"}\n{"id": 2, "score": false}\n{"id": "c", "score": 0.0, "more": []}\n'
CSV = "id,score,slice,cluster\na,1,x,k\n2,False,,\nc,0.0,,\n"
SAME = [("a", 1.0, "x", "k"), ("2", 0.0, "all", None), ("c", 0.0, "all", None)]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("t.jsonl", ROWS.encode()),
        ("t.jsonl", b"\xef\xbb\xbf" + ROWS.replace("\n", "\r\n").encode()),
        ("t.jsonl", ROWS.rstrip("\n").encode() + b"\n\n"),
        ("t.csv", CSV.encode()),
        ("t.csv", b"\xef\xbb\xbf" + CSV.replace("\n", "\r\n").encode()),
        ("t.tsv", CSV.replace(",", "\t").encode()),
    ],
)
def test_the_same_table(tmp_path: Path, name: str, data: bytes) -> None:
    """A byte-order mark, carriage returns, CSV or JSON: the items are the same, and a boolean is 0 or 1."""
    items = read(written(tmp_path, data, name))
    assert [(one.item_id, one.value, one.slice, one.cluster) for one in items] == SAME


def test_other_columns(tmp_path: Path) -> None:
    """Columns of other names are read where they are named."""
    path = written(tmp_path, '{"q": "a", "right": 1, "topic": "t", "source": "s"}\n')
    (item,) = read(path, id="q", score="right", slice="topic", cluster="source")
    assert (item.item_id, item.value, item.slice, item.cluster) == ("a", 1.0, "t", "s")


def test_parquet(tmp_path: Path) -> None:
    """Parquet is read like the other tables, whole numbers as ids and booleans as scores included."""
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")

    path = tmp_path / "t.parquet"
    parquet.write_table(pyarrow.table({"id": [7, 8], "score": [True, False], "slice": ["x", None]}), path)
    results = ParquetReader().read(path, ReadOptions())
    assert [(one.item_id, one.value, one.slice) for one in results.tasks[0].items] == [
        ("7", 1.0, "x"),
        ("8", 0.0, "all"),
    ]
    with pytest.raises(ResultsError, match=r"right: missing; the columns are id, score, slice"):
        ParquetReader().read(path, ReadOptions(score="right"))
    with pytest.raises(ResultsError, match="not a valid Parquet file"):
        ParquetReader().read(written(tmp_path, "no parquet", "u.parquet"), ReadOptions())


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{"id": "b", "score": NaN}', "score: found nan, which is no score"),
        ('{"id": "b", "score": Infinity}', "score: found inf, which is no score"),
        ('{"id": "b", "score": "0.6667"}', r"score: found the string '0\.6667', expected a number"),
        ('{"id": "b", "score": [1]}', "score: found a list"),
        ('{"id": "b"}', "score: missing; the row has id; name the column with --score"),
        ('{"score": 1}', "id: missing; the row has score; name the column with --id"),
        ('{"id": null, "score": 1}', "id: found null"),
        ('{"id": true, "score": 1}', "id: found a boolean"),
        ('{"id": " ", "score": 1}', "id: empty"),
        ('{"id": "b\\n", "score": 1}', "id: 'b\\\\n' holds a line end"),
        ('{"id": "b", "score": 1, "slice": 0.5}', "slice: found the number 0.5"),
        ('{"id": "b", "score": 1, "score": 0}', "score: the key stands twice"),
        ('["b", 1]', "found a list, expected an object"),
        ('{"id": "b", "score": 1', "invalid JSON"),
    ],
)
def test_json_lines_that_are_refused(tmp_path: Path, text: str, what: str) -> None:
    """One line that names file, line and field."""
    path = written(tmp_path, '{"id": "a", "score": 1}\n' + text + "\n")
    with pytest.raises(ResultsError, match=r"t\.jsonl:2: " + what):
        read(path)


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("id,score\na,NaN\n", 2, "score: found the string 'NaN'"),
        ("id,score\na,-inf\n", 2, "score: found the string '-inf'"),
        ("id,score\na,yes\n", 2, "score: found the string 'yes'"),
        ('id,score\na,"0,5"\n', 2, "score: found the string '0,5'"),
        ("id,score\na,1\nb,1,2\n", 3, "3 cells, and the header has 2"),
        ("id,score,id\na,1,b\n", 1, "id: the column stands twice"),
        ("id;score\na;1\n", 1, "one column only, with semicolons in it; separate the columns with commas"),
        ("name,score\na,1\n", 2, "id: missing"),
        ('id,score\n"a,1\n', 2, "not valid CSV"),
    ],
)
def test_csv_that_is_refused(tmp_path: Path, text: str, line: int, what: str) -> None:
    """The same of CSV; a decimal comma and NaN are no numbers."""
    with pytest.raises(ResultsError, match=rf"t\.csv:{line}: {what}"):
        read(written(tmp_path, text, "t.csv"))


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "is empty"),
        (b"\xef\xbb\xbf\n", "is empty"),
        ('{"id": "a", "score": 1}'.encode("utf-16"), "is UTF-16"),
        (b'{"id": "\xff", "score": 1}\n', "not UTF-8"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, data: bytes, what: str) -> None:
    """What is no text, or holds nothing."""
    with pytest.raises(ResultsError, match=what):
        read(written(tmp_path, data))


def test_a_header_alone(tmp_path: Path) -> None:
    """A table without a row has nothing that could pass."""
    with pytest.raises(ResultsError, match="has 0 items"):
        read(written(tmp_path, "id,score\n", "t.csv"))


def test_a_named_column_must_be_there(tmp_path: Path) -> None:
    """A slice or cluster column that was asked for and is missing is no empty column."""
    with pytest.raises(ResultsError, match=r"source: missing; .* --cluster asks for it"):
        read(written(tmp_path, '{"id": "a", "score": 1}\n'), cluster="source")


@pytest.mark.parametrize(("name", "text"), [("t.jsonl", '{"id": "a", "score": null}\n'), ("t.csv", "id,score\na,\n")])
def test_an_item_without_a_score(tmp_path: Path, name: str, text: str) -> None:
    """Nothing is no zero: the item was not scored, and says so."""
    (item,) = read(written(tmp_path, text, name))
    assert (item.value, item.why_unscored) == (None, "its score is empty")


def test_ids_that_stand_twice(tmp_path: Path) -> None:
    """They stay in the items, so that the gate sees them, and the note has both line numbers."""
    path = foreign.lines(tmp_path / "t.jsonl", [{"id": one, "score": 1} for one in ("a", "b", "a")])
    results = TableReader().read(path, ReadOptions())
    assert len(results.tasks[0].items) == 3
    assert "1 id stands more than once: 'a' on lines 1 and 3" in results.notes[0]


def test_too_many_slices_are_none(tmp_path: Path) -> None:
    """A column that is different in nearly every row is no slice: none is shown, and a note says so."""
    path = foreign.lines(
        tmp_path / "t.jsonl", [{"id": place, "score": 1, "slice": f"s{place}"} for place in range(200)]
    )
    results = TableReader().read(path, ReadOptions())
    assert {item.slice for item in results.tasks[0].items} == {"all"}
    assert "names 200 slices" in results.notes[0]


def test_the_digest_covers_every_byte(tmp_path: Path) -> None:
    """One byte more is another file, also where the items are the same."""
    one = TableReader().read(written(tmp_path, json.dumps({"id": "a", "score": 1})), ReadOptions())
    two = TableReader().read(written(tmp_path, json.dumps({"id": "a", "score": 1}) + "\n"), ReadOptions())
    assert one.sha256 != two.sha256
