"""Instructions that a program can check: length, words that must or must not appear, form. All of an item's must hold.

Words are counted between white space, so a script without blanks is measured in characters (code points of the text in
NFC, white space at its ends apart). Words to hold or to avoid are looked for anywhere in the text, case folded.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any

from quantgate.golden_keys import BUILT_IN
from quantgate.metrics.scored import Grade
from quantgate.metrics.text import TextMetric
from quantgate.records import GoldenItem, MetricInfo

_BULLET = re.compile(r"^\s*(?:[-*+\u2022]|[0-9]+[.)])\s+\S", flags=re.MULTILINE)

_RULES: Mapping[str, Callable[[str, Any], bool]] = {
    "min_words": lambda text, least: len(text.split()) >= least,
    "max_words": lambda text, most: len(text.split()) <= most,
    "min_characters": lambda text, least: len(text) >= least,
    "max_characters": lambda text, most: len(text) <= most,
    "contains": lambda text, every: all(_folded(one) in _folded(text) for one in every),
    "excludes": lambda text, every: not any(_folded(one) in _folded(text) for one in every),
    "starts_with": lambda text, start: _folded(text).startswith(_folded(start)),
    "ends_with": lambda text, end: _folded(text).endswith(_folded(end)),
    "bullets": lambda text, wanted: len(_BULLET.findall(text)) == wanted,
    "no_comma": lambda text, wanted: ("," not in text) is wanted,
    "json": lambda text, wanted: _is_json(text) is wanted,
}


class Instructions(TextMetric):
    """1 where every instruction of the item holds, else 0."""

    info = MetricInfo(
        name="instructions",
        unit="share of items",
        higher_is_better=True,
        needs="text",
        definition=(
            "1 where all of the item's instructions hold (words, characters, words to hold or avoid with case folded, start, end, "
            "number of bullets, no comma, JSON), white space at the ends apart, else 0; an empty text holds none"
        ),
    )
    keys = BUILT_IN["instructions"]

    def expected(self, item: GoldenItem) -> str:
        return "; ".join(f"{name}: {_written(value)}" for name, value in item.options.items())

    def why_unfit(self, item: GoldenItem) -> str | None:
        """Instructions that no text can follow."""
        for unit in ("words", "characters"):
            least, most = item.options.get(f"min_{unit}"), item.options.get(f"max_{unit}")
            if isinstance(least, int) and isinstance(most, int) and least > most:
                return f"options.min_{unit} is {least} and options.max_{unit} is {most}, so no text can follow both"
            if most == 0 and isinstance(most, int):
                return f"options.max_{unit} is 0, and an empty text follows no instruction"
        return _why_impossible(item)

    def grade(self, item: GoldenItem, text: str) -> Grade:
        """Try every instruction. Raises ``ValueError`` where the item has none."""
        if not item.options:
            raise ValueError(f"item {item.item_id!r} has no instructions to check")
        bare = unicodedata.normalize("NFC", text).strip()
        broken = [name for name, wanted in item.options.items() if not (bare and _RULES[name](bare, wanted))]
        return Grade(value=float(not broken), answered=bare, expected=self.expected(item))


def _why_impossible(item: GoldenItem) -> str | None:
    """Texts that must stand in the output and, by another instruction, cannot."""
    given, most = item.options, item.options.get("max_characters")
    for key in ("contains", "starts_with", "ends_with"):
        for one in _listed(given.get(key)):
            banned = next((other for other in _listed(given.get("excludes")) if _folded(other) in _folded(one)), None)
            if banned is not None:
                return f"options.{key} asks for {one!r} and options.excludes forbids {banned!r}, so no text can follow both"
            if given.get("no_comma") is True and "," in one:
                return f"options.{key} asks for {one!r} and options.no_comma forbids its comma, so no text can follow both"
            if isinstance(most, int) and one.isascii() and len(one.strip()) > most:
                return f"options.{key} asks for {one!r}, longer than options.max_characters ({most}), so no text can follow both"
    return None


def _listed(value: object) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else () if value is None else (str(value),)


def _written(value: object) -> str:
    return ", ".join(map(repr, value)) if isinstance(value, tuple) else str(value)


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold()).strip()


def _is_json(text: str) -> bool:
    try:
        json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return False
    return True


def _no_number(token: str) -> object:
    raise ValueError(f"{token} is no JSON number")
