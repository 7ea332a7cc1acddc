"""Plain text that models read and are compared on: from a JSONL file a line each, or one stream from any other file.

A stream is cut into windows by whoever has the tokenizer. Nothing is known here of models; nothing is guessed: a line
without the field that was asked for is refused, and so is a file without any text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quantgate.errors import ConfigError
from quantgate.files import file_digest
from quantgate.records import DivergenceConfig

STREAM = "stream"
"""Slice of a text that is one stream."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """One text with its name and slice."""

    text_id: str
    slice: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Texts:
    """A file of texts. ``stream``: it is one text, to be cut into windows that do not overlap."""

    name: str
    sha256: str
    texts: tuple[Text, ...]
    stream: bool


def load(config: DivergenceConfig) -> Texts:
    """Read the file, at most ``max_texts`` of a JSONL's lines, blank ones left out. Raises ``ConfigError`` naming file and line."""
    path = Path(config.path)
    try:
        content, sha256 = path.read_text(encoding="utf-8-sig"), file_digest(path)
    except FileNotFoundError as error:
        raise ConfigError("no such file of texts", file=config.path) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the texts cannot be read: {error}", file=config.path) from error
    stream = path.suffix.lower() not in (".jsonl", ".ndjson")
    texts = (Text(text_id=config.name, slice=STREAM, text=content),) if stream else tuple(_lines(content, config))
    if not any(one.text.strip() for one in texts):
        raise ConfigError("holds no text", file=config.path)
    return Texts(name=config.name, sha256=sha256, texts=texts, stream=stream)


def _lines(content: str, config: DivergenceConfig) -> list[Text]:
    found: list[Text] = []
    for number, line in enumerate(content.split("\n"), start=1):
        if len(found) < config.max_texts and line.strip():
            found.append(_text(line, number, config))
    return found


def _text(line: str, number: int, config: DivergenceConfig) -> Text:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"not JSON: {error}", file=config.path, line=number) from error
    if not isinstance(values, dict):
        raise ConfigError("a JSON object is expected on each line", file=config.path, line=number)
    parts = [_field(values, name, number, config) for name in config.fields]
    where = "all" if config.slice_field is None else _field(values, config.slice_field, number, config)
    return Text(text_id=str(values.get("id", f"line {number}")), slice=where, text="\n".join(parts))


def _field(values: dict[str, Any], name: str, number: int, config: DivergenceConfig) -> str:
    found = values.get(name)
    if not isinstance(found, str) or not found.strip():
        has = _named([key for key, value in values.items() if isinstance(value, str) and value.strip()])
        raise ConfigError(f"the line has no text in field '{name}'; {has}", file=config.path, line=number)
    return found


def _named(keys: Sequence[str]) -> str:
    return f"fields with text are {', '.join(keys)}" if keys else "it has no field with text"
