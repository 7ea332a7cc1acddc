"""Golden sets: read a list of questions with their right answers, and trust nothing about the file.

Knows the layout ``golden_sets/<name>/v<N>/{items.jsonl, manifest.json}`` and the keys of an item. Refuses to know how
an item is shown to a model or scored. The reader goes line by line on bytes, so that every fault has a file, a line and
a field, and neither a byte-order mark, nor a carriage return, nor a U+2028 inside a string changes what is read. Faults
are collected, one a line and up to ``MAX_FAULTS``, and raised together. Nothing is cached: a load reads the bytes on
disk and digests them, every time.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, Never

from quantgate.errors import GoldenSetError
from quantgate.records import GoldenItem, GoldenPart, GoldenReference, GoldenSet

ITEMS_FILE = "items.jsonl"
MANIFEST_FILE = "manifest.json"
MAX_FAULTS = 20
MAX_NEW_TOKENS = 256
DEFAULT_NEW_TOKENS = 12
DEFAULT_SLICE = "all"
SHARED_KEYS = ("id", "slice", "prompt", "metric", "cluster", "few_shot", "template")
KEYS_BY_METRIC: Mapping[str, tuple[str, ...]] = {
    "multiple_choice": ("choices", "answer"),
    "exact_match": ("answers", "answer", "stop", "max_new_tokens"),
}
_BOM = b"\xef\xbb\xbf"
_Row = dict[str, object]


def load(path: Path) -> GoldenSet:
    """Read a folder with a manifest, or a bare JSON Lines file (then unversioned and named after the file).

    An ``items.jsonl`` with a manifest beside it is read as its folder, so that no spelling of the path goes round the
    digest.

    Raises:
        GoldenSetError: unreadable, altered under its manifest, without items, or faulty; ``line`` is that of the
        first fault.
    """
    sealed = path.name == ITEMS_FILE and (path.parent / MANIFEST_FILE).exists()
    folder = path.parent if sealed else path
    return _load_folder(folder) if folder.is_dir() else _load_bare(path)


def reference_of(golden: GoldenSet) -> GoldenReference:
    """Reduce a golden set to what the gate may know: ids, chance level and digest."""
    return GoldenReference(
        name=golden.name,
        version=golden.version,
        sha256=golden.sha256,
        item_ids=tuple(item.item_id for item in golden.items),
        chance_level=chance_level(golden.items),
        parts=tuple(_part(golden, name) for name in golden.slices),
    )


def _part(golden: GoldenSet, name: str) -> GoldenPart:
    items = [item for item in golden.items if item.slice == name]
    return GoldenPart(name=name, item_ids=tuple(item.item_id for item in items), chance_level=chance_level(items))


def chance_level(items: Sequence[GoldenItem]) -> float:
    """Compute the mean accuracy of guessing, in [0, 1]: 1 / choices for multiple choice, 0 for generated answers.

    Raises:
        ValueError: no items.
    """
    if not items:
        raise ValueError("no items: a chance level needs at least one")
    return sum(1 / len(item.choices) for item in items if item.choices) / len(items)


def check(golden: GoldenSet) -> tuple[str, ...]:
    """Warn about the content, a sentence each. Warnings never block: only a person can tell what is meant."""
    return (*_repeated_prompts(golden), *_leaked_answers(golden), *_favoured_position(golden))


def write_manifest(folder: Path, licence: str) -> Path:
    """Seal ``<name>/v<N>/items.jsonl`` with its digest and return the manifest's path. Sealing twice is harmless.

    Raises:
        GoldenSetError: the folder is not named ``v<N>``, the items are faulty, or another content is already sealed
        there.
    """
    folder = folder.resolve()
    if not re.fullmatch(r"v[1-9][0-9]*", folder.name):
        raise GoldenSetError(
            f"the folder is named {folder.name!r}; expected <name>/v<N>, such as faq/v1", file=str(folder)
        )
    data = _read(folder / ITEMS_FILE)
    items = _parse(data, str(folder / ITEMS_FILE))
    manifest = _Manifest(
        schema_version=1,
        name=folder.parent.name,
        version=folder.name,
        sha256=_sha256(data),
        count=len(items),
        slices=_slice_counts(items),
        licence=licence,
    )
    return _seal(folder / MANIFEST_FILE, manifest)


# ---------------------------------------------------------------------------------------------- files and manifest


@dataclass(frozen=True, kw_only=True, slots=True)
class _Manifest:
    """manifest.json, schema version 1."""

    schema_version: int
    name: str
    version: str
    sha256: str
    count: int
    slices: dict[str, int]
    licence: str


def _load_bare(path: Path) -> GoldenSet:
    data = _read(path)
    items = _parse(data, str(path))
    return GoldenSet(name=path.stem, version="unversioned", sha256=_sha256(data), items=items, path=str(path))


def _load_folder(folder: Path) -> GoldenSet:
    file = str(folder / ITEMS_FILE)
    data = _read(folder / ITEMS_FILE)
    manifest = _read_manifest(folder / MANIFEST_FILE)
    sha256 = _sha256(data)
    if sha256 != manifest.sha256:
        _refuse_altered(file, f"its digest is {sha256}, the manifest has {manifest.sha256}")
    items = _parse(data, file)
    if len(items) != manifest.count:
        _refuse_altered(file, f"it has {len(items)} items, the manifest has {manifest.count}")
    if _slice_counts(items) != manifest.slices:
        _refuse_altered(file, f"its slices are {_slice_counts(items)}, the manifest has {manifest.slices}")
    return GoldenSet(name=manifest.name, version=manifest.version, sha256=sha256, items=items, path=str(folder))


def _refuse_altered(file: str, difference: str) -> Never:
    advice = "restore it, or make a new version (v<N+1>) with its own manifest"
    raise GoldenSetError(f"the file was changed under an old manifest: {difference}; {advice}", file=file)


def _read(path: Path) -> bytes:
    """Read all bytes of a file; a missing manifest gets its own advice."""
    try:
        return path.read_bytes()
    except OSError as error:
        sealed = path.name == MANIFEST_FILE and isinstance(error, FileNotFoundError)
        hint = "; seal the folder with quantgate.golden.write_manifest(folder, licence)" if sealed else ""
        raise GoldenSetError(f"cannot be read: {error.strerror}{hint}", file=str(path)) from error


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _slice_counts(items: Sequence[GoldenItem]) -> dict[str, int]:
    return dict(Counter(item.slice for item in items))


def _read_manifest(path: Path) -> _Manifest:
    data = _read(path)
    try:
        row = _object(data.removeprefix(_BOM))
        _refuse_unknown(row, tuple(_Manifest.__dataclass_fields__))
        if row.get("schema_version") != 1:
            raise _Fault(f"schema_version: found {row.get('schema_version')!r}, this quantgate reads 1")
        return _Manifest(
            schema_version=1,
            name=_string(_needed(row, "name"), "name"),
            version=_string(_needed(row, "version"), "version"),
            sha256=_string(_needed(row, "sha256"), "sha256"),
            count=_whole(_needed(row, "count"), "count"),
            slices=_counts(_needed(row, "slices")),
            licence=_string(_needed(row, "licence"), "licence"),
        )
    except _Fault as fault:
        raise GoldenSetError(str(fault), file=str(path)) from fault


def _counts(value: object) -> dict[str, int]:
    if not isinstance(value, dict):
        raise _Fault(f"slices: found {_kind(value)}, expected an object of slice names and item counts")
    return {name: _whole(count, f"slices[{name!r}]") for name, count in value.items()}


def _seal(path: Path, manifest: _Manifest) -> Path:
    """Write the manifest in one step; an earlier one for other bytes stays."""
    if path.exists() and _read_manifest(path).sha256 != manifest.sha256:
        number = int(manifest.version.removeprefix("v"))
        raise GoldenSetError(
            f"already seals another content; put the changed items into v{number + 1}, so that earlier results keep "
            f"their meaning (or delete the manifest, if nothing was measured with {manifest.version} yet)",
            file=str(path),
        )
    try:
        _string(manifest.licence, "licence")
    except _Fault as fault:
        raise GoldenSetError(str(fault), file=str(path)) from fault
    draft = path.with_suffix(".json.partial")
    draft.write_bytes((json.dumps(asdict(manifest), indent=2, ensure_ascii=False) + "\n").encode())
    draft.replace(path)
    return path


# ---------------------------------------------------------------------------------------------- lines


class _Fault(Exception):
    """One thing that is wrong, without its place."""


def _parse(data: bytes, file: str) -> tuple[GoldenItem, ...]:
    """Read all items, or raise one error that lists the faults."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise GoldenSetError("is UTF-16; save it as UTF-8", file=file, line=1)
    items: list[GoldenItem] = []
    faults: list[tuple[int, str]] = []
    seen: dict[str, int] = {}
    for line, raw in _lines(data):
        try:
            items.append(_item(_object(raw), line, seen))
        except _Fault as fault:
            faults.append((line, str(fault)))
        if len(faults) == MAX_FAULTS:
            break
    if faults:
        raise _together(faults, file)
    if not items:
        raise GoldenSetError("has 0 items, so nothing could be measured", file=file)
    return tuple(items)


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the numbered lines, without blank ones at the end. Only LF ends a line: U+2028 may stand in a string."""
    lines = [line.removeprefix(_BOM).strip() for line in data.split(b"\n")]
    while lines and not lines[-1]:
        lines.pop()
    return enumerate(lines, start=1)


def _together(faults: Sequence[tuple[int, str]], file: str) -> GoldenSetError:
    first_line, first = faults[0]
    rest = [f"{file}:{line}: {what}" for line, what in faults[1:]]
    if len(faults) == MAX_FAULTS:
        rest.append(f"stopped reading after {MAX_FAULTS} faults")
    return GoldenSetError("\n".join([first, *rest]), file=file, line=first_line)


def _object(raw: bytes) -> _Row:
    """Decode a line as a JSON object, strictly: UTF-8, no NaN or Infinity, no key twice."""
    if not raw:
        raise _Fault("blank line; remove it")
    try:
        value = _DECODER.decode(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise _Fault(f"not UTF-8 at byte {error.start + 1} of the line; save the file as UTF-8") from error
    except json.JSONDecodeError as error:
        raise _Fault(f"invalid JSON: {error.msg} at column {error.colno}") from error
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise _Fault("invalid JSON: a number or a nesting beyond all measure") from error
    if not isinstance(value, dict):
        raise _Fault(f'found {_kind(value)}, expected an object such as {{"id": ...}}')
    return value


def _pairs(pairs: list[tuple[str, object]]) -> _Row:
    row = dict(pairs)
    if len(row) != len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise _Fault(f"{twice}: the key stands twice")
    return row


def _refuse_constant(token: str) -> Never:
    raise _Fault(f"invalid JSON: {token} is no JSON number")


# Decimal keeps a number as it was written: 8.540 stays 8.540.
_DECODER = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_refuse_constant, parse_float=Decimal)


# ---------------------------------------------------------------------------------------------- items


def _item(row: _Row, line: int, seen: dict[str, int]) -> GoldenItem:
    """Build one item. Its id enters ``seen`` (id -> line) before anything else can be found wrong."""
    item_id = _label(_needed(row, "id"), "id")
    if seen.setdefault(item_id, line) != line:
        raise _Fault(f"id: {item_id!r} stands on lines {seen[item_id]} and {line}; every item needs its own")
    metric = _metric(row)
    _refuse_unfit(row, metric)
    choices, answer = _multiple_choice(row) if metric == "multiple_choice" else ((), None)
    answers, stop, max_new_tokens = _generated(row) if metric == "exact_match" else ((), (), DEFAULT_NEW_TOKENS)
    return GoldenItem(
        item_id=item_id,
        slice=_slice(row),
        prompt=_string(_needed(row, "prompt"), "prompt"),
        metric=metric,
        cluster=_label(row["cluster"], "cluster") if "cluster" in row else None,
        few_shot=_string(row.get("few_shot", ""), "few_shot", may_be_blank=True),
        template=_template(row),
        choices=choices,
        answer=answer,
        answers=answers,
        stop=stop,
        max_new_tokens=max_new_tokens,
        line=line,
    )


def _metric(row: _Row) -> str:
    """Take the metric named, or the one that the keys leave no doubt about."""
    if "metric" not in row:
        return "multiple_choice" if "choices" in row else "exact_match"
    metric = _string(row["metric"], "metric")
    if metric not in KEYS_BY_METRIC:
        known = tuple(KEYS_BY_METRIC)
        raise _Fault(f"metric: found {metric!r}{_hint(metric, known)}; known are {', '.join(known)}")
    return metric


def _slice(row: _Row) -> str:
    value = row.get("slice", DEFAULT_SLICE)
    if isinstance(value, list):
        raise _Fault("slice: found a list; an item belongs to exactly one slice, write its name")
    return _name(value, "slice")


def _template(row: _Row) -> Literal["raw", "chat", "auto"]:
    match row.get("template"):
        case None if "template" not in row:
            return "auto"
        case "raw":
            return "raw"
        case "chat":
            return "chat"
        case other:
            raise _Fault(f"template: found {other!r}; allowed are raw and chat")


def _multiple_choice(row: _Row) -> tuple[tuple[str, ...], int]:
    """Read the choices and the index of the right one."""
    choices = _strings(_needed(row, "choices"), "choices")
    if len(choices) < 2:
        raise _Fault(f"choices: found {len(choices)}, expected at least 2")
    for index, choice in enumerate(choices):
        if choice != choice.strip():
            raise _Fault(f"choices[{index}]: {choice!r} has white space around it; quantgate adds the space itself")
        if choices.index(choice) != index:
            raise _Fault(f"choices[{index}]: {choice!r} stands twice")
    answer = _whole(_needed(row, "answer"), "answer")
    if answer >= len(choices):
        raise _Fault(f"answer: index {answer} is out of range; the first choice is 0, the last one {len(choices) - 1}")
    return choices, answer


def _generated(row: _Row) -> tuple[tuple[str, ...], tuple[str, ...], int]:
    """Read the right answers, the stop strings and the length cap in tokens."""
    answers = _answers(row)
    stop = _strings(row.get("stop", []), "stop", may_be_blank=True)
    for answer in answers:
        if held := [mark for mark in stop if mark in answer]:
            raise _Fault(f"answers: {answer!r} holds the stop string {held[0]!r}, so no output can ever match it")
    cap = _whole(row.get("max_new_tokens", DEFAULT_NEW_TOKENS), "max_new_tokens")
    if not 1 <= cap <= MAX_NEW_TOKENS:
        raise _Fault(f"max_new_tokens: found {cap}, allowed are 1 to {MAX_NEW_TOKENS}")
    return answers, stop, cap


def _answers(row: _Row) -> tuple[str, ...]:
    """Read all references, from ``answers`` (a list) or ``answer`` (one, or a list)."""
    if "answers" in row and "answer" in row:
        raise _Fault("answers: given beside answer; keep one of the two")
    if "answers" not in row and "answer" not in row:
        raise _Fault("answers: missing")
    field = "answers" if "answers" in row else "answer"
    value = row[field]
    if isinstance(value, list):
        if not value:
            raise _Fault(f"{field}: an empty list; give at least one right answer")
        return tuple(dict.fromkeys(_answer(each, f"{field}[{index}]") for index, each in enumerate(value)))
    if field == "answers":
        raise _Fault(f"answers: found {_kind(value)}, expected a list of strings")
    return (_answer(value, field),)


def _answer(value: object, field: str) -> str:
    r"""Turn one reference into text, stripped and without ``\r``; 42 and 42.0 become ``42``, 8.540 stays ``8.540``."""
    if isinstance(value, (int, Decimal)) and not isinstance(value, bool):
        return _number_text(Decimal(value), field)
    return _string(value, field).replace("\r\n", "\n").replace("\r", "\n").strip()


def _number_text(number: Decimal, field: str) -> str:
    if abs(number.adjusted()) > 20:
        raise _Fault(f"{field}: {number} is too large or small to be written out; give it as a string")
    return str(int(number)) if number == int(number) else format(number, "f")


# ---------------------------------------------------------------------------------------------- fields


def _needed(row: _Row, field: str) -> object:
    if field not in row:
        raise _Fault(f"{field}: missing")
    return row[field]


def _string(value: object, field: str, *, may_be_blank: bool = False) -> str:
    if not isinstance(value, str):
        raise _Fault(f"{field}: found {_kind(value)}, expected a string")
    if not may_be_blank and not value.strip():
        raise _Fault(f"{field}: empty")
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise _Fault(f"{field}: half of a surrogate pair, which is no character")
    return value


def _strings(value: object, field: str, *, may_be_blank: bool = False) -> tuple[str, ...]:
    """Read a list of strings, none empty; with ``may_be_blank`` a string may be all white space, such as a line end."""
    if not isinstance(value, list):
        raise _Fault(f"{field}: found {_kind(value)}, expected a list of strings")
    if "" in value:
        raise _Fault(f"{field}[{value.index('')}]: empty")
    return tuple(_string(each, f"{field}[{index}]", may_be_blank=may_be_blank) for index, each in enumerate(value))


def _label(value: object, field: str) -> str:
    """Read an id: a string, or a whole number as text."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else _name(value, field)


