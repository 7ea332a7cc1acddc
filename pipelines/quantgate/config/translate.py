"""Sections of a run config -> records, with every path made absolute."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from quantgate import durations
from quantgate.config.document import Document
from quantgate.config.environment import default_cache, tracking_uri_of_environment
from quantgate.config.run_sections import (
    ArrivalsSection,
    BaselineSection,
    BatchingSection,
    CalibrationSection,
    DeviceSection,
    DivergenceSection,
    DrafterSection,
    DrawnSection,
    HarnessSection,
    LengthsSection,
    LimitsSection,
    ModelSection,
    OtherWorkloadSection,
    RunSection,
    SourceSection,
    SpeculationSection,
    TimingSection,
    VariantSection,
    WorkloadSection,
)
from quantgate.records import (
    Arrivals,
    BaselineLimits,
    BatchingConfig,
    BatchingEngine,
    Calibration,
    DatasetSource,
    DeviceConfig,
    DivergenceConfig,
    Drafter,
    DrawnRequests,
    HarnessSource,
    KVCache,
    Lengths,
    ModelSource,
    Price,
    Scalar,
    SpeculationConfig,
    TimingConfig,
    Variant,
    Workload,
)
from quantgate.sizes import EXPECTED, size_bytes

CALIBRATED = frozenset({"gptq"})
"""Quantizers that the run's calibration set goes to; any other gets one where its variant names it."""
CHECKPOINT = "checkpoint"
DEFAULT_CURRENCY = "USD"


@dataclass(frozen=True, kw_only=True, slots=True)
class BaselineConfig:
    """Where the pinned reference is kept, and how far today's may be from it."""

    path: Path
    limits: tuple[BaselineLimits, ...]


def resolved(base: Path, text: str) -> Path:
    """The absolute path of what stands in a file of the folder ``base``."""
    return (base / Path(text).expanduser()).resolve()


def cache(text: str | None, base: Path) -> Path:
    """The config's own cache folder, else the environment's."""
    return default_cache() if text is None else resolved(base, text)


def tracking_uri(text: str | None, base: Path, out: Path) -> str:
    """The config's own store, else the environment's, else an SQLite file beside the reports."""
    if text is None:
        return tracking_uri_of_environment() or f"sqlite:///{out / 'mlflow.db'}"
    prefix = "sqlite:///"
    if text.startswith(prefix) and not text.startswith(prefix + "/"):
        return prefix + str(resolved(base, text.removeprefix(prefix)))
    return text


def artifacts(text: str | None, base: Path) -> str | None:
    """A folder beside the config, or an address as it stands."""
    return text if text is None or "://" in text else str(resolved(base, text))


def model_source(raw: ModelSection, base: Path) -> ModelSource:
    """The model, with a path made absolute."""
    values = raw.model_dump()
    if raw.path is not None:
        values["path"] = str(resolved(base, raw.path))
    return ModelSource(**values)


def golden_set(raw: str | SourceSection, base: Path) -> Path | DatasetSource | HarnessSource:
    """A file, rows of a dataset, or tasks of the harness."""
    if isinstance(raw, str):
        return resolved(base, raw)
    if raw.datasets is not None:
        values = raw.datasets.model_dump()
        labels = raw.datasets.labels
        constants = {key: tuple(one) if isinstance(one, list) else one for key, one in raw.datasets.constants.items()}
        path = None if raw.datasets.path is None else str(resolved(base, raw.datasets.path))
        columns = {key: tuple(one) if isinstance(one, list) else one for key, one in raw.datasets.columns.items()}
        values |= {"path": path, "columns": columns, "constants": constants}
        return DatasetSource(**values | {"labels": tuple(labels) if isinstance(labels, list) else labels})
    asked = raw.lm_eval or HarnessSection(tasks=["?"])  # check_golden_sets has seen to it that there is one
    files = tuple(str(resolved(base, one)) if one.endswith((".yaml", ".yml")) else one for one in asked.tasks)
    include = None if asked.include_path is None else str(resolved(base, asked.include_path))
    name = asked.name or "-".join(Path(one).stem if one.endswith((".yaml", ".yml")) else one for one in asked.tasks)
    return HarnessSource(**{**asked.model_dump(), "name": name, "tasks": files, "include_path": include})


def device(raw: DeviceSection, document: Document) -> DeviceConfig:
    """The device, with its budget in bytes; an index and a UUID together are refused."""
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


