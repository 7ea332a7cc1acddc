"""Everything that a run measures, one variant at a time, each in a process of its own.

``quantize`` for all, then ``load -> capacity -> score -> kl`` (or ``read``) for each,
then ``roof`` for the device, and ``time`` with the reference's process and a variant's in turn.
A stage that is done is kept under the digest of everything it depends on: a resumed run skips it, and a later run on the same machine uses
it again. Speed is never used again: machines drift. A failure is evidence of its variant and does not take the others along.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from quantgate import fitting, golden, provenance, rundir
from quantgate.config import CHECKPOINT, RunConfig
from quantgate.errors import MeasureError, OverRoof, RunFolderError, UsageError, WorkerDied, WorkerFailed
from quantgate.ports import Display, Executor, Worker
from quantgate.records import (
    Artifact,
    BatchPlan,
    CanaryReading,
    Capacity,
    DeviceInfo,
    DeviceState,
    Distributions,
    DivergenceConfig,
    Failure,
    Fingerprint,
    Generation,
    GoldenSet,
    KLStatistics,
    LeftOut,
    ModelSource,
    Opened,
    Roofs,
    RunInfo,
    ScoreSheet,
    SpeedPoint,
    SpeedRun,
    TextReading,
    Timed,
    Variant,
    VariantEvidence,
    Workload,
)
from quantgate.stages import against_roofs, canary, diverge, early, quantize, roof, stopping, sweep
from quantgate.stages.interleave import ORDER, Hands, Job, Who, interleave
from quantgate.stages.plan import first_level
from quantgate.stages.quadruples import confirmed
from quantgate.stages.speed import rules_of
from quantgate.stats.speed import look_sizes
from quantgate.texts import Texts

SEED = 20240229
IDENTITY_ROWS_DIVISOR = 4
HOST_KINDS = ("cpu", "fake")
"""Devices of which the fingerprint says all; any other is asked for its model and driver."""
MOST_DEATHS = 2
"""Processes that may die while a variant is timed, before the variant is given up."""
T = TypeVar("T")


@dataclass(slots=True)
class Run:
    """A run under way: what was asked for, and the evidence so far."""

    config: RunConfig
    folder: Path
    info: RunInfo
    display: Display
    executor: Executor
    shelf: rundir.Shelf
    goldens: tuple[GoldenSet, ...]
    fingerprint: Fingerprint
    base: Artifact | None = None
    evidence: dict[str, VariantEvidence] = field(default_factory=dict)
    distributions: dict[str, Distributions] = field(default_factory=dict)
    """The reference's stored distributions, by golden set; over texts under the empty name."""
    canaries: dict[str, Distributions] = field(default_factory=dict)
    """What the reference says after the canary's prompts, by golden set."""
    texts: Texts | None = None
    """What divergence is taken over, where it is not the prompts."""
    roofs: Roofs | None = None
    """What the device can do at most; None where nothing is timed."""
    accelerator: Mapping[str, Any] = field(default_factory=dict)
    """What tells the device from another one of its kind, where it is not the CPU that the fingerprint names."""
    environments: dict[str, dict[str, str]] = field(default_factory=dict)
    """Versions of the libraries of each interpreter that variants name, asked once."""


def planned(config: RunConfig, goldens: tuple[GoldenSet, ...]) -> tuple[str, ...]:
    """The stages in the order in which a display will be told of them, if none fails."""
    scored = [
        f"{stage} {one.name}"
        for one in goldens
        for stage in ("score", "kl")
        if stage == "score" or (config.divergence is None and diverge.positions(len(one.items)))
    ]
    scored += [] if config.divergence is None else [f"read {config.divergence.name}"]
    canaries = [f"canary {one.name}" for one in goldens if canary.asked_on(config.policy, len(one.items))]
    each = [
        stage
        for one in config.variants
        for stage in ("load", *(["capacity"] * _is_filled(one)), *(canaries * _is_filled(one)), *scored)
    ]
    timed = _timed(config)
    return ("quantize",) * len(config.variants) + (*each, *["roof"] * bool(timed), *["time"] * len(timed))


def _is_filled(variant: Variant) -> bool:
    """Controls are scored, and so is a variant of which only its quality is asked."""
    return variant.role in ("reference", "candidate") and variant.measure == "all"


def measure_all(work: Run) -> None:
    """Build all, then load, score and fill each, then time. The reference comes first: nothing is worth measuring without it."""
    variants = sorted(work.config.variants, key=lambda one: one.role != "reference")
    work.accelerator = _accelerator(work)
    for variant in variants:
        work.evidence[variant.name] = VariantEvidence(variant=variant)
        with _failures(work, variant, "quantize"):
            _quantize(work, variant)
        if variant.role == "reference":
            _require_reference(work)
    for variant in variants:
        if work.evidence[variant.name].artifact is not None:
            _measure(work, variant)
        if variant.role == "reference" and work.evidence[variant.name].loaded is None:
            return
    _agree_on_plans(work)
    _time_all(work)


