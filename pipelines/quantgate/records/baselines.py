"""A pinned result that later nights are compared with, and its limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from quantgate.records.asked import BatchPlan, Scalar
from quantgate.records.golden import Better, Scale
from quantgate.records.runs import Fingerprint


@dataclass(frozen=True, kw_only=True, slots=True)
class BaselineSet:
    """How the pinned reference answered one golden set, item by item, and what must be equal to compare with it."""

    name: str
    version: str
    sha256: str
    items: int
    items_sha256: str
    """Digest of the item ids in the golden set's order, which is that of the scores."""
    mean: float | None
    scale: Scale | None
    better: Better | None
    batch_plan: BatchPlan
    conditions: Mapping[str, Scalar]
    prompt_sha256: str
    """Digest of the first prompt as the model saw it: another template gives another one."""
    form: Literal["marks", "numbers"]
    scores: tuple[str, ...]
    """``marks``: a character an item, 1 right, 0 wrong, - no answer, 80 a line. ``numbers``: scores with blanks between, 10 a line."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BaselineMark:
    """What is kept of a golden set in the log of earlier baselines."""

    golden_set: str
    sha256: str
    items: int
    mean: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class BaselinePast:
    """A baseline that was replaced."""

    run_id: str
    created_at: str
    accepted_at: str
    accepted_by: str
    reason: str
    sha256: str
    model_sha256: str | None
    marks: tuple[BaselineMark, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Baseline:
    """A reference that a person pinned, to be kept in version control: today's reference is compared with it first."""

    run_id: str
    created_at: str
    """When the run was begun. UTC, ISO 8601, as all times here."""
    accepted_at: str
    accepted_by: str
    reason: str
    model: str
    model_sha256: str | None
    reference: str
    weights_sha256: str | None
    """Digest of its weights as loaded, dequantized to float32."""
    dtype: str | None
    policy: str
    policy_sha256: str
    evidence_sha256: str
    environment: Fingerprint
    golden_sets: tuple[BaselineSet, ...]
    earlier: tuple[BaselinePast, ...] = ()
    """Oldest first."""
    schema_version: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class BaselineLimits:
    """How far today's reference may be from the pinned one on a golden set, ``*`` for every one without limits of its own."""

    golden_set: str = "*"
    max_loss: float = 0.01
    """Share of the items (0.01 = 1 point); for scores without bounds in their own unit."""
    max_gain: float = 0.01
    max_flips: float | None = 0.03
    """Share of the items that may come out otherwise, either way; None: no limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BaselineEvidence:
    """The baseline as it was read before anything was measured; ``pinned`` is None where ``why_not`` says why it cannot be used."""

    file: str
    limits: tuple[BaselineLimits, ...]
    pinned: Baseline | None = None
    sha256: str | None = None
    why_not: str = ""
