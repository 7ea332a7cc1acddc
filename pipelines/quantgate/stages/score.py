"""Score a golden set: the same items, in the same batches, for the reference and every variant.

Multiple choice: the log-likelihood of each choice after its context. Generated answers: greedy decoding up to a stop string, an end of
sequence, or the item's cap; an answer cut at the cap is judged on its text and counted. Items go in batches (``BatchPlan``) of which the
plan, the golden set and the tokenizer say everything, because a variant's answer may depend on its batch: the plan is part of the evidence.
Where a batch does not fit into memory, the token budget is halved and everything is scored again under the smaller plan, never a part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isfinite

from quantgate.errors import EngineError, OutOfMemory
from quantgate.ports import Device, Metric, Progress, Session, Tokenizer
from quantgate.records import (
    BatchPlan,
    ChoiceLogProbs,
    GoldenItem,
    GoldenSet,
    ItemEvidence,
    ItemScore,
    Request,
    Scalar,
    ScoreSheet,
    Step,
)
from quantgate.stages import corpus, scales
from quantgate.stages.figures import figures


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """What to score and how."""

    variant: str
    golden: GoldenSet
    metrics: Mapping[str, Metric]
    plan: BatchPlan


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompt:
    """An item as ids: its context, and the ids of each choice."""

    item: GoldenItem
    context: tuple[int, ...]
    continuations: tuple[tuple[int, ...], ...]

    boundary_merges: int = 0
    """Choices that are encoded alone, because the tokenizer would merge across their join with the context."""

    @property
    def tokens(self) -> int:
        """Longest row this item needs."""
        longest = max((len(one) for one in self.continuations), default=self.item.max_new_tokens)
        return len(self.context) + longest

    @property
    def distinct_tokens(self) -> int:
        """Tokens that its context and the different beginnings of its choices have; the last token of a choice is predicted, not read."""
        read = sorted(one[:-1] for one in self.continuations)
        shared = sum(alike(*pair) for pair in pairwise(read))  # in this order a beginning is shared with the one before
        return len(self.context) + sum(map(len, read)) - shared


def alike(one: Sequence[int], other: Sequence[int]) -> int:
    """How many ids two rows begin with alike."""
    return next((at for at, (left, right) in enumerate(zip(one, other, strict=False)) if left != right), min(len(one), len(other)))


def score(session: Session, device: Device, job: Job, progress: Progress) -> ScoreSheet:
    """The sheet of one variant on one golden set, items in the set's own order.

    Raises ``EngineError`` where a prompt does not fit into the model's context: nothing is ever cut silently.
    """
    started_s = device.now_s()
    scale, better = scales.stated(job.metrics[item.metric].info_of(item) for item in job.golden.items)
    prompts = [_prompt(item, session.tokenizer, job.metrics) for item in job.golden.items]
    _refuse_overlong(prompts, session.shape.context_tokens)
    evidence, plan = _answered(session, device, job, prompts, progress)
    items = tuple(_score(prompt.item, evidence, job.metrics) for prompt in prompts)
    return ScoreSheet(
        variant=job.variant,
        golden_set=job.golden.name,
        golden_version=job.golden.version,
        golden_sha256=job.golden.sha256,
        items=items,
        batch_plan=plan,
        conditions=_conditions(session, device, prompts),
        first_prompt=session.tokenizer.render(job.golden.items[0]) if job.golden.items else "",
        seconds=device.now_s() - started_s,
        scale=scale,
        better=better,
        figures=figures(job.golden.items, items, job.metrics),
    )


def _answered(
    session: Session, device: Device, job: Job, prompts: Sequence[Prompt], progress: Progress
) -> tuple[dict[str, ItemEvidence], BatchPlan]:
    """What the model produced for every item, and the plan under which all of it was: the job's, or the first smaller one that fits.

    Raises ``OutOfMemory`` where not even single items do.
    """
    plan, made = job.plan, list(batches(prompts, job.plan, job.metrics))
    while True:
        try:
            return _run(session, job, made, progress), plan
        except OutOfMemory:
            if len(made) == len(prompts):
                raise
        device.release()  # outside the handler, whose frames hold what did not fit
        plan, made = _smaller(prompts, plan, job.metrics)


def _smaller(
    prompts: Sequence[Prompt], plan: BatchPlan, metrics: Mapping[str, Metric]
) -> tuple[BatchPlan, list[list[Prompt]]]:
    """Half the token budget, and half of that, until it makes more batches of the prompts; a budget of 1 makes one of each."""
    before = made = list(batches(prompts, plan, metrics))
    while len(made) == len(before) and plan.token_budget > 1:
        plan = replace(plan, token_budget=plan.token_budget // 2)
        made = list(batches(prompts, plan, metrics))
    return plan, made


def _run(session: Session, job: Job, made: Sequence[Sequence[Prompt]], progress: Progress) -> dict[str, ItemEvidence]:
    evidence: dict[str, ItemEvidence] = {}
    for batch in made:
        for one in _answer(session, batch, job.metrics):
            evidence[one.item_id] = one
        progress(len(evidence), sum(map(len, made)), f"scoring {job.golden.label}")
    return evidence


def batches(prompts: Sequence[Prompt], plan: BatchPlan, metrics: Mapping[str, Metric]) -> Iterator[list[Prompt]]:
    """Prompts of one kind of evidence together in the plan's order, each batch within the plan's rows and tokens."""
    for needs in dict.fromkeys(metrics[prompt.item.metric].info.needs for prompt in prompts):
        chosen = [prompt for prompt in prompts if metrics[prompt.item.metric].info.needs == needs]
        yield from _padded(chosen, plan) if needs == "text" else _shared(chosen, plan)


def _shared(prompts: Sequence[Prompt], plan: BatchPlan) -> Iterator[list[Prompt]]:
    """Nothing is padded here: a batch costs what its items do, and less where they share tokens."""
    key = (lambda prompt: prompt.context) if plan.order == "shared" else (lambda prompt: (-prompt.tokens,))
    batch: list[Prompt] = []
    cost = 0
    for prompt in sorted(prompts, key=key):  # stable: ties stay in the golden set's order
        if batch and (len(batch) == plan.max_rows or cost + prompt.distinct_tokens > plan.token_budget):
            yield batch
            batch, cost = [], 0
        batch.append(prompt)
        cost += prompt.distinct_tokens
    if batch:
        yield batch


def _padded(prompts: Sequence[Prompt], plan: BatchPlan) -> Iterator[list[Prompt]]:
    """Longest first: a batch costs its rows times its longest one."""
    batch: list[Prompt] = []
    for prompt in sorted(prompts, key=lambda prompt: -prompt.tokens):
        longest = batch[0].tokens if batch else 0
        if batch and (len(batch) == plan.max_rows or longest * (len(batch) + 1) > plan.token_budget):
            yield batch
            batch = []
        batch.append(prompt)
    if batch:
        yield batch


def continuation(context: str, choice: str, tokenizer: Tokenizer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Ids of a context and of the choice that follows it, at least one.

    White space at the end of the context moves to the choice, so that ``"Answer: " + "B"`` and ``"Answer:" + " B"`` are one. Where a merge
    of the tokenizer crosses the join, the choice is encoded alone.
    """
    start, ids, _ = _joined(context, choice, tokenizer)
    return start, ids


