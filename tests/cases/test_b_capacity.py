"""Public bug reports, part B: maximum batch and out-of-memory probing."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator, Sequence

import pytest

from quantgate.errors import OutOfMemory
from quantgate.kvcache import kv_bytes_per_row
from quantgate.records import ChoiceLogProbs, LayerShape, ModelShape, Request, Step, Workload
from quantgate.stages import capacity
from quantgate.stages.capacity import Job, predict
from sessions import Memory, Scripted, device, full_rows, quiet

WORK = Workload(prompt_tokens=8, output_tokens=4, max_batch=64, fill_repeats=3)
JOB = Job(workload=WORK, budget_bytes=10**6, base_bytes=0, seed=1)


class Tensor:
    """Something that stays in memory for as long as somebody holds it."""


def test_b11_a_failed_fill_leaves_nothing_alive() -> None:
    """A fill allocates, fails above 8 rows, and fails too if anything of an earlier fill is alive: the ceiling is still 8."""
    alive: list[weakref.ref[Tensor]] = []
    gc.disable()

    def generate(requests: Sequence[Request]) -> Iterator[Step]:
        if any(one() is not None for one in alive):
            raise OutOfMemory("an earlier fill is still alive")
        mine = Tensor()
        alive.append(weakref.ref(mine))
        if len(requests) > 8:
            raise OutOfMemory("no more")
        yield from full_rows(requests)
        assert mine is not None

    try:
        found = capacity.find(Scripted(generate), device(), JOB, quiet)
    finally:
        gc.enable()
    assert (found.confirmed, found.limited_by) == (8, "memory")


def test_b11_a_probe_that_always_fails_ends() -> None:
    """Not even batch 1: zero, the reason, the attempts on record, no endless loop."""
    memory = Memory(device(), row_bytes=1, refuse=lambda batch: True)
    found = capacity.find(memory.session(), memory.device, JOB, quiet)
    assert (found.confirmed, found.why_not) == (0, "not even one request fits into the budget")
    assert len(found.probes) == len(memory.asked) <= 3


def test_b10_an_error_that_is_not_about_memory_propagates() -> None:
    """A shape mismatch is never "max batch = 0"."""

    def broken(requests: Sequence[Request]) -> Iterator[Step]:
        raise RuntimeError("shape mismatch")

    with pytest.raises(RuntimeError, match="shape mismatch"):
        capacity.find(Scripted(broken), device(), JOB, quiet)


def test_b13_the_ceiling_is_that_of_the_real_lengths() -> None:
    """32 layers, 8 KV heads of 128, bf16, 200 + 64 tokens in 20 GiB: 34,603,008 bytes a row and 620 rows; 1 at the model's maximum."""
    layers = (LayerShape(kind="full", kv_heads=8, key_width=128, value_width=128),) * 32
    shape = ModelShape(layers=layers, hidden=4096, vocabulary=1, tied=False, context_tokens=131_072)
    row = kv_bytes_per_row(shape, 200 + 64, 2)
    assert (row, predict(20 * 2**30, 0, row)) == (34_603_008, 620)
    assert predict(20 * 2**30, 0, kv_bytes_per_row(shape, 131_072, 2)) == 1


def test_b15_scoring_and_generation_have_a_ceiling_each() -> None:
    """Scoring runs out of memory at 16 rows, generation at 64: 15 and 63, never one number for both."""

    def score(contexts: Sequence[object], continuations: object) -> Iterator[ChoiceLogProbs]:
        if len(contexts) >= 16:
            raise OutOfMemory("scoring")
        yield from (ChoiceLogProbs(index=index, totals=(-1.0,)) for index in range(len(contexts)))

    memory = Memory(device(), row_bytes=1, refuse=lambda batch: batch >= 64)
    session = Scripted(memory.generate, logprobs=score)
    work = Workload(prompt_tokens=8, output_tokens=4, max_batch=256)
    job = Job(workload=work, budget_bytes=10**6, base_bytes=0, seed=1, scoring=True)
    found = capacity.find(session, memory.device, job, quiet)
    assert found.scoring is not None
    assert (found.scoring.confirmed, found.confirmed) == (15, 63)


def test_b15_the_search_has_a_wall_clock_cap() -> None:
    """A search past its time ends and keeps what it has, as a lower limit."""
    memory = Memory(device(), row_bytes=1)
    work = Workload(prompt_tokens=8, output_tokens=4, max_batch=4096, fill_budget_s=20.0)
    job = Job(workload=work, budget_bytes=10_000, base_bytes=0, seed=1)
    found = capacity.find(memory.session(), memory.device, job, quiet)
    assert found.limited_by == "time" and found.confirmed
    assert sum(one.outcome == "fits" and one.batch_size == found.confirmed for one in found.probes) == WORK.fill_repeats
