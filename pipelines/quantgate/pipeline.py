"""The chain on one screen, and the only place where adapters meet stages.

``quantize -> load -> score -> capacity`` for each variant in a process of its own, then ``time`` with the reference's and a variant's
process in turn, then ``gate -> promote -> report -> sinks``. A stage that is done is kept under the digest of everything it depends on: a
resumed run skips it, and a later run on the same machine uses it again. Speed is never used again: machines drift.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeVar

from quantgate import golden, plugins, provenance, rundir
from quantgate.config import RunConfig
from quantgate.errors import ConfigError, MeasureError, RunFolderError, UsageError, WorkerFailed
from quantgate.files import file_digest
from quantgate.ports import Display, Executor, Registry, Sink, Worker
from quantgate.records import (
    Artifact,
    BatchPlan,
    Capacity,
    DeviceInfo,
    Distributions,
    Evidence,
    Failure,
    Fingerprint,
    Generation,
    GoldenSet,
    KLStatistics,
    ModelSource,
    Opened,
    Policy,
    Promotion,
    Report,
    RunInfo,
    ScoreSheet,
    SpeedRun,
    Variant,
    VariantEvidence,
)
from quantgate.stages import diverge, gate, promote, report
from quantgate.stages.report import Context
from quantgate.stats.power import items_needed, power

SEED = 20240229
LEAST_POWER = 0.7
IDENTITY_ROWS_DIVISOR = 4
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """How to run: ``fresh`` uses nothing of earlier runs, ``resume`` names a run to go on with."""

    fresh: bool = False
    resume: Path | None = None
    allow_underpowered: bool = False
    colour: bool = False


@dataclass(slots=True)
class _Run:
    """A run under way."""

    config: RunConfig
    options: Options
    folder: Path
    info: RunInfo
    display: Display
    executor: Executor
    shelf: rundir.Shelf
    goldens: tuple[GoldenSet, ...]
    fingerprint: Fingerprint
    started_s: float
    base: Artifact | None = None
    reference_finite: bool = True
    evidence: dict[str, VariantEvidence] = field(default_factory=dict)
    distributions: dict[str, Distributions] = field(default_factory=dict)
    """The reference's stored distributions, by golden set."""


def run(config: RunConfig, options: Options, display: Display) -> Report:
    """Do the whole job and return its report, already published. Raises ``UsageError`` before anything is measured.

    On Ctrl-C the workers are ended and the folder can be resumed; ``KeyboardInterrupt`` goes on to the caller.
    """
    goldens = tuple(golden.load(path) for path in config.golden_sets)
    _check_golden(goldens, config, options)
    fingerprint = _fingerprint(config)
    folder, info = _run_folder(config, options)
    with rundir.held(folder):
        _store_inputs(folder, info, config, goldens)
        work = _Run(
            config=config,
            options=options,
            folder=folder,
            info=info,
            display=display,
            executor=plugins.load("executor", config.executor)(),
            shelf=rundir.Shelf(run=folder, cache=config.cache, fresh=options.fresh),
            goldens=goldens,
            fingerprint=fingerprint,
            started_s=display.now_s(),
        )
        display.start(folder, _step_count(config, goldens))
        try:
            _measure_all(work)
            finished = _finish(work)
        except BaseException as error:
            interrupted = isinstance(error, KeyboardInterrupt)
            if interrupted:
                display.note(f"interrupted; go on with: quantgate run {config.path} --resume {folder}")
            with suppress(RunFolderError):
                _store_info(folder, replace(info, state="interrupted" if interrupted else "failed"))
            raise
        finally:
            display.stop()
        _store_info(folder, replace(info, state="complete"))
    return finished


# ---------------------------------------------------------------------------------------------- before anything is measured


def _check_golden(goldens: tuple[GoldenSet, ...], config: RunConfig, options: Options) -> None:
    """Refuse golden sets that share a name, or that could not show what the policy asks for."""
    names = [one.name for one in goldens]
    if len(set(names)) < len(names):
        raise ConfigError(f"two golden sets have the same name: {', '.join(names)}", file=str(config.path))
    for rule in config.policy.checks:
        if rule.golden_set not in ("*", *names):
            what = f"a check of kind {rule.kind} is for golden set '{rule.golden_set}', and the run has {', '.join(names)}"
            raise ConfigError(what, file=str(config.policy_path))
    for rule in (one for one in config.policy.checks if one.kind == "quality" and one.tier == "required"):
        for one in goldens:
            if rule.golden_set in ("*", one.name) and rule.margin is not None and not options.allow_underpowered:
                _check_power(one, rule.margin, config)


