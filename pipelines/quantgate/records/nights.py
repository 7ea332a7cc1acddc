"""Reports of many nights in a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from quantgate.records.asked import Role
from quantgate.records.evidence import Evidence

Trended: TypeAlias = Literal["loss", "error", "kl", "freed", "ceiling", "tokens_per_s"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Night:
    """A stored run as one of a row."""

    run_id: str
    created_at: str
    evidence: Evidence


@dataclass(frozen=True, kw_only=True, slots=True)
class TrendPoint:
    """One figure of one night; without an interval where the night has none."""

    run_id: str
    created_at: str
    value: float
    lower: float | None = None
    upper: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TrendChange:
    """A change of the level that no night's own noise explains."""

    since: str
    """Run id of the first night behind the change."""
    told: str
    """Run id of the night on which it could be told."""
    nights: int
    """How many nights behind the change it took to tell, that night included."""
    before: float
    after: float
    z: float
    worse: bool
    suspects: tuple[str, ...]
    """What else is different since: code, libraries, model, machine."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrendSeries:
    """One figure of one variant over the nights on which it was measured."""

    variant: str
    role: Role
    what: Trended
    golden_set: str | None
    points: tuple[TrendPoint, ...]
    changes: tuple[TrendChange, ...]

    @property
    def worse(self) -> bool:
        """Its last change was for the worse."""
        return bool(self.changes) and self.changes[-1].worse


@dataclass(frozen=True, kw_only=True, slots=True)
class Trend:
    """What moved over the nights of a folder."""

    model: str
    nights: tuple[str, ...]
    series: tuple[TrendSeries, ...]
    notes: tuple[str, ...]
    schema_version: int = 1

    @property
    def worse(self) -> bool:
        """A series stands at a level that is worse than before."""
        return any(one.worse for one in self.series)
