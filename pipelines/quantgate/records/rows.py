"""Rows of a report's tables: what each variant measured, how it answered, what changed item by item."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from quantgate.records.artifacts import Proof
from quantgate.records.asked import MAIN, KVBytes, KVCache, Role
from quantgate.records.divergence import KLStatistics
from quantgate.records.golden import Scale
from quantgate.records.memory import LimitedBy
from quantgate.records.runs import Failure
from quantgate.records.scores import MetricFigure
from quantgate.records.speed import LeftOut


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeedRow:
    """Speed at one batch size: medians over blocks, with the spread beside them."""

    batch_size: int
    ttft_s: float | None
    tpot_s: float | None
    output_tokens_per_s: float | None
    output_tokens_per_s_low: float | None
    output_tokens_per_s_high: float | None
    generations: int
    warmups: int
    ratio_to_reference: float | None
    """Geometric mean of variant / reference over interleaved pairs at the same batch size; None where not paired."""
    early_stop_share: float = 0.0
    ratio_low: float | None = None
    """Lower t bound of the ratio over quadruples; None with fewer than four."""
    ratio_high: float | None = None
    ratio_level: float | None = None
    """One-sided confidence of each of the two bounds."""
    quadruples: int = 0
    cv: float | None = None
    """Standard deviation of the log ratio from quadruple to quadruple, about the coefficient of variation of one run."""
    itl_p50_s: float | None = None
    """Median of the times between one token and the next, of all generations together."""
    itl_p90_s: float | None = None
    itl_p99_s: float | None = None
    """None under 100 such times."""
    prefill_tokens_per_s: float | None = None
    end_to_end_tokens_per_s: float | None = None
    workload: str = MAIN


@dataclass(frozen=True, kw_only=True, slots=True)
class RooflineRow:
    """One batch size against the roofs: what a step must do, the least time for it, and the time it took."""

    batch_size: int
    workload: str = MAIN
    """Whose lengths the rows have: the cache that a step reads follows from them."""
    why_not: str | None = None
    """Why the figures below are missing; None where they are there."""
    fault: str | None = None
    """What lies above its roof by more than the roof's own scatter: the batch's speed is a measuring fault and not shown."""
    step_bytes: float | None = None
    """Weights used and the KV cache of all rows, in the mean over the decode steps."""
    step_flops: float | None = None
    memory_floor_s: float | None = None
    compute_floor_s: float | None = None
    bound: Literal["memory", "compute"] | None = None
    """Which roof the step meets first."""
    tpot_s: float | None = None
    mbu: float | None = None
    """Memory floor over the time a step took."""
    mfu: float | None = None
    """Compute floor over the time a step took."""
    prefill_flops: float | None = None
    prefill_mfu: float | None = None
    """Least time to multiply the prompts over the time to the first token."""

    @property
    def intensity(self) -> float | None:
        """Operations a byte."""
        return self.step_flops / self.step_bytes if self.step_flops is not None and self.step_bytes else None

    @property
    def flops_per_s(self) -> float | None:
        """What the step did a second."""
        return self.step_flops / self.tpot_s if self.step_flops is not None and self.tpot_s else None


@dataclass(frozen=True, kw_only=True, slots=True)
class CostRow:
    """What output tokens cost at a variant's best batch: the one with the most output tokens a second, prompts included."""

    why_not: str | None = None
    batch_size: int | None = None
    output_tokens_per_s: float | None = None
    """Produced tokens over the whole time of a batch, reading the prompts included: that is what the hour pays for."""
    per_million_tokens: float | None = None
    tokens_per_unit: float | None = None
    """Output tokens for one unit of the currency."""
    currency: str = "USD"
    ratio_to_reference: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Crossover:
    """Where a variant's speed over the reference's, at equal batches, goes through 1 along the batch sizes that were timed."""

    kind: Literal["crosses", "faster", "slower", "several", "even", "not_measured"]
    """``even``: at no batch told apart from the reference."""
    batch: float | None = None
    """Between measured batches, on a logarithmic scale; of several the first."""
    low: float | None = None
    high: float | None = None
    level: float | None = None
    why_no_interval: str | None = None
    falls: bool | None = None
    """Faster before it and slower behind it; None where nothing crosses."""
    smallest: int | None = None
    largest: int | None = None
    """The batches that were timed beside the reference."""
    why_not: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CeilingRow:
    """The batch ceiling in the report."""

    predicted: int | None
    confirmed: int | None
    limited_by: LimitedBy | None
    probes: int
    prompt_tokens: int
    output_tokens: int
    budget_bytes: int | None
    fixed_bytes: int | None
    prefill_bytes_per_row: int | None
    decode_bytes_per_row: int | None
    kv_bytes_per_row: int | None
    why_not: str | None
    prediction_error: float | None = None
    """(predicted - confirmed) / confirmed; None where memory did not set the ceiling."""
    scoring: int | None = None
    """Batch ceiling of reading whole prompts for log-likelihoods."""
    scoring_limited_by: LimitedBy | None = None
    notes: tuple[str, ...] = ()
    """What a reader must know of the fills, a sentence each."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasurementRow:
    """What was measured of one variant."""

    variant: str
    role: Role
    scheme: str
    quantizer: str
    artifact_path: str | None
    artifact_sha256: str | None
    stored_bytes: int | None
    weight_bytes: int | None
    freed_bytes: int | None
    freed_share: float | None
    freed_simulated: bool
    logical_parameters: int | None
    share_quantized: float | None
    modules_replaced: int | None
    modules_left: tuple[str, ...]
    kernels: Mapping[str, int]
    dtype: str | None
    process_bytes: int | None
    file_backed_bytes: int | None
    ceiling: CeilingRow | None
    speed: tuple[SpeedRow, ...]
    tokens_per_s_at_ceiling: float | None
    ratio_at_ceiling: float | None
    """Tokens per second at the variant's own ceiling over the reference's at its own."""
    note: str
    failures: tuple[Failure, ...]
    reused: tuple[str, ...]
    proof: Proof | None = None
    other_speed: tuple[SpeedRow, ...] = ()
    """Speed at other workloads' lengths."""
    speed_left_out: tuple[LeftOut, ...] = ()
    at_ceiling: SpeedRow | None = None
    """Both sides at their own confirmed ceilings, paired; the row's figures are the variant's."""
    kv_cache: KVCache | None = None
    kv_bytes: KVBytes | None = None
    roofline: tuple[RooflineRow, ...] = ()
    cost: CostRow | None = None
    """None where the run has no price."""
    crossover: Crossover | None = None
    """None for the reference, and where nothing was timed."""
    build_s: float | None = None
    """Seconds that building the artifact took, in this run or in the earlier one that built it."""

    @property
    def kv_tokens_freed(self) -> int | None:
        """Tokens of cache that the freed bytes hold at the ceiling's lengths; None where either is not known."""
        if self.freed_bytes is None or self.ceiling is None or not self.ceiling.kv_bytes_per_row:
            return None
        return self.freed_bytes * (self.ceiling.prompt_tokens + self.ceiling.output_tokens) // self.ceiling.kv_bytes_per_row


