"""What output tokens cost, from the device's price and the timed batches. Pure.

The hour pays for reading the prompts too, so the rate is produced tokens over the whole time of a batch, at the workload's lengths; it is
lower than the decode rate that stands in the speed tables. The batch is the best one at or under the variant's own confirmed ceiling.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from statistics import median

from quantgate.records import MAIN, CostRow, Generation, Price, VariantEvidence

SECONDS_PER_HOUR = 3600
MILLION = 1_000_000


def cost(one: VariantEvidence, reference: VariantEvidence, price: Price | None) -> CostRow | None:
    """Cost of a variant and its ratio to the reference's; None without a price."""
    if price is None:
        return None
    own = _own(one, price)
    if one is reference or own.per_million_tokens is None:
        return own
    theirs = _own(reference, price).per_million_tokens
    return own if not theirs else replace(own, ratio_to_reference=own.per_million_tokens / theirs)


def _own(one: VariantEvidence, price: Price) -> CostRow:
    ceiling = None if one.capacity is None else one.capacity.confirmed
    if not ceiling:
        return CostRow(why_not="its batch ceiling is not known", currency=price.currency)
    rates = {} if one.speed is None else _rates(one.speed.generations, ceiling)
    if not rates:
        return CostRow(why_not="no batch at or under its ceiling was timed", currency=price.currency)
    best = max(rates, key=lambda batch: (rates[batch], -batch))
    return CostRow(
        batch_size=best,
        output_tokens_per_s=rates[best],
        per_million_tokens=cost_per_million(price.per_hour, rates[best]),
        tokens_per_unit=rates[best] * SECONDS_PER_HOUR / price.per_hour,
        currency=price.currency,
    )


def cost_per_million(per_hour: float, tokens_per_s: float) -> float:
    """Price of an hour over the tokens of an hour, for a million of them."""
    return per_hour / (tokens_per_s * SECONDS_PER_HOUR) * MILLION


def _rates(generations: Iterable[Generation], ceiling: int) -> dict[int, float]:
    """Batch size -> median of produced tokens a second over the whole time, prompts included, at the run's own lengths."""
    found: dict[int, list[float]] = {}
    for one in (each for each in generations if each.workload == MAIN):
        if not one.warmup and one.batch_size <= ceiling and one.why_no_speed is None and one.produced_tokens > 0:
            found.setdefault(one.batch_size, []).append(one.produced_tokens / one.step_s[-1])
    return {batch: median(rates) for batch, rates in found.items()}
