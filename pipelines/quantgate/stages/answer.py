"""Score a golden set whose task code is somebody else's: answer its text requests with the scorer that golden items are scored with.

Requests with one context become one item, so the context runs once for all its continuations; equal requests run once. The texts are
taken as they stand: no template, no space between context and continuation. Nothing is known here of whose tasks they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from quantgate.errors import EngineError
from quantgate.golden_keys import BUILT_IN
from quantgate.ports import Device, Progress, Session, TaskSource, Tokenizer, Written
from quantgate.records import (
    BatchPlan,
    GoldenItem,
    GoldenSet,
    ItemEvidence,
    ItemScore,
    MetricInfo,
    Request,
    Scalar,
    ScoreSheet,
)
from quantgate.stages import score

_SEPARATED: Any = "chat"
"""The kind of template whose prompts bring their own separator: the scorer puts nothing between them and a choice."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """What to score, by whose code, and in which batches."""

    variant: str
    golden: GoldenSet
    source: TaskSource
    plan: BatchPlan


def score_tasks(session: Session, device: Device, job: Job, progress: Progress) -> ScoreSheet:
    """The sheet of one variant on one golden set of tasks, items in the set's own order."""
    started_s = device.now_s()
    answers = SessionAnswers(session, device, job.plan, progress, job.golden.label)
    items = job.source.score(job.golden, answers)
    asked = job.golden.harness
    named = {} if asked is None else {"metric": asked.metric, "filter": asked.filter}
    return ScoreSheet(
        variant=job.variant,
        golden_set=job.golden.name,
        golden_version=job.golden.version,
        golden_sha256=job.golden.sha256,
        items=items,
        batch_plan=job.plan,
        conditions={**answers.conditions, "tasks": job.source.name, **named},
        first_prompt=answers.first_prompt,
        seconds=device.now_s() - started_s,
        scale=None if asked is None else asked.scale,
        better=None if asked is None else asked.better,
    )


@dataclass(slots=True)
class SessionAnswers:
    """Answers from one open session, in batches of one plan. ``conditions`` and ``first_prompt`` are those of the last scoring."""

    session: Session
    device: Device
    plan: BatchPlan
    progress: Progress
    label: str
    conditions: Mapping[str, Scalar] = field(default_factory=dict)
    first_prompt: str = ""

    def loglikelihoods(self, asked: Sequence[tuple[str, str]], *, greedy: bool) -> list[tuple[float, bool]]:
        pairs = [_at_word(context, continuation) for context, continuation in asked]
        choices: dict[str, dict[str, int]] = {}
        for context, continuation in pairs:
            known = choices.setdefault(context, {})
            known.setdefault(continuation, len(known))
        items = [
            _item(str(number), context, "loglikelihoods", choices=tuple(known))
            for number, (context, known) in enumerate(choices.items())
        ]
        found = dict(zip(choices, self._evidence(items), strict=True))
        totals = [found[context].loglikelihoods[choices[context][continuation]] for context, continuation in pairs]
        written = self._greedy(pairs) if greedy else [False] * len(pairs)
        return [(math.nan if total is None else total, same) for total, same in zip(totals, written, strict=True)]

    def rolling(self, texts: Sequence[str]) -> list[float]:
        limit = self.session.shape.context_tokens
        windows = [
            (place, context, tokens)
            for place, text in enumerate(texts)
            for context, tokens in rolling_windows(self._ids(text), self._prefix_id(), limit)
        ]
        totals: list[list[float]] = [[] for _ in texts]
        for part in _parts(windows, self.plan):
            contexts, continuations = [context for _, context, _ in part], [[tokens] for _, _, tokens in part]
            for answer in self.session.logprobs(contexts, continuations):
                total = answer.totals[0]
                totals[part[answer.index][0]].append(math.nan if total is None else total)
        return [math.fsum(one) if all(map(math.isfinite, one)) else math.nan for one in totals]

    def generate(self, asked: Sequence[Written]) -> list[ItemEvidence]:
        places: dict[tuple[str, tuple[str, ...], int], int] = {}
        items: list[GoldenItem] = []
        for one in asked:
            key = (one.context, one.stop, one.max_new_tokens)
            if places.setdefault(key, len(items)) == len(items):
                items.append(_item(one.item_id, one.context, "text", stop=one.stop, max_new_tokens=one.max_new_tokens))
        found = self._evidence(items)
        return [found[places[one.context, one.stop, one.max_new_tokens]] for one in asked]

    def _evidence(self, items: Sequence[GoldenItem]) -> list[ItemEvidence]:
        if not items:
            return []
        golden = GoldenSet(name=self.label, version="", sha256="", items=tuple(items), path="")
        session: Any = _Verbatim(self.session)
        job = score.Job(variant="", golden=golden, metrics={one.info.name: one for one in _KEEPERS}, plan=self.plan)
        sheet = score.score(session, self.device, job, self.progress)
        self.conditions, self.first_prompt = sheet.conditions, self.first_prompt or items[0].prompt
        return [one.evidence for one in sheet.items]

    def _greedy(self, pairs: Sequence[tuple[str, str]]) -> list[bool]:
        """Whether greedy decoding writes exactly the continuation's tokens."""
        tokenizer = _Verbatim(self.session).tokenizer
        rows = [(place, *score.continuation(context, text, tokenizer)) for place, (context, text) in enumerate(pairs)]
        same = [False] * len(pairs)
        for part in _parts(rows, self.plan):
            requests = [
                Request(request_id=str(place), tokens=context, max_new_tokens=len(wanted)) for place, context, wanted in part
            ]
            steps = list(self.session.generate(requests))
            for place, _, wanted in part:
                same[place] = tuple(step.ids[str(place)] for step in steps if str(place) in step.ids) == wanted
        return same

    def _ids(self, text: str) -> tuple[int, ...]:
        ids = self.session.tokenizer.encode(text, add_bos=False)
        return ids[1:] if ids[:1] == (self.session.tokenizer.bos_id,) else ids

    def _prefix_id(self) -> int:
        return _prefix_id(self.session.tokenizer)


