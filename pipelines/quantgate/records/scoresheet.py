"""All items of one golden set as one variant answered them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from quantgate.records.asked import BatchPlan, Scalar
from quantgate.records.divergence import KLStatistics
from quantgate.records.golden import Better, Scale
from quantgate.records.scores import ItemScore, MetricFigure


@dataclass(frozen=True, kw_only=True, slots=True)
class EarlyStop:
    """Why a sheet ends before the golden set does: the rule of the policy that allowed it, and what it saw."""

    asked: int
    """Items that were asked: the first so many of the order that the seed gives."""
    items: int
    """Items of the golden set."""
    looks: int | None
    bet: float | None
    seed: int
    because: str
    """Half a sentence, for example ``a pass was shown at look 1 of 3``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoreSheet:
    """Every item of one golden set as one variant answered it."""

    variant: str
    golden_set: str
    golden_version: str
    golden_sha256: str
    items: tuple[ItemScore, ...]
    batch_plan: BatchPlan
    conditions: Mapping[str, Scalar]
    """What must be equal to compare two sheets: tokenizer, BOS, template, layout, device, driver, threads."""
    first_prompt: str = ""
    """The first item as the model saw it."""
    kl: KLStatistics | None = None
    why_no_kl: str | None = None
    seconds: float = 0.0
    scale: Scale | None = None
    """Of all its metrics together; None where it is not stated, or where they do not share one."""
    better: Better | None = None
    """Which way its metrics go; None where it is not stated, or where they go both ways."""
    stopped: EarlyStop | None = None
    """Set where scoring ended early; items behind the stop were not asked and are not lost."""
    figures: tuple[MetricFigure, ...] = ()
    """One a metric of the set, as that metric combines its items."""

    @property
    def scored(self) -> tuple[ItemScore, ...]:
        """Items with a value."""
        return tuple(item for item in self.items if item.value is not None)

    @property
    def mean(self) -> float | None:
        """Mean over scored items; None without one."""
        values = [item.value for item in self.items if item.value is not None]
        return sum(values) / len(values) if values else None

    @property
    def output_tokens(self) -> int:
        """Generated tokens over all items."""
        return sum(item.evidence.output_tokens for item in self.items)
