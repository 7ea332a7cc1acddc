"""One variant's timed batches against the roofs that were measured in the same run: floors, MBU, MFU, and what cannot be.

Pure. A batch whose speed lies above a roof by more than the roof's own scatter is a measuring fault: it is refused where it is measured
and never shown as a figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log
from statistics import fmean

from quantgate import roofline
from quantgate.errors import OverRoof, QuantgateError
from quantgate.records import (
    MAIN,
    Generation,
    Loaded,
    ModelShape,
    RooflineRow,
    RoofRate,
    Roofs,
    VariantEvidence,
    WeightsUsed,
)
from quantgate.stages.percentiles import median_of_known

_IN_BFLOAT16 = "bfloat16"
_IN_INT8 = "8bit"


def arithmetic_types(loaded: Loaded) -> tuple[str, ...]:
    """The types of numbers that a variant's kernels may multiply in: its own, and those that the names of its kernels tell."""
    names = " ".join(loaded.kernels)
    found = [loaded.dtype]
    found += [_IN_BFLOAT16] if _IN_BFLOAT16 in names else []
    found += ["int8"] if _IN_INT8 in names else []
    return tuple(dict.fromkeys(found))


def against_roofs(one: VariantEvidence, roofs: Roofs | None) -> tuple[RooflineRow, ...]:
    """A row for each batch size and workload that the variant was timed at, the run's own first; empty where it was not timed."""
    return () if one.speed is None else _rows(one.speed.generations, one.loaded, roofs)


def refuse_faults(who: str, generations: Sequence[Generation], loaded: Loaded | None, roofs: Roofs | None) -> None:
    """Raise ``OverRoof`` for the first batch size that was timed faster than the device is."""
    for row in _rows(generations, loaded, roofs):
        if row.fault is not None:
            where = "" if row.workload == MAIN else f" of {row.workload}"
            raise OverRoof(f"{who} at batch {row.batch_size}{where}: {row.fault}")


def _rows(generations: Sequence[Generation], loaded: Loaded | None, roofs: Roofs | None) -> tuple[RooflineRow, ...]:
    timed = [one for one in generations if not one.warmup]
    places = sorted({(one.workload, one.batch_size) for one in timed}, key=lambda place: (place[0] != MAIN, *place))
    known = _known(loaded, roofs)
    if isinstance(known, str):
        return tuple(RooflineRow(batch_size=size, workload=workload, why_not=known) for workload, size in places)
    return tuple(_row([one for one in timed if (one.workload, one.batch_size) == place], known) for place in places)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Known:
    used: WeightsUsed
    shape: ModelShape
    element_bytes: int
    read: RoofRate
    multiply: RoofRate


def _known(loaded: Loaded | None, roofs: Roofs | None) -> _Known | str:
    """All that the rows need, or the reason why there can be none."""
    if loaded is None or loaded.shape is None or loaded.used is None:
        return "what a step uses of its weights is not known"
    if roofs is None:
        return "the device's roofs were not measured"
    multiplies = [one for one in roofs.multiplies if one.dtype in arithmetic_types(loaded) and one.per_s]
    if not [one for one in roofs.reads if one.per_s] or not multiplies:
        return "; ".join(roofs.why_not) or "the device's roofs were not measured for it"
    return _Known(
        used=loaded.used,
        shape=loaded.shape,
        element_bytes=loaded.kv_bytes_per_element,
        read=read_roof(roofs, loaded.weight_bytes),
        multiply=max(multiplies, key=lambda one: one.median_per_s),
    )


def read_roof(roofs: Roofs, weight_bytes: int) -> RoofRate:
    """The bandwidth at the working set that is nearest to the weights' own size."""
    return min(roofs.reads, key=lambda one: abs(log(one.working_set_bytes / max(1, weight_bytes))))


def _row(timed: Sequence[Generation], known: _Known) -> RooflineRow:
    """Medians of one batch size of one workload against its floors. What stopped early enters none, unless nothing else was timed."""
    timed = [one for one in timed if not one.early_stop] or timed
    row = replace(_medians(timed, known), workload=timed[0].workload)
    fault = _fault(row, known)
    return row if fault is None else RooflineRow(batch_size=row.batch_size, workload=row.workload, fault=fault)


def _medians(timed: Sequence[Generation], known: _Known) -> RooflineRow:
    batch, tpot = timed[0].batch_size, median_of_known(one.tpot_s for one in timed)
    if tpot is None or tpot <= 0 or min(one.output_tokens for one in timed) < 2:
        return RooflineRow(batch_size=batch, why_not="no decode step was timed")
    if any(one.early_stop for one in timed) or len({(one.prompt_tokens, one.output_tokens) for one in timed}) > 1:
        return RooflineRow(batch_size=batch, why_not="its rows are of unequal length, so their cache is not known")
    prompt, lengths = timed[0].prompt_tokens, roofline.decode_lengths(timed[0].prompt_tokens, timed[0].output_tokens)
    try:
        read = fmean(
            roofline.step_bytes(known.used, known.shape, known.element_bytes, batch=batch, tokens=length) for length in lengths
        )
        flops = fmean(roofline.step_flops(known.used, known.shape, batch=batch, tokens=length) for length in lengths)
        prefill = float(roofline.prefill_flops(known.used, known.shape, batch=batch, tokens=prompt))
        floor = roofline.floor(
            work_bytes=read, flops=flops, bytes_per_s=known.read.median_per_s, flops_per_s=known.multiply.median_per_s
        )
    except QuantgateError as error:
        return RooflineRow(batch_size=batch, why_not=str(error))
    ttft = median_of_known(one.ttft_s for one in timed)
    return RooflineRow(
        batch_size=batch,
        step_bytes=read,
        step_flops=flops,
        memory_floor_s=floor.memory_s,
        compute_floor_s=floor.compute_s,
        bound=floor.bound,
        tpot_s=tpot,
        mbu=roofline.share_of_roof(floor.memory_s, tpot),
        mfu=roofline.share_of_roof(floor.compute_s, tpot),
        prefill_flops=prefill,
        prefill_mfu=None if not ttft else roofline.share_of_roof(prefill / known.multiply.median_per_s, ttft),
    )


def _fault(row: RooflineRow, known: _Known) -> str | None:
    """The first figure that is above its roof, as a sentence."""
    rate = row.batch_size / row.tpot_s if row.tpot_s else 0.0
    figures = (
        (f"what it reads for {rate:,.1f} decoded tokens/s", row.mbu, known.read),
        (f"what it multiplies for {rate:,.1f} decoded tokens/s", row.mfu, known.multiply),
        ("what it multiplies to read the prompts in that time", row.prefill_mfu, known.multiply),
    )
    for what, share, roof in figures:
        try:
            if share is not None:
                roofline.refuse_over_roof(what, share, roof.cv)
        except OverRoof as error:
            return error.what
    return None
