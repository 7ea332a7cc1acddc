"""Where texts, such as those that a quantizer calibrates on, hold the questions of a golden set.

A question that was calibrated on flatters the variant. Found are equal texts (case, punctuation and white space apart), and runs of
``RUN_WORDS`` words that stand in both; a question shorter than that must stand there whole, and one of fewer than ``LEAST_WORDS`` words is
looked for as a whole text only. A run that many items share is their common wording and says nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from quantgate.hygiene.items import asked
from quantgate.hygiene.texts import words
from quantgate.records import GoldenItem

RUN_WORDS = 13
LEAST_WORDS = 5
COMMON_ITEMS = 5
COMMON_SHARE = 0.01
"""A run in more items than 5, and than 1 % of them, is common wording."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Overlap:
    """One item that stands in one text."""

    item_id: str
    line: int
    text: int
    """Place of the text among those given, from 0."""
    whole: bool
    """The question and the text are equal, or the whole of a short question stands in it."""
    shared: str
    """The first words that are in both."""


def overlap(items: Sequence[GoldenItem], texts: Iterable[str]) -> tuple[Overlap, ...]:
    """Every pair of an item and a text that holds it, the first run of each pair. Linear in the words of both."""
    wholes: dict[tuple[str, ...], list[GoldenItem]] = {}
    runs: dict[int, dict[int, list[GoldenItem]]] = {}
    for item in items:
        said = words(asked(item))
        if said:
            wholes.setdefault(tuple(said), []).append(item)
        length = min(RUN_WORDS, len(said))
        if length >= LEAST_WORDS:
            for run in {_run(said, at, length) for at in range(len(said) - length + 1)}:
                runs.setdefault(length, {}).setdefault(run, []).append(item)
    _drop_common(runs, len(items))
    return tuple(found for at, text in enumerate(texts) for found in _in_text(at, words(text), wholes, runs))


def _in_text(
    at: int,
    said: list[str],
    wholes: Mapping[tuple[str, ...], Sequence[GoldenItem]],
    runs: Mapping[int, Mapping[int, Sequence[GoldenItem]]],
) -> Iterator[Overlap]:
    seen: set[str] = set()
    for item in wholes.get(tuple(said), ()):
        seen.add(item.item_id)
        yield _found(item, at, said[:RUN_WORDS], whole=True)
    for length, known in runs.items():
        for start in range(len(said) - length + 1):
            for item in known.get(_run(said, start, length), ()):
                if item.item_id not in seen:
                    seen.add(item.item_id)
                    yield _found(item, at, said[start : start + length], whole=length < RUN_WORDS)


def _found(item: GoldenItem, at: int, shared: Sequence[str], *, whole: bool) -> Overlap:
    return Overlap(item_id=item.item_id, line=item.line, text=at, whole=whole, shared=" ".join(shared))


def _run(said: Sequence[str], start: int, length: int) -> int:
    return hash(tuple(said[start : start + length]))


def _drop_common(runs: Mapping[int, dict[int, list[GoldenItem]]], count: int) -> None:
    limit = max(COMMON_ITEMS, COMMON_SHARE * count)
    for known in runs.values():
        sizes = Counter({run: len(items) for run, items in known.items()})
        for run, size in sizes.items():
            if size > limit:
                del known[run]
