"""``quantgate plan``: gather what a run would need - shapes, device, quantizers' answers, earlier runs, disk - and lay it out.

Loads no weights. Quantizers and the device are asked themselves, so their libraries are loaded; a variant with an interpreter of its own is
asked when it runs.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from quantgate import (
    admission,
    baselines,
    fitting,
    gathering,
    golden,
    modelconfig,
    plugins,
    preflight,
    prompting,
    provenance,
    runs,
    workloads,
)
from quantgate.config import RunConfig, load_run
from quantgate.errors import EngineError, QuantgateError, UsageError
from quantgate.forecasts import Forecast, LeverForecast, VariantForecast
from quantgate.modelconfig import Described
from quantgate.ports import QuantizePlan
from quantgate.records import Artifact, DeviceInfo, Evidence, Fingerprint, GoldenReference, GoldenSet, Variant
from quantgate.render.forecast import text
from quantgate.shapes import shape_of_config
from quantgate.stages import baseline, forecast, forecast_levers, foreseen, plan
from quantgate.weightbytes import is_filled, is_simulated

MOST_RUNS = 20
"""Earlier runs looked at, the newest first."""


def answer(path: Path, *, as_json: bool, allow_underpowered: bool) -> tuple[str, int]:
    """What to print, and the exit code: 2 where the run cannot work. Raises ``UsageError`` for a config that cannot be read."""
    found = prepare(load_run(path), allow_underpowered=allow_underpowered)
    code = UsageError.exit_code if found.refusals else 0
    return (json.dumps(asdict(found), indent=2, allow_nan=False) if as_json else text(found).rstrip("\n")), code


def prepare(config: RunConfig, *, allow_underpowered: bool = False) -> Forecast:
    """The forecast of a run. Raises ``UsageError`` where config, policy or golden sets do not go together."""
    told: list[str] = []
    goldens = gathering.gather(config.golden_sets, config.cache, told.append)
    admission.check(goldens, config, allow_underpowered=True)  # too few items are one refusal among others here
    references = tuple(golden.reference_of(one) for one in goldens)
    described, why_no_model = _described(config)
    with _unheard():
        device, why_no_device = _device(config)
    sizes = _sizes(config, described)
    total = device.total_bytes if device else None
    budget = config.device.memory_budget_bytes or total
    with _base(config, described) as base, _unheard():
        variants = tuple(_variant(config, one, sizes, (budget, total), base) for one in config.variants)
    earlier = tuple(_earlier(config))
    variants = _with_times(config, variants, goldens, earlier)
    levers = tuple(_levers(config, goldens, earlier))
    known = [stage.seconds for one in variants for stage in one.stages if stage.seconds is not None]
    known += [one.seconds for one in levers if one.seconds is not None]
    questions = plan.questions(config.policy, references, len(config.candidates))
    found = Forecast(
        model=config.model.name,
        device=config.device.kind if device is None else device.name,
        budget_bytes=budget,
        prompt_tokens=config.workload.prompt_tokens,
        output_tokens=config.workload.output_tokens,
        max_batch=config.workload.max_batch,
        variants=variants,
        golden_sets=tuple(forecast.resolved(question, config.policy) for question in questions),
        disk_bytes=forecast.disk_bytes(variants, [len(one.items) for one in goldens], sizes),
        disk_free_bytes=_free_bytes(config.cache),
        seconds=sum(known) if known else None,
        refusals=(),
        notes=(
            *_notes(described, why_no_model, config), *_unfilled(variants), *_foreseen(config, variants, budget),
            *_baseline(config, references), *_elsewhere(config), *told,
        ),
        levers=levers,
    )
    least = 0.0 if allow_underpowered else admission.LEAST_POWER
    learned = (*_learned(config, goldens), *(one.why_not for one in levers if one.why_not is not None))
    against = [*learned, *([why_no_device] if why_no_device else [])]
    against += [why_no_model] if why_no_model and config.engine != "fake" else []
    noisy = [] if allow_underpowered else [plan.why_noisy(one, config.policy) for one in questions if one.rule.tier == "required"]
    return replace(found, refusals=(*against, *forecast.refusals(found, config.policy, least), *(one for one in noisy if one is not None)))


@contextmanager
def _unheard() -> Iterator[None]:
    """Libraries speak of kernels that they lack when they are loaded, some past Python's streams; what is missing is told as a refusal."""
    sys.stderr.flush()
    heard = os.dup(2)
    try:
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(heard, 2)
        os.close(heard)


def _learned(config: RunConfig, goldens: tuple[GoldenSet, ...]) -> Iterator[str]:
    """What is wrong with a calibration file, or shared by it and a golden set. A dataset is read when the run starts."""
    try:
        preflight.prepared(tuple(one for one in config.variants if one.calibration and one.calibration.path), goldens, config.cache)
    except UsageError as error:
        yield str(error)


