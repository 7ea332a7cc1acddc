"""What is doubtful in the items together: questions that are one, contradictions, guesses that pay, lengths and slices out of line.

Nothing here compares every item with every other. Near-duplicates are looked for among items that share a rare run of ``RUN`` words,
with the ``MOST_COMPARED`` of them that share the most.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from math import sqrt
from statistics import median
from typing import NamedTuple

from quantgate.hygiene.findings import Finding, fault, warning
from quantgate.hygiene.items import asked, prompt_key, right
from quantgate.hygiene.texts import plain, words
from quantgate.numerals import number_of, tuple_of
from quantgate.records import GoldenItem

_DIGIT = re.compile(r"\d")
RUN = 3
RAREST = 8
MOST_BEARERS = 40
"""A run that more items share is common wording."""
MOST_COMPARED = 10
ALIKE = 0.85
"""Share of words that two near-duplicates have in common, in order."""
FEW = 20
"""Fewer items than this tell nothing of a tendency."""
SMALL_SLICE = 5
SMALL_SET = 100
OUTLIER_FACTOR = 8
OUTLIER_CHARACTERS = {"prompt": 400, "choices": 80, "answers": 80, "references": 400}


def doubts(items: Sequence[GoldenItem]) -> Iterator[Finding]:
    """Every doubt about the items together."""
    yield from same_questions(items)
    yield from _near_duplicates(items)
    yield from _ids(items)
    yield from _positions(items)
    yield from _longest(items)
    yield from _majority(items)
    yield from _chances(items)
    yield from _lengths(items)
    yield from _slices(items)
    yield from _endless(items)


# ---------------------------------------------------------------------------------------------- questions that are one


def _question(item: GoldenItem) -> tuple[str, ...]:
    """The question without case and punctuation; a prompt of signs alone keeps them."""
    said = [" ".join(words(one)) or plain(one) for one in (asked(item), *item.choices)]
    return said[0], *sorted(said[1:])


def same_questions(items: Sequence[GoldenItem]) -> Iterator[Finding]:
    """Questions asked twice: a contradiction, or one piece of evidence that counts as two."""
    first: dict[tuple[str, ...], GoldenItem] = {}
    for item in items:
        earlier = first.setdefault(_question(item), item)
        if earlier is item or (signs(earlier) != signs(item)):
            continue
        who = f"asks the same as item {earlier.item_id!r} (line {earlier.line})"
        before, now = ({_equal(one, item) for one in right(each)} for each in (earlier, item))
        if before and now and before.isdisjoint(now) and not (item.references or earlier.references):
            field = "answers" if item.answers else "answer"
            yield fault("contradiction", item.line, field, f"{who} and has another right answer", "find out which is right, drop the other")
        elif item.cluster is None or item.cluster != earlier.cluster:
            yield warning("duplicate", item.line, prompt_key(item), who, "drop one, or give both one cluster: they count as independent")


def _equal(answer: str, item: GoldenItem) -> object:
    """What two right answers have in common that the item's metric takes for one: a quantity, or a text without its form."""
    if item.metric == "numeric_match":
        return number_of(answer) or tuple_of(answer) or plain(answer)
    return plain(answer).strip("\"'`\u2018\u2019\u201c\u201d").rstrip(".,;:!?").strip("\"'` ") or plain(answer)


def signs(item: GoldenItem) -> str:
    """What ``words`` leaves out and a sum lives by: 7 + 5 and 7 - 5 are two questions."""
    return "".join(one for one in asked(item) if one in "+-*/×÷<>=^%")


class _Text(NamedTuple):
    """An item as it is compared. Questions that differ in a number, or in a word and in their answer, are two questions."""

    item: GoldenItem
    words: list[str]
    question: tuple[str, ...]
    numbers: tuple[str, ...]
    right: frozenset[str]


def _text(item: GoldenItem) -> _Text:
    said = words(" ".join((asked(item), *item.choices)))
    numbers = tuple(one for one in said if _DIGIT.search(one))
    return _Text(item, said, _question(item), numbers, frozenset(plain(one) for one in right(item)))


