"""Timed generations -> the rows of a report: medians of raw arrival times, and the paired ratio with its interval. Pure.

Each figure has a formula of its own (``records.Generation``); prefill, decode and end to end are never mixed. A generation that stopped
early is counted and enters no figure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import exp

from quantgate.records import MAIN, Generation, SpeedPoint, SpeedRow, SpeedRun, VariantEvidence
from quantgate.stages.percentiles import median_of_known, percentile
from quantgate.stages.quadruples import confirmed, losses, p99_wait, waits
from quantgate.stats.speed import deviation, interval


def rows(run: SpeedRun, alpha: float) -> tuple[tuple[SpeedRow, ...], tuple[SpeedRow, ...]]:
    """A row a batch size at the run's own workload, and at the others."""
    found = list(_rows(run, alpha))
    return tuple(one for one in found if one.workload == MAIN), tuple(one for one in found if one.workload != MAIN)


def _rows(run: SpeedRun, alpha: float) -> Iterator[SpeedRow]:
    for workload, batch in sorted({(one.workload, one.batch_size) for one in run.generations}):
        point = SpeedPoint(batch_size=batch, reference_batch=batch, workload=workload)
        yield _row(run, point, [one for one in run.generations if (one.workload, one.batch_size) == (workload, batch)], alpha)


def at_ceiling(one: VariantEvidence, reference: VariantEvidence, alpha: float) -> SpeedRow | None:
    """Both sides at their own confirmed ceilings; None where they were not timed in pairs there."""
    ours, theirs = confirmed(one), confirmed(reference)
    point = SpeedPoint(batch_size=ours, reference_batch=theirs)
    if one.speed is None or not ours or not theirs or not (found := one.speed.at(point)):
        return None
    places = {place for quadruple in found for place in quadruple.variant}
    return _row(one.speed, point, [each for place, each in enumerate(one.speed.generations) if place in places], alpha)


def _row(run: SpeedRun, point: SpeedPoint, generations: Sequence[Generation], alpha: float) -> SpeedRow:
    timed = [one for one in generations if not one.warmup]
    good = [one for one in timed if one.why_no_speed is None]
    rates, gaps = [rate for one in good if (rate := one.output_tokens_per_s) is not None], waits(good)
    row = SpeedRow(
        batch_size=point.batch_size,
        ttft_s=median_of_known(one.ttft_s for one in good),
        tpot_s=median_of_known(one.tpot_s for one in good),
        output_tokens_per_s=median_of_known(rates),
        output_tokens_per_s_low=min(rates, default=None),
        output_tokens_per_s_high=max(rates, default=None),
        generations=len(timed),
        warmups=sum(one.warmup for one in generations),
        early_stop_share=sum(one.early_stop for one in timed) / len(timed) if timed else 0.0,
        itl_p50_s=percentile(gaps, 50),
        itl_p90_s=percentile(gaps, 90),
        itl_p99_s=p99_wait(good),
        prefill_tokens_per_s=median_of_known(one.prefill_tokens_per_s for one in good),
        end_to_end_tokens_per_s=median_of_known(one.end_to_end_tokens_per_s for one in good),
        workload=point.workload,
        ratio_to_reference=None,
    )
    return _with_ratio(row, run, point, alpha)


def _with_ratio(row: SpeedRow, run: SpeedRun, point: SpeedPoint, alpha: float) -> SpeedRow:
    """The ratio over quadruples, or of the means in runs of versions without them."""
    found = losses(run, point, "min_speed_ratio")
    if isinstance(found, str):
        old = run.ratio(point.batch_size) if not run.quadruples and point.workload == MAIN else None
        return replace(row, ratio_to_reference=old)
    bounds = interval(found, alpha=alpha)
    return replace(
        row,
        ratio_to_reference=exp(-sum(found) / len(found)),
        ratio_low=None if bounds is None else exp(-bounds.upper),
        ratio_high=None if bounds is None else exp(-bounds.lower),
        ratio_level=None if bounds is None else 1 - alpha,
        quadruples=len(found),
        cv=deviation(found),
    )
