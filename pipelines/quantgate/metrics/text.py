"""What all metrics of a generated text share: the cut at the first stop string, and when there is no score.

A text that ended at the length cap is judged as it stands. Without a text, or with non-finite logits, there is no
score.
"""

from __future__ import annotations

import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Sequence

from quantgate.golden_keys import DEFAULTS, ItemKeys
from quantgate.metrics.scored import Grade, own, scored, weighted_mean
from quantgate.records import GoldenItem, ItemEvidence, ItemScore, MetricInfo, Scalar


class TextMetric(ABC):
    """A metric of what the model wrote."""

    info: MetricInfo
    keys: ItemKeys

    def info_of(self, item: GoldenItem) -> MetricInfo:
        """The metric as this item's options make it."""
        return self.info

    def why_unfit(self, item: GoldenItem) -> str | None:
        """Half a sentence where the item cannot be scored whatever is written; None where it can."""
        return None

    def score(self, item: GoldenItem, evidence: ItemEvidence) -> ItemScore:
        """Score the item from the text up to its first stop string.

        Raises:
            ValueError: the evidence is another item's, or the item lacks what this metric compares with.
        """
        own(item, evidence)
        written = evidence.text or ""
        if evidence.nonfinite or evidence.text is None:
            reason = "non-finite logits" if evidence.nonfinite else "no text was generated"
            answered = until_stop(written, item.stop).strip()
            return scored(
                item,
                evidence,
                Grade(value=None, why_unscored=reason, answered=answered, expected=self.expected(item)),
            )
        return scored(item, evidence, self.grade(item, until_stop(written, item.stop)))

    def combine(self, items: Sequence[ItemScore]) -> float | None:
        """Weighted mean of the items' scores."""
        return weighted_mean(items)

    def expected(self, item: GoldenItem) -> str:
        """What would be right, for a person."""
        return " | ".join(item.answers or item.references)

    @abstractmethod
    def grade(self, item: GoldenItem, text: str) -> Grade:
        """What the text is worth. ``text`` ends before the first stop string."""


def option(item: GoldenItem, key: str) -> Scalar | tuple[str, ...]:
    """An option of the item, or what it means where it is left out."""
    if key in item.options:
        return item.options[key]
    return DEFAULTS.get(item.metric, {}).get(key)


def until_stop(text: str, stop: Sequence[str]) -> str:
    """The text in NFC up to the first stop string, upper and lower case apart, as the engine matches it."""
    composed = unicodedata.normalize("NFC", text)
    places = [composed.find(unicodedata.normalize("NFC", mark)) for mark in stop if mark]
    return composed[: min((place for place in places if place >= 0), default=len(composed))]
