"""Speculative decoding of an open session beside plain greedy decoding: counters from ids, times from one clock, losslessness looked at.

A step reads a row's last token with its draft behind it, takes the drafts that the target itself would have said, and one token more, which
is the target's answer to the last of them. Its output is greedy decoding's own, whatever was drafted, up to rounding: reading several
tokens at once adds up in another order than reading them one by one. Where an output parts from plain decoding, the lead of the likeliest
token there is compared with what that other order moves.

The library's own assisted generation takes one row at a time; this loop verifies all rows of a batch in one forward.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from quantgate.errors import EngineError
from quantgate.ports import Device, Progress, Session
from quantgate.records import DecodeTime, GoldenItem, Parting, Request, SpeculationPass
from quantgate.stages.draft import Drafts

WARMUP_TOKENS = 8
Tokens = tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompt:
    """A prompt as the target reads it."""

    name: str
    tokens: Tokens


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """Every number of drafted tokens at every batch size, on the same prompts."""

    prompts: tuple[Prompt, ...]
    draft_tokens: tuple[int, ...]
    batch_sizes: tuple[int, ...]
    output_tokens: int
    repeats: int


@dataclass(slots=True)
class Counters:
    """Counted over verification steps of single rows; see ``SpeculationPass``."""

    places: int
    steps: int = 0
    emitted: int = 0
    drafted_at: list[int] = field(default_factory=list)
    accepted_at: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.drafted_at, self.accepted_at = [0] * self.places, [0] * self.places

    def step(self, drafted: int, accepted: int) -> None:
        """One row's step: so many drafted, of which so many were accepted and go out before the target's own token."""
        self.steps += 1
        self.emitted += accepted + 1
        for place in range(drafted):
            self.drafted_at[place] += 1
            self.accepted_at[place] += place < accepted


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """A batch's outputs, up to and including each row's end of sequence, and what decoding them took."""

    outputs: tuple[Tokens, ...]
    time: DecodeTime


def prompts(session: Session, items: Sequence[GoldenItem], output_tokens: int) -> tuple[Prompt, ...]:
    """The items as the target reads them. Raises ``EngineError`` for one that the model cannot hold: nothing is cut silently."""
    made = tuple(
        Prompt(name=one.item_id, tokens=session.tokenizer.encode(session.tokenizer.render(one), add_bos=True)) for one in items
    )
    limit = session.shape.context_tokens
    for one in made:
        if not one.tokens:
            raise EngineError(f"prompt {one.name} has no tokens")
        if limit is not None and len(one.tokens) + output_tokens > limit:
            needed = f"{len(one.tokens)} tokens and {output_tokens} of output"
            raise EngineError(f"prompt {one.name} needs {needed}, and the model holds {limit}; take it out or ask for a shorter output")
    return made


# ---------------------------------------------------------------------------------------------- one batch


def plain(session: Session, device: Device, batch: Sequence[Prompt], output_tokens: int) -> Written:
    """Plain greedy decoding by the session's own loop."""
    requests = [Request(request_id=str(row), tokens=one.tokens, max_new_tokens=output_tokens) for row, one in enumerate(batch)]
    outputs: list[list[int]] = [[] for _ in batch]
    started_s = ended_s = None
    for step in session.generate(requests):
        device.synchronize()
        ended_s = device.now_s()
        started_s = ended_s if started_s is None else started_s
        for row, token in step.ids.items():
            outputs[int(row)].append(token)
    return _written(outputs, 0.0 if started_s is None or ended_s is None else ended_s - started_s)


