"""Perplexity of a text: how surprised a model is by it, token by token.

Over a set it is exp(total nats / total tokens), never a mean of the items' own: the mean of ratios would let short
texts count as much as long ones. Comparable only where the tokens are the same, which a sheet's tokenizer digest says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from quantgate.golden_keys import BUILT_IN
from quantgate.metrics.scored import Grade, own, scored
from quantgate.records import GoldenItem, ItemEvidence, ItemScore, MetricInfo


class Perplexity:
    """An item's score is its mean log-likelihood per token, in nats, 0 or less, larger is better; the set's figure is the perplexity.

    Scored are all tokens behind the BOS; without a BOS the first token is context and not scored. A text without a token to score has no
    score and is left out of the figure, with the count of such items beside it. There are no weights: a text counts by its tokens.
    """

    info = MetricInfo(
        name="perplexity",
        unit="perplexity, 1 or more",
        higher_is_better=True,
        needs="tokens",
        scale="unbounded",
        figure_lower_is_better=True,
        definition=(
            "the set: exp(total nats / total scored tokens), token-weighted, not a mean over texts; an item: mean log-likelihood "
            "per token in nats; every token behind the BOS is scored, or behind the first token where the model has no BOS"
        ),
    )
    keys = BUILT_IN["perplexity"]

    def info_of(self, item: GoldenItem) -> MetricInfo:
        return self.info

    def why_unfit(self, item: GoldenItem) -> str | None:
        return None

    def score(self, item: GoldenItem, evidence: ItemEvidence) -> ItemScore:
        """Score the text. Raises ``ValueError`` where the evidence is another item's."""
        own(item, evidence)
        reason = _why_unscored(evidence)
        if reason is not None:
            return scored(item, evidence, Grade(value=None, why_unscored=reason))
        total, tokens = evidence.loglikelihoods[0] or 0.0, evidence.scored_tokens
        own_figure = _perplexity(-total, tokens)
        answered = f"perplexity {'too large to write' if own_figure is None else format(own_figure, '.6g')} over {tokens} tokens"
        return scored(item, evidence, Grade(value=total / tokens, answered=answered, parts=(-total, float(tokens))))

    def combine(self, items: Sequence[ItemScore]) -> float | None:
        """Perplexity over all tokens of the items that were scored."""
        parts = [item.parts for item in items if item.value is not None]
        return _perplexity(sum(nats for nats, _ in parts), sum(tokens for _, tokens in parts)) if parts else None


def _perplexity(nats: float, tokens: float) -> float | None:
    """None where it is too large for a float: unknown is never infinity."""
    try:
        return math.exp(nats / tokens)
    except OverflowError:
        return None


def _why_unscored(evidence: ItemEvidence) -> str | None:
    if evidence.nonfinite:
        return "non-finite logits"
    if len(evidence.loglikelihoods) != 1:
        return f"{len(evidence.loglikelihoods)} log-likelihoods for one text"
    if evidence.scored_tokens < 1:
        return "the text has no token to score"
    total = evidence.loglikelihoods[0]
    return None if total is not None and math.isfinite(total) else "the log-likelihood of the text is not finite"
