"""A forecast is arithmetic and earlier times: sizes by scheme, limits by budget, refusals that say what to change."""

from __future__ import annotations

from dataclasses import replace

from evidence import DEVICE
from quantgate.forecasts import Forecast, GoldenForecast, VariantForecast
from quantgate.parameters import matrices_of_config
from quantgate.records import (
    Artifact,
    BatchPlan,
    Capacity,
    CheckRule,
    Evidence,
    Fingerprint,
    Generation,
    KVCache,
    Policy,
    SpeedRun,
    Variant,
    VariantEvidence,
    Workload,
)
from quantgate.shapes import shape_of_config
from quantgate.stages.forecast import Sizes, disk_bytes, refusals, sized, stage_times, why_no_room
from quantgate.weightbytes import packing_of

CONFIG = {
    "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 100, "tie_word_embeddings": True,
}  # fmt: skip
SIZES = Sizes(shape=shape_of_config(CONFIG), matrices=matrices_of_config(CONFIG), float_bytes=4, unpacked=True)
WORK = Workload(prompt_tokens=8, output_tokens=8, max_batch=16)
REFERENCE = Variant(name="float32", quantizer="reference", role="reference")
INT8 = Variant(name="int8", quantizer="bitsandbytes", weight_bits=8)
NF4 = Variant(name="nf4", quantizer="bitsandbytes", weight_bits=4, granularity="group:64")
RTN = Variant(name="rtn2", quantizer="rtn", weight_bits=2, granularity="group:64", role="known_bad")
POLICY = Policy(name="p", why="w", checks=(CheckRule(kind="quality", margin=0.03),))


def forecast(*variants: VariantForecast, **fields: object) -> Forecast:
    blank = Forecast(
        model="m", device="d", budget_bytes=10**9, prompt_tokens=8, output_tokens=8, max_batch=16, variants=variants, golden_sets=(),
        disk_bytes=None, disk_free_bytes=None, seconds=None, refusals=(), notes=(),
    )  # fmt: skip
    return replace(blank, **fields)  # type: ignore[arg-type]


def test_sizes_follow_the_scheme() -> None:
    """Fewer bits, fewer bytes; what is simulated keeps its float size and is not filled."""
    reference, int8, nf4, rtn = (sized(one, SIZES, 10**9, WORK) for one in (REFERENCE, INT8, NF4, RTN))
    assert reference.weight_bytes == 4 * sum(one.elements for one in matrices_of_config(CONFIG))
    assert (reference.weight_bytes or 0) > (int8.weight_bytes or 0) > (nf4.weight_bytes or 0)
    assert rtn.weight_bytes == reference.weight_bytes
    assert (rtn.most_requests, rtn.kv_bytes_per_request) == (None, None)
    assert reference.kv_bytes_per_request == 2 * 64 * 4 * 16


def test_a_cache_in_fewer_bits_is_forecast() -> None:
    """Blocks for the prompt, floats for what is written lately; a window that blocks do not reach is the reason why not."""
    kv4 = Variant(name="kv4", quantizer="reference", kv_cache=KVCache(bits=4))
    found = sized(kv4, SIZES, 10**9, WORK)
    # 2 layers x 2 KV heads x (16 + 16): 8 groups of 8 bytes of codes and 8 beside them.
    assert found.kv_bytes_per_request == 8 * 8 * 16 + 8 * 2 * 64 * 4
    assert found.weight_bytes == sized(REFERENCE, SIZES, 10**9, WORK).weight_bytes
    sliding = replace(SIZES.shape, layers=tuple(replace(one, window=8) for one in SIZES.shape.layers))
    refused = sized(kv4, replace(SIZES, shape=sliding), 10**9, WORK)
    assert "layers of kind window" in (refused.why_not or "")


def test_groups_are_the_variant_s_own() -> None:
    """A scale for each 32 weights takes more than one for each 128; fused experts are what bitsandbytes does not see."""
    small, large = (packing_of(replace(NF4, granularity=f"group:{size}"), 2) for size in (32, 128))
    assert (small.group, large.group) == (32, 128)
    assert not small.experts
    assert packing_of(replace(NF4, quantizer="gptq"), 2).experts
    assert packing_of(REFERENCE, 4).bits == 32


def test_the_limit_is_the_budget_or_the_search_cap() -> None:
    """Room for two requests is two; room for more than the cap is the cap; no room is none."""
    one = sized(REFERENCE, SIZES, None, WORK)
    assert one.most_requests is None
    weights, row = one.weight_bytes or 0, (one.kv_bytes_per_request or 0) + 100 * 4
    limits = [sized(REFERENCE, SIZES, budget, WORK).most_requests for budget in (weights + 2 * row, 10**9, weights - 1)]
    assert limits == [2, 16, 0]


def test_sizes_that_are_not_known_are_left_out() -> None:
    """No shapes, no figures, and no refusal made of them."""
    one = sized(INT8, None, 10**9, WORK)
    assert (one.weight_bytes, one.stored_bytes, one.most_requests) == (None, None, None)
    assert disk_bytes([one], [500], None) is None
    assert refusals(forecast(one), POLICY, 0.7) == ()


