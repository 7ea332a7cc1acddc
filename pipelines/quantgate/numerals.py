r"""Numbers as people and models write them in running text.

A numeral is digits with an optional sign, currency sign, decimal point, exponent and thousands separators: a comma,
LaTeX's ``{,}`` or ``\\,``, or a no-break space, each followed by exactly three digits. What breaks these rules, such as
``12,34`` or ``1.2.3``, is no number as a whole: no part of it is taken instead. Fractions, roman numerals and words are
not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

_SEPARATOR = r"(?:,|\{,\}|\\,|\u00a0|\u202f)"
_JOINED = rf"(?:[0-9]|(?:{_SEPARATOR}|\.)(?=[0-9]))"
_MARKED = re.compile(
    rf"(?P<sign>(?<![\w)\]])[-+\u2212])?(?:\\?[$\u20ac\u00a3\u00a5\u20b9]\s?(?P<inner>[-\u2212])?)?"
    rf"(?P<digits>(?<![0-9])\.?[0-9]{_JOINED}*(?:[eE][-+]?[0-9]+(?![0-9]))?)"
)
_PLAIN = re.compile(rf"(?:[0-9]{{1,3}}(?:{_SEPARATOR}[0-9]{{3}})+|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+")
_TUPLE = re.compile(r"[(\[{]?\s*(?P<inside>[^()\[\]{}]*,[^()\[\]{}]*?)\s*[)\]}]?")
_RUN = re.compile(r"[-+\u2212]?[0-9]+(?:\.[0-9]+)?(?:\s*,\s*[-+\u2212]?[0-9]+(?:\.[0-9]+)?)+")
_LARGEST = 400
"""Digits beyond which a run of digits is no quantity."""


def numbers(text: str) -> Iterator[Decimal]:
    """Every number of a text, in order."""
    for found in _MARKED.finditer(text):
        value = _value(found)
        if value is not None and not _in_a_word(text, found):
            yield value


def number_of(text: str) -> Decimal | None:
    """The number that a text is as a whole, None where it is anything else."""
    found = _MARKED.fullmatch(text.strip())
    return None if found is None else _value(found)


def tuple_of(text: str) -> tuple[Decimal, ...] | None:
    """The numbers of a text such as ``0,1`` or ``(3, -4)``, None where it is anything else, a number with separators included."""
    found = _TUPLE.fullmatch(text.strip())
    if found is None or number_of(text) is not None:
        return None
    values = [number_of(part) for part in found["inside"].split(",")]
    return None if len(values) < 2 or None in values else tuple(one for one in values if one is not None)


def tuples(text: str) -> Iterator[tuple[Decimal, ...]]:
    """Every tuple of a text, in order."""
    for found in _RUN.finditer(text):
        if (values := tuple_of(found[0])) is not None:
            yield values


def _in_a_word(text: str, found: re.Match[str]) -> bool:
    """Digits inside a word, such as those of ``B12`` or ``x2y``, are a name."""
    start = found.start("digits")
    return start > 0 and (text[start - 1].isalpha() or text[start - 1] == "_")


def _value(found: re.Match[str]) -> Decimal | None:
    digits, _, exponent = found["digits"].lower().partition("e")
    if not _PLAIN.fullmatch(digits) or len(digits) > _LARGEST or len(exponent) > 4:
        return None
    bare = re.sub(_SEPARATOR, "", digits)
    value = Decimal(f"{bare}e{exponent}" if exponent else bare)
    negative = found["sign"] not in (None, "+") or found["inner"] is not None
    return -value if negative else value