def _near_duplicates(items: Sequence[GoldenItem]) -> Iterator[Finding]:
    texts = [_text(one) for one in items]
    runs = [{tuple(one.words[at : at + RUN]) for at in range(len(one.words) - RUN + 1)} for one in texts]
    spread = Counter(run for known in runs for run in known)
    bearers: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for place, known in enumerate(runs):
        shared = sorted((run for run in known if 1 < spread[run] <= MOST_BEARERS), key=lambda run: (spread[run], run))[:RAREST]
        meeting = Counter(other for run in shared for other in bearers[run])
        for other, _ in meeting.most_common(MOST_COMPARED):
            if _alike(texts[other], texts[place]):
                yield _near(texts[other].item, texts[place].item)
                break
        for run in shared:
            bearers[run].append(place)


def _alike(one: _Text, other: _Text) -> bool:
    if one.question == other.question or one.numbers != other.numbers or not _same_right(one, other):
        return False
    longer, shorter = max(len(one.words), len(other.words)), min(len(one.words), len(other.words))
    common = sum((Counter(one.words) & Counter(other.words)).values())
    if 2 * shorter < ALIKE * (longer + shorter) or 2 * common < ALIKE * (longer + shorter):
        return False
    return SequenceMatcher(None, one.words, other.words, autojunk=False).ratio() >= ALIKE


def _same_right(one: _Text, other: _Text) -> bool:
    """A right answer in common; where a pattern, a schema or the text itself decides, the same demand. References may differ in wording."""
    if one.item.references and other.item.references:
        return True
    if not one.right and not other.right:
        return one.item.metric == other.item.metric and one.item.options == other.item.options
    return not one.right.isdisjoint(other.right)


def _near(earlier: GoldenItem, item: GoldenItem) -> Finding:
    if item.cluster is not None and item.cluster == earlier.cluster:
        advice = "they share a cluster, so nothing need be done unless one is a slip"
    else:
        advice = "drop one, or give both one cluster: they count as independent"
    what = f"is almost the prompt of item {earlier.item_id!r} (line {earlier.line})"
    return warning("near-duplicate", item.line, prompt_key(item), what, advice)


def _ids(items: Sequence[GoldenItem]) -> Iterator[Finding]:
    first: dict[str, GoldenItem] = {}
    for item in items:
        earlier = first.setdefault(plain(item.item_id), item)
        if earlier is not item:
            what = f"{item.item_id!r} differs from {earlier.item_id!r} (line {earlier.line}) in case or Unicode form only"
            yield warning("ids alike", item.line, "id", what, "name one of them otherwise")


# ---------------------------------------------------------------------------------------------- guesses that pay


def _positions(items: Sequence[GoldenItem]) -> Iterator[Finding]:
    """For items with as many choices each: one index that is right far more often than chance has it."""
    groups: dict[int, list[GoldenItem]] = defaultdict(list)
    for item in items:
        if item.choices:
            groups[len(item.choices)].append(item)
    for choices, group in groups.items():
        if len(group) < FEW:
            continue
        place, count = Counter(one.answer for one in group).most_common(1)[0]
        expected = 1 / choices
        if count / len(group) > expected + max(0.15, 4 * sqrt(expected * (1 - expected) / len(group))):
            what = f"in {count} of {len(group)} items with {choices} choices the right one has index {place}"
            line = next(one.line for one in group if one.answer == place)
            yield warning("unbalanced positions", line, "answer", what, "shuffle the choices: a model that always says so scores there")


def _longest(items: Sequence[GoldenItem]) -> Iterator[Finding]:
    """The right choice is the longest one far more often than chance has it."""
    choosing = [one for one in items if len(one.choices) > 1 and one.answer is not None]
    if len(choosing) < FEW:
        return
    hits = [one for one in choosing if _stands_out(one)]
    expected = sum(1 / len(one.choices) for one in choosing) / len(choosing)
    if len(hits) / len(choosing) > expected + max(0.25, 4 * sqrt(expected * (1 - expected) / len(choosing))):
        what = f"in {len(hits)} of {len(choosing)} items the right choice is the longest one"
        yield warning("length tells", hits[0].line, "choices", what, "make wrong choices as long as right ones")


