"""The nouns of a plan: what a run would do, as it is told before anything is loaded. Unknown is ``None``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class StageTime:
    """How long a stage took in earlier runs on this machine; None without one."""

    stage: str
    seconds: float | None
    runs: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class VariantForecast:
    """One variant. Sizes are None where the model's shapes do not tell."""

    variant: str
    role: str
    scheme: str
    why_not: str | None
    """Why it cannot run here; None where it can."""
    weight_bytes: int | None
    stored_bytes: int | None
    kv_bytes_per_request: int | None
    most_requests: int | None
    """Requests that weights and cache leave room for, up to the search cap; None for a variant that is not filled."""
    stages: tuple[StageTime, ...]
    least_budget_bytes: int | None = None
    """Weights, cache and logits of one request, activations not counted; None where that is not known or it is not filled."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldenForecast:
    """What a quality check can resolve."""

    check: str
    golden: str
    tier: str
    items: int
    margin: float
    power: float
    smallest_margin: float | None
    items_needed: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class LeverForecast:
    """A serving lever that the config asks for."""

    lever: str
    """``batching`` or ``speculation``."""
    what: str
    """What would be measured, in words."""
    why_not: str | None
    """Why a run would refuse it; None where it would not."""
    seconds: float | None
    """Median of earlier runs that measured the same; None without one."""
    runs: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Forecast:
    """The whole run. ``refusals`` are why ``quantgate run`` would end before or without a measurement."""

    model: str
    device: str
    budget_bytes: int | None
    prompt_tokens: int
    output_tokens: int
    max_batch: int
    variants: tuple[VariantForecast, ...]
    golden_sets: tuple[GoldenForecast, ...]
    disk_bytes: int | None
    disk_free_bytes: int | None
    seconds: float | None
    """Sum of the known times."""
    refusals: tuple[str, ...]
    notes: tuple[str, ...]
    levers: tuple[LeverForecast, ...] = ()
