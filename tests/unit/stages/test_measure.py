from __future__ import annotations

from collections.abc import Iterator, Sequence

from quantgate.records import Request, Step, Workload
from quantgate.stages.measure import Job, block, fixed_requests, produced_tokens, timed
from sessions import BOS, EOS, Scripted, device, full_rows, quiet


def test_requests_have_exactly_the_workloads_lengths() -> None:
    """Prompt and output lengths are fixed, end of sequence suppressed, no special id in a prompt, the same ids for the same seed."""
    session, work = Scripted(), Workload(prompt_tokens=9, output_tokens=5)
    made = fixed_requests(session, work, 3, seed=1)
    assert [(len(one.tokens), one.max_new_tokens, one.min_new_tokens) for one in made] == [(9, 5, 5)] * 3
    assert not {BOS, EOS} & {token for one in made for token in one.tokens}
    assert made == fixed_requests(session, work, 3, seed=1) != fixed_requests(session, work, 3, seed=2)
    assert len({one.request_id for one in made}) == 3
    assert fixed_requests(session, work, 1, seed=1, output_tokens=8)[0].max_new_tokens == 5


def test_a_block_is_warm_ups_then_one_generation_at_each_batch_size() -> None:
    """Warm-ups are short, marked and kept apart."""
    work = Workload(prompt_tokens=4, output_tokens=20)
    done = block(Scripted(full_rows), device(), Job(workload=work, batch_sizes=(1, 4), warmups=2, seed=1), quiet)
    assert [(one.batch_size, one.output_tokens, one.warmup) for one in done] == [
        (1, 8, True), (1, 8, True), (1, 20, False), (4, 8, True), (4, 8, True), (4, 20, False),
    ]  # fmt: skip
    assert [one.produced_tokens for one in done] == [8, 8, 20, 32, 32, 80]


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
