"""Worked situations: what binds, which lever fits, and where the evidence does not carry a diagnosis."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quantgate import thresholds
from quantgate.diagnosis import diagnose
from quantgate.errors import UsageError
from quantgate.symptoms import Advice, Diagnosis, Lever, Limit, Symptoms, Timing, Trial

GB = 10**9
ROOM = Symptoms(
    memory_total_bytes=24 * GB, memory_used_bytes=23_500_000_000, batch=8, failed_batch=16, compute_utilisation_share=0.40
)
WASTE = Symptoms(batch=8, useful_tokens=450, row_steps=1000, idle_share=0.20, finished_waiting=5)
ALONE = Symptoms(batch=1, streams=1, step_s=0.0062, weight_bytes=16 * GB, bandwidth_bytes_per_s=3.35e12)
PEAK = Symptoms(batch=256, mfu_share=0.58, mbu_share=0.30)


def lever(found: Diagnosis, name: Lever) -> Advice:
    """One lever's advice."""
    return next(one for one in found.levers if one.lever == name)


# ---------------------------------------------------------------------------------------------- the three of the textbook


def test_memory_is_full_and_compute_is_spare() -> None:
    """Batch 8 fits, 16 runs out, compute at 40 %: memory-bound. Quantize at the cost of quality; speculation does not fit."""
    found = diagnose(ROOM)
    assert (found.limit, found.also, found.wanted, found.contradictions) == ("memory-bound", (), (), ())
    assert found.sentence.startswith("We are memory-bound, not compute-bound, so quantize to free KV room before adding GPUs: ")
    assert "batch 8 fits and batch 16 runs out of memory" in found.sentence and "compute utilisation is 40 %" in found.sentence
    quantization, speculation = lever(found, "quantization"), lever(found, "speculative decoding")
    assert quantization.fit == "fits" and "quality" in quantization.cost and quantization.cost.endswith("not measured")
    assert speculation.fit == "does not fit" and "second KV cache" in speculation.because
    assert lever(found, "continuous batching").fit == "not known"
    assert found.line == (
        "memory-bound at batch 8 with compute to spare; quantizing fits, speculative decoding does not (it would add a second KV cache)."
    )


def test_the_device_idles_while_finished_rows_wait() -> None:
    """Idle between batches, finished rows held: utilisation-bound; continuous batching, whose bound is 1 / (useful x used)."""
    found = diagnose(WASTE)
    assert found.limit == "utilisation-bound"
    batching = lever(found, "continuous batching")
    assert batching.fit == "fits" and "latency tail" in batching.cost
    assert batching.predicted_gain == pytest.approx(1 / (0.45 * 0.80))
    assert [lever(found, name).fit for name in ("quantization", "speculative decoding")] == ["does not fit"] * 2


def test_one_stream_near_the_weight_read_floor() -> None:
    """One stream at batch 1, 6.2 ms beside a floor of 4.8: decode-step-bound; speculation, not continuous batching."""
    found = diagnose(replace(ALONE, acceptance_share=0.7, draft_tokens=4, draft_cost_ratio=0.1))
    assert found.limit == "decode-step-bound"
    assert "6.20 ms, 1.30x the 4.78 ms of reading the weights" in found.sentence
    speculation = lever(found, "speculative decoding")
    assert speculation.fit == "fits" and "drafts that are rejected" in speculation.cost
    assert speculation.predicted_gain == pytest.approx(2.7731 / 1.4)
    assert lever(found, "continuous batching").fit == "does not fit"
    assert lever(found, "quantization").fit == "not known"


def test_arithmetic_at_its_peak() -> None:
    """MFU at 58 %: compute-bound, and said plainly that none of the three levers fits."""
    found = diagnose(PEAK)
    assert found.limit == "compute-bound"
    assert {one.fit for one in found.levers} == {"does not fit"}
    assert "smaller or sparser model" in found.sentence and "smaller or sparser model" in found.line


# ---------------------------------------------------------------------------------------------- other evidence for the same