def test_disk_counts_checkpoints_and_logits() -> None:
    """A reference that is used where it is needs no room; 256 rows of logits are kept for a golden set of 500."""
    unpacked = [sized(one, SIZES, 10**9, WORK) for one in (REFERENCE, INT8)]
    in_place = [sized(one, replace(SIZES, unpacked=False), 10**9, WORK) for one in (REFERENCE, INT8)]
    logits = 256 * 100 * 4
    assert disk_bytes(unpacked, [500], SIZES) == sum(one.weight_bytes or 0 for one in unpacked) + logits
    assert disk_bytes(in_place, [50], SIZES) == in_place[1].weight_bytes


# ---------------------------------------------------------------------------------------------- refusals


def test_a_budget_without_room_for_a_request() -> None:
    """Weights over the budget, and weights that leave no room for a request, are told apart, with the budget that would do: it does."""
    weights = sized(INT8, SIZES, 0, WORK).weight_bytes or 0
    over = why_no_room(sized(INT8, SIZES, weights - 1, WORK), weights - 1, WORK) or ""
    beside = why_no_room(sized(INT8, SIZES, weights + 1, WORK), weights + 1, WORK) or ""
    assert over.startswith(f"its weights alone take {weights:,} bytes, and the budget is {weights - 1:,}: ")
    assert "leaves no room for one request of 16 tokens (8,192 bytes of cache): " in beside
    enough = weights + 8192 + 100 * 4
    for said in (over, beside):
        assert said.endswith(f": {enough:,} bytes would do for them and one request of 16 tokens, activations not counted")
    assert sized(INT8, SIZES, enough, WORK).most_requests == 1
    assert sized(INT8, SIZES, enough - 1, WORK).most_requests == 0
    assert why_no_room(sized(INT8, SIZES, enough, WORK), enough, WORK) is None


def test_who_needs_no_room() -> None:
    """The reference is what others are compared with, whatever fits beside it; what is not filled, or not known, is not refused."""
    for one in (REFERENCE, RTN, replace(INT8, measure="quality")):
        assert why_no_room(sized(one, SIZES, 1, WORK), 1, WORK) is None
    assert why_no_room(sized(INT8, None, 1, WORK), 1, WORK) is None
    assert why_no_room(sized(INT8, SIZES, None, WORK), None, WORK) is None


def test_each_reason_is_said() -> None:
    """A quantizer's own answer, a golden set that is too small, a missing control, a full disk."""
    blocked = replace(sized(INT8, SIZES, 10**9, WORK), why_not="no such thing")
    weak = GoldenForecast(
        check="quality/x", golden="x v1", tier="required", items=50, margin=0.03, power=0.2, smallest_margin=None, items_needed=520
    )
    found = forecast(blocked, golden_sets=(weak, replace(weak, tier="advisory")), disk_bytes=10, disk_free_bytes=9)
    said = refusals(found, replace(POLICY, require_controls=True), 0.7)
    assert len(said) == 4
    for words in ("int8: no such thing", "about 520 items are needed", "known-bad control", "set 'cache'"):
        assert any(words in one for one in said), words
    assert "no number of items" in refusals(forecast(golden_sets=(replace(weak, items_needed=None),)), POLICY, 0.7)[0]
    assert refusals(forecast(golden_sets=(weak,)), POLICY, 0.0) == ()


# ---------------------------------------------------------------------------------------------- times


def earlier(seconds: float, **changes: object) -> Evidence:
    capacity = Capacity(
        prompt_tokens=8, output_tokens=8, budget_bytes=1, fixed_bytes=1, prefill_bytes_per_row=1, decode_bytes_per_row=1,
        kv_bytes_per_row=1, predicted=1, confirmed=1, limited_by="memory", seconds=seconds,
    )  # fmt: skip
    generation = Generation(batch_size=1, prompt_tokens=8, output_tokens=8, produced_tokens=8, step_s=(0.1, seconds))
    speed = SpeedRun(variant="x", generations=(generation,), partner=(generation,))
    built = Artifact(variant="x", path="", format="", stored_bytes=1, sha256="", build_s=3 * seconds)
    variant = replace(INT8, name="x", **changes)  # type: ignore[arg-type]
    one = VariantEvidence(variant=variant, artifact=built, capacity=capacity, speed=speed, device=DEVICE)
    mark = Fingerprint(quantgate_version="", source_sha256="", commit=None, python="", platform="", cpu="", libraries={})
    return Evidence(variants=(one,), golden_sets=(), fingerprint=mark)


def times(*found: Evidence, work: Workload = WORK) -> dict[str, float | None]:
    stages = stage_times(INT8, {"everyday": "ab"}, work, BatchPlan(), found)
    return {one.stage: one.seconds for one in stages}


def test_times_are_medians_of_the_same_variant_whatever_its_name() -> None:
    """Three runs of 10, 20 and 60 s: 20 s, and both sides of the timed blocks; a stage that never ran is not known."""
    found = times(earlier(10.0), earlier(60.0), earlier(20.0))
    assert found == {"quantize": 60.0, "load": None, "capacity": 20.0, "score everyday": None, "time": 40.0}


def test_another_scheme_or_length_tells_nothing() -> None:
    """Other bits, other options, other lengths: not known."""
    assert times(earlier(10.0, weight_bits=4))["capacity"] is None
    assert times(earlier(10.0, options={"threshold": 0}))["capacity"] is None
    assert times(earlier(10.0), work=replace(WORK, prompt_tokens=9))["capacity"] is None
