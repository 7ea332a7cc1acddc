"""vLLM's metrics of an old and of a new version become symptoms; what cannot be meant is refused."""

from __future__ import annotations

from typing import Any

import pytest

from quantgate.diagnosis import diagnose
from quantgate.enginemetrics import scrape, symptoms_of
from quantgate.errors import UsageError
from quantgate.symptoms import Symptoms

OLD = """# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="16",gpu_memory_utilization="0.9",num_gpu_blocks="1801"} 1.0
# HELP vllm:num_requests_running Number of requests currently running on GPU.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="acme/chat-8b"} 22.0
# HELP vllm:num_requests_swapped Number of requests swapped to CPU.
# TYPE vllm:num_requests_swapped gauge
vllm:num_requests_swapped{model_name="acme/chat-8b"} 2.0
# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{model_name="acme/chat-8b"} 41.0
# HELP vllm:gpu_cache_usage_perc GPU KV-cache usage. 1 means 100 percent usage.
# TYPE vllm:gpu_cache_usage_perc gauge
vllm:gpu_cache_usage_perc{model_name="acme/chat-8b"} 0.987
# HELP vllm:cpu_cache_usage_perc CPU KV-cache usage. 1 means 100 percent usage.
# TYPE vllm:cpu_cache_usage_perc gauge
vllm:cpu_cache_usage_perc{model_name="acme/chat-8b"} 0.0
# HELP vllm:num_preemptions_total Cumulative number of preemption from the engine.
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{model_name="acme/chat-8b"} 187.0
# HELP vllm:time_per_output_token_seconds Histogram of time per output token in seconds.
# TYPE vllm:time_per_output_token_seconds histogram
vllm:time_per_output_token_seconds_sum{model_name="acme/chat-8b"} 310.0
vllm:time_per_output_token_seconds_bucket{le="0.025",model_name="acme/chat-8b"} 1200.0
vllm:time_per_output_token_seconds_bucket{le="0.05",model_name="acme/chat-8b"} 9800.0
vllm:time_per_output_token_seconds_bucket{le="+Inf",model_name="acme/chat-8b"} 10000.0
vllm:time_per_output_token_seconds_count{model_name="acme/chat-8b"} 10000.0
"""

NEW = """# HELP python_gc_objects_collected_total Objects collected during gc
# TYPE python_gc_objects_collected_total counter
python_gc_objects_collected_total{generation="0"} 11471.0
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="acme/chat-8b"} 1.0
vllm:num_requests_running{engine="1",model_name="acme/chat-8b"} 0.0
# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="acme/chat-8b"} 0.0
vllm:num_requests_waiting{engine="1",model_name="acme/chat-8b"} 0.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="acme/chat-8b",reason="capacity"} 0.0
# HELP vllm:kv_cache_usage_perc KV-cache usage. 1 means 100 percent usage.
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="acme/chat-8b"} 0.012
vllm:kv_cache_usage_perc{engine="1",model_name="acme/chat-8b"} 0.0
# HELP vllm:num_preemptions_total Cumulative number of preemption from the engine.
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{engine="0",model_name="acme/chat-8b"} 3.0
vllm:num_preemptions_total{engine="1",model_name="acme/chat-8b"} 0.0
vllm:num_preemptions_created{engine="0",model_name="acme/chat-8b"} 1.789056823729462e+09
# HELP vllm:inter_token_latency_seconds Histogram of inter-token latency in seconds.
# TYPE vllm:inter_token_latency_seconds histogram
vllm:inter_token_latency_seconds_bucket{engine="0",le="0.01",model_name="acme/chat-8b"} 400.0
vllm:inter_token_latency_seconds_bucket{engine="0",le="+Inf",model_name="acme/chat-8b"} 500.0
vllm:inter_token_latency_seconds_count{engine="0",model_name="acme/chat-8b"} 500.0
vllm:inter_token_latency_seconds_sum{engine="0",model_name="acme/chat-8b"} 4.0
"""

DRAFTING = """vllm:spec_decode_num_drafts_total{engine="0",model_name="acme/chat-8b"} 1000.0
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="acme/chat-8b"} 4000.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="acme/chat-8b"} 1773.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="acme/chat-8b",position="0"} 700.0
"""


def found(*texts: str, model: str | None = None) -> Symptoms:
    """Symptoms of scrapes."""
    return symptoms_of([scrape(text, f"{number}.txt", model) for number, text in enumerate(texts)])[0]


def test_an_old_version() -> None:
    """Names of before the one engine core: the GPU's cache, swapped requests, time per output token."""
    assert found(OLD) == Symptoms(
        batch=22, waiting_requests=43, streams=65, kv_pool_used_share=0.987, preemptions=187, step_s=pytest.approx(0.031)
    )


def test_a_new_version() -> None:
    """Names with an engine: engines add up, the fullest pool counts, waiting by reason is not counted twice."""
    assert found(NEW) == Symptoms(
        batch=1, waiting_requests=0, streams=1, kv_pool_used_share=0.012, preemptions=3, step_s=pytest.approx(0.008)
    )


