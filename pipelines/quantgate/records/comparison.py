"""Two reports side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from quantgate.records.asked import Role


@dataclass(frozen=True, kw_only=True, slots=True)
class SetChange:
    """One variant on one golden set in both runs; figures are None where ``why_not`` says why they cannot be compared."""

    golden_set: str
    why_not: str | None = None
    n: int | None = None
    b: int | None = None
    """Items right in the first run and wrong in the second; an item without an answer counts against the second."""
    c: int | None = None
    loss: float | None = None
    """(b - c) / n: positive where the second run is worse."""
    lower: float | None = None
    upper: float | None = None
    level: float | None = None
    """One-sided confidence of each bound."""
    mcnemar_p: float | None = None
    accuracy_before: float | None = None
    accuracy_after: float | None = None
    kl_before: float | None = None
    """Mean divergence from the run's own reference, nats a token."""
    kl_after: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class FigureChange:
    """A measured figure in both runs; None where it was not measured in one."""

    name: str
    unit: Literal["bytes", "requests", "tokens/s", "x"]
    before: float | None
    after: float | None
    why_not: str | None = None
    before_bounds: tuple[float, float] | None = None
    """Lower and upper one-sided bound; None where the figure has none."""
    after_bounds: tuple[float, float] | None = None
    before_open: bool = False
    """At least that much: the search ended before a batch failed."""
    after_open: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class VariantChange:
    """What moved in one variant."""

    variant: str
    role: Role
    why_not: str | None
    golden_sets: tuple[SetChange, ...]
    figures: tuple[FigureChange, ...]

    @property
    def compared(self) -> bool:
        """Something of it could be compared."""
        sets = any(one.why_not is None for one in self.golden_sets)
        return sets or any(one.why_not is None and None not in (one.before, one.after) for one in self.figures)


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Two runs side by side."""

    first: str
    second: str
    why_not: str | None
    """Why nothing can be compared at all."""
    variants: tuple[VariantChange, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    notes: tuple[str, ...]
    schema_version: int = 1

    @property
    def compared(self) -> bool:
        """Something could be compared."""
        return any(one.compared for one in self.variants)
