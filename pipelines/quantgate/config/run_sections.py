"""The sections of a run config as they are written; what a key means stands at the record that it becomes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from quantgate.config.sections import (
    COMMIT,
    CURRENCY,
    GRANULARITY,
    NAME,
    SHA256,
    UUID,
    Count,
    Limit,
    Name,
    Positive,
    Section,
    Text,
)
from quantgate.records import Role, Scalar


class ModelSection(Section):
    name: Annotated[str, Field(pattern=NAME)]
    path: str | None = None
    hub: str | None = None
    revision: str | None = None
    package: str | None = None
    gguf_file: str | None = None


class KindAlone(Section):
    """A section whose kind may stand alone in its place: ``device: cuda`` is short for ``device: {kind: cuda}``."""

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, found: Any) -> Any:
        return {"kind": found} if isinstance(found, str) else found


class DeviceSection(KindAlone):
    kind: str = "cpu"
    threads: Count | None = None
    memory_budget: str | int | float | None = None
    index: Annotated[int, Field(ge=0)] = 0
    uuid: Annotated[str, Field(pattern=UUID)] | None = None
    dtype: Literal["float32", "bfloat16", "float16"] | None = None
    price_per_hour: Positive | None = None
    currency: Annotated[str, Field(pattern=CURRENCY)] | None = None


class CalibrationSection(Section):
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


class KVCacheSection(Section):
    bits: Literal[8, 4, 2]
    backend: Literal["torch"] = "torch"


class VariantSection(Section):
    name: Annotated[str, Field(pattern=NAME)]
    quantizer: str
    role: Role = "candidate"
    bits: Annotated[int, Field(ge=2, le=8)] | None = None
    granularity: Annotated[str, Field(pattern=GRANULARITY)] = "tensor"
    options: dict[str, Scalar] = {}
    python: str | None = None
    calibration: CalibrationSection | None = None
    measure: Literal["all", "quality"] = "all"
    kv_cache: KVCacheSection | None = None


class WorkloadSection(Section):
    prompt_tokens: Count = 64
    output_tokens: Annotated[int, Field(ge=2)] = 64
    batch_sizes: Annotated[list[Count], Field(min_length=1)] = [1, 8]
    max_batch: Count = 64
    fill_repeats: Count = 3
    fill_budget: str | int | float = "15min"
    warmups: Annotated[int, Field(ge=0)] = 1
    quadruples: Count = 1


class OtherWorkloadSection(Section):
    """Further lengths at which speed is measured; the ceiling is that of ``workload``."""

    name: Annotated[str, Field(pattern=NAME)]
    prompt_tokens: Count
    output_tokens: Annotated[int, Field(ge=2)]
    batch_sizes: Annotated[list[Count], Field(min_length=1)] = [1]


class TimingSection(Section):
    """How much time speed may take."""

    budget: str | int | float = "20min"
    most_quadruples: Annotated[int, Field(ge=4, le=1000)] = 32
    sweep: bool = True
    processes: Literal["fresh", "kept"] = "fresh"


class ScoringSection(Section):
    token_budget: Count = 2048
    max_rows: Count = 16


class DivergenceSection(Section):
    texts: Annotated[str, Field(min_length=1)]
    text_field: Name | Annotated[list[Name], Field(min_length=1)] = "text"
    slice_field: Name | None = None
    tokens_per_text: Annotated[int, Field(ge=2)] = 512
    max_texts: Count = 100
    reference: Literal["auto", "stored", "recomputed"] = "auto"
    disk_limit: str | int | float = "8GB"


class LognormalSection(Section):
    median: Annotated[float, Field(ge=1)]
    sigma: Annotated[float, Field(gt=0)]
    least: Count = 1
    most: Count


class LengthsSection(Section):
    """``uniform: [least, most]`` or ``lognormal: {median, sigma, most}``."""

    uniform: Annotated[list[Count], Field(min_length=2, max_length=2)] | None = None
    lognormal: LognormalSection | None = None


class DrawnSection(Section):
    count: Count
    prompt_tokens: Count | LengthsSection
    output_tokens: Count | LengthsSection


class BatchingEngineSection(Section):
    """``vllm`` is short for ``{name: vllm}``: what serves, in this environment or in that of ``python``."""

    name: str
    python: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, found: Any) -> Any:
        return {"name": found} if isinstance(found, str) else found


class ArrivalsSection(KindAlone):
    """``at_once``, ``given`` (each request has its time), or ``poisson: 2.0``, so many a second."""

    kind: Literal["at_once", "given"] = "at_once"
    poisson: Annotated[float, Field(gt=0)] | None = None


class BatchingSection(Section):
    """Static batches against continuous batching, on the same requests: of a file, or drawn."""

    requests: Name | None = None
    drawn: DrawnSection | None = None
    rows: Count = 4
    engines: Annotated[list[BatchingEngineSection], Field(min_length=1)] = [BatchingEngineSection(name="transformers")]
    arrivals: Annotated[list[ArrivalsSection], Field(min_length=1)] = [ArrivalsSection()]
    variants: Annotated[list[Name], Field(min_length=1)] | None = None
    seed: Annotated[int, Field(ge=0)] = 0
    repeats: Annotated[int, Field(ge=1, le=100)] = 2
    time_cap: Annotated[float, Field(gt=0)] = 600.0


class DrafterSection(Section):
    """Who drafts: ``prompt_lookup``, or one of these two."""

    self: Annotated[str, Field(pattern=NAME)] | None = None
    model: ModelSection | None = None


class PromptsSection(Section):
    """Where prompts come from: one of the two."""

    golden_set: Name | None = None
    file: Name | None = None


class SpeculationSection(Section):
    drafters: Annotated[list[Literal["prompt_lookup"] | DrafterSection], Field(min_length=1)]
    prompts: PromptsSection
    decoding: Literal["greedy", "sampling"] = "greedy"
    draft_tokens: Annotated[list[Count], Field(min_length=1)] = [2, 4, 8]
    batch_sizes: Annotated[list[Count], Field(min_length=1)] = [1]
    max_prompts: Count = 16
    output_tokens: Annotated[int, Field(ge=2)] = 48
    repeats: Count = 1


class LeversSection(Section):
    """What is tried besides quantization."""

    batching: BatchingSection | None = None
    speculation: SpeculationSection | None = None


class BudgetSection(Section):
    """What somebody allows a million output tokens to cost, in the currency of the device's price."""

    owner: Text
    max_cost_per_million_tokens: Positive


