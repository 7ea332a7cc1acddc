"""YAML -> ``RunConfig`` and ``Policy``. The only reader of config files and of environment variables.

Every key is checked: unknown keys, wrong types and impossible values are refused with file, line and what is allowed. Values are never
guessed from text: ``1e-3`` (which YAML reads as text), ``"4"`` or ``on`` where a number is wanted are errors with a hint.
Relative paths are relative to the file they stand in.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from quantgate import durations, plugins, symptom_values
from quantgate.errors import ConfigError, UnknownPlugin, UsageError
from quantgate.names import check_alias
from quantgate.records import (
    MAIN,
    NEVER_WAIVED,
    Arrivals,
    BaselineLimits,
    BatchingConfig,
    BatchingEngine,
    BatchPlan,
    Better,
    Budget,
    Calibration,
    Canary,
    CheckRule,
    DatasetSource,
    DeviceConfig,
    DivergenceConfig,
    Drafter,
    DrawnRequests,
    HarnessSource,
    KVCache,
    Lengths,
    Levers,
    ModelSource,
    Policy,
    Price,
    Role,
    Scalar,
    Sequential,
    SpeculationConfig,
    Tier,
    TimingConfig,
    Variant,
    Waiver,
    Workload,
)
from quantgate.refusals import allowed
from quantgate.sizes import EXPECTED, size_bytes
from quantgate.symptoms import Symptoms
from quantgate.symptoms import refuse as refuse_symptoms

SCHEMA_VERSION = 1
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
GRANULARITY = r"^(tensor|channel|group:[1-9][0-9]*)$"
UUID = r"^(GPU|MIG)-[0-9A-Za-z/-]+$"
COMMIT = r"^[0-9a-f]{40}$"
SHA256 = r"^[0-9a-f]{64}$"
UNCORRECTED = "'require: any' with 'correction: none' gives {0} candidates {0} uncorrected chances to pass; use holm"
KEY_TAGS = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge")
DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
MISREAD = re.compile(r"[-+]?(0[0-9_]+(\..*)?|[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?)")
"""Numbers that YAML does not read as they stand: 0300 is octal, and 1:30 is counted in sixties."""
SMALLEST_MARGIN = 1e-6
SHARES = ("freed_share", "share_quantized", "top1_agreement", "rms_probability_change", "speculation_acceptance")
"""Kinds whose limit is a share, 1 at most."""
CALIBRATED = frozenset({"gptq"})
"""Quantizers that the run's calibration set goes to; any other gets one where its variant names it."""
CHECKPOINT = "checkpoint"
LIMITS: Mapping[str, tuple[str, ...]] = {
    "quality": ("margin",),
    "perplexity_ratio": ("maximum",),
    "output_length": ("minimum", "maximum"),
    "freed_share": ("minimum",),
    "share_quantized": ("minimum",),
    "ceiling_ratio": ("minimum",),
    "min_speed_ratio": ("minimum",),
    "max_ttft_ratio": ("maximum",),
    "max_itl_p99_ratio": ("maximum",),
    "kl_mean": ("maximum",),
    "kl_p99": ("maximum",),
    "kl_p999": ("maximum",),
    "rms_probability_change": ("maximum",),
    "top1_agreement": ("minimum",),
    "batching_utilisation_gain": ("minimum",),
    "batching_itl_p99_ratio": ("maximum",),
    "speculation_acceptance": ("minimum",),
    "speculation_lossless": (),
    "speculation_speed_ratio": ("minimum",),
    "cost_ratio": ("maximum",),
    "cost_per_million_tokens": ("maximum",),
}
"""What each kind of check must give, and nothing else of these."""
FOR_QUALITY = ("slice", "scale", "better")
FOR_SPEED = ("min_speed_ratio", "max_ttft_ratio", "max_itl_p99_ratio")
FOR_COST = ("cost_ratio", "cost_per_million_tokens")
TESTED = ("quality", "perplexity_ratio")
"""Kinds that are decided by a test, and can let a variant pass."""
Share = Annotated[float, Field(gt=0, lt=1)]
Limit = Annotated[float, Field(ge=0)]
Name = Annotated[str, Field(min_length=1)]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]
CURRENCY = r"^[A-Z]{3}$"
DEFAULT_CURRENCY = "USD"


