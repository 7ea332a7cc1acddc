"""Exact match of a generated answer, after a normalisation that forgives form and never content.

Knows text. Refuses to know numbers: ``9,500`` and ``9500``, or ``29.00`` and ``29``, are different texts here, and a
comma in ``0,1`` is never dropped. A golden set that accepts both spellings lists both.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from quantgate.golden_keys import BUILT_IN
from quantgate.metrics.scored import Grade
from quantgate.metrics.text import TextMetric, until_stop
from quantgate.records import GoldenItem, MetricInfo

_QUOTES = {'"': '"', "'": "'", "`": "`", "\u2018": "\u2019", "\u201c": "\u201d", "\u201e": "\u201c", "\u00ab": "\u00bb"}
_INSIDE_BRACKETS = re.compile(r"(?<=[(\[{]) | (?=[)\]}])")


def normalise(text: str, stop: Sequence[str] = ()) -> str:
    """Bring a text into the form in which texts are compared; see ``ExactMatch``. Never empties a text with content.

    Stop strings are matched as the engine does, upper and lower case apart, hence before case is folded.
    """
    cut = until_stop(text, stop)
    folded = unicodedata.normalize("NFC", cut.casefold())
    spaced = _INSIDE_BRACKETS.sub("", " ".join(folded.split()))
    return _bare(spaced)


class ExactMatch(TextMetric):
    """1 where the generated text equals one of the item's answers, else 0.

    Both sides are normalised alike: Unicode NFC; cut at the first stop string (the generated text only); case folded;
    white space collapsed to single blanks, none at the ends or just inside brackets, so ``( B )`` is ``(b)``; a pair
    of quotes or backticks around the whole and any of ``.,;:!?`` at the end removed, repeatedly. What would leave
    nothing is left alone: ``?`` stays ``?``. Text inside is never touched: ``$8.540`` is not ``$9.540``, ``0,1`` is
    not ``01``.
    """

    info = MetricInfo(
        name="exact_match",
        unit="share of items",
        higher_is_better=True,
        needs="text",
        definition=(
            "1 where the generated text equals one of the right answers, else 0; both after Unicode NFC, cut at the "
            "first stop string (generated text only), case folding, collapsed white space (none just inside brackets), "
            "and removal of surrounding quotes or backticks and of trailing . , ; : ! ?; numbers are compared as text"
        ),
    )

    keys = BUILT_IN["exact_match"]

    def grade(self, item: GoldenItem, text: str) -> Grade:
        """Compare with each right answer. Raises ``ValueError`` where the item has none."""
        if not item.answers:
            raise ValueError(f"item {item.item_id!r} has no answers to match")
        found = normalise(text)
        value = float(any(found == normalise(answer) for answer in item.answers))
        return Grade(value=value, answered=text.strip(), expected=self.expected(item))


def _bare(text: str) -> str:
    """Peel quotes and closing punctuation off until nothing changes or the next layer would be the last."""
    while True:
        quoted = len(text) > 1 and _QUOTES.get(text[0]) == text[-1]
        peeled = (text[1:-1] if quoted else text.rstrip(".,;:!?")).strip()
        if peeled in ("", text):
            return text
        text = peeled