@dataclass(frozen=True, kw_only=True, slots=True)
class SliceRow:
    """One slice of a golden set for one variant, as shown; what a policy decides on stands among the checks."""

    slice: str
    n: int
    reference_accuracy: float | None
    accuracy: float | None
    b: int
    c: int
    loss: float | None
    lower: float | None
    upper: float | None
    level: float
    scale: Scale = "binary"


@dataclass(frozen=True, kw_only=True, slots=True)
class QualityRow:
    """One variant on one golden set."""

    variant: str
    golden_set: str
    items: int
    scored: int
    accuracy: float | None
    truncated: int
    output_tokens: int
    unscored: int
    kl: KLStatistics | None
    mcnemar_p: float | None
    """Exact McNemar, two-sided: tests a loss of zero; informative, never decides."""
    slices: tuple[SliceRow, ...]
    scale: Scale = "binary"
    """``accuracy`` is the share that is right, or the mean score where scores are graded or unbounded."""
    asked: int | None = None
    """Items that were asked, where scoring ended early."""
    figures: tuple[MetricFigure, ...] = ()
    """Each metric's own figure over the set."""
    texts: int | None = None
    """Items answered in words; None where the run that is read did not count them."""
    empty: int | None = None
    """Of these, answers without a single character that can be seen."""
    refusals: int | None = None
    """Of these, answers that read like a refusal, by the rule in ``answers``; shown and never decided on."""
    why_no_kl: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadingRow:
    """One variant over the texts of the run's divergence."""

    variant: str
    texts: str
    count: int
    tokens: int
    cut: int
    tokens_per_text: int
    perplexity: float | None
    """Corpus perplexity of these texts, cut as they are."""
    ratio_to_reference: float | None
    """Perplexity over the reference's, same tokens."""
    kl: KLStatistics | None
    why_no_kl: str | None
    reference: Literal["stored", "recomputed"]


@dataclass(frozen=True, kw_only=True, slots=True)
class FlipRow:
    """An item that the reference and a variant answered with different correctness, or with different scores."""

    variant: str
    golden_set: str
    item_id: str
    slice: str
    prompt: str
    expected: str
    reference_answer: str
    variant_answer: str
    direction: Literal["regression", "recovery"]
    severity: float
    """How far the lead of the right choice over the best wrong one moved, in nats, where log-likelihoods exist; else 0. Of graded scores:
    the change."""
    reference_score: float | None = None
    """Only where scores are graded or unbounded."""
    variant_score: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class FlipCount:
    """How many flips a variant has on a golden set, where a report lists the worst of them only."""

    variant: str
    golden_set: str
    regressions: int
    recoveries: int
    listed: int


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldenRow:
    """A golden set in the report."""

    name: str
    version: str
    sha256: str
    items: int
    slices: tuple[str, ...]
    chance_level: float
    first_prompt: str
