"""The rules that tell one limit from another, each with the numbers that it rests on.

Memory, utilisation, the decode step and arithmetic each hold up a deployment in their own way. A rule fires, does not
fire, or cannot be decided for want of a measurement, which it names. Refuses to know levers.

Two figures are easily taken for others. A device's *memory in use* says nothing where an engine reserves its pool at the
start; the pool's own share does. A *utilisation* counter tells how long units were busy, which waiting for memory is too;
arithmetic over the peak (MFU) does not, and goes first where both are known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from quantgate.gains import growth
from quantgate.render import quantities as q
from quantgate.symptoms import Limit, Rule, Symptoms, Threshold, Timing
from quantgate.thresholds import (
    APART,
    CHEAP_ROWS,
    DEAR_ROWS,
    FEW_ROWS,
    IDLE,
    NEAR_FLOOR,
    PEAK_MFU,
    PEAK_UTILISATION,
    POOL_FULL,
    SPARE_MFU,
    SPARE_UTILISATION,
    WASTED_ROWS,
)


@dataclass(frozen=True, slots=True)
class _Named:
    """A rule before it is applied."""

    name: str
    limit: Limit

    def told(self, fired: bool, because: str) -> Rule:
        return Rule(name=self.name, limit=self.limit, state="fired" if fired else "not fired", because=because)

    def fired(self, because: str) -> Rule:
        return self.told(True, because)

    def quiet(self, because: str) -> Rule:
        return self.told(False, because)

    def unknown(self, because: str, wanted: str) -> Rule:
        return Rule(name=self.name, limit=self.limit, state="not known", because=because, wanted=wanted)


# ---------------------------------------------------------------------------------------------- figures that follow


def fits(seen: Symptoms) -> int | None:
    """The largest batch known to fit: as stated, else the one that runs."""
    return seen.batch if seen.fitting_batch is None else seen.fitting_batch


def useful_share(seen: Symptoms) -> float | None:
    """Useful tokens / (rows x steps)."""
    return None if seen.useful_tokens is None or seen.row_steps is None else seen.useful_tokens / seen.row_steps


def floor_s(seen: Symptoms) -> float | None:
    """The least time of a step: as stated, else weights / bandwidth."""
    if seen.step_floor_s is not None:
        return seen.step_floor_s
    return None if seen.weight_bytes is None or seen.bandwidth_bytes_per_s is None else seen.weight_bytes / seen.bandwidth_bytes_per_s


def over_floor(seen: Symptoms) -> float | None:
    """Step time over the weight-read floor."""
    floor = floor_s(seen)
    return None if floor is None or seen.step_s is None else seen.step_s / floor


def timed_pair(seen: Symptoms) -> tuple[Timing, Timing] | None:
    """The largest batch that was timed and the next smaller one that is far enough from it; None without such a pair."""
    large = max(seen.timings, key=lambda one: one.batch, default=None)
    small = [one for one in seen.timings if large is not None and one.batch * APART.value <= large.batch]
    return None if large is None or not small else (small[-1], large)


def step_growth(seen: Symptoms) -> float | None:
    """Exponent of step time over batch between these two."""
    pair = timed_pair(seen)
    return None if pair is None else growth((pair[0].batch, pair[0].step_s), (pair[1].batch, pair[1].step_s))


def waits(seen: Symptoms) -> bool | None:
    """Somebody waits: a request to be started, or a finished row for its batch; None where that is not known."""
    if (seen.waiting_requests or 0) > 0 or (seen.finished_waiting or 0) > 0:
        return True
    return None if seen.waiting_requests is None else False


# ---------------------------------------------------------------------------------------------- memory


def memory_ran_out(seen: Symptoms) -> Rule:
    """A batch did not fit, or the KV pool is full and holds requests up."""
    rule = _Named("memory ran out", "memory-bound")
    if seen.out_of_memory is not False and seen.failed_batch is not None:
        fitting = fits(seen)
        held = "" if fitting is None or seen.failed_batch == 1 else f"batch {q.count(fitting)} fits and "
        words = f"{held}batch {q.count(seen.failed_batch)} runs out of memory"
        return rule.fired("not even one request fits" if seen.failed_batch == 1 else words)
    if seen.out_of_memory:
        return rule.fired("a request ran out of memory")
    if seen.kv_pool_used_share is not None:
        return _pool(seen, seen.kv_pool_used_share, rule)
    if seen.preemptions:
        words = f"{q.count(seen.preemptions)} requests were preempted, and how full the KV pool was is not given"
        return rule.unknown(words, "the share of the KV pool in use at that load")
    if seen.out_of_memory is False:
        return rule.quiet("no batch ran out of memory")
    if seen.memory_total_bytes is None or seen.memory_used_bytes is None:
        wanted = "the share of the KV pool in use, or the batch that runs out of memory"
        return rule.unknown("no failed batch and no share of the KV pool is given", wanted)
    used = seen.memory_used_bytes / seen.memory_total_bytes
    words = f"{q.percent(used)} of {q.decimal_bytes(seen.memory_total_bytes)} are in use"
    if used < POOL_FULL.value:
        return rule.quiet(f"{words}, under {q.percent(POOL_FULL.value)}")
    why = "an engine that reserves its pool shows that at any load"
    return rule.unknown(f"{words}; {why}", "the share of the KV pool in use with preemptions, or a fill of the next larger batch")


def _pool(seen: Symptoms, used: float, rule: _Named) -> Rule:
    words = f"the KV pool is {q.percent(used)} full"
    preempted = f"{q.count(seen.preemptions)} requests were preempted"
    if used < POOL_FULL.value:
        if seen.preemptions:
            when = "so that was at another moment"
            return rule.unknown(f"{words} and {preempted}, {when}", "both at the same load: two scrapes of the engine's metrics under load")
        return rule.quiet(f"{words}, under {q.percent(POOL_FULL.value)}")
    if seen.preemptions:
        return rule.fired(f"{words} and {preempted}")
    if seen.waiting_requests:
        return rule.fired(f"{words} and {q.count(seen.waiting_requests)} requests wait")
    if seen.preemptions is None or seen.waiting_requests is None:
        return rule.unknown(f"{words}", "preemptions and requests waiting at that load")
    return rule.quiet(f"{words}, yet nothing was preempted and nothing waits")


def compute_to_spare(seen: Symptoms) -> Rule:
    """More rows would find arithmetic units that are free."""
    rule = _Named("compute has room", "memory-bound")
    if seen.failed_batch == 1 and seen.out_of_memory is not False:
        return rule.fired("nothing runs, so nothing is computed")
    levels = list(_levels(seen))
    if not levels:
        wanted = "the share of the arithmetic units in use (compute utilisation or MFU), or step times at two batch sizes"
        return rule.unknown("neither compute utilisation nor MFU nor step times at two batches are given", wanted)
    for words, value, spare, peak, _ in levels:
        if value <= spare.value:
            return rule.fired(f"{words}, {_limit(spare)} or less")
        if value >= peak.value and (peak is not PEAK_UTILISATION or memory_rests(seen)):
            return rule.quiet(f"{words}, {_limit(peak)} or more")
    words, value, spare, peak, better = levels[-1]
    if value >= peak.value:
        return rule.unknown(f"{words}, and waiting for memory counts as busy", better)
    return rule.unknown(f"{words}, between {_limit(spare)} and {_limit(peak)}", better)


_Level: TypeAlias = tuple[str, float, Threshold, Threshold, str]


def _levels(seen: Symptoms) -> Iterator[_Level]:
    """How busy arithmetic is, the best figure first: in words, its value, both thresholds, and what would tell more."""
    if seen.mfu_share is not None:
        better = "tokens/s at half as many rows again: whether more rows still pay"
        yield f"MFU is {q.percent(seen.mfu_share)}", seen.mfu_share, SPARE_MFU, PEAK_MFU, better
    elif (used := seen.compute_utilisation_share) is not None:
        yield f"compute utilisation is {q.percent(used)}", used, SPARE_UTILISATION, PEAK_UTILISATION, "MFU at this load"
    pair, exponent = timed_pair(seen), step_growth(seen)
    if pair is not None and exponent is not None:
        steps = f"{q.milliseconds(pair[0].step_s)} ms at batch {pair[0].batch} and {q.milliseconds(pair[1].step_s)} ms at {pair[1].batch}"
        words = f"a step takes {steps}, so it grows as the batch to the power {q.fixed(exponent, 2)}"
        yield words, exponent, CHEAP_ROWS, DEAR_ROWS, "compute utilisation or MFU at the largest batch"


def _limit(threshold: Threshold) -> str:
    return q.percent(threshold.value) if threshold.unit == "share" else q.fixed(threshold.value, 2)


# ---------------------------------------------------------------------------------------------- utilisation


def rows_wasted(seen: Symptoms) -> Rule:
    """Steps are taken for rows that have ended."""
    rule, share = _Named("row steps are wasted", "utilisation-bound"), useful_share(seen)
    if share is None:
        wanted = "useful tokens and rows x steps of the batches that run"
        return rule.unknown("useful tokens and rows x steps are not given", wanted)
    words = f"{q.percent(share)} of {q.count(seen.row_steps)} row steps made a token that was asked for"
    low = share < WASTED_ROWS.value
    return rule.told(low, f"{words}, {'under' if low else 'not under'} {q.percent(WASTED_ROWS.value)}")


def device_idles(seen: Symptoms) -> Rule:
    """Time passes between batches in which nothing runs."""
    rule = _Named("the device idles", "utilisation-bound")
    if seen.idle_share is None:
        return rule.unknown("the time between batches is not given", "the share of the time that the device idles between batches")
    high = seen.idle_share >= IDLE.value
    words = f"the device idles {q.percent(seen.idle_share)} of the time between batches"
    return rule.told(high, f"{words}, {'not under' if high else 'under'} {q.percent(IDLE.value)}")


def requests_wait(seen: Symptoms) -> Rule:
    """There is work for the rows and the time that are wasted."""
    rule, waiting = _Named("requests wait", "utilisation-bound"), waits(seen)
    if waiting is None:
        return rule.unknown("the queue is not given", "requests waiting at that load")
    if not waiting:
        return rule.quiet("nothing waits")
    parts = [
        f"{q.count(number)} {'request waits' if number == 1 else 'requests wait'}{what}"
        for number, what in ((seen.waiting_requests, ""), (seen.finished_waiting, ", finished, for the batch to end"))
        if number
    ]
    return rule.fired(" and ".join(parts))


# ---------------------------------------------------------------------------------------------- the decode step and arithmetic


def few_rows(seen: Symptoms) -> Rule:
    """So few rows run that verifying several tokens of each costs little more than one, and nobody else is there to join."""
    rule = _Named("few rows, and no more to come", "decode-step-bound")
    known = [number for number in (seen.streams, seen.batch) if number is not None]
    if not known:
        return rule.unknown("neither streams nor the running batch are given", "how many requests come at once")
    rows, limit = max(known), q.count(round(FEW_ROWS.value))
    words = f"{q.count(rows)} {'row runs' if rows == 1 else 'rows run'}" if seen.streams is None else _streams(rows)
    if rows > FEW_ROWS.value:
        return rule.quiet(f"{words}, more than {limit}")
    if seen.waiting_requests:
        return rule.quiet(f"{words}, but {q.count(seen.waiting_requests)} more wait and could join")
    if seen.streams is None and seen.waiting_requests is None:
        return rule.unknown(f"{words}; whether more would come is not given", "how many requests come at once, or how many wait")
    return rule.fired(f"{words} ({limit} or fewer), and no more wait")


def _streams(number: int) -> str:
    return "one stream" if number == 1 else f"{q.count(number)} streams"


def near_floor(seen: Symptoms) -> Rule:
    """A step takes about as long as reading the weights once."""
    rule, ratio = _Named("a step is near the weight-read floor", "decode-step-bound"), over_floor(seen)
    if ratio is not None:
        near = ratio <= NEAR_FLOOR.value
        step, floor = q.milliseconds(seen.step_s), q.milliseconds(floor_s(seen))
        words = f"a step takes {step} ms, {q.ratio(ratio)} the {floor} ms of reading the weights"
        return rule.told(near, f"{words}, {'not more' if near else 'more'} than {q.ratio(NEAR_FLOOR.value)}")
    if seen.mbu_share is not None:
        near = seen.mbu_share >= 1 / NEAR_FLOOR.value
        words = f"a step reads at {q.percent(seen.mbu_share)} of the bandwidth (MBU)"
        return rule.told(near, f"{words}, {'not under' if near else 'under'} {q.percent(1 / NEAR_FLOOR.value)}")
    return rule.unknown("step time and weight-read floor, or MBU, are not given", "a step's time beside weights / bandwidth, or MBU")


def memory_rests(seen: Symptoms) -> bool | None:
    """Reading does not take most of a step, so that units which are busy compute; None where that is not known."""
    near = near_floor(seen).state
    if near == "fired" or (seen.mbu_share is not None and seen.mbu_share >= 1 / NEAR_FLOOR.value):
        return False
    return True if near == "not fired" else None


def compute_at_peak(seen: Symptoms) -> Rule:
    """Arithmetic units have no room for more rows."""
    rule, wanted = _Named("compute is near its peak", "compute-bound"), "MFU: arithmetic done over the device's peak"
    if seen.mfu_share is not None:
        peak = seen.mfu_share >= PEAK_MFU.value
        words = f"MFU is {q.percent(seen.mfu_share)}, {'not under' if peak else 'under'} {q.percent(PEAK_MFU.value)}"
        return rule.told(peak, words)
    if (used := seen.compute_utilisation_share) is not None:
        words = f"compute utilisation is {q.percent(used)}"
        if used < PEAK_UTILISATION.value:
            return rule.quiet(f"{words}, under {q.percent(PEAK_UTILISATION.value)}")
        rests, exponent = memory_rests(seen), step_growth(seen)
        if rests is False:
            return rule.unknown(f"{words}, and the memory is busy too: waiting for it counts as busy", wanted)
        if exponent is not None and exponent <= CHEAP_ROWS.value:
            more = f"and yet more rows still pay: a step grows as the batch to the power {q.fixed(exponent, 2)}"
            return rule.unknown(f"{words}, {more}", wanted)
        if rests is None:
            return rule.unknown(f"{words}; whether the memory is busy too, which counts as busy, is not given", f"{wanted}, or else MBU")
        return rule.fired(f"{words}, not under {q.percent(PEAK_UTILISATION.value)}")
    exponent = step_growth(seen)
    if exponent is not None and exponent <= CHEAP_ROWS.value:
        return rule.quiet(f"more rows still pay: a step grows as the batch to the power {q.fixed(exponent, 2)}")
    return rule.unknown("neither MFU nor compute utilisation is given", wanted)


RULES = (
    memory_ran_out, compute_to_spare, rows_wasted, device_idles, requests_wait, few_rows, near_floor, compute_at_peak,
)  # fmt: skip
