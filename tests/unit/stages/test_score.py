from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from quantgate.errors import EngineError, OutOfMemory
from quantgate.metrics.exact_match import ExactMatch
from quantgate.metrics.multiple_choice import MultipleChoice
from quantgate.records import BatchPlan, ChoiceLogProbs, GoldenItem, GoldenSet, Request, ScoreSheet, Step
from quantgate.stages.score import Job, Prompt, batches, continuation, score
from sessions import BOS, EOS, CharTokenizer, Scripted, device, quiet

METRICS: dict[str, Any] = {"multiple_choice": MultipleChoice(), "exact_match": ExactMatch()}


def choice(number: int, prompt: str = "q", choices: tuple[str, ...] = ("a", "b"), **fields: Any) -> GoldenItem:
    made = GoldenItem(
        item_id=f"c{number}",
        slice="s",
        prompt=prompt,
        metric="multiple_choice",
        choices=choices,
        answer=0,
        template="raw",
    )
    return replace(made, **fields)


def text(number: int, prompt: str = "q", **fields: Any) -> GoldenItem:
    made = GoldenItem(
        item_id=f"t{number}",
        slice="s",
        prompt=prompt,
        metric="exact_match",
        answers=("ok",),
        template="raw",
        max_new_tokens=4,
    )
    return replace(made, **fields)


def run(items: Sequence[GoldenItem], session: Scripted, plan: BatchPlan | None = None) -> ScoreSheet:
    golden = GoldenSet(name="g", version="1", sha256="ab" * 32, items=tuple(items), path="")
    return score(
        session, device(), Job(variant="int8", golden=golden, metrics=METRICS, plan=plan or BatchPlan()), quiet
    )


def by_length(
    contexts: Sequence[tuple[int, ...]], continuations: Sequence[Sequence[tuple[int, ...]]]
) -> Iterator[ChoiceLogProbs]:
    """A model of -1.0 a token."""
    for index, choices in enumerate(continuations):
        yield ChoiceLogProbs(index=index, totals=tuple(-float(len(one)) for one in choices))


def writes(**said: str) -> Any:
    """A session that writes the text given for each item, then an end of sequence where it has room, and nothing for the others."""
    tokenizer = CharTokenizer()

    def generate(requests: Sequence[Request]) -> Iterator[Step]:
        rows = {one.request_id: [*tokenizer.encode(said[one.request_id], add_bos=False), EOS][: one.max_new_tokens]
                for one in requests if one.request_id in said}  # fmt: skip
        for place in range(max((len(ids) for ids in rows.values()), default=0)):
            yield Step(
                ids={key: ids[place] for key, ids in rows.items() if place < len(ids)},
                first_logprobs=dict.fromkeys(rows, -0.5) if place == 0 else None,
            )

    return Scripted(generate)


def test_batches_stay_within_the_plan_and_hold_every_prompt_once() -> None:
    """Texts longest first, choices by their prompts, ties in the set's order, rows and tokens within the plan, kinds of evidence apart."""
    items = [choice(n, "x" * (n % 7 + 1)) for n in range(20)] + [text(n, "x" * (n % 5 + 1)) for n in range(11)]
    prompts = [
        Prompt(item=one, context=tuple(range(len(one.prompt))), continuations=((1,),) if one.choices else ())
        for one in items
    ]
    made = list(batches(prompts, BatchPlan(token_budget=24, max_rows=5), METRICS))
    assert sorted(one.item.item_id for batch in made for one in batch) == sorted(one.item_id for one in items)
    for batch in made:
        assert len(batch) <= 5
        padded = not batch[0].item.choices
        cost = len(batch) * max(one.tokens for one in batch) if padded else sum(one.distinct_tokens for one in batch)
        assert cost <= 24
        assert len({one.item.metric for one in batch}) == 1
    order = [one.item.item_id for batch in made for one in batch]
    assert order[:3] == ["c0", "c7", "c14"] and order[20:23] == ["t4", "t9", "t3"]