def _check_power(one: GoldenSet, margin: float, config: RunConfig) -> None:
    policy = config.policy
    chances = len(config.candidates) if policy.require == "any" and policy.correction == "holm" else 1
    alpha = policy.alpha / chances
    reached = power(n=len(one.items), flip_rate=policy.planning_flip_rate, margin=margin, alpha=alpha)
    if reached >= LEAST_POWER:
        return
    needed = items_needed(flip_rate=policy.planning_flip_rate, margin=margin, alpha=alpha, power=policy.power)
    raise ConfigError(
        f"golden set {one.label} has {len(one.items)} items: a variant that loses nothing would pass a margin of {margin * 100:g} points "
        f"with probability {reached:.2f} only (flip rate {policy.planning_flip_rate:g}, {chances} candidates); about {needed} items are "
        "needed, or a wider margin, or --allow-underpowered",
        file=str(config.policy_path),
    )


def _fingerprint(config: RunConfig) -> Fingerprint:
    found = provenance.fixed() if config.provenance == "fixed" else provenance.fingerprint()
    return replace(found, model_sha256=provenance.model_digest(config.model), config_sha256=file_digest(config.path))


def _run_folder(config: RunConfig, options: Options) -> tuple[Path, RunInfo]:
    policy_sha256 = rundir.digest(config.policy)
    if options.resume is not None:
        return options.resume, _resumed(options.resume, config, policy_sha256)
    created = "2000-01-01T00:00:00+00:00" if config.provenance == "fixed" else datetime.now(UTC).isoformat(timespec="seconds")
    stamp = datetime.fromisoformat(created).strftime("%Y-%m-%dT%H-%M-%SZ")
    run_id = config.run_id or f"{stamp}-{token_hex(2)}"
    if (config.out / run_id / "run.json").exists():
        raise ConfigError(f"run {run_id} is there already; name another 'run_id', or go on with --resume {run_id}", file=str(config.path))
    info = RunInfo(
        run_id=run_id,
        created_at=created,
        state="running",
        config_sha256=file_digest(config.path),
        policy_sha256=policy_sha256,
        model=_named_model(config),
        registry=config.registry,
        registered_model=config.registered_model,
        alias=config.alias,
        tracking_uri=config.tracking_uri,
        experiment=config.experiment,
    )
    return config.out / run_id, info


def _named_model(config: RunConfig) -> ModelSource:
    """The model as the report names it: under ``provenance: fixed`` by its path from the config, which is the same on every machine."""
    if config.provenance != "fixed" or config.model.path is None:
        return config.model
    return replace(config.model, path=os.path.relpath(config.model.path, config.path.parent))


def _resumed(folder: Path, config: RunConfig, policy_sha256: str) -> RunInfo:
    info = load_info(folder)
    if info.config_sha256 != file_digest(config.path):
        raise ConfigError(f"the config changed since run {info.run_id} was started; start a new run", file=str(config.path))
    if info.policy_sha256 != policy_sha256:
        raise ConfigError(f"the policy changed since run {info.run_id} was started; start a new run", file=str(config.policy_path))
    return replace(info, state="running")


def _store_inputs(folder: Path, info: RunInfo, config: RunConfig, goldens: tuple[GoldenSet, ...]) -> None:
    """Config, policy and questions as they were, so that the run can be understood and judged again later."""
    _store_info(folder, info)
    rundir.write_text(folder / "config.yaml", rundir.read_text(config.path))
    rundir.write_text(folder / "policy.json", rundir.encode(config.policy, indent=2) + "\n")
    for one in goldens:
        rundir.put(folder / "golden" / f"{one.name}.json", kind="golden", key=one.sha256, record=one)


def _store_info(folder: Path, info: RunInfo) -> None:
    rundir.write_text(folder / "run.json", rundir.encode(info, indent=2) + "\n")


def _step_count(config: RunConfig, goldens: tuple[GoldenSet, ...]) -> int:
    compared = sum(diverge.positions(len(one.items)) > 0 for one in goldens)
    stages = sum(2 + len(goldens) + compared + _is_filled(one) for one in config.variants)
    return stages + sum(_is_timed(one) for one in config.variants if one.role != "reference")


def _is_filled(variant: Variant) -> bool:
    """Controls are scored and nothing else."""
    return variant.role in ("reference", "candidate")