def speculative(
    session: Session, device: Device, batch: Sequence[Prompt], drafts: Drafts, limits: tuple[int, int]
) -> tuple[Written, Counters]:
    """Greedy decoding with drafts. ``limits``: most drafted tokens of a step, and tokens of an output."""
    draft_tokens, output_tokens = limits
    contexts = [one.tokens for one in batch]
    trail = session.follow(contexts)
    outputs = [[token] for token in trail.first]
    counters = Counters(places=draft_tokens)
    device.synchronize()
    started_s = device.now_s()
    drafts.begin(contexts)
    try:
        running = list(range(len(batch)))
        while running := _going(running, outputs, output_tokens, session, (trail.keep, drafts.keep)):
            most = [min(draft_tokens, output_tokens - len(outputs[row]) - 1) for row in running]
            proposed = drafts.propose([outputs[row] for row in running], most)
            said = trail.read([[outputs[row][-1], *draft] for row, draft in zip(running, proposed, strict=True)])
            accepted = [_accepted(draft, row) for draft, row in zip(proposed, said, strict=True)]
            trail.take_back([len(draft) - count for draft, count in zip(proposed, accepted, strict=True)])
            for row, draft, own, count in zip(running, proposed, said, accepted, strict=True):
                emitted = _up_to_end([*draft[:count], own[count]], session.tokenizer.eos_ids)
                outputs[row].extend(emitted)
                counters.step(len(draft), len(emitted) - 1)
        device.synchronize()
        return _written(outputs, device.now_s() - started_s), counters
    finally:
        drafts.close()
        trail.close()


def _going(
    running: list[int], outputs: Sequence[list[int]], output_tokens: int, session: Session, keep: Sequence[Callable[[Sequence[int]], None]]
) -> list[int]:
    """The rows that have not ended; the others leave."""
    ended = [len(outputs[row]) >= output_tokens or outputs[row][-1] in session.tokenizer.eos_ids for row in running]
    places = [place for place, over in enumerate(ended) if not over]
    if places and len(places) < len(running):
        for each in keep:
            each(places)
    return [running[place] for place in places]


def _accepted(draft: Sequence[int], said: Sequence[int]) -> int:
    """How many drafted tokens are what the target says, from the first one on."""
    return next((at for at, (ours, theirs) in enumerate(zip(draft, said, strict=False)) if ours != theirs), len(draft))


def _up_to_end(tokens: list[int], eos_ids: Sequence[int]) -> list[int]:
    """A drafted end of sequence that was accepted is the target's own last token: what was drafted behind it goes to nobody."""
    end = next((at for at, token in enumerate(tokens) if token in eos_ids), None)
    return tokens if end is None else tokens[: end + 1]


def _written(outputs: Sequence[Sequence[int]], seconds: float) -> Written:
    tokens = sum(max(0, len(one) - 1) for one in outputs)
    return Written(outputs=tuple(tuple(one) for one in outputs), time=DecodeTime(seconds=seconds, tokens=tokens))


# ---------------------------------------------------------------------------------------------- all of it


def measure(session: Session, device: Device, job: Job, drafts: Drafts, progress: Progress) -> tuple[SpeculationPass, ...]:
    """A pass for each batch size and number of drafted tokens, plain and speculative decoding batch by batch in turn."""
    found: list[SpeculationPass] = []
    for batch_size in job.batch_sizes:
        found += _Sweep(session, device, job, drafts, batch_size).run(progress)
    return tuple(found)