def _name(value: object, field: str) -> str:
    """Read a string that stands in reports, so on one line and without control characters."""
    name = _string(value, field)
    if not name.isprintable():
        raise _Fault(f"{field}: {name!r} holds a line end or a control character")
    return name


def _whole(value: object, field: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _Fault(f"{field}: found {_kind(value)}, expected a whole number")
    if value < 0:
        raise _Fault(f"{field}: found {value}, expected 0 or more")
    return value


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int():
            return f"the number {value}"
        case Decimal():
            return f"the decimal number {value}"
        case str():
            return f"the string {value[:40]!r}"
        case list():
            return "a list"
        case _:
            return "an object"


def _refuse_unfit(row: _Row, metric: str) -> None:
    """Refuse keys that no item has, or that belong to items of another metric."""
    _refuse_unknown(row, (*SHARED_KEYS, *(key for keys in KEYS_BY_METRIC.values() for key in keys)))
    allowed = (*SHARED_KEYS, *KEYS_BY_METRIC[metric])
    for key in row:
        if key not in allowed:
            raise _Fault(f"{key}: not a key of {metric} items, which have {', '.join(KEYS_BY_METRIC[metric])}")


def _refuse_unknown(row: _Row, known: tuple[str, ...]) -> None:
    for key in row:
        if key not in known:
            raise _Fault(f"unknown key {key!r}{_hint(key, known)}; known are {', '.join(dict.fromkeys(known))}")


def _hint(found: str, known: tuple[str, ...]) -> str:
    nearest = get_close_matches(found, known, n=1)
    return f" (did you mean {nearest[0]!r}?)" if nearest else ""


# ---------------------------------------------------------------------------------------------- hygiene


def _repeated_prompts(golden: GoldenSet) -> Iterator[str]:
    """Find the same question asked twice: a contradiction, or one piece of evidence counted as two."""
    first: dict[tuple[str, ...], GoldenItem] = {}
    for item in golden.items:
        earlier = first.setdefault((_plain(item.prompt), *sorted(map(_plain, item.choices))), item)
        if earlier is item:
            continue
        pair = f"items {earlier.item_id!r} (line {earlier.line}) and {item.item_id!r} (line {item.line})"
        if _right(earlier).isdisjoint(_right(item)):
            yield f"{pair} ask the same and have different right answers"
        elif earlier.cluster is None or earlier.cluster != item.cluster:
            yield f"{pair} ask the same; give them one cluster, or drop one, else they count as independent"


def _leaked_answers(golden: GoldenSet) -> Iterator[str]:
    """Find few-shot examples that hold the question itself, or end with the answer, where a model need only copy."""
    for item in golden.items:
        if item.few_shot and _plain(item.prompt) in _plain(item.few_shot):
            yield f"item {item.item_id!r} (line {item.line}): its own prompt stands in its few_shot"
    shown = [item for item in golden.items if item.few_shot.strip() and _ends_with_answer(item)]
    if shown:
        yield (
            f"{len(shown)} of {len(golden.items)} items have their right answer at the end of their few_shot, where it "
            f"can be copied; the first is {shown[0].item_id!r} (line {shown[0].line})"
        )


def _ends_with_answer(item: GoldenItem) -> bool:
    last = item.few_shot.strip().rsplit("\n", 1)[-1]
    return any(re.search(rf"(?<!\w){re.escape(right)}\W*$", _plain(last)) for right in _right(item))


def _favoured_position(golden: GoldenSet) -> Iterator[str]:
    """Find right choices that mostly stand at one index: a model without knowledge scores there."""
    items = [item for item in golden.items if item.choices]
    if len(items) < 20:
        return
    position, count = Counter(item.answer for item in items).most_common(1)[0]
    if count / len(items) > (1 + chance_level(items)) / 2:
        yield f"in {count} of {len(items)} multiple-choice items the right choice has index {position}; shuffle them"


def _right(item: GoldenItem) -> frozenset[str]:
    right = item.answers if item.answer is None else (item.choices[item.answer],)
    return frozenset(map(_plain, right))


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
