"""Scores that somebody else's tool wrote, and what of them is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from quantgate.records.asked import Scalar
from quantgate.records.golden import Better, Scale
from quantgate.records.scores import ItemScore
from quantgate.records.scoresheet import EarlyStop


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadOptions:
    """How a file of per-item results is to be read; None: as its format has it, or as the file leaves no doubt about."""

    id: str = "id"
    score: str = "score"
    slice: str = "slice"
    cluster: str = "cluster"
    """Names of the columns of a table."""
    metric: str | None = None
    filter: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskResults:
    """One task as one model answered it, from a file that another tool wrote."""

    name: str
    """Empty where the file does not name its task."""
    metric: str
    items: tuple[ItemScore, ...]
    """As the file has them, an id that stands twice included: whoever compares must see it."""
    chance_level: float | None = None
    """Mean accuracy of guessing; None where the file does not say how many choices there were."""
    conditions: Mapping[str, Scalar]
    """What the file states of how the items were asked."""
    marks: Mapping[str, Mapping[str, str]]
    """Field -> item id -> what must be the same on both sides, for example the digest of the prompt."""
    prompts: Mapping[str, str]
    """Item id -> the end of its prompt, where the file has it."""
    better: Better | None = None
    """Whether a higher score or a lower one is better; None where the format does not say it."""
    scale: Scale | None = None
    stopped: EarlyStop | None = None
    """Only of a run of our own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Results:
    """The per-item results of one model, as a reader found them."""

    source: str
    """Format of the file: lm_eval, inspect, nemo, table or run."""
    path: str
    sha256: str
    """Digest of every byte that was read."""
    tasks: tuple[TaskResults, ...]
    notes: tuple[str, ...] = ()
    """What a person must know of the file, a sentence each."""
