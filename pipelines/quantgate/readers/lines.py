"""What the readers share: bytes with their digest, JSON Lines with numbers, scores, names. Nothing is guessed.

A fault has its file, its line and its field. ``NaN`` is kept only where a format uses it to say that an item has no score.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Never

from quantgate.errors import ResultsError
from quantgate.records import ItemEvidence, ItemScore, Scalar

BOM = b"\xef\xbb\xbf"
SHORT = 200
"""Characters kept of an answer."""
PROMPT_END = 600
"""Characters kept of a prompt: its end, where the question stands after the examples."""
SLICE_FIELDS = ("slice", "subject", "category")
MOST_SLICES = 100
"""More distinct values than this are no slices but something else, a title or a source."""
EVERYTHING = "all"
Row = dict[str, Any]


class RepeatedKey(Exception):
    """A key that stands twice in one object: nobody knows which of the two counts."""


def _refuse_twice(pairs: list[tuple[str, Any]]) -> Row:
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [key for key, _ in pairs]
        raise RepeatedKey(f"{next(key for key in names if names.count(key) > 1)}: the key stands twice")
    return row


_DECODER = json.JSONDecoder(object_pairs_hook=_refuse_twice)
"""Refuses a key that stands twice; over twenty thousand lines of samples that costs a twentieth of a second."""


def read_bytes(path: Path) -> bytes:
    """All bytes of a file. Raises ``ResultsError`` where it cannot be read, is empty or is UTF-16."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ResultsError(f"cannot be read: {error.strerror}", file=str(path)) from error
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ResultsError("is UTF-16; save it as UTF-8", file=str(path), line=1)
    if not data.removeprefix(BOM).strip():
        raise ResultsError("is empty: it has no item", file=str(path))
    return data


def refuse_unreadable(path: Path) -> None:
    """Refuse, by its first bytes, a file that no reader can take: an empty one, UTF-16, one that may not be read."""
    try:
        with path.open("rb") as stream:
            head = stream.read(4096)
    except OSError as error:
        raise ResultsError(f"cannot be read: {error.strerror}", file=str(path)) from error
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ResultsError("is UTF-16; save it as UTF-8", file=str(path), line=1)
    if not head:
        raise ResultsError("is empty: it has no item", file=str(path))


def digest(parts: Iterable[bytes]) -> str:
    """SHA-256 over several files' bytes, each with its length."""
    sha = hashlib.sha256()
    for part in parts:
        sha.update(f"{len(part)}\0".encode() + part)
    return sha.hexdigest()


