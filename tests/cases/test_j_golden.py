"""Public bug reports, part J: golden-set data."""

import json
import os
from pathlib import Path

import pytest

from quantgate import golden
from quantgate.errors import GoldenSetError
from quantgate.metrics.exact_match import ExactMatch, normalise
from quantgate.records import DatasetSource, GoldenItem, ItemEvidence


def written(folder: Path, data: bytes) -> Path:
    """Write a bare golden set."""
    path = folder / "set.jsonl"
    path.write_bytes(data)
    return path


def test_b77_byte_order_mark(tmp_path: Path) -> None:
    """B77: a UTF-8 BOM leaves one item with the key 'id'."""
    (item,) = golden.load(written(tmp_path, b'\xef\xbb\xbf{"id":"g1","prompt":"2+2=","answer":"4"}\n')).items
    assert (item.item_id, item.prompt, item.answers) == ("g1", "2+2=", ("4",))


def test_b79_crlf_and_trailing_blank_lines(tmp_path: Path) -> None:
    """B79: two items with answers '4' and '5', no carriage return; the blank last line is ignored."""
    data = b'{"id":"a","prompt":"p","answer":"4"}\r\n{"id":"b","prompt":"p2","answer":"5"}\r\n\r\n'
    assert [item.answers for item in golden.load(written(tmp_path, data)).items] == [("4",), ("5",)]


def test_b79_blank_line_in_the_middle(tmp_path: Path) -> None:
    """B79: a blank line between items is an error with its line number."""
    data = b'{"id":"a","prompt":"p","answer":"4"}\r\n\r\n{"id":"b","prompt":"p2","answer":"5"}\r\n'
    with pytest.raises(GoldenSetError, match="blank line") as caught:
        golden.load(written(tmp_path, data))
    assert caught.value.line == 2


def test_b79_carriage_return_inside_an_answer(tmp_path: Path) -> None:
    """B79: a carriage return that an export left inside the answer does not stay there."""
    (item,) = golden.load(written(tmp_path, b'{"id":"a","prompt":"p","answers":["4\\r","x\\r\\ny\\r\\n"]}')).items
    assert item.answers == ("4", "x\ny")


MIXED = ('{"id":1,"prompt":"p","answer":"42"}', '{"id":"2","prompt":"q","answer":42}')
LISTED = '{"id":3,"prompt":"r","answer":["42","forty-two"]}'


def test_b80_mixed_types_of_answer(tmp_path: Path) -> None:
    """B80: a string, a number and a list are read line by line; 42 becomes '42', a list is several references."""
    items = golden.load(written(tmp_path, "\n".join([*MIXED, LISTED]).encode())).items
    assert [item.item_id for item in items] == ["1", "2", "3"]
    assert [item.answers for item in items] == [("42",), ("42",), ("42", "forty-two")]


def test_b80_null_answer(tmp_path: Path) -> None:
    """B80: null is an error that names line 4 and the field."""
    data = "\n".join([*MIXED, LISTED, '{"id":4,"prompt":"s","answer":null}']).encode()
    with pytest.raises(GoldenSetError, match="answer: found null") as caught:
        golden.load(written(tmp_path, data))
    assert (caught.value.file, caught.value.line) == (str(tmp_path / "set.jsonl"), 4)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        ("42", "42"),
        ("42.0", "42"),
        ("-7", "-7"),
        ("0.5", "0.5"),
        ("8.540", "8.540"),
        ("1e3", "1000"),
        ("1e-3", "0.001"),
    ],
)
def test_b80_numbers_read_as_a_person_reads_them(tmp_path: Path, number: str, text: str) -> None:
    """B80: a number becomes its plain decimal spelling, digits as written, whole ones without '.0'."""
    (item,) = golden.load(written(tmp_path, f'{{"id":1,"prompt":"p","answer":{number}}}'.encode())).items
    assert item.answers == (text,)


def test_b82_duplicate_ids(tmp_path: Path) -> None:
    """B82: two items with one id are rejected with both line numbers, before anything is generated."""
    data = b'{"id":"dup","prompt":"p","answer":"a"}\n{"id":"dup","prompt":"q","answer":"b"}\n'
    with pytest.raises(GoldenSetError, match="'dup' stands on lines 1 and 2") as caught:
        golden.load(written(tmp_path, data))
    assert caught.value.line == 2


def test_b82_number_and_string_are_one_id(tmp_path: Path) -> None:
    """B82: 1 and "1" would be one key in every result file, so they are duplicates."""
    data = b'{"id":1,"prompt":"p","answer":"a"}\n{"id":"1","prompt":"q","answer":"b"}\n'
    with pytest.raises(GoldenSetError, match="lines 1 and 2"):
        golden.load(written(tmp_path, data))


def test_b82_duplicates_show_beside_other_faults(tmp_path: Path) -> None:
    """B82: the duplicate is told even where the first bearer of the id is faulty itself."""
    data = b'{"id":"dup","prompt":"","answer":"a"}\n{"id":"dup","prompt":"q","answer":"b"}\n'
    with pytest.raises(GoldenSetError, match="lines 1 and 2") as caught:
        golden.load(written(tmp_path, data))
    assert caught.value.line == 1


def score(gold: str, prediction: str) -> float | None:
    """Score a prediction against one right answer."""
    item = GoldenItem(item_id="a", slice="s", prompt="p", metric="exact_match", answers=(gold,))
    return ExactMatch().score(item, ItemEvidence(item_id="a", text=prediction)).value