def test_prompts_with_a_common_beginning_meet_in_a_batch() -> None:
    """Two few-shot prefixes in turn: each batch holds one of them; by length, the older order, it would hold both."""
    prompts = [
        Prompt(item=choice(n), context=(1 + n % 2, 7, 7, *range(20, 20 + n)), continuations=((1,),)) for n in range(8)
    ]
    shared, by_size = (
        [{one.context[0] for one in batch} for batch in batches(prompts, BatchPlan(max_rows=4, order=order), METRICS)]
        for order in ("shared", "length")
    )
    assert shared == [{1}, {2}]
    assert by_size == [{1, 2}, {1, 2}]


def test_what_choices_share_is_counted_once() -> None:
    """Context of 3, choices ab, ac and d: a is read once; the last token of each is only predicted."""
    prompt = Prompt(item=choice(0), context=(1, 2, 3), continuations=((5, 6), (5, 7), (8,)))
    assert (prompt.distinct_tokens, prompt.tokens) == (4, 5)


def test_a_prompt_longer_than_the_budget_has_a_batch_of_its_own() -> None:
    """It is neither dropped nor cut."""
    for make in (choice, text):
        sizes = enumerate((50, 3, 3))
        continuations = ((1,),) if make is choice else ()
        prompts = [Prompt(item=make(n), context=(9 - n,) * size, continuations=continuations) for n, size in sizes]
        made = [[one.item.item_id[1:] for one in batch] for batch in batches(prompts, BatchPlan(token_budget=14), METRICS)]
        assert sorted(made) == [["0"], ["1", "2"]] or sorted(made) == [["0"], ["2", "1"]]


def test_items_come_back_in_the_sets_order() -> None:
    """Whatever the batches were."""
    sheet = run(
        [choice(0, "short"), choice(1, "much longer"), choice(2, "s")],
        Scripted(logprobs=by_length),
        BatchPlan(max_rows=1),
    )
    assert [one.item_id for one in sheet.items] == ["c0", "c1", "c2"]
    assert sheet.first_prompt == "short"
    assert set(sheet.conditions) == {
        "bos", "boundary_merges", "device", "driver", "layout", "template", "threads", "tokenizer"
    }  # fmt: skip


def test_an_overlong_prompt_is_refused_before_any_work() -> None:
    """Nothing is ever cut: the item, its line and both lengths are named, and the model was not asked."""
    asked: list[int] = []

    def spy(contexts: Any, continuations: Any) -> Iterator[ChoiceLogProbs]:
        asked.append(len(contexts))
        yield from by_length(contexts, continuations)

    session = Scripted(logprobs=spy, context_tokens=12)
    run([choice(0, "x" * 9)], session)
    asked.clear()
    with pytest.raises(EngineError, match=r"item c1 \(line 7\) needs 13 tokens and the model holds 12"):
        run([choice(0, "x"), choice(1, "x" * 10, line=7)], session)
    assert asked == []


def test_an_answer_cut_at_the_cap_is_judged_and_counted() -> None:
    """Truncated: neither a stop string nor an end of sequence before the cap. Its text counts all the same."""
    sheet = run(
        [text(0), text(1), text(2, stop=("\n",)), text(3, answers=("abcd",))],
        writes(t0="ok", t1="abcdef", t2="ok\nx", t3="abcdef"),
    )
    assert [one.evidence.truncated for one in sheet.items] == [False, True, False, True]
    assert [one.value for one in sheet.items] == [1.0, 0.0, 1.0, 1.0]
    assert [one.evidence.output_tokens for one in sheet.items] == [3, 4, 4, 4]


def test_a_row_that_the_engine_never_answered_is_absent_and_an_empty_answer_is_wrong() -> None:
    """No step at all: no score. An end of sequence at once: an empty text, which is an answer."""
    sheet = run([text(0), text(1)], writes(t1=""))
    assert [(one.value, one.why_unscored) for one in sheet.items] == [(None, "no text was generated"), (0.0, None)]
    missing = run(
        [choice(0), choice(1)],
        Scripted(logprobs=lambda contexts, continuations: iter([ChoiceLogProbs(index=0, totals=(-1.0, -2.0))])),
    )
    assert [one.value for one in missing.items] == [1.0, None]


