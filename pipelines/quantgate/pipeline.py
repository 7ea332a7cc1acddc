"""The chain on one screen: ``check -> measure -> gate -> promote -> report -> sinks``, for a new run and for a stored one.

Everything that costs device time is in ``measuring``; what is decided is in ``stages.gate``. Here they meet the adapters that publish.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Any

from quantgate import (
    admission,
    baselines,
    gathering,
    golden,
    judging,
    nights,
    plugins,
    preflight,
    prompting,
    provenance,
    rundir,
    runs,
    serving,
    speculating,
    stores,
    texts,
    workloads,
)
from quantgate.config import UNCORRECTED, ContinuousIntegration, RunConfig, uncorrected
from quantgate.errors import ConfigError, RunFolderError
from quantgate.files import digest_folder, file_digest
from quantgate.measuring import measure_all
from quantgate.measuring.work import Run, planned
from quantgate.ports import Display, Sink
from quantgate.records import (
    UNDATED,
    BaselineEvidence,
    BatchingRun,
    DeviceInfo,
    Evidence,
    Fingerprint,
    GoldenSet,
    ModelSource,
    Night,
    Policy,
    Promotion,
    Report,
    RunInfo,
    SpeculationRun,
    Trend,
    VariantEvidence,
)
from quantgate.stages import baseline, choosing, gate, promote, report, trend
from quantgate.stages.plan import names_fault
from quantgate.stages.report import Context


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """How to run: ``fresh`` uses nothing of earlier runs, ``resume`` names a run to go on with, ``ci`` is set under a CI system."""

    fresh: bool = False
    resume: Path | None = None
    allow_underpowered: bool = False
    colour: bool = False
    ci: ContinuousIntegration | None = None


def run(config: RunConfig, options: Options, display: Display) -> Report:
    """Do the whole job and return its report, already published. Raises ``UsageError`` before anything is measured.

    On Ctrl-C the workers are ended and the folder can be resumed; ``KeyboardInterrupt`` goes on to the caller.
    """
    goldens = gathering.gather(config.golden_sets, config.cache, display.note)
    admission.check(goldens, config, allow_underpowered=options.allow_underpowered)
    preflight.check_settings(config.variants, str(config.path))
    prompting.check(config, goldens)
    config = replace(config, variants=preflight.prepared(config.variants, goldens, config.cache))
    config = replace(config, levers=replace(config.levers, batching=workloads.prepared(config.levers.batching, str(config.path))))
    preflight.check_requests(config.levers.batching, config.model, str(config.path))
    read = None if config.divergence is None else texts.load(config.divergence)
    fingerprint = _fingerprint(config)
    folder, info = _run_folder(config, options)
    with rundir.held(folder):
        _store_inputs(folder, info, config, goldens)
        pinned = _baseline(folder, info, config, options)
        work = Run(
            config=config,
            folder=folder,
            info=info,
            display=display,
            executor=plugins.load("executor", config.executor)(),
            shelf=rundir.Shelf(run=folder, cache=config.cache, fresh=options.fresh),
            goldens=goldens,
            fingerprint=fingerprint,
            texts=read,
        )
        started_s = display.now_s()
        display.start(folder, (*planned(config, goldens), *serving.planned(config), *speculating.planned(config)))
        _foresee(work, pinned)
        try:
            with _watched(work):
                measure_all(work)
                beside = _Beside(baseline=pinned, batching=serving.measure_batching(work), speculation=speculating.speculate(work))
            finished = _finish(work, options, started_s, beside)
        except BaseException as error:
            interrupted = isinstance(error, KeyboardInterrupt)
            if interrupted:
                display.note(f"interrupted; go on with: {_resume_command(config, folder, options)}")
            with suppress(RunFolderError):
                runs.store_info(folder, replace(info, state="interrupted" if interrupted else "failed"))
            raise
        finally:
            display.stop()
        runs.store_info(folder, replace(info, state="complete"))
    return finished


def _watched(work: Run) -> AbstractContextManager[object]:
    """Watch the machine while measuring, for runs that MLflow will show."""
    if "mlflow" not in work.config.sinks or not work.config.system_metrics:
        return nullcontext()
    try:
        watched: AbstractContextManager[object] = plugins.beside("watch", "mlflow")(work.folder)
    except Exception as error:
        work.display.note(f"system metrics are not available: {error}")
        return nullcontext()
    return watched


def _resume_command(config: RunConfig, folder: Path, options: Options) -> str:
    words = ["quantgate", "run", str(config.path), "--resume", str(folder)]
    return shlex.join([*words, *(["--allow-underpowered"] if options.allow_underpowered else [])])


# ---------------------------------------------------------------------------------------------- before anything is measured


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
        tracking_uri=stores.without_password(config.tracking_uri),
        experiment=config.experiment,
        artifacts=config.artifacts,
        challenger=config.challenger,
    )
    return config.out / run_id, info


def _named_model(config: RunConfig) -> ModelSource:
    """The model as the report names it: under ``provenance: fixed`` by its path from the config, which is the same on every machine."""
    if config.provenance != "fixed" or config.model.path is None:
        return config.model
    return replace(config.model, path=os.path.relpath(config.model.path, config.path.parent))


def _resumed(folder: Path, config: RunConfig, policy_sha256: str) -> RunInfo:
    info = runs.load_info(folder)
    if info.config_sha256 != file_digest(config.path):
        raise ConfigError(f"the config changed since run {info.run_id} was started; start a new run", file=str(config.path))
    if info.policy_sha256 != policy_sha256:
        raise ConfigError(f"the policy changed since run {info.run_id} was started; start a new run", file=str(config.policy_path))
    return replace(info, state="running")


def _store_inputs(folder: Path, info: RunInfo, config: RunConfig, goldens: tuple[GoldenSet, ...]) -> None:
    """Config, policy and questions as they were, so that the run can be understood and judged again later."""
    runs.store_info(folder, info)
    rundir.write_text(folder / "config.yaml", rundir.read_text(config.path))
    rundir.write_text(folder / "policy.json", rundir.encode(config.policy, indent=2) + "\n")
    for one in goldens:
        rundir.put(folder / "golden" / f"{one.name}.json", kind="golden", key=one.sha256, record=one)


def _baseline(folder: Path, info: RunInfo, config: RunConfig, options: Options) -> BaselineEvidence | None:
    """The pinned reference as it was when the run began; a resumed run has it from its folder. None where the config names none."""
    if config.baseline is None:
        return None
    place = folder / "baseline.json"
    if options.resume is not None and (kept := rundir.get(place, kind="pinned", key=info.run_id, record=BaselineEvidence)) is not None:
        return kept
    path = config.baseline.path
    shown = os.path.relpath(path, config.path.parent) if config.provenance == "fixed" else str(path)
    found = baselines.read(path, shown, config.baseline.limits, info.run_id)
    rundir.put(place, kind="pinned", key=info.run_id, record=found)
    return found


def _foresee(work: Run, pinned: BaselineEvidence | None) -> None:
    """Tell before hours are spent that nothing of the run will count as measured."""
    golden_sets = tuple(golden.reference_of(one) for one in work.goldens)
    for why in () if pinned is None else baseline.foreseen(pinned, golden_sets, work.fingerprint.model_sha256):
        work.display.note(f"baseline: {why}; the run goes on, and will not be measured")


# ---------------------------------------------------------------------------------------------- judging and publishing


@dataclass(frozen=True, kw_only=True, slots=True)
class _Beside:
    """Evidence that belongs to the run and to no variant."""

    baseline: BaselineEvidence | None
    batching: tuple[BatchingRun, ...]
    speculation: tuple[SpeculationRun, ...]


def _finish(work: Run, options: Options, started_s: float, beside: _Beside) -> Report:
    evidence = Evidence(
        variants=tuple(_placed(work, work.evidence[one.name]) for one in work.config.variants if one.name in work.evidence),
        golden_sets=tuple(golden.reference_of(one) for one in work.goldens),
        fingerprint=replace(work.fingerprint, device=_device_of(work)),
        baseline=beside.baseline,
        batching=beside.batching,
        speculation=beside.speculation,
        roofs=work.roofs,
        price=work.config.price,
        budget=work.config.budget,
    )
    if work.config.provenance == "fixed":
        evidence = rundir.rounded(evidence)
    rundir.put(work.folder / "evidence.json", kind="evidence", key=work.info.run_id, record=evidence)
    seconds = 0.0 if work.config.provenance == "fixed" else work.display.now_s() - started_s
    context = _context(work.info, work.goldens, work.config.policy, work.folder, seconds)
    judged = judge(evidence, context)
    _store_report(judged, work.folder)  # before the alias moves: what is out always has a report
    promotion = _promote(work.info, (judged, evidence), work.folder, work.display.note)
    final = replace(judged, promotion=promotion)
    looked_back = _look_back(work, evidence)
    publish(final, work.folder, _sinks(work, options, looked_back), work.display.note)
    if "mlflow" in work.config.sinks:
        stores.follow(work.info, work.folder, _touched(promotion), work.display.note)
    return final


def _look_back(work: Run, evidence: Evidence) -> Trend | None:
    """The nights before, for the page; kept in the run's folder, as they may be gone when the page is written again.

    It decides nothing, so whatever is wrong with an old folder is told and takes nothing along.
    """
    try:
        stored = nights.before(work.config.out, work.info)
        tonight = Night(run_id=work.info.run_id, created_at=work.info.created_at, evidence=evidence)
        found = trend.for_page(work.info.model.name, [*stored, tonight]) if len(stored) + 1 >= trend.ENOUGH else None
        if found is not None:
            rundir.put(work.folder / "trend.json", kind="trend", key=work.info.run_id, record=rundir.rounded(found))
    except Exception as error:
        work.display.note(f"the nights before could not be looked at: {error}")
        return None
    return found


def _placed(work: Run, one: VariantEvidence) -> VariantEvidence:
    """Evidence as it was found; under ``provenance: fixed`` with places that are the same on every machine."""
    if work.config.provenance != "fixed" or one.artifact is None:
        return one
    return replace(one, artifact=replace(one.artifact, path=f"artifacts/{one.variant.name}"))


def judge(evidence: Evidence, context: Context) -> Report:
    """The report of stored or fresh evidence under the context's policy. Reads no clock and no model."""
    return _judged(evidence, context, (rundir.digest(evidence), rundir.digest(context.policy)), context.created_at)


