"""A report with speed against roofs, crossovers and cost, computed from hand-made timings by the stages that make real ones."""

from __future__ import annotations

from dataclasses import replace

import samples
from quantgate.records import (
    Budget,
    Capacity,
    DeviceState,
    Generation,
    LayerShape,
    Loaded,
    MeasurementRow,
    ModelShape,
    Price,
    Report,
    RoofRate,
    Roofs,
    SpeedRow,
    SpeedRun,
    Variant,
    VariantEvidence,
    WeightsUsed,
)
from quantgate.stages.against_roofs import against_roofs
from quantgate.stages.cost import cost
from quantgate.stages.speed_figures import crossover_of

PROMPT, OUTPUT = 64, 65
SHAPE = ModelShape(
    layers=(LayerShape(kind="full", kv_heads=3, key_width=64, value_width=64, query_heads=9),) * 30,
    hidden=576,
    vocabulary=49_152,
    tied=True,
)
"""SmolLM2-135M."""
BODY, HEAD = 106_168_320, 28_311_552
PRICE = Price(per_hour=0.4, currency="EUR")
STEPS = {
    "float32": {1: 0.040, 2: 0.046, 4: 0.058, 8: 0.090, 11: 0.112},
    "int8": {1: 0.034, 2: 0.043, 4: 0.062, 8: 0.110, 21: 0.250},
    "nf4": {1: 0.050, 2: 0.061, 4: 0.085, 8: 0.148, 22: 0.380},
}
"""Seconds a decode step takes, by variant and batch size."""
WEIGHTS = {"float32": 538_060_032, "int8": 219_877_376, "nf4": 172_941_312}


def rate(what: str, per_s: float, *, dtype: str = "float32", size: int = 538_060_032, scatter: float = 0.02) -> RoofRate:
    """A roof of three repeats around ``per_s``, whose coefficient of variation is ``scatter``."""
    around = (per_s * (1 - scatter), per_s, per_s * (1 + scatter))
    way = "sum" if what == "read" else "product of 2,048 x 2,048"
    return RoofRate(what=what, dtype=dtype, way=way, working_set_bytes=size, per_s=around)  # type: ignore[arg-type]


ROOFS = Roofs(
    reads=(rate("read", 23e9),),
    multiplies=(rate("multiply", 120e9), rate("multiply", 95e9, dtype="int8")),
    cache_bytes=32 * 2**20,
    before=DeviceState(clock_hz=2.6e9, unknown=("this system does not tell the CPU's governor",)),
    after=DeviceState(clock_hz=2.6e9),
)


def loaded(name: str, *, weight_bytes: int | None = None, kernels: dict[str, int] | None = None) -> Loaded:
    """SmolLM2 as loaded in one way of storing its weights."""
    size = WEIGHTS[name] if weight_bytes is None else weight_bytes
    return Loaded(
        weight_bytes=size,
        logical_parameters=BODY + HEAD,
        quantized_parameters=0,
        modules_replaced=0,
        modules_left=(),
        kernels=kernels or {"int8": {"Linear8bitLt": 210}, "nf4": {"Linear4bit": 210}}.get(name, {"Linear": 211}),
        dtype="float32",
        kv_bytes_per_element=4,
        weights_sha256=f"{len(name):02x}" * 32,
        tied=True,
        load_s=1.0,
        shape=SHAPE,
        used=WeightsUsed(read_bytes=size, row_bytes=0, body_parameters=BODY, head_parameters=HEAD),
    )


def generation(batch: int, step_s: float, *, ttft_s: float | None = None, produced: int | None = None) -> Generation:
    """One timed batch with equal steps."""
    first = 0.1 + 0.12 * batch if ttft_s is None else ttft_s
    return Generation(
        batch_size=batch,
        prompt_tokens=PROMPT,
        output_tokens=OUTPUT,
        produced_tokens=batch * OUTPUT if produced is None else produced,
        step_s=tuple(first + step * step_s for step in range(OUTPUT)),
    )


def timed(name: str, steps: dict[int, float] | None = None, *, ceiling: int | None = None) -> VariantEvidence:
    """A variant that was loaded, filled and timed."""
    taken = STEPS[name] if steps is None else steps
    capacity = Capacity(
        prompt_tokens=PROMPT,
        output_tokens=OUTPUT,
        budget_bytes=900_000_000,
        fixed_bytes=WEIGHTS[name],
        prefill_bytes_per_row=1,
        decode_bytes_per_row=1,
        kv_bytes_per_row=1,
        predicted=max(taken),
        confirmed=max(taken) if ceiling is None else ceiling,
        limited_by="memory",
    )
    role = "reference" if name == "float32" else "candidate"
    return VariantEvidence(
        variant=Variant(name=name, quantizer="fake", role=role),  # type: ignore[arg-type]
        loaded=loaded(name),
        capacity=capacity,
        speed=SpeedRun(variant=name, generations=tuple(generation(batch, step_s) for batch, step_s in taken.items())),
    )


def _row(row: MeasurementRow) -> MeasurementRow:
    if row.variant not in STEPS:
        return row
    one, base = timed(row.variant), timed("float32")
    speed = tuple(
        SpeedRow(
            batch_size=batch,
            ttft_s=0.1 + 0.12 * batch,
            tpot_s=step_s,
            output_tokens_per_s=batch / step_s,
            output_tokens_per_s_low=0.97 * batch / step_s,
            output_tokens_per_s_high=1.02 * batch / step_s,
            generations=4,
            warmups=1,
            ratio_to_reference=None if row.role == "reference" else STEPS["float32"].get(batch, 0.0) / step_s or None,
        )
        for batch, step_s in STEPS[row.variant].items()
    )
    at_ceiling, theirs = (max(steps) / steps[max(steps)] for steps in (STEPS[row.variant], STEPS["float32"]))
    return replace(
        row,
        speed=speed,
        tokens_per_s_at_ceiling=at_ceiling,
        ratio_at_ceiling=None if row.role == "reference" else at_ceiling / theirs,
        roofline=against_roofs(one, ROOFS),
        cost=cost(one, base, PRICE),
        crossover=None if row.role == "reference" else crossover_of(speed),
    )


def report() -> Report:
    """The sample report with measured roofs and a price: int8 is faster than float32 at small batches and slower at large ones."""
    made = samples.sample_report()
    return replace(
        made,
        measurements=tuple(map(_row, made.measurements)),
        roofs=ROOFS,
        price=PRICE,
        budget=Budget(owner="A. Berg, platform", max_cost_per_million_tokens=1.5),
    )
