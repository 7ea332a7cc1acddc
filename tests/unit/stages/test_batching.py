"""Serving in static batches and continuously: lengths, times, steps and ids, with a clock that only the engine moves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from quantgate.devices.fake import FakeDevice
from quantgate.errors import ConfigError
from quantgate.records import Arrivals, AskedRequest, BatchingConfig, BatchingEngine, DeviceConfig, Request, Step
from quantgate.stages import batching
from sessions import EOS, Scripted, device, quiet
from streams import generation, job, request, run, stream

LENGTHS = (2, 10, 3, 4, 9, 1, 2, 5)


def test_static_batches_run_until_their_longest_ends() -> None:
    """Batches of 4 of these lengths take 10 and 9 steps: 36 useful tokens of 4 x 19 places, and the second batch waits for the first."""
    clock = device()
    found = batching.in_batches(Scripted(generation(clock)), clock, job(LENGTHS, rows=4), quiet)
    assert [one.produced_tokens for one in found.requests] == list(LENGTHS)
    assert (found.steps, found.useful_tokens, found.preemptions) == (19, 36, 0)
    assert found.utilisation == pytest.approx(36 / 76)
    assert found.useful_tokens_per_s == pytest.approx(36 / 19)
    assert [one.started_s for one in found.requests] == [0.0] * 4 + [10.0] * 4
    assert [one.queued_s for one in found.requests] == [0.0] * 4 + [10.0] * 4
    assert found.requests[0].token_s == (1.0, 2.0)
    assert found.requests[4].ttft_s == 11.0


def test_continuous_rows_are_filled_as_they_end() -> None:
    """Through 4 rows that are refilled the same requests take 11 steps: utilisation rises from 0.47 to 0.82, and nobody waits 10 steps."""
    clock = device()
    found = batching.served(stream(clock, rows=4), clock, job(LENGTHS, rows=4, mode="continuous"), quiet)
    assert [one.produced_tokens for one in found.requests] == list(LENGTHS)
    assert found.steps == 11
    assert found.utilisation == pytest.approx(36 / 44)
    assert found.whole
    assert max(one.queued_s or 0.0 for one in found.requests) < 10.0


def test_a_serving_engine_can_be_held_to_static_batches() -> None:
    """The next batch is handed over when the one before has ended, whatever the engine could do: as many steps as with our own."""
    clock = device()
    found = batching.served(stream(clock, rows=4), clock, job(LENGTHS, rows=4), quiet)
    assert (found.steps, found.useful_tokens) == (19, 36)
    assert found.whole
    assert len({one.started_s for one in found.requests}) == 2


def test_one_engine_serves_run_after_run() -> None:
    """Names of earlier runs and of warm-ups do not get in the way, and counters are those of the run."""
    clock = device()
    engine = stream(clock, rows=4)
    asked = job(LENGTHS, rows=4, mode="continuous")
    first, second = (batching.served(engine, clock, replace(asked, repeat=repeat), quiet) for repeat in (0, 1))
    assert first.steps == second.steps == 11
    assert [one.ids for one in first.requests] == [one.ids for one in second.requests]


@pytest.mark.parametrize("mode", ["static", "continuous"])
def test_requests_that_come_later_are_served_later(mode: Any) -> None:
    """Nobody is served before it arrives; the clock runs on while nothing is there to serve."""
    clock = device()
    late = job((2, 2, 2), rows=2, mode=mode, arrives_s=(50.0, 0.0, 0.5), arrivals=Arrivals(kind="given"))
    found = batching.served(stream(clock, rows=2), clock, late, quiet)
    assert [one.arrived_s for one in found.requests] == [50.0, 0.0, 0.5]
    assert all((one.started_s or 0.0) >= one.arrived_s for one in found.requests)
    assert found.requests[0].token_s[0] > 50.0
    assert (found.requests[0].queued_s or 0.0) < 1.0
    assert found.requests[1].token_s[-1] < 10.0
    assert found.whole


def test_a_static_batch_takes_who_is_there_and_waits_for_nobody_else() -> None:
    """With one request there the batch is that one; those that came meanwhile share the next."""
    clock = device()
    late = job((4, 4, 4), rows=4, arrives_s=(0.0, 1.0, 2.0), arrivals=Arrivals(kind="given"))
    found = batching.in_batches(Scripted(generation(clock)), clock, late, quiet)
    assert [one.started_s for one in found.requests] == [0.0, 4.0, 4.0]


def test_alone_each_request_waits_for_nobody() -> None:
    """One row, one after the other; the time to the first token is that of the prefill."""
    clock = device()
    found = batching.in_batches(Scripted(generation(clock)), clock, job((3, 2), rows=1, mode="alone"), quiet)
    assert [one.ttft_s for one in found.requests] == [1.0, 1.0]
    assert found.steps == 5


@pytest.mark.parametrize("mode", ["static", "continuous"])
def test_a_run_past_its_time_cap_is_ended_and_says_so(mode: Any) -> None:
    """What was served by then stays in the record; the run has no figures."""
    clock = device()
    found = batching.served(stream(clock, rows=2), clock, job((30, 30, 30), rows=2, mode=mode, time_cap_s=5.0), quiet)
    assert found.why_not == "it was ended after the time cap of 5 s; raise levers.batching.time_cap or ask for less"
    assert len(found.requests) == 3
    assert found.requests[0].produced_tokens > 0
    assert (found.useful_tokens_per_s, found.utilisation) == (None, None)


@pytest.mark.parametrize("mode", ["static", "continuous"])
def test_a_cap_that_is_passed_with_the_last_token_ends_nothing(mode: Any) -> None:
    """All was served: the run is whole."""
    clock = device()
    found = batching.served(stream(clock, rows=2), clock, job((3, 3), rows=2, mode=mode, time_cap_s=3.1), quiet)
    assert found.whole
    assert (found.wall_s or 0.0) > 3.1


def test_rows_that_end_early_are_counted_by_their_ids() -> None:
    """A batch that stops at 2 tokens leaves a run that is not whole and has no figures."""
    clock = device()
    found = batching.in_batches(Scripted(generation(clock, stop_at=2)), clock, job((2, 5), rows=2), quiet)
    assert [one.produced_tokens for one in found.requests] == [2, 2]
    assert not found.whole
    assert found.useful_tokens_per_s is None


def test_a_stream_that_cuts_or_overfills_is_not_whole() -> None:
    """One token short at the end of a request: seen from the ids."""
    clock = device()
    found = batching.served(stream(clock, rows=2, fault="cuts"), clock, job((3, 4), rows=2, mode="continuous"), quiet)
    assert [one.produced_tokens for one in found.requests] == [3, 3]
    assert not found.whole


class Asynchronous(FakeDevice):
    """Work that was submitted takes its time at the barrier only."""

    def __init__(self) -> None:
        super().__init__(DeviceConfig(kind="fake"))
        self.pending_s = 0.0

    def synchronize(self) -> None:
        self.advance(self.pending_s)
        self.pending_s = 0.0


def test_times_are_read_behind_the_barrier() -> None:
    """Steps that return at once and are done after 40 ms: tokens are 40 ms apart."""
    gpu = Asynchronous()

    def generate(requests: Sequence[Request]) -> Iterator[Step]:
        for _ in range(requests[0].max_new_tokens):
            gpu.pending_s += 0.04
            yield Step(ids={requests[0].request_id: 7})

    found = batching.in_batches(Scripted(generate), gpu, job((3,), rows=1), quiet)
    assert found.requests[0].token_s == pytest.approx((0.04, 0.08, 0.12))


# ---------------------------------------------------------------------------------------------- requests


def config(*requests: AskedRequest) -> BatchingConfig:
    """These requests, with a seed."""
    engines = (BatchingEngine(name="fake"),)
    return BatchingConfig(
        path=None, drawn=None, rows=2, engines=engines, arrivals=(Arrivals(),), variants=("float32",), seed=3, requests=requests
    )


def test_prompts_are_texts_or_ids_drawn_from_the_seed() -> None:
    """A text is encoded with its BOS; a length gives that many ordinary ids, the same ones each time; ends of sequence are suppressed."""
    asked = config(AskedRequest(prompt="abc", output_tokens=5), AskedRequest(prompt_tokens=50, output_tokens=2))
    first, again = (batching.requests_of(Scripted(), asked) for _ in range(2))
    assert first == again
    assert (first[0].tokens[0], len(first[0].tokens), first[0].max_new_tokens, first[0].min_new_tokens) == (1, 4, 5, 5)
    assert len(first[1].tokens) == 50
    assert not {1, 2} & set(first[1].tokens)
    settings = batching.settings_of(Scripted(), first, rows=2, device=DeviceConfig(threads=1))
    assert (settings.context_tokens, settings.prompt_tokens, settings.suppressed_ids) == (52, 50, (EOS,))


def test_a_request_longer_than_the_context_is_refused_by_name() -> None:
    """Which one, how long, and how much the model holds."""
    asked = config(AskedRequest(prompt="ab", output_tokens=5), AskedRequest(prompt_tokens=30, output_tokens=3))
    with pytest.raises(ConfigError, match=r"request r2 .* has 30 prompt and 3 output tokens, 33 together, and the model holds 32; shorten"):
        batching.requests_of(Scripted(context_tokens=32), asked)


# ---------------------------------------------------------------------------------------------- ids


class Weighing(Scripted):
    """A session that prefers id 7 to id 9 by half a nat after any context."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[int, ...]] = []

    def distributions(self, contexts: Sequence[tuple[int, ...]], *, every_position: bool = False) -> Iterator[Any]:
        self.asked += contexts
        logits = np.zeros((1, 20), dtype=np.float32)
        logits[0, 7] = 0.5
        yield logits