def _levers(config: RunConfig, goldens: tuple[GoldenSet, ...], earlier: Sequence[Evidence]) -> Iterator[LeverForecast]:
    """Each lever with what is wrong with its requests, prompts or drafters: a run refuses it before anything is measured."""
    file, asked = str(config.path), config.levers
    refused = LeverForecast(lever="", what="", why_not=None, seconds=None)
    if asked.batching is not None:
        try:
            prepared = workloads.prepared(asked.batching, file)
            preflight.check_requests(prepared, config.model, file)
            yield forecast_levers.batching(prepared or asked.batching, earlier)
        except UsageError as error:
            yield replace(refused, lever="batching", why_not=str(error))
    if asked.speculation is not None:
        try:
            prompting.check(config, goldens)
            yield forecast_levers.speculation(asked.speculation, len(prompting.prompts(asked.speculation, goldens, file)), earlier)
        except UsageError as error:
            yield replace(refused, lever="speculation", why_not=str(error))


def _elsewhere(config: RunConfig) -> Iterator[str]:
    """Engines whose interpreter is not there: a run goes on without them."""
    for one in config.levers.batching.engines if config.levers.batching else ():
        if one.interpreter is not None and not Path(one.interpreter).is_file():
            yield f"batching by {one.name}: not run, there is no interpreter {one.interpreter}"


# ---------------------------------------------------------------------------------------------- model and device


def _described(config: RunConfig) -> tuple[Described | None, str | None]:
    try:
        return modelconfig.describe_source(config.model), None
    except UsageError as error:
        return None, f"model {config.model.name}: {error}"


def _device(config: RunConfig) -> tuple[DeviceInfo | None, str | None]:
    """The device as it is on this machine, or why it is not."""
    try:
        info: DeviceInfo = plugins.load("device", config.device.kind)(config.device).info
    except (UsageError, EngineError) as error:
        return None, f"device {config.device.kind}: {error}"
    return info, None


def _sizes(config: RunConfig, described: Described | None) -> forecast.Sizes | None:
    if described is None:
        return None
    return forecast.Sizes(
        shape=shape_of_config(described.config),
        matrices=described.matrices,
        float_bytes=fitting.float_bytes(described.config, config.device),
        unpacked=described.file.suffix == ".gguf",
    )


def _notes(described: Described | None, why_no_model: str | None, config: RunConfig) -> Iterator[str]:
    if described is None and config.engine == "fake":
        yield f"sizes: of weights only, where the fakes' options say them; {why_no_model}"
    elif described is not None and described.matrices is None:
        yield f"sizes: not known, {described.why_no_matrices}"
    for variant in config.variants:
        if variant.interpreter is not None:
            yield f"{variant.name}: its own interpreter {variant.interpreter} is asked when it runs"
    for name in {one.calibration.name: None for one in config.variants if one.calibration and one.calibration.path is None}:
        yield f"calibration set {name}: read, and compared with the golden sets, when the run starts"


def _unfilled(variants: tuple[VariantForecast, ...]) -> Iterator[str]:
    """A reference that is too large for the budget is still what the others are compared with."""
    for one in variants:
        if one.role == "reference" and one.most_requests == 0 and one.why_not is None:
            yield f"{one.variant}: no request fits beside its weights within the budget; it is scored, and has no ceiling and no speed"


def _foreseen(config: RunConfig, variants: tuple[VariantForecast, ...], budget: int | None) -> Iterator[str]:
    """Demands that nothing in this run can meet: told here, because a run measures all the same."""
    known = foreseen.Plan(
        variants=tuple(zip(config.variants, variants, strict=True)),
        simulated={one.name for one in config.variants if _is_simulated(one)},
        budget_bytes=budget,
        max_batch=config.workload.max_batch,
    )
    yield from foreseen.notes(known, config.policy)


def _is_simulated(variant: Variant) -> bool:
    """Kept in float: by its quantizer, or because its checkpoint is of a kind that is unpacked."""
    if (place := modelconfig.ready_place(variant)) is None:
        return is_simulated(variant)
    if place.suffix == ".gguf":
        return True
    try:
        said = modelconfig.read_config(place / "config.json").get("quantization_config")
    except UsageError:  # the quantizer says it better
        return False
    return isinstance(said, dict) and said.get("quant_method") == "compressed-tensors"


