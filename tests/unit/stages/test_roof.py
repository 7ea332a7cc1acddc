"""Timing what a device can do: which sizes are read, that the fastest way is the roof, and what happens where there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from quantgate.devices.fake import FAKE_BYTES_PER_S, FAKE_FLOPS_PER_S, FakeDevice
from quantgate.errors import EngineError, OutOfMemory
from quantgate.ports import Exercise
from quantgate.records import DeviceConfig
from quantgate.stages import roof
from sessions import quiet

MIB = 2**20


def fake() -> FakeDevice:
    return FakeDevice(DeviceConfig(kind="fake"))


def job(*dtypes: str, weight_bytes: Sequence[int] = (400_000_000,)) -> roof.Job:
    return roof.Job(weight_bytes=tuple(weight_bytes), dtypes=dtypes or ("float32",), repeats=3)


class Scripted(FakeDevice):
    """A fake device with other exercises."""

    def __init__(self, read: Any = None, multiply: Any = None) -> None:
        super().__init__(DeviceConfig(kind="fake"))
        self._read, self._multiply = read, multiply

    def reading(self, size_bytes: int) -> list[Exercise]:
        return super().reading(size_bytes) if self._read is None else self._read(self, size_bytes)

    def multiplying(self, side: int, dtype: str) -> Exercise:
        return super().multiplying(side, dtype) if self._multiply is None else self._multiply(self, side, dtype)


def _slower_and_faster(device: FakeDevice, size: int) -> list[Exercise]:
    return [Exercise(way=way, amount=size, run=partial(device.advance, size / rate)) for way, rate in (("slow", 1e9), ("fast", 3e9))]


def test_the_rates_of_a_scripted_device_are_found() -> None:
    """50 GB/s and 20 TFLOP/s come out as scripted, without scatter, after the barrier was asked for."""
    device = fake()
    found = roof.measure(device, job(), quiet)
    assert [one.median_per_s for one in found.reads] == [pytest.approx(FAKE_BYTES_PER_S)]
    assert [one.median_per_s for one in found.multiplies] == [pytest.approx(FAKE_FLOPS_PER_S)]
    assert found.reads[0].cv == pytest.approx(0.0, abs=1e-9)
    assert device.synchronized > 0
    assert found.before is not None and found.before.unknown


def test_the_fastest_way_is_the_roof() -> None:
    """Reading at 1 and at 3 GB/s: the roof is 3, and says how it was read."""
    found = roof.measure(Scripted(read=_slower_and_faster), job(), quiet)
    assert (found.reads[0].way, found.reads[0].median_per_s) == ("fast", pytest.approx(3e9))


def test_the_scatter_of_the_repeats_is_kept() -> None:
    """Repeats at 1, 2 and 3 GB/s have a coefficient of variation of a half."""
    speeds = iter([1e9, 1e9, 1e9, 2e9, 3e9])

    def reading(device: FakeDevice, size: int) -> list[Exercise]:
        return [Exercise(way="drifting", amount=size, run=lambda: device.advance(size / next(speeds)))]

    found = roof.measure(Scripted(read=reading), job(), quiet)
    assert found.reads[0].per_s == pytest.approx((1e9, 2e9, 3e9))
    assert found.reads[0].cv == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("weights", "cache", "total", "sizes"),
    [
        ((538 * MIB, 173 * MIB), 32 * MIB, 8192 * MIB, (538 * MIB,)),
        ((100 * MIB,), 32 * MIB, 8192 * MIB, (100 * MIB, 128 * MIB)),
        ((100 * MIB, 600 * MIB), 256 * MIB, 16_384 * MIB, (100 * MIB, 600 * MIB, 1024 * MIB)),
        ((16_000 * MIB,), 50 * MIB, 140_000 * MIB, (2048 * MIB,)),
        ((100 * MIB,), None, 8192 * MIB, (100 * MIB, 256 * MIB)),
        ((538 * MIB,), 32 * MIB, 1024 * MIB, (256 * MIB,)),
    ],
    ids=["all beyond the cache", "partly within", "a large cache", "a large model", "cache not known", "little memory"],
)
def test_sizes_are_those_of_the_models_and_one_beyond_the_cache(
    weights: tuple[int, ...], cache: int | None, total: int, sizes: tuple[int, ...]
) -> None:
    """Sizes under four times the cache are read each; above it one is enough, within 2 GiB and a quarter of the memory."""
    assert roof.working_sets(weights, cache, total) == sizes


def test_products_grow_until_one_takes_long() -> None:
    """At 1 GFLOP/s a product of 256 takes 34 ms and one of 512 0.27 s: larger ones are not tried."""
    sides: list[int] = []

    def multiply(device: FakeDevice, side: int, dtype: str) -> Exercise:
        sides.append(side)
        return Exercise(way=f"{side}", amount=2.0 * side**3, run=partial(device.advance, 2.0 * side**3 / 1e9))

    found = roof.measure(Scripted(multiply=multiply), job(), quiet)
    assert sides == [256, 512]
    assert found.multiplies[0].median_per_s == pytest.approx(1e9)


@pytest.mark.parametrize("error", [EngineError("torch does not multiply float8"), OutOfMemory("no memory for it")])
def test_what_the_device_cannot_do_is_a_reason(error: Exception) -> None:
    """A type that is not multiplied, or memory that is not there, costs its own roof and no other."""

    def multiply(device: FakeDevice, side: int, dtype: str) -> Exercise:
        if dtype == "float8":
            raise error
        return FakeDevice.multiplying(device, side, dtype)

    found = roof.measure(Scripted(multiply=multiply), job("float8", "float32"), quiet)
    assert [one.dtype for one in found.multiplies] == ["float32"]
    assert found.why_not == (f"multiplying in float8: {error}",)


def test_a_small_memory_budget_gives_a_smaller_working_set() -> None:
    """400 MB do not fit and a quarter does: that is read, and named; where nothing fits the reason is told."""

    def reading(most: int) -> Callable[[FakeDevice, int], list[Exercise]]:
        def read(device: FakeDevice, size: int) -> list[Exercise]:
            if size > most:
                raise OutOfMemory(f"{size} do not fit")
            return FakeDevice.reading(device, size)

        return read

    found = roof.measure(Scripted(read=reading(120_000_000)), job(), quiet)
    assert [one.working_set_bytes for one in found.reads] == [62_500_000]  # of a quarter of the device, halved twice
    none = roof.measure(Scripted(read=reading(0)), job(), quiet)
    assert none.reads == () and "do not fit" in none.why_not[0]


def test_a_clock_that_stands_still_gives_no_roof() -> None:
    """Work that takes no time is no rate, and never an infinite one."""

    def reading(device: FakeDevice, size: int) -> list[Exercise]:
        return [Exercise(way="nothing", amount=size, run=_nothing)]

    found = roof.measure(Scripted(read=reading), job(), quiet)
    assert found.reads == ()
    assert "clock did not move" in found.why_not[0]


def _nothing() -> None:
    """No time passes."""


def test_of_two_measurements_the_faster_counts() -> None:
    """Bandwidth from the second, the matrix rate from the first, and only what failed twice is missing."""
    slow = roof.measure(Scripted(read=_slower_and_faster), job(), quiet)
    fast = replace(roof.measure(fake(), job(), quiet), multiplies=(), why_not=("multiplying in float32: no",))
    found = roof.joined(slow, fast)
    assert found.reads == fast.reads and found.multiplies == slow.multiplies
    assert found.why_not == () and found.before == slow.before
    assert found.seconds == slow.seconds + fast.seconds
    assert roof.joined(None, fast) == fast
    assert roof.joined(replace(slow, why_not=fast.why_not), fast).why_not == fast.why_not


def test_progress_is_told_to_the_end() -> None:
    """A display sees each step, and the last one as done."""
    told: list[tuple[int, int]] = []
    note: Callable[[int, int, str], None] = lambda done, total, what: told.append((done, total))  # noqa: E731
    roof.measure(fake(), job(), note)
    assert told == [(0, 2), (1, 2), (2, 2)]
