"""Time generation. The caller synchronises and reads the clock; engines never time themselves, so one clock serves all.

Lengths are fixed: end of sequence is suppressed and the produced tokens are counted from ids, so that a run that stopped early shows.
Warm-ups are separate generations, marked as such and never averaged in. Every step's arrival time is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from quantgate.errors import OutOfMemory
from quantgate.ports import Device, Progress, Session
from quantgate.records import Generation, Request, Step, Timed, TimedOutcome, Workload

WARMUP_TOKENS = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One timed generation of a batch, after ``warmups`` short ones."""

    workload: Workload
    batch_size: int
    warmups: int
    seed: int
    limit_s: float | None = None
    """By the device's clock, warm-ups included; a generation that runs past it is given up. None: no limit."""


class OutOfTime(Exception):
    """A generation that ran past its limit."""


def time_batch(session: Session, device: Device, job: Job, progress: Progress) -> Timed:
    """Warm-ups and one timed generation, or why there is none. An out-of-memory is an answer and no error: its memory is given back."""
    progress(0, 1, f"timing batch {job.batch_size}")
    outcome: TimedOutcome = "timed"
    done: tuple[Generation, ...] = ()
    why_not, started_s = "", device.now_s()
    try:
        done = tuple(_generations(session, device, job))
    except OutOfMemory as error:
        outcome, why_not = "out of memory", str(error)
    except OutOfTime:
        outcome = "out of time"
    if outcome != "timed":
        device.release()
    progress(1, 1, f"timing batch {job.batch_size}")
    return Timed(generations=done, outcome=outcome, seconds=device.now_s() - started_s, why_not=why_not)


def _generations(session: Session, device: Device, job: Job) -> Iterator[Generation]:
    until_s = None if job.limit_s is None else device.now_s() + job.limit_s
    requests = fixed_requests(session, job.workload, job.batch_size, job.seed)
    short = fixed_requests(session, job.workload, job.batch_size, job.seed, output_tokens=WARMUP_TOKENS)
    for warmup in (True,) * job.warmups + (False,):
        found = timed(session, device, short if warmup else requests, warmup=warmup, until_s=until_s)
        yield replace(found, workload=job.workload.name)


def timed(
    session: Session, device: Device, requests: Sequence[Request], *, warmup: bool = False, until_s: float | None = None
) -> Generation:
    """One batch, timed step by step; tokens are counted after the clock has stopped. Raises ``OutOfTime`` behind ``until_s``."""
    arrivals: list[float] = []
    steps: list[Step] = []
    device.synchronize()
    started_s = device.now_s()
    for step in session.generate(requests):
        device.synchronize()
        arrivals.append(device.now_s() - started_s)
        steps.append(step)
        if until_s is not None and started_s + arrivals[-1] > until_s:
            raise OutOfTime
    return Generation(
        batch_size=len(requests),
        prompt_tokens=len(requests[0].tokens),
        output_tokens=requests[0].max_new_tokens,
        produced_tokens=produced_tokens(steps, session.tokenizer.eos_ids),
        step_s=tuple(arrivals),
        warmup=warmup,
    )


def produced_tokens(steps: Iterable[Step], eos_ids: Sequence[int]) -> int:
    """Tokens of all rows up to and including each row's first end of sequence; what a batch pads behind it is nobody's output."""
    ended: set[str] = set()
    produced = 0
    for step in steps:
        running = [row for row in step.ids if row not in ended]
        produced += len(running)
        ended.update(row for row in running if step.ids[row] in eos_ids)
    return produced


def fixed_requests(
    session: Session, workload: Workload, batch_size: int, seed: int, *, output_tokens: int | None = None
) -> list[Request]:
    """Requests of the workload's lengths, or of fewer ``output_tokens``.

    Prompts are ids drawn from ``seed``: timing does not depend on their meaning.
    """
    rng = Random(seed)
    special = {session.tokenizer.bos_id, *session.tokenizer.eos_ids}
    wanted = workload.output_tokens if output_tokens is None else min(output_tokens, workload.output_tokens)
    ordinary = [token for token in range(session.tokenizer.vocabulary_size) if token not in special]
    return [
        Request(
            request_id=str(row),
            tokens=tuple(rng.choices(ordinary, k=workload.prompt_tokens)),
            max_new_tokens=wanted,
            min_new_tokens=wanted,
        )
        for row in range(batch_size)
    ]
