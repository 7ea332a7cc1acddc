"""Continuous batching: the requests asked for, how they were served, and what a run of them took."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

ArrivalKind: TypeAlias = Literal["at_once", "poisson", "given"]
BatchingMode: TypeAlias = Literal["alone", "static", "continuous"]
"""``alone``: each request by itself. ``static``: batches that run until their longest row ends. ``continuous``: rows come and go."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedRequest:
    """One request of the lever's workload; the prompt is a text or, where only its length matters, a number of tokens."""

    output_tokens: int
    prompt: str | None = None
    prompt_tokens: int | None = None
    arrives_s: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Lengths:
    """A distribution of lengths in tokens. ``lognormal``: median and sigma of the logarithm; ``uniform``: from ``least`` to ``most``."""

    kind: Literal["fixed", "lognormal", "uniform"]
    least: int
    most: int
    median: float | None = None
    sigma: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class DrawnRequests:
    """A workload that is drawn: how many requests, and how long their prompts and outputs are."""

    count: int
    prompt: Lengths
    output: Lengths


@dataclass(frozen=True, kw_only=True, slots=True)
class Arrivals:
    """When the requests come: all at the start, by a Poisson process of so many a second, or as the workload says."""

    kind: ArrivalKind = "at_once"
    rate_per_s: float | None = None

    @property
    def label(self) -> str:
        """As reports print it."""
        if self.kind == "poisson":
            return f"Poisson, {self.rate_per_s:g} a second"
        return {"at_once": "all at once", "given": "as the workload says"}[self.kind]


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchingEngine:
    """What serves continuously, and the Python that has its library; None: the one that runs quantgate."""

    name: str
    interpreter: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchingConfig:
    """Static batches against continuous batching, on the same requests."""

    path: str | None
    """File of requests; None where they are drawn."""
    drawn: DrawnRequests | None
    rows: int
    engines: tuple[BatchingEngine, ...]
    arrivals: tuple[Arrivals, ...]
    variants: tuple[str, ...]
    seed: int = 0
    """Gives what is drawn: lengths, arrivals, and the ids of prompts that are given by length."""
    repeats: int = 2
    """Every second one takes the ways in reverse."""
    time_cap_s: float = 600.0
    """Of one run of one engine; a run that takes longer is ended and counts as not measured."""
    requests: tuple[AskedRequest, ...] = ()
    """As read or drawn; empty until they were."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServedRequest:
    """One request as it was served. Times are seconds from the start of its run, read by the caller behind the device's barrier."""

    request_id: str
    prompt_tokens: int
    requested_tokens: int
    arrived_s: float
    started_s: float | None
    """When the step began that gave its first token; None where it gave none."""
    ids: tuple[int, ...]
    token_s: tuple[float, ...]
    """When each id had come."""

    @property
    def produced_tokens(self) -> int:
        """Counted from ids."""
        return len(self.ids)

    @property
    def whole(self) -> bool:
        """It got the tokens that it asked for, neither fewer nor more."""
        return self.produced_tokens == self.requested_tokens

    @property
    def ttft_s(self) -> float | None:
        """From its arrival to its first token: waiting and prefill included."""
        return self.token_s[0] - self.arrived_s if self.token_s else None

    @property
    def itl_s(self) -> tuple[float, ...]:
        """Seconds between one token and the next; empty for one token."""
        return tuple(after - before for before, after in pairwise(self.token_s))

    @property
    def queued_s(self) -> float | None:
        """From its arrival to the start of the step that gave its first token."""
        return None if self.started_s is None else max(0.0, self.started_s - self.arrived_s)


@dataclass(frozen=True, kw_only=True, slots=True)
class FirstDifference:
    """The first id of a request that is not the one that it gets alone."""

    request_id: str
    token: int
    """From 1."""
    margin_nats: float | None
    """By how much alone preferred its own id there; next to nothing is a tie that rounding decides. None: not known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchingRun:
    """One engine serving one workload in one way, once. Without ``why_not`` every request was served to its end."""

    variant: str
    engine: str
    mode: BatchingMode
    arrivals: Arrivals
    rows: int
    """How many requests may run at once."""
    requests: tuple[ServedRequest, ...] = ()
    steps: int | None = None
    """Forwards of the model; None where the engine does not tell."""
    wall_s: float | None = None
    """From the start to the last token."""
    preemptions: int | None = None
    """Times that a running request had to give up its cache; None where the engine does not tell."""
    recomputed_tokens: int | None = None
    repeat: int = 0
    dtype: str = ""
    library: str = ""
    """What served, with its version."""
    differences: tuple[FirstDifference, ...] = ()
    compared: bool = False
    """Its ids were compared with those of each request alone."""
    why_not: str | None = None

    @property
    def whole(self) -> bool:
        """Every request got exactly the tokens that it asked for."""
        return self.why_not is None and bool(self.requests) and all(one.whole for one in self.requests)

    @property
    def useful_tokens(self) -> int:
        """Tokens that somebody asked for, each counted once, whatever was computed again."""
        return sum(min(one.produced_tokens, one.requested_tokens) for one in self.requests)

    @property
    def useful_tokens_per_s(self) -> float | None:
        """End to end, prefill and waiting included; None unless the run is whole."""
        return self.useful_tokens / self.wall_s if self.whole and self.wall_s else None

    @property
    def utilisation(self) -> float | None:
        """Useful tokens / (rows x steps): the share of the places in all forwards that gave a token; None unless the run is whole."""
        return self.useful_tokens / (self.rows * self.steps) if self.whole and self.steps else None