def rolling_windows(
    tokens: tuple[int, ...], prefix: int, limit_tokens: int | None
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Pairs of context and the tokens scored after it: every token once, and no window longer than the model holds.

    The last token scored is never read, so a window holds ``limit_tokens`` + 1 with its context. The first window begins with the prefix
    alone, the later ones with the token before them, and the last is filled up with context.
    """
    limit = limit_tokens or max(1, len(tokens))
    yield from [((prefix,), tokens[:limit])] if tokens else []
    for start in range(limit, len(tokens), limit):
        end = min(start + limit, len(tokens))
        yield tokens[max(0, end - limit - 1) : start], tokens[start:end]


def _at_word(context: str, continuation: str) -> tuple[str, str]:
    """White space at the end of the context belongs to the continuation, as the harness has it; an empty context stays empty."""
    stripped = context.rstrip()
    return stripped, context[len(stripped) :] + continuation


def _item(item_id: str, context: str, needs: str, **fields: Any) -> GoldenItem:
    return GoldenItem(item_id=item_id, slice="", prompt=context, metric=needs, template=_SEPARATED, **fields)


def _parts(rows: Sequence[tuple[int, Any, Any]], plan: BatchPlan) -> Iterator[list[tuple[int, Any, Any]]]:
    """Rows of context and continuation, longest first, each batch within the plan's rows and tokens."""
    ordered = sorted(rows, key=lambda row: -(len(row[1]) + len(row[2])))
    while ordered:
        longest = len(ordered[0][1]) + len(ordered[0][2])
        size = max(1, min(plan.max_rows, plan.token_budget // longest))
        yield ordered[:size]
        ordered = ordered[size:]


def _prefix_id(tokenizer: Tokenizer) -> int:
    """What stands before a text without context."""
    if tokenizer.bos_id is not None:
        return tokenizer.bos_id
    if not tokenizer.eos_ids:
        raise EngineError("a request has no context, and the model has neither BOS nor EOS to begin with")
    return tokenizer.eos_ids[0]


class _Verbatim:
    """A session, or its tokenizer, that puts nothing around a prompt and begins an empty one with BOS or EOS."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @property
    def tokenizer(self) -> Any:
        return _Verbatim(self._inner.tokenizer)

    def encode(self, text: str, *, add_bos: bool) -> tuple[int, ...]:
        ids: tuple[int, ...] = self._inner.encode(text, add_bos=add_bos)
        return ids if ids or not add_bos else (_prefix_id(self._inner),)

    def render(self, item: GoldenItem) -> str:
        return item.prompt


class _Keeper:
    """A metric that scores nothing and keeps the evidence."""

    def __init__(self, needs: Literal["loglikelihoods", "text"]) -> None:
        self.info = MetricInfo(name=needs, unit="", higher_is_better=True, needs=needs, definition="scored elsewhere")
        self.keys = BUILT_IN["exact_match" if needs == "text" else "multiple_choice"]

    def info_of(self, item: GoldenItem) -> MetricInfo:
        return self.info

    def why_unfit(self, item: GoldenItem) -> str | None:
        return None

    def combine(self, items: Sequence[ItemScore]) -> float | None:
        return None

    def score(self, item: GoldenItem, evidence: ItemEvidence) -> ItemScore:
        return ItemScore(item_id=item.item_id, slice="", cluster=None, value=None, evidence=evidence)


_KEEPERS = (_Keeper("loglikelihoods"), _Keeper("text"))
