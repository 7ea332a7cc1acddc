"""The chain on one screen: ``check -> measure -> gate -> promote -> report -> sinks``, for a new run and for a stored one.

Everything that costs device time is in ``measuring``; what is decided is in ``stages.gate``. Here they meet the adapters that publish.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Any

from quantgate import admission, gathering, golden, judging, plugins, preflight, provenance, rundir, runs, texts
from quantgate.config import UNCORRECTED, RunConfig, uncorrected
from quantgate.errors import ConfigError, RunFolderError
from quantgate.files import file_digest
from quantgate.measuring import Run, measure_all, planned
from quantgate.ports import Display, Registry, Sink
from quantgate.records import (
    UNDATED,
    DeviceInfo,
    Evidence,
    Fingerprint,
    GoldenSet,
    ModelSource,
    Policy,
    Promotion,
    Report,
    RunInfo,
    VariantEvidence,
)
from quantgate.stages import gate, promote, report
from quantgate.stages.plan import names_fault
from quantgate.stages.report import Context


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """How to run: ``fresh`` uses nothing of earlier runs, ``resume`` names a run to go on with."""

    fresh: bool = False
    resume: Path | None = None
    allow_underpowered: bool = False
    colour: bool = False


def run(config: RunConfig, options: Options, display: Display) -> Report:
    """Do the whole job and return its report, already published. Raises ``UsageError`` before anything is measured.

    On Ctrl-C the workers are ended and the folder can be resumed; ``KeyboardInterrupt`` goes on to the caller.
    """
    goldens = gathering.gather(config.golden_sets, config.cache, display.note)
    admission.check(goldens, config, allow_underpowered=options.allow_underpowered)
    preflight.check_settings(config.variants, str(config.path))
    config = replace(config, variants=preflight.prepared(config.variants, goldens, config.cache))
    read = None if config.divergence is None else texts.load(config.divergence)
    fingerprint = _fingerprint(config)
    folder, info = _run_folder(config, options)
    with rundir.held(folder):
        _store_inputs(folder, info, config, goldens)
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
        display.start(folder, planned(config, goldens))
        try:
            measure_all(work)
            finished = _finish(work, options, started_s)
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


# ---------------------------------------------------------------------------------------------- judging and publishing


def _finish(work: Run, options: Options, started_s: float) -> Report:
    evidence = Evidence(
        variants=tuple(_placed(work, work.evidence[one.name]) for one in work.config.variants if one.name in work.evidence),
        golden_sets=tuple(golden.reference_of(one) for one in work.goldens),
        fingerprint=replace(work.fingerprint, device=_device_of(work)),
        roofs=work.roofs if work.config.provenance != "fixed" else rundir.rounded(work.roofs),
        price=work.config.price,
        budget=work.config.budget,
    )
    rundir.put(work.folder / "evidence.json", kind="evidence", key=work.info.run_id, record=evidence)
    seconds = 0.0 if work.config.provenance == "fixed" else work.display.now_s() - started_s
    context = _context(work.info, work.goldens, work.config.policy, work.folder, seconds)
    judged = judge(evidence, context)
    _store_report(judged, work.folder)  # before the alias moves: what is out always has a report
    promotion = _promote(work.info, judged, work.folder, work.display.note)
    final = replace(judged, promotion=promotion)
    publish(final, work.folder, _sinks(work, options), work.display.note)
    return final


def _placed(work: Run, one: VariantEvidence) -> VariantEvidence:
    """Evidence as it was found; under ``provenance: fixed`` with places and last digits that are the same on every machine."""
    if work.config.provenance != "fixed":
        return one
    artifact = None if one.artifact is None else replace(one.artifact, path=f"artifacts/{one.variant.name}")
    return rundir.rounded(replace(one, artifact=artifact))


def judge(evidence: Evidence, context: Context) -> Report:
    """The report of stored or fresh evidence under the context's policy. Reads no clock and no model."""
    return _judged(evidence, context, rundir.digest(evidence), context.created_at)


