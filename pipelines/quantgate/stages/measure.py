"""Time generation. The caller synchronises and reads the clock; engines never time themselves, so one clock serves all.

Lengths are fixed: end of sequence is suppressed and the produced tokens are counted from ids, so that a run that stopped early shows.
Warm-ups are separate generations, marked as such and never averaged in. Every step's arrival time is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

from quantgate.ports import Device, Progress, Session
from quantgate.records import Generation, Request, Step, Workload

WARMUP_TOKENS = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One block: a generation at each batch size, after ``warmups`` short ones each."""

    workload: Workload
    batch_sizes: tuple[int, ...]
    warmups: int
    seed: int


def block(session: Session, device: Device, job: Job, progress: Progress) -> tuple[Generation, ...]:
    """Timed generations, warm-ups first at each batch size, in the order of ``batch_sizes``."""
    done: list[Generation] = []
    for index, batch_size in enumerate(job.batch_sizes):
        progress(index, len(job.batch_sizes), f"timing batch {batch_size}")
        requests = fixed_requests(session, job.workload, batch_size, job.seed)
        short = fixed_requests(session, job.workload, batch_size, job.seed, output_tokens=WARMUP_TOKENS)
        done += [timed(session, device, short, warmup=True) for _ in range(job.warmups)]
        done.append(timed(session, device, requests))
    progress(len(job.batch_sizes), len(job.batch_sizes), "timing")
    return tuple(done)


def timed(session: Session, device: Device, requests: Sequence[Request], *, warmup: bool = False) -> Generation:
    """One batch, timed step by step. Tokens are counted after the clock has stopped."""
    arrivals: list[float] = []
    steps: list[Step] = []
    device.synchronize()
    started_s = device.now_s()
    for step in session.generate(requests):
        device.synchronize()
        arrivals.append(device.now_s() - started_s)
        steps.append(step)
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
