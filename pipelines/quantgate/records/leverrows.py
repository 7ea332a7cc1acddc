"""Rows of a report's tables of serving levers."""

from __future__ import annotations

from dataclasses import dataclass

from quantgate.records.batching import BatchingMode, FirstDifference
from quantgate.records.speculation import Parting


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """The candidate that was put on trial beside the one that is out: the best other one that passed."""

    alias: str
    variant: str
    version: str
    previous: str | None
    """The version that the alias pointed at before."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tail:
    """Percentiles of a time, in seconds, by nearest rank: each is a time that was measured."""

    n: int
    p50_s: float
    p90_s: float
    p99_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduleBar:
    """One request in the schedule of a run: the row that held it, when it began and ended, and until when its row was held."""

    row: int
    request_id: str
    started_s: float
    ended_s: float
    held_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchingRow:
    """One engine serving in one way under one pattern of arrivals: medians over repeats, tails over all of them."""

    variant: str
    engine: str
    mode: BatchingMode
    arrivals: str
    rows: int
    requests: int
    repeats: int
    dtype: str
    library: str
    useful_tokens: int | None
    useful_tokens_per_s: float | None
    rates_per_s: tuple[float, ...]
    """Useful tokens/s of each repeat."""
    utilisation: float | None
    steps: int | None
    wall_s: float | None
    ttft: Tail | None
    itl: Tail | None
    queued: Tail | None
    preemptions: int | None
    recomputed_tokens: int | None
    differing: int | None
    """Requests with another id than alone, in any repeat; None where nothing was compared."""
    first_difference: FirstDifference | None
    """Of the one that alone was surest of its own id."""
    ties_only: bool
    """Every difference lies where alone hardly preferred its own id."""
    why_not: str | None
    speed_ratio: float | None = None
    """Useful tokens/s over those of the run's static batches: the baseline, which the first static row is."""
    own_speed_ratio: float | None = None
    """continuous: over the same engine's static batches."""
    utilisation_gain: float | None = None
    """continuous: over the same engine's static batches."""
    itl_p99_ratio: float | None = None
    """continuous: over the same engine's static batches."""
    schedule: tuple[ScheduleBar, ...] = ()
    """Of the first repeat."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeculationFigures:
    """One number of drafted tokens at one batch size, as shown."""

    draft_tokens: int
    batch_size: int
    steps: int
    drafted: int
    accepted: int
    emitted: int
    acceptance: float | None
    acceptance_at: tuple[float | None, ...]
    mean_length: float | None
    plain_tokens_per_s: float | None
    tokens_per_s: float | None
    speed_ratio: float | None
    speed_ratio_low: float | None
    speed_ratio_high: float | None
    partings: int
    """Outputs that are not token-identical to plain greedy decoding."""
    partings_beyond_rounding: int
    first_parting: Parting | None = None
    """The one that parts earliest in its output."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeculationRow:
    """One drafter in the report."""

    drafter: str
    dtype: str
    prompts: int
    why_not: str | None
    figures: tuple[SpeculationFigures, ...]
    loss_from_batch: int | None
    """The smallest measured batch at which no number of drafted tokens is faster than plain decoding; None where there is none."""
    draft_weight_bytes: int | None
    draft_kv_bytes_per_row: int | None
    ceiling: int | None
    """Predicted requests of the workload's lengths without a drafter."""
    ceiling_beside: int | None
    """The same with the drafter's weights and cache taken off."""
    sentence: str