def text_digest(value: object) -> str:
    """A short digest of a JSON value, to compare questions with."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode("utf-8", errors="replace")).hexdigest()[:16]


def stated(value: object) -> Scalar:
    """A JSON value as a condition: as it is, or as text; a long text with its digest, so that no difference is cut off."""
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
    return text if len(text) <= SHORT else f"{text[: SHORT // 2]}… ({text_digest(text)})"


def first_object(path: Path) -> Row:
    """The first line of a file as an object; empty where it is none, or the file cannot be read."""
    try:
        with path.open("rb") as stream:
            value = json.loads(stream.readline(1 << 24).removeprefix(BOM))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def json_lines(data: bytes, file: str, *, decoder: json.JSONDecoder | None = None) -> Iterator[tuple[int, Row]]:
    """Numbered objects, blank lines left out. A byte-order mark and carriage returns change nothing; only LF ends a line.

    Raises ``ResultsError`` for what is no JSON object. NaN and infinity are floats here: whoever reads the field refuses them.
    """
    for line, raw in enumerate(data.removeprefix(BOM).split(b"\n"), start=1):
        if raw and not raw.isspace():
            yield line, json_object(raw, file, line, decoder=decoder)


def json_object(raw: bytes, file: str, line: int | None = None, *, decoder: json.JSONDecoder | None = None) -> Row:
    """Bytes as one JSON object, by the default decoder, which is strict, where none is given. Raises ``ResultsError`` for any other."""
    try:
        value = (decoder or _DECODER).decode(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ResultsError(
            f"not UTF-8 at byte {error.start + 1}; save the file as UTF-8", file=file, line=line
        ) from error
    except json.JSONDecodeError as error:
        where = line if line is not None else error.lineno
        raise ResultsError(f"invalid JSON: {error.msg} at column {error.colno}", file=file, line=where) from error
    except RepeatedKey as error:
        raise ResultsError(str(error), file=file, line=line) from error
    except (ValueError, RecursionError) as error:
        raise ResultsError("invalid JSON: a number or a nesting beyond all measure", file=file, line=line) from error
    if not isinstance(value, dict):
        raise ResultsError(f"found {kind(value)}, expected an object", file=file, line=line)
    return value


def score(value: object, field: str, file: str, line: int | None) -> float:
    """A score: a boolean or a finite number. Text that looks like a number is refused, not converted."""
    if isinstance(value, bool | int | float):
        if math.isfinite(found := _as_float(value)):
            return found
        refuse(f"{field}: found {found}, which is no score", file, line)
    raise ResultsError(f"{field}: found {kind(value)}, expected a number such as 0 or 1", file=file, line=line)


def _as_float(value: float) -> float:
    """The float nearest to a number; infinity for a whole number beyond all floats."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def name(value: object, field: str, file: str, line: int | None) -> str:
    """An id, slice or cluster: a printable string, or a whole number as text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        refuse(f"{field}: found {kind(value)}, expected a string or a whole number", file, line)
    if not value.strip():
        refuse(f"{field}: empty", file, line)
    if not value.isprintable():
        refuse(f"{field}: {value[:40]!r} holds a line end or a control character", file, line)
    return value


def refuse(what: str, file: str, line: int | None) -> Never:
    """Raise ``ResultsError`` at a place."""
    raise ResultsError(what, file=file, line=line)


def kind(value: object) -> str:
    """What a JSON value is, in words."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return f"the number {value}"
        case str():
            return f"the string {value[:40]!r}"
        case list():
            return "a list"
        case _:
            return "an object"


def slice_of(fields: Mapping[str, Any] | None) -> str:
    """The slice that an item's own fields name; ``all`` where they name none."""
    for field in SLICE_FIELDS if fields else ():
        value = None if fields is None else fields.get(field)
        if isinstance(value, str) and value.strip() and value.isprintable():
            return value
    return EVERYTHING


def one_slice(items: list[ItemScore]) -> tuple[tuple[ItemScore, ...], str | None]:
    """The items; without their slices, and a sentence, where nearly every item has its own."""
    names = {item.slice for item in items}
    if len(names) <= MOST_SLICES:
        return tuple(items), None
    plain = (
        ItemScore(
            item_id=item.item_id,
            slice=EVERYTHING,
            cluster=item.cluster,
            value=item.value,
            why_unscored=item.why_unscored,
            answered=item.answered,
            expected=item.expected,
            evidence=item.evidence,
        )
        for item in items
    )
    return tuple(plain), f"it names {len(names)} slices, which is more than {MOST_SLICES}: none is shown"


def twice(lines_of: Mapping[str, list[int]]) -> str | None:
    """A sentence on ids that stand on several lines, the first three with their lines; None where there are none."""
    found = [(item, lines) for item, lines in lines_of.items() if len(lines) > 1]
    if not found:
        return None
    said = ", ".join(f"{item!r} on lines {' and '.join(map(str, lines[:4]))}" for item, lines in found[:3])
    more = f", and {len(found) - 3} more" if len(found) > 3 else ""
    return f"{len(found)} {'id stands' if len(found) == 1 else 'ids stand'} more than once: {said}{more}"


def shortened(text: object) -> str:
    """An answer, cut to what a report shows."""
    found = text if isinstance(text, str) else "" if text is None else str(text)
    return found if len(found) <= SHORT else f"{found[: SHORT - 1]}…"


def end_of(prompt: str) -> str:
    """The end of a prompt."""
    return prompt if len(prompt) <= PROMPT_END else f"…{prompt[1 - PROMPT_END :]}"


def item(
    item_id: str,
    value: float | None,
    *,
    why: str | None = None,
    slice_name: str = EVERYTHING,
    cluster: str | None = None,
) -> ItemScore:
    """An item of which nothing but its score is known."""
    return ItemScore(
        item_id=item_id,
        slice=slice_name,
        cluster=cluster,
        value=value,
        why_unscored=why,
        evidence=ItemEvidence(item_id=item_id),
    )
