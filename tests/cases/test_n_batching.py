"""Public bug reports, part N: continuous batching."""

from __future__ import annotations

import pytest

from quantgate.records import Request
from quantgate.stages import batching
from sessions import Scripted, device, quiet
from streams import generation, job, stream

FORTY = {"kv_tokens": 100, "block_tokens": 10}
"""A cache of 100 tokens in blocks of 10."""


def _requests() -> tuple[Request, ...]:
    """Three requests that need 40 tokens each: 10 of prompt, 30 of output."""
    tokens = tuple(range(10))
    return tuple(Request(request_id=f"r{n}", tokens=tokens, max_new_tokens=30, min_new_tokens=30) for n in (1, 2, 3))


@pytest.mark.parametrize(("admit", "preemptions"), [("whole", False), ("prompt", True)])
def test_b123_two_run_and_one_waits_or_gives_way(admit: str, preemptions: bool) -> None:
    """Every request ends with its length and the ids it has alone; giving way, waiting and computing again are told; tokens count once."""
    clock = device()
    asked = job((30,) * 3, rows=3, mode="continuous", requests=_requests())
    alone = batching.in_batches(
        Scripted(generation(clock)), clock, job((30,) * 3, rows=1, mode="alone", requests=_requests()), quiet
    )
    found = batching.served(stream(clock, rows=3, admit=admit, **FORTY), clock, asked, quiet)
    assert [one.produced_tokens for one in found.requests] == [30, 30, 30]
    assert {len(one.ids) for one in alone.requests} == {30}
    assert found.useful_tokens == 90
    assert bool(found.preemptions) == preemptions
    assert bool(found.recomputed_tokens) == preemptions
    assert found.useful_tokens_per_s == pytest.approx(90 / (found.wall_s or 0))
    if not preemptions:
        queued = [one.queued_s for one in found.requests]
        assert queued[:2] == [0.0, 0.0]
        assert (queued[2] or 0.0) > 29.0
        assert found.steps == 60


def test_b123_a_request_that_gave_way_is_computed_again() -> None:
    """The third gives way when the cache is full and is computed again with what it had written: more than its prompt."""
    clock = device()
    found = batching.served(
        stream(clock, rows=3, admit="prompt", **FORTY), clock, job((30,) * 3, rows=3, mode="continuous", requests=_requests()), quiet
    )
    assert (found.preemptions, (found.recomputed_tokens or 0) > 10) == (1, True)
    assert found.requests[2].token_s == tuple(sorted(found.requests[2].token_s))


@pytest.mark.parametrize("mode", ["static", "continuous"])
def test_b38_useful_tokens_a_second_are_end_to_end(mode: str) -> None:
    """Prefill and waiting are part of the wall: 190 tokens in 4.409816 s are 43.09 a second."""
    clock = device()
    step_s = 4.409816 / 190
    served = batching.in_batches(
        Scripted(generation(clock, step_s=step_s)), clock, job((190,), rows=1, mode=mode), quiet  # type: ignore[arg-type]
    )
    assert served.useful_tokens_per_s == pytest.approx(43.09, abs=0.005)
