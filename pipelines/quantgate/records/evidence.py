"""All that one run measured, before anything is judged."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Literal

from quantgate.records.artifacts import Artifact, Loaded
from quantgate.records.asked import Budget, Price, Variant
from quantgate.records.baselines import BaselineEvidence
from quantgate.records.batching import BatchingRun
from quantgate.records.devices import DeviceInfo, Roofs
from quantgate.records.divergence import CanaryReading, TextReading
from quantgate.records.memory import Capacity
from quantgate.records.runs import Failure, Fingerprint
from quantgate.records.scoresheet import ScoreSheet
from quantgate.records.speculation import SpeculationRun
from quantgate.records.speed import SpeedRun


@dataclass(frozen=True, kw_only=True, slots=True)
class Opened:
    """A variant as loaded, and the device that it was loaded on."""

    loaded: Loaded
    device: DeviceInfo


@dataclass(frozen=True, kw_only=True, slots=True)
class VariantEvidence:
    """Everything a run knows of one variant: what is missing stays None and the gate treats it as not measured."""

    variant: Variant
    artifact: Artifact | None = None
    loaded: Loaded | None = None
    sheets: tuple[ScoreSheet, ...] = ()
    capacity: Capacity | None = None
    speed: SpeedRun | None = None
    device: DeviceInfo | None = None
    failures: tuple[Failure, ...] = ()
    reused: tuple[str, ...] = ()
    """Stages whose result was taken from an earlier run with the same digest."""
    source: Literal["session", "file"] = "session"
    """``file``: scores that somebody else's tool wrote; nothing is known of weights, memory or speed."""
    reading: TextReading | None = None
    """How it read the texts of the run's divergence; None where there are none, or where the stage failed."""
    canaries: tuple[CanaryReading, ...] = ()
    """Of a candidate, a golden set each, up to the one that ended its scoring."""

    @property
    def tokens_per_s_at_ceiling(self) -> float | None:
        """Median decode tokens per second at the variant's own confirmed ceiling; None where either was not measured."""
        if self.speed is None or self.capacity is None or not self.capacity.confirmed:
            return None
        rates = self.speed.rates(self.capacity.confirmed)
        return median(rates) if rates else None


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldenPart:
    """A slice of a golden set as the gate needs it."""

    name: str
    item_ids: tuple[str, ...]
    chance_level: float


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldenReference:
    """A golden set as the gate needs it: ids, chance level, digest, slices; not the questions."""

    name: str
    version: str
    sha256: str
    item_ids: tuple[str, ...]
    chance_level: float
    """Mean accuracy of guessing: 1 / choices for multiple choice, 0 for generated answers."""
    parts: tuple[GoldenPart, ...] = ()
    """The slices in order of first appearance; empty in evidence of runs that did not note them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """All that the gate may look at. Its digest stands in every verdict."""

    variants: tuple[VariantEvidence, ...]
    golden_sets: tuple[GoldenReference, ...]
    fingerprint: Fingerprint
    schema_version: int = 1
    baseline: BaselineEvidence | None = None
    """The pinned reference that today's is compared with first; None where the run was asked for without one."""
    batching: tuple[BatchingRun, ...] = ()
    """Static against continuous batching; empty where the run did not try it."""
    speculation: tuple[SpeculationRun, ...] = ()
    """A drafter each; empty where speculation was not asked for."""
    roofs: Roofs | None = None
    """None where nothing was timed."""
    price: Price | None = None
    budget: Budget | None = None
