"""Texts to compare on: what a file may hold, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from quantgate import texts
from quantgate.errors import ConfigError
from quantgate.records import DivergenceConfig


def lines(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_a_line_is_a_text(tmp_path: Path) -> None:
    """Fields are joined, slices and ids taken, blank lines and those beyond the count left out."""
    rows = [
        {"id": 7, "question": "a?", "answer": "b", "topic": "x"},
        {"question": "c?", "answer": "d", "topic": "y"},
        {"broken": 1},
    ]
    path = lines(tmp_path / "t.jsonl", rows)
    path.write_text(path.read_text().replace("\n", "\n\n", 1))
    found = texts.load(
        DivergenceConfig(path=str(path), fields=("question", "answer"), slice_field="topic", max_texts=2)
    )
    assert [(one.text_id, one.slice, one.text) for one in found.texts] == [
        ("7", "x", "a?\nb"),
        ("line 3", "y", "c?\nd"),
    ]
    assert (found.name, found.stream) == ("t", False)


def test_any_other_file_is_one_stream(tmp_path: Path) -> None:
    """A text file is read whole; a byte-order mark and Windows line ends are no text of their own."""
    path = tmp_path / "book.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo")
    found = texts.load(DivergenceConfig(path=str(path)))
    assert found.stream
    assert found.texts[0].text.split() == ["one", "two"]
    assert found.texts[0].text.startswith("one")


@pytest.mark.parametrize(
    ("content", "line", "what"),
    [
        ('{"text": "a"}\n{"txt": "b"}\n', 2, "no text in field 'text'; fields with text are txt"),
        ('{"text": "a"}\n{"text": "  "}\n', 2, "no text in field 'text'"),
        ('{"text": "a"}\n{"text": 4}\n', 2, "it has no field with text"),
        ('{"text": "a"}\n{"text": \n', 2, "not JSON"),
        ('["a"]\n', 1, "a JSON object"),
        ("\n\n", None, "holds no text"),
        ("[" * 100_000, 1, "not JSON"),
    ],
)
def test_lines_without_text_are_refused(tmp_path: Path, content: str, line: int | None, what: str) -> None:
    """A line that lacks its field is named, never skipped; so is one that is no JSON object."""
    path = tmp_path / "t.jsonl"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        texts.load(DivergenceConfig(path=str(path)))
    assert caught.value.line == line
    assert what in str(caught.value)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    """No file, a folder, or bytes that are no UTF-8: an error with the path."""
    bad = tmp_path / "latin.txt"
    bad.write_bytes(b"caf\xe9")
    for path in (tmp_path / "none.txt", tmp_path, bad):
        with pytest.raises(ConfigError, match=path.name):
            texts.load(DivergenceConfig(path=str(path)))