SHOWN: list[tuple[str, Symptoms, Limit]] = [
    ("a full pool that preempts", Symptoms(kv_pool_used_share=0.97, preemptions=31, mfu_share=0.12), "memory-bound"),
    ("a full pool that holds requests up", Symptoms(kv_pool_used_share=0.93, waiting_requests=40, mfu_share=0.12), "memory-bound"),
    ("not even one request fits", Symptoms(failed_batch=1), "memory-bound"),
    (
        "rows that still pay stand in for utilisation",
        Symptoms(batch=32, failed_batch=40, timings=(Timing(batch=8, step_s=0.020), Timing(batch=32, step_s=0.026))),
        "memory-bound",
    ),
    (
        "MFU undecided, rows that still pay decide",
        Symptoms(batch=32, failed_batch=40, mfu_share=0.4, timings=(Timing(batch=8, step_s=0.020), Timing(batch=32, step_s=0.026))),
        "memory-bound",
    ),
    ("unequal answers, requests queued", Symptoms(useful_tokens=60, row_steps=100, waiting_requests=9), "utilisation-bound"),
    ("gaps between batches alone", Symptoms(idle_share=0.30, waiting_requests=2, compute_utilisation_share=0.5), "utilisation-bound"),
    ("few streams, MBU", Symptoms(batch=2, waiting_requests=0, mbu_share=0.7), "decode-step-bound"),
    ("a stated floor", Symptoms(streams=1, step_s=0.010, step_floor_s=0.006), "decode-step-bound"),
    ("a counter near its end, memory at rest", Symptoms(batch=128, compute_utilisation_share=0.97, mbu_share=0.2), "compute-bound"),
    ("out of memory, but compute is what is full", replace(ROOM, compute_utilisation_share=0.95, mbu_share=0.2), "compute-bound"),
]


@pytest.mark.parametrize(("seen", "limit"), [(seen, limit) for _, seen, limit in SHOWN], ids=[name for name, _, _ in SHOWN])
def test_other_evidence_for_the_same(seen: Symptoms, limit: Limit) -> None:
    """Each limit shows in more than one way."""
    assert diagnose(seen).limit == limit


def test_a_busy_counter_alone_does_not_rule_memory_out() -> None:
    """A counter of busy time at 99 % is that of any decoding: where more rows still pay, memory that ran out is what binds."""
    seen = Symptoms(batch=32, failed_batch=40, compute_utilisation_share=0.99)
    assert diagnose(seen).limit == "abstain" and "MFU" in diagnose(seen).wanted[0]
    timings = (Timing(batch=8, step_s=0.020), Timing(batch=32, step_s=0.026))
    assert diagnose(replace(seen, timings=timings)).limit == "memory-bound"


def test_wasted_rows_are_not_denied_where_the_queue_is_not_known() -> None:
    """Rows that are shown to be wasted are said to be, with the queue as what is missing; without a queue they gain nothing."""
    seen = replace(ROOM, useful_tokens=50, row_steps=100)
    open_ended, quiet = (lever(diagnose(one), "continuous batching") for one in (seen, replace(seen, waiting_requests=0)))
    assert open_ended.fit == "not known" and "requests waiting" in open_ended.because
    assert quiet.fit == "does not fit" and "nothing waits" in quiet.because


# ---------------------------------------------------------------------------------------------- several at once


def test_wasted_rows_go_before_memory() -> None:
    """Rows that are wasted hold memory too: continuous batching first, quantization after it."""
    found = diagnose(replace(ROOM, useful_tokens=500, row_steps=1000, waiting_requests=12))
    assert (found.limit, found.also) == ("utilisation-bound", ("memory-bound",))
    assert [lever(found, name).fit for name in ("quantization", "continuous batching")] == ["fits", "fits"]


def test_wasted_rows_go_before_arithmetic() -> None:
    """Arithmetic on rows that have ended is no reason to buy more of it."""
    found = diagnose(replace(PEAK, useful_tokens=500, row_steps=1000, waiting_requests=12))
    assert (found.limit, found.also) == ("utilisation-bound", ("compute-bound",))


def test_a_single_stream_in_full_memory() -> None:
    """Nobody else waits for the memory that is full, and a second model would need some of it: draft from the prompt."""
    found = diagnose(replace(ALONE, failed_batch=2, compute_utilisation_share=0.08))
    assert (found.limit, found.also) == ("decode-step-bound", ("memory-bound",))
    assert "from the prompt itself" in lever(found, "speculative decoding").because


# ---------------------------------------------------------------------------------------------- missing evidence