def workload(raw: WorkloadSection, document: Document) -> Workload:
    """The lengths, with each batch size once and the budget of a search in seconds."""
    return Workload(
        **{
            **raw.model_dump(exclude={"fill_budget"}),
            "batch_sizes": tuple(sorted(set(raw.batch_sizes))),
            "fill_budget_s": _duration_s(raw.fill_budget, document, ("workload", "fill_budget")),
        }
    )


def timing(raw: TimingSection, document: Document) -> TimingConfig:
    """How speed is timed, with its budget in seconds."""
    budget_s = _duration_s(raw.budget, document, ("timing", "budget"))
    return TimingConfig(budget_s=budget_s, most_quadruples=raw.most_quadruples, sweep=raw.sweep, processes=raw.processes)


def _duration_s(raw: str | int | float, document: Document, place: tuple[str, ...]) -> float:
    try:
        return durations.seconds(raw)
    except ValueError as error:
        raise document.error(place, f"{'.'.join(place)}: {error}") from error


def other_workload(raw: OtherWorkloadSection, main: WorkloadSection) -> Workload:
    """Further lengths; what is not theirs is the run's own."""
    return Workload(
        name=raw.name,
        prompt_tokens=raw.prompt_tokens,
        output_tokens=raw.output_tokens,
        batch_sizes=tuple(sorted(set(raw.batch_sizes))),
        max_batch=main.max_batch,
        warmups=main.warmups,
    )


def price(raw: RunSection, document: Document) -> Price | None:
    """The device's price. It is no part of the device's settings: what was measured does not depend on it."""
    if raw.device.price_per_hour is not None:
        return Price(per_hour=raw.device.price_per_hour, currency=raw.device.currency or DEFAULT_CURRENCY)
    if raw.device.currency is not None:
        raise document.error(("device", "currency"), "'currency' is for 'price_per_hour'; add the price, or leave the currency out")
    if raw.budget is not None:
        what = "a budget needs the device's price: add 'price_per_hour' under 'device', for example price_per_hour: 2.49"
        raise document.error(("budget",), what)
    return None


def divergence(raw: DivergenceSection, base: Path, document: Document) -> DivergenceConfig:
    """The texts that distributions are compared on, with the limit of the disk in bytes."""
    return DivergenceConfig(
        path=str(resolved(base, raw.texts)),
        fields=(raw.text_field,) if isinstance(raw.text_field, str) else tuple(raw.text_field),
        slice_field=raw.slice_field,
        tokens_per_text=raw.tokens_per_text,
        max_texts=raw.max_texts,
        reference=raw.reference,
        disk_limit_bytes=_size_bytes(raw.disk_limit, document, ("divergence", "disk_limit")),
    )


def batching(raw: BatchingSection, run: RunSection, base: Path) -> BatchingConfig:
    """Continuous batching; without variants, of the reference."""
    reference = next(one.name for one in run.variants if one.role == "reference")
    return BatchingConfig(
        path=None if raw.requests is None else str(resolved(base, raw.requests)),
        drawn=None if raw.drawn is None else _drawn(raw.drawn),
        rows=raw.rows,
        engines=tuple(
            BatchingEngine(name=one.name, interpreter=None if one.python is None else str(interpreter(base, one.python)))
            for one in raw.engines
        ),
        arrivals=tuple(arrivals(one) for one in raw.arrivals),
        variants=tuple(raw.variants or (reference,)),
        seed=raw.seed,
        repeats=raw.repeats,
        time_cap_s=raw.time_cap,
    )


def arrivals(raw: ArrivalsSection) -> Arrivals:
    """When requests arrive."""
    return Arrivals(kind=raw.kind) if raw.poisson is None else Arrivals(kind="poisson", rate_per_s=raw.poisson)


def _drawn(raw: DrawnSection) -> DrawnRequests:
    return DrawnRequests(count=raw.count, prompt=_lengths(raw.prompt_tokens), output=_lengths(raw.output_tokens))


def _lengths(raw: int | LengthsSection) -> Lengths:
    if isinstance(raw, int):
        return Lengths(kind="fixed", least=raw, most=raw)
    if raw.lognormal is not None:
        return Lengths(kind="lognormal", **raw.lognormal.model_dump())
    least, most = raw.uniform or (1, 1)  # check_batching has seen to it that there is one of the two
    return Lengths(kind="uniform", least=least, most=most)


