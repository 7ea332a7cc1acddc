"""The continuous batching lever of a run: which process serves the requests in which way, in which order, and what could not run.

A variant's own process serves them alone and in static batches; each engine that serves continuously has a process of its own, one working
at a time. The ways alternate: every second repeat takes them in reverse, because machines drift. What cannot run is a run with its reason,
never one that is left out. Like speed, nothing of it is taken from an earlier run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from quantgate import rundir
from quantgate.config import RunConfig
from quantgate.errors import MeasureError, UsageError
from quantgate.measuring.keys import key_of
from quantgate.measuring.processes import Process, opened
from quantgate.measuring.work import Run
from quantgate.records import (
    Arrivals,
    Artifact,
    BatchingConfig,
    BatchingEngine,
    BatchingMode,
    BatchingRun,
    PreparedBatching,
    Serving,
    Variant,
)
from quantgate.stages.batching import Job
from quantgate.workloads import arrival_s

STAGE = "batching"
LEFT_BEHIND = "not run: an earlier run of this engine was ended, and what was left of it would run on beside this one"
KEEPS_ITS_OWN_CACHE = "the variant keeps its cache in fewer bits, and this engine keeps one of its own"
NO_FORWARD = "not run: its weights are rounded and kept in float, and such a variant is never timed"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Way:
    """One way of serving: in the variant's own process where ``own`` is set, else by an engine."""

    engine: str
    mode: BatchingMode
    own: bool = False


def planned(config: RunConfig) -> tuple[str, ...]:
    """The stages in the order in which a display will be told of them."""
    asked = config.levers.batching
    return () if asked is None else (STAGE,) * len(asked.variants)


def measure_batching(work: Run) -> tuple[BatchingRun, ...]:
    """Every run of the lever, in the order of the config's variants; nothing without the section. Raises nothing of a variant's."""
    config = work.config.levers.batching
    if config is None:
        return ()
    found: list[BatchingRun] = []
    for name in config.variants:
        variant = next(one for one in work.config.variants if one.name == name)
        work.display.step(name, STAGE)
        found += _kept(work, variant, config)
        work.display.step_done(reused=False)
    return tuple(found)


def _kept(work: Run, variant: Variant, config: BatchingConfig) -> tuple[BatchingRun, ...]:
    """The variant's runs: those of this run folder where it is resumed, else made now."""
    one = work.evidence[variant.name]
    if one.artifact is None or one.loaded is None:
        return tuple(_none(work, variant, config, "not run: the variant was not loaded"))
    if one.artifact.simulated:
        return tuple(_none(work, variant, config, NO_FORWARD))
    name = f"levers/batching/{variant.name}"
    parts = {"artifact": one.artifact, "cache": variant.kv_cache, "batching": config, "device": work.config.device}
    key = key_of(work, run=work.info.run_id, **parts)
    kept = rundir.get(work.folder / f"{name}.json", kind="batching", key=key, record=tuple[BatchingRun, ...])
    if kept is not None:
        return kept
    made = _made(work, variant, one.artifact, config)
    work.shelf.keep(name, kind="batching", key=key, record=made, share=False)
    return made


def _made(work: Run, variant: Variant, artifact: Artifact, config: BatchingConfig) -> tuple[BatchingRun, ...]:
    with ExitStack() as stack:
        try:
            return _Serving(work, variant, artifact, config, stack).runs()
        except (MeasureError, UsageError) as error:
            _say(work, variant, str(error))
            return tuple(_none(work, variant, config, f"not run: {error}"))


def _none(work: Run, variant: Variant, config: BatchingConfig, why_not: str) -> Iterator[BatchingRun]:
    for arrivals in config.arrivals:
        for way in _ways(work.config.engine, config.engines):
            yield _no_run(variant, config, arrivals, way, why_not)


def _no_run(variant: Variant, config: BatchingConfig, arrivals: Arrivals, way: _Way, why_not: str) -> BatchingRun:
    return BatchingRun(
        variant=variant.name, engine=way.engine, mode=way.mode, arrivals=arrivals, rows=config.rows, why_not=" ".join(why_not.split())
    )