def _joined(context: str, choice: str, tokenizer: Tokenizer) -> tuple[tuple[int, ...], tuple[int, ...], bool]:
    """Ids of the context, ids of the choice, and whether a merge crosses the join."""
    stripped = context.rstrip(" ")
    joined = context[len(stripped) :] + choice
    start = tokenizer.encode(stripped, add_bos=True)
    whole = tokenizer.encode(stripped + joined, add_bos=True)
    if whole[: len(start)] == start and len(whole) > len(start):
        return start, whole[len(start) :], False
    return start, tokenizer.encode(joined, add_bos=False), True


def template(item: GoldenItem, tokenizer: Tokenizer) -> str:
    """``chat`` or ``raw``: what the item names, else chat for a model that has a template and raw for one that has none."""
    if item.template == "auto":
        return "chat" if tokenizer.has_template else "raw"
    return item.template


def _prompt(item: GoldenItem, tokenizer: Tokenizer, metrics: Mapping[str, Metric]) -> Prompt:
    text = tokenizer.render(item)
    if metrics[item.metric].info.needs == "tokens":
        given, scored = corpus.split(item, tokenizer)
        prompt = Prompt(item=item, context=given, continuations=scored)
    elif not item.choices:
        prompt = Prompt(item=item, context=tokenizer.encode(text, add_bos=True), continuations=())
    else:
        # A raw prompt ends in a word and the choice follows after a space; a chat template ends in its own separator.
        space = "" if template(item, tokenizer) == "chat" or text.endswith((" ", "\n")) else " "
        parts = [_joined(text, space + choice, tokenizer) for choice in item.choices]
        prompt = Prompt(
            item=item,
            context=parts[0][0],
            continuations=tuple(ids for _, ids, _ in parts),
            boundary_merges=sum(merged for _, _, merged in parts),
        )
    _refuse_odd(prompt, tokenizer)
    return prompt


