"""Multiple choice by log-likelihood per UTF-8 byte of the choice: the figure other tools call ``acc_bytes``.

Differs from ``multiple_choice_norm`` only where choices hold more than ASCII; it has a name of its own so that the two
are never mixed up.
"""

from __future__ import annotations

from quantgate.golden_keys import BUILT_IN
from quantgate.metrics.multiple_choice import MultipleChoice
from quantgate.records import MetricInfo


class MultipleChoiceNormBytes(MultipleChoice):
    """1 where the choice with the largest log-likelihood per byte is the right one, else 0. A tie goes to the lowest index."""

    info = MetricInfo(
        name="multiple_choice_norm_bytes",
        unit="share of items",
        higher_is_better=True,
        needs="loglikelihoods",
        definition=(
            "1 where the choice with the largest log-likelihood, summed over its tokens and divided by the number of its "
            "UTF-8 bytes, is the right one, else 0; a tie goes to the lowest index"
        ),
    )
    keys = BUILT_IN["multiple_choice_norm_bytes"]

    def size(self, choice: str) -> float:
        """UTF-8 bytes of the choice."""
        return float(len(choice.encode("utf-8")))
