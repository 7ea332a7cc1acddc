"""Serve the same requests alone, in static batches, and continuously; the caller reads the clock, behind the device's barrier.

Static: up to ``rows`` of the requests that have arrived, in the order of their arrival, run until the longest of them ends; the next batch
begins then, with whoever is there. Nothing waits for a batch to fill. Continuous: a request is handed over when it arrives, and runs when
the engine has a row free. Lengths are those asked for and counted from ids. Warm-ups are apart and leave no trace in a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from quantgate.errors import ConfigError
from quantgate.ports import Device, Progress, Session, Stream
from quantgate.records import (
    Arrivals,
    AskedRequest,
    BatchingConfig,
    BatchingMode,
    BatchingRun,
    DeviceConfig,
    FirstDifference,
    GoldenItem,
    Request,
    Served,
    ServedRequest,
    Serving,
    ServingSettings,
)
from quantgate.workloads import request_id

WARMUP_TOKENS = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One run: the requests, when they come, and for how long at most."""

    variant: str
    engine: str
    mode: BatchingMode
    arrivals: Arrivals
    arrives_s: tuple[float, ...]
    requests: tuple[Request, ...]
    rows: int
    time_cap_s: float
    repeat: int = 0


@dataclass(slots=True)
class _Served:
    """A request under way."""

    request: Request
    arrived_s: float
    started_s: float | None
    ids: list[int]
    token_s: list[float]

    @property
    def record(self) -> ServedRequest:
        return ServedRequest(
            request_id=self.request.request_id,
            prompt_tokens=len(self.request.tokens),
            requested_tokens=self.request.max_new_tokens,
            arrived_s=self.arrived_s,
            started_s=self.started_s,
            ids=tuple(self.ids),
            token_s=tuple(self.token_s),
        )


class _Clock:
    """Seconds since the start of a run, read behind the barrier."""

    def __init__(self, device: Device) -> None:
        self._device = device
        device.synchronize()
        self._started_s = device.now_s()

    def now_s(self) -> float:
        self._device.synchronize()
        return self._device.now_s() - self._started_s

    def wait_until(self, moment_s: float) -> None:
        """Let time pass, where it has not passed already."""
        if (left_s := moment_s - self.now_s()) > 0:
            self._device.wait(left_s)


class _Overtime(Exception):
    """The cap was reached."""


# ---------------------------------------------------------------------------------------------- requests


def requests_of(session: Session, config: BatchingConfig) -> tuple[Request, ...]:
    """The workload as ids: texts inside the model's chat template where it has one, lengths as ids drawn from the seed.

    Raises ``ConfigError`` for a request that is longer than the model's context, naming it.
    """
    special = {session.tokenizer.bos_id, *session.tokenizer.eos_ids}
    ordinary = [token for token in range(session.tokenizer.vocabulary_size) if token not in special]
    made = tuple(_request(session, index, one, (ordinary, config.seed)) for index, one in enumerate(config.requests))
    longest = session.shape.context_tokens
    for one in made:
        needs = len(one.tokens) + one.max_new_tokens
        if longest is not None and needs > longest:
            what = f"{len(one.tokens)} prompt and {one.max_new_tokens} output tokens"
            raise ConfigError(
                f"request {one.request_id} of the batching workload has {what}, {needs} together, and the model holds {longest}; "
                "shorten or leave it out"
            )
    return made


def _request(session: Session, index: int, asked: AskedRequest, drawing: tuple[list[int], int]) -> Request:
    ordinary, seed = drawing
    name = request_id(index)
    if asked.prompt is None:
        tokens = tuple(Random(f"{seed} {name}").choices(ordinary, k=asked.prompt_tokens or 1))
    else:
        item = GoldenItem(item_id=name, slice="", prompt=asked.prompt, metric="")
        tokens = session.tokenizer.encode(session.tokenizer.render(item), add_bos=True)
    return Request(request_id=name, tokens=tokens, max_new_tokens=asked.output_tokens, min_new_tokens=asked.output_tokens)


def settings_of(session: Session, requests: Sequence[Request], rows: int, device: DeviceConfig) -> ServingSettings:
    """How an engine is opened that is to serve these requests."""
    return ServingSettings(
        rows=rows,
        context_tokens=max(len(one.tokens) + one.max_new_tokens for one in requests),
        prompt_tokens=max(len(one.tokens) for one in requests),
        suppressed_ids=session.tokenizer.eos_ids,
        threads=device.threads,
        dtype=device.dtype,
    )