def _ways(own: str, engines: tuple[BatchingEngine, ...]) -> list[_Way]:
    """The run's own engine in static batches, which is the baseline; every other engine in static batches too; each continuously."""
    ways = [_Way(engine=own, mode="static", own=True)]
    for one in engines:
        if one.name != own:
            ways.append(_Way(engine=one.name, mode="static"))
        ways.append(_Way(engine=one.name, mode="continuous"))
    return ways


def _say(work: Run, variant: Variant, why_not: str) -> None:
    work.display.note(f"{variant.name}: batching did not run: {why_not}")


class _Serving:
    """One variant under the lever: its own process, one for each engine, and what kept an engine from running."""

    def __init__(self, work: Run, variant: Variant, artifact: Artifact, config: BatchingConfig, stack: ExitStack) -> None:
        self._work, self._variant, self._artifact, self._config, self._stack = work, variant, artifact, config, stack
        self._own = opened(work, variant, stack)
        self._prepared = self._own.ask("batching_prepare", PreparedBatching, config=config, device=work.config.device)
        self._engines: dict[str, Process] = {}
        self._lost: dict[str, str] = {}

    def runs(self) -> tuple[BatchingRun, ...]:
        """Alone first, then every way under every pattern of arrivals, as often as asked."""
        alone = self._serve(_Way(engine=self._work.config.engine, mode="alone", own=True), Arrivals(), 0)
        for engine in self._config.engines:
            self._open(engine)
        ways = _ways(self._work.config.engine, self._config.engines)
        found = [
            self._one(way, arrivals, repeat)
            for repeat in range(self._config.repeats)
            for arrivals in self._config.arrivals
            for way in (ways if repeat % 2 == 0 else reversed(ways))
        ]
        compare = {"requests": self._prepared.requests, "alone": alone}
        return (alone, *(self._own.ask("batching_compare", BatchingRun, run=one, **compare) for one in found))

    def _open(self, engine: BatchingEngine) -> None:
        """Start an engine's process and load the variant in it; what keeps it from that is noted."""
        variant = replace(self._variant, interpreter=engine.interpreter or self._variant.interpreter)
        if variant.interpreter is not None and not Path(variant.interpreter).is_file():
            return self._lose(engine.name, f"there is no interpreter {variant.interpreter}; install {engine.name} there, or name another")
        if variant.kv_cache is not None:
            return self._lose(engine.name, KEEPS_ITS_OWN_CACHE)
        device = self._work.config.device
        values = {"artifact": self._artifact, "engine": engine.name, "device": device, "settings": self._prepared.settings}
        try:
            process = Process(self._work, variant, self._stack, f"{variant.name}-{engine.name}")
            process.ask("batching_open", Serving, **values)
        except (MeasureError, UsageError) as error:
            return self._lose(engine.name, str(error))
        self._engines[engine.name] = process
        return None

    def _lose(self, engine: str, why: str) -> None:
        self._lost[engine] = f"not run: {why}"
        _say(self._work, self._variant, f"{engine}: {why}")

    def _one(self, way: _Way, arrivals: Arrivals, repeat: int) -> BatchingRun:
        """One run, or why there is none.

        An engine that failed is not asked again: its thread or its memory may be gone. Neither is one whose run was ended: what was left
        of it would run on beside the next.
        """
        why = None if way.own else self._lost.get(way.engine)
        if why is None:
            try:
                found = self._serve(way, arrivals, repeat)
                if found.why_not is not None and not way.own:
                    self._lost[way.engine] = LEFT_BEHIND
                return found
            except (MeasureError, UsageError) as error:
                why = f"not run to its end: {error}"
                if not way.own:
                    self._lost[way.engine] = why
                _say(self._work, self._variant, f"{way.engine}, {way.mode}: {error}")
        return replace(_no_run(self._variant, self._config, arrivals, way, why), repeat=repeat)

    def _serve(self, way: _Way, arrivals: Arrivals, repeat: int) -> BatchingRun:
        config = self._config
        job = Job(
            variant=self._variant.name,
            engine=way.engine,
            mode=way.mode,
            arrivals=arrivals,
            arrives_s=arrival_s(config, arrivals),
            requests=self._prepared.requests,
            rows=1 if way.mode == "alone" else config.rows,
            time_cap_s=config.time_cap_s,
            repeat=repeat,
        )
        if way.own:
            return self._own.ask("batching_static", BatchingRun, job=job)
        return self._engines[way.engine].ask("batching_serve", BatchingRun, job=job)
