"""BLEU by the ``sacrebleu`` library: clipped n-gram precision with a brevity penalty.

BLEU belongs to a corpus: n-gram counts and lengths are summed over items before anything is divided. An item's own
sentence score (smoothed, effective order) is only what a paired comparison needs; the figure shown is the corpus score,
0 to 100, as people quote it.
"""

from __future__ import annotations

from collections.abc import Sequence

from sacrebleu.metrics.bleu import BLEU

from quantgate.golden_keys import BUILT_IN
from quantgate.metrics.scored import Grade
from quantgate.metrics.text import TextMetric, option
from quantgate.records import GoldenItem, ItemScore, MetricInfo

_ORDER = 4


class Bleu(TextMetric):
    """Sentence BLEU / 100 an item; corpus BLEU over the set, where items count by their length: there are no weights."""

    info = MetricInfo(
        name="bleu",
        unit="corpus BLEU, 0 to 100",
        higher_is_better=True,
        needs="text",
        scale="unit",
        definition=(
            "an item: sentence BLEU of 4-grams by sacrebleu / 100, exponential smoothing, effective order; the set: corpus BLEU from the "
            "summed n-gram counts and lengths, tokenizer 13a, case counts"
        ),
    )
    keys = BUILT_IN["bleu"]

    def info_of(self, item: GoldenItem) -> MetricInfo:
        """BLEU with the item's tokenizer and case: figures of different kinds are never mixed."""
        tokenize, lowercase = str(option(item, "tokenize")), bool(option(item, "lowercase"))
        if (tokenize, lowercase) == ("13a", False):
            return self.info
        case = "lower case" if lowercase else "case counts"
        return MetricInfo(
            name=f"bleu, {tokenize}{', lower case' if lowercase else ''}",
            unit=self.info.unit,
            higher_is_better=True,
            needs="text",
            scale="unit",
            definition=self.info.definition.replace("tokenizer 13a, case counts", f"tokenizer {tokenize}, {case}"),
        )

    def grade(self, item: GoldenItem, text: str) -> Grade:
        """Compare with all references. Raises ``ValueError`` where the item has none."""
        if not item.references:
            raise ValueError(f"item {item.item_id!r} has no references to compare with")
        bleu = _library(item)
        found = bleu.sentence_score(text, list(item.references))
        return Grade(
            value=min(1.0, max(0.0, found.score / 100)),
            answered=text.strip(),
            expected=self.expected(item),
            parts=(*map(float, found.counts), *map(float, found.totals), float(found.sys_len), float(found.ref_len)),
        )

    def combine(self, items: Sequence[ItemScore]) -> float | None:
        """Corpus BLEU of the items that were scored, 0 to 100."""
        parts = [item.parts for item in items if item.value is not None]
        if not parts:
            return None
        sums = [round(sum(column)) for column in zip(*parts, strict=True)]
        found = BLEU.compute_bleu(
            correct=sums[:_ORDER],
            total=sums[_ORDER : 2 * _ORDER],
            sys_len=sums[-2],
            ref_len=sums[-1],
            smooth_method="exp",
            max_ngram_order=_ORDER,
        )
        return float(found.score)


def _library(item: GoldenItem) -> BLEU:
    tokenize, lowercase = str(option(item, "tokenize")), bool(option(item, "lowercase"))
    return BLEU(effective_order=True, tokenize=tokenize, lowercase=lowercase, max_ngram_order=_ORDER)