def _judged(evidence: Evidence, context: Context, digests: tuple[str, str], created_at: str | None) -> Report:
    """``digests``: of the evidence and of the policy."""
    evidence_sha256, policy_sha256 = digests
    decision = gate.judge(
        evidence,
        context.policy,
        policy_sha256=policy_sha256,
        evidence_sha256=evidence_sha256,
        created_at=created_at,
    )
    return rundir.rounded(report.build(context, evidence, decision, None))


def publish(final: Report, folder: Path, sinks: list[Sink], warn: Callable[[str], None]) -> None:
    """report.json first; then each sink. A sink that fails is reported and changes nothing."""
    _store_report(final, folder)
    for sink in sinks:
        try:
            if where := sink.publish(final, folder):
                warn(where)
        except Exception as error:
            warn(f"{sink.name} could not publish the report: {error}")


def _store_report(final: Report, folder: Path) -> None:
    rundir.write_text(folder / "report.json", rundir.encode(final, indent=2) + "\n")


def _sinks(work: Run, options: Options, looked_back: Trend | None) -> list[Sink]:
    """The sinks of the config. One that cannot be made is reported and does not take the others along."""
    arguments: dict[str, dict[str, Any]] = {
        "folder": {"trend": looked_back},
        "mlflow": {**stores.mlflow(work.info, work.folder), "tracking_uri": work.config.tracking_uri, "experiment": work.config.experiment},
        "console": {"stream": sys.stdout, "colour": options.colour},
        "github": _github(options.ci),
    }
    made: list[Sink] = []
    for name in dict.fromkeys((*work.config.sinks, *_of_ci(options.ci))):
        try:
            made.append(plugins.load("sink", name)(**arguments.get(name, {})))
        except Exception as error:
            work.display.note(f"sink {name} is not available: {error}")
    return made