_is_timed = _is_filled


# ---------------------------------------------------------------------------------------------- measuring


def _measure_all(work: _Run) -> None:
    """Build all, then load, score and fill each, then time. The reference comes first: nothing is worth measuring without it."""
    variants = sorted(work.config.variants, key=lambda one: one.role != "reference")
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
    _time_all(work)


def _require_reference(work: _Run) -> None:
    one = work.evidence[work.config.reference.name]
    work.base = one.artifact
    if one.artifact is None:
        raise MeasureError(f"the reference could not be prepared: {one.failures[0].message}")


@contextmanager
def _failures(work: _Run, variant: Variant, stage: str) -> Iterator[None]:
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


class _Lazy:
    """A worker that is started, and a session that is opened, when first needed: a stage that was kept needs neither."""

    def __init__(self, work: _Run, variant: Variant, stack: ExitStack) -> None:
        self._work, self._variant, self._stack = work, variant, stack
        self._worker: Worker | None = None
        self._opened: Opened | None = None

    def ask(self, action: str, kind: type[T], **values: Any) -> T:
        """Send one request and decode its reply."""
        request = {"action": action, **rundir.plain(values)}
        reply = self._started().ask(request, self._work.display.progress)
        return rundir.decode(kind, json.dumps(reply))

    def open(self) -> Opened:
        """The loaded variant, opened once."""
        if self._opened is None:
            config, artifact = self._work.config, self._work.evidence[self._variant.name].artifact
            self._opened = self.ask("open", Opened, artifact=artifact, engine=config.engine, device=config.device)
        return self._opened

    def _started(self) -> Worker:
        if self._worker is None:
            self._worker = self._work.executor.open(self._variant, self._work.folder / "logs" / f"{self._variant.name}.log")
            self._stack.callback(self._worker.close)
            self._stack.push(self._kill_on_interrupt)
        return self._worker

    def _kill_on_interrupt(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> bool:
        if kind is not None and self._worker is not None:
            self._worker.kill()
        return False


def _kept(
    work: _Run,
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


def _key(work: _Run, **parts: Any) -> str:
    """Digest of what a result depends on: code and libraries, and the parts given. The code counts under ``provenance: fixed`` too."""
    known = work.fingerprint
    return rundir.digest({"source": provenance.source_digest(), "libraries": known.libraries, "python": known.python, **parts})


def _machine(work: _Run) -> dict[str, Any]:
    return {"cpu": work.fingerprint.cpu, "platform": work.fingerprint.platform, "device": rundir.plain(work.config.device)}


def _quantize(work: _Run, variant: Variant) -> None:
    base = None if variant.role == "reference" else work.base
    key = _key(
        work,
        model=work.fingerprint.model_sha256,
        variant=replace(variant, role="candidate"),
        base=None if base is None else base.sha256,
        device=work.config.device.kind,
    )
    work.display.step(variant.name, "quantize")
    found = None if work.shelf.fresh else rundir.stored_artifact(work.config.cache / "artifacts" / key)
    if found is None:
        with ExitStack() as stack:
            (work.folder / "logs").mkdir(parents=True, exist_ok=True)
            found = _Lazy(work, variant, stack).ask(
                "quantize",
                Artifact,
                model=work.config.model,
                variant=variant,
                base=base,
                device=work.config.device,
                cache=str(work.config.cache),
                key=key,
                fresh=work.shelf.fresh,
            )
        work.display.step_done(reused=False)
    else:
        one = work.evidence[variant.name]
        work.evidence[variant.name] = replace(one, reused=(*one.reused, "quantize"))
        work.display.step_done(reused=True)
    rundir.put(work.folder / "variants" / variant.name / "artifact.json", kind="artifact", key=key, record=found)
    work.evidence[variant.name] = replace(work.evidence[variant.name], artifact=found)


def _measure(work: _Run, variant: Variant) -> None:
    """Load, fill and score one variant in one process; the fill first, while nothing but the weights has been in memory."""
    (work.folder / "logs").mkdir(parents=True, exist_ok=True)
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
        for one in work.goldens:
            with _failures(work, variant, f"score {one.name}"):
                _score(work, variant, one, lazy)
            if diverge.positions(len(one.items)):
                with _failures(work, variant, f"kl {one.name}"):
                    _diverge(work, variant, one, lazy)


def _load(work: _Run, variant: Variant, lazy: _Lazy) -> None:
    artifact = work.evidence[variant.name].artifact
    key = _key(work, artifact=artifact, engine=work.config.engine, **_machine(work))
    opened = _kept(work, variant, "load", Opened, key, lazy.open)
    work.evidence[variant.name] = replace(work.evidence[variant.name], loaded=opened.loaded, device=opened.device)


def _score(work: _Run, variant: Variant, one: GoldenSet, lazy: _Lazy) -> None:
    plan = _plan(work.config.batch_plan, variant)
    artifact = work.evidence[variant.name].artifact
    key = _key(work, artifact=artifact, engine=work.config.engine, golden=one.sha256, plan=plan, **_machine(work))

    def make() -> ScoreSheet:
        lazy.open()
        values = {"golden_set": one.path, "golden_sha256": one.sha256, "plan": plan, "variant": variant.name}
        return lazy.ask("score", ScoreSheet, **values)

    sheet = _kept(work, variant, f"score {one.name}", ScoreSheet, key, make)
    lines = "".join(rundir.encode(item) + "\n" for item in sheet.items)
    rundir.write_text(work.folder / "variants" / variant.name / "scores" / f"{one.name}.jsonl", lines)
    known = work.evidence[variant.name]
    work.evidence[variant.name] = replace(known, sheets=(*known.sheets, sheet))


def _diverge(work: _Run, variant: Variant, one: GoldenSet, lazy: _Lazy) -> None:
    """The reference stores its distributions; every other variant is compared with them."""
    plan = _plan(work.config.batch_plan, variant)
    artifact = work.evidence[variant.name].artifact
    base = work.distributions.get(one.name)
    key = _key(work, artifact=artifact, engine=work.config.engine, golden=one.sha256, plan=plan, base=base, **_machine(work))
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


def _fill(work: _Run, variant: Variant, lazy: _Lazy) -> None:
    config, artifact = work.config, work.evidence[variant.name].artifact
    budget = _budget(work, variant)
    key = _key(work, artifact=artifact, engine=config.engine, workload=config.workload, budget=budget, **_machine(work))

    def make() -> Capacity:
        lazy.open()
        return lazy.ask("capacity", Capacity, workload=config.workload, budget_bytes=budget, seed=SEED)

    found = _kept(work, variant, "capacity", Capacity, key, make)
    work.evidence[variant.name] = replace(work.evidence[variant.name], capacity=found)


def _budget(work: _Run, variant: Variant) -> int:
    """The configured budget, else all of the device."""
    if work.config.device.memory_budget_bytes is not None:
        return work.config.device.memory_budget_bytes
    info = work.evidence[variant.name].device
    if info is None:
        raise MeasureError("the device is not known, so its memory is not either")
    return info.total_bytes


# ---------------------------------------------------------------------------------------------- timing


def _time_all(work: _Run) -> None:
    """Reference and variant in turn, each in its own process, one working at a time."""
    reference = work.config.reference
    for variant in work.config.variants:
        one = work.evidence[variant.name]
        if not _is_timed(variant) or variant.role == "reference" or one.capacity is None or not one.capacity.confirmed:
            continue
        with _failures(work, variant, "time"):
            work.display.step(variant.name, "time")
            _time(work, reference, variant)
            work.display.step_done(reused=False)


def _time(work: _Run, reference: Variant, variant: Variant) -> None:
    """Blocks R V V R. The reference's own ceiling is timed beside the first variant only."""
    name = f"variants/{variant.name}/speed"
    shared = [one for one in work.config.workload.batch_sizes if one <= min(_ceiling(work, reference), _ceiling(work, variant))]
    sizes = {variant.name: sorted({*shared, _ceiling(work, variant)}), reference.name: list(shared)}
    if work.evidence[reference.name].speed is None and _ceiling(work, reference):
        sizes[reference.name] = sorted({*shared, _ceiling(work, reference)})
    key = _key(work, run=work.info.run_id, artifact=work.evidence[variant.name].artifact, sizes=sizes, workload=work.config.workload)
    kept = rundir.get(work.folder / f"{name}.json", kind="speed", key=key, record=SpeedRun)
    done = kept if kept is not None else _blocks(work, reference, variant, sizes)
    work.shelf.keep(name, kind="speed", key=key, record=done, share=False)
    work.evidence[variant.name] = replace(work.evidence[variant.name], speed=done)
    base = work.evidence[reference.name]
    earlier = () if base.speed is None else base.speed.generations
    work.evidence[reference.name] = replace(base, speed=SpeedRun(variant=reference.name, generations=(*earlier, *done.partner)))


def _ceiling(work: _Run, variant: Variant) -> int:
    capacity = work.evidence[variant.name].capacity
    return 0 if capacity is None or capacity.confirmed is None else capacity.confirmed


def _blocks(work: _Run, reference: Variant, variant: Variant, sizes: dict[str, list[int]]) -> SpeedRun:
    with ExitStack() as stack:
        workers = {one.name: _Lazy(work, one, stack) for one in (reference, variant)}
        for one in workers.values():
            one.open()
        taken: dict[str, list[Generation]] = {name: [] for name in workers}
        for _ in range(work.config.workload.quadruples):
            for name in (reference.name, variant.name, variant.name, reference.name):
                warmups = 0 if taken[name] else work.config.workload.warmups
                values = {"workload": work.config.workload, "batch_sizes": sizes[name], "warmups": warmups, "seed": SEED}
                taken[name] += workers[name].ask("time", tuple[Generation, ...], **values)
    order = " ".join(["R V V R"] * work.config.workload.quadruples)
    generations, partner = tuple(taken[variant.name]), tuple(taken[reference.name])
    return SpeedRun(variant=variant.name, generations=generations, partner=partner, order=order)


# ---------------------------------------------------------------------------------------------- judging and publishing


def _finish(work: _Run) -> Report:
    evidence = Evidence(
        variants=tuple(_placed(work, work.evidence[one.name]) for one in work.config.variants if one.name in work.evidence),
        golden_sets=tuple(golden.reference_of(one) for one in work.goldens),
        fingerprint=replace(work.fingerprint, device=_device_of(work)),
    )
    rundir.put(work.folder / "evidence.json", kind="evidence", key=work.info.run_id, record=evidence)
    seconds = 0.0 if work.config.provenance == "fixed" else work.display.now_s() - work.started_s
    context = _context(work.info, work.goldens, work.config.policy, work.folder, seconds)
    judged = judge(evidence, context)
    _store_report(judged, work.folder)  # before the alias moves: what is out always has a report
    promotion = _promote(work.info, judged, work.folder, work.display.note)
    final = replace(judged, promotion=promotion)
    publish(final, work.folder, _sinks(work), work.display.note)
    return final


def _placed(work: _Run, one: VariantEvidence) -> VariantEvidence:
    """Evidence as it was found; under ``provenance: fixed`` with places and last digits that are the same on every machine."""
    if work.config.provenance != "fixed":
        return one
    artifact = None if one.artifact is None else replace(one.artifact, path=f"artifacts/{one.variant.name}")
    return rundir.rounded(replace(one, artifact=artifact))


def judge(evidence: Evidence, context: Context) -> Report:
    """The report of stored or fresh evidence under the context's policy. Reads no clock and no model."""
    decision = gate.judge(
        evidence, context.policy, policy_sha256=rundir.digest(context.policy), evidence_sha256=rundir.digest(evidence)
    )
    return rundir.rounded(report.build(context, evidence, decision, None))


def publish(final: Report, folder: Path, sinks: list[Sink], warn: Callable[[str], None]) -> None:
    """report.json first; then each sink. A sink that fails is reported and changes nothing."""
    _store_report(final, folder)
    for sink in sinks:
        try:
            warn(sink.publish(final, folder))
        except Exception as error:
            warn(f"{sink.name} could not publish the report: {error}")


def _store_report(final: Report, folder: Path) -> None:
    rundir.write_text(folder / "report.json", rundir.encode(final, indent=2) + "\n")


def _sinks(work: _Run) -> list[Sink]:
    made: list[Sink] = []
    arguments: dict[str, dict[str, Any]] = {
        "mlflow": {"tracking_uri": work.config.tracking_uri, "experiment": work.config.experiment},
        "console": {"stream": sys.stdout},
    }
    for name in work.config.sinks:
        try:
            made.append(plugins.load("sink", name)(**arguments.get(name, {})))
        except UsageError as error:
            work.display.note(f"{name} is not available: {error}")
    return made


def registry_of(info: RunInfo, folder: Path) -> Registry:
    """The registry a run promotes into."""
    adapter = plugins.load("registry", info.registry)
    made: Registry = adapter(folder.parent / "registry.json") if info.registry == "local" else adapter(tracking_uri=info.tracking_uri)
    return made


def _promote(info: RunInfo, judged: Report, folder: Path, warn: Callable[[str], None]) -> Promotion:
    target = promote.Target(registry=info.registry, model=info.registered_model, alias=info.alias)
    try:
        registry = registry_of(info, folder)
    except Exception as error:
        warn(f"the registry is not available: {error}")
        return promote.failed(target, error)
    return promote.promote(registry, target, judged, warn)


def _device_of(work: _Run) -> DeviceInfo | None:
    return work.evidence[work.config.reference.name].device


def _context(info: RunInfo, goldens: tuple[GoldenSet, ...], policy: Policy, folder: Path, seconds: float) -> Context:
    return Context(
        run_id=info.run_id,
        created_at=info.created_at,
        model=info.model,
        golden_sets=goldens,
        policy=policy,
        commands=tuple(f"quantgate {words}" for words in _commands(info.run_id)),
        seconds=seconds,
    )


def _commands(run_id: str) -> tuple[str, ...]:
    return (f"show {run_id}", f"judge {run_id} --policy POLICY.yaml", f"promote {run_id}")


# ---------------------------------------------------------------------------------------------- stored runs


def load_info(folder: Path) -> RunInfo:
    """What a run folder says of itself. Raises ``RunFolderError`` where it is none."""
    if not (folder / "run.json").is_file():
        raise RunFolderError(f"{folder} is not a run folder: it has no run.json")
    return rundir.decode(RunInfo, rundir.read_text(folder / "run.json"))


def load_report(folder: Path) -> Report:
    """The stored report of a run."""
    return rundir.decode(Report, rundir.read_text(folder / "report.json"))


def load_evidence(folder: Path) -> Evidence:
    """The stored evidence of a run. Raises ``RunFolderError`` where it is missing or was altered."""
    found = rundir.get(folder / "evidence.json", kind="evidence", key=None, record=Evidence)
    if found is None:
        how = f"quantgate run CONFIG --resume {folder.name}"
        raise RunFolderError(f"{folder} holds no evidence: the run did not come to its end; go on with {how}")
    return found


def rejudge(folder: Path, policy: Policy) -> tuple[Report, Path]:
    """Judge a stored run under another policy and store the new report beside the old one. Needs no model."""
    info, evidence = load_info(folder), load_evidence(folder)
    stored = load_report(folder)
    goldens = tuple(_stored_golden(folder, one.name, one.sha256) for one in evidence.golden_sets)
    judged = judge(evidence, _context(info, goldens, policy, folder, stored.seconds))
    into = folder / "judgements" / f"{policy.name}-{judged.policy_sha256[:8]}"
    publish(judged, into, [plugins.load("sink", name)() for name in ("folder", "junit")], lambda text: None)
    return judged, into


def _stored_golden(folder: Path, name: str, sha256: str) -> GoldenSet:
    found = rundir.get(folder / "golden" / f"{name}.json", kind="golden", key=sha256, record=GoldenSet)
    if found is None:
        raise RunFolderError(f"{folder} holds no unaltered copy of golden set {name}")
    return found


def promote_stored(folder: Path, alias: str | None, warn: Callable[[str], None]) -> Report:
    """Promote a stored run's choice, judged again from its evidence so that an edited report promotes nothing."""
    info, stored = load_info(folder), load_report(folder)
    if alias is not None:
        info = replace(info, alias=alias)
    policy = rundir.decode(Policy, rundir.read_text(folder / "policy.json"))
    if rundir.digest(policy) != info.policy_sha256:
        raise RunFolderError(f"{folder / 'policy.json'} was altered since the run was started")
    evidence = load_evidence(folder)
    goldens = tuple(_stored_golden(folder, one.name, one.sha256) for one in evidence.golden_sets)
    judged = judge(evidence, _context(info, goldens, policy, folder, stored.seconds))
    return replace(judged, promotion=_promote(info, judged, folder, warn))


def find_run(text: str, reports: Path) -> Path:
    """A run folder by path, id, or a part of its id that only one run has."""
    if (direct := Path(text)).joinpath("run.json").is_file():
        return direct.resolve()
    if (exact := reports / text).joinpath("run.json").is_file():
        return exact.resolve()
    found = sorted(path.parent for path in reports.glob("*/run.json") if text in path.parent.name)
    if len(found) == 1:
        return found[0].resolve()
    what = "no run" if not found else f"{len(found)} runs ({', '.join(path.name for path in found[:5])})"
    raise UsageError(f"{what} in {reports} matches '{text}'; give a run folder or more of its id, or name the folder with --reports")
