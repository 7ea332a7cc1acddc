"""Peaks, the fills of a search, and the ceiling that they confirm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

OPEN_ENDED = ("search cap", "time")
"""What ends a search for a ceiling before a batch fails: the batch that held is at least so much, and no maximum."""
FillOutcome: TypeAlias = Literal["fits", "over budget", "out of memory", "too short", "out of time"]
FillPurpose: TypeAlias = Literal["prefill", "decode", "probe", "confirm"]
LimitedBy: TypeAlias = Literal["memory", "engine", "search cap", "time"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PeakMemory:
    """Live bytes before a watched block and its peak. ``source``: allocator, process or device."""

    before_bytes: int
    peak_bytes: int
    source: Literal["allocator", "process", "fake"]
    reserved_bytes: int | None = None
    """What the allocator held at its peak, free blocks included; None where it does not tell."""
    device_bytes: int | None = None
    """What the whole device showed in use at the end of the block, other processes included; None where it does not tell."""

    @property
    def added_bytes(self) -> int:
        """Bytes the block added at its peak."""
        return max(0, self.peak_bytes - self.before_bytes)


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """One attempted fill."""

    batch_size: int
    outcome: FillOutcome
    peak_bytes: int | None
    purpose: FillPurpose
    reserved_bytes: int | None = None
    """What the allocator held at its peak, free blocks included; None where it does not tell."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoringCeiling:
    """The largest batch of whole prompts that is read in one go for log-likelihoods, apart from the ceiling of generation."""

    prompt_tokens: int
    confirmed: int | None
    limited_by: LimitedBy | None
    probes: tuple[Probe, ...] = ()
    why_not: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Capacity:
    """The batch ceiling at stated lengths: predicted from arithmetic and small fills, confirmed by real ones.

    ``kv_bytes_per_row`` is arithmetic; ``decode_bytes_per_row`` was measured in the last step and holds the cache and activations.

    ``confirmed`` 0 means that not even one request fits; None means not measured, with ``why_not``.
    """

    prompt_tokens: int
    output_tokens: int
    budget_bytes: int | None
    fixed_bytes: int | None
    prefill_bytes_per_row: int | None
    decode_bytes_per_row: int | None
    kv_bytes_per_row: int | None
    predicted: int | None
    confirmed: int | None
    limited_by: LimitedBy | None
    probes: tuple[Probe, ...] = ()
    why_not: str | None = None
    seconds: float = 0.0
    scoring: ScoringCeiling | None = None

    @property
    def probe_count(self) -> int:
        """Search probes; the small fills and repeats of the final batch are not probes."""
        return sum(probe.purpose == "probe" for probe in self.probes)

    @property
    def prediction_error(self) -> float | None:
        """(predicted - confirmed) / confirmed; None where the ceiling is none of memory's, or either is missing or 0."""
        if self.limited_by != "memory" or not self.confirmed or self.predicted is None:
            return None
        return (self.predicted - self.confirmed) / self.confirmed

    @property
    def unsteady(self) -> tuple[int, ...]:
        """Batches that fitted in one fill and not in another: memory is in pieces, or something else took some."""
        found = {one.batch_size: set[bool]() for one in self.probes if one.purpose in ("probe", "confirm")}
        for one in self.probes:
            if one.batch_size in found and one.purpose in ("probe", "confirm") and one.outcome != "out of time":
                found[one.batch_size].add(one.outcome == "fits")
        return tuple(sorted(batch for batch, outcomes in found.items() if len(outcomes) == 2))

    @property
    def stranded_bytes(self) -> int | None:
        """The most that the allocator held and could not use while a fill ran out of memory; None where it does not tell."""
        failed = [one for one in self.probes if one.outcome == "out of memory" and one.reserved_bytes is not None]
        return max((max(0, (one.reserved_bytes or 0) - (one.peak_bytes or 0)) for one in failed), default=None)
