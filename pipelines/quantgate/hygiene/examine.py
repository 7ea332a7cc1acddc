"""All that can be said of a golden set's file or folder without a model: what the reader refuses, and what a person should look at.

A fault is what a run would refuse, a contradiction, or a folder whose digests do not agree; everything else is a warning. Every finding
names file, line and key.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from quantgate import golden, golden_versions
from quantgate.errors import GoldenSetError
from quantgate.hygiene import items as of_items, sets as of_sets
from quantgate.hygiene.findings import Finding, fault, warning
from quantgate.hygiene.overlap import overlap
from quantgate.records import GoldenItem

FEW_COPIED = 10
TEXT_KEYS = ("text", "prompt", "content", "question")
_FIELD = re.compile(r"(?P<field>[a-z_]+(?:\[\d+\])?): (?P<what>.*)", re.DOTALL)
_UNKNOWN_KEY = re.compile(r"unknown key '(?P<field>[^']*)'")


def files_of(path: Path) -> tuple[Path, ...]:
    """The item files below a path: itself, a version's, or those of every version in a folder of sets.

    Raises ``GoldenSetError`` where there are none.
    """
    if not path.is_dir():
        return (path,)
    if (path / golden.ITEMS_FILE).is_file():
        return (path / golden.ITEMS_FILE,)
    found = tuple(sorted(path.rglob(golden.ITEMS_FILE)))
    if not found:
        raise GoldenSetError(f"has no {golden.ITEMS_FILE}, in no folder of it", file=str(path))
    return found


def examine(file: Path, calibration: Sequence[tuple[Path, Sequence[str]]] = ()) -> tuple[int, tuple[Finding, ...]]:
    """The number of readable items and every finding, by line. ``calibration``: files with their texts, see ``texts_of``."""
    items, faults = golden.examine(file)
    found = [*(_refused(line, what) for line, what in faults), *_folder(file, bool(faults)), *_doubts(items)]
    found += [one for path, texts in calibration for one in _calibrated(items, path, texts)]
    named = [replace(one, file=one.file or str(file)) for one in found]
    return len(items), tuple(sorted(named, key=lambda one: (one.line, one.severity != "fault")))


def texts_of(path: Path) -> tuple[str, ...]:
    """The texts of a calibration file: JSON Lines with a text each, or plain text with blank lines between them.

    Raises ``GoldenSetError`` with file and line for what cannot be read.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise GoldenSetError(f"cannot be read: {getattr(error, 'strerror', None) or error}", file=str(path)) from error
    if path.suffix in (".jsonl", ".ndjson"):
        rows = [(number, row) for number, row in enumerate(text.split("\n"), start=1) if row.strip()]
        return tuple(_text_of(row, path, number) for number, row in rows)
    return tuple(one for one in re.split(r"\n\s*\n", text.replace("\r\n", "\n")) if one.strip())


def _text_of(row: str, path: Path, number: int) -> str:
    try:
        value = json.loads(row)
    except (ValueError, RecursionError) as error:
        raise GoldenSetError(f"invalid JSON: {error}", file=str(path), line=number) from error
    if isinstance(value, str):
        return value
    keys = [key for key in TEXT_KEYS if isinstance(value, dict) and isinstance(value.get(key), str)]
    if not keys:
        what = f"no text: expected a string, or an object with one of {', '.join(TEXT_KEYS)}"
        raise GoldenSetError(what, file=str(path), line=number)
    return str(value[keys[0]])


def _refused(line: int, what: str) -> Finding:
    """A fault of the reader, with its key apart."""
    if found := _FIELD.fullmatch(what):
        return fault("refused", line, found["field"], found["what"])
    unknown = _UNKNOWN_KEY.match(what)
    return fault("refused", line, unknown["field"] if unknown else "", what)


def _doubts(items: Sequence[GoldenItem]) -> Iterator[Finding]:
    found = [(item, one) for item in items for one in of_items.doubts(item)]
    copying = _copying(items, found)
    yield from (one for item, one in found if (one.kind, item.slice) not in copying)
    yield from copying.values()
    yield from of_sets.doubts(items)


def _copying(items: Sequence[GoldenItem], found: Sequence[tuple[GoldenItem, Finding]]) -> dict[tuple[str, str], Finding]:
    """Slices in which many answers stand in their prompts: to find them there is what is asked, and that is said once."""
    sizes, kind = Counter(item.slice for item in items), "answer in prompt"
    told = Counter(item.slice for item, one in found if one.kind == kind)
    made = {}
    for name, count in told.items():
        if count >= FEW_COPIED and count > sizes[name] / 5:
            line = next(item.line for item, one in found if one.kind == kind and item.slice == name)
            what = f"{count} of {sizes[name]} items of slice {name!r} have their right answer in the prompt"
            made[kind, name] = warning(kind, line, "prompt", what, "fine where the answer is to be found in the prompt; else take it out")
    return made


def _folder(file: Path, faulty: bool) -> Iterator[Finding]:
    """A version's folder: its manifest, its log."""
    if file.name != golden.ITEMS_FILE:
        return
    manifest = file.parent / golden.MANIFEST_FILE
    if not manifest.exists():
        advice = "quantgate golden seal FOLDER --licence NAME"
        yield warning("not sealed", 0, "", "has no manifest, so nobody would notice a change", advice)
    elif not faulty:
        try:
            loaded = golden.load(file.parent)
            golden_versions.check_log(file.parent, loaded.sha256)
        except GoldenSetError as error:
            yield replace(fault("altered", error.line or 0, "sha256", error.what), file=error.file)
    elif golden_versions.digest_in(manifest) != golden_versions.digest_of(file):
        yield fault("altered", 0, "sha256", "the file is not the one that its manifest seals", "restore it, or make a new version")


def _calibrated(items: Sequence[GoldenItem], path: Path, texts: Sequence[str]) -> Iterator[Finding]:
    keys = {item.item_id: of_items.prompt_key(item) for item in items}
    for one in overlap(items, texts):
        how = "stands whole in" if one.whole else "shares 13 words with"
        what = f"{how} text {one.text + 1} of {path}: '{one.shared}'"
        yield warning("calibration", one.line, keys[one.item_id], what, "calibrate on other texts: what was calibrated on proves nothing")
