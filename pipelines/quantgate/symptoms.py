"""The nouns of a diagnosis: what was seen of a deployment, and what follows from it. Standard library only.

Knows which figures there are, how a person names each and which values are nonsense. Refuses to know what a figure
means: ``diagnosis`` does.

Every symptom is optional. Unknown is ``None``; a diagnosis then says that it is missing and never fills it in.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from math import isfinite
from typing import Literal, TypeAlias

from quantgate.errors import UsageError

Limit: TypeAlias = Literal["memory-bound", "utilisation-bound", "decode-step-bound", "compute-bound", "abstain"]
Lever: TypeAlias = Literal["quantization", "continuous batching", "speculative decoding"]
Kind: TypeAlias = Literal["bytes", "rate", "share", "count", "rows", "seconds", "ratio", "cost", "flag"]
State: TypeAlias = Literal["fired", "not fired", "not known"]
Fit: TypeAlias = Literal["fits", "does not fit", "not known"]


# ---------------------------------------------------------------------------------------------- what was seen


@dataclass(frozen=True, kw_only=True, slots=True)
class Timing:
    """A decode step of the whole batch, timed: ``step_s`` at ``batch`` rows."""

    batch: int
    step_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Symptoms:
    """What was seen of one deployment, at one load. Each field is explained in ``FIELDS``, where its values are bounded."""

    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    weight_bytes: int | None = None
    weight_bits: int | None = None
    request_bytes: int | None = None
    kv_pool_used_share: float | None = None
    fitting_batch: int | None = None
    failed_batch: int | None = None
    out_of_memory: bool | None = None
    preemptions: int | None = None

    compute_utilisation_share: float | None = None
    mfu_share: float | None = None
    mbu_share: float | None = None
    bandwidth_bytes_per_s: float | None = None

    batch: int | None = None
    step_s: float | None = None
    step_floor_s: float | None = None
    timings: tuple[Timing, ...] = ()
    """Steps at several batch sizes, ascending; from stored runs."""

    streams: int | None = None
    waiting_requests: int | None = None
    finished_waiting: int | None = None
    useful_tokens: int | None = None
    row_steps: int | None = None
    idle_share: float | None = None

    acceptance_share: float | None = None
    draft_tokens: int | None = None
    draft_cost_ratio: float | None = None
    verify_cost_ratio: float | None = None
    drafter_bytes: int | None = None
    drafts: int | None = None
    drafted_tokens: int | None = None
    accepted_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Field:
    """One symptom as a person writes it: ``key`` in a file, ``--key`` with dashes on the command line."""

    key: str
    attribute: str
    kind: Kind
    what: str


FIELDS = (
    Field("memory_total", "memory_total_bytes", "bytes", "memory of the device, or the part set aside for the model"),
    Field("memory_used", "memory_used_bytes", "bytes", "the most of it in use at the batch that fits"),
    Field("weights", "weight_bytes", "bytes", "weights as loaded"),
    Field("weight_bits", "weight_bits", "rows", "bits that a weight is stored in now, for example 16"),
    Field("request_bytes", "request_bytes", "bytes", "what one more request takes: KV cache and activations"),
    Field("kv_pool_used", "kv_pool_used_share", "share", "share of the KV pool that is in use"),
    Field("fitting_batch", "fitting_batch", "rows", "largest batch that fits (left out: --batch)"),
    Field("failed_batch", "failed_batch", "rows", "smallest batch that ran out of memory"),
    Field("out_of_memory", "out_of_memory", "flag", "memory ran out (no: a batch failed for another reason, or none did)"),
    Field("preemptions", "preemptions", "count", "requests put back by the engine for want of KV room"),
    Field("compute_utilisation", "compute_utilisation_share", "share", "share of the arithmetic units in use"),
    Field("mfu", "mfu_share", "share", "arithmetic done over the device's peak (MFU)"),
    Field("mbu", "mbu_share", "share", "bytes a step must read over what the memory could have read meanwhile (MBU)"),
    Field("bandwidth", "bandwidth_bytes_per_s", "rate", "memory bandwidth, for example 900GB/s"),
    Field("batch", "batch", "rows", "rows that run in a step"),
    Field("step_time", "step_s", "seconds", "time of one decode step, for example 31ms"),
    Field("step_floor", "step_floor_s", "seconds", "time to read the weights once (left out: weights / bandwidth)"),
    Field("streams", "streams", "rows", "requests that come at once, running and waiting"),
    Field("queue", "waiting_requests", "count", "requests that wait to be started"),
    Field("finished_waiting", "finished_waiting", "count", "rows that are done and wait for their batch to end"),
    Field("useful_tokens", "useful_tokens", "count", "tokens that somebody asked for, of a batch or many"),
    Field("row_steps", "row_steps", "rows", "rows x steps of the same batches"),
    Field("idle", "idle_share", "share", "share of the time that the device waits between batches"),
    Field("acceptance", "acceptance_share", "share", "how likely a drafted token is accepted where those before it were"),
    Field("draft_tokens", "draft_tokens", "rows", "tokens drafted at a time"),
    Field("draft_cost", "draft_cost_ratio", "ratio", "one drafted token's time over a plain step's"),
    Field("verify_cost", "verify_cost_ratio", "cost", "a verifying step's time over a plain step's"),
    Field("drafter", "drafter_bytes", "bytes", "drafter's weights and cache; left out where there is no second model"),
    Field("drafts", "drafts", "count", "steps that verified drafted tokens"),
    Field("drafted", "drafted_tokens", "count", "tokens drafted in all"),
    Field("accepted", "accepted_tokens", "count", "of these, accepted"),
)  # fmt: skip
KEY_OF = {one.attribute: one.key for one in FIELDS}

LEAST_COST = 0.001
"""Of a step that does something, over one that does something else."""
_NOT_MORE = (
    ("memory_used_bytes", "memory_total_bytes"),
    ("useful_tokens", "row_steps"),
    ("accepted_tokens", "drafted_tokens"),
)
"""Pairs of which the first is a part of the second."""


def refuse(seen: Symptoms) -> None:
    """Raise ``UsageError`` for the first value that nothing can have, by its key: NaN, a share of 1.3, more used than there is."""
    for field in FIELDS:
        if (value := getattr(seen, field.attribute)) is not None and (allowed := _not_allowed(field.kind, value)):
            raise UsageError(f"{field.key}: found {value}, expected {allowed}")
    for one in seen.timings:
        if _not_allowed("rows", one.batch) or _not_allowed("seconds", one.step_s):
            raise UsageError(f"timings: found {one.step_s} s at batch {one.batch}, expected a time above 0 and a batch of 1 or more")
    if [one.batch for one in seen.timings] != sorted({one.batch for one in seen.timings}):
        raise UsageError("timings: batches must ascend, each once")
    for part, whole in _NOT_MORE:
        some, of = getattr(seen, part), getattr(seen, whole)
        if some is not None and of is not None and some > of:
            raise UsageError(f"{KEY_OF[part]}: found {some}, more than {KEY_OF[whole]}, which is {of}; measure both at the same moment")


def _not_allowed(kind: Kind, value: object) -> str:
    """What is allowed instead, in words; empty where the value may be."""
    if kind == "flag":
        return "" if isinstance(value, bool) else "true or false"
    if kind in ("bytes", "count", "rows"):
        least = 0 if kind == "count" else 1
        whole = isinstance(value, int) and not isinstance(value, bool)
        return "" if whole and value >= least else f"a whole number, {least} or more"  # type: ignore[operator]
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not isfinite(value):
        return "a number"
    if kind == "share":
        return "" if 0 <= value <= 1 else "a share of one, 0 to 1"
    if kind == "ratio":
        return "" if value >= 0 else "0 or more"
    if kind == "cost":
        return "" if value >= LEAST_COST else f"{LEAST_COST} or more"
    return "" if value > 0 else "more than 0"


def given(seen: Symptoms) -> tuple[Field, ...]:
    """The fields that are known, in the order of ``FIELDS``."""
    return tuple(one for one in FIELDS if getattr(seen, one.attribute) is not None)


def overlaid(below: Symptoms, above: Symptoms) -> Symptoms:
    """``below`` with every figure that ``above`` knows in its place."""
    known = {one.name: value for one in fields(Symptoms) if (value := getattr(above, one.name)) not in (None, ())}
    return replace(below, **known)


# ---------------------------------------------------------------------------------------------- what follows from it


@dataclass(frozen=True, slots=True)
class Threshold:
    """A number that a rule decides by, and why it is that number."""

    name: str
    value: float
    unit: Literal["share", "x", "rows", "exponent"]
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One rule as it was applied. ``because`` has the numbers; ``wanted`` names the measurement that would decide, where not known."""

    name: str
    limit: Limit
    state: State
    because: str
    wanted: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Contradiction:
    """Figures that cannot all be right, and the measurement that would settle it."""

    because: str
    wanted: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """A lever that was tried and measured. ``gain``: tokens per second with it over without; None where only its cost was measured."""

    lever: Lever
    name: str
    gain: float | None
    measured: str
    """What was measured, a sentence with its conditions."""
    cost: str
    predicted: str = ""
    """What arithmetic gave beforehand, a sentence; empty: the general prediction stands."""
    predicted_gain: float | None = None
    alone_gain: float | None = None
    """Of a quantized variant: speed ratio at batch 1."""
    refused: bool = False
    """Shown to cost more than a policy allows: told, and recommended for nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Advice:
    """A lever: whether it fits the limit, why, what it costs, what it would gain and what it gained."""

    lever: Lever
    fit: Fit
    because: str
    short: str
    """The reason in a few words, for a line at the terminal."""
    cost: str
    predicted: str
    predicted_gain: float | None
    """Upper bound or estimate, as ``predicted`` says; tokens per second over now."""
    measured: str
    measured_gain: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnosis:
    """Which limit binds, by which rules, and what to do about it. ``limit`` abstain: nothing is recommended."""

    limit: Limit
    sentence: str
    """For a reader who reads nothing else."""
    line: str
    """The same on one line of a terminal, without its first word."""
    also: tuple[Limit, ...]
    """Further limits that bind as well; the first one hides them."""
    symptoms: Symptoms
    rules: tuple[Rule, ...]
    contradictions: tuple[Contradiction, ...]
    """Any of them makes it abstain."""
    wanted: tuple[str, ...]
    """Measurements that would decide, the most telling first; empty unless it abstains."""
    levers: tuple[Advice, ...]
    thresholds: tuple[Threshold, ...]
    notes: tuple[str, ...] = ()
    """Where figures came from and what was left out."""
    schema_version: int = 1