def test_ids_are_compared_with_those_of_each_request_alone() -> None:
    """A request whose second id is another one is noted with its place, and with how sure alone was of its own id there."""
    alone = run("alone")
    strayed = replace(run().requests[1], ids=(7, 9, 7))
    session = Weighing()
    served = run(requests=(run().requests[0], strayed), compared=False)
    found = batching.compared(session, [request(0, 2), request(1, 3)], alone, served)
    assert found.compared
    (one,) = found.differences
    assert (one.request_id, one.token, one.margin_nats) == ("r2", 2, 0.5)
    assert session.asked == [(10, 11, 12, 13, 7)]


def test_equal_ids_are_compared_and_ask_nothing() -> None:
    """Nothing differs and no forward is spent."""
    session = Weighing()
    found = batching.compared(session, [request(0, 2), request(1, 3)], run("alone"), replace(run(), compared=False))
    assert (found.compared, found.differences, session.asked) == (True, (), [])


def test_a_run_without_figures_is_not_compared() -> None:
    """Neither one that did not run, nor against requests alone that did not."""
    lost = replace(run(), why_not="not run: no engine", compared=False)
    assert not batching.compared(Weighing(), [], run("alone"), lost).compared
    assert not batching.compared(Weighing(), [], replace(run("alone"), why_not="time"), replace(run(), compared=False)).compared
