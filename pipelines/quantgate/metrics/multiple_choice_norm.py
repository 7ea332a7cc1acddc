"""Multiple choice by log-likelihood per character of the choice: the figure other tools call ``acc_norm``.

Characters are code points of the choice as the golden set has it, without the blank that goes in front of it. Sums of
log-likelihoods favour short choices; this favours long ones less unfairly, and is what most published tables of such
tasks quote.
"""

from __future__ import annotations

from quantgate.golden_keys import BUILT_IN
from quantgate.metrics.multiple_choice import MultipleChoice
from quantgate.records import MetricInfo


class MultipleChoiceNorm(MultipleChoice):
    """1 where the choice with the largest log-likelihood per character is the right one, else 0. A tie goes to the lowest index."""

    info = MetricInfo(
        name="multiple_choice_norm",
        unit="share of items",
        higher_is_better=True,
        needs="loglikelihoods",
        definition=(
            "1 where the choice with the largest log-likelihood, summed over its tokens and divided by the number of its "
            "characters (code points), is the right one, else 0; a tie goes to the lowest index"
        ),
    )
    keys = BUILT_IN["multiple_choice_norm"]

    def size(self, choice: str) -> float:
        """Characters of the choice."""
        return float(len(choice))
