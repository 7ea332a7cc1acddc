"""Evidence that cannot all be right makes a diagnosis abstain, with the measurement that would settle it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quantgate.contradictions import contradictions
from quantgate.diagnosis import diagnose
from quantgate.symptoms import Symptoms, Timing

GB = 10**9
ROOM = Symptoms(batch=8, failed_batch=16, compute_utilisation_share=0.40, memory_total_bytes=24 * GB, memory_used_bytes=23 * GB)

CONTRADICTING: list[tuple[str, Symptoms, str, str]] = [
    (
        "a step faster than the read of its weights",
        Symptoms(batch=1, streams=1, step_s=0.0011, weight_bytes=16 * GB, bandwidth_bytes_per_s=3.35e12),
        "faster than the 4.78 ms",
        "synchronised",
    ),
    (
        "a step that shrinks with the batch",
        Symptoms(batch=8, failed_batch=9, timings=(Timing(batch=1, step_s=0.05), Timing(batch=8, step_s=0.03))),
        "faster than one at batch 1",
        "interleaved",
    ),
    (
        "room in arithmetic, and rows that cost the same again",
        replace(ROOM, timings=(Timing(batch=4, step_s=0.02), Timing(batch=8, step_s=0.04))),
        "more rows would not pay",
        "MBU at the largest batch",
    ),
    ("a batch that fits and a smaller one that does not", replace(ROOM, batch=16, failed_batch=12), "batch 16 fits", "fresh processes"),
    ("memory that should have sufficed", replace(ROOM, memory_used_bytes=8 * GB), "16.0 GB at most at batch 16", "other processes"),
    (
        "requests that are small",
        replace(ROOM, memory_used_bytes=12 * GB, request_bytes=GB // 2),
        "12.0 GB at batch 8 make 16.0 GB at most at batch 16",
        "other processes",
    ),
    ("memory ran out beside an empty pool", replace(ROOM, kv_pool_used_share=0.2), "the KV pool was 20 % full", "reading the prompts"),
    (
        "out of memory without a batch, beside an empty pool",
        Symptoms(out_of_memory=True, kv_pool_used_share=0.0, mfu_share=0.1),
        "the KV pool was 0 % full",
        "reading the prompts",
    ),
    ("more arithmetic than busy units", replace(ROOM, mfu_share=0.50), "more than the units are busy", "same time"),
    ("busy and idle at once", replace(ROOM, compute_utilisation_share=0.55, idle_share=0.6), "busy 55 %", "same time"),
    (
        "a step that reads the weights in its time, at a bandwidth at which it cannot",
        Symptoms(batch=1, streams=1, step_s=0.016, step_floor_s=0.0156, mbu_share=0.05),
        "1.03x the time of reading the weights, and yet reads at 5 %",
        "same steps",
    ),
    ("weights that no memory holds", replace(ROOM, weight_bytes=30 * GB), "weights take 30.0 GB and 24.0 GB there are", "same device"),
    ("weights that are not in use", replace(ROOM, weight_bytes=int(23.5 * GB)), "23.0 GB are in use", "same moment"),
    ("a batch that runs beyond one that failed", replace(ROOM, fitting_batch=8, batch=20), "batch 20 runs", "fresh processes"),
    ("fewer streams than rows", Symptoms(batch=8, streams=2, mbu_share=0.9), "2 requests come at once, and 8 run or wait", "one moment"),
    ("one stream and a queue", Symptoms(streams=1, waiting_requests=5, mbu_share=0.9), "and 5 run or wait", "one moment"),
    (
        "more finished rows than rows",
        Symptoms(batch=2, finished_waiting=9, useful_tokens=10, row_steps=20),
        "9 rows are done",
        "one batch",
    ),
    ("both roofs at once", Symptoms(batch=64, mfu_share=0.6, mbu_share=0.9), "both near their peaks", "double the batch"),
]


@pytest.mark.parametrize(
    ("seen", "because", "wanted"), [one[1:] for one in CONTRADICTING], ids=[name for name, *_ in CONTRADICTING]
)
def test_it_abstains(seen: Symptoms, because: str, wanted: str) -> None:
    """The contradiction is told with its numbers, nothing is recommended, and what to measure again is named."""
    found = diagnose(seen)
    assert found.limit == "abstain"
    assert len(found.contradictions) == 1 and because in found.contradictions[0].because
    assert wanted in found.wanted[0]
    assert "contradicts itself" in found.sentence
    assert {one.fit for one in found.levers} == {"not known"}


CONSISTENT = [
    ROOM,
    replace(ROOM, memory_used_bytes=11 * GB),  # 22 GB at batch 16 is more than nine tenths of 24
    replace(ROOM, memory_used_bytes=9 * GB),  # 18 GB: a quarter of the device may be fragments
    replace(ROOM, mfu_share=0.2),
    replace(ROOM, kv_pool_used_share=0.99),
    replace(ROOM, out_of_memory=False, memory_used_bytes=8 * GB),  # it failed, and not of memory
    replace(ROOM, idle_share=0.60),
    Symptoms(batch=1, failed_batch=1),
    Symptoms(batch=1, step_s=0.0047, weight_bytes=16 * GB, bandwidth_bytes_per_s=3.35e12),  # within what clocks allow
    Symptoms(timings=(Timing(batch=1, step_s=0.0500), Timing(batch=8, step_s=0.0499))),
]


@pytest.mark.parametrize("seen", CONSISTENT)
def test_what_may_be_is_left_alone(seen: Symptoms) -> None:
    """Evidence that can all be right contradicts nothing."""
    assert list(contradictions(seen)) == []