MISSING: list[tuple[str, Symptoms, str]] = [
    ("nothing but a batch", Symptoms(batch=8), "KV pool"),
    ("out of memory, compute not known", Symptoms(batch=8, failed_batch=16), "compute utilisation or MFU"),
    ("out of memory, compute in between", replace(ROOM, compute_utilisation_share=0.72), "MFU at this load"),
    ("MFU in between", replace(ROOM, compute_utilisation_share=None, mfu_share=0.40), "tokens/s at half as many rows again"),
    ("memory in use, as an engine reserves it", replace(ROOM, failed_batch=None), "KV pool in use with preemptions"),
    ("a full pool, queue not known", Symptoms(kv_pool_used_share=0.95, mfu_share=0.1), "preemptions and requests waiting"),
    ("preemptions of another moment", Symptoms(kv_pool_used_share=0.30, preemptions=1065, mfu_share=0.1), "two scrapes"),
    ("wasted rows, queue not known", Symptoms(useful_tokens=50, row_steps=100), "requests waiting"),
    ("one row, demand not known", replace(ALONE, streams=None), "how many requests come at once"),
    ("one stream, floor not known", Symptoms(streams=1, step_s=0.03), "weights / bandwidth, or MBU"),
    ("a busy counter beside busy memory", Symptoms(batch=64, compute_utilisation_share=0.98, mbu_share=0.80), "MFU"),
    (
        "two batches too close to tell",
        Symptoms(batch=9, failed_batch=10, timings=(Timing(batch=8, step_s=0.020), Timing(batch=9, step_s=0.026))),
        "step times at two batch sizes",
    ),
]


@pytest.mark.parametrize(("seen", "wanted"), [(seen, wanted) for _, seen, wanted in MISSING], ids=[name for name, _, _ in MISSING])
def test_missing_evidence_is_named(seen: Symptoms, wanted: str) -> None:
    """It abstains, recommends nothing, and the first measurement that it wants is the one that would decide."""
    found = diagnose(seen)
    assert (found.limit, found.contradictions) == ("abstain", ())
    assert wanted in found.wanted[0]
    assert {one.fit for one in found.levers} == {"not known"}
    assert found.sentence.endswith(f"Measure {found.wanted[0]}.") and found.line.startswith("not told, as ")


# ---------------------------------------------------------------------------------------------- none of the limits