def _stands_out(item: GoldenItem) -> bool:
    lengths = [len(one) for one in item.choices]
    return item.answer is not None and lengths[item.answer] == max(lengths) and lengths.count(max(lengths)) == 1


def _majority(items: Sequence[GoldenItem]) -> Iterator[Finding]:
    """A generated answer that is right so often that saying nothing else scores."""
    written = [one for one in items if one.answers]
    if len(written) < FEW:
        return
    answer, count = Counter(plain(one.answers[0]) for one in written).most_common(1)[0]
    if count / len(written) > 0.3:
        line = next(one.line for one in written if plain(one.answers[0]) == answer)
        what = f"{count} of {len(written)} generated items have the right answer {answer!r}, and their chance level counts as 0"
        yield warning("one answer", line, "answers", what, "ask these as multiple choice, or balance the answers")


def _chances(items: Sequence[GoldenItem]) -> Iterator[Finding]:
    """Items of one slice that guessing answers at different rates: their mean is no accuracy of one thing."""
    levels: dict[str, dict[int, GoldenItem]] = defaultdict(dict)
    for item in items:
        levels[item.slice].setdefault(len(item.choices), item)
    for name, known in levels.items():
        if len(known) > 1:
            each = ", ".join(f"{count} choices" if count else "none (generated)" for count in sorted(known))
            odd = list(known.values())[1]
            field = "choices" if odd.choices else "answers" if odd.answers else "metric"
            what = f"slice {name!r} mixes chance levels: {each}"
            yield warning("mixed chance levels", odd.line, field, what, "give each kind a slice of its own")


# ---------------------------------------------------------------------------------------------- lengths and slices


def _lengths(items: Sequence[GoldenItem]) -> Iterator[Finding]:
    """Texts far longer than those of the same key in the same slice."""
    texts: dict[tuple[str, str], list[tuple[int, str, int]]] = defaultdict(list)
    for item in items:
        texts[item.slice, "prompt"].append((item.line, prompt_key(item), len(item.few_shot) + len(item.prompt)))
        for name, parts in (("choices", item.choices), ("answers", item.answers), ("references", item.references)):
            texts[item.slice, name] += [(item.line, f"{name}[{at}]", len(text)) for at, text in enumerate(parts)]
    for (name, key), found in texts.items():
        usual = median(length for _, _, length in found) if len(found) >= FEW else float("inf")
        for line, field, length in found:
            if length > OUTLIER_CHARACTERS[key] and length > OUTLIER_FACTOR * usual:
                what = f"has {length:,} characters, where half of the {key} of slice {name!r} have at most {usual:,.0f}"
                yield warning("length outlier", line, field, what, "see whether two items, a page or an explanation slipped in")


def _slices(items: Sequence[GoldenItem]) -> Iterator[Finding]:
    counts = Counter(one.slice for one in items)
    first = {one.slice: one for one in reversed(items)}
    spelt: dict[str, str] = {}
    for name, count in counts.items():
        line = first[name].line
        other = spelt.setdefault(" ".join(words(name)) or name, name)
        if other != name:
            what = f"{name!r} is {other!r} (line {first[other].line}) spelt otherwise"
            yield warning("slices alike", line, "slice", what, "use one name")
        elif count < SMALL_SLICE and len(counts) > 1:
            what = f"{name!r} has {count} item{'s' * (count > 1)}: no bound on a loss can be had from so few"
            yield warning("small slice", line, "slice", what, "add items, or put them into another slice")
    if len(items) < SMALL_SET:
        what = f"{len(items)} items: too few for a margin of a few points, and none for divergences"
        yield warning("few items", 0, "", what, "see quantgate policy explain FILE --golden PATH")


def _endless(items: Sequence[GoldenItem]) -> Iterator[Finding]:
    """A base model goes on writing: without a stop string its output never equals an answer."""
    endless = [one for one in items if one.answers and one.template == "raw" and not one.stop]
    if endless:
        what = f"{len(endless)} raw item{'s' * (len(endless) > 1)} without a stop string: only an output that ends by itself can match"
        yield warning("no stop", endless[0].line, "stop", what, r'add for example "stop": ["\n"]')