# ---------------------------------------------------------------------------------------------- with our own engine


def in_batches(session: Session, device: Device, job: Job, progress: Progress) -> BatchingRun:
    """Static batches, or each request alone where the job's mode says so."""

    def run(batch: Sequence[Request]) -> Iterator[Served]:
        for step in session.generate(batch):
            yield Served(ids={name: (token,) for name, token in step.ids.items()})

    for _ in session.generate([_short(one) for one in job.requests[: job.rows]]):
        pass  # warm-up
    serving = Serving(dtype=session.loaded.dtype, library="")
    return replace(_in_batches(run, device, job, (serving, progress)), preemptions=0, recomputed_tokens=0)


def _in_batches(
    run: Callable[[Sequence[Request]], Iterator[Served]], device: Device, job: Job, rest: tuple[Serving, Progress]
) -> BatchingRun:
    serving, progress = rest
    clock = _Clock(device)
    waiting = _in_order(job)
    done: list[_Served] = []
    steps = 0
    try:
        while waiting:
            clock.wait_until(waiting[0].arrived_s)
            now_s = clock.now_s()
            batch = [one for one in waiting[: job.rows] if one.arrived_s <= now_s] or waiting[:1]
            waiting = waiting[len(batch) :]
            done += batch
            if job.mode == "alone":
                batch[0].arrived_s = now_s  # alone, it waits for nobody
            under_way = {one.request.request_id: one for one in batch}
            for served in _timed(run([one.request for one in batch]), under_way, clock, job):
                steps += bool(served.ids)
                progress(sum(len(one.ids) >= one.request.max_new_tokens for one in done), len(job.requests), job.mode)
    except _Overtime:
        unfinished = bool(waiting) or any(len(one.ids) < one.request.max_new_tokens for one in done)
        return _run(job, serving, [*done, *waiting], steps=steps, why_not=_overtime(job) if unfinished else None)
    return _run(job, serving, done, steps=steps)


def _timed(steps: Iterator[Served], under_way: Mapping[str, _Served], clock: _Clock, job: Job) -> Iterator[Served]:
    """The steps, each with its ids noted at the moment at which they had come."""
    began_s = clock.now_s()
    for served in steps:
        now_s = clock.now_s()
        _note(served, under_way, began_s, now_s)
        yield served
        if now_s > job.time_cap_s:
            raise _Overtime
        began_s = now_s


def _note(served: Served, under_way: Mapping[str, _Served], began_s: float, now_s: float) -> None:
    for name, ids in served.ids.items():
        one = under_way[name]
        if one.started_s is None and ids:
            one.started_s = max(began_s, one.arrived_s)
        one.ids += ids
        one.token_s += [now_s] * len(ids)


# ---------------------------------------------------------------------------------------------- with an engine that serves


def served(stream: Stream, device: Device, job: Job, progress: Progress) -> BatchingRun:
    """The same requests through an engine that serves: continuously, or in static batches where the job's mode says so."""
    _warm_up(stream, job)
    before = stream.counters()
    run = _in_static(stream, device, job, progress) if job.mode == "static" else _continuously(stream, device, job, progress)
    after = stream.counters()
    return replace(
        run,
        steps=_since(before.steps, after.steps),
        preemptions=_since(before.preemptions, after.preemptions),
        recomputed_tokens=_since(before.recomputed_tokens, after.recomputed_tokens),
    )