NEITHER: list[tuple[str, Symptoms, str]] = [
    (
        "requests wait although everything has room",
        Symptoms(
            batch=16, waiting_requests=30, kv_pool_used_share=0.35, preemptions=0, compute_utilisation_share=0.3, useful_tokens=95,
            row_steps=100, idle_share=0.02,
        ),
        "higher cap on running requests",
    ),
    (
        "one stream, far from the floor",
        Symptoms(streams=1, batch=1, step_s=0.058, step_floor_s=0.0234, out_of_memory=False, mfu_share=0.04, idle_share=0.0,
                 useful_tokens=64, row_steps=64, waiting_requests=0),
        "a profile of one step",
    ),
    (
        "a quiet afternoon",
        Symptoms(batch=6, waiting_requests=0, kv_pool_used_share=0.1, preemptions=0, mfu_share=0.05, idle_share=0.0, useful_tokens=9,
                 row_steps=10),
        "at a higher load",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("seen", "wanted"), [(seen, wanted) for _, seen, wanted in NEITHER], ids=[name for name, _, _ in NEITHER])
def test_where_no_limit_shows(seen: Symptoms, wanted: str) -> None:
    """With everything known and nothing full it abstains and says where to look."""
    found = diagnose(seen)
    assert found.limit == "abstain" and "none of the limits shows" in found.sentence
    assert wanted in found.wanted[0]


# ---------------------------------------------------------------------------------------------- with the evidence of trials


def trial(lever_: Lever, gain: float | None, **fields: object) -> Trial:
    """A lever that was tried."""
    return replace(Trial(lever=lever_, name="tried", gain=gain, measured="measured so", cost="it cost so"), **fields)


def test_a_measured_cost_stands_beside_the_lever() -> None:
    """What a run measured replaces what was not measured, with the prediction beside it."""
    found = diagnose(ROOM, [trial("quantization", 0.66, predicted="twice the room", predicted_gain=1.9)])
    quantization = lever(found, "quantization")
    assert quantization.cost.endswith("measured in this run: tried: it cost so")
    assert (quantization.predicted, quantization.predicted_gain) == ("tried: twice the room", 1.9)
    assert (quantization.measured, quantization.measured_gain) == ("tried: measured so", 0.66)


def test_a_lever_that_cost_speed_says_so() -> None:
    """Quantization still frees the memory that is short, and the line does not hide that it is slower."""
    found = diagnose(ROOM, [trial("quantization", 0.66)])
    assert "quantizing fits (more requests, slower)" in found.line
    assert "0.66x" in lever(found, "quantization").because


def test_what_a_policy_refuses_is_not_the_best() -> None:
    """A faster variant that was shown to lose quality neither comes first nor counts."""
    trials = [trial("quantization", 2.2, name="nf4", refused=True), trial("quantization", 0.9, name="int8")]
    quantization = lever(diagnose(ROOM, trials), "quantization")
    assert quantization.measured_gain == 0.9 and quantization.measured.startswith("int8: ")
    assert "0.90x" in quantization.because


@pytest.mark.parametrize(("gain", "fit"), [(1.6, "fits"), (1.0, "does not fit"), (0.7, "does not fit")])
def test_speculation_that_was_measured(gain: float, fit: str) -> None:
    """A measurement goes before the model: no gain, no lever."""
    assert lever(diagnose(ALONE, [trial("speculative decoding", gain)]), "speculative decoding").fit == fit


def test_drafting_that_cannot_pay() -> None:
    """Where arithmetic already says that drafts cost more than they save, the lever does not fit."""
    seen = replace(ALONE, acceptance_share=0.2, draft_tokens=4, draft_cost_ratio=0.3)
    assert lever(diagnose(seen), "speculative decoding").fit == "does not fit"


@pytest.mark.parametrize(("gain", "fit"), [(1.8, "fits"), (0.27, "does not fit")])
def test_continuous_batching_that_was_measured(gain: float, fit: str) -> None:
    """An engine whose continuous path is slower than its static one is no lever, whatever the bound says."""
    assert lever(diagnose(WASTE, [trial("continuous batching", gain)]), "continuous batching").fit == fit


@pytest.mark.parametrize(("alone", "fit"), [(1.33, "fits"), (1.01, "does not fit"), (0.56, "does not fit")])
def test_a_smaller_read_at_one_row(alone: float, fit: str) -> None:
    """At one stream a quantized variant may shorten the step itself: only a measurement at batch 1 tells."""
    found = lever(diagnose(ALONE, [trial("quantization", None, alone_gain=alone)]), "quantization")
    assert found.fit == fit
    assert ("dequantization" in found.because) == (fit == "does not fit")


def test_weights_that_are_hardly_there() -> None:
    """Where weights are a small part of the memory, quantize the cache and not them."""
    small = replace(ROOM, weight_bytes=GB, weight_bits=16)
    assert "KV cache rather than the weights" in lever(diagnose(small), "quantization").because
    assert "more KV caches" in lever(diagnose(replace(ROOM, weight_bytes=16 * GB, weight_bits=16)), "quantization").because


def test_what_a_request_takes_gives_the_batch() -> None:
    """24 GB, 16 GB of weights, 1.07 GB a request: 7 fit, and beside int8 weights 14; without a batch the number stands alone."""
    seen = replace(ROOM, batch=7, failed_batch=8, weight_bytes=16 * GB, weight_bits=16, request_bytes=1_070_000_000)
    assert "batch 7 -> 14 " in lever(diagnose(seen), "quantization").predicted
    assert ", 14 requests " in lever(diagnose(replace(seen, batch=None)), "quantization").predicted


def test_no_room_at_all() -> None:
    """Weights that fill the device leave nothing to take a ratio of: what smaller ones would leave is said."""
    full = replace(ROOM, failed_batch=1, batch=None, weight_bytes=30 * GB, weight_bits=16)
    assert "8-bit weights leave 9.00 GB for requests, where nothing is left now" in lever(diagnose(full), "quantization").predicted


def test_a_drafter_that_memory_does_not_hold() -> None:
    """The drafter's weights and cache count: where they do not fit, draft from the prompt."""
    tight = replace(ALONE, memory_total_bytes=24 * GB, memory_used_bytes=22 * GB, drafter_bytes=3 * GB)
    found = lever(diagnose(tight), "speculative decoding")
    assert found.fit == "fits" and "2.00 GB are free and the drafter takes 3.00 GB" in found.because
    assert "free" not in lever(diagnose(replace(tight, drafter_bytes=GB)), "speculative decoding").because


# ---------------------------------------------------------------------------------------------- the record


def test_thresholds_are_told() -> None:
    """Every number that rules decide by comes with the diagnosis, each with its reason."""
    assert diagnose(ROOM).thresholds == thresholds.ALL
    named = {value for value in vars(thresholds).values() if isinstance(value, type(thresholds.IDLE))}
    assert named == set(thresholds.ALL) and all(one.why for one in thresholds.ALL)


def test_nonsense_is_refused() -> None:
    """A value that nothing can have is refused by its name, not reasoned about."""
    with pytest.raises(UsageError, match=r"^mfu: found nan, expected a number"):
        diagnose(Symptoms(mfu_share=float("nan")))


def test_every_rule_is_told() -> None:
    """Rules that fired and rules that did not, each with its numbers; what is not known names a measurement."""
    found = diagnose(ROOM)
    assert len(found.rules) == 8 and all(one.because for one in found.rules)
    assert all(bool(one.wanted) == (one.state == "not known") for one in found.rules)
