"""Rules at their thresholds: what lies on one side fires, on the other does not, and what is not known says so."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quantgate import limits
from quantgate.symptoms import Rule, State, Symptoms, Timing

CHEAP = (Timing(batch=8, step_s=0.020), Timing(batch=32, step_s=0.026))
AT = [
    (limits.memory_ran_out, Symptoms(out_of_memory=False, preemptions=9), "not known"),
    (limits.memory_ran_out, Symptoms(memory_total_bytes=100, memory_used_bytes=80, preemptions=9), "not known"),
    (limits.memory_ran_out, Symptoms(kv_pool_used_share=0.90, preemptions=1), "fired"),
    (limits.memory_ran_out, Symptoms(kv_pool_used_share=0.899, preemptions=0), "not fired"),
    (limits.memory_ran_out, Symptoms(kv_pool_used_share=0.95, preemptions=0, waiting_requests=0), "not fired"),
    (limits.memory_ran_out, Symptoms(out_of_memory=True), "fired"),
    (limits.memory_ran_out, Symptoms(out_of_memory=False, failed_batch=16), "not fired"),
    (limits.memory_ran_out, Symptoms(memory_total_bytes=100, memory_used_bytes=89), "not fired"),
    (limits.memory_ran_out, Symptoms(memory_total_bytes=100, memory_used_bytes=90), "not known"),
    (limits.compute_to_spare, Symptoms(compute_utilisation_share=0.60), "fired"),
    (limits.compute_to_spare, Symptoms(compute_utilisation_share=0.61), "not known"),
    (limits.compute_to_spare, Symptoms(compute_utilisation_share=0.85, mbu_share=0.2), "not fired"),
    (limits.compute_to_spare, Symptoms(compute_utilisation_share=0.99), "not known"),
    (limits.compute_to_spare, Symptoms(compute_utilisation_share=0.99, timings=CHEAP), "fired"),
    (limits.compute_to_spare, Symptoms(mfu_share=0.30, compute_utilisation_share=0.99), "fired"),
    (limits.compute_to_spare, Symptoms(mfu_share=0.50), "not fired"),
    (limits.rows_wasted, Symptoms(useful_tokens=69, row_steps=100), "fired"),
    (limits.rows_wasted, Symptoms(useful_tokens=70, row_steps=100), "not fired"),
    (limits.rows_wasted, Symptoms(useful_tokens=0, row_steps=100), "fired"),
    (limits.rows_wasted, Symptoms(useful_tokens=70), "not known"),
    (limits.device_idles, Symptoms(idle_share=0.15), "fired"),
    (limits.device_idles, Symptoms(idle_share=0.149), "not fired"),
    (limits.requests_wait, Symptoms(waiting_requests=0), "not fired"),
    (limits.requests_wait, Symptoms(finished_waiting=1), "fired"),
    (limits.requests_wait, Symptoms(finished_waiting=0), "not known"),
    (limits.few_rows, Symptoms(streams=4), "fired"),
    (limits.few_rows, Symptoms(streams=5), "not fired"),
    (limits.few_rows, Symptoms(streams=1, batch=8), "not fired"),
    (limits.few_rows, Symptoms(batch=1, waiting_requests=3), "not fired"),
    (limits.few_rows, Symptoms(batch=1, waiting_requests=0), "fired"),
    (limits.few_rows, Symptoms(batch=1), "not known"),
    (limits.near_floor, Symptoms(step_s=0.02, step_floor_s=0.01), "fired"),
    (limits.near_floor, Symptoms(step_s=0.0201, step_floor_s=0.01), "not fired"),
    (limits.near_floor, Symptoms(mbu_share=0.5), "fired"),
    (limits.near_floor, Symptoms(mbu_share=0.49), "not fired"),
    (limits.compute_at_peak, Symptoms(mfu_share=0.5), "fired"),
    (limits.compute_at_peak, Symptoms(mfu_share=0.49, compute_utilisation_share=1.0), "not fired"),
    (limits.compute_at_peak, Symptoms(compute_utilisation_share=0.85, mbu_share=0.2), "fired"),
    (limits.compute_at_peak, Symptoms(compute_utilisation_share=0.99), "not known"),
    (limits.compute_at_peak, Symptoms(compute_utilisation_share=0.99, mbu_share=0.2, timings=CHEAP), "not known"),
    (limits.compute_at_peak, Symptoms(compute_utilisation_share=0.99, step_s=0.03, step_floor_s=0.01, mbu_share=0.8), "not known"),
    (limits.compute_at_peak, Symptoms(compute_utilisation_share=0.84), "not fired"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "seen", "state"), AT)
def test_at_the_threshold(rule: Callable[[Symptoms], Rule], seen: Symptoms, state: State) -> None:
    """The threshold itself belongs to the side that its words say."""
    found = rule(seen)
    assert found.state == state
    assert bool(found.wanted) == (state == "not known")


@pytest.mark.parametrize("rule", limits.RULES)
def test_nothing_known_decides_nothing(rule: Callable[[Symptoms], Rule]) -> None:
    """Without evidence no rule fires and none is ruled out."""
    assert rule(Symptoms()).state == "not known"


def test_the_pair_that_growth_is_taken_from() -> None:
    """The largest batch that was timed, and the next smaller one at least 1.3 times apart from it."""
    timed = [Timing(batch=batch, step_s=float(batch)) for batch in (1, 8, 12, 13)]
    pair = limits.timed_pair(Symptoms(timings=tuple(timed)))
    assert pair is not None and [one.batch for one in pair] == [8, 13]
    assert limits.timed_pair(Symptoms(timings=tuple(timed[2:]))) is None
    assert limits.timed_pair(Symptoms(timings=tuple(timed[:1]))) is None
    assert limits.timed_pair(Symptoms()) is None
