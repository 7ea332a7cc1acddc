"""One run as it is shown and stored."""

from __future__ import annotations

from dataclasses import dataclass

from quantgate.records.asked import Budget, Price
from quantgate.records.baselines import BaselineLimits
from quantgate.records.devices import DeviceInfo, Roofs
from quantgate.records.golden import Scale
from quantgate.records.leverrows import BatchingRow, SpeculationRow, Trial
from quantgate.records.policy import Outcome, Policy, Verdict
from quantgate.records.rows import FlipCount, FlipRow, GoldenRow, MeasurementRow, QualityRow, ReadingRow
from quantgate.records.runs import Fingerprint
from quantgate.symptoms import Diagnosis


@dataclass(frozen=True, kw_only=True, slots=True)
class Promotion:
    """What was promoted, or why nothing was."""

    promoted: bool
    registry: str
    model: str
    alias: str
    variant: str | None
    version: str | None
    previous: str | None
    because: str
    trial: Trial | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class BaselineRow:
    """Today's reference beside the pinned one on a golden set; figures are None where ``why_not`` says why they were not compared."""

    golden_set: str
    holds: bool
    limits: BaselineLimits
    why_not: str = ""
    n: int | None = None
    b: int | None = None
    """Items that the pinned reference has right and today's wrong; of graded scores, items that lost."""
    c: int | None = None
    loss: float | None = None
    mean_then: float | None = None
    mean_now: float | None = None
    scale: Scale = "binary"
    mcnemar_p: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class BaselineReport:
    """What became of the baseline."""

    file: str
    why_not: str
    rows: tuple[BaselineRow, ...] = ()
    run_id: str | None = None
    created_at: str | None = None
    accepted_at: str | None = None
    accepted_by: str | None = None
    reason: str | None = None
    replaced: int = 0
    """Baselines before this one."""
    different: tuple[str, ...] = ()
    """What else is different since: code, libraries, machine."""
    reused: tuple[str, ...] = ()
    """Golden sets whose scores of today's reference are those of an earlier run with the same digest."""

    @property
    def holds(self) -> bool:
        """Today's reference is where the baseline has it, on every golden set."""
        return not self.why_not and bool(self.rows) and all(one.holds for one in self.rows)


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """report.json, schema version 1: everything a reader may want to know of a run, in plain values."""

    run_id: str
    created_at: str
    """UTC, ISO 8601."""
    model: str
    model_source: str
    model_note: str
    device: DeviceInfo | None
    outcome: Outcome
    exit_code: int
    headline: str
    sentences: tuple[str, ...]
    """One for each thing that is not a plain pass: what, how much, what was allowed, what to do next."""
    verdicts: tuple[Verdict, ...]
    chosen: str | None
    measurements: tuple[MeasurementRow, ...]
    quality: tuple[QualityRow, ...]
    flips: tuple[FlipRow, ...]
    golden_sets: tuple[GoldenRow, ...]
    policy: Policy
    policy_sha256: str
    evidence_sha256: str
    fingerprint: Fingerprint
    promotion: Promotion | None
    commands: tuple[str, ...]
    """Commands that reproduce or explain the run."""
    seconds: float
    schema_version: int = 1
    flip_counts: tuple[FlipCount, ...] = ()
    """Of variants and golden sets with more flips than are listed here; evidence.json has every item."""
    readings: tuple[ReadingRow, ...] = ()
    """Divergence and perplexity over texts; empty where the run had none."""
    baseline: BaselineReport | None = None
    """None where the run was asked for without one."""
    diagnosis: Diagnosis | None = None
    """Which limit binds, and which lever fits; None where nothing was filled or timed, and in reports of earlier versions."""
    batching: tuple[BatchingRow, ...] = ()
    """Static against continuous batching; empty where the run did not try it."""
    speculation: tuple[SpeculationRow, ...] = ()
    roofs: Roofs | None = None
    price: Price | None = None
    budget: Budget | None = None
