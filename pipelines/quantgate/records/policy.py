"""The rules of a release, their waivers, and what became of each check."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Literal, TypeAlias

from quantgate.records.asked import MAIN, Role
from quantgate.records.golden import Better, Scale

Outcome: TypeAlias = Literal["pass", "fail", "inconclusive", "not_measured"]
Tier: TypeAlias = Literal["required", "advisory"]
UNDATED = "2000-01-01T00:00:00+00:00"
"""``created_at`` where no day is known or told; nothing that depends on the day holds then."""
NEVER_WAIVED = frozenset({"ran", "finite", "distinct", "unquantized", "unchanged", "demands", "canary", "baseline"})
"""Checks that show that a variant was measured and is what it says it is: no waiver reaches them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiver:
    """A required check that is not to block one variant, for a reason, until a day. Recorded in every report."""

    check: str
    """The check's name, for example ``quality/everyday``."""
    variant: str
    owner: str
    reason: str
    expires: str
    """ISO date; the waiver holds up to and including that day, judged by the run's own date and never by the clock."""

    def holds(self, created_at: str | None) -> bool:
        """Whether it holds for a run of that time (ISO 8601, UTC). Where either date is not known it does not."""
        if created_at == UNDATED:
            return False
        try:
            return date.fromisoformat((created_at or "")[:10]) <= date.fromisoformat(self.expires)
        except ValueError:
            return False


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckRule:
    """One demand of a policy.

    ``kind``: quality, perplexity_ratio, output_length, freed_share, share_quantized, ceiling_ratio, kl_mean, kl_p99, kl_p999,
    rms_probability_change, top1_agreement, min_speed_ratio, max_ttft_ratio, max_itl_p99_ratio, batching_utilisation_gain,
    batching_itl_p99_ratio, speculation_acceptance, speculation_lossless, speculation_speed_ratio, cost_ratio or
    cost_per_million_tokens.
    """

    kind: str
    tier: Tier = "required"
    golden_set: str = "*"
    slices: tuple[str, ...] = ()
    """quality: the slices looked at, each a check of its own, ``*`` for every one; empty: the whole set."""
    minimum_items: int | None = None
    """quality: the fewest items this check may be decided on; None: the policy's own number."""
    margin: float | None = None
    """quality: the largest loss that is allowed, as a share of the items (0.03 = 3 points); for unbounded scores in their own unit."""
    minimum: float | None = None
    maximum: float | None = None
    scale: Literal["unbounded"] | None = None
    """quality: scores may be any finite number; None: they lie in [0, 1]."""
    better: Better | None = None
    """quality: which way the metric goes, where its results do not state it."""
    at: int | Literal["ceiling"] | None = None
    """speed: the batch at which both are timed, or each one's own confirmed ceiling."""
    workload: str = MAIN
    """speed: at which lengths."""
    engine: str | None = None
    """batching_*: the engine that it is for; None: every engine of the run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sequential:
    """Looking at every item: a bet against "the loss is at least the margin" that stays valid whenever one stops."""

    bet: float
    """Lambda, above 0 and under 1 / (1 - margin) for every quality margin."""
    seed: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Canary:
    """When a candidate is so plainly broken after a few prompts that it is not scored: a fail."""

    items: int = 32
    """Prompts that are asked of each golden set."""
    perplexity_ratio: float = 10.0
    """Largest perplexity right after the prompts, as a multiple of the reference's."""
    top1_agreement: float = 0.5
    """Least share of the prompts after which the likeliest token is the reference's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """What must be shown before a variant may go out, set before anything is measured."""

    name: str
    why: str
    checks: tuple[CheckRule, ...]
    require: Literal["all", "any"] = "all"
    correction: Literal["holm", "fixed_sequence", "none"] = "holm"
    """``any``: Holm over the candidates, or one after the other in ``order``; ``all`` needs no correction."""
    order: tuple[str, ...] = ()
    """fixed_sequence: the candidates' names, mildest first; anything but a pass stops the sequence."""
    family_size: int | None = None
    """holm: how many candidates count, those tried and dropped included; None: those of the run."""
    alpha: float = 0.05
    power: float = 0.8
    planning_flip_rate: float = 0.05
    minimum_items: int = 1
    max_absent_reference: float = 0.01
    objective: Literal["freed_bytes", "ceiling", "tokens_per_s_at_ceiling", "smallest_loss"] = "freed_bytes"
    """Which passing candidate goes forward: the largest of the named figure (the smallest loss for ``smallest_loss``)."""
    require_controls: bool = False
    """A run without a known-bad control is not measured."""
    waivers: tuple[Waiver, ...] = ()
    noise_flip_rate: float = 0.005
    """Share of items that the reference itself flips under other batches; for planning, as ``planning_flip_rate``."""
    looks: int | None = None
    """How often quality is looked at (O'Brien-Fleming), the last time with all items; None: once."""
    looks_seed: int = 0
    """Gives the order in which items are asked where ``looks`` is set."""
    sequential: Sequential | None = None
    """Quality is looked at after every item; None: it is not."""
    canary: Canary | None = None
    """Ends the scoring of a candidate that is plainly broken; None: every candidate is scored whole."""

    def family(self, candidates: int) -> int:
        """Over how many candidates Holm's step-down goes; never fewer than the run has."""
        return max(candidates, self.family_size or 1, 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One demand with its evidence and what came of it. Loss is positive when the variant is worse."""

    name: str
    """``quality/everyday``, ``memory/freed_share`` and so on."""
    tier: Tier
    outcome: Outcome
    because: str
    """One sentence that a release owner can read aloud."""
    estimate: float | None = None
    lower: float | None = None
    bound: float | None = None
    """Upper one-sided confidence bound at ``level``."""
    margin: float | None = None
    level: float | None = None
    """One-sided confidence, for example 0.975, at which the check was decided."""
    p_value: float | None = None
    n: int | None = None
    b: int | None = None
    """Items the reference has right and the variant wrong."""
    c: int | None = None
    """Items the variant has right and the reference wrong."""
    scale: Scale = "binary"
    """quality: of the scores. For graded and unbounded ones ``b`` and ``c`` count the items that lost and that gained."""
    items_used: int | None = None
    """quality: the items after which the outcome was shown, where a policy looks more than once."""
    waived_by: str | None = None
    """``owner: reason, until date`` where a waiver keeps this fail or inconclusive from blocking; the outcome stays what it is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """The gate's word on one variant."""

    variant: str
    role: Role
    outcome: Outcome
    checks: tuple[Check, ...]
    because: str
    control_ok: bool | None = None
    """For controls: it came out as it must. None for other roles."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """The gate's word on the run."""

    outcome: Outcome
    verdicts: tuple[Verdict, ...]
    chosen: str | None
    """The passing candidate that goes forward, by the policy's objective."""
    because: str
    policy_sha256: str
    evidence_sha256: str
