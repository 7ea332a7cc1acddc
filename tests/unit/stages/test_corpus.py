"""Texts scored token by token: what is given, what is scored, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from quantgate.errors import EngineError
from quantgate.metrics.perplexity import Perplexity
from quantgate.records import BatchPlan, ChoiceLogProbs, GoldenItem, GoldenSet, ScoreSheet
from quantgate.stages import corpus
from quantgate.stages.score import Job, score
from sessions import BOS, CharTokenizer, Scripted, device, quiet


def text(n: int, words: str) -> GoldenItem:
    """A text to be scored."""
    return GoldenItem(item_id=f"t{n}", slice="s", prompt=words, metric="perplexity", template="raw", line=n + 1)


def run(items: list[GoldenItem], session: Scripted, max_rows: int = 16) -> ScoreSheet:
    """Score texts."""
    golden = GoldenSet(name="g", version="1", sha256="0" * 64, items=tuple(items), path="")
    plan = BatchPlan(max_rows=max_rows)
    return score(session, device(), Job(variant="v", golden=golden, metrics={"perplexity": Perplexity()}, plan=plan), quiet)


def minus_half_a_token(contexts: Any, continuations: Any) -> Iterator[ChoiceLogProbs]:
    """A model that gives every token -0.5."""
    for index, choices in enumerate(continuations):
        yield ChoiceLogProbs(index=index, totals=tuple(-0.5 * len(one) for one in choices))


def test_every_token_behind_the_bos_is_scored_once() -> None:
    """Context is the BOS, one continuation is the whole text; id 0 is a token like any other."""
    seen: list[tuple[Any, Any]] = []

    class Zero(CharTokenizer):
        def encode(self, text: str, *, add_bos: bool) -> tuple[int, ...]:
            return (BOS, 0, 7, 0)

    def spy(contexts: Any, continuations: Any) -> Iterator[ChoiceLogProbs]:
        seen.append((contexts, continuations))
        yield from minus_half_a_token(contexts, continuations)

    (item,) = run([text(0, "any")], Scripted(logprobs=spy, tokenizer=Zero())).items
    assert seen == [([(BOS,)], [((0, 7, 0),)])]
    assert (item.evidence.scored_tokens, item.evidence.loglikelihoods, item.value) == (3, (-1.5,), -0.5)


def test_without_a_bos_the_first_token_is_given() -> None:
    """And the number of scored tokens says so."""
    (item,) = run([text(0, "abc")], Scripted(logprobs=minus_half_a_token, tokenizer=CharTokenizer(bos=0))).items
    assert (item.evidence.scored_tokens, item.value) == (2, -0.5)


def test_a_text_without_a_token_to_score_is_counted_and_not_asked() -> None:
    """One token and no BOS: no score with a reason, while the others are scored; the figure is over those."""
    sheet = run([text(0, "a"), text(1, "abc")], Scripted(logprobs=minus_half_a_token, tokenizer=CharTokenizer(bos=0)))
    assert [(one.value, one.why_unscored) for one in sheet.items] == [(None, "the text has no token to score"), (-0.5, None)]
    (figure,) = sheet.figures
    assert (figure.items, figure.scored, figure.value) == (2, 1, pytest.approx(2.718281828**0.5))


@pytest.mark.parametrize("max_rows", [1, 3])
def test_texts_of_any_length_share_batches(max_rows: int) -> None:
    """The same sheet whatever the batches, items in the set's order."""
    items = [text(n, "x" * size) for n, size in enumerate((3, 9, 1, 5))]
    sheet = run(items, Scripted(logprobs=minus_half_a_token), max_rows)
    assert [one.evidence.scored_tokens for one in sheet.items] == [3, 9, 1, 5]


def test_an_overlong_text_is_refused_with_its_name() -> None:
    """Never cut and never windowed."""
    with pytest.raises(EngineError, match=r"item t1 \(line 2\) needs 11 tokens and the model holds 10"):
        run([text(0, "x"), text(1, "x" * 10)], Scripted(logprobs=minus_half_a_token, context_tokens=10))


def test_two_bos_are_refused() -> None:
    """The second one would be scored as text."""
    with pytest.raises(EngineError, match=r"item t0 \(line 1\): the text begins with two BOS"):
        run([text(0, "x")], Scripted(logprobs=minus_half_a_token, tokenizer=CharTokenizer(bos=2)))


def test_what_is_not_finite_or_not_answered_has_no_score() -> None:
    """NaN is flagged; a row that the engine left out is absent, never 0."""
    nan = Scripted(logprobs=lambda contexts, texts: iter([ChoiceLogProbs(index=0, totals=(float("nan"),))]))
    bad, absent = run([text(0, "abc"), text(1, "abc")], nan).items
    assert (bad.value, bad.evidence.nonfinite) == (None, True)
    assert (absent.value, absent.evidence.scored_tokens) == (None, 0)
    assert corpus.evidence(text(0, "x"), ((1,),), None) is None
