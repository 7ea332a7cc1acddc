"""ROUGE by the ``rouge_score`` library: n-grams or the longest common subsequence shared with a reference, as F-measure.

The library's own tokenizer drops everything but a-z and 0-9, so that two identical Chinese texts score 0. It is given
one that keeps every script; on plain English the two agree. No stemming.
"""

from __future__ import annotations

from rouge_score.rouge_scorer import RougeScorer

from quantgate.golden_keys import BUILT_IN
from quantgate.metrics.scored import Grade
from quantgate.metrics.text import TextMetric, option
from quantgate.metrics.words import words
from quantgate.records import GoldenItem, MetricInfo


class Rouge(TextMetric):
    """F-measure of the option ``kind`` (rouge1, rouge2 or rougeL; rougeL where left out), the best over the references.

    A side without words scores 0: golden sets hold no empty reference.
    """

    info = MetricInfo(
        name="rougeL",
        unit="mean ROUGE F-measure, 0 to 1",
        higher_is_better=True,
        needs="text",
        scale="unit",
        definition=(
            "F-measure of rougeL by the rouge_score library, the best over references; words of every script in lower case, scripts "
            "without blanks split by character, no stemming; an empty answer is 0"
        ),
    )
    keys = BUILT_IN["rouge"]

    def info_of(self, item: GoldenItem) -> MetricInfo:
        """ROUGE of the item's kind: figures of different kinds are never averaged."""
        kind = str(option(item, "kind"))
        return MetricInfo(
            name=kind,
            unit=self.info.unit,
            higher_is_better=True,
            needs="text",
            scale="unit",
            definition=self.info.definition.replace("rougeL", kind),
        )

    def why_unfit(self, item: GoldenItem) -> str | None:
        """A reference with fewer words than the n-grams that are counted."""
        least = 2 if option(item, "kind") == "rouge2" else 1
        short = next((place for place, one in enumerate(item.references) if len(words(one)) < least), None)
        fewer = "no word" if least == 1 else "fewer than 2 words"
        return None if short is None else f"references[{short}] holds {fewer}, so no output could score above 0 against it"

    def grade(self, item: GoldenItem, text: str) -> Grade:
        """Compare with each reference. Raises ``ValueError`` where the item has none."""
        if not item.references:
            raise ValueError(f"item {item.item_id!r} has no references to compare with")
        kind = str(option(item, "kind"))
        found = RougeScorer([kind], tokenizer=_Words()).score_multi(list(item.references), text)
        return Grade(value=float(found[kind].fmeasure), answered=text.strip(), expected=self.expected(item))


class _Words:
    """The tokenizer that the library is given."""

    def tokenize(self, text: str) -> list[str]:
        return words(text)
