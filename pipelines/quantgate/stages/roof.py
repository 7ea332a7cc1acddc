"""Time what the device can do at most: bytes read a second, operations a second. The caller keeps the clock, as for everything timed.

Memory is read at the size of each variant's weights, because a small model lies in the last-level cache and is read faster than memory
can be, and at a size well beyond that cache. Sizes that are beyond it anyway say the same and are read once. Every rate is repeated; the
fastest way of doing a thing is its roof, with the scatter of its repeats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from quantgate.errors import EngineError, OutOfMemory
from quantgate.ports import Device, Exercise, Progress
from quantgate.records import RoofRate, Roofs

REPEATS = 9
LEAST_S = 0.01
"""One repeat takes as long as this at least: shorter ones would time the call."""
SMALLEST_SIDE, LARGEST_SIDE = 256, 8192
LONG_S = 0.05
"""A product that takes this long is large enough."""
BEYOND_CACHE = 4
"""A working set so many times the last-level cache is memory's own business."""
UNKNOWN_CACHE_BYTES = 256 * 2**20
LEAST_BYTES = 2**20
LARGEST_BYTES = 2 * 2**30
"""Beyond the cache the size changes nothing; a large model need not be imitated whole."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """What is to be compared with roofs: bytes of weights of each timed variant, and the types that they may compute in."""

    weight_bytes: tuple[int, ...]
    dtypes: tuple[str, ...]
    repeats: int = REPEATS


def measure(device: Device, job: Job, progress: Progress) -> Roofs:
    """The roofs, and why one is missing. Takes a few seconds; raises nothing that the device may answer."""
    started_s, before = device.now_s(), device.state()
    sizes = working_sets(job.weight_bytes, device.info.cache_bytes, device.info.total_bytes)
    steps = len(sizes) + len(job.dtypes)
    reads: list[RoofRate] = []
    multiplies: list[RoofRate] = []
    why_not: list[str] = []
    for index, size in enumerate(sizes):
        progress(index, steps, "reading memory")
        try:
            reads.append(_reading(device, size, job.repeats))
        except EngineError as error:
            why_not.append(f"reading {size:,} bytes: {error}")
        device.release()
    for index, dtype in enumerate(job.dtypes):
        progress(len(sizes) + index, steps, f"multiplying in {dtype}")
        try:
            multiplies.append(_multiplying(device, dtype, job.repeats))
        except EngineError as error:
            why_not.append(f"multiplying in {dtype}: {error}")
        device.release()
    progress(steps, steps, "roofs")
    return Roofs(
        reads=tuple(reads),
        multiplies=tuple(multiplies),
        cache_bytes=device.info.cache_bytes,
        before=before,
        why_not=tuple(why_not),
        seconds=device.now_s() - started_s,
    )


def joined(first: Roofs | None, again: Roofs) -> Roofs:
    """Two measurements of one device: of each thing the faster one, for a roof is the most that the device did."""
    if first is None:
        return again
    best: dict[tuple[str, str, int], RoofRate] = {}
    for one in (*first.reads, *first.multiplies, *again.reads, *again.multiplies):
        key = (one.what, one.dtype, one.working_set_bytes if one.what == "read" else 0)
        if key not in best or one.median_per_s > best[key].median_per_s:
            best[key] = one
    return replace(
        first,
        reads=tuple(one for one in best.values() if one.what == "read"),
        multiplies=tuple(one for one in best.values() if one.what == "multiply"),
        why_not=tuple(why for why in first.why_not if why in again.why_not),
        seconds=first.seconds + again.seconds,
    )


def working_sets(weight_bytes: Sequence[int], cache_bytes: int | None, total_bytes: int) -> tuple[int, ...]:
    """Sizes to read, ascending: each that the cache may hold in part, and the largest beyond it, within a quarter of the device."""
    most = max(1, min(LARGEST_BYTES, total_bytes // 4))
    beyond = min(most, UNKNOWN_CACHE_BYTES if cache_bytes is None else max(BEYOND_CACHE * cache_bytes, 1))
    within = {size for size in weight_bytes if 0 < size < beyond}
    return tuple(sorted({*within, min(most, max(beyond, *weight_bytes, 1))}))


def _reading(device: Device, size_bytes: int, repeats: int) -> RoofRate:
    """At that size, or at half of it as often as a device with a small memory budget needs."""
    try:
        ways: Sequence[Exercise] = device.reading(size_bytes)
    except OutOfMemory:
        if size_bytes < 2 * LEAST_BYTES:
            raise
        ways = ()
    if not ways:
        device.release()
        return _reading(device, size_bytes // 2, repeats)
    found = [(one.way, _rates(device, one, repeats)) for one in ways]
    way, rates = max(found, key=lambda one: median(one[1]))
    return RoofRate(what="read", dtype="float32", way=way, working_set_bytes=size_bytes, per_s=rates)


def _multiplying(device: Device, dtype: str, repeats: int) -> RoofRate:
    """Products of doubling size until one takes long; small ones do not fill the device, and a slow type needs no large one."""
    best: RoofRate | None = None
    side = SMALLEST_SIDE
    while side <= LARGEST_SIDE:
        exercise = device.multiplying(side, dtype)
        once_s = _once_s(device, exercise, 1)
        rate = RoofRate(
            what="multiply",
            dtype=dtype,
            way=exercise.way,
            working_set_bytes=3 * side * side * _element_bytes(dtype),
            per_s=_rates(device, exercise, 3 if once_s > LONG_S else repeats),
        )
        best = rate if best is None or rate.median_per_s > best.median_per_s else best
        if once_s > LONG_S:
            break
        side *= 2
    if best is None:
        raise EngineError("no product was timed")
    return best


def _element_bytes(dtype: str) -> int:
    return next((size for name, size in (("64", 8), ("32", 4), ("16", 2), ("8", 1)) if name in dtype), 4)


def _rates(device: Device, exercise: Exercise, repeats: int) -> tuple[float, ...]:
    """Amount over time of each repeat, after one that warms up and says how often to go within one."""
    _once_s(device, exercise, 1)
    goes = max(1, round(LEAST_S / max(_once_s(device, exercise, 1), 1e-6)))
    took = [_once_s(device, exercise, goes) for _ in range(repeats)]
    if min(took) <= 0:
        raise EngineError("the device's clock did not move")
    return tuple(exercise.amount * goes / one for one in took)


def _once_s(device: Device, exercise: Exercise, goes: int) -> float:
    device.synchronize()
    started_s = device.now_s()
    for _ in range(goes):
        exercise.run()
    device.synchronize()
    return device.now_s() - started_s