def _github(ci: ContinuousIntegration | None) -> dict[str, Any]:
    """Where GitHub Actions reads from; nothing elsewhere."""
    if ci is None:
        return {}
    return {"summary": ci.summary, "stream": sys.stdout if ci.annotations else None}


def _of_ci(ci: ContinuousIntegration | None) -> tuple[str, ...]:
    """A job's log always has the table, and GitHub's pages have what they take."""
    if ci is None:
        return ()
    return ("console", "github") if ci.summary is not None or ci.annotations else ("console",)


def _promote(info: RunInfo, of: tuple[Report, Evidence], folder: Path, warn: Callable[[str], None]) -> Promotion:
    judged, evidence = of
    target = promote.Target(registry=info.registry, model=info.registered_model, alias=info.alias, challenger=info.challenger)
    try:
        registry = stores.registry_of(info, folder)
    except Exception as error:
        warn(f"the registry is not available: {error}")
        return promote.failed(target, error)
    others = [one for one in judged.verdicts if one.variant != judged.chosen]
    runner_up, _ = choosing.choose(others, evidence, judged.policy) if judged.chosen is not None else (None, "")
    return promote.promote(registry, target, judged, warn, runner_up)


def _touched(promotion: Promotion) -> tuple[str | None, ...]:
    """The versions whose aliases a promotion changed, or may have."""
    trial = promotion.trial
    return promotion.previous, promotion.version, *(() if trial is None else (trial.previous, trial.version))