def test_two_scrapes_tell_what_happened_in_between() -> None:
    """Counters and histograms are differences, gauges of the later one; counters of before no longer confuse."""
    later = NEW.replace("} 500.0", "} 900.0").replace("} 4.0", "} 8.8")
    later = later.replace('0",model_name="acme/chat-8b"} 1.0', '0",model_name="acme/chat-8b"} 2.0')
    seen = found(NEW, later)
    assert (seen.preemptions, seen.batch) == (0, 2)
    assert seen.step_s == pytest.approx(4.8 / 400)


def test_drafted_tokens_are_counted() -> None:
    """Drafts, drafted and accepted tokens; the time between tokens is then no step's."""
    seen = found(NEW + DRAFTING)
    assert (seen.drafts, seen.drafted_tokens, seen.accepted_tokens, seen.step_s) == (1000, 4000, 1773, None)
    old = OLD + "".join(f'vllm:spec_decode_num_{what}_tokens_total{{model_name="acme/chat-8b"}} {number}\n' for what, number in (
        ("draft", 400), ("accepted", 180), ("emitted", 280)))  # fmt: skip
    seen = found(old)
    assert (seen.drafts, seen.drafted_tokens, seen.accepted_tokens) == (100, 400, 180)


def test_what_a_reader_must_know() -> None:
    """One scrape, an idle server, several engines and drafted tokens are told."""
    notes = " ".join(symptoms_of([scrape(NEW + DRAFTING, "a")])[1])
    assert "one scrape" in notes and "2 engines" in notes and "left out" in notes
    idle = NEW.replace('0",model_name="acme/chat-8b"} 1.0', '0",model_name="acme/chat-8b"} 0.0')
    seen, notes_ = symptoms_of([scrape(idle, "a"), scrape(idle, "b")])
    assert seen.batch is None and seen.streams is None
    assert [note for note in notes_ if "under load" in note] and not [note for note in notes_ if "one scrape" in note]


def test_what_is_not_there_stays_unknown() -> None:
    """A missing queue is not an empty one."""
    text = 'vllm:num_requests_running{model_name="m"} 3\n'
    assert found(text) == Symptoms(batch=3)


def test_the_old_server_is_memory_bound_once_compute_is_known() -> None:
    """Metrics alone do not tell of arithmetic: it abstains and asks for it; with MFU given, memory binds."""
    assert diagnose(found(OLD)).limit == "abstain"
    assert "compute utilisation or MFU" in diagnose(found(OLD)).wanted[0]
    seen = symptoms_of([scrape(OLD, "a")])[0]
    assert diagnose(Symptoms(batch=seen.batch, waiting_requests=seen.waiting_requests, preemptions=seen.preemptions,
                             kv_pool_used_share=seen.kv_pool_used_share, mfu_share=0.15)).limit == "memory-bound"  # fmt: skip


BROKEN: list[tuple[str, str, dict[str, Any], str]] = [
    ("not metrics", "<html>502</html>\n", {}, r"^a:1: found '<html>502</html>'"),
    ("metrics of something else", "up 1\n", {}, "no metrics of vLLM"),
    ("an empty text", "", {}, "no metrics of vLLM"),
    ("cut off", NEW[:-5], {}, "cut off"),
    ("a pool of 98", 'vllm:kv_cache_usage_perc{engine="0"} 98.0\n', {}, "a share of one"),
    ("a NaN", 'vllm:num_requests_running{engine="0"} NaN\n', {}, "expected a number"),
    ("fewer than none", 'vllm:num_requests_waiting{engine="0"} -1\n', {}, "0 or more"),
    ("two models", OLD + NEW.replace("chat-8b", "chat-70b"), {}, "2 models: acme/chat-70b, acme/chat-8b; name one with --model"),
    ("another model", OLD, {"model": "nothing"}, "no model 'nothing' in it; there are acme/chat-8b"),
]


@pytest.mark.parametrize(("text", "options", "said"), [one[1:] for one in BROKEN], ids=[name for name, *_ in BROKEN])
def test_what_cannot_be_meant_is_refused(text: str, options: dict[str, Any], said: str) -> None:
    """With the file, the line where there is one, and what to do."""
    with pytest.raises(UsageError, match=said):
        symptoms_of([scrape(text, "a", **options)])


def test_a_model_of_several_is_chosen() -> None:
    """Only its own series count."""
    both = OLD + NEW.replace("chat-8b", "chat-70b")
    assert found(both, model="acme/chat-8b") == found(OLD)
    assert found(both, model="acme/chat-70b") == found(NEW)


def test_scrapes_of_two_lives_are_refused() -> None:
    """A counter that fell means a restart, or scrapes in the wrong order."""
    earlier = NEW.replace("} 3.0", "} 1.0")
    assert found(earlier, NEW).preemptions == 2
    with pytest.raises(UsageError, match="give the earlier scrape first"):
        found(NEW, earlier)
    with pytest.raises(UsageError, match="found 3 scrapes"):
        found(NEW, NEW, NEW)