def test_b84_unicode_normal_forms() -> None:
    """B84: 'café' of 4 and of 5 code points differ raw and match after NFC."""
    assert "caf\u00e9" != "cafe\u0301"
    assert score("caf\u00e9", "cafe\u0301") == 1.0


def test_b84_case_folding() -> None:
    """B84: 'Straße' and 'strasse' match by case folding."""
    assert score("Stra\u00dfe", "strasse") == 1.0


def test_b84_other_amounts_never_match() -> None:
    """B84: '$8.540' is not '$9.540', whatever is normalised."""
    assert score("$8.540", "$9.540") == 0.0
    assert normalise("$8.540.", ("\n",)) == "$8.540"


def test_b84_the_normalisation_is_on_record() -> None:
    """B84: the metric's definition names what it normalises."""
    for step in ("NFC", "case folding", "white space", "quotes", "stop string"):
        assert step in ExactMatch.info.definition


@pytest.mark.parametrize("token", ["NaN", "Infinity", "-Infinity"])
def test_b85_reading_refuses_what_is_no_json(tmp_path: Path, token: str) -> None:
    """B85: NaN and Infinity are refused on reading, with the line."""
    with pytest.raises(GoldenSetError, match="is no JSON number") as caught:
        golden.load(written(tmp_path, f'{{"id":"a","prompt":"p","answer":{token}}}'.encode()))
    assert caught.value.line == 1


def test_b86_an_edited_file_is_another_set(tmp_path: Path) -> None:
    """B86: the same path with other content gives another digest and the new items, at once."""
    row = {"id": "a", "prompt": "p", "answer": "4"}
    path = written(tmp_path, json.dumps(row).encode())
    before = golden.load(path)
    after = golden.load(written(tmp_path, json.dumps({**row, "answer": "5"}).encode()))
    assert before.sha256 != after.sha256
    assert (before.items[0].answers, after.items[0].answers) == (("4",), ("5",))
    assert golden.reference_of(before).sha256 == before.sha256


# ---------------------------------------------------------------------------------------------- the same of rows of a dataset


def gathered(folder: Path, name: str, data: bytes, **columns: str) -> tuple[GoldenItem, ...]:
    """The items that a file's rows make."""
    from quantgate.sources.datasets import DatasetsSource

    (folder / name).write_bytes(data)
    asked = DatasetSource(name="set", path=str(folder / name), columns={"prompt": "prompt", "answers": "answer", **columns})
    return DatasetsSource().gather(asked, folder / "made").items


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.jsonl", b'{"prompt":"2+2=","answer":"4"}\n'),
        ("a.json", b'[{"prompt":"2+2=","answer":"4"}]'),
        ("a.csv", b"prompt,answer\r\n2+2=,4\r\n"),
    ],
)
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_b77_byte_order_mark_of_a_source(tmp_path: Path, name: str, data: bytes, mark: bytes) -> None:
    """B77: with and without a byte-order mark the first column is found under its name."""
    (item,) = gathered(tmp_path, name, mark + data)
    assert (item.prompt, item.answers) == ("2+2=", ("4",))


def test_b79_line_ends_of_a_source(tmp_path: Path) -> None:
    """B79: Windows line ends and blank lines at the end change neither items nor answers."""
    lines = b'{"prompt":"p","answer":"4"}\r\n{"prompt":"p2","answer":"5"}\r\n\r\n'
    table = b"prompt,answer\r\np,4\r\np2,5\r\n\r\n"
    for name, data in (("a.jsonl", lines), ("a.csv", table)):
        assert [item.answers for item in gathered(tmp_path, name, data)] == [("4",), ("5",)]


def test_b80_mixed_types_of_a_source(tmp_path: Path) -> None:
    """B80: rows that mix types in a column are read; a null is an error with line and key."""
    rows = [b'{"prompt":"p","answer":"42"}', b'{"prompt":"q","answer":42}', b'{"prompt":"r","answer":["42","forty-two"]}']
    items = gathered(tmp_path, "a.jsonl", b"\n".join(rows))
    assert [item.answers for item in items] == [("42",), ("42",), ("42", "forty-two")]
    with pytest.raises(GoldenSetError, match="answers: missing") as caught:
        gathered(tmp_path, "a.jsonl", b"\n".join([*rows, b'{"prompt":"s","answer":null}']))
    assert caught.value.line == 4


def test_b82_duplicate_ids_of_a_source(tmp_path: Path) -> None:
    """B82: two rows with one id are rejected with both lines."""
    with pytest.raises(GoldenSetError, match="'dup' stands on lines 1 and 2"):
        gathered(tmp_path, "a.csv", b"key,prompt,answer\ndup,p,a\ndup,q,b\n", id="key")


def test_b86_a_source_edited_in_place_is_read_anew(tmp_path: Path) -> None:
    """B86: the same path, size and time with other content gives the new items: nothing prepared before is used."""
    for name, data in (("a.csv", b"prompt,answer\np,4\n"), ("a.json", b'[{"prompt":"p","answer":"4"}]')):
        before = gathered(tmp_path, name, data)
        stamp = (tmp_path / name).stat()
        (tmp_path / name).write_bytes(data.replace(b"4", b"5"))
        os.utime(tmp_path / name, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        after = gathered(tmp_path, name, (tmp_path / name).read_bytes())
        assert (before[0].answers, after[0].answers) == (("4",), ("5",))
