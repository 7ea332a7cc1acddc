"""What an engine is asked, and what it answers, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from quantgate.records.asked import KVCache


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One row to generate. ``min_new_tokens`` suppresses the end of sequence until that many tokens exist."""

    request_id: str
    tokens: tuple[int, ...]
    max_new_tokens: int
    min_new_tokens: int = 0
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Served:
    """What a step of a serving engine gave: the new ids of each request, several where the engine gave several at once."""

    ids: Mapping[str, tuple[int, ...]]
    ended: tuple[str, ...] = ()
    """Requests that will get no more, whatever they asked for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServingSettings:
    """How an engine is opened that serves continuously."""

    rows: int
    """Requests that may run at once."""
    context_tokens: int
    """Longest prompt with its output."""
    prompt_tokens: int
    """Longest prompt: the engine must take ``rows`` of them in one step."""
    suppressed_ids: tuple[int, ...] = ()
    """Ids that are never chosen: the ends of sequence, so that lengths are those asked for."""
    threads: int | None = None
    dtype: str | None = None
    """As of ``EngineSettings``, so that every way of serving computes in the same type."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedBatching:
    """The lever's workload as ids, and how engines are opened for it."""

    requests: tuple[Request, ...]
    settings: ServingSettings


@dataclass(frozen=True, kw_only=True, slots=True)
class Serving:
    """An engine that serves, as opened."""

    dtype: str
    library: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Counters:
    """What an engine has counted since it was opened; None where it does not tell."""

    steps: int | None = None
    preemptions: int | None = None
    recomputed_tokens: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """The ids that one decode step gave to each running request."""

    ids: Mapping[str, int]
    nonfinite: tuple[str, ...] = ()
    """Requests whose logits were not all finite at this step."""
    first_logprobs: Mapping[str, float] | None = None
    """Log probability of the chosen token, at the first step only."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChoiceLogProbs:
    """Log-likelihoods, in nats, of the continuations of one context; None where not finite."""

    index: int
    totals: tuple[float | None, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineSettings:
    """How a session is opened."""

    threads: int | None = None
    dtype: str | None = None
    """None: the artifact's own, or float32 where the device has no fast half precision."""
    scoring_only: bool = False
    """The variant is neither filled nor timed: packed layers may keep unpacked weights."""
    kv_cache: KVCache | None = None
    """None: the cache is kept in the model's float type."""
    cached_scoring: bool = False
    """Log-likelihoods are read through the cache whatever the model allows, as those of a variant with another cache must be."""