def test_what_an_engine_writes_behind_the_end_of_sequence_is_not_text() -> None:
    """Padding after a row's first EOS changes neither text nor count."""

    def padded(requests: Sequence[Request]) -> Iterator[Step]:
        for one in (ord("o") + 3, ord("k") + 3, EOS, ord("x") + 3):
            yield Step(ids={"t0": one})

    item = run([text(0)], Scripted(padded)).items[0]
    assert (item.value, item.answered, item.evidence.output_tokens, item.evidence.truncated) == (1.0, "ok", 3, False)


def test_numbers_that_are_not_finite_are_flagged_and_not_scored() -> None:
    """NaN, infinity and None become None, counted as non-finite."""
    totals = [(-1.0, float("nan")), (float("-inf"), -1.0), (None, -1.0), (-1.0, -2.0)]
    session = Scripted(
        logprobs=lambda contexts, continuations: (ChoiceLogProbs(index=n, totals=one) for n, one in enumerate(totals))
    )
    sheet = run([choice(n) for n in range(4)], session)
    assert [one.evidence.nonfinite for one in sheet.items] == [True, True, True, False]
    assert [one.value for one in sheet.items] == [None, None, None, 1.0]


def test_a_set_without_items_gives_an_empty_sheet() -> None:
    """Nothing to score is no crash: the gate says that nothing was measured."""
    assert run([], Scripted()).items == ()


class Merging(CharTokenizer):
    """A toy BPE: ``Ans`` is two ids, ``Answer`` one."""

    def encode(self, text: str, *, add_bos: bool) -> tuple[int, ...]:
        table = {"Ans": (10, 11), "Answer": (12,), "wer": (13,)}
        return ((BOS,) if add_bos else ()) + table[text]


def test_b52_a_merge_across_the_join_leaves_the_choice_its_tokens() -> None:
    """Context ``Ans`` and choice ``wer``: the choice is encoded alone instead of being empty."""
    assert continuation("Ans", "wer", Merging()) == ((BOS, 10, 11), (13,))


def test_b53_a_trailing_space_of_the_context_moves_to_the_choice() -> None:
    """``"Answer: " + "B"`` and ``"Answer:" + " B"`` are the same ids and the same log-likelihood."""
    tokenizer = CharTokenizer()
    assert continuation("Answer: ", "B", tokenizer) == continuation("Answer:", " B", tokenizer)
    sheets = [run([choice(0, prompt, ("B", "CC"))], Scripted(logprobs=by_length)) for prompt in ("Answer: ", "Answer:")]
    assert sheets[0].items[0].evidence == sheets[1].items[0].evidence
    assert sheets[0].items[0].evidence.loglikelihoods == (-2.0, -3.0)


def test_b55_a_prompt_begins_with_one_bos() -> None:
    """One BOS reaches the model; a template and a tokenizer that both add one are refused before any work."""
    seen: list[tuple[int, ...]] = []

    def spy(contexts: Sequence[tuple[int, ...]], continuations: Any) -> Iterator[ChoiceLogProbs]:
        seen.extend(contexts)
        yield from by_length(contexts, continuations)

    run([choice(0)], Scripted(logprobs=spy))
    assert [one.count(BOS) for one in seen] == [1] and seen[0][0] == BOS
    with pytest.raises(EngineError, match="two BOS tokens"):
        run([choice(0)], Scripted(logprobs=spy, tokenizer=CharTokenizer(bos=2)))


def test_a_prompt_or_choice_without_tokens_is_refused() -> None:
    """Neither can be scored; both are named before any work."""
    with pytest.raises(EngineError, match="the prompt has no tokens"):
        run([text(0, "")], Scripted(tokenizer=CharTokenizer(bos=0)))
    with pytest.raises(EngineError, match="a choice has no tokens"):
        run([choice(0, choices=("", "b"), template="chat")], Scripted(logprobs=by_length))