def _require_reference(work: Run) -> None:
    one = work.evidence[work.config.reference.name]
    work.base = one.artifact
    if one.artifact is None:
        raise MeasureError(f"the reference could not be prepared: {one.failures[0].message}")


@contextmanager
def _failures(work: Run, variant: Variant, stage: str) -> Iterator[None]:
    """Note a stage's failure as evidence. The caller's mistakes and a full disk end the run instead."""
    try:
        yield
    except (UsageError, RunFolderError):
        raise
    except MeasureError as error:
        failed = error if isinstance(error, WorkerFailed) else None
        if failed is not None and failed.exit_code == UsageError.exit_code:
            raise UsageError(failed.message) from error
        one = work.evidence[variant.name]
        failure = Failure(
            variant=variant.name,
            stage=stage,
            kind=type(error).__name__ if failed is None else failed.kind,
            message=str(error),
            numerical=failed is not None and failed.numerical,
        )
        work.evidence[variant.name] = replace(one, failures=(*one.failures, failure))
        work.display.note(f"{variant.name}: {stage} did not finish: {error}")


class Process:
    """A worker that is started when first needed and asked in records. It ends with its stack, at once where a person interrupts."""

    def __init__(self, work: Run, variant: Variant, stack: ExitStack, log: str | None = None) -> None:
        """``log``: name of its log, where it is not the variant's."""
        self._work, self._variant, self._stack = work, variant, stack
        self._log = work.folder / "logs" / f"{log or variant.name}.log"
        self._worker: Worker | None = None

    def ask(self, action: str, kind: type[T], **values: Any) -> T:
        """Send one request and decode its reply."""
        request = {"action": action, **rundir.plain(values)}
        reply = self._started().ask(request, self._work.display.progress)
        return rundir.decode(kind, json.dumps(reply))

    def _started(self) -> Worker:
        if self._worker is None:
            self._log.parent.mkdir(parents=True, exist_ok=True)
            self._worker = self._work.executor.open(self._variant, self._log)
            self._stack.callback(self._worker.close)
            self._stack.push(self._kill_on_interrupt)
        return self._worker

    def _kill_on_interrupt(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> bool:
        if kind is not None and self._worker is not None:
            self._worker.kill()
        return False


class _Lazy(Process):
    """A variant's process, in which a session is opened when first needed: a stage that was kept needs neither."""

    def __init__(self, work: Run, variant: Variant, stack: ExitStack, *, generates: bool | None = None) -> None:
        """``generates``: whether it is to be filled or timed; None where that follows from what is measured of the variant."""
        super().__init__(work, variant, stack)
        self._scoring_only = not (_is_filled(variant) if generates is None else generates)
        self._opened: Opened | None = None

    def open(self) -> Opened:
        """The loaded variant, opened once."""
        if self._opened is None:
            config, artifact = self._work.config, self._work.evidence[self._variant.name].artifact
            values = {"artifact": artifact, "engine": config.engine, "device": config.device, **_cache(self._work, self._variant)}
            self._opened = self.ask("open", Opened, scoring_only=self._scoring_only, **values)
        return self._opened


def _kept(
    work: Run,
    variant: Variant,
    stage: str,
    record: type[T],
    key: str,
    make: Callable[[], T],
    usable: Callable[[T], bool] = lambda found: True,
) -> T:
    """A stage's result: kept from this run or an earlier one where it is still ``usable``, else made now and kept."""
    work.display.step(variant.name, stage)
    name = f"variants/{variant.name}/{stage.replace(' ', '/')}"
    kind = stage.split(" ")[0]
    if (found := work.shelf.find(name, kind=kind, key=key, record=record)) is not None and usable(found):
        one = work.evidence[variant.name]
        work.evidence[variant.name] = replace(one, reused=(*one.reused, stage))
        work.display.step_done(reused=True)
        return found
    made = make()
    work.shelf.keep(name, kind=kind, key=key, record=made)
    work.display.step_done(reused=False)
    return made


def key_of(work: Run, **parts: Any) -> str:
    """Digest of what a result depends on: code and libraries, and the parts given. The code counts under ``provenance: fixed`` too."""
    known, given = work.fingerprint, {name: _anywhere(part) for name, part in parts.items()}
    return rundir.digest({"source": provenance.source_digest(), "libraries": known.libraries, "python": known.python, **given})


def _anywhere(part: Any) -> Any:
    """A part without the place of its files, whose digest it holds, nor how long they took: moved or built again, they are the same."""
    if isinstance(part, tuple):
        return tuple(_anywhere(one) for one in part)
    if isinstance(part, Artifact):
        return replace(part, path="", build_s=None)
    return replace(part, path="") if isinstance(part, Distributions) else part


def _machine(work: Run) -> dict[str, Any]:
    known = work.fingerprint
    return {"cpu": known.cpu, "platform": known.platform, "device": rundir.plain(work.config.device), **work.accelerator}


def _accelerator(work: Run) -> dict[str, Any]:
    """Model, size, driver and allocator: another card in the same machine is measured anew, one that does not tell in every run."""
    if work.config.device.kind in HOST_KINDS:
        return {}
    with ExitStack() as stack, suppress(MeasureError):
        found = _Lazy(work, work.config.reference, stack).ask("device_info", DeviceInfo, device=work.config.device)
        return {"accelerator": (found.kind, found.name, found.total_bytes, found.driver, found.allocator)}
    return {"accelerator": work.info.run_id}


def _way(work: Run, variant: Variant) -> dict[str, Any]:
    """How a variant is loaded, where it is not the usual way, is part of its results' keys."""
    return {**({} if _is_filled(variant) else {"scoring_only": True}), **_cache(work, variant), **_environment(work, variant)}


def _environment(work: Run, variant: Variant) -> dict[str, Any]:
    """The libraries of an interpreter of its own: the fingerprint knows those of the run's, and others give other results."""
    if (python := variant.interpreter) is None:
        return {}
    if python not in work.environments:
        with ExitStack() as stack:
            work.environments[python] = Process(work, variant, stack).ask("environment", dict[str, str])
    return {"environment": work.environments[python]}


def _cache(work: Run, variant: Variant) -> dict[str, Any]:
    """How its cache is kept; where one variant's is kept in fewer bits, all are scored through theirs, so that they are comparable."""
    if all(one.kv_cache is None for one in work.config.variants):
        return {}
    return {"kv_cache": variant.kv_cache, "cached_scoring": True}


def _as_built(variant: Variant) -> Variant:
    """What the artifact depends on: not the role, the cache or what is measured, and of the calibration set its texts, not their place."""
    calibration = variant.calibration
    if calibration is not None and calibration.sha256:
        calibration = replace(calibration, name="", path=None, dataset=None, config=None, revision=None)
    return replace(variant, role="candidate", measure="all", calibration=calibration, kv_cache=None)


def _quantize(work: Run, variant: Variant) -> None:
    if (reason := fitting.refusal(variant, work.config.model, work.config.device, None)) is not None:
        raise quantize.NotSupported(f"not run: {reason}")
    base = None if variant.role == "reference" else work.base
    key = _built_key(work, variant, base, work.fingerprint.model_sha256)
    work.display.step(variant.name, "quantize")
    found = None if work.shelf.fresh else rundir.stored_artifact(work.config.cache / "artifacts" / key)
    if found is None:
        found = _built(work, variant, base, work.config.model, key)
        work.display.step_done(reused=False)
    else:
        one = work.evidence[variant.name]
        work.evidence[variant.name] = replace(one, reused=(*one.reused, "quantize"))
        work.display.step_done(reused=True)
    rundir.put(work.folder / "variants" / variant.name / "artifact.json", kind="artifact", key=key, record=found)
    work.evidence[variant.name] = replace(work.evidence[variant.name], artifact=found)


def build(work: Run, variant: Variant, base: Artifact | None, model: ModelSource) -> Artifact:
    """The artifact of a model that is none of the run's variants, from the cache or made now."""
    key = _built_key(work, variant, base, provenance.model_digest(model))
    found = None if work.shelf.fresh else rundir.stored_artifact(work.config.cache / "artifacts" / key)
    return _built(work, variant, base, model, key) if found is None else found


def _built_key(work: Run, variant: Variant, base: Artifact | None, model_sha256: str | None) -> str:
    sha256, device = None if base is None else base.sha256, work.config.device
    parts = {"model": model_sha256, "variant": _as_built(variant), "base": sha256, "device": device.kind, "dtype": device.dtype}
    return key_of(work, **parts, **_found(variant), **_environment(work, variant))


def _found(variant: Variant) -> dict[str, str]:
    """Digest of a ready checkpoint's files: another one at the same place is another variant. Nothing where none is there."""
    place = Path(str((variant.options or {}).get("path", "")))
    if variant.quantizer != CHECKPOINT or not (place.is_file() or (place / "config.json").is_file()):
        return {}
    return {"checkpoint": provenance.model_digest(ModelSource(name=variant.name, path=str(place)))}


def _built(work: Run, variant: Variant, base: Artifact | None, model: ModelSource, key: str) -> Artifact:
    with ExitStack() as stack:
        return _Lazy(work, variant, stack).ask(
            "quantize",
            Artifact,
            model=model,
            variant=variant,
            base=base,
            device=work.config.device,
            cache=str(work.config.cache),
            key=key,
            fresh=work.shelf.fresh,
        )


def _measure(work: Run, variant: Variant) -> None:
    """Load, fill and score one variant in one process; the fill first, while nothing but the weights has been in memory."""
    with ExitStack() as stack:
        lazy = _Lazy(work, variant, stack)
        with _failures(work, variant, "load"):
            _load(work, variant, lazy)
        if work.evidence[variant.name].loaded is None:
            return
        artifact = work.evidence[variant.name].artifact
        if _is_filled(variant) and artifact is not None and not artifact.simulated:
            with _failures(work, variant, "capacity"):
                _fill(work, variant, lazy)
        for one in work.goldens if _is_filled(variant) else ():
            with _failures(work, variant, f"canary {one.name}"):
                _ask_canary(work, variant, one, lazy)
            if canary.is_stopped(work.evidence[variant.name]):
                work.display.note(f"{variant.name}: the canary on {one.name} shows that it is broken; it is not scored")
                return
        for one in work.goldens:
            with _failures(work, variant, f"score {one.name}"):
                _score(work, variant, one, lazy)
            _diverge_or_say(work, variant, one, lazy)
        if work.texts is not None:
            with _failures(work, variant, f"read {work.texts.name}"):
                _read(work, variant, work.texts, lazy)


def _load(work: Run, variant: Variant, lazy: _Lazy) -> None:
    artifact = work.evidence[variant.name].artifact
    key = key_of(work, artifact=artifact, engine=work.config.engine, **_machine(work), **_way(work, variant))
    opened = _kept(work, variant, "load", Opened, key, lazy.open)
    work.evidence[variant.name] = replace(work.evidence[variant.name], loaded=opened.loaded, device=opened.device)


def _ask_canary(work: Run, variant: Variant, one: GoldenSet, lazy: _Lazy) -> None:
    """The reference stores what it says after the first prompts; a candidate is compared with it before it is scored."""
    rule, prompts = work.config.policy.canary, canary.asked_on(work.config.policy, len(one.items))
    if rule is None or not prompts:
        return
    plan, base = work.config.batch_plan, work.canaries.get(one.name)
    artifact = work.evidence[variant.name].artifact
    parts = {"artifact": artifact, "engine": work.config.engine, "golden": one.sha256, "plan": plan, "prompts": prompts, "base": base}
    key = key_of(work, **parts, **_machine(work), **_way(work, variant))
    values = {"golden_set": one.path, "golden_sha256": one.sha256, "plan": plan}
    if variant.role == "reference":

        def store() -> Distributions:
            lazy.open()
            into = str(work.config.cache / "distributions" / f"{key}.npy")
            return lazy.ask("canary_reference", Distributions, into=into, prompts=prompts, **values)

        work.canaries[one.name] = _kept(work, variant, f"canary {one.name}", Distributions, key, store, rundir.is_whole)
        return

    def compare() -> CanaryReading:
        lazy.open()
        return lazy.ask("canary", CanaryReading, reference=base, **values)

    if base is None:
        raise MeasureError("what the reference says after the canary's prompts is missing")
    found = canary.ended(_kept(work, variant, f"canary {one.name}", CanaryReading, key, compare), rule)
    known = work.evidence[variant.name]
    work.evidence[variant.name] = replace(known, canaries=(*known.canaries, found))


def _score(work: Run, variant: Variant, one: GoldenSet, lazy: _Lazy, token_budget: int | None = None) -> None:
    plan = _plan(work.config.batch_plan, variant)
    plan = plan if token_budget is None else replace(plan, token_budget=token_budget)
    artifact = work.evidence[variant.name].artifact
    parts = {"artifact": artifact, "golden": one.sha256, "plan": plan}
    key = key_of(work, engine=work.config.engine, **parts, **_machine(work), **_way(work, variant), **_early(work, variant, one))

    def make() -> ScoreSheet:
        lazy.open()
        values = {"golden_set": one.path, "golden_sha256": one.sha256, "plan": plan, "variant": variant.name}
        if early.looks_early(work.config.policy):
            return _score_in_parts(work, variant, one, lambda only: lazy.ask("score", ScoreSheet, only=only, **values))
        return lazy.ask("score", ScoreSheet, **values)

    sheet = _kept(work, variant, f"score {one.name}", ScoreSheet, key, make)
    lines = "".join(rundir.encode(item) + "\n" for item in sheet.items)
    rundir.write_text(work.folder / "variants" / variant.name / "scores" / f"{one.name}.jsonl", lines)
    known = work.evidence[variant.name]
    work.evidence[variant.name] = replace(known, sheets=(*known.sheets, sheet))


def _early(work: Run, variant: Variant, one: GoldenSet) -> dict[str, Any]:
    """What a sheet depends on besides, where the policy looks early: when a candidate's ends follows from the policy and the reference."""
    if not early.looks_early(work.config.policy):
        return {}
    parts = stopping.parts(work.config.policy, golden.reference_of(one))
    if variant.role != "candidate":
        return {"parts": parts}
    base = work.evidence[work.config.reference.name]
    sheets = [sheet.items for sheet in base.sheets if sheet.golden_sha256 == one.sha256]
    return {"parts": parts, "policy": work.config.policy, "candidates": len(work.config.candidates), "reference": sheets}


def _score_in_parts(work: Run, variant: Variant, one: GoldenSet, ask: Callable[[tuple[str, ...]], ScoreSheet]) -> ScoreSheet:
    """Ask part after part; a candidate's scoring ends where a pass is shown."""
    policy, reference = work.config.policy, golden.reference_of(one)
    known = (work.evidence[work.config.reference.name], work.evidence[variant.name])
    sheets: list[ScoreSheet] = []
    for part in stopping.parts(policy, reference):
        sheets.append(ask(part))
        sheet = stopping.joined(sheets, reference, policy)
        stopped = stopping.enough(sheet, reference, known, (policy, len(work.config.candidates)))
        if stopped is not None:
            asked = f"{len(sheet.items)} of {len(one.items)} items"
            work.display.note(f"{variant.name}: scoring {one.name} stopped after {asked}: a pass is shown")
            return stopped
    return stopping.joined(sheets, reference, policy)


def _diverge_or_say(work: Run, variant: Variant, one: GoldenSet, lazy: _Lazy) -> None:
    """Divergence after the prompts of a golden set, or on the variant's sheet why there is none."""
    why = diverge.why_none(one) if work.texts is None else f"it was taken over the texts {work.texts.name}"
    if why is None:
        before = len(work.evidence[variant.name].failures)
        with _failures(work, variant, f"kl {one.name}"):
            _diverge(work, variant, one, lazy)
        failed = work.evidence[variant.name].failures[before:]
        why = failed[0].message if failed else None
    if why is not None and variant.role != "reference":
        known = work.evidence[variant.name]
        sheets = tuple(replace(each, why_no_kl=why) if each.golden_sha256 == one.sha256 else each for each in known.sheets)
        work.evidence[variant.name] = replace(known, sheets=sheets)


def _read(work: Run, variant: Variant, texts: Texts, lazy: _Lazy) -> None:
    """The reference reads first and stores its distributions where there is room; every other variant is compared with them."""
    config = work.config.divergence
    if config is None:
        return
    one, base, reference = work.evidence[variant.name], work.distributions.get(""), work.evidence[work.config.reference.name]
    key = key_of(
        work,
        artifact=one.artifact,
        engine=work.config.engine,
        texts=texts.sha256,
        divergence=replace(config, path=config.name),
        base=None if variant.role == "reference" else (base, reference.artifact),
        **_machine(work),
        **_way(work, variant),
    )
    values = {"divergence": config, "texts_sha256": texts.sha256}
    stage = f"read {texts.name}"
    if variant.role == "reference":

        def store() -> Distributions:
            lazy.open()
            return lazy.ask("read", Distributions, into=str(work.config.cache / "distributions" / f"{key}.npy"), **values)

        found = _kept(work, variant, stage, Distributions, key, store, rundir.is_whole)
        work.distributions[""] = found
        work.evidence[variant.name] = replace(work.evidence[variant.name], reading=found.reading)
        _say_how(work, config, found)
        return

    def compare() -> TextReading:
        lazy.open()
        asked = {"reference": base, "reference_artifact": reference.artifact, "engine": work.config.engine, "device": work.config.device}
        return lazy.ask("compare", TextReading, **asked, **values, **_cache(work, reference.variant))

    if base is None:
        raise MeasureError(f"the reference did not read the texts {texts.name}")
    read = _kept(work, variant, stage, TextReading, key, compare)
    work.evidence[variant.name] = replace(work.evidence[variant.name], reading=read)


def _say_how(work: Run, config: DivergenceConfig, found: Distributions) -> None:
    if found.why_not_stored and config.reference == "auto":
        work.display.note(
            f"the reference's distributions over {config.name} are not stored, {found.why_not_stored}: each variant's process runs the "
            "reference beside it"
        )


def _agree_on_plans(work: Run) -> None:
    """Where a variant ran out of memory and was scored under a smaller token budget, score all the others under it too.

    Answers may depend on the batch. A variant that cannot be scored so loses its sheet, which counts as not measured.
    """
    for one in work.goldens:
        while behind := _behind(work, one):
            variant, least = behind
            why = f"scoring {one.name} again in batches of {least} tokens: another variant had no memory for more"
            work.display.note(f"{variant.name}: {why}")
            _score_again(work, variant, one, least)


def _behind(work: Run, one: GoldenSet) -> tuple[Variant, int] | None:
    """A variant whose sheet is of a larger token budget than the smallest, and that one."""
    sheets = {
        variant.name: sheet
        for variant in work.config.variants
        for sheet in work.evidence[variant.name].sheets
        if sheet.golden_sha256 == one.sha256
    }
    least = min((sheet.batch_plan.token_budget for sheet in sheets.values()), default=0)
    larger = (each for each in work.config.variants if each.name in sheets and sheets[each.name].batch_plan.token_budget > least)
    found = next(larger, None)
    return None if found is None else (found, least)


def _score_again(work: Run, variant: Variant, one: GoldenSet, token_budget: int) -> None:
    """Replace a sheet by one of a smaller budget, in a process of its own; what its distributions said stays."""
    known = work.evidence[variant.name]
    before = next(sheet for sheet in known.sheets if sheet.golden_sha256 == one.sha256)
    work.evidence[variant.name] = replace(known, sheets=tuple(sheet for sheet in known.sheets if sheet is not before))
    with ExitStack() as stack, _failures(work, variant, f"score {one.name}"):
        _score(work, variant, one, _Lazy(work, variant, stack), token_budget)
    known = work.evidence[variant.name]
    sheets = [
        replace(sheet, kl=before.kl, why_no_kl=before.why_no_kl) if sheet.golden_sha256 == one.sha256 else sheet
        for sheet in known.sheets
    ]
    place = [golden.sha256 for golden in work.goldens].index
    work.evidence[variant.name] = replace(known, sheets=tuple(sorted(sheets, key=lambda sheet: place(sheet.golden_sha256))))


def _diverge(work: Run, variant: Variant, one: GoldenSet, lazy: _Lazy) -> None:
    """The reference stores its distributions; every other variant is compared with them."""
    plan = _plan(work.config.batch_plan, variant)
    artifact = work.evidence[variant.name].artifact
    base = work.distributions.get(one.name)
    parts = {"artifact": artifact, "golden": one.sha256, "plan": plan, "base": base}
    key = key_of(work, engine=work.config.engine, **parts, **_machine(work), **_way(work, variant))
    values = {"golden_set": one.path, "golden_sha256": one.sha256, "plan": plan}
    if variant.role == "reference":

        def store() -> Distributions:
            lazy.open()
            into = str(work.config.cache / "distributions" / f"{key}.npy")
            return lazy.ask("distributions", Distributions, into=into, **values)

        work.distributions[one.name] = _kept(work, variant, f"kl {one.name}", Distributions, key, store, rundir.is_whole)
        return

    def compare() -> KLStatistics:
        lazy.open()
        return lazy.ask("divergence", KLStatistics, reference=base, **values)

    if base is None:
        raise MeasureError("the reference's distributions are missing")
    kl = _kept(work, variant, f"kl {one.name}", KLStatistics, key, compare)
    known = work.evidence[variant.name]
    sheets = tuple(replace(sheet, kl=kl) if sheet.golden_sha256 == one.sha256 else sheet for sheet in known.sheets)
    work.evidence[variant.name] = replace(known, sheets=sheets)


def _plan(plan: BatchPlan, variant: Variant) -> BatchPlan:
    """The identity control scores under other batches: what moves then is the noise of batching."""
    if variant.role != "identity":
        return plan
    other = plan.max_rows // IDENTITY_ROWS_DIVISOR if plan.max_rows > 1 else IDENTITY_ROWS_DIVISOR
    return replace(plan, max_rows=max(1, other))


def _fill(work: Run, variant: Variant, lazy: _Lazy) -> None:
    config, artifact = work.config, work.evidence[variant.name].artifact
    budget = _budget(work, variant)
    parts = {"artifact": artifact, "engine": config.engine, "workload": config.workload, "budget": budget, "seed": SEED}
    key = key_of(work, **parts, **_machine(work), **_way(work, variant))

    def make() -> Capacity:
        lazy.open()
        return lazy.ask("capacity", Capacity, workload=config.workload, budget_bytes=budget, seed=SEED, scoring=True)

    found = _kept(work, variant, "capacity", Capacity, key, make, usable=lambda one: one.limited_by != "time")
    work.evidence[variant.name] = replace(work.evidence[variant.name], capacity=found)


def _budget(work: Run, variant: Variant) -> int:
    """The configured budget, else all of the device."""
    if work.config.device.memory_budget_bytes is not None:
        return work.config.device.memory_budget_bytes
    info = work.evidence[variant.name].device
    if info is None:
        raise MeasureError("the device is not known, so its memory is not either")
    return info.total_bytes


# ---------------------------------------------------------------------------------------------- for levers


def opened(work: Run, variant: Variant, stack: ExitStack) -> _Lazy:
    """A variant in a process of its own, loaded; the process ends with the stack."""
    lazy = _Lazy(work, variant, stack, generates=True)
    lazy.open()
    return lazy


# ---------------------------------------------------------------------------------------------- timing


def _timed(config: RunConfig) -> list[Variant]:
    """Candidates that are measured in full, then, where a policy checks speed, the identity control: the reference against itself."""
    controls = [one for one in config.variants if one.role == "identity"] if rules_of(config.policy) else []
    return [*(one for one in config.variants if one.role == "candidate" and _is_filled(one)), *controls]


def _time_all(work: Run) -> None:
    """Reference and variant in turn, each in its own process, one working at a time; each variant has its share of the budget."""
    reference, left_s, variants = work.config.reference, work.config.timing.budget_s, _to_time(work)
    if variants:
        _roof(work)
    for place, variant in enumerate(variants):
        share_s, started_s = None if left_s is None else left_s / (len(variants) - place), work.display.now_s()
        with _failures(work, variant, "time"):
            work.display.step(variant.name, "time")
            _time(work, reference, variant, share_s)
            work.display.step_done(reused=False)
        done = work.evidence[variant.name].speed
        spent_s = max(work.display.now_s() - started_s, 0.0 if done is None else done.seconds)
        left_s = None if left_s is None else max(0.0, left_s - spent_s)
    if variants:
        _look_at_device(work, reference)


def _to_time(work: Run) -> list[Variant]:
    """What is timed beside the reference: nothing where the reference holds no request."""
    reference = work.config.reference
    found = [one for one in _timed(work.config) if _ceiling(work, reference if one.role == "identity" else one)]
    return found if _ceiling(work, reference) else []


def _time(work: Run, reference: Variant, variant: Variant, budget_s: float | None) -> None:
    """Quadruples R V V R, kept one by one: an interrupted run goes on where it was."""
    base, one, config = work.evidence[reference.name], work.evidence[variant.name], work.config
    sizes = look_sizes(config.timing.most_quadruples)
    job = _job(work, base, one, budget_s)
    name, workloads = f"variants/{variant.name}/speed", tuple(job.workloads.values())
    parts = {"artifact": one.artifact, "base": base.artifact, "targets": job.targets, "workloads": workloads, "looks": sizes}
    key = key_of(work, run=work.info.run_id, fresh=job.fresh, **parts, **_way(work, variant))

    def keep(run: SpeedRun) -> None:
        work.shelf.keep(name, kind="speed", key=key, record=run, share=False)
        work.evidence[variant.name] = replace(work.evidence[variant.name], speed=run)

    done = rundir.get(work.folder / f"{name}.json", kind="speed", key=key, record=SpeedRun)
    if done is None or not done.complete:
        started = SpeedRun(variant=variant.name, generations=(), order=" ".join(who[0].upper() for who in ORDER), looks=sizes)
        with ExitStack() as stack:
            pair = _Pair(work, stack, {"reference": reference, "variant": variant})
            hands = Hands(time_one=pair.time_one, renew=pair.renew, keep=keep, clock=_clock(work), progress=pair.tell)
            done = interleave(job, replace(done or started, left_out=_beyond(job, one, base)), hands)
        done = replace(done, device=pair.devices.get("variant"), partner_device=pair.devices.get("reference"))
    keep(done)
    try:
        _refuse_faults(work, {reference.name: done.partner, variant.name: done.generations})
    except OverRoof:
        work.evidence[variant.name] = replace(work.evidence[variant.name], speed=None)
        raise
    earlier = () if base.speed is None else base.speed.generations
    work.evidence[reference.name] = replace(base, speed=SpeedRun(variant=reference.name, generations=(*earlier, *done.partner)))


def _job(work: Run, base: VariantEvidence, one: VariantEvidence, budget_s: float | None) -> Job:
    config = work.config
    workloads = (config.workload, *config.workloads)
    sizes = look_sizes(config.timing.most_quadruples)
    first_look = next((size for size in sizes if size >= config.workload.quadruples), sizes[-1])
    return Job(
        targets=sweep.targets(one, base, workloads, rules_of(config.policy), (config.timing, first_look)),
        workloads={each.name: each for each in workloads},
        level=first_level(config.policy, len(config.candidates)),
        budget_s=budget_s,
        opening_s=sum(each.loaded.load_s for each in (base, one) if each.loaded is not None),
        fresh=config.timing.processes == "fresh",
    )


def _beyond(job: Job, one: VariantEvidence, base: VariantEvidence) -> tuple[LeftOut, ...]:
    """Points that a policy asks for and that do not fit."""
    found = {each.point: sweep.why_impossible(each.point, one, base, job.workloads[each.point.workload]) for each in job.targets}
    return tuple(LeftOut(point=point, because=why) for point, why in found.items() if why is not None)


def _clock(work: Run) -> Callable[[], float]:
    """The run's clock; under ``provenance: fixed`` one that stands still, so that only what devices say of their time counts."""
    return (lambda: 0.0) if work.config.provenance == "fixed" else work.display.now_s


def _roof(work: Run) -> None:
    """Measure what the device can do. Never used again by a later run, as speed is not."""
    work.display.step(work.config.reference.name, "roof")
    found = rundir.get(work.folder / "roofs.json", kind="roofs", key=_roof_key(work), record=Roofs)
    _keep_roofs(work, _measured_roofs(work) if found is None else found)
    for why in work.roofs.why_not if work.roofs is not None else ():
        work.display.note(f"a roof of the device is missing: {why}")
    work.display.step_done(reused=False)


def _roof_job(work: Run) -> roof.Job:
    facts = [one for variant in (work.config.reference, *_to_time(work)) if (one := work.evidence[variant.name].loaded) is not None]
    return roof.Job(
        weight_bytes=tuple(sorted({one.weight_bytes for one in facts})),
        dtypes=tuple(dict.fromkeys(dtype for one in facts for dtype in against_roofs.arithmetic_types(one))),
    )


def _roof_key(work: Run) -> str:
    return key_of(work, run=work.info.run_id, job=_roof_job(work), **_machine(work))


def _measured_roofs(work: Run) -> Roofs:
    """In a process that holds no model. A roof that is missing is told beside every figure that lacks it."""
    with ExitStack() as stack:
        try:
            return _Lazy(work, work.config.reference, stack).ask("roof", Roofs, device=work.config.device, job=_roof_job(work))
        except MeasureError as error:
            return Roofs(why_not=(str(error),))


def _keep_roofs(work: Run, found: Roofs) -> None:
    rundir.put(work.folder / "roofs.json", kind="roofs", key=_roof_key(work), record=found)
    work.roofs = found


def _refuse_faults(work: Run, taken: dict[str, tuple[Generation, ...]]) -> None:
    """Raise ``OverRoof`` for a speed that the device cannot have had, also by roofs measured again: it may have been busy before."""

    def look() -> None:
        for name, generations in taken.items():
            against_roofs.refuse_faults(name, generations, work.evidence[name].loaded, work.roofs)

    try:
        look()
    except OverRoof as error:
        work.display.note(f"{error}; the roofs are measured again, in case the machine was busy")
        _keep_roofs(work, roof.joined(work.roofs, _measured_roofs(work)))
        look()


def _look_at_device(work: Run, reference: Variant) -> None:
    """Clocks and heat once more, when everything is timed."""
    with ExitStack() as stack, suppress(MeasureError):
        after = _Lazy(work, reference, stack).ask("device_state", DeviceState, device=work.config.device)
        work.roofs = None if work.roofs is None else replace(work.roofs, after=after)


def _ceiling(work: Run, variant: Variant) -> int:
    return confirmed(work.evidence[variant.name])


class _Pair:
    """Two processes that are timed against each other, each started and opened when first needed."""

    def __init__(self, work: Run, stack: ExitStack, variants: dict[Who, Variant]) -> None:
        self._work, self._variants, self._living = work, variants, stack.enter_context(ExitStack())
        self._workers = {who: self._started(who) for who in variants}
        self._warm: set[tuple[Who, str, int]] = set()
        self._deaths = 0
        self.devices: dict[Who, DeviceInfo] = {}

    def _started(self, who: Who) -> _Lazy:
        return _Lazy(self._work, self._variants[who], self._living, generates=True)

    def renew(self) -> None:
        """End both processes, so that two of them never hold more than is measured; new ones start when asked."""
        self._living.close()
        self._workers, self._warm = {who: self._started(who) for who in self._variants}, set()

    def tell(self, point: SpeedPoint, number: int) -> None:
        self._work.display.progress(0, 0, f"timing {point.at}, quadruple {number}")

    def time_one(self, who: Who, workload: Workload, batch: int, limit_s: float | None) -> Timed:
        """One batch; warmed up the first time it runs in its process. A process that dies is told and started again, a few times."""
        place = (who, workload.name, batch)
        values = {"workload": workload, "batch_size": batch, "warmups": 0 if place in self._warm else workload.warmups, "seed": SEED}
        try:
            self.devices[who] = self._workers[who].open().device
            found = self._workers[who].ask("time", Timed, limit_s=limit_s, **values)
        except WorkerDied as error:
            self._deaths += 1
            if self._deaths > MOST_DEATHS:
                raise
            self._workers[who] = self._started(who)
            self._warm = {one for one in self._warm if one[0] != who}
            return Timed(generations=(), outcome="died", seconds=0.0, why_not=str(error))
        self._warm.add(place)
        return found