def _device_of(work: Run) -> DeviceInfo | None:
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


def rejudge(folder: Path, policy: Policy, warn: Callable[[str], None]) -> tuple[Report, Path]:
    """Judge a stored run under another policy and store the new report beside the old one. Needs no model."""
    sealed = runs.sealed_evidence(folder)
    if policy.order or policy.waivers:
        _refuse_unknown_names(policy, sealed[0])
    judged = _judged_again(folder, runs.load_info(folder), (policy, rundir.digest(policy)), sealed)
    into = folder / "judgements" / f"{policy.name}-{judged.policy_sha256[:8]}"
    publish(judged, into, pages(folder), warn)
    return judged, into


def _refuse_uncorrected(policy: Policy, evidence: Evidence) -> None:
    """The same refusal as before a run: several chances to pass need a correction."""
    chances = sum(one.variant.role == "candidate" for one in evidence.variants)
    if uncorrected(policy, chances):
        raise ConfigError(f"policy {policy.name}: {UNCORRECTED.format(chances)}")


def _refuse_unknown_names(policy: Policy, evidence: Evidence) -> None:
    """The same refusal as before a run: a candidate or check that a policy names by itself must be there."""
    roles = {one.variant.name: one.variant.role for one in evidence.variants}
    texts = next((one.reading.texts for one in evidence.variants if one.reading is not None), None)
    if (fault := names_fault(policy, roles, evidence.golden_sets, texts)) is not None:
        raise ConfigError(f"policy {policy.name}, {'.'.join(map(str, fault.where))}: {fault.what}")


def _judged_again(folder: Path, info: RunInfo, by: tuple[Policy, str], sealed: tuple[Evidence, str]) -> Report:
    """Policy and evidence each come with the digest that they were written with: a record may have grown since."""
    (policy, policy_sha256), (evidence, evidence_sha256) = by, sealed
    _refuse_uncorrected(policy, evidence)
    seconds = runs.load_report(folder).seconds if (folder / "report.json").is_file() else 0.0
    goldens = tuple(runs.load_golden(folder, one.name, one.sha256) for one in evidence.golden_sets)
    context = _context(info, goldens, policy, folder, seconds)
    return _judged(evidence, context, (evidence_sha256, policy_sha256), info.created_at)


def judge_stored(folder: Path) -> Report:
    """The report of a stored run, judged again by its own policy from its evidence alone. Writes nothing."""
    return judged_and_evidence(folder)[0]


def judged_and_evidence(folder: Path) -> tuple[Report, Evidence]:
    """The same, with the evidence that was judged."""
    info, sealed = runs.load_info(folder), runs.sealed_evidence(folder)
    return _judged_again(folder, info, (runs.load_policy(folder), info.policy_sha256), sealed), sealed[0]


