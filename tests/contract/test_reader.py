"""What every reader must do, run over all of them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import foreign
from quantgate import plugins, rundir
from quantgate.errors import QuantgateError, ResultsError
from quantgate.judging import FORMATS
from quantgate.ports import Reader
from quantgate.records import ReadOptions

SCORES = [1, 0, 1, 1]


def _parquet(folder: Path) -> Path:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    ids = [f"i{place}" for place in range(len(SCORES))]
    parquet.write_table(pyarrow.table({"id": ids, "score": SCORES}), folder / "t.parquet")
    return folder / "t.parquet"


SAMPLES: dict[str, Callable[[Path], Path]] = {
    "lm_eval": lambda folder: foreign.lm_eval(folder / "a.jsonl", SCORES),
    "inspect": lambda folder: foreign.write_json(folder / "a.json", foreign.inspect_log(["C", "I", "C", "C"])),
    "nemo": lambda folder: foreign.nemo(folder / "a", [float(one) for one in SCORES]) / "results.jsonl",
    "table": lambda folder: foreign.table(folder / "a.jsonl", SCORES),
    "parquet": _parquet,
}


@pytest.fixture(params=SAMPLES)
def name(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def reader(name: str) -> Reader:
    made: Reader = plugins.load("reader", name)()
    return made


def test_every_reader_is_here() -> None:
    """The formats that are offered a file, the built-in readers and the samples of this suite are the same."""
    assert set(SAMPLES) == set(plugins.BUILT_IN["reader"]) == set(FORMATS)


def test_it_knows_its_own(name: str, reader: Reader, tmp_path: Path) -> None:
    """The first reader that recognises a file is that of its format."""
    path = SAMPLES[name](tmp_path)
    first = next(one for one in FORMATS if plugins.load("reader", one)().recognises(path))
    assert first == name


def test_the_items_are_all_there(name: str, reader: Reader, tmp_path: Path) -> None:
    """Every item with its score as a plain number, in the file's order; the record can be stored."""
    results = reader.read(SAMPLES[name](tmp_path), ReadOptions())
    (task,) = results.tasks
    assert [item.value for item in task.items] == SCORES
    assert all(type(item.value) is float for item in task.items)
    assert rundir.decode(type(results), rundir.encode(results)) == results


def test_reading_twice_gives_the_same(name: str, reader: Reader, tmp_path: Path) -> None:
    """Nothing depends on a clock, an order or chance."""
    path = SAMPLES[name](tmp_path)
    assert reader.read(path, ReadOptions()) == reader.read(path, ReadOptions())


@pytest.mark.parametrize(
    "data", [None, b"", b"\n", b"{", b"[1, 2]\n", b"null\n", b"\x00\xff\x00", b"\xff\xfe1\x00", b'"' + b"[" * 9999]
)
def test_what_is_no_result(reader: Reader, tmp_path: Path, data: bytes | None) -> None:
    """A file that is missing, empty, cut off or binary is refused by name, never read as nothing."""
    path = tmp_path / "odd.jsonl"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(ResultsError, match=r"odd\.jsonl"):
        reader.read(path, ReadOptions())


def test_a_file_that_was_cut_anywhere(name: str, reader: Reader, tmp_path: Path) -> None:
    """At whatever byte a file ends: it is refused, or what is left is read, and never an item that was not there."""
    path = SAMPLES[name](tmp_path)
    data = path.read_bytes()
    known = {(item.item_id, item.value) for item in reader.read(path, ReadOptions()).tasks[0].items}
    for end in range(0, len(data), max(1, len(data) // 60)):
        path.write_bytes(data[:end])
        try:
            found = reader.read(path, ReadOptions()).tasks[0].items
        except QuantgateError:
            continue
        assert {(item.item_id, item.value) for item in found} <= known


def _alterations(value: Any) -> list[Any]:
    """Each place of a JSON value, one after the other, holding what does not belong there."""
    if isinstance(value, dict):
        inner = [{**value, key: odd} for key, one in value.items() for odd in _alterations(one)]
        return [*inner, *({other: one for other, one in value.items() if other != key} for key in value), None, [], "x"]
    if isinstance(value, list):
        return [
            *(
                [*value[:place], odd, *value[place + 1 :]]
                for place, one in enumerate(value)
                for odd in _alterations(one)
            ),
            {},
            None,
        ]
    return [None, True, -1, 0.5, math.nan, math.inf, "x", [], {}, 10**400]


@pytest.mark.parametrize("name", ["lm_eval", "inspect", "nemo", "table"])
def test_no_value_breaks_it(name: str, tmp_path: Path) -> None:
    """Whatever stands where something else belongs: an error of ours, or results whose every score is finite or None."""
    path = SAMPLES[name](tmp_path)
    reader: Reader = plugins.load("reader", name)()
    text = path.read_text(encoding="utf-8")
    first, rest = (text, "") if name == "inspect" else text.split("\n", 1)
    for odd in _alterations(json.loads(first)):
        path.write_text(json.dumps(odd) + "\n" + rest, encoding="utf-8")
        try:
            results = reader.read(path, ReadOptions())
        except QuantgateError as error:
            assert "\n" not in str(error)
            continue
        rundir.encode(results)  # strict JSON: NaN would not go in
