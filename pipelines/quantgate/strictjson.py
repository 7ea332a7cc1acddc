"""JSON that a person wrote, read strictly: one object, UTF-8, no NaN or Infinity, no key twice, every value of the kind expected.

Knows kinds of values and says what was found. Refuses to know where a value came from: a ``Fault`` has a field and no
place, its reader adds file and line.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from difflib import get_close_matches
from typing import Any, Never

BOM = b"\xef\xbb\xbf"
Row = dict[str, object]


class Fault(Exception):
    """One thing that is wrong, without its place."""


def lines_of(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the numbered lines, without blank ones at the end. Only LF ends a line: U+2028 may stand in a string."""
    lines = [line.removeprefix(BOM).strip() for line in data.split(b"\n")]
    while lines and not lines[-1]:
        lines.pop()
    return enumerate(lines, start=1)


def object_of(raw: bytes) -> Row:
    """Decode a JSON object, strictly. Numbers with a point come as ``Decimal``, as they were written: 8.540 stays 8.540."""
    if not raw:
        raise Fault("blank line; remove it")
    try:
        value = _DECODER.decode(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise Fault(f"not UTF-8 at byte {error.start + 1} of the line; save the file as UTF-8") from error
    except json.JSONDecodeError as error:
        raise Fault(f"invalid JSON: {error.msg} at column {error.colno}") from error
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise Fault("invalid JSON: a number or a nesting beyond all measure") from error
    if not isinstance(value, dict):
        raise Fault(f'found {kind(value)}, expected an object such as {{"id": ...}}')
    return value


def _pairs(pairs: list[tuple[str, object]]) -> Row:
    row = dict(pairs)
    if len(row) != len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise Fault(f"{twice}: the key stands twice")
    return row


def _refuse_constant(token: str) -> Never:
    raise Fault(f"invalid JSON: {token} is no JSON number")


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_refuse_constant, parse_float=Decimal)


def needed(row: Row, field: str) -> object:
    """The value of a key that must be there."""
    if field not in row:
        raise Fault(f"{field}: missing")
    return row[field]


def string(value: object, field: str, *, may_be_blank: bool = False) -> str:
    """Read a string with something in it."""
    if not isinstance(value, str):
        raise Fault(f"{field}: found {kind(value)}, expected a string")
    if not may_be_blank and not value.strip():
        raise Fault(f"{field}: empty")
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise Fault(f"{field}: half of a surrogate pair, which is no character")
    return value


def strings(value: object, field: str, *, may_be_blank: bool = False) -> tuple[str, ...]:
    """Read a list of strings, none empty; with ``may_be_blank`` a string may be all white space, such as a line end."""
    if not isinstance(value, list):
        raise Fault(f"{field}: found {kind(value)}, expected a list of strings")
    if "" in value:
        raise Fault(f"{field}[{value.index('')}]: empty")
    return tuple(string(each, f"{field}[{index}]", may_be_blank=may_be_blank) for index, each in enumerate(value))


def label(value: object, field: str) -> str:
    """Read an id: a string, or a whole number as text."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else name(value, field)


def name(value: object, field: str) -> str:
    """Read a string that stands in reports, so on one line and without control characters."""
    found = string(value, field)
    if not found.isprintable():
        raise Fault(f"{field}: {found!r} holds a line end or a control character")
    return found


def whole(value: object, field: str) -> int:
    """Read a whole number, 0 or more."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise Fault(f"{field}: found {kind(value)}, expected a whole number")
    if value < 0:
        raise Fault(f"{field}: found {value}, expected 0 or more")
    return value


def flag(value: object, field: str) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise Fault(f"{field}: found {kind(value)}, expected true or false")
    return value


def number(value: object, field: str) -> Decimal:
    """Read a number, with or without a point."""
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        raise Fault(f"{field}: found {kind(value)}, expected a number")
    return Decimal(value)


def object_text(value: object, field: str) -> str:
    """Read a JSON object and hold it as its own text."""
    if not isinstance(value, dict):
        raise Fault(f"{field}: found {kind(value)}, expected an object")
    return json.dumps(_plain(value), ensure_ascii=False, sort_keys=True, allow_nan=False)


def _plain(value: Any) -> Any:
    """The value with numbers that ``json`` can write."""
    match value:
        case Decimal():
            return float(value)
        case dict():
            return {key: _plain(each) for key, each in value.items()}
        case list():
            return [_plain(each) for each in value]
        case _:
            return value


def one_of(value: object, field: str, allowed: tuple[str, ...]) -> str:
    """Read one of the words allowed."""
    if not isinstance(value, str) or value not in allowed:
        hint = nearest(value, allowed) if isinstance(value, str) else ""
        found = repr(value) if isinstance(value, str) else kind(value)
        raise Fault(f"{field}: found {found}{hint}; allowed are {', '.join(allowed)}")
    return value


def kind(value: object) -> str:
    """What was found, in words."""
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


def refuse_unknown(row: Row, known: tuple[str, ...], *, inside: str = "") -> None:
    """Refuse a key that is none of the known ones, with the nearest of them."""
    for key in row:
        if key not in known:
            place = f"{inside}: " if inside else ""
            raise Fault(f"{place}unknown key {key!r}{nearest(key, known)}; known are {', '.join(dict.fromkeys(known))}")


def nearest(found: str, known: tuple[str, ...]) -> str:
    """A hint at the known word that resembles what was found, or nothing."""
    near = get_close_matches(found, known, n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""
