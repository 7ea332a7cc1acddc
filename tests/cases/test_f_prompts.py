"""Public bug reports, part F: the join of prompt and choice, BOS, templates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import tiny
from evidence import candidate, decided, evidence, known_bad, reference
from quantgate.engines.transformers_tokenizer import TransformersTokenizer
from quantgate.metrics.multiple_choice import MultipleChoice
from quantgate.records import BatchPlan, ChoiceLogProbs, GoldenItem, GoldenSet, ScoreSheet
from quantgate.stages.score import Job, continuation, score
from sessions import Scripted, device, quiet

Contexts = Sequence[tuple[int, ...]]
Continuations = Sequence[Sequence[tuple[int, ...]]]


def by_ids(contexts: Contexts, continuations: Continuations) -> Iterator[ChoiceLogProbs]:
    """A model whose numbers depend on every id: equal numbers mean equal ids."""
    for index, (context, choices) in enumerate(zip(contexts, continuations, strict=True)):
        yield ChoiceLogProbs(index=index, totals=tuple(-float(hash((context, one)) % 10007) for one in choices))


def item(prompt: str, choices: tuple[str, ...], **fields: Any) -> GoldenItem:
    made = GoldenItem(item_id="i", slice="s", prompt=prompt, metric="multiple_choice", choices=choices, answer=0)
    return replace(made, **fields)


def scored(tokenizer: Any, one: GoldenItem, seen: list[tuple[int, ...]] | None = None) -> ScoreSheet:
    def spy(contexts: Contexts, continuations: Continuations) -> Iterator[ChoiceLogProbs]:
        if seen is not None:
            seen.extend(contexts)
        yield from by_ids(contexts, continuations)

    golden = GoldenSet(name="g", version="1", sha256="0" * 64, items=(one,), path="")
    job = Job(variant="v", golden=golden, metrics={"multiple_choice": MultipleChoice()}, plan=BatchPlan())
    return score(Scripted(logprobs=spy, tokenizer=tokenizer), device(), job, quiet)


def merging(chat_template: str | None = None) -> TransformersTokenizer:
    """A real BPE whose merges cross the join: ``Ans`` is An + s, ``wer`` one token, ``Answer`` one token."""
    vocabulary = {name: n for n, name in enumerate(["<unk>", "A", "n", "s", "w", "e", "r", "An", "we", "wer", "sw", "Answer", "swer"])}
    merges = [("A", "n"), ("w", "e"), ("we", "r"), ("s", "wer"), ("An", "swer")]
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    wrapped = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>")
    wrapped.chat_template = chat_template
    return TransformersTokenizer(wrapped, None)


def test_b52_a_merge_across_the_join() -> None:
    """``Ans`` is 2 ids and ``Answer`` 1: the continuation is ``wer`` encoded alone, at least one id, and the item is counted and kept."""
    tokenizer = merging()
    context, ids = continuation("Ans", "wer", tokenizer)
    assert (len(tokenizer.encode("Answer", add_bos=False)), len(context), len(ids)) == (1, 2, 1)
    assert context + ids == tokenizer.encode("Ans", add_bos=False) + tokenizer.encode("wer", add_bos=False)
    chat = scored(merging(chat_template="{{ messages[0]['content'] }}"), item("Ans", ("wer", "n")))
    assert chat.items[0].value is not None and chat.conditions["boundary_merges"] == 1
    raw = scored(tokenizer, item("Ans", ("wer", "n")))  # after a space, which no merge crosses
    assert raw.items[0].value is not None and raw.conditions["boundary_merges"] == 0


@pytest.mark.parametrize("adds_bos", [False, True])
def test_b53_a_trailing_space_changes_nothing(adds_bos: bool) -> None:
    """``"Answer: " + "B"`` and ``"Answer:" + " B"``: the same ids and the same log-likelihoods."""
    tokenizer = TransformersTokenizer(tiny.tokenizer(adds_bos=adds_bos), None)
    assert continuation("Answer: ", "B", tokenizer) == continuation("Answer:", " B", tokenizer)
    sheets = [scored(tokenizer, item(prompt, ("B", "C"), template="raw")) for prompt in ("Answer: ", "Answer:")]
    assert sheets[0].items[0].evidence.loglikelihoods == sheets[1].items[0].evidence.loglikelihoods


@pytest.mark.parametrize("template", ["chat", "raw", "auto"])
def test_b55_one_bos_whoever_adds_it(template: Any) -> None:
    """A template that begins with BOS and a tokenizer that adds one: the prompt starts with exactly one."""
    seen: list[tuple[int, ...]] = []
    scored(TransformersTokenizer(tiny.tokenizer(adds_bos=True), None), item("hi", ("a", "b"), template=template), seen)
    assert seen[0][0] == tiny.BOS_ID and seen[0].count(tiny.BOS_ID) == 1


@pytest.mark.parametrize("condition", ["bos", "template", "layout", "boundary_merges", "tokenizer"])
def test_b56_scores_under_other_prompts_are_not_comparable(condition: str) -> None:
    """A reference with BOS and a variant without, or any other way of prompting: not measured (exit 4), neither pass nor fail."""
    one = candidate()
    conditions = {"bos": 1, "template": "raw", "layout": "forest", "boundary_merges": 0, "tokenizer": "ab"}
    known = dict(one.sheets[0].conditions) | conditions
    alike = [
        replace(each, sheets=tuple(replace(sheet, conditions=known) for sheet in each.sheets))
        for each in (reference(), one, known_bad())
    ]
    assert decided(evidence(*alike)).outcome == "pass"
    other = replace(one, sheets=tuple(replace(sheet, conditions={**known, condition: None}) for sheet in one.sheets))
    decision = decided(evidence(alike[0], other, alike[2]))
    assert decision.outcome == "not_measured"
    assert f"not comparable: {condition} is" in " ".join(check.because for each in decision.verdicts for check in each.checks)
