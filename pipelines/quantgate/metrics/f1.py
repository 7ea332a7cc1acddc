"""F1 over words: how much of the reference a generated answer holds, and how little else. The SQuAD definition.

Published by Rajpurkar, Zhang, Lopyrev and Liang, EMNLP 2016: lower case, punctuation and English articles removed,
split at white space, words matched as a bag. Two additions, for text that the definition was not made for: Unicode
punctuation is removed like ASCII, and scripts without blanks are split by character.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

from quantgate.golden_keys import BUILT_IN
from quantgate.metrics.scored import Grade
from quantgate.metrics.text import TextMetric
from quantgate.metrics.words import apart
from quantgate.records import GoldenItem, MetricInfo

_ARTICLES = re.compile(r"\b(a|an|the)\b")


class F1(TextMetric):
    """2PR / (P + R) of shared words, the best over the references.

    No word on either side (an empty answer, or nothing but articles and punctuation): 1 where both have none, else 0. A reference
    without a word is refused before a run, so an empty answer scores 0.
    """

    info = MetricInfo(
        name="f1",
        unit="mean F1, 0 to 1",
        higher_is_better=True,
        needs="text",
        scale="unit",
        definition=(
            "harmonic mean of precision and recall of words shared with a reference, the best over references; lower case, "
            "punctuation and the articles a, an, the removed (as SQuAD does), scripts without blanks split by character; an empty "
            "answer is 0"
        ),
    )
    keys = BUILT_IN["f1"]

    def why_unfit(self, item: GoldenItem) -> str | None:
        """A reference of punctuation and articles alone: an empty output would equal it."""
        bare = next((place for place, one in enumerate(item.references) if not _normalised(one)), None)
        if bare is None:
            return None
        return f"references[{bare}] is {item.references[bare]!r}, of which F1 keeps no word, so an empty output would be right"

    def grade(self, item: GoldenItem, text: str) -> Grade:
        """Compare with each reference. Raises ``ValueError`` where the item has none."""
        if not item.references:
            raise ValueError(f"item {item.item_id!r} has no references to compare with")
        value = max(f1(text, reference) for reference in item.references)
        return Grade(value=value, answered=text.strip(), expected=self.expected(item))


def f1(answer: str, reference: str) -> float:
    """F1 of two texts, in [0, 1]."""
    ours, theirs = _normalised(answer), _normalised(reference)
    if not ours or not theirs:
        return float(ours == theirs)
    shared = (Counter(ours) & Counter(theirs)).total()
    return 2 * shared / (len(ours) + len(theirs))


def _normalised(text: str) -> list[str]:
    folded = unicodedata.normalize("NFC", text).lower()
    bare = "".join(one for one in folded if not _is_punctuation(one))
    return apart(_ARTICLES.sub(" ", bare)).split()


def _is_punctuation(character: str) -> bool:
    """ASCII punctuation, signs such as ``$`` and ``+`` included, and all that Unicode calls punctuation."""
    if character.isascii():
        return not character.isalnum() and not character.isspace() and character.isprintable()
    return unicodedata.category(character).startswith("P")