@dataclass(frozen=True, kw_only=True, slots=True)
class BaselineConfig:
    """Where the pinned reference is kept, and how far today's may be from it."""

    path: Path
    limits: tuple[BaselineLimits, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ContinuousIntegration:
    """What a CI system offers besides the exit code. ``summary``: a file that job summaries are appended to."""

    summary: Path | None
    annotations: bool
    """GitHub's workflow commands on standard output are read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunConfig:
    """One run as asked for: everything validated, every path absolute."""

    path: Path
    model: ModelSource
    device: DeviceConfig
    engine: str
    executor: str
    variants: tuple[Variant, ...]
    golden_sets: tuple[Path | DatasetSource | HarnessSource, ...]
    policy_path: Path
    policy: Policy
    workload: Workload
    batch_plan: BatchPlan
    divergence: DivergenceConfig | None
    levers: Levers
    out: Path
    cache: Path
    sinks: tuple[str, ...]
    registry: str
    tracking_uri: str
    experiment: str
    registered_model: str
    alias: str
    challenger: str | None
    artifacts: str | None
    system_metrics: bool
    provenance: Literal["machine", "fixed"]
    run_id: str | None
    workloads: tuple[Workload, ...] = ()
    """Further lengths at which speed is measured."""
    timing: TimingConfig = field(default_factory=TimingConfig)
    baseline: BaselineConfig | None = None
    price: Price | None = None
    budget: Budget | None = None

    @property
    def reference(self) -> Variant:
        """The one variant of role ``reference``."""
        return next(variant for variant in self.variants if variant.role == "reference")

    @property
    def candidates(self) -> tuple[Variant, ...]:
        """The variants that compete for promotion."""
        return tuple(variant for variant in self.variants if variant.role == "candidate")


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class _Model(_Section):
    name: Annotated[str, Field(pattern=NAME)]
    path: str | None = None
    hub: str | None = None
    revision: str | None = None
    package: str | None = None
    gguf_file: str | None = None


class _KindAlone(_Section):
    """A section whose kind may stand alone in its place: ``device: cuda`` is short for ``device: {kind: cuda}``."""

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, found: Any) -> Any:
        return {"kind": found} if isinstance(found, str) else found


class _Device(_KindAlone):
    kind: str = "cpu"
    threads: Count | None = None
    memory_budget: str | int | float | None = None
    index: Annotated[int, Field(ge=0)] = 0
    uuid: Annotated[str, Field(pattern=UUID)] | None = None
    dtype: Literal["float32", "bfloat16", "float16"] | None = None
    price_per_hour: Positive | None = None
    currency: Annotated[str, Field(pattern=CURRENCY)] | None = None


class _Calibration(_Section):
    """Texts for quantizers that learn from some: ``file``, or ``dataset`` with its revision (a folder or file needs none)."""

    name: Annotated[str, Field(pattern=NAME)] | None = None
    file: str | None = None
    dataset: str | None = None
    config: str | None = None
    revision: str | None = None
    split: Annotated[str, Field(min_length=1)] = "train"
    column: Annotated[str, Field(min_length=1)] = "text"
    tokens: Count = 8192
    seed: Annotated[int, Field(ge=0)] = 0


class _KVCache(_Section):
    bits: Literal[8, 4, 2]
    backend: Literal["torch"] = "torch"


class _Variant(_Section):
    name: Annotated[str, Field(pattern=NAME)]
    quantizer: str
    role: Role = "candidate"
    bits: Annotated[int, Field(ge=2, le=8)] | None = None
    granularity: Annotated[str, Field(pattern=GRANULARITY)] = "tensor"
    options: dict[str, Scalar] = {}
    python: str | None = None
    calibration: _Calibration | None = None
    measure: Literal["all", "quality"] = "all"
    kv_cache: _KVCache | None = None


class _Workload(_Section):
    prompt_tokens: Count = 64
    output_tokens: Annotated[int, Field(ge=2)] = 64
    batch_sizes: Annotated[list[Count], Field(min_length=1)] = [1, 8]
    max_batch: Count = 64
    fill_repeats: Count = 3
    fill_budget: str | int | float = "15min"
    warmups: Annotated[int, Field(ge=0)] = 1
    quadruples: Count = 1


class _OtherWorkload(_Section):
    """Further lengths at which speed is measured; the ceiling is that of ``workload``."""

    name: Annotated[str, Field(pattern=NAME)]
    prompt_tokens: Count
    output_tokens: Annotated[int, Field(ge=2)]
    batch_sizes: Annotated[list[Count], Field(min_length=1)] = [1]


class _Timing(_Section):
    """How much time speed may take."""

    budget: str | int | float = "20min"
    most_quadruples: Annotated[int, Field(ge=4, le=1000)] = 32
    sweep: bool = True
    processes: Literal["fresh", "kept"] = "fresh"


class _Scoring(_Section):
    token_budget: Count = 2048
    max_rows: Count = 16


class _Divergence(_Section):
    texts: Annotated[str, Field(min_length=1)]
    text_field: Name | Annotated[list[Name], Field(min_length=1)] = "text"
    slice_field: Name | None = None
    tokens_per_text: Annotated[int, Field(ge=2)] = 512
    max_texts: Count = 100
    reference: Literal["auto", "stored", "recomputed"] = "auto"
    disk_limit: str | int | float = "8GB"


class _Lognormal(_Section):
    median: Annotated[float, Field(ge=1)]
    sigma: Annotated[float, Field(gt=0)]
    least: Count = 1
    most: Count


class _Lengths(_Section):
    """``uniform: [least, most]`` or ``lognormal: {median, sigma, most}``."""

    uniform: Annotated[list[Count], Field(min_length=2, max_length=2)] | None = None
    lognormal: _Lognormal | None = None


class _Drawn(_Section):
    count: Count
    prompt_tokens: Count | _Lengths
    output_tokens: Count | _Lengths


class _BatchingEngine(_Section):
    """``vllm`` is short for ``{name: vllm}``: what serves, in this environment or in that of ``python``."""

    name: str
    python: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, found: Any) -> Any:
        return {"name": found} if isinstance(found, str) else found


class _Arrivals(_KindAlone):
    """``at_once``, ``given`` (each request has its time), or ``poisson: 2.0``, so many a second."""

    kind: Literal["at_once", "given"] = "at_once"
    poisson: Annotated[float, Field(gt=0)] | None = None


class _Batching(_Section):
    """Static batches against continuous batching, on the same requests: of a file, or drawn."""

    requests: Name | None = None
    drawn: _Drawn | None = None
    rows: Count = 4
    engines: Annotated[list[_BatchingEngine], Field(min_length=1)] = [_BatchingEngine(name="transformers")]
    arrivals: Annotated[list[_Arrivals], Field(min_length=1)] = [_Arrivals()]
    variants: Annotated[list[Name], Field(min_length=1)] | None = None
    seed: Annotated[int, Field(ge=0)] = 0
    repeats: Annotated[int, Field(ge=1, le=100)] = 2
    time_cap: Annotated[float, Field(gt=0)] = 600.0


class _Drafter(_Section):
    """Who drafts: ``prompt_lookup``, or one of these two."""

    self: Annotated[str, Field(pattern=NAME)] | None = None
    model: _Model | None = None


class _Prompts(_Section):
    """Where prompts come from: one of the two."""

    golden_set: Name | None = None
    file: Name | None = None


class _Speculation(_Section):
    drafters: Annotated[list[Literal["prompt_lookup"] | _Drafter], Field(min_length=1)]
    prompts: _Prompts
    decoding: Literal["greedy", "sampling"] = "greedy"
    draft_tokens: Annotated[list[Count], Field(min_length=1)] = [2, 4, 8]
    batch_sizes: Annotated[list[Count], Field(min_length=1)] = [1]
    max_prompts: Count = 16
    output_tokens: Annotated[int, Field(ge=2)] = 48
    repeats: Count = 1


class _Levers(_Section):
    """What is tried besides quantization."""

    batching: _Batching | None = None
    speculation: _Speculation | None = None


class _Budget(_Section):
    """What somebody allows a million output tokens to cost, in the currency of the device's price."""

    owner: Text
    max_cost_per_million_tokens: Positive


class _MLflow(_Section):
    tracking_uri: str | None = None
    experiment: Annotated[str, Field(min_length=1)] = "quantgate"
    artifacts: Annotated[str, Field(min_length=1)] | None = None
    system_metrics: bool = True


class _Promotion(_Section):
    registry: str = "mlflow"
    model: Annotated[str, Field(pattern=NAME)] | None = None
    alias: str = "champion"
    challenger: str | None = None


class _Dataset(_Section):
    """Rows of a dataset as items; what each key means stands at ``DatasetSource``."""

    name: Annotated[str, Field(pattern=NAME)]
    path: Name | None = None
    hub: Name | None = None
    revision: Annotated[str, Field(pattern=COMMIT)] | None = None
    config: Name | None = None
    split: Name = "train"
    columns: dict[str, Name | Annotated[list[Name], Field(min_length=1)]] = {}
    format: dict[str, Name] = {}
    extract: dict[str, Name] = {}
    labels: list[str] | Name | None = None
    constants: dict[str, Scalar | list[Scalar]] = {}
    limit: Count | None = None
    sha256: Annotated[str, Field(pattern=SHA256)] | None = None


class _Harness(_Section):
    """Tasks of lm-evaluation-harness."""

    tasks: Annotated[list[Name], Field(min_length=1)]
    name: Annotated[str, Field(pattern=NAME)] | None = None
    include_path: Name | None = None
    limit: Count | None = None
    num_fewshot: Annotated[int, Field(ge=0)] | None = None
    metric: Name | None = None
    filter: Name | None = None
    sha256: Annotated[str, Field(pattern=SHA256)] | None = None


class _Source(_Section):
    """A golden set that is made from a source: one of the two."""

    datasets: _Dataset | None = None
    lm_eval: _Harness | None = None


class _Limits(_Section):
    """Limits of one golden set, where they are not the baseline's own."""

    max_loss: Limit | None = None
    max_gain: Limit | None = None
    max_flips: Limit | None = None


class _Baseline(_Section):
    """The pinned reference that today's is compared with first; ``max_gain`` left out is ``max_loss``."""

    file: Name
    max_loss: Limit = 0.01
    max_gain: Limit | None = None
    max_flips: Limit | None = 0.03
    limits: dict[str, _Limits] = {}


class _Run(_Section):
    schema_version: int
    model: _Model
    device: _Device = _Device()
    engine: str = "transformers"
    executor: str = "process"
    variants: Annotated[list[_Variant], Field(min_length=1)]
    golden_sets: Annotated[list[str | _Source], Field(min_length=1)]
    policy: str
    workload: _Workload = _Workload()
    workloads: list[_OtherWorkload] = []
    timing: _Timing = _Timing()
    scoring: _Scoring = _Scoring()
    calibration: _Calibration | None = None
    divergence: _Divergence | None = None
    levers: _Levers = _Levers()
    out: str = "../reports"
    cache: str | None = None
    sinks: list[str] = ["folder", "junit", "mlflow", "console"]
    mlflow: _MLflow = _MLflow()
    promotion: _Promotion = _Promotion()
    budget: _Budget | None = None
    provenance: Literal["machine", "fixed"] = "machine"
    run_id: Annotated[str, Field(pattern=NAME)] | None = None
    baseline: _Baseline | None = None


def _said(text: str) -> Any:
    """What an editor shows beside a key of a policy."""
    return Field(description=text)


def _day(found: Any) -> str:
    """A day as YAML reads it, or as text in quotes; written back in one form."""
    text = found.isoformat() if type(found) is date else found
    if not isinstance(text, str) or not DAY.fullmatch(text):
        raise PydanticCustomError("day", "a day is expected, for example 2026-12-31")
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise PydanticCustomError("day", "there is no such day") from error


class _Check(_Section):
    kind: Annotated[
        Literal[
            "quality", "output_length", "freed_share", "share_quantized", "ceiling_ratio", "kl_mean", "kl_p99", "kl_p999",
            "rms_probability_change", "top1_agreement",
            "perplexity_ratio", "min_speed_ratio", "max_ttft_ratio", "max_itl_p99_ratio",
            "batching_utilisation_gain", "batching_itl_p99_ratio",
            "speculation_acceptance", "speculation_lossless", "speculation_speed_ratio",
            "cost_ratio", "cost_per_million_tokens",
        ],
        _said("What is asked. Only quality and perplexity_ratio can let a variant pass; the others can block one."),
    ]  # fmt: skip
    tier: Annotated[Tier, _said("required: it blocks. advisory: it is shown and never decides.")] = "required"
    golden_set: Annotated[str, Field(min_length=1), _said("The golden set's name, * for every one.")] = "*"
    slice: Annotated[
        Name | Annotated[list[Name], Field(min_length=1)] | None,
        _said("quality: slices of the golden set, each a check of its own; * for every one. Left out: the whole set."),
    ] = None
    minimum_items: Annotated[Count | None, _said("quality, perplexity_ratio: the fewest items; left out: the policy's number.")] = None
    margin: Annotated[
        Annotated[float, Field(gt=0)] | None,
        _said("quality: the largest loss allowed, a share of the items; 0.03 is 3 points. Of unbounded scores: in their own unit."),
    ] = None
    scale: Annotated[
        Literal["unbounded"] | None, _said("quality: scores may be any number, as log-likelihoods are; left out: they lie in 0 to 1.")
    ] = None
    better: Annotated[
        Better | None, _said("quality: whether higher or lower scores are better, where the results do not state it.")
    ] = None
    minimum: Annotated[Limit | None, _said("The smallest figure that passes; shares are written 0.25 for 25 %.")] = None
    maximum: Annotated[Limit | None, _said("The largest figure that passes: divergence in nats, perplexity and cost as ratios.")] = None
    at: Annotated[
        Count | Literal["ceiling"] | None,
        _said("speed: the batch at which both are timed, or ceiling for each one's own largest; left out: batch 1."),
    ] = None
    workload: Annotated[
        Annotated[str, Field(pattern=NAME)] | None, _said("speed: name of one of the run's workloads; left out: its own workload.")
    ] = None
    engine: Annotated[Name | None, _said("batching_*: the engine that it is for; left out: every engine of the run.")] = None


class _Waiver(_Section):
    check: Annotated[Text, _said("The check's name as reports print it, for example quality/everyday.")]
    variant: Annotated[str, Field(pattern=NAME), _said("The one candidate that it is for.")]
    owner: Annotated[Text, _said("Who answers for it.")]
    reason: Annotated[Text, _said("Why the check is not to block; every report prints it.")]
    expires: Annotated[
        str, BeforeValidator(_day), Field(json_schema_extra={"format": "date"}),
        _said("The last day on which it holds, by the run's own date."),
    ]  # fmt: skip


class _Sequential(_Section):
    bet: Annotated[
        float, Field(gt=0, alias="lambda"), _said("The bet against a loss of the margin at each item; under 1 / (1 - margin).")
    ]
    seed: Annotated[int, Field(ge=0), _said("Gives the order in which items are asked.")] = 0


class _Canary(_Section):
    items: Annotated[int, Field(ge=16, le=256), _said("Prompts that are asked of each golden set, spread evenly over it.")] = 32
    perplexity_ratio: Annotated[
        float, Field(ge=2), _said("Largest perplexity right after the prompts, as a multiple of the reference's.")
    ] = 10.0
    top1_agreement: Annotated[
        float, Field(ge=0, le=0.9), _said("Least share of the prompts after which the likeliest token is the reference's.")
    ] = 0.5


class _Policy(_Section):
    """What must be shown before a variant may go out, set before anything is measured."""

    schema_version: int
    name: Annotated[str, Field(pattern=NAME)]
    why: Annotated[str, Field(min_length=1), _said("Why these margins and limits: it stands in every report.")]
    require: Annotated[
        Literal["all", "any"], _said("any: the best passing candidate goes forward. all: every candidate must pass.")
    ] = "all"
    correction: Annotated[
        Literal["holm", "fixed_sequence", "none"],
        _said("require any: how several candidates are kept from being several chances to pass by luck."),
    ] = "holm"
    order: Annotated[list[Name], _said("fixed_sequence: the candidates, mildest first; anything but a pass stops it.")] = []
    family_size: Annotated[
        Count | None, _said("holm: how many candidates count, those tried and dropped included; left out: those of the run.")
    ] = None
    alpha: Annotated[float, Field(ge=0.0001, le=0.25), _said("One-sided chance of passing a variant that loses the margin.")] = 0.05
    power: Annotated[Share, _said("Chance with which a variant that loses nothing should pass; for planning.")] = 0.8
    planning_flip_rate: Annotated[Share, _said("Share of items that a good variant is expected to flip.")] = 0.05
    noise_flip_rate: Annotated[
        float, Field(ge=0, lt=1), _said("Share of items that the reference itself flips under other batches; for planning.")
    ] = 0.005
    minimum_items: Annotated[Count, _said("The fewest items a quality check may be decided on.")] = 1
    max_absent_reference: Annotated[
        float, Field(ge=0, lt=1), _said("Largest share of items that the reference may leave unanswered.")
    ] = 0.01
    objective: Annotated[
        Literal["freed_bytes", "ceiling", "tokens_per_s_at_ceiling", "smallest_loss"],
        _said("Which of several passing candidates goes forward."),
    ] = "freed_bytes"
    require_controls: Annotated[bool, _said("A run without a known-bad control is not measured.")] = False
    checks: Annotated[list[_Check], Field(min_length=1)]
    waivers: Annotated[list[_Waiver], _said("Checks that are not to block one variant, until a day.")] = []
    looks: Annotated[
        Annotated[int, Field(ge=2, le=20)] | None,
        _said("How often quality is looked at while items are scored, the last time at all of them; left out: once."),
    ] = None
    looks_seed: Annotated[int, Field(ge=0), _said("looks: gives the order in which items are asked.")] = 0
    sequential: Annotated[
        _Sequential | None, _said("Quality is looked at after every item, by a test that stays valid whenever one stops.")
    ] = None
    canary: Annotated[
        _Canary | None, _said("Ends the scoring of a candidate that is plainly broken after a few prompts, as a fail; left out: never.")
    ] = None


# ---------------------------------------------------------------------------------------------- reading


def load_run(path: Path) -> RunConfig:
    """Read a run config and the policy it names. Raises ``ConfigError`` or ``UnknownPlugin``; reads no model."""
    document = _Document.read(path)
    raw = document.parse(_Run)
    base = path.resolve().parent
    _check_sources(raw, document)
    _check_variants(raw, document, base)
    _check_calibration(raw, document)
    _check_names(raw, document)
    _check_provenance(raw, document)
    _check_golden_sets(raw, document)
    _check_texts(raw, document, base)
    _check_baseline(raw, document)
    _check_batching(raw, document)
    _check_speculation(raw, document, base)
    policy_path = _resolve(base, raw.policy)
    policy = load_policy(policy_path)
    _check_chances(raw, policy, policy_path)
    _check_candidates(raw, policy, policy_path)
    _check_workloads(raw, document, policy, policy_path)
    _check_cost(raw, policy, policy_path)
    return RunConfig(
        path=path.resolve(),
        model=_model_source(raw.model, base),
        device=_device(raw.device, document),
        engine=raw.engine,
        executor=raw.executor,
        variants=tuple(_variant(one, base, raw.calibration) for one in raw.variants),
        golden_sets=tuple(_golden_set(one, base) for one in raw.golden_sets),
        policy_path=policy_path,
        policy=policy,
        workload=_workload(raw.workload, document),
        workloads=tuple(_other_workload(one, raw.workload) for one in raw.workloads),
        timing=_timing(raw.timing, document),
        batch_plan=BatchPlan(**raw.scoring.model_dump()),
        divergence=None if raw.divergence is None else _divergence(raw.divergence, base, document),
        levers=Levers(
            batching=None if raw.levers.batching is None else _batching(raw.levers.batching, raw, base),
            speculation=None if raw.levers.speculation is None else _speculation(raw.levers.speculation, base),
        ),
        out=_resolve(base, raw.out),
        cache=_cache(raw.cache, base),
        sinks=tuple(raw.sinks),
        registry=raw.promotion.registry,
        tracking_uri=_tracking_uri(raw.mlflow.tracking_uri, base, _resolve(base, raw.out)),
        experiment=raw.mlflow.experiment,
        registered_model=raw.promotion.model or raw.model.name,
        alias=raw.promotion.alias,
        challenger=raw.promotion.challenger,
        artifacts=_artifacts(raw.mlflow.artifacts, base),
        system_metrics=raw.mlflow.system_metrics,
        provenance=raw.provenance,
        run_id=raw.run_id,
        baseline=None if raw.baseline is None else _baseline(raw.baseline, base),
        price=_price(raw, document),
        budget=None if raw.budget is None else Budget(**raw.budget.model_dump()),
    )


def load_policy(path: Path) -> Policy:
    """Read a policy file. Raises ``ConfigError`` for a missing file, an unknown key, no checks, or a check without its limit."""
    document = _Document.read(path)
    raw = document.parse(_Policy)
    for index, check in enumerate(raw.checks):
        _check_limits(check, document, index)
    _check_correction(raw, document)
    _check_waivers(raw, document)
    _check_early(raw, document)
    if not any(check.kind in TESTED and check.tier == "required" for check in raw.checks):
        what = (
            "no check is of kind 'quality' and tier 'required', nor of kind 'perplexity_ratio': the others can block a variant, "
            "none can pass one alone"
        )
        raise document.error(("checks",), what)
    values = raw.model_dump(exclude={"schema_version", "checks", "order", "waivers", "sequential", "canary"})
    return Policy(
        **values,
        sequential=None if raw.sequential is None else Sequential(bet=raw.sequential.bet, seed=raw.sequential.seed),
        canary=None if raw.canary is None else Canary(**raw.canary.model_dump()),
        order=tuple(raw.order),
        checks=tuple(_rule(check) for check in raw.checks),
        waivers=tuple(Waiver(**one.model_dump()) for one in raw.waivers),
    )


def ci_of_environment() -> ContinuousIntegration:
    """What GitHub Actions says of itself: ``GITHUB_STEP_SUMMARY`` names a file, ``GITHUB_ACTIONS`` is ``true``."""
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    return ContinuousIntegration(
        summary=Path(summary) if summary else None, annotations=os.environ.get("GITHUB_ACTIONS") == "true"
    )


def policy_error(path: Path, where: tuple[str | int, ...], what: str) -> ConfigError:
    """A fault that shows only beside a run or its golden sets, with the line of the key in the policy file."""
    return _Document.read(path).error(where, what)


def policy_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of policy files, for editors; rules that span keys are those of ``load_policy``."""
    schema = _Policy.model_json_schema()
    schema["title"] = "quantgate policy, schema version 1"
    schema["properties"]["schema_version"] = {"const": SCHEMA_VERSION}
    check = schema["$defs"]["_Check"]
    check["allOf"] = [
        {"if": {"properties": {"kind": {"const": kind}}}, "then": {"required": list(needs)}} for kind, needs in LIMITS.items()
    ]
    bounded = {"properties": {"margin": {"anyOf": [{"type": "number", "exclusiveMaximum": 1}, {"type": "null"}]}}}
    check["allOf"].append({"if": {"not": {"properties": {"scale": {"const": "unbounded"}}, "required": ["scale"]}}, "then": bounded})
    check["allOf"].append(
        {"if": {"properties": {"kind": {"const": "perplexity_ratio"}}}, "then": {"properties": {"maximum": {"minimum": 1}}}}
    )
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def policy_schema_text() -> str:
    """The schema as docs/schema/ has it."""
    return json.dumps(policy_schema(), indent=2) + "\n"


def _rule(raw: _Check) -> CheckRule:
    given = [raw.slice] if isinstance(raw.slice, str) else raw.slice or []
    at = (raw.at or 1) if raw.kind in FOR_SPEED else None
    return CheckRule(**raw.model_dump(exclude={"slice", "at", "workload"}), slices=tuple(given), at=at, workload=raw.workload or MAIN)


def uncorrected(policy: Policy, chances: int) -> bool:
    """Whether a policy gives several candidates each a chance to pass by luck, and says nothing of it."""
    return policy.require == "any" and policy.correction == "none" and chances > 1


def tracking_uri_of_environment() -> str | None:
    """``MLFLOW_TRACKING_URI``, None where it is unset or empty."""
    return os.environ.get("MLFLOW_TRACKING_URI") or None


def _resolve(base: Path, text: str) -> Path:
    return (base / Path(text).expanduser()).resolve()


def _cache(text: str | None, base: Path) -> Path:
    return default_cache() if text is None else _resolve(base, text)


def default_cache() -> Path:
    """Where artifacts and results are kept for later runs: ``QUANTGATE_CACHE``, else the user's cache folder."""
    if configured := os.environ.get("QUANTGATE_CACHE"):
        return Path(configured).expanduser().resolve()
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "quantgate"


def _tracking_uri(text: str | None, base: Path, out: Path) -> str:
    """The config's own store, else the environment's, else an SQLite file beside the reports."""
    if text is None:
        return tracking_uri_of_environment() or f"sqlite:///{out / 'mlflow.db'}"
    prefix = "sqlite:///"
    if text.startswith(prefix) and not text.startswith(prefix + "/"):
        return prefix + str(_resolve(base, text.removeprefix(prefix)))
    return text


def _artifacts(text: str | None, base: Path) -> str | None:
    """A folder beside the config, or an address as it stands."""
    return text if text is None or "://" in text else str(_resolve(base, text))


def _model_source(raw: _Model, base: Path) -> ModelSource:
    values = raw.model_dump()
    if raw.path is not None:
        values["path"] = str(_resolve(base, raw.path))
    return ModelSource(**values)


def _golden_set(raw: str | _Source, base: Path) -> Path | DatasetSource | HarnessSource:
    if isinstance(raw, str):
        return _resolve(base, raw)
    if raw.datasets is not None:
        values = raw.datasets.model_dump()
        labels = raw.datasets.labels
        constants = {key: tuple(one) if isinstance(one, list) else one for key, one in raw.datasets.constants.items()}
        path = None if raw.datasets.path is None else str(_resolve(base, raw.datasets.path))
        columns = {key: tuple(one) if isinstance(one, list) else one for key, one in raw.datasets.columns.items()}
        values |= {"path": path, "columns": columns, "constants": constants}
        return DatasetSource(**values | {"labels": tuple(labels) if isinstance(labels, list) else labels})
    asked = raw.lm_eval or _Harness(tasks=["?"])  # _check_golden_sets has seen to it that there is one
    files = tuple(str(_resolve(base, one)) if one.endswith((".yaml", ".yml")) else one for one in asked.tasks)
    include = None if asked.include_path is None else str(_resolve(base, asked.include_path))
    name = asked.name or "-".join(Path(one).stem if one.endswith((".yaml", ".yml")) else one for one in asked.tasks)
    return HarnessSource(**{**asked.model_dump(), "name": name, "tasks": files, "include_path": include})


def _device(raw: _Device, document: _Document) -> DeviceConfig:
    if raw.uuid is not None and "index" in raw.model_fields_set:
        raise document.error(("device", "uuid"), "'index' and 'uuid' both name a device; keep one of the two")
    return DeviceConfig(
        kind=raw.kind,
        threads=raw.threads,
        index=raw.index,
        uuid=raw.uuid,
        dtype=raw.dtype,
        memory_budget_bytes=None if raw.memory_budget is None else _size_bytes(raw.memory_budget, document, ("device", "memory_budget")),
    )


def _workload(raw: _Workload, document: _Document) -> Workload:
    return Workload(
        **{
            **raw.model_dump(exclude={"fill_budget"}),
            "batch_sizes": tuple(sorted(set(raw.batch_sizes))),
            "fill_budget_s": _duration_s(raw.fill_budget, document, ("workload", "fill_budget")),
        }
    )


def _timing(raw: _Timing, document: _Document) -> TimingConfig:
    budget_s = _duration_s(raw.budget, document, ("timing", "budget"))
    return TimingConfig(budget_s=budget_s, most_quadruples=raw.most_quadruples, sweep=raw.sweep, processes=raw.processes)


def _duration_s(raw: str | int | float, document: _Document, place: tuple[str, ...]) -> float:
    try:
        return durations.seconds(raw)
    except ValueError as error:
        raise document.error(place, f"{'.'.join(place)}: {error}") from error


def _other_workload(raw: _OtherWorkload, main: _Workload) -> Workload:
    return Workload(
        name=raw.name,
        prompt_tokens=raw.prompt_tokens,
        output_tokens=raw.output_tokens,
        batch_sizes=tuple(sorted(set(raw.batch_sizes))),
        max_batch=main.max_batch,
        warmups=main.warmups,
    )


def _price(raw: _Run, document: _Document) -> Price | None:
    """The device's price. It is no part of the device's settings: what was measured does not depend on it."""
    if raw.device.price_per_hour is not None:
        return Price(per_hour=raw.device.price_per_hour, currency=raw.device.currency or DEFAULT_CURRENCY)
    if raw.device.currency is not None:
        raise document.error(("device", "currency"), "'currency' is for 'price_per_hour'; add the price, or leave the currency out")
    if raw.budget is not None:
        what = "a budget needs the device's price: add 'price_per_hour' under 'device', for example price_per_hour: 2.49"
        raise document.error(("budget",), what)
    return None


def _divergence(raw: _Divergence, base: Path, document: _Document) -> DivergenceConfig:
    return DivergenceConfig(
        path=str(_resolve(base, raw.texts)),
        fields=(raw.text_field,) if isinstance(raw.text_field, str) else tuple(raw.text_field),
        slice_field=raw.slice_field,
        tokens_per_text=raw.tokens_per_text,
        max_texts=raw.max_texts,
        reference=raw.reference,
        disk_limit_bytes=_size_bytes(raw.disk_limit, document, ("divergence", "disk_limit")),
    )


def _batching(raw: _Batching, run: _Run, base: Path) -> BatchingConfig:
    reference = next(one.name for one in run.variants if one.role == "reference")
    return BatchingConfig(
        path=None if raw.requests is None else str(_resolve(base, raw.requests)),
        drawn=None if raw.drawn is None else _drawn(raw.drawn),
        rows=raw.rows,
        engines=tuple(
            BatchingEngine(name=one.name, interpreter=None if one.python is None else str(_interpreter(base, one.python)))
            for one in raw.engines
        ),
        arrivals=tuple(_arrivals(one) for one in raw.arrivals),
        variants=tuple(raw.variants or (reference,)),
        seed=raw.seed,
        repeats=raw.repeats,
        time_cap_s=raw.time_cap,
    )


def _arrivals(raw: _Arrivals) -> Arrivals:
    return Arrivals(kind=raw.kind) if raw.poisson is None else Arrivals(kind="poisson", rate_per_s=raw.poisson)


def _drawn(raw: _Drawn) -> DrawnRequests:
    return DrawnRequests(count=raw.count, prompt=_lengths(raw.prompt_tokens), output=_lengths(raw.output_tokens))


def _lengths(raw: int | _Lengths) -> Lengths:
    if isinstance(raw, int):
        return Lengths(kind="fixed", least=raw, most=raw)
    if raw.lognormal is not None:
        return Lengths(kind="lognormal", **raw.lognormal.model_dump())
    least, most = raw.uniform or (1, 1)  # _check_batching has seen to it that there is one of the two
    return Lengths(kind="uniform", least=least, most=most)


def _speculation(raw: _Speculation, base: Path) -> SpeculationConfig:
    return SpeculationConfig(
        drafters=tuple(_drafter(one, base) for one in raw.drafters),
        draft_tokens=tuple(sorted(set(raw.draft_tokens))),
        batch_sizes=tuple(sorted(set(raw.batch_sizes))),
        golden_set=raw.prompts.golden_set,
        path=None if raw.prompts.file is None else str(_resolve(base, raw.prompts.file)),
        **raw.model_dump(include={"max_prompts", "output_tokens", "repeats"}),
    )


def _drafter(raw: Literal["prompt_lookup"] | _Drafter, base: Path) -> Drafter:
    if isinstance(raw, str):
        return Drafter(kind=raw)
    if raw.model is not None:
        return Drafter(kind="model", model=_model_source(raw.model, base))
    return Drafter(kind="self", variant=raw.self)


def _size_bytes(value: str | int | float, document: _Document, where: tuple[str | int, ...]) -> int:
    """``600MiB`` -> bytes. A number without unit is bytes; 0 is no budget."""
    try:
        size = size_bytes(value)
    except ValueError:
        size = 0
    if not size:
        raise document.error(where, f"'{value}' is not a size; {EXPECTED}")
    return size


def _baseline(raw: _Baseline, base: Path) -> BaselineConfig:
    """The limits for every golden set, then those of single ones with what they leave out filled in."""
    gain = raw.max_loss if raw.max_gain is None else raw.max_gain
    every = BaselineLimits(max_loss=raw.max_loss, max_gain=gain, max_flips=raw.max_flips)
    return BaselineConfig(path=_resolve(base, raw.file), limits=(every, *(_own(name, one, every) for name, one in raw.limits.items())))


def _own(name: str, raw: _Limits, every: BaselineLimits) -> BaselineLimits:
    loss = every.max_loss if raw.max_loss is None else raw.max_loss
    gain = raw.max_gain if raw.max_gain is not None else every.max_gain if raw.max_loss is None else loss
    flips = raw.max_flips if "max_flips" in raw.model_fields_set else every.max_flips
    return BaselineLimits(golden_set=name, max_loss=loss, max_gain=gain, max_flips=flips)


def _variant(raw: _Variant, base: Path, shared: _Calibration | None) -> Variant:
    calibration = raw.calibration or (shared if raw.quantizer in CALIBRATED else None)
    return Variant(
        name=raw.name,
        quantizer=raw.quantizer,
        role=raw.role,
        weight_bits=raw.bits,
        granularity=raw.granularity,
        options=_options(raw, base),
        interpreter=None if raw.python is None else str(_interpreter(base, raw.python)),
        calibration=None if calibration is None else _calibration(calibration, base),
        measure=raw.measure,
        kv_cache=None if raw.kv_cache is None else KVCache(bits=raw.kv_cache.bits, backend=raw.kv_cache.backend),
    )


def _options(raw: _Variant, base: Path) -> dict[str, Scalar]:
    """The options, with the path of a ready checkpoint made absolute."""
    path = raw.options.get("path")
    if raw.quantizer != CHECKPOINT or not isinstance(path, str):
        return raw.options
    return {**raw.options, "path": str(_resolve(base, path))}


def _interpreter(base: Path, text: str) -> Path:
    """The interpreter's path as given: a virtual environment is known by the place of its link, not by what it points to."""
    return Path(os.path.abspath(base / Path(text).expanduser()))  # noqa: PTH100 - `resolve` would follow the link


def _calibration(raw: _Calibration, base: Path) -> Calibration:
    """A dataset that is a folder or file here gets its path made absolute."""
    local = raw.dataset is not None and raw.dataset.startswith((".", "/", "~"))
    source = raw.file or raw.dataset or ""
    return Calibration(
        name=raw.name or Path(source).stem,
        path=None if raw.file is None else str(_resolve(base, raw.file)),
        dataset=str(_resolve(base, raw.dataset)) if local and raw.dataset is not None else raw.dataset,
        **raw.model_dump(include={"config", "revision", "split", "column", "tokens", "seed"}),
    )


# ---------------------------------------------------------------------------------------------- rules that span keys


def _check_sources(raw: _Run, document: _Document) -> None:
    _check_source(raw.model, document, ("model",))


def _check_source(model: _Model, document: _Document, where: tuple[str | int, ...]) -> None:
    given = [key for key in ("path", "hub", "package") if getattr(model, key) is not None]
    if len(given) != 1:
        found = " and ".join(given) if given else "none"
        raise document.error(where, f"the model needs exactly one of path, hub or package; found {found}")
    if model.hub is not None and model.revision is None:
        what = "a hub model needs 'revision': the commit that is to be measured, so that it can be found again"
        raise document.error((*where, "hub"), what)


def _check_golden_sets(raw: _Run, document: _Document) -> None:
    """A golden set is a path or one source; a hub's dataset is pinned, and a set's name can be a file's."""
    for index, one in enumerate(raw.golden_sets):
        if isinstance(one, str):
            continue
        where: tuple[str | int, ...] = ("golden_sets", index)
        if (one.datasets is None) == (one.lm_eval is None):
            raise document.error(where, "a golden set is a path, or one of 'datasets' and 'lm_eval'")
        if one.datasets is not None:
            given = [key for key in ("path", "hub") if getattr(one.datasets, key) is not None]
            if len(given) != 1:
                found = " and ".join(given) if given else "none"
                raise document.error((*where, "datasets"), f"a dataset needs exactly one of path and hub; found {found}")
            if one.datasets.hub is not None and one.datasets.revision is None:
                what = "a hub dataset needs 'revision': the commit that is to be asked, so that it can be found again"
                raise document.error((*where, "datasets", "hub"), what)
        if one.lm_eval is not None and one.lm_eval.name is None and not re.match(NAME, _golden_set(one, Path()).name):
            what = "the tasks make no name for reports; give the golden set a 'name'"
            raise document.error((*where, "lm_eval"), what)


def _check_variants(raw: _Run, document: _Document, base: Path) -> None:
    names = [variant.name for variant in raw.variants]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise document.error(
                ("variants", index, "name"), f"two variants are named '{name}'; each needs a name of its own"
            )
    references = [index for index, variant in enumerate(raw.variants) if variant.role == "reference"]
    if len(references) != 1:
        raise document.error(("variants",), f"exactly one variant must have 'role: reference'; found {len(references)}")
    if raw.variants[references[0]].bits is not None:
        raise document.error(
            ("variants", references[0], "bits"), "the reference is the unquantized model and has no 'bits'"
        )
    for index, variant in enumerate(raw.variants):
        if variant.role == "identity" and variant.bits is not None:
            raise document.error(("variants", index, "bits"), "the identity control is the reference again and has no 'bits'")
        if variant.python is not None and not _interpreter(base, variant.python).is_file():
            what = f"there is no interpreter {_interpreter(base, variant.python)}"
            raise document.error(("variants", index, "python"), what)
    for index, variant in enumerate(raw.variants):
        if variant.kv_cache is not None and variant.role in ("reference", "identity"):
            what = f"the {variant.role} is the unquantized model and keeps its cache in float; give 'kv_cache' to a candidate"
            raise document.error(("variants", index, "kv_cache"), what)
    if raw.variants[references[0]].measure != "all":
        what = "the reference is measured in full: every other figure is compared with its own"
        raise document.error(("variants", references[0], "measure"), what)
    if not any(variant.role == "candidate" for variant in raw.variants):
        raise document.error(("variants",), "no variant has 'role: candidate': there is nothing to promote")


def _check_calibration(raw: _Run, document: _Document) -> None:
    """Every set that is named can be found again, and whoever needs one has one."""
    named: list[tuple[tuple[str | int, ...], _Calibration | None]] = [(("calibration",), raw.calibration)]
    named += [(("variants", index, "calibration"), one.calibration) for index, one in enumerate(raw.variants)]
    for where, one in named:
        if one is None:
            continue
        if (one.file is None) == (one.dataset is None):
            raise document.error(where, "a calibration set needs exactly one of file and dataset")
        if one.dataset is not None and not one.dataset.startswith((".", "/", "~")) and one.revision is None:
            what = "a calibration dataset needs 'revision': the commit that is meant, so that it can be found again"
            raise document.error((*where, "dataset"), what)
    for index, variant in enumerate(raw.variants):
        if variant.quantizer in CALIBRATED and variant.calibration is None and raw.calibration is None:
            what = f"quantizer '{variant.quantizer}' learns from texts: add 'calibration' with a file, for the run or for this variant"
            raise document.error(("variants", index, "quantizer"), what)


def _check_texts(raw: _Run, document: _Document, base: Path) -> None:
    """The file's name becomes part of checks' names and of paths, so it obeys the rule of names."""
    if raw.divergence is None:
        return
    path = _resolve(base, raw.divergence.texts)
    if not path.is_file():
        raise document.error(("divergence", "texts"), f"there is no file of texts {path}")
    if not re.match(NAME, path.stem):
        what = f"the file's name '{path.stem}' names the check: letters, digits, '.', '_' and '-' are allowed; rename the file"
        raise document.error(("divergence", "texts"), what)


def _check_baseline(raw: _Run, document: _Document) -> None:
    """Limits for every golden set are shares; those of one alone may be in the unit of scores without bounds."""
    if raw.baseline is None:
        return
    for key in ("max_loss", "max_gain", "max_flips"):
        value = getattr(raw.baseline, key)
        if value is not None and value > 1:
            meant = f"; write {value / 100:g} for {value:g} %" if value <= 100 else ""
            raise document.error(("baseline", key), f"{key}: a share is at most 1; found {value:g}{meant}")
    for name, one in raw.baseline.limits.items():
        if one.max_flips is not None and one.max_flips > 1:
            what = f"max_flips: a share is at most 1; found {one.max_flips:g}"
            raise document.error(("baseline", "limits", name, "max_flips"), what)


def _check_batching(raw: _Run, document: _Document) -> None:
    """Requests of one source, lengths in order, each engine and pattern once, variants that the run has."""
    found, where = raw.levers.batching, ("levers", "batching")
    if found is None:
        return
    if (found.requests is None) == (found.drawn is None):
        what = "the requests come from one of 'requests', a file, and 'drawn', lengths from a distribution"
        raise document.error(where, f"{what}; found {'neither' if found.requests is None else 'both'}")
    for key in ("prompt_tokens", "output_tokens"):
        lengths = None if found.drawn is None else getattr(found.drawn, key)
        if isinstance(lengths, _Lengths):
            _check_lengths(lengths, document, (*where, "drawn", key))
    for key, names in (("engines", [one.name for one in found.engines]), ("variants", found.variants or [])):
        for index, name in enumerate(names):
            if name in names[:index]:
                raise document.error((*where, key, index), f"'{name}' stands twice")
    arrivals = [_arrivals(one) for one in found.arrivals]
    for index, one in enumerate(arrivals):
        if one in arrivals[:index]:
            raise document.error((*where, "arrivals", index), f"'{one.label}' stands twice")
    known = [variant.name for variant in raw.variants]
    for index, name in enumerate(found.variants or []):
        if name not in known:
            raise document.error((*where, "variants", index), f"the run has no variant '{name}': {_nearest(name, known)}")


def _check_lengths(lengths: _Lengths, document: _Document, where: tuple[str | int, ...]) -> None:
    if (lengths.uniform is None) == (lengths.lognormal is None):
        raise document.error(where, "lengths are a number, 'uniform' or 'lognormal'")
    least, most = (lengths.lognormal.least, lengths.lognormal.most) if lengths.lognormal else lengths.uniform or (1, 1)
    if least > most:
        raise document.error(where, f"the shortest length {least} lies above the longest {most}")


def _check_speculation(raw: _Run, document: _Document, base: Path) -> None:
    """Greedy decoding, prompts from one place, and drafters that are there."""
    if (asked := raw.levers.speculation) is None:
        return
    where: tuple[str | int, ...] = ("levers", "speculation")
    if asked.decoding == "sampling":
        what = (
            "speculation is measured with greedy decoding: under sampling a draft must be accepted by the very distribution that it was "
            "drawn from, and these drafters give one token and no distribution; write 'decoding: greedy', or leave it out"
        )
        raise document.error((*where, "decoding"), what)
    if (asked.prompts.golden_set is None) == (asked.prompts.file is None):
        raise document.error((*where, "prompts"), "prompts come from exactly one of golden_set and file")
    if asked.prompts.file is not None and not _resolve(base, asked.prompts.file).is_file():
        raise document.error((*where, "prompts", "file"), f"there is no file of prompts {_resolve(base, asked.prompts.file)}")
    names: list[str] = []
    for index, one in enumerate(asked.drafters):
        _check_drafter(one, raw, document, (*where, "drafters", index))
        if (name := _drafter(one, base).name) in names:
            raise document.error((*where, "drafters", index), f"drafter {name} stands twice; once is enough")
        names.append(name)


def _check_drafter(one: str | _Drafter, raw: _Run, document: _Document, where: tuple[str | int, ...]) -> None:
    if isinstance(one, str):
        return
    if (one.self is None) == (one.model is None):
        raise document.error(where, "a drafter is 'prompt_lookup', or exactly one of 'self: VARIANT' and 'model: {...}'")
    if one.model is not None:
        _check_source(one.model, document, (*where, "model"))
        return
    roles = {variant.name: variant.role for variant in raw.variants}
    others = [name for name, role in roles.items() if role != "reference"]
    if one.self not in roles:
        raise document.error((*where, "self"), f"the run has no variant '{one.self}' to draft: {_nearest(one.self or '', others)}")
    if roles[one.self] == "reference":
        what = f"'{one.self}' is the reference, which is drafted for; another variant drafts: {', '.join(others)}"
        raise document.error((*where, "self"), what)
    found = next(variant for variant in raw.variants if variant.name == one.self)
    if found.kv_cache is not None:
        what = f"variant '{one.self}' keeps its cache in fewer bits, and drafts have to be taken back out of it; name another one"
        raise document.error((*where, "self"), what)
    if found.python is not None:
        what = f"variant '{one.self}' has an interpreter of its own, and a drafter stands in the reference's process; name another one"
        raise document.error((*where, "self"), what)


def _check_names(raw: _Run, document: _Document) -> None:
    """Every plugin name and the alias, before hours are spent."""
    asked: list[tuple[tuple[str | int, ...], str, str]] = [
        (("device", "kind"), "device", raw.device.kind),
        (("engine",), "engine", raw.engine),
        (("executor",), "executor", raw.executor),
        (("promotion", "registry"), "registry", raw.promotion.registry),
    ]
    asked += [(("variants", i, "quantizer"), "quantizer", one.quantizer) for i, one in enumerate(raw.variants)]
    asked += [(("sinks", i), "sink", one) for i, one in enumerate(raw.sinks)]
    batching = raw.levers.batching
    asked += [(("levers", "batching", "engines", i), "batcher", one.name) for i, one in enumerate(batching.engines if batching else [])]
    for where, seam, name in asked:
        try:
            plugins.check(seam, name)
        except UnknownPlugin as error:
            raise document.error(where, str(error)) from error
    _check_aliases(raw, document)


def _check_aliases(raw: _Run, document: _Document) -> None:
    """The champion's alias and the challenger's: allowed names, and two of them."""
    for key, name in (("alias", raw.promotion.alias), ("challenger", raw.promotion.challenger)):
        try:
            if name is not None:
                check_alias(name)
        except ConfigError as error:
            raise document.error(("promotion", key), error.what) from error
    if raw.promotion.challenger == raw.promotion.alias:
        what = f"the candidate on trial cannot have the alias of the one that is out, '{raw.promotion.alias}': name another"
        raise document.error(("promotion", "challenger"), what)


def _check_provenance(raw: _Run, document: _Document) -> None:
    if raw.provenance == "fixed" and (raw.device.kind, raw.engine) != ("fake", "fake"):
        what = "provenance 'fixed' hides the machine and is for runs with the fake device and the fake engine; leave it out here"
        raise document.error(("provenance",), what)


def _check_chances(raw: _Run, policy: Policy, path: Path) -> None:
    """Several candidates for one promotion are several chances to pass by luck, and the policy must say how they are corrected."""
    refuse_uncorrected(policy, sum(variant.role == "candidate" for variant in raw.variants), path)


def refuse_uncorrected(policy: Policy, chances: int, path: Path) -> None:
    """Refuse a policy, with its file and line, under which several candidates have a chance each."""
    if uncorrected(policy, chances):
        raise policy_error(path, ("correction",), UNCORRECTED.format(chances))


def _check_candidates(raw: _Run, policy: Policy, path: Path) -> None:
    """The candidates that a policy names are those of the run."""
    candidates = [variant.name for variant in raw.variants if variant.role == "candidate"]
    if policy.correction == "fixed_sequence":
        for index, name in enumerate(policy.order):
            if name not in candidates:
                raise policy_error(path, ("order", index), f"'{name}' is no candidate of the run: {_nearest(name, candidates)}")
        for name in candidates:
            if name not in policy.order:
                what = f"candidate '{name}' has no place in the order; each needs one before anything is measured"
                raise policy_error(path, ("order",), what)
    if policy.family_size is not None and policy.family_size < len(candidates):
        what = f"{len(candidates)} candidates compete in the run, and the policy counts {policy.family_size}"
        raise policy_error(path, ("family_size",), what)
    roles = {variant.name: variant.role for variant in raw.variants}
    for index, waiver in enumerate(policy.waivers):
        if (role := roles.get(waiver.variant)) is None:
            what = f"the run has no variant '{waiver.variant}': {_nearest(waiver.variant, candidates)}"
            raise policy_error(path, ("waivers", index, "variant"), what)
        if role != "candidate":
            what = f"'{waiver.variant}' has the role {role}; only a candidate's checks can be waived"
            raise policy_error(path, ("waivers", index, "variant"), what)


def _check_workloads(raw: _Run, document: _Document, policy: Policy, path: Path) -> None:
    """Each workload has a name of its own, and those that a policy names are there."""
    names = [MAIN, *(one.name for one in raw.workloads)]
    for index, one in enumerate(raw.workloads):
        if one.name in names[: index + 1]:
            who = "the run's own workload" if one.name == MAIN else "another workload"
            what = f"{who} has the name '{one.name}' already; give this one another"
            raise document.error(("workloads", index, "name"), what)
    for index, rule in enumerate(policy.checks):
        if rule.workload not in names:
            what = f"the run has no workload '{rule.workload}': {_nearest(rule.workload, names)}"
            raise policy_error(path, ("checks", index, "workload"), what)


def _check_cost(raw: _Run, policy: Policy, path: Path) -> None:
    """A required check on cost needs a price: without one the run would end as not measured, after all of its time."""
    if raw.device.price_per_hour is not None:
        return
    for index, rule in enumerate(policy.checks):
        if rule.kind in FOR_COST and rule.tier == "required":
            what = f"{rule.kind} needs the device's price: give the config 'price_per_hour' under 'device', or make the check advisory"
            raise policy_error(path, ("checks", index, "kind"), what)


def _nearest(name: str, known: list[str]) -> str:
    nearest = get_close_matches(name, known, n=1)
    hint = f"did you mean '{nearest[0]}'? " if nearest else ""
    return f"{hint}known are {', '.join(known)}"


def _check_correction(raw: _Policy, document: _Document) -> None:
    """How several candidates are corrected, with what belongs to it."""
    if raw.correction == "fixed_sequence":
        if raw.require != "any":
            what = "'fixed_sequence' is for 'require: any'; where every candidate must pass, nothing is corrected"
            raise document.error(("correction",), what)
        if not raw.order:
            raise document.error(("correction",), "'fixed_sequence' needs 'order': the candidates, mildest first")
    elif raw.order:
        raise document.error(("order",), f"'order' is for 'correction: fixed_sequence'; found {raw.correction}")
    for index, name in enumerate(raw.order):
        if name in raw.order[:index]:
            raise document.error(("order", index), f"'{name}' stands twice in the order")
    if raw.family_size is not None and (raw.require, raw.correction) != ("any", "holm"):
        raise document.error(("family_size",), "'family_size' is for 'require: any' with 'correction: holm'")


def _check_early(raw: _Policy, document: _Document) -> None:
    """Looking early: in one way or the other, and with a bet that no item can turn into less than nothing."""
    if raw.sequential is not None and raw.looks is not None:
        raise document.error(("looks",), "'looks' and 'sequential' are two ways of looking early; keep one of them")
    if raw.looks is None and raw.looks_seed:
        raise document.error(("looks_seed",), "'looks_seed' is for 'looks'; in the anytime-valid mode the seed is 'sequential.seed'")
    if raw.sequential is None:
        return
    for index, check in enumerate(raw.checks):
        if check.kind == "quality" and check.scale == "unbounded":
            what = "'sequential' is for scores in 0 to 1; for scores without bounds use 'looks', or neither"
            raise document.error(("checks", index, "scale"), what)
        if check.kind == "quality" and check.margin is not None and raw.sequential.bet >= 1 / (1 - check.margin):
            most = f"lambda must lie under 1 / (1 - margin) = {1 / (1 - check.margin):.4g} for the margin {check.margin:g}"
            raise document.error(("sequential", "lambda"), f"{most}; found {raw.sequential.bet:g}")


def _check_waivers(raw: _Policy, document: _Document) -> None:
    seen: set[tuple[str, str]] = set()
    for index, waiver in enumerate(raw.waivers):
        if waiver.check in NEVER_WAIVED:
            what = f"check '{waiver.check}' cannot be waived: it shows that a variant was measured and is what it says it is"
            raise document.error(("waivers", index, "check"), what)
        if (key := (waiver.check, waiver.variant)) in seen:
            what = f"'{waiver.check}' of '{waiver.variant}' is waived twice; keep one of the two"
            raise document.error(("waivers", index), what)
        seen.add(key)


def _check_limits(check: _Check, document: _Document, index: int) -> None:
    needs = LIMITS[check.kind]
    for key in FOR_QUALITY:
        if check.kind != "quality" and getattr(check, key) is not None:
            raise document.error(("checks", index, key), f"'{key}' is for checks of kind quality; found {check.kind}")
    _check_speed(check, document, index)
    if check.engine is not None and not check.kind.startswith("batching_"):
        raise document.error(("checks", index, "engine"), f"'engine' is for checks of batching; found {check.kind}")
    if check.kind not in TESTED and check.minimum_items is not None:
        raise document.error(("checks", index, "minimum_items"), f"'minimum_items' is for checks of kind quality; found {check.kind}")
    if check.margin is not None and check.margin >= 1 and check.scale is None:
        what = f"margin: must be less than 1; found {check.margin:g} (0.03 is 3 points; for unbounded scores write 'scale: unbounded')"
        raise document.error(("checks", index, "margin"), what)
    if check.margin is not None and check.margin < SMALLEST_MARGIN:
        what = f"margin: must be at least {SMALLEST_MARGIN:g}; found {check.margin:g} (0.03 is 3 points): no loss that small can be shown"
        raise document.error(("checks", index, "margin"), what)
    _check_share(check, document, index)
    if check.kind == "perplexity_ratio" and check.maximum is not None and check.maximum < 1:
        what = f"maximum: a ratio of perplexities is 1 where nothing is lost, and must be 1 or more; found {check.maximum:g}"
        raise document.error(("checks", index, "maximum"), what)
    for key in ("margin", "minimum", "maximum"):
        given = getattr(check, key) is not None
        if given and key not in needs:
            raise document.error(
                ("checks", index, key), f"a check of kind {check.kind} has no '{key}'; it takes {', '.join(needs) or 'no limit'}"
            )
        if not given and key in needs:
            raise document.error(("checks", index), f"a check of kind {check.kind} needs '{key}'")
    if check.minimum is not None and check.maximum is not None and check.minimum > check.maximum:
        raise document.error(
            ("checks", index, "minimum"), f"the minimum {check.minimum:g} lies above the maximum {check.maximum:g}"
        )


def _check_speed(check: _Check, document: _Document, index: int) -> None:
    """Where speed is checked, and limits that have a logarithm."""
    for key in ("at", "workload"):
        if check.kind not in FOR_SPEED and getattr(check, key) is not None:
            raise document.error(("checks", index, key), f"'{key}' is for checks on speed ({', '.join(FOR_SPEED)}); found {check.kind}")
    if check.kind in FOR_COST and check.maximum == 0:
        raise document.error(("checks", index, "maximum"), "maximum: a cost is greater than 0, so nothing could pass; found 0")
    if check.kind == "ceiling_ratio" and check.minimum == 0:
        what = "minimum: a ratio of 0 asks nothing; 1.5 is half as many requests again, found 0"
        raise document.error(("checks", index, "minimum"), what)
    if check.kind not in FOR_SPEED:
        return
    if check.golden_set != "*":
        raise document.error(("checks", index, "golden_set"), "speed is not measured on golden sets; leave 'golden_set' out")
    if check.at == "ceiling" and check.workload not in (None, MAIN):
        what = "a ceiling is confirmed at the lengths of the run's own workload only; name a batch for another workload"
        raise document.error(("checks", index, "at"), what)
    for key in ("minimum", "maximum"):
        if getattr(check, key) == 0:
            raise document.error(("checks", index, key), f"{key}: a ratio must be greater than 0; 0.95 is 5 % slower at most, found 0")


def _check_share(check: _Check, document: _Document, index: int) -> None:
    """A share above 1 is a percentage that was meant."""
    for key in ("minimum", "maximum"):
        value = getattr(check, key)
        if check.kind in SHARES and value is not None and value > 1:
            meant = f"; write {value / 100:g} for {value:g} %" if value <= 100 else ""
            raise document.error(("checks", index, key), f"{key}: a share is at most 1; found {value:g}{meant}")


# ---------------------------------------------------------------------------------------------- YAML with line numbers


@dataclass(frozen=True, kw_only=True, slots=True)
class _Document:
    """A parsed YAML file that knows the line of every key."""

    file: str
    values: Any
    lines: Mapping[tuple[str | int, ...], int]

    @classmethod
    def read(cls, path: Path) -> _Document:
        try:
            text = path.read_bytes().decode("utf-8-sig")
        except FileNotFoundError as error:
            raise ConfigError("no such file", file=str(path)) from error
        except OSError as error:
            raise ConfigError(f"cannot be read: {error.strerror or error}", file=str(path)) from error
        except UnicodeDecodeError as error:
            raise ConfigError(f"cannot be read: not UTF-8 at byte {error.start + 1}; save the file as UTF-8", file=str(path)) from error
        try:
            node = yaml.compose(text, Loader=yaml.SafeLoader)
            lines = {} if node is None else dict(_lines(node, (), str(path)))
            values = yaml.safe_load(text)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            what = f"not valid YAML: {getattr(error, 'problem', None) or error}"
            raise ConfigError(what, file=str(path), line=mark.line + 1 if mark else None) from error
        except (RecursionError, ValueError) as error:
            raise ConfigError(f"not usable YAML: {error or type(error).__name__}", file=str(path)) from error
        if not isinstance(values, dict):
            raise ConfigError("a mapping of keys is expected at the top level", file=str(path), line=1)
        return cls(file=str(path), values=values, lines=lines)

    def parse(self, model: type[Any]) -> Any:
        try:
            read = model.model_validate(self.values)
        except ValidationError as error:
            # A misspelt key is also a missing one: the misspelling comes first.
            details = sorted(_meant(error.errors()), key=lambda detail: detail["type"] != "extra_forbidden")
            raise self._translate(model, details[0]) from None
        if read.schema_version != SCHEMA_VERSION:
            raise self.error(
                ("schema_version",),
                f"this quantgate reads schema_version {SCHEMA_VERSION}; found {read.schema_version}",
            )
        return read

    def error(self, where: tuple[str | int, ...], what: str) -> ConfigError:
        return ConfigError(what, file=self.file, line=self._line(where))

    def _line(self, where: tuple[str | int, ...]) -> int | None:
        for length in range(len(where), 0, -1):
            if where[:length] in self.lines:
                return self.lines[where[:length]]
        return 1

    def _place(self, loc: tuple[str | int, ...]) -> tuple[str | int, ...]:
        """A path without the branches of unions that pydantic puts into it; the last part may be a key that is missing."""
        kept: tuple[str | int, ...] = ()
        for part in loc[:-1]:
            if (*kept, part) in self.lines:
                kept = (*kept, part)
        return (*kept, *loc[-1:])

    def _translate(self, model: type[BaseModel], detail: ErrorDetails) -> ConfigError:
        where = self._place(tuple(detail["loc"]))
        while where and where not in self.lines and detail["type"] != "missing":
            where = where[:-1]  # pydantic adds the branch of a union to the path
        key = ".".join(str(part) for part in where)
        match detail["type"]:
            case "extra_forbidden":
                allowed = sorted(_keys_at(model, where[:-1]))
                nearest = get_close_matches(str(where[-1]), allowed, n=1)
                hint = f"did you mean '{nearest[0]}'? " if nearest else ""
                return self.error(where, f"unknown key '{where[-1]}': {hint}allowed here are {', '.join(allowed)}")
            case "missing":
                return self.error(where[:-1], f"key '{key}' is missing")
            case _:
                return self.error(where, f"{key}: {_plain(detail)}")


def _meant(details: list[ErrorDetails]) -> list[ErrorDetails]:
    """Without what a union says of its other branch: whoever wrote a section did not mean a text."""
    deeper = [detail for detail in details if detail["loc"][-1:] != ("str",) and detail["type"] != "model_type"]
    places = {two["loc"][:length] for two in deeper for length in range(len(two["loc"]))}
    return [_of_options(one) for one in details if one["loc"][-1:] != ("str",) or one["loc"][:-1] not in places]


def _of_options(detail: ErrorDetails) -> ErrorDetails:
    """An option may be text, a number or a truth value: of these branches the first would say that only a whole number will do."""
    if detail["loc"][-3:-2] != ("options",) or detail["loc"][-1] not in ("str", "int"):
        return detail
    return {**detail, "type": "finite_number" if isinstance(detail["input"], float) else "scalar_type"}


def _plain(detail: ErrorDetails) -> str:
    """What is allowed, with the value that was found and, where the value looks like a number in text, how to write it."""
    found = detail["input"]
    text = f"{allowed(detail, PATTERNS)}; found {_found(found)}"
    if isinstance(found, bool):
        text += " (YAML reads on, off, yes and no as true or false; put text in quotes)"
    elif isinstance(found, str) and detail["type"] in {"float_type", "int_type", "literal_error"}:
        text += _number_hint(found)
    return text


PATTERNS: Mapping[str, str] = {
    NAME: "a name is letters, digits, '.', '_' and '-', at most 64 of them, and starts with a letter or digit",
    GRANULARITY: "must be tensor, channel, or group:<size>, for example group:64",
    UUID: "a UUID is GPU-... or MIG-..., as nvidia-smi -L prints it",
    COMMIT: "a commit is 40 digits of 0-9 and a-f",
    SHA256: "a SHA-256 is 64 digits of 0-9 and a-f",
    CURRENCY: "a currency is its three capital letters, for example EUR",
}


def _found(value: Any) -> str:
    """A value of YAML as a person reads it."""
    match value:
        case None:
            return "nothing"
        case date():
            return f"the day {value.isoformat()}; put it in quotes where text is meant"
        case list():
            return "a list" if value else "an empty list"
        case dict():
            return "a section of keys"
        case _:
            return repr(value)


def _number_hint(found: str) -> str:
    try:
        number = float(found.rstrip("%")) / (100 if found.endswith("%") else 1)
    except ValueError:
        return ""
    written = f"{number:g}" if "e" not in f"{number:g}" else f"{number:.1e}"
    return f" (this is text to YAML; write {written})"


def _keys_at(model: type[BaseModel], where: tuple[str | int, ...]) -> set[str]:
    """The keys a section allows, found by walking the models along the path."""
    current: Any = model
    named = False  # the last part was a section whose own keys are names that a person chose
    for part in where:
        if named:
            named = False
        elif isinstance(part, str) and isinstance(current, type) and issubclass(current, BaseModel):
            annotation = current.model_fields[part].annotation
            named = getattr(annotation, "__origin__", None) is dict
            current = _section_in(annotation)
    fields = current.model_fields if isinstance(current, type) and issubclass(current, BaseModel) else {}
    return {field.alias or name for name, field in fields.items()}


def _section_in(annotation: Any) -> Any:
    """The section model inside an annotation such as ``list[_Variant]``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for arg in getattr(annotation, "__args__", ()) if (found := _section_in(arg)) is not None), None)


def _lines(node: yaml.Node, where: tuple[str | int, ...], file: str) -> Iterator[tuple[tuple[str | int, ...], int]]:
    match node:
        case yaml.MappingNode():
            seen: set[Any] = set()
            for key, value in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    continue  # no key at all, which the loader refuses
                if key.tag not in KEY_TAGS:
                    what = f"key '{key.value}' is no text to YAML (on, off, yes and no are true or false); put it in quotes"
                    raise ConfigError(what, file=file, line=key.start_mark.line + 1)
                if key.value in seen:
                    raise ConfigError(
                        f"key '{key.value}' stands twice in this section", file=file, line=key.start_mark.line + 1
                    )
                seen.add(key.value)
                path = (*where, key.value)
                yield path, key.start_mark.line + 1
                yield from _lines(value, path, file)
        case yaml.SequenceNode():
            for index, value in enumerate(node.value):
                yield (*where, index), value.start_mark.line + 1
                yield from _lines(value, (*where, index), file)
        case yaml.ScalarNode() if node.style is None:
            _check_scalar(node, where, file)
        case _:
            return


def _check_scalar(node: yaml.ScalarNode, where: tuple[str | int, ...], file: str) -> None:
    """Refuse what YAML reads as another number than is written, and a day that is none; text in quotes is text."""
    key, line = ".".join(map(str, where)), node.start_mark.line + 1
    read = yaml.constructor.SafeConstructor()
    match node.tag.rpartition(":")[2]:
        case "int" | "float" as kind if MISREAD.fullmatch(node.value):
            value = read.construct_yaml_int(node) if kind == "int" else read.construct_yaml_float(node)
            plain = re.sub(r"^([-+]?)0+(?=\d)", r"\1", node.value.replace("_", ""))
            meant = f"{value:g}" if ":" in plain else plain
            what = f"{key}: YAML reads {node.value} as {value:g}; write {meant}, or '{node.value}' in quotes where text is meant"
            raise ConfigError(what, file=file, line=line)
        case "timestamp":
            try:
                read.construct_yaml_timestamp(node)
            except ValueError as error:
                raise ConfigError(f"{key}: there is no such day or time; found {node.value}", file=file, line=line) from error


# ---------------------------------------------------------------------------------------------- symptoms


def load_symptoms(path: Path) -> Symptoms:
    """Symptoms in a YAML or JSON file, a key each as on the command line. Raises ``ConfigError`` with file and line."""
    document = _Document.read(path)
    found: dict[str, Any] = {}
    for key, written in document.values.items():
        try:
            field = symptom_values.field_of(str(key))
            found[field.attribute] = symptom_values.read(field, written)
        except ValueError as error:
            raise document.error((key,), str(error)) from None
    seen = Symptoms(**found)
    try:
        refuse_symptoms(seen)
    except UsageError as error:
        raise document.error((str(error).partition(":")[0],), str(error)) from None
    return seen