def _judged(evidence: Evidence, context: Context, evidence_sha256: str, created_at: str | None) -> Report:
    decision = gate.judge(
        evidence,
        context.policy,
        policy_sha256=rundir.digest(context.policy),
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


def _sinks(work: Run, options: Options) -> list[Sink]:
    """The sinks of the config. One that cannot be made is reported and does not take the others along."""
    arguments: dict[str, dict[str, Any]] = {
        "mlflow": {"tracking_uri": work.config.tracking_uri, "experiment": work.config.experiment},
        "console": {"stream": sys.stdout, "colour": options.colour},
    }
    made: list[Sink] = []
    for name in work.config.sinks:
        try:
            made.append(plugins.load("sink", name)(**arguments.get(name, {})))
        except Exception as error:
            work.display.note(f"sink {name} is not available: {error}")
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
    if policy.order or policy.waivers:
        _refuse_unknown_names(policy, runs.load_evidence(folder))
    judged = _judged_again(folder, runs.load_info(folder), policy)
    into = folder / "judgements" / f"{policy.name}-{judged.policy_sha256[:8]}"
    publish(judged, into, pages(), warn)
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


def _judged_again(folder: Path, info: RunInfo, policy: Policy) -> Report:
    evidence = runs.load_evidence(folder)
    _refuse_uncorrected(policy, evidence)
    seconds = runs.load_report(folder).seconds if (folder / "report.json").is_file() else 0.0
    goldens = tuple(runs.load_golden(folder, one.name, one.sha256) for one in evidence.golden_sets)
    return judge(evidence, _context(info, goldens, policy, folder, seconds))


def judge_stored(folder: Path) -> Report:
    """The report of a stored run, judged again by its own policy from its evidence alone. Writes nothing."""
    return _judged_again(folder, runs.load_info(folder), runs.load_policy(folder))


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
    judged = _judged(found.evidence, context, found.sha256, None)
    final = replace(judged, sentences=(*judged.sentences, *found.notes))
    into = out or asked.reports / context.run_id
    publish(final, into, pages(), warn)
    return final, into


def pages() -> list[Sink]:
    """The sinks that write a report's pages into its folder."""
    return [plugins.load("sink", name)() for name in ("folder", "junit")]


def refuse_missing(judged: Report) -> None:
    """The checkpoint that would go out must be there, every byte as it was judged."""
    row = next((one for one in judged.measurements if one.variant == judged.chosen), None)
    if row is None or row.artifact_path is None or not Path(row.artifact_path).is_absolute():
        return
    path = Path(row.artifact_path)
    if not path.is_dir() or rundir.digest_folder(path)[0] != row.artifact_sha256:
        state = "was altered" if path.is_dir() else "is gone"
        raise RunFolderError(f"the checkpoint of {row.variant} {state}: {path}; run the config again, then promote that run")


def rehearse(folder: Path, alias: str | None) -> tuple[Report, str]:
    """What promoting a stored run would do, judged again from its evidence. Registers, moves and writes nothing."""
    info = runs.load_info(folder)
    judged = judge_stored(folder)
    refuse_missing(judged)
    target = promote.Target(registry=info.registry, model=info.registered_model, alias=alias or info.alias)
    store = info.tracking_uri.removeprefix("sqlite:///")
    unused = info.registry == "mlflow" and store != info.tracking_uri and not Path(store).is_file()  # asking would create it
    previous = None if unused else registry_of(info, folder).alias(target.model, target.alias)
    return judged, promote.rehearsed(target, judged, previous)


def promote_stored(folder: Path, alias: str | None, warn: Callable[[str], None]) -> Report:
    """Promote a stored run's choice, judged again from its evidence so that an edited report promotes nothing.

    The run's pages are written again and say what was promoted.
    """
    info = runs.load_info(folder)
    if alias is not None:
        info = replace(info, alias=alias)
    with rundir.held(folder):
        judged = _judged_again(folder, info, runs.load_policy(folder))
        refuse_missing(judged)
        final = replace(judged, promotion=_promote(info, judged, folder, warn))
        publish(final, folder, pages(), warn)
    return final