class MLflowSection(Section):
    tracking_uri: str | None = None
    experiment: Annotated[str, Field(min_length=1)] = "quantgate"
    artifacts: Annotated[str, Field(min_length=1)] | None = None
    system_metrics: bool = True


class PromotionSection(Section):
    registry: str = "mlflow"
    model: Annotated[str, Field(pattern=NAME)] | None = None
    alias: str = "champion"
    challenger: str | None = None


class DatasetSection(Section):
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


class HarnessSection(Section):
    """Tasks of lm-evaluation-harness."""

    tasks: Annotated[list[Name], Field(min_length=1)]
    name: Annotated[str, Field(pattern=NAME)] | None = None
    include_path: Name | None = None
    limit: Count | None = None
    num_fewshot: Annotated[int, Field(ge=0)] | None = None
    metric: Name | None = None
    filter: Name | None = None
    sha256: Annotated[str, Field(pattern=SHA256)] | None = None


class SourceSection(Section):
    """A golden set that is made from a source: one of the two."""

    datasets: DatasetSection | None = None
    lm_eval: HarnessSection | None = None


class LimitsSection(Section):
    """Limits of one golden set, where they are not the baseline's own."""

    max_loss: Limit | None = None
    max_gain: Limit | None = None
    max_flips: Limit | None = None


class BaselineSection(Section):
    """The pinned reference that today's is compared with first; ``max_gain`` left out is ``max_loss``."""

    file: Name
    max_loss: Limit = 0.01
    max_gain: Limit | None = None
    max_flips: Limit | None = 0.03
    limits: dict[str, LimitsSection] = {}


class RunSection(Section):
    schema_version: int
    model: ModelSection
    device: DeviceSection = DeviceSection()
    engine: str = "transformers"
    executor: str = "process"
    variants: Annotated[list[VariantSection], Field(min_length=1)]
    golden_sets: Annotated[list[str | SourceSection], Field(min_length=1)]
    policy: str
    workload: WorkloadSection = WorkloadSection()
    workloads: list[OtherWorkloadSection] = []
    timing: TimingSection = TimingSection()
    scoring: ScoringSection = ScoringSection()
    calibration: CalibrationSection | None = None
    divergence: DivergenceSection | None = None
    levers: LeversSection = LeversSection()
    out: str = "../reports"
    cache: str | None = None
    sinks: list[str] = ["folder", "junit", "mlflow", "console"]
    mlflow: MLflowSection = MLflowSection()
    promotion: PromotionSection = PromotionSection()
    budget: BudgetSection | None = None
    provenance: Literal["machine", "fixed"] = "machine"
    run_id: Annotated[str, Field(pattern=NAME)] | None = None
    baseline: BaselineSection | None = None
