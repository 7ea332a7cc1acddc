"""Numeric match: the number that a generated answer gives, compared as a quantity.

Knows numbers (``quantgate.numerals``): ``$9,500`` and ``9500.00`` are one, ``12,34`` is none. Refuses to reckon:
``3/4`` and ``0.75`` differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import TypeVar

from quantgate.golden_keys import BUILT_IN
from quantgate.metrics.scored import Grade
from quantgate.metrics.text import TextMetric, option
from quantgate.numerals import number_of, numbers, tuple_of, tuples
from quantgate.records import GoldenItem, MetricInfo

T = TypeVar("T")


class NumericMatch(TextMetric):
    """1 where the number taken from the generated text equals one of the item's answers, else 0.

    Taken is the last number, or the first with ``take: first``; where the text holds the ``marker`` (``####`` where left out), the first
    number behind its last occurrence. An answer that is a tuple, such as ``0,1``, is compared with the tuple taken likewise. Equal means
    equal to the last digit, or within ``tolerance`` (absolute), or within ``relative_tolerance`` of the right answer. A text without a
    number is wrong.
    """

    info = MetricInfo(
        name="numeric_match",
        unit="share of items",
        higher_is_better=True,
        needs="text",
        definition=(
            "1 where the number taken from the generated text (the last one, or the first behind the marker ####; options take, "
            "marker) equals a right answer, exactly or within the item's tolerance, else 0; thousands separators, currency signs "
            "and trailing zeros are form, 12,34 is no number"
        ),
    )
    keys = BUILT_IN["numeric_match"]

    def grade(self, item: GoldenItem, text: str) -> Grade:
        """Take the number and compare. Raises ``ValueError`` where the item has no answers, or one that is no number."""
        if not item.answers:
            raise ValueError(f"item {item.item_id!r} has no answers to match")
        value = float(any(_right(item, answer, text) for answer in item.answers))
        single, several = _taken(item, text, numbers), _taken(item, text, tuples)
        tupled = several is not None and any(number_of(answer) is None for answer in item.answers)
        answered = ", ".join(map(str, several or ())) if tupled else "" if single is None else format(single, "f")
        return Grade(value=value, answered=answered, expected=self.expected(item))


def _right(item: GoldenItem, answer: str, text: str) -> bool:
    wanted = number_of(answer)
    if wanted is not None:
        found = _taken(item, text, numbers)
        return found is not None and _near(item, wanted, found)
    several = tuple_of(answer)
    if several is None:
        raise ValueError(f"item {item.item_id!r} has the answer {answer!r}, which is no number")
    given = _taken(item, text, tuples)
    if given is None or len(given) != len(several):
        return False
    return all(_near(item, one, other) for one, other in zip(several, given, strict=True))


def _taken(item: GoldenItem, text: str, read: Callable[[str], Iterator[T]]) -> T | None:
    """The one that counts among those of a text."""
    marker = str(option(item, "marker") or "")
    behind = bool(marker) and marker in text
    found = list(read(text.rpartition(marker)[2] if behind else text))
    if not found:
        return None
    return found[0] if behind or option(item, "take") == "first" else found[-1]


def _near(item: GoldenItem, wanted: Decimal, found: Decimal) -> bool:
    apart = abs(wanted - found)
    absolute, relative = (Decimal(str(option(item, key) or 0)) for key in ("tolerance", "relative_tolerance"))
    return apart <= max(absolute, relative * abs(wanted))