class _Sweep:
    """All numbers of drafted tokens at one batch size."""

    def __init__(self, session: Session, device: Device, job: Job, drafts: Drafts, batch_size: int) -> None:
        self._session, self._device, self._job, self._drafts = session, device, job, drafts
        self._batch_size = batch_size
        self._counters: dict[int, Counters] = {count: Counters(places=count) for count in job.draft_tokens}
        self._partings: dict[int, dict[str, Parting]] = {count: {} for count in job.draft_tokens}
        self._times: dict[int, list[DecodeTime]] = {count: [] for count in (0, *job.draft_tokens)}

    def run(self, progress: Progress) -> Iterator[SpeculationPass]:
        batches = list(_batches(self._job.prompts, self._batch_size))
        self._warm_up(batches[0])
        total = self._job.repeats * len(batches)
        for repeat in range(self._job.repeats):
            times: dict[int, list[DecodeTime]] = {count: [] for count in self._times}
            for index, batch in enumerate(batches):
                progress(repeat * len(batches) + index, total, f"speculating at batch {self._batch_size}")
                self._batch(batch, repeat, times)
            for count, parts in times.items():
                seconds, tokens = sum(one.seconds for one in parts), sum(one.tokens for one in parts)
                self._times[count].append(DecodeTime(seconds=seconds, tokens=tokens))
        progress(total, total, f"speculating at batch {self._batch_size}")
        return (self._pass(count) for count in self._job.draft_tokens)

    def _warm_up(self, batch: Sequence[Prompt]) -> None:
        tokens = min(WARMUP_TOKENS, self._job.output_tokens)
        plain(self._session, self._device, batch, tokens)
        for count in self._job.draft_tokens:
            speculative(self._session, self._device, batch, self._drafts, (count, tokens))

    def _batch(self, batch: Sequence[Prompt], repeat: int, times: dict[int, list[DecodeTime]]) -> None:
        """Plain first in even repeats and last in odd ones, so that a machine that drifts favours neither."""
        order = [0, *self._job.draft_tokens]
        written: dict[int, Written] = {}
        for count in order if repeat % 2 == 0 else order[::-1]:
            if count == 0:
                written[0] = plain(self._session, self._device, batch, self._job.output_tokens)
            else:
                limits = (count, self._job.output_tokens)
                written[count], counters = speculative(self._session, self._device, batch, self._drafts, limits)
                if repeat == 0:
                    self._add(count, counters)
            times[count].append(written[count].time)
        for count in self._job.draft_tokens:
            self._compare(count, batch, written[0].outputs, written[count].outputs)

    def _add(self, count: int, other: Counters) -> None:
        known = self._counters[count]
        known.steps += other.steps
        known.emitted += other.emitted
        for place in range(count):
            known.drafted_at[place] += other.drafted_at[place]
            known.accepted_at[place] += other.accepted_at[place]

    def _compare(self, count: int, batch: Sequence[Prompt], ours: Sequence[Tokens], theirs: Sequence[Tokens]) -> None:
        for prompt, one, other in zip(batch, ours, theirs, strict=True):
            if one != other and prompt.name not in self._partings[count]:
                self._partings[count][prompt.name] = parting(self._session, prompt, (one, other), count)

    def _pass(self, count: int) -> SpeculationPass:
        known = self._counters[count]
        return SpeculationPass(
            draft_tokens=count,
            batch_size=self._batch_size,
            steps=known.steps,
            drafted=sum(known.drafted_at),
            accepted=sum(known.accepted_at),
            emitted=known.emitted,
            drafted_at=tuple(known.drafted_at),
            accepted_at=tuple(known.accepted_at),
            compared=len(self._job.prompts),
            partings=tuple(self._partings[count].values()),
            plain=tuple(self._times[0]),
            speculative=tuple(self._times[count]),
        )


def _batches(prompts: Sequence[Prompt], size: int) -> Iterator[list[Prompt]]:
    """Every prompt, in batches of the full size: the last one is filled up from the start."""
    for start in range(0, len(prompts), size):
        yield [prompts[place % len(prompts)] for place in range(start, start + size)]


# ---------------------------------------------------------------------------------------------- where outputs part


def parting(session: Session, prompt: Prompt, outputs: tuple[Tokens, Tokens], draft_tokens: int) -> Parting:
    """Where a plain and a speculative output part, with the lead of the likeliest token there and what the order of reading moves."""
    one, other = outputs
    at = next((place for place, (ours, theirs) in enumerate(zip(one, other, strict=False)) if ours != theirs), min(map(len, outputs)))
    if not at:
        return Parting(prompt=prompt.name, at=at, margin=None, noise=None)
    tokens = (*prompt.tokens, *one[:at])
    together = min(draft_tokens + 1, at)
    singly = _logits(session, tokens, [1] * together)
    # As the last of the tokens read together, and as the first of them with drafts behind it.
    others = [_logits(session, tokens, [together]), _logits(session, tokens, [1], behind=draft_tokens)]
    second, first = np.partition(singly, -2)[-2:]
    noise = max(float(np.abs(singly - one).max()) for one in others)
    return Parting(prompt=prompt.name, at=at, margin=float(first - second), noise=noise)


def _logits(session: Session, tokens: Tokens, parts: Sequence[int], behind: int = 0) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """Logits after all tokens, the last ones read in parts, the very last with ``behind`` tokens that it does not see."""
    start = len(tokens) - sum(parts)
    trail = session.follow([tokens[:start]])
    try:
        for length in parts:
            trail.read([[*tokens[start : start + length], *[tokens[-1]] * behind]])
            start += length
        found: np.ndarray[tuple[int], np.dtype[np.float32]] = trail.last_logits()[0, -1 - behind]
        return found
    finally:
        trail.close()
