"""Whether two collections of texts share a text or a long run of words: what a model learned from cannot test it.

Texts are compared after Unicode normalisation, lower-casing and reduction to words. A run is thirteen words in a row, the length used for
finding test items in training data. Standard library only.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping

RUN_WORDS = 13
WHOLE_WORDS = 4
"""Shorter texts are not looked for as a whole: a greeting stands everywhere."""
_WORD = re.compile(r"\w+")


def words(text: str) -> tuple[str, ...]:
    """The words of a text in one spelling (NFKC, case-folded), everything else left out."""
    return tuple(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))


def runs(text: str) -> Iterator[tuple[str, ...]]:
    """Every thirteen words in a row; a shorter text of at least four words as a whole."""
    found = words(text)
    if WHOLE_WORDS <= len(found) < RUN_WORDS:
        yield found
    for start in range(len(found) - RUN_WORDS + 1):
        yield found[start : start + RUN_WORDS]


def shared(items: Mapping[str, str], texts: Iterable[str]) -> dict[str, str]:
    """Item id -> words that stand in one of ``texts`` too, for every item that shares any. Order of ``items``."""
    wanted: dict[int, dict[tuple[str, ...], list[str]]] = {}
    for item_id, text in items.items():
        for run in runs(text):
            wanted.setdefault(len(run), {}).setdefault(run, []).append(item_id)
    found: dict[str, str] = {}
    for text in texts:
        known = words(text)
        for size, places in wanted.items():
            for start in range(len(known) - size + 1):
                run = known[start : start + size]
                for item_id in places.get(run, ()):
                    found.setdefault(item_id, " ".join(run))
    return {item_id: found[item_id] for item_id in items if item_id in found}
