"""A symptom as a person writes it -> its value: ``24GB``, ``40%``, ``31ms``, ``900GB/s``. Nothing is guessed: a time needs its unit."""

from __future__ import annotations

import re
from difflib import get_close_matches

from quantgate.sizes import size_bytes
from quantgate.symptoms import FIELDS, Field, Kind

Written = str | int | float | bool
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}
EXPECTED: dict[Kind, str] = {
    "bytes": "a size such as 24GB or 600MiB",
    "rate": "a rate such as 900GB/s",
    "share": "a share such as 40% or 0.4",
    "seconds": "a time with its unit, such as 31ms or 0.031s",
    "count": "a whole number, 0 or more",
    "rows": "a whole number, 1 or more",
    "ratio": "a number, 0 or more, such as 0.1",
    "cost": "a number above 0, such as 1.2",
    "flag": "yes or no",
}
_NUMBER = r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE]([+-]?[0-9]{1,2}))?"


def field_of(key: str) -> Field:
    """The symptom called so. Raises ``ValueError`` with the nearest name."""
    known = {one.key: one for one in FIELDS}
    if key not in known:
        near = get_close_matches(key, known, n=1)
        hint = f"did you mean '{near[0]}'? " if near else ""
        raise ValueError(f"unknown symptom '{key}': {hint}known are {', '.join(known)}")
    return known[key]


def read(field: Field, written: Written | None) -> int | float | bool:
    """The value, in bytes, seconds, shares of one, and so on. Raises ``ValueError`` with what was found and what is allowed."""
    try:
        found = _read(field.kind, written)
    except (ValueError, OverflowError):
        found = None
    if found is None:
        raise ValueError(f"{field.key}: found {written!r}, expected {EXPECTED[field.kind]}")
    return found


def _read(kind: Kind, written: Written | None) -> int | float | bool | None:
    if kind == "flag":
        return {"yes": True, "true": True, "no": False, "false": False}.get(str(written).lower())
    if written is None or isinstance(written, bool):
        return None
    text = str(written).strip()
    match kind:
        case "bytes":
            return size_bytes(text) or None
        case "rate":
            return float(size_bytes(text.removesuffix("/s"))) or None
        case "seconds":
            parts = re.fullmatch(rf"({_NUMBER})\s*(ms|us|µs|s)", text)
            return None if parts is None else float(parts[1]) * SECONDS[parts[4]] or None
        case "share":
            share = _number(text.removesuffix("%").rstrip())
            share = share / 100 if share is not None and text.endswith("%") else share
            return share if share is not None and share <= 1 else None
        case "ratio" | "cost":
            return _number(text)
        case _:
            whole = int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None
            return whole if whole is None or whole >= (1 if kind == "rows" else 0) else None


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(_NUMBER, text) else None
