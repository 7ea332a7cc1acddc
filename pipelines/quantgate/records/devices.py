"""What a device says of itself, and its roofs."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import Literal


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceInfo:
    """The device as found. Peak figures are None where they are not known."""

    kind: str
    name: str
    total_bytes: int
    threads: int | None = None
    peak_bytes_per_s: float | None = None
    peak_flops_per_s: float | None = None
    driver: str | None = None
    other_processes: int | None = None
    other_bytes: int | None = None
    """Memory of other processes on the device when it was opened."""
    used_bytes: int | None = None
    """What the whole device showed in use when it was opened."""
    uuid: str | None = None
    allocator: str | None = None
    """Settings of the allocator that change what fits, for example ``expandable_segments:True``."""
    cache_bytes: int | None = None
    """Last-level cache; None where the system does not tell."""
    peak_source: str | None = None
    """Whose datasheet the peak figures are from; None without them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceState:
    """What a device tells of its clocks and its heat at a moment; None where it does not, with the reason in ``unknown``."""

    governor: str | None = None
    clock_hz: float | None = None
    """Of a CPU the median over its cores, of a GPU its multiprocessors'."""
    memory_clock_hz: float | None = None
    throttle_events: int | None = None
    """How often the CPU was slowed down by heat since it was switched on: two states tell what happened between them."""
    throttled: tuple[str, ...] | None = None
    """Why a GPU's clocks are held down now; empty where they are not."""
    temperature_c: float | None = None
    unknown: tuple[str, ...] = ()
    """A sentence for each thing that cannot be read here."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RoofRate:
    """What the device did at most of one thing: bytes read a second, or operations a second, each repeat of the fastest way."""

    what: Literal["read", "multiply"]
    dtype: str
    way: str
    """What was run, for example ``sum`` or ``product of 1,024 x 1,024``."""
    working_set_bytes: int
    per_s: tuple[float, ...]

    @property
    def median_per_s(self) -> float:
        """The roof."""
        return median(self.per_s)

    @property
    def cv(self) -> float:
        """Standard deviation over mean of the repeats; 0 for a single one."""
        return stdev(self.per_s) / fmean(self.per_s) if len(self.per_s) > 1 else 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Roofs:
    """Bandwidth and matrix rates of the device, measured in the run that they are compared with."""

    reads: tuple[RoofRate, ...] = ()
    """A working set each: of the model's size, and one beyond the last-level cache."""
    multiplies: tuple[RoofRate, ...] = ()
    """A type of numbers each."""
    cache_bytes: int | None = None
    before: DeviceState | None = None
    after: DeviceState | None = None
    """When everything had been timed."""
    why_not: tuple[str, ...] = ()
    """What could not be measured, a sentence each."""
    seconds: float = 0.0
