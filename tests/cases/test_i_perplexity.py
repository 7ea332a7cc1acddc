"""Public bug reports, part I: perplexity."""

import math

import pytest

from quantgate.metrics.perplexity import Perplexity
from quantgate.records import BatchPlan, ChoiceLogProbs, GoldenItem, GoldenSet, ScoreSheet
from quantgate.stages.score import Job, score
from sessions import BOS, CharTokenizer, Scripted, device, quiet

NATS = {2: 2.0, 8: 4.0}
"""Total nats of a document by its number of tokens."""


class Zeros(CharTokenizer):
    """Every token of a text has the id 0, which others have filtered out as padding."""

    def encode(self, text: str, *, add_bos: bool) -> tuple[int, ...]:
        return ((BOS,) if add_bos else ()) + (0,) * len(text)


def sheet(*texts: str) -> ScoreSheet:
    """Score documents with a model whose totals are known."""
    items = tuple(
        GoldenItem(item_id=f"d{n}", slice="s", prompt=text, metric="perplexity", template="raw")
        for n, text in enumerate(texts)
    )
    golden = GoldenSet(name="g", version="1", sha256="0" * 64, items=items, path="")
    session = Scripted(
        logprobs=lambda contexts, documents: (
            ChoiceLogProbs(index=n, totals=(-NATS[len(one[0])],)) for n, one in enumerate(documents)
        ),
        tokenizer=Zeros(),
    )
    job = Job(variant="v", golden=golden, metrics={"perplexity": Perplexity()}, plan=BatchPlan())
    return score(session, device(), job, quiet)


def test_b76_totals_over_totals() -> None:
    """B76: 2 nats over 2 tokens and 4 over 8: exp(6 / 10) = 1.8221, not the mean 2.1835; the definition says which."""
    (figure,) = sheet("ab", "abcdefgh", "").figures
    assert figure.value == pytest.approx(1.8221, abs=5e-5)
    assert figure.value != pytest.approx((math.exp(1.0) + math.exp(0.5)) / 2, abs=0.1)
    assert "exp(total nats / total scored tokens)" in figure.metric.definition


def test_b76_an_empty_document_is_left_out_and_counted() -> None:
    """B76: no NaN: the empty document has no score, a reason, and is missing from the count beside the figure."""
    found = sheet("ab", "abcdefgh", "")
    assert [one.why_unscored for one in found.items] == [None, None, "the text has no token to score"]
    assert (found.figures[0].items, found.figures[0].scored) == (3, 2)


def test_b76_token_id_0_is_scored() -> None:
    """B76: a text of zeros has as many scored tokens as zeros."""
    assert [one.evidence.scored_tokens for one in sheet("ab", "abcdefgh").items] == [2, 8]


def test_b76_other_tokenizers_are_not_compared() -> None:
    """B76: the tokenizer's digest is among the conditions that must be equal."""
    assert sheet("ab").conditions["tokenizer"] == Zeros.digest