def judge_files(
    asked: judging.Asked, policy: Policy, out: Path | None, warn: Callable[[str], None]
) -> tuple[Report, Path]:
    """Judge per-item results that other tools wrote, and store the report. Needs no model and reads no clock.

    The report is undated, so no waiver holds: nobody knows on which day the results were made.
    """
    found = judging.gather(asked)
    _refuse_uncorrected(policy, found.evidence)
    _refuse_unknown_names(policy, found.evidence)
    judgement = rundir.digest([found.sha256, rundir.digest(policy)])
    context = Context(
        run_id=f"{found.run_id}-{judgement[:8]}",
        created_at=UNDATED,
        model=ModelSource(name=found.evidence.variants[0].variant.name, path=found.path),
        golden_sets=found.golden_sets,
        policy=policy,
        commands=tuple(f"quantgate {words}" for words in found.commands),
        seconds=0.0,
    )
    judged = _judged(found.evidence, context, (found.sha256, rundir.digest(policy)), None)
    final = replace(judged, sentences=(*judged.sentences, *found.notes))
    into = out or asked.reports / context.run_id
    publish(final, into, pages(), warn)
    return final, into


def pages(run: Path | None = None) -> list[Sink]:
    """The sinks that write a report's pages into its folder; of a stored run with the nights before it, as it saw them."""
    looked_back = None if run is None else rundir.get(run / "trend.json", kind="trend", key=run.name, record=Trend)
    return [plugins.load("sink", "folder")(trend=looked_back), plugins.load("sink", "junit")()]


def refuse_missing(judged: Report) -> None:
    """The checkpoint that would go out must be there, every byte as it was judged."""
    row = next((one for one in judged.measurements if one.variant == judged.chosen), None)
    if row is None or row.artifact_path is None or not Path(row.artifact_path).is_absolute():
        return
    path = Path(row.artifact_path)
    if not path.is_dir() or digest_folder(path)[0] != row.artifact_sha256:
        state = "was altered" if path.is_dir() else "is gone"
        raise RunFolderError(f"the checkpoint of {row.variant} {state}: {path}; run the config again, then promote that run")


def rehearse(folder: Path, alias: str | None) -> tuple[Report, str]:
    """What promoting a stored run would do, judged again from its evidence. Registers, moves and writes nothing."""
    info = runs.load_info(folder)
    judged = judge_stored(folder)
    refuse_missing(judged)
    target = promote.Target(registry=info.registry, model=info.registered_model, alias=alias or info.alias)
    unused = info.registry == "mlflow" and not stores.exists(info)  # asking would create it
    registry = None if unused else stores.registry_of(info, folder)
    previous = None if registry is None else registry.alias(target.model, target.alias)
    out = {} if registry is None or previous is None else registry.tags(target.model, previous)
    return judged, promote.rehearsed(target, judged, previous, out)


def promote_stored(folder: Path, alias: str | None, warn: Callable[[str], None]) -> Report:
    """Promote a stored run's choice, judged again from its evidence so that an edited report promotes nothing.

    The run's pages are written again and say what was promoted.
    """
    info = runs.load_info(folder)
    asked = info if alias is None else replace(info, alias=alias, challenger=None)
    with rundir.held(folder):
        judged, evidence = judged_and_evidence(folder)
        refuse_missing(judged)
        promotion = _promote(asked, (judged, evidence), folder, warn)
        final = replace(judged, promotion=promotion)
        publish(final, folder, pages(folder), warn)
        stores.follow(info, folder, _touched(promotion), warn, also=asked.alias)
    return final


def publish_stored(folder: Path, sink: Sink, warn: Callable[[str], None]) -> str:
    """Publish a stored report once more, or after a failure, and return where it is. Moves nothing, and only reads the folder."""
    info, report = runs.load_info(folder), runs.load_report(folder)
    with rundir.held(folder):
        where = sink.publish(report, folder)
        if report.promotion is not None:
            stores.follow(info, folder, _touched(report.promotion), warn)
    return where


