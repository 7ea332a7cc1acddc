"""Raw arrival times of generations, and the quadruples in which two variants are timed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite
from statistics import geometric_mean
from typing import Literal, TypeAlias

from quantgate.records.asked import MAIN
from quantgate.records.devices import DeviceInfo

TimedOutcome: TypeAlias = Literal["timed", "out of memory", "out of time", "died"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Generation:
    """One timed batch. ``step_s[i]`` is the time from the start until step i's ids had arrived for the whole batch."""

    batch_size: int
    prompt_tokens: int
    output_tokens: int
    """Tokens asked for in each row."""
    produced_tokens: int
    """Tokens of all rows, up to and including each row's first end of sequence."""
    step_s: tuple[float, ...]
    warmup: bool = False
    workload: str = MAIN

    @property
    def ttft_s(self) -> float | None:
        """Time to first token, prefill included."""
        return self.step_s[0] if self.step_s else None

    @property
    def itl_s(self) -> tuple[float, ...]:
        """Inter-token latencies: the time between one step's arrival and the next; empty for one token or none."""
        return tuple(after - before for before, after in zip(self.step_s, self.step_s[1:], strict=False))

    @property
    def prefill_tokens_per_s(self) -> float | None:
        """Prompt tokens of all rows over the time to first token; None without a step."""
        first = self.ttft_s
        return self.batch_size * self.prompt_tokens / first if first else None

    @property
    def end_to_end_tokens_per_s(self) -> float | None:
        """Produced tokens of all rows over the whole wall time, prefill included; None without a step."""
        return self.produced_tokens / self.step_s[-1] if self.step_s and self.step_s[-1] > 0 else None

    @property
    def tpot_s(self) -> float | None:
        """Time per output token after the first: (last - first) / (steps - 1); None for one token or none."""
        if len(self.step_s) < 2:
            return None
        return (self.step_s[-1] - self.step_s[0]) / (len(self.step_s) - 1)

    @property
    def output_tokens_per_s(self) -> float | None:
        """Decode throughput: tokens after each row's first one, over the wall time of decode; None without a decode step."""
        if len(self.step_s) < 2:
            return None
        wall = self.step_s[-1] - self.step_s[0]
        return (self.produced_tokens - self.batch_size) / wall if wall > 0 else None

    @property
    def early_stop(self) -> bool:
        """The rows produced fewer tokens than were asked for."""
        return self.produced_tokens < self.batch_size * self.output_tokens

    @property
    def why_no_speed(self) -> str | None:
        """Why its times are no speed: it did not produce the length it was to, or its clock did not run forward; None where they are."""
        if self.early_stop:
            return f"it stopped early: {self.produced_tokens} of {self.batch_size * self.output_tokens} tokens were produced"
        if not self.step_s or not all(isfinite(one) for one in self.step_s) or self.step_s[0] <= 0 or min(self.itl_s, default=0.0) < 0:
            return "its times are no rising row of finite seconds"
        return None


def decode_rates(generations: Iterable[Generation], batch_size: int) -> list[float]:
    """Decode tokens per second of each generation of the run's own workload at one batch size.

    Warm-ups are left out, and so is what is no speed: a generation that stopped early would be averaged in silently.
    """
    chosen = [one for one in generations if one.batch_size == batch_size and one.workload == MAIN and not one.warmup]
    return [rate for one in chosen if one.why_no_speed is None and (rate := one.output_tokens_per_s) is not None]


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeedPoint:
    """What is timed against what: a batch of the variant beside one of the reference, at a workload's lengths."""

    batch_size: int
    reference_batch: int | None
    """Another batch where each side runs at its own ceiling; None where the variant is timed alone, above the reference's ceiling."""
    workload: str = MAIN

    @property
    def at(self) -> str:
        """Where it is, in words."""
        where = f"batch {self.batch_size}"
        if self.reference_batch is not None and self.reference_batch != self.batch_size:
            where += f" (the reference's at {self.reference_batch})"
        return where if self.workload == MAIN else f"{where} of {self.workload}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Timed:
    """What a worker answers to one request to time a batch."""

    generations: tuple[Generation, ...]
    """Warm-ups first; empty unless it was timed."""
    outcome: TimedOutcome
    seconds: float
    """By the device's clock, warm-ups included."""
    why_not: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Quadruple:
    """Reference, variant, variant, reference at one point, timed one after the other: the unit of what is shown about speed."""

    point: SpeedPoint
    variant: tuple[int, int]
    """Places in the run's ``generations``."""
    reference: tuple[int, int] | None
    """Places in ``partner``; None where the variant was timed alone."""
    seconds: float = 0.0
    """What it cost, warm-ups included."""
    pair: int | None = None
    """Which pair of processes timed it, in the order in which they were started; None where that was not kept."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOut:
    """A point that was not timed, or not as often as was asked for, and why."""

    point: SpeedPoint
    because: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeedRun:
    """The timed generations of one variant; ``partner`` holds the reference's of the same quadruples."""

    variant: str
    generations: tuple[Generation, ...]
    partner: tuple[Generation, ...] = ()
    order: str = ""
    """The order inside a quadruple, for example ``R V V R``."""
    quadruples: tuple[Quadruple, ...] = ()
    """In the order they were timed; empty in runs of earlier versions."""
    left_out: tuple[LeftOut, ...] = ()
    looks: tuple[int, ...] = ()
    """Numbers of quadruples at which a check was to look, fixed beforehand."""
    complete: bool = True
    """False in what is kept while timing goes on."""
    seconds: float = 0.0
    """What it took by the run's clock."""
    device: DeviceInfo | None = None
    """As the variant's own process found it."""
    partner_device: DeviceInfo | None = None
    """As the reference's process found it."""

    def rates(self, batch_size: int) -> list[float]:
        """Decode tokens per second of each timed generation at one batch size of the run's own workload, warm-ups left out."""
        return decode_rates(self.generations, batch_size)

    def at(self, point: SpeedPoint) -> tuple[Quadruple, ...]:
        """The quadruples of a point, in the order they were timed."""
        return tuple(one for one in self.quadruples if one.point == point)

    def ratio(self, batch_size: int) -> float | None:
        """Geometric mean of the variant's rates over that of the reference in the same blocks; None where not paired."""
        ours, theirs = self.rates(batch_size), decode_rates(self.partner, batch_size)
        return geometric_mean(ours) / geometric_mean(theirs) if ours and theirs and min(*ours, *theirs) > 0 else None


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodeTime:
    """Wall time of decoding some prompts, from the arrival of each batch's first tokens to that of its last one."""

    seconds: float
    tokens: int
    """Of all rows, each row's first one left out: reading the prompt gives it."""

    @property
    def tokens_per_s(self) -> float | None:
        """None where no token was decoded, or no time passed."""
        return self.tokens / self.seconds if self.tokens and self.seconds > 0 else None
