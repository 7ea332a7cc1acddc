"""Calibration files: what is read as a text, and what is refused with its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quantgate import golden
from quantgate.calibration import Sample, lines, ordered, read
from quantgate.errors import ConfigError
from quantgate.hygiene.overlap import overlap


def test_b77_b79_marks_and_line_ends(tmp_path: Path) -> None:
    """B77, B79: a byte-order mark, carriage returns and a blank last line are no part of a text."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"text": "one"}\r\n{"messages": [{"role": "user", "content": "two"}]}\r\n\r\n')
    assert read(path) == (Sample(text="one"), Sample(messages=(("user", "two"),)))
    plain = tmp_path / "t.txt"
    plain.write_bytes(b"\xef\xbb\xbffirst\r\nstill first\r\n\r\n\r\nsecond\r\n")
    assert [one.plain for one in read(plain)] == ["first\nstill first", "second"]


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ('{"text": "a"}\n\n{"text": "b"}\n', 2, "empty line"),
        ('{"text": "a"}\n{"text": "  "}\n', 2, "empty"),
        ('{"text": 5}\n', 1, "no text"),
        ('{"txt": "a"}\n', 1, "exactly one of 'text' and 'messages'"),
        ('{"text": "a", "messages": []}\n', 1, "exactly one"),
        ('{"messages": [{"role": "user"}]}\n', 1, "'role' and 'content'"),
        ('{"messages": []}\n', 1, "list of turns"),
        ("{\n", 1, "not a JSON object"),
        ('{"text": "a"}\n{"text": "\\ud800"}\n', 2, "half a character"),
    ],
)
def test_what_is_no_text(tmp_path: Path, text: str, line: int, reason: str) -> None:
    """A line that cannot be read is told with file and line; nothing is skipped."""
    path = tmp_path / "t.jsonl"
    path.write_text(text)
    with pytest.raises(ConfigError, match=reason) as raised:
        read(path)
    assert raised.value.line == line


@pytest.mark.parametrize("name", ["empty.jsonl", "empty.txt", "gone.txt"])
def test_nothing_to_learn_from(tmp_path: Path, name: str) -> None:
    """An empty or missing file is refused."""
    if name.startswith("empty"):
        (tmp_path / name).write_text(" \n\n")
    with pytest.raises(ConfigError, match=r"holds no text|cannot be read"):
        read(tmp_path / name)


def test_order_is_of_the_seed(tmp_path: Path) -> None:
    """Seed 0 keeps the file's order; another shuffles, always alike; what is written reads back the same."""
    samples = tuple(Sample(text=str(n)) for n in range(20))
    assert ordered(samples, 0) == samples
    assert ordered(samples, 7) == ordered(samples, 7) != samples
    assert set(ordered(samples, 7)) == set(samples)
    path = tmp_path / "t.jsonl"
    path.write_text(lines(samples))
    assert read(path) == samples
    assert len(lines(samples).splitlines()) == len([json.loads(one) for one in lines(samples).splitlines()])


def test_the_shipped_set_shares_nothing_with_the_shipped_questions() -> None:
    """The calibration texts that come along hold none of the golden questions that come along."""
    root = Path(__file__).parents[2]
    texts = [one.plain for one in read(root / "calibration_sets" / "self-written.jsonl")]
    for name in ("everyday", "smoke"):
        items = golden.load(root / "golden_sets" / name / "v1").items
        assert overlap(items, texts) == ()
