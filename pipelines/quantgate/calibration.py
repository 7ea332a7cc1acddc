"""Reads the texts that a quantizer is calibrated on. Knows files; refuses to repair or to skip what it cannot read.

JSON lines hold ``{"text": ...}`` or ``{"messages": [{"role": ..., "content": ...}, ...]}``; any other file is plain text, with empty lines
between the texts. A byte-order mark and carriage returns are no part of a text.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quantgate.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One text: as it is, or as turns that the model's chat template joins."""

    text: str = ""
    messages: tuple[tuple[str, str], ...] = ()
    """(role, content) of each turn."""

    @property
    def plain(self) -> str:
        """The text without any template."""
        return self.text or "\n".join(content for _, content in self.messages)

    @property
    def parts(self) -> tuple[str, ...]:
        """What may be a golden question as it stands: the whole, and each turn."""
        return (self.plain, *(content for _, content in self.messages))


def read(path: Path) -> tuple[Sample, ...]:
    """Every text of a file. Raises ``ConfigError`` with the line for what is no text, and for a file without any."""
    try:
        whole = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise ConfigError(f"calibration file cannot be read: {error.strerror or error}", file=str(path)) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"calibration file is not UTF-8: {error}", file=str(path)) from error
    found = _json_lines(whole, path) if path.suffix in (".jsonl", ".ndjson") else _paragraphs(whole)
    if not found:
        raise ConfigError("the calibration file holds no text", file=str(path))
    return found


def lines(samples: Sequence[Sample]) -> str:
    """The texts as JSON lines, in order."""
    made = [
        {"messages": [{"role": role, "content": content} for role, content in one.messages]} if one.messages else {"text": one.text}
        for one in samples
    ]
    return "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in made)


def ordered(samples: Sequence[Sample], seed: int) -> tuple[Sample, ...]:
    """The texts in the order in which they are taken: 0 as in the file, any other number shuffled by it."""
    found = list(samples)
    if seed:
        random.Random(seed).shuffle(found)
    return tuple(found)


def _paragraphs(whole: str) -> tuple[Sample, ...]:
    return tuple(Sample(text=part.strip("\n")) for part in whole.split("\n\n") if part.strip())


def _json_lines(whole: str, path: Path) -> tuple[Sample, ...]:
    lines = whole.rstrip("\n").split("\n") if whole.strip() else []
    return tuple(_sample(line, path, number) for number, line in enumerate(lines, start=1))


def _sample(line: str, path: Path, number: int) -> Sample:
    def refuse(what: str) -> ConfigError:
        return ConfigError(what, file=str(path), line=number)

    if not line.strip():
        raise refuse("an empty line among the texts")
    try:
        found = json.loads(line)
    except ValueError as error:
        raise refuse(f"not a JSON object: {error}") from None
    if not isinstance(found, dict) or ("text" in found) == ("messages" in found):
        raise refuse("a calibration text has exactly one of 'text' and 'messages'")
    made = Sample(text=found["text"]) if "text" in found else Sample(messages=_messages(found["messages"], refuse))
    if not isinstance(made.plain, str) or not made.plain.strip():
        raise refuse("a calibration text is empty, or no text")
    if any("\ud800" <= letter <= "\udfff" for letter in made.plain):
        raise refuse("a calibration text holds half a character (a lone surrogate), which no tokenizer reads")
    return made


def _messages(found: Any, refuse: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(found, list) or not found:
        raise refuse("'messages' is a list of turns")
    for turn in found:
        if not isinstance(turn, dict) or not all(isinstance(turn.get(key), str) for key in ("role", "content")):
            raise refuse("each turn of 'messages' has 'role' and 'content', both text")
    return tuple((turn["role"], turn["content"]) for turn in found)