def _baseline(config: RunConfig, golden_sets: tuple[GoldenReference, ...]) -> Iterator[str]:
    """What already keeps the reference from being held against its baseline; the model's own digest is not taken here."""
    if config.baseline is None:
        return
    found = baselines.read(config.baseline.path, str(config.baseline.path), config.baseline.limits, "RUN")
    for why in baseline.foreseen(found, golden_sets, None):
        yield f"baseline: {why}; until then a run is not measured"


def _free_bytes(cache: Path) -> int | None:
    """Free bytes where the cache is or will be."""
    place = next((one for one in (cache, *cache.parents) if one.exists()), None)
    return None if place is None else shutil.disk_usage(place).free


# ---------------------------------------------------------------------------------------------- variants


@contextmanager
def _base(config: RunConfig, described: Described | None) -> Iterator[Artifact | None]:
    """A stand-in for the reference that quantizers can ask for shapes: the folder, or the config that a GGUF unpacks to."""
    if described is None:
        yield None if config.engine != "fake" else _stand_in(config, Path(config.model.path or "."))
        return
    if described.file.name == "config.json":
        yield _stand_in(config, described.file.parent)
        return
    with TemporaryDirectory(prefix="quantgate-plan-") as folder:
        (Path(folder) / "config.json").write_text(json.dumps(dict(described.config)), encoding="utf-8")
        yield _stand_in(config, Path(folder))


def _stand_in(config: RunConfig, folder: Path) -> Artifact:
    return Artifact(variant=config.reference.name, path=str(folder), format="safetensors", stored_bytes=0, sha256="")


def _variant(
    config: RunConfig, variant: Variant, sizes: forecast.Sizes | None, memory: tuple[int | None, int | None], base: Artifact | None
) -> VariantForecast:
    """``memory``: the budget, and the device's own size."""
    budget, total = memory
    found = forecast.sized(variant, sizes, budget, config.workload)
    if config.engine == "fake":
        found = _scripted(variant, found, budget)
    refused = fitting.refusal(variant, config.model, config.device, total)
    if refused is not None and found.weight_bytes is not None and fitting.budget_bytes(variant, config.device) is not None:
        refused += f": {forecast.budget_that_does(found, config.workload)}"
    no_room = forecast.why_no_room(found, budget, config.workload)
    return replace(found, why_not=_why_not(config, variant, base) or found.why_not or refused or no_room)


def _scripted(variant: Variant, found: VariantForecast, budget: int | None) -> VariantForecast:
    """A fake's options say its weights, where no shapes do; its cache is the engine's affair."""
    weights = (variant.options or {}).get("weight_bytes")
    if found.weight_bytes is not None or type(weights) is not int or weights <= 0:
        return found
    none_fits = budget is not None and is_filled(variant) and weights >= budget
    return replace(found, weight_bytes=weights, most_requests=0 if none_fits else None)


def _why_not(config: RunConfig, variant: Variant, base: Artifact | None) -> str | None:
    """The quantizer's own answer. A mistake in its options, or a library that is missing, is an answer too."""
    if variant.interpreter is not None or (base is None and variant.role != "reference"):
        return None
    request = QuantizePlan(
        model=config.model, variant=variant, base=None if variant.role == "reference" else base, device=config.device
    )
    try:
        found: str | None = plugins.load("quantizer", variant.quantizer)().why_not(request)
    except QuantgateError as error:
        return str(error)
    return found


# ---------------------------------------------------------------------------------------------- earlier runs


def _with_times(
    config: RunConfig, variants: tuple[VariantForecast, ...], goldens: tuple[GoldenSet, ...], earlier: Sequence[Evidence]
) -> tuple[VariantForecast, ...]:
    digests = {one.name: one.sha256 for one in goldens}
    times = {
        one.name: forecast.stage_times(one, digests, config.workload, config.batch_plan, earlier) for one in config.variants
    }
    return tuple(replace(one, stages=times[one.variant]) for one in variants)


def _earlier(config: RunConfig) -> Iterator[Evidence]:
    """Evidence of runs of this model on this machine. A run that cannot be read is no reason to fail: it tells nothing."""
    here = _here(config)
    folders = sorted(config.out.glob("*/evidence.json"), key=lambda one: one.stat().st_mtime, reverse=True)
    for file in folders[:MOST_RUNS] if here is not None else ():
        try:
            found = runs.load_evidence(file.parent)
        except QuantgateError:
            continue
        mark = found.fingerprint
        if here is not None and (mark.cpu, mark.platform, mark.model_sha256) == (here.cpu, here.platform, here.model_sha256):
            yield found


def _here(config: RunConfig) -> Fingerprint | None:
    known = provenance.fixed() if config.provenance == "fixed" else provenance.fingerprint()
    try:
        return replace(known, model_sha256=provenance.model_digest(config.model))
    except (UsageError, OSError):
        return None