def speculation(raw: SpeculationSection, base: Path) -> SpeculationConfig:
    """Speculative decoding, with each number once."""
    return SpeculationConfig(
        drafters=tuple(drafter(one, base) for one in raw.drafters),
        draft_tokens=tuple(sorted(set(raw.draft_tokens))),
        batch_sizes=tuple(sorted(set(raw.batch_sizes))),
        golden_set=raw.prompts.golden_set,
        path=None if raw.prompts.file is None else str(resolved(base, raw.prompts.file)),
        **raw.model_dump(include={"max_prompts", "output_tokens", "repeats"}),
    )


def drafter(raw: Literal["prompt_lookup"] | DrafterSection, base: Path) -> Drafter:
    """What drafts: the prompt, another variant, or a model of its own."""
    if isinstance(raw, str):
        return Drafter(kind=raw)
    if raw.model is not None:
        return Drafter(kind="model", model=model_source(raw.model, base))
    return Drafter(kind="self", variant=raw.self)


def _size_bytes(value: str | int | float, document: Document, where: tuple[str | int, ...]) -> int:
    """``600MiB`` -> bytes. A number without unit is bytes; 0 is no budget."""
    try:
        size = size_bytes(value)
    except ValueError:
        size = 0
    if not size:
        raise document.error(where, f"'{value}' is not a size; {EXPECTED}")
    return size


def baseline(raw: BaselineSection, base: Path) -> BaselineConfig:
    """The limits for every golden set, then those of single ones with what they leave out filled in."""
    gain = raw.max_loss if raw.max_gain is None else raw.max_gain
    every = BaselineLimits(max_loss=raw.max_loss, max_gain=gain, max_flips=raw.max_flips)
    return BaselineConfig(path=resolved(base, raw.file), limits=(every, *(_own(name, one, every) for name, one in raw.limits.items())))


def _own(name: str, raw: LimitsSection, every: BaselineLimits) -> BaselineLimits:
    loss = every.max_loss if raw.max_loss is None else raw.max_loss
    gain = raw.max_gain if raw.max_gain is not None else every.max_gain if raw.max_loss is None else loss
    flips = raw.max_flips if "max_flips" in raw.model_fields_set else every.max_flips
    return BaselineLimits(golden_set=name, max_loss=loss, max_gain=gain, max_flips=flips)


def variant(raw: VariantSection, base: Path, shared: CalibrationSection | None) -> Variant:
    """A variant; the calibration set of the run goes to quantizers that learn from texts."""
    calibration = raw.calibration or (shared if raw.quantizer in CALIBRATED else None)
    return Variant(
        name=raw.name,
        quantizer=raw.quantizer,
        role=raw.role,
        weight_bits=raw.bits,
        granularity=raw.granularity,
        options=_options(raw, base),
        interpreter=None if raw.python is None else str(interpreter(base, raw.python)),
        calibration=None if calibration is None else _calibration(calibration, base),
        measure=raw.measure,
        kv_cache=None if raw.kv_cache is None else KVCache(bits=raw.kv_cache.bits, backend=raw.kv_cache.backend),
    )


def _options(raw: VariantSection, base: Path) -> dict[str, Scalar]:
    """The options, with the path of a ready checkpoint made absolute."""
    path = raw.options.get("path")
    if raw.quantizer != CHECKPOINT or not isinstance(path, str):
        return raw.options
    return {**raw.options, "path": str(resolved(base, path))}


def interpreter(base: Path, text: str) -> Path:
    """The interpreter's path as given: a virtual environment is known by the place of its link, not by what it points to."""
    return Path(os.path.abspath(base / Path(text).expanduser()))  # noqa: PTH100 - `resolve` would follow the link


def _calibration(raw: CalibrationSection, base: Path) -> Calibration:
    """A dataset that is a folder or file here gets its path made absolute."""
    local = raw.dataset is not None and raw.dataset.startswith((".", "/", "~"))
    source = raw.file or raw.dataset or ""
    return Calibration(
        name=raw.name or Path(source).stem,
        path=None if raw.file is None else str(resolved(base, raw.file)),
        dataset=str(resolved(base, raw.dataset)) if local and raw.dataset is not None else raw.dataset,
        **raw.model_dump(include={"config", "revision", "split", "column", "tokens", "seed"}),
    )
