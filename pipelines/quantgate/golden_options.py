"""Options of a golden item: what its metric wants to know, each of the kind that the metric's table says.

A pattern is compiled and a file is held to its digest here, so that neither reaches a model unfit.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from pathlib import Path

from quantgate.golden_keys import ItemKeys, OptionKind
from quantgate.records import Scalar
from quantgate.strictjson import (
    Fault,
    Row,
    flag,
    kind,
    number,
    object_text,
    one_of,
    refuse_unknown,
    string,
    strings,
    whole,
)


def options_of(row: Row, metric: str, keys: ItemKeys, folder: Path) -> Mapping[str, Scalar | tuple[str, ...]]:
    """Read the options by the metric's own table of kinds; ``folder``: where a file that one names is. Raises ``Fault``."""
    value = row.get("options", {})
    if not isinstance(value, dict):
        raise Fault(f"options: found {kind(value)}, expected an object with {', '.join(keys.options)}")
    refuse_unknown(value, tuple(keys.options), inside="options")
    for key in keys.needed_options:
        if key not in value:
            raise Fault(f"options.{key}: missing; {metric} items need it")
    if keys.any_option and not value:
        raise Fault(f"options: missing; {metric} items need at least one of {', '.join(keys.options)}")
    found = {key: _option(each, f"options.{key}", keys.options[key]) for key, each in value.items()}
    for key in (one for one in found if keys.options[one] == "pattern"):
        _refuse_empty(str(found[key]), f"options.{key}", whole_text=found.get("where") == "full")
    files = {key: _file(str(found[key]), f"options.{key}", folder, value) for key in found if keys.options[key] == "file"}
    return {**found, **files}


def _option(value: object, field: str, wanted: OptionKind) -> Scalar | tuple[str, ...]:
    match wanted:
        case "text" | "file":
            return string(value, field, may_be_blank=True)
        case "pattern":
            return _pattern(string(value, field, may_be_blank=True), field)
        case "natural":
            return whole(value, field)
        case "number":
            return _number(value, field)
        case "flag":
            return flag(value, field)
        case "texts":
            return _texts(value, field)
        case "object":
            return object_text(value, field)
        case words:
            return one_of(value, field, words)


def _pattern(text: str, field: str) -> str:
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise Fault(f"{field}: {text!r} is no regular expression: {error}") from error
    if not text:
        raise Fault(f"{field}: empty, so everything would match")
    return text


def _refuse_empty(text: str, field: str, *, whole_text: bool) -> None:
    """A model that writes nothing must not be right."""
    pattern = re.compile(text)
    if (pattern.fullmatch("") if whole_text else pattern.search("")) is not None:
        raise Fault(f"{field}: {text!r} matches the empty text, so an empty output would be right; ask for a character at least")


def _file(text: str, field: str, folder: Path, options: Row) -> str:
    """Find a file that the item names and hold it to its digest, so that the digest of the set covers it."""
    path = folder / text
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except (OSError, ValueError) as error:
        raise Fault(f"{field}: {text!r} cannot be read in {folder}: {getattr(error, 'strerror', None) or error}") from error
    if options.get("sha256") != digest:
        given = "missing" if "sha256" not in options else "the file was changed"
        raise Fault(f"options.sha256: {given}; the digest of {text} is {digest}")
    return str(path)


def _number(value: object, field: str) -> float:
    found = float(number(value, field))
    if not (math.isfinite(found) and found >= 0):
        raise Fault(f"{field}: found {value}, expected a finite number from 0 on")
    return found


def _texts(value: object, field: str) -> tuple[str, ...]:
    found = strings(value, field)
    if not found:
        raise Fault(f"{field}: an empty list; leave the option out")
    return found