def _since(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before


def _warm_up(stream: Stream, job: Job) -> None:
    prefix = f"warm-up {job.mode} {job.arrivals.label} {job.repeat} "
    left = {f"{prefix}{one.request_id}" for one in job.requests[: job.rows]}
    for one in job.requests[: job.rows]:
        stream.submit(replace(_short(one), request_id=f"{prefix}{one.request_id}"))
    while left:
        left -= set(stream.step().ended)


def _in_static(stream: Stream, device: Device, job: Job, progress: Progress) -> BatchingRun:
    prefix = _prefix(job)

    def run(batch: Sequence[Request]) -> Iterator[Served]:
        left = {one.request_id for one in batch}
        for one in batch:
            stream.submit(replace(one, request_id=prefix + one.request_id))
        while left:
            found = _without(prefix, stream.step())
            left -= set(found.ended)
            yield found

    return _in_batches(run, device, job, (stream.serving, progress))


def _continuously(stream: Stream, device: Device, job: Job, progress: Progress) -> BatchingRun:
    prefix = _prefix(job)
    clock = _Clock(device)
    waiting, under_way = _in_order(job), dict[str, _Served]()
    every, left = list(waiting), set[str]()
    began_s = 0.0
    while waiting or left:
        if not left:
            clock.wait_until(waiting[0].arrived_s)
        began_s = clock.now_s()
        while waiting and (waiting[0].arrived_s <= began_s or not left):
            one = waiting.pop(0)
            name = one.request.request_id
            under_way[name] = one
            left.add(name)
            stream.submit(replace(one.request, request_id=prefix + name))
        found = _without(prefix, stream.step())
        now_s = clock.now_s()
        _note(found, under_way, began_s, now_s)
        left -= set(found.ended)
        progress(len(every) - len(waiting) - len(left), len(every), job.mode)
        if now_s > job.time_cap_s and (waiting or left):
            return _run(job, stream.serving, every, steps=None, why_not=_overtime(job))
    return _run(job, stream.serving, every, steps=None)


def _prefix(job: Job) -> str:
    """Names of one run's requests inside the engine, which may remember those of earlier runs."""
    return f"{job.mode} {job.arrivals.label} {job.repeat} "


def _without(prefix: str, found: Served) -> Served:
    """What a step gave to this run's requests, under their own names."""
    mine = {name.removeprefix(prefix): ids for name, ids in found.ids.items() if name.startswith(prefix)}
    return Served(ids=mine, ended=tuple(name.removeprefix(prefix) for name in found.ended if name.startswith(prefix)))


# ---------------------------------------------------------------------------------------------- what both share


def _in_order(job: Job) -> list[_Served]:
    """The requests in the order of their arrival; those that arrive together in the order of the workload."""
    pairs = sorted(zip(job.arrives_s, job.requests, strict=True), key=lambda pair: pair[0])
    return [_Served(request=request, arrived_s=at_s, started_s=None, ids=[], token_s=[]) for at_s, request in pairs]


def _short(request: Request) -> Request:
    tokens = min(WARMUP_TOKENS, request.max_new_tokens)
    return replace(request, max_new_tokens=tokens, min_new_tokens=tokens)


def _overtime(job: Job) -> str:
    return f"it was ended after the time cap of {job.time_cap_s:g} s; raise levers.batching.time_cap or ask for less"


def _run(job: Job, serving: Serving, done: Sequence[_Served], *, steps: int | None, why_not: str | None = None) -> BatchingRun:
    place = {one.request_id: index for index, one in enumerate(job.requests)}
    ordered = sorted(done, key=lambda one: place[one.request.request_id])
    return BatchingRun(
        variant=job.variant,
        engine=job.engine,
        mode=job.mode,
        arrivals=job.arrivals,
        rows=job.rows,
        requests=tuple(one.record for one in ordered),
        steps=steps,
        wall_s=max((one.token_s[-1] for one in done if one.token_s), default=None),
        repeat=job.repeat,
        dtype=serving.dtype,
        library=serving.library,
        why_not=why_not,
    )


# ---------------------------------------------------------------------------------------------- ids


def compared(session: Session, requests: Sequence[Request], alone: BatchingRun, run: BatchingRun) -> BatchingRun:
    """The run with the first id of each request that is not the one it gets alone, and how sure alone was of its own.

    ``session`` must be the one that served alone; one forward a difference.
    """
    if alone.why_not is not None or run.why_not is not None:
        return run
    expected = {one.request_id: one.ids for one in alone.requests}
    prompts = {one.request_id: one.tokens for one in requests}
    found = [
        _difference(session, one, prompts[one.request_id], expected[one.request_id])
        for one in run.requests
        if one.request_id in expected and one.ids[: one.requested_tokens] != expected[one.request_id]
    ]
    return replace(run, compared=True, differences=tuple(found))


def _difference(
    session: Session, one: ServedRequest, prompt: tuple[int, ...], expected: tuple[int, ...]
) -> FirstDifference:
    at = next((index for index, (ours, theirs) in enumerate(zip(expected, one.ids, strict=False)) if ours != theirs), None)
    if at is None:  # one ends where the other goes on: there is no other id to weigh
        return FirstDifference(request_id=one.request_id, token=min(len(expected), len(one.ids)) + 1, margin_nats=None)
    (row,) = [row for block in session.distributions([(*prompt, *expected[:at])]) for row in block]
    margin = float(row[expected[at]]) - float(row[one.ids[at]])
    return FirstDifference(request_id=one.request_id, token=at + 1, margin_nats=abs(margin))
