"""Regular expression: whether the generated text matches the item's pattern.

The pattern is Python's. It is compiled when the golden set is read, so that a bad one never reaches a model.
"""

from __future__ import annotations

import re

from quantgate.golden_keys import BUILT_IN
from quantgate.metrics.scored import Grade
from quantgate.metrics.text import TextMetric, option
from quantgate.records import GoldenItem, MetricInfo


class Regex(TextMetric):
    """1 where the pattern is found in the text (``where: search``) or is the whole of it (``where: full``), else 0."""

    info = MetricInfo(
        name="regex",
        unit="share of items",
        higher_is_better=True,
        needs="text",
        definition=(
            "1 where the item's regular expression is found in the generated text, or with where: full matches all of it, white "
            "space at its ends apart, else 0; case counts unless ignore_case is true"
        ),
    )
    keys = BUILT_IN["regex"]

    def expected(self, item: GoldenItem) -> str:
        return str(item.options.get("pattern", ""))

    def grade(self, item: GoldenItem, text: str) -> Grade:
        """Match. Raises ``ValueError`` where the item has no pattern."""
        if not item.options.get("pattern"):
            raise ValueError(f"item {item.item_id!r} has no pattern to match")
        pattern = re.compile(self.expected(item), re.IGNORECASE if option(item, "ignore_case") else 0)
        bare = text.strip()
        found = pattern.fullmatch(bare) if option(item, "where") == "full" else pattern.search(bare)
        return Grade(value=float(found is not None), answered=bare, expected=self.expected(item))
