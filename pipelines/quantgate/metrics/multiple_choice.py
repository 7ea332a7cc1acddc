"""Multiple choice by log-likelihood: the choice that the model finds likeliest, summed over its tokens, is its answer.

The figure other tools call ``acc``. Not divided by the length of the choice (``multiple_choice_norm`` is): both
variants see the same choices, so a bias towards short ones is in both and cancels in the paired comparison.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from quantgate.golden_keys import BUILT_IN
from quantgate.metrics.scored import Grade, own, scored, weighted_mean
from quantgate.records import GoldenItem, ItemEvidence, ItemScore, MetricInfo


class MultipleChoice:
    """1 where the choice with the largest summed log-likelihood is the right one, else 0.

    A tie goes to the lowest index, in the reference and in every variant alike. If any log-likelihood is missing or
    not finite, the item has no score: the largest of the others would be a guess.
    """

    info = MetricInfo(
        name="multiple_choice",
        unit="share of items",
        higher_is_better=True,
        needs="loglikelihoods",
        definition=(
            "1 where the choice with the largest log-likelihood, summed over its tokens and not divided by its length, "
            "is the right one, else 0; a tie goes to the lowest index"
        ),
    )

    keys = BUILT_IN["multiple_choice"]

    def info_of(self, item: GoldenItem) -> MetricInfo:
        return self.info

    def why_unfit(self, item: GoldenItem) -> str | None:
        return None

    def score(self, item: GoldenItem, evidence: ItemEvidence) -> ItemScore:
        """Score the item, with the chosen and the right choice as text.

        Raises:
            ValueError: the evidence is another item's, or the item has no right choice.
        """
        own(item, evidence)
        if item.answer is None or not 0 <= item.answer < len(item.choices):
            raise ValueError(f"item {item.item_id!r} has {len(item.choices)} choices and no right one among them")
        reason = _why_unscored(item, evidence)
        chosen = None if reason else self._likeliest(item, evidence)
        grade = Grade(
            value=None if chosen is None else float(chosen == item.answer),
            why_unscored=reason,
            answered="" if chosen is None else item.choices[chosen],
            expected=item.choices[item.answer],
        )
        return scored(item, evidence, grade)

    def combine(self, items: Sequence[ItemScore]) -> float | None:
        return weighted_mean(items)

    def size(self, choice: str) -> float:
        """What a choice's log-likelihood is divided by."""
        return 1.0

    def _likeliest(self, item: GoldenItem, evidence: ItemEvidence) -> int:
        found = [value for value in evidence.loglikelihoods if value is not None]
        values = [value / self.size(choice) for value, choice in zip(found, item.choices, strict=True)]
        return values.index(max(values))


def _why_unscored(item: GoldenItem, evidence: ItemEvidence) -> str | None:
    if evidence.nonfinite:
        return "non-finite logits"
    found = evidence.loglikelihoods
    if len(found) != len(item.choices):
        return f"{len(found)} log-likelihoods for {len(item.choices)} choices"
    broken = next((index for index, value in enumerate(found) if value is None or not math.isfinite(value)), None)
    return None if broken is None else f"the log-likelihood of choice {broken} is not finite"
