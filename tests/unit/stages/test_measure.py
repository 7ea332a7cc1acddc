from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from quantgate.records import Generation, Request, SpeedRun, Step, Workload
from quantgate.stages.measure import Job, fixed_requests, produced_tokens, time_batch, timed
from sessions import BOS, EOS, Memory, Scripted, device, full_rows, quiet


def test_requests_have_exactly_the_workloads_lengths() -> None:
    """Prompt and output lengths are fixed, end of sequence suppressed, no special id in a prompt, the same ids for the same seed."""
    session, work = Scripted(), Workload(prompt_tokens=9, output_tokens=5)
    made = fixed_requests(session, work, 3, seed=1)
    assert [(len(one.tokens), one.max_new_tokens, one.min_new_tokens) for one in made] == [(9, 5, 5)] * 3
    assert not {BOS, EOS} & {token for one in made for token in one.tokens}
    assert made == fixed_requests(session, work, 3, seed=1) != fixed_requests(session, work, 3, seed=2)
    assert len({one.request_id for one in made}) == 3
    assert fixed_requests(session, work, 1, seed=1, output_tokens=8)[0].max_new_tokens == 5


def test_warm_ups_come_first_and_are_kept_apart() -> None:
    """Warm-ups are short and marked; the seconds are the device's, warm-ups included."""
    work, clock = Workload(prompt_tokens=4, output_tokens=20, name="chat"), device()

    def slow(requests: Sequence[Request]) -> Iterator[Step]:
        clock.advance(1.0)
        yield from full_rows(requests)

    done = time_batch(Scripted(slow), clock, Job(workload=work, batch_size=4, warmups=2, seed=1), quiet)
    assert [(one.batch_size, one.output_tokens, one.warmup, one.workload) for one in done.generations] == [
        (4, 8, True, "chat"), (4, 8, True, "chat"), (4, 20, False, "chat"),
    ]  # fmt: skip
    assert [one.produced_tokens for one in done.generations] == [32, 32, 80]
    assert (done.outcome, done.seconds) == ("timed", 3.0)


def test_out_of_memory_is_an_answer() -> None:
    """The batch is told as out of memory with the backend's words, nothing of it is kept, and what was reserved is given back."""
    on = device()
    memory = Memory(on, row_bytes=1, refuse=lambda batch: batch > 2)
    job = Job(workload=Workload(prompt_tokens=2, output_tokens=4), batch_size=4, warmups=0, seed=1)
    found = time_batch(memory.session(), on, job, quiet)
    assert (found.outcome, found.why_not, found.generations, on.live_bytes()) == ("out of memory", "no more", (), 0)


def test_a_generation_is_given_up_at_the_end_of_its_time() -> None:
    """Ten steps of a second under a limit of three and a half: ended in the fourth; without a limit all are timed."""
    on = device()
    memory, work = Memory(on, row_bytes=1), Workload(prompt_tokens=2, output_tokens=10)
    short = time_batch(memory.session(), on, Job(workload=work, batch_size=1, warmups=0, seed=1, limit_s=3.5), quiet)
    assert (short.outcome, short.seconds, short.generations, on.live_bytes()) == ("out of time", 4.0, (), 0)
    whole = time_batch(memory.session(), on, Job(workload=work, batch_size=1, warmups=0, seed=1, limit_s=10.0), quiet)
    assert (whole.outcome, whole.seconds) == ("timed", 10.0)


def test_each_figure_has_its_own_formula() -> None:
    """Prefill, decode and end to end are three rates, and the waits between tokens are the differences of arrivals."""
    one = Generation(batch_size=2, prompt_tokens=100, output_tokens=4, produced_tokens=8, step_s=(0.5, 0.6, 0.8, 1.0))
    assert (one.ttft_s, one.tpot_s) == (0.5, pytest.approx(0.5 / 3))
    assert one.itl_s == pytest.approx((0.1, 0.2, 0.2))
    assert one.prefill_tokens_per_s == pytest.approx(400.0)
    assert one.output_tokens_per_s == pytest.approx(12.0)
    assert one.end_to_end_tokens_per_s == pytest.approx(8.0)
    assert one.why_no_speed is None


@pytest.mark.parametrize(
    ("times", "produced"),
    [((0.5, 0.6, 0.8), 6), ((0.5, 0.4, 0.8, 1.0), 8), ((0.0, 0.4, 0.8, 1.0), 8), ((), 8), ((0.5, float("nan"), 0.8, 1.0), 8)],
)
def test_what_is_no_speed(times: tuple[float, ...], produced: int) -> None:
    """A run that stopped early, or whose clock went back, stood still at the start, or was no number: no rate is taken from it."""
    one = Generation(batch_size=2, prompt_tokens=100, output_tokens=4, produced_tokens=produced, step_s=times)
    assert one.why_no_speed is not None
    assert SpeedRun(variant="x", generations=(one,)).rates(2) == []


def test_every_step_keeps_its_arrival() -> None:
    """Times are from the start to each step's arrival, and the clock is the device's."""
    clock = device()

    def slow(requests: Sequence[Request]) -> Iterator[Step]:
        for step in full_rows(requests):
            clock.advance(0.5)
            yield step

    one = timed(Scripted(slow), clock, fixed_requests(Scripted(), Workload(prompt_tokens=2, output_tokens=3), 2, 1))
    assert one.step_s == (0.5, 1.0, 1.5)
    assert (one.ttft_s, one.tpot_s, one.early_stop) == (0.5, 0.5, False)


def test_nothing_is_counted_behind_a_rows_first_end_of_sequence() -> None:
    """Padding that an engine writes after a row has ended is nobody's output."""
    steps = [
        Step(ids={"a": 5, "b": 5}),
        Step(ids={"a": EOS, "b": 5}),
        Step(ids={"a": EOS, "b": EOS}),
        Step(ids={"a": 7}),
    ]
    assert produced_tokens(steps, (EOS,)) == 5
