"""A device whose clock and memory are scripted: the whole chain runs on it in seconds, and to the byte the same everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from quantgate.errors import EngineError, OutOfMemory
from quantgate.ports import Exercise
from quantgate.records import DeviceConfig, DeviceInfo, DeviceState, PeakMemory

FAKE_TOTAL_BYTES = 10**9
FAKE_CACHE_BYTES = 10**7
FAKE_BYTES_PER_S = 5e10
FAKE_FLOPS_PER_S = 2e13


class FakeWatch:
    """The peak of a watched block. ``peak`` may be read after the block."""

    def __init__(self) -> None:
        self.found: PeakMemory | None = None

    @property
    def peak(self) -> PeakMemory:
        if self.found is None:
            raise EngineError("the peak was read before its block ended")
        return self.found


class FakeDevice:
    """Memory is a counter with a limit, time a counter that only ``advance`` moves.

    ``script`` is asked at each allocation, with the bytes asked for, how many of the free bytes lie in pieces that no allocation can use:
    such bytes are reserved, as an allocator's cached blocks are, and ``release`` gives them back.
    """

    def __init__(self, config: DeviceConfig, script: Callable[[int], int] | None = None) -> None:
        total = FAKE_TOTAL_BYTES
        self._script = script
        self._stranded = 0
        self.info = DeviceInfo(
            kind="fake", name="fake device", total_bytes=total, threads=config.threads, cache_bytes=FAKE_CACHE_BYTES
        )
        self._limit = total
        self._now_s = 0.0
        self._live = 0
        self._peak = 0
        self._peak_reserved = 0
        self.synchronized = 0

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now_s += seconds

    wait = advance

    def allocate(self, size_bytes: int) -> None:
        """Take memory. Raises ``OutOfMemory`` where the device has no more, and then takes none."""
        if self._script is not None:
            self._stranded = self._script(size_bytes)
            self._peak_reserved = max(self._peak_reserved, self._live + self._stranded)
        if self._live + self._stranded + size_bytes > self._limit:
            raise OutOfMemory(
                f"the fake device has {self._limit - self._live - self._stranded} bytes left and {size_bytes} were asked for"
            )
        self._live += size_bytes
        self._peak = max(self._peak, self._live)
        self._peak_reserved = max(self._peak_reserved, self._live + self._stranded)

    def free(self, size_bytes: int) -> None:
        """Give memory back. The peak stays, as on a real device."""
        self._live -= size_bytes

    def reset_peak(self) -> None:
        """Set the peak to the live amount: neither to zero nor to what an earlier variant needed."""
        self._peak = self._live
        self._peak_reserved = self._live + self._stranded

    def synchronize(self) -> None:
        self.synchronized += 1

    def now_s(self) -> float:
        return self._now_s

    def live_bytes(self) -> int:
        return self._live

    @contextmanager
    def watch_memory(self) -> Iterator[FakeWatch]:
        self.reset_peak()
        before, watch = self._live, FakeWatch()
        try:
            yield watch
        finally:
            watch.found = PeakMemory(
                before_bytes=before, peak_bytes=self._peak, source="fake", reserved_bytes=self._peak_reserved
            )

    def release(self) -> None:
        """Give back what was reserved and not in use."""
        self._stranded = 0

    def reading(self, size_bytes: int) -> list[Exercise]:
        return [Exercise(way="script", amount=size_bytes, run=partial(self.advance, size_bytes / FAKE_BYTES_PER_S))]

    def multiplying(self, side: int, dtype: str) -> Exercise:
        flops = 2.0 * side**3
        return Exercise(way=f"script, {side:,} x {side:,}", amount=flops, run=partial(self.advance, flops / FAKE_FLOPS_PER_S))

    def state(self) -> DeviceState:
        return DeviceState(unknown=("a scripted device has neither clocks nor heat",))