# ---------------------------------------------------------------------------------------------- memory


def cramped(limit_tokens: int, asked: list[int]) -> Scripted:
    """A model of -1.0 a token that has no memory for more prompt tokens than that in one batch."""

    def logprobs(contexts: Sequence[tuple[int, ...]], continuations: Any) -> Iterator[ChoiceLogProbs]:
        asked.append(len(contexts))
        if sum(map(len, contexts)) > limit_tokens:
            raise OutOfMemory("no more")
        yield from by_length(contexts, continuations)

    return Scripted(logprobs=logprobs)


def test_out_of_memory_halves_the_budget_and_scores_everything_again() -> None:
    """Two items first fit, then four do not: the sheet carries the smaller plan, and every item was scored under it."""
    asked: list[int] = []
    items = [choice(n, "abc"[n % 3] * (n + 1)) for n in range(8)]
    sheet = run(items, cramped(20, asked), BatchPlan(token_budget=64))
    assert sheet.batch_plan == BatchPlan(token_budget=16)
    assert all(one.value is not None for one in sheet.items)
    assert sum(asked[asked.index(8) + 1 :]) >= len(items)
    prompts = [Prompt(item=one, context=tuple(map(ord, "^" + one.prompt)), continuations=((1, 1),) * 2) for one in items]
    plan = [len(batch) for batch in batches(prompts, sheet.batch_plan, METRICS)]
    assert asked[-len(plan) :] == plan


def test_out_of_memory_with_one_item_is_the_end() -> None:
    """Nothing smaller is left to try; the error of the engine says what happened, and nothing is scored in part."""
    asked: list[int] = []
    with pytest.raises(OutOfMemory):
        run([choice(0, "x" * 9), choice(1, "y")], cramped(5, asked), BatchPlan(token_budget=64))
    assert asked.count(2) == 1


# ---------------------------------------------------------------------------------------------- templates


class Chatting(CharTokenizer):
    """Has a chat template: a colon on either side."""

    has_template = True

    def render(self, item: GoldenItem) -> str:
        raw = item.template == "raw"
        return item.prompt if raw else f":{item.prompt}:"


@pytest.mark.parametrize(
    ("tokenizer", "named", "seen", "chosen"),
    [
        (Chatting(), "auto", ":q:", "chat"),
        (Chatting(), "raw", "q", "raw"),
        (CharTokenizer(), "auto", "q", "raw"),
    ],
)
def test_the_template_follows_the_model_where_the_item_names_none(tokenizer: Any, named: Any, seen: str, chosen: str) -> None:
    """Chat for a model with a template, raw for one without; which it was is a condition of the score."""
    sheet = run([choice(0, template=named)], Scripted(logprobs=by_length, tokenizer=tokenizer))
    assert (sheet.first_prompt, sheet.conditions["template"]) == (seen, chosen)
    # After a raw prompt a choice is " a", two ids; a chat template ends in its own separator.
    assert sheet.items[0].evidence.loglikelihoods[0] == (-1.0 if chosen == "chat" else -2.0)


def test_items_of_two_templates_say_so() -> None:
    """Both names, in one order."""
    sheet = run([choice(0), choice(1, template="chat")], Scripted(logprobs=by_length, tokenizer=Chatting()))
    assert sheet.conditions["template"] == "chat and raw"


def test_b52_choices_that_are_encoded_alone_are_counted() -> None:
    """A merge across the join is no error and no silence: the sheet's conditions say how many choices it was."""

    class Pairs(CharTokenizer):
        """Merges q and a space into one id."""

        def encode(self, text: str, *, add_bos: bool) -> tuple[int, ...]:
            return super().encode(text.replace("q ", "Q"), add_bos=add_bos)

    assert run([choice(0)], Scripted(logprobs=by_length, tokenizer=Pairs())).conditions["boundary_merges"] == 2
    assert run([choice(0)], Scripted(logprobs=by_length)).conditions["boundary_merges"] == 0
