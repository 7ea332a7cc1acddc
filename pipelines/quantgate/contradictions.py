"""Evidence that cannot all be right: figures against physics, against the arithmetic of memory, and against one another.

Each contradiction names the measurement that would settle it. Refuses to choose between two figures: whoever took them
knows which to take again.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from quantgate.limits import fits, floor_s, over_floor, step_growth, timed_pair
from quantgate.render import quantities as q
from quantgate.symptoms import Contradiction, Symptoms
from quantgate.thresholds import (
    DEAR_ROWS,
    FASTER_THAN_FLOOR,
    NEAR_BANDWIDTH,
    NEAR_FLOOR,
    PEAK_MFU,
    POOL_EMPTY,
    SAME_TIME,
    SHOULD_FIT,
    SPARE_MFU,
    SPARE_UTILISATION,
)


def contradictions(seen: Symptoms) -> Iterator[Contradiction]:
    """Each set of figures that cannot all be right, with the measurement that would settle it."""
    yield from _against_physics(seen)
    yield from _against_fills(seen)
    yield from _between_levels(seen)
    yield from _between_requests(seen)


def _against_physics(seen: Symptoms) -> Iterator[Contradiction]:
    ratio, exponent, pair = over_floor(seen), step_growth(seen), timed_pair(seen)
    if ratio is not None and ratio < FASTER_THAN_FLOOR.value:
        floor = q.milliseconds(floor_s(seen))
        yield Contradiction(
            because=f"a step of {q.milliseconds(seen.step_s)} ms is faster than the {floor} ms that reading the weights takes",
            wanted="steps with the device synchronised, and the bandwidth over a working set of the model's size",
        )
    if ratio is not None and seen.mbu_share is not None and seen.mbu_share + SAME_TIME.value < 1 / ratio:
        reads = f"and yet reads at {q.percent(seen.mbu_share)} of the bandwidth"
        because = f"a step takes {q.ratio(ratio)} the time of reading the weights, {reads}"
        yield Contradiction(because=because, wanted="the step's time and MBU again, over the same steps")
    if pair is not None and exponent is not None and exponent < -SAME_TIME.value:
        yield Contradiction(
            because=f"a step at batch {pair[1].batch} is faster than one at batch {pair[0].batch}", wanted="both again, interleaved"
        )
    if (exponent or 0) >= DEAR_ROWS.value and _has_room(seen):
        yield Contradiction(
            because=f"arithmetic has room, and yet a step grows as the batch to the power {q.fixed(exponent, 2)}: more rows would not pay",
            wanted="MBU at the largest batch: whether reading the caches takes the time, or a slow kernel",
        )


def _has_room(seen: Symptoms) -> bool:
    """MFU, or else compute utilisation, is low."""
    if seen.mfu_share is not None:
        return seen.mfu_share <= SPARE_MFU.value
    return seen.compute_utilisation_share is not None and seen.compute_utilisation_share <= SPARE_UTILISATION.value


def _against_fills(seen: Symptoms) -> Iterator[Contradiction]:
    for whole, what in ((seen.memory_total_bytes, "there are"), (seen.memory_used_bytes, "are in use")):
        if whole is not None and seen.weight_bytes is not None and seen.weight_bytes > whole:
            because = f"weights take {q.decimal_bytes(seen.weight_bytes)} and {q.decimal_bytes(whole)} {what}"
            yield Contradiction(because=because, wanted="weights as loaded and the memory in use, on the same device at the same moment")
            break
    ran_out = seen.out_of_memory or (seen.out_of_memory is None and seen.failed_batch is not None)
    if ran_out and seen.kv_pool_used_share is not None and seen.kv_pool_used_share < POOL_EMPTY.value:
        yield Contradiction(
            because=f"memory ran out while the KV pool was {q.percent(seen.kv_pool_used_share)} full",
            wanted="the peak of reading the prompts, and other processes on the device, at the moment that memory runs out",
        )
    fitting, failed = fits(seen), seen.failed_batch
    if fitting is None or failed is None or failed == 1:
        return
    if fitting >= failed:
        because = f"batch {q.count(fitting)} fits and batch {q.count(failed)} does not"
        yield Contradiction(because=because, wanted="fills of both again, in fresh processes")
        return
    if ran_out and seen.batch is not None and seen.batch >= failed:
        because = f"batch {q.count(seen.batch)} runs and batch {q.count(failed)} does not fit"
        yield Contradiction(because=because, wanted="fills of both again, in fresh processes")
        return
    total, used = seen.memory_total_bytes, seen.memory_used_bytes
    if not ran_out or total is None or used is None:
        return
    most = used * failed / fitting  # at most: of what is in use only the requests' part grows
    if seen.request_bytes is not None:
        most = min(most, used + seen.request_bytes * (failed - fitting))
    if most < SHOULD_FIT.value * total:
        then = f"{q.decimal_bytes(round(most))} at most at batch {q.count(failed)}"
        fitted = f"{q.decimal_bytes(used)} at batch {q.count(fitting)} make {then}, which fits in {q.decimal_bytes(total)}"
        wanted = "a fill of that batch again, with other processes and fragmented memory looked for"
        yield Contradiction(because=f"{fitted}, and yet memory ran out", wanted=wanted)


def _between_levels(seen: Symptoms) -> Iterator[Contradiction]:
    used, mfu, idle = seen.compute_utilisation_share, seen.mfu_share, seen.idle_share
    if used is not None and mfu is not None and mfu > used + SAME_TIME.value:
        because = f"MFU is {q.percent(mfu)} and compute utilisation {q.percent(used)}, more than the units are busy"
        yield Contradiction(because=because, wanted="both over the same time")
    if used is not None and idle is not None and used + idle > 1 + SAME_TIME.value:
        because = f"the device idles {q.percent(idle)} of the time and its units are busy {q.percent(used)} of it"
        yield Contradiction(because=because, wanted="both over the same time")
    floor = over_floor(seen) or inf
    memory_busy = (seen.mbu_share or 0) >= NEAR_BANDWIDTH.value or floor <= NEAR_FLOOR.value
    if mfu is not None and mfu >= PEAK_MFU.value and memory_busy:
        wanted = "a step's time at half and at double the batch: which of the two it follows"
        yield Contradiction(because="arithmetic and memory are both near their peaks", wanted=wanted)


def _between_requests(seen: Symptoms) -> Iterator[Contradiction]:
    """Requests that come at once are those that run and those that wait; of the rows that run some may be done."""
    there = (seen.batch or 0) + (seen.waiting_requests or 0)
    if seen.streams is not None and seen.streams < there:
        because = f"{q.count(seen.streams)} requests come at once, and {q.count(there)} run or wait"
        yield Contradiction(because=because, wanted="requests running and waiting, at one moment of the load that is meant")
    if seen.finished_waiting is not None and seen.batch is not None and seen.finished_waiting > seen.batch:
        because = f"{q.count(seen.finished_waiting)} rows are done and wait for their batch to end, and {q.count(seen.batch)} rows run"
        yield Contradiction(because=because, wanted="rows and finished rows of one batch")
