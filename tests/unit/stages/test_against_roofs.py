"""Timed batches against the roofs: floors, MBU and MFU by hand, the roof that counts, and what cannot be."""

from __future__ import annotations

from dataclasses import replace

import pytest

import speeds
from quantgate.errors import OverRoof
from quantgate.records import Roofs, SpeedRun
from quantgate.stages.against_roofs import against_roofs, arithmetic_types, read_roof, refuse_faults
from speeds import BODY, HEAD, OUTPUT, PROMPT, ROOFS, WEIGHTS, generation, loaded, rate, timed

KV_BYTES_PER_TOKEN = 30 * 3 * 128 * 4


def test_floors_and_shares_come_out_by_hand() -> None:
    """SmolLM2 in float32 at batch 8: weights and 8 rows of cache over 23 GB/s against 90 ms, operations over 120 GFLOP/s."""
    row = next(one for one in against_roofs(timed("float32"), ROOFS) if one.batch_size == 8)
    mean_tokens = PROMPT + OUTPUT / 2
    read = WEIGHTS["float32"] + 8 * KV_BYTES_PER_TOKEN * mean_tokens
    flops = 8 * (2 * (BODY + HEAD) + 4 * 9 * 64 * 30 * mean_tokens)
    assert row.step_bytes == pytest.approx(read)
    assert row.step_flops == pytest.approx(flops)
    assert row.mbu == pytest.approx(read / 23e9 / 0.090)
    assert row.mfu == pytest.approx(flops / 120e9 / 0.090)
    assert row.bound == "memory"
    assert row.intensity == pytest.approx(flops / read) and row.flops_per_s == pytest.approx(flops / 0.090)
    prompts = 8 * (2 * (BODY * PROMPT + HEAD) + 4 * 9 * 64 * 30 * PROMPT * (PROMPT + 1) / 2)
    assert row.prefill_mfu == pytest.approx(prompts / 120e9 / (0.1 + 0.12 * 8))


def test_a_quantized_variant_reads_less_and_its_mbu_falls() -> None:
    """Int8 reads 41 % of the bytes; at about the same step time its share of the bandwidth is as much lower."""
    base, int8 = (against_roofs(timed(name), ROOFS)[0] for name in ("float32", "int8"))
    assert base.mbu is not None and int8.mbu is not None
    assert int8.mbu / base.mbu == pytest.approx((int8.step_bytes or 0) / (base.step_bytes or 1) * 0.040 / 0.034)


@pytest.mark.parametrize(
    ("kernels", "types"),
    [
        ({"Linear": 1}, ("float32",)),
        ({"Linear4bit (repacked, bfloat16)": 1, "Linear": 1}, ("float32", "bfloat16")),
        ({"Linear8bitLt": 1}, ("float32", "int8")),
    ],
)
def test_the_types_are_those_that_kernels_may_multiply_in(kernels: dict[str, int], types: tuple[str, ...]) -> None:
    """A repacked 4-bit layer multiplies in bfloat16 and an 8-bit one in int8, whatever type the model has."""
    assert arithmetic_types(loaded("nf4", kernels=kernels)) == types


def test_the_faster_of_the_types_is_the_roof() -> None:
    """Where int8 multiplies at 500 Gop/s, an int8 variant's arithmetic is compared with that and the reference's is not."""
    roofs = replace(ROOFS, multiplies=(rate("multiply", 120e9), rate("multiply", 500e9, dtype="int8")))
    int8, base = against_roofs(timed("int8"), roofs)[0], against_roofs(timed("float32"), roofs)[0]
    assert int8.compute_floor_s == pytest.approx((int8.step_flops or 0) / 500e9)
    assert base.compute_floor_s == pytest.approx((base.step_flops or 0) / 120e9)


def test_a_model_within_the_cache_is_compared_with_the_caches_bandwidth() -> None:
    """The working set nearest to the weights' size counts."""
    roofs = Roofs(reads=(rate("read", 90e9, size=20_000_000), rate("read", 23e9, size=256_000_000)))
    assert read_roof(roofs, 25_000_000).median_per_s == 90e9
    assert read_roof(roofs, 538_000_000).median_per_s == 23e9


def test_a_speed_above_its_roof_is_a_fault_and_no_figure() -> None:
    """A step in 20 ms would read float32 at 1.18 times a roof whose scatter explains 1.06: no share is given."""
    row = against_roofs(timed("float32", {1: 0.020}), ROOFS)[0]
    assert row.mbu is None and row.tpot_s is None
    assert row.fault is not None and "1.18 times the measured roof" in row.fault and "measuring fault" in row.fault
    with pytest.raises(OverRoof, match=r"float32 at batch 1: what it reads for 50\.0 decoded tokens/s is 1\.18 times"):
        refuse_faults("float32", timed("float32", {1: 0.020}).speed.generations, loaded("float32"), ROOFS)  # type: ignore[union-attr]