def _refuse_odd(prompt: Prompt, tokenizer: Tokenizer) -> None:
    """Before any work: a prompt or choice without tokens, or a prompt that begins with two BOS, gives numbers that look right."""
    what = f"item {prompt.item.item_id} (line {prompt.item.line})"
    if not prompt.context:
        raise EngineError(f"{what}: the prompt has no tokens")
    if not all(prompt.continuations):
        raise EngineError(f"{what}: a choice has no tokens")
    if tokenizer.bos_id is not None and prompt.context[:2] == (tokenizer.bos_id, tokenizer.bos_id):
        raise EngineError(f"{what}: the prompt begins with two BOS tokens; the template and the tokenizer each add one")


def _refuse_overlong(prompts: Sequence[Prompt], limit_tokens: int | None) -> None:
    if limit_tokens is None:
        return
    for prompt in prompts:
        if prompt.tokens > limit_tokens:
            raise EngineError(
                f"item {prompt.item.item_id} (line {prompt.item.line}) needs {prompt.tokens} tokens and the model holds {limit_tokens}; "
                "shorten it or take it out: a truncated prompt is never scored"
            )


def _answer(session: Session, batch: Sequence[Prompt], metrics: Mapping[str, Metric]) -> Iterator[ItemEvidence]:
    match metrics[batch[0].item.metric].info.needs:
        case "loglikelihoods":
            yield from _loglikelihoods(session, batch)
        case "tokens":
            yield from _corpus(session, batch)
        case "text":
            yield from _texts(session, batch)


def _loglikelihoods(session: Session, batch: Sequence[Prompt]) -> Iterator[ItemEvidence]:
    answers = session.logprobs([prompt.context for prompt in batch], [prompt.continuations for prompt in batch])
    for answer in answers:
        totals = tuple(total if total is not None and isfinite(total) else None for total in answer.totals)
        yield ItemEvidence(item_id=batch[answer.index].item.item_id, loglikelihoods=totals, nonfinite=None in totals)


def _corpus(session: Session, batch: Sequence[Prompt]) -> Iterator[ItemEvidence]:
    asked = [prompt for prompt in batch if prompt.continuations]
    contexts, texts = [prompt.context for prompt in asked], [prompt.continuations for prompt in asked]
    found: dict[str, ChoiceLogProbs] = {}
    if asked:
        found = {asked[answer.index].item.item_id: answer for answer in session.logprobs(contexts, texts)}
    for prompt in batch:
        one = corpus.evidence(prompt.item, prompt.continuations, found.get(prompt.item.item_id))
        if one is not None:
            yield one


def _texts(session: Session, batch: Sequence[Prompt]) -> Iterator[ItemEvidence]:
    requests = [
        Request(
            request_id=prompt.item.item_id,
            tokens=prompt.context,
            max_new_tokens=prompt.item.max_new_tokens,
            stop=prompt.item.stop,
        )
        for prompt in batch
    ]
    steps = list(session.generate(requests))
    for prompt in batch:
        yield _generated(prompt.item, steps, session.tokenizer)


def _generated(item: GoldenItem, steps: Sequence[Step], tokenizer: Tokenizer) -> ItemEvidence:
    """What one row produced, up to and including its first end of sequence. A row that the engine never answered has no text."""
    given = [step.ids[item.item_id] for step in steps if item.item_id in step.ids]
    end = next((place for place, one in enumerate(given) if one in tokenizer.eos_ids), None)
    ids = given if end is None else given[: end + 1]
    bad = any(item.item_id in step.nonfinite for step in steps)
    text = tokenizer.decode(ids if end is None else ids[:-1])
    stopped = end is not None or any(stop in text for stop in item.stop)
    first = steps[0].first_logprobs if steps else None
    return ItemEvidence(
        item_id=item.item_id,
        text=None if bad or not ids else text,
        output_tokens=len(ids),
        truncated=not bad and not stopped and len(ids) >= item.max_new_tokens,
        nonfinite=bad,
        first_token_logprob=None if first is None else first.get(item.item_id),
    )


def _score(item: GoldenItem, evidence: Mapping[str, ItemEvidence], metrics: Mapping[str, Metric]) -> ItemScore:
    return metrics[item.metric].score(item, evidence.get(item.item_id) or ItemEvidence(item_id=item.item_id))


def _conditions(session: Session, device: Device, prompts: Sequence[Prompt]) -> Mapping[str, Scalar]:
    """What must be equal for the reference and a variant, else their scores are not compared."""
    tokenizer = session.tokenizer
    return {
        "tokenizer": tokenizer.digest,
        "bos": tokenizer.bos_id,
        "template": " and ".join(sorted({template(prompt.item, tokenizer) for prompt in prompts})),
        "boundary_merges": sum(prompt.boundary_merges for prompt in prompts),
        "layout": session.loaded.score_layout,
        "device": device.info.name,
        "driver": device.info.driver,
        "threads": device.info.threads,
    }