def test_scatter_of_the_roof_is_no_fault() -> None:
    """With a CV of 10 % up to 1.3 times is explained: the share above 1 is shown as it is."""
    roofs = replace(ROOFS, reads=(rate("read", 23e9, scatter=0.1),))
    row = against_roofs(timed("float32", {1: 0.020}), roofs)[0]
    assert row.fault is None and row.mbu == pytest.approx(1.18, abs=0.01)


def test_prompts_read_faster_than_the_device_multiplies_are_a_fault() -> None:
    """64 prompt tokens are 14 GFLOP: in a microsecond no CPU does that."""
    one = replace(timed("float32"), speed=SpeedRun(variant="float32", generations=(generation(1, 0.04, ttft_s=1e-6),)))
    assert "to read the prompts" in (against_roofs(one, ROOFS)[0].fault or "")


def test_what_is_missing_is_a_reason_and_no_figure() -> None:
    """No roofs, no matrix rate of the type, evidence of earlier versions, rows of unequal length, one token: each says why."""
    one = timed("float32", {1: 0.04})
    old = replace(one, loaded=replace(loaded("float32"), used=None))
    short = replace(one, speed=SpeedRun(variant="x", generations=(generation(1, 0.04, produced=3),)))
    single = replace(
        one, speed=SpeedRun(variant="x", generations=(replace(generation(1, 0.04), step_s=(0.1,), output_tokens=1, produced_tokens=1),))
    )
    failed = Roofs(why_not=("reading 538,060,032 bytes: no memory",))
    cases = [
        (one, None, "roofs were not measured"),
        (one, failed, "no memory"),
        (one, replace(ROOFS, multiplies=(rate("multiply", 1e9, dtype="float16"),)), "not measured for it"),
        (old, ROOFS, "what a step uses of its weights"),
        (short, ROOFS, "unequal length"),
        (single, ROOFS, "no decode step"),
    ]
    for variant, roofs, why in cases:
        (row,) = against_roofs(variant, roofs)
        assert why in (row.why_not or "") and row.mbu is None and row.fault is None


def test_warm_ups_count_for_nothing() -> None:
    """A warm-up faster than the device is no timing at all."""
    warm = replace(generation(1, 0.001), warmup=True)
    one = replace(timed("float32"), speed=SpeedRun(variant="x", generations=(warm, generation(1, 0.04))))
    (row,) = against_roofs(one, ROOFS)
    assert row.fault is None and row.tpot_s == pytest.approx(0.04)
    assert against_roofs(replace(one, speed=None), ROOFS) == ()
    assert speeds.report().measurements[0].roofline[0].mbu is not None


def test_another_workload_hides_no_fault_and_has_rows_of_its_own() -> None:
    """Batch 1 of the run's own lengths is over the roof; a second workload timed at batch 1 is judged apart, by its own cache."""
    long = replace(generation(1, 0.04, ttft_s=2.0), workload="summarise", prompt_tokens=512)
    one = replace(timed("float32"), speed=SpeedRun(variant="float32", generations=(generation(1, 0.020), long)))
    own, other = against_roofs(one, ROOFS)
    assert own.workload == "main" and "1.18 times the measured roof" in (own.fault or "")
    assert other.workload == "summarise" and other.fault is None
    assert other.step_bytes == pytest.approx(WEIGHTS["float32"] + KV_BYTES_PER_TOKEN * (512 + OUTPUT / 2))
    with pytest.raises(OverRoof, match="float32 at batch 1: "):
        refuse_faults("float32", (generation(1, 0.020), long), loaded("float32"), ROOFS)
    fast = replace(long, step_s=generation(1, 0.02, ttft_s=2.0).step_s)
    with pytest.raises(OverRoof, match="float32 at batch 1 of summarise: "):
        refuse_faults("float32", (generation(1, 0.04), fast), loaded("float32"), ROOFS)


def test_a_generation_that_stopped_early_hides_no_fault() -> None:
    """It enters no figure; the whole ones beside it are still held against the roof."""
    runs = (generation(1, 0.020, produced=3), generation(1, 0.020))
    (row,) = against_roofs(replace(timed("float32"), speed=SpeedRun(variant="float32", generations=runs)), ROOFS)
    assert "1.18 times the measured roof" in (row.fault or "")
