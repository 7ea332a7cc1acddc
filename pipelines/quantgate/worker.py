"""``python -m quantgate.worker FD``: one variant's process. Reads a request a line, answers a line at a time on the pipe FD.

The request names an action and carries records as JSON. Adapters are loaded when first needed, so a worker holds only its variant's
libraries. Progress goes out between request and reply. The process ends with its input, or with the process that started it.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, BinaryIO, TextIO

import numpy as np

from quantgate import fitting, golden, plugins, provenance, rundir, texts
from quantgate.divergence import stored_row
from quantgate.errors import EngineError, NumericallyInvalid, QuantgateError
from quantgate.files import file_digest
from quantgate.kvcache import kv_bytes_per_row
from quantgate.ports import Device, QuantizePlan, Session, Stream
from quantgate.records import (
    Artifact,
    BatchingConfig,
    BatchingRun,
    BatchPlan,
    CanaryReading,
    Capacity,
    DeviceConfig,
    DeviceInfo,
    DeviceState,
    Distributions,
    DivergenceConfig,
    Drafter,
    EngineSettings,
    GoldenItem,
    GoldenSet,
    KLStatistics,
    KVCache,
    ModelSource,
    Opened,
    PreparedBatching,
    Request,
    Roofs,
    ScoreSheet,
    Serving,
    ServingSettings,
    SpeculationConfig,
    SpeculationRun,
    TextReading,
    Timed,
    Variant,
    Workload,
)
from quantgate.stages import answer, batching, capacity, diverge, draft, measure, quantize, read, roof, score, speculate

PROGRESS_EVERY_S = 0.2
PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


@dataclass(slots=True)
class Desk:
    """What a worker holds between requests."""

    out: TextIO
    stack: ExitStack = field(default_factory=ExitStack)
    device: Device | None = None
    session: Session | None = None
    stream: Stream | None = None
    base_bytes: int = 0
    last_progress_s: float = 0.0

    def progress(self, done: int, total: int, what: str) -> None:
        """Send progress, at most five times a second, and always the last one."""
        now_s = monotonic()
        if done >= total > 0 or now_s - self.last_progress_s >= PROGRESS_EVERY_S:
            self.last_progress_s = now_s
            self.send({"progress": [done, total, what]})

    def send(self, message: dict[str, Any]) -> None:
        self.out.write(json.dumps(message, allow_nan=False) + "\n")
        self.out.flush()

    def opened(self) -> tuple[Session, Device]:
        """The open session. Raises where the run asked out of order."""
        if self.session is None or self.device is None:
            raise QuantgateError("no variant is open in this worker")
        return self.session, self.device


def main() -> int:
    """Serve requests until the input ends."""
    _die_with_parent()
    desk = Desk(out=os.fdopen(int(sys.argv[1]), "w", encoding="utf-8"))
    with desk.stack:
        return _serve(desk, sys.stdin.buffer)


def _serve(desk: Desk, requests: BinaryIO) -> int:
    for line in requests:
        request = json.loads(line)
        try:
            reply = ACTIONS[request.pop("action")](desk, request)
        except Exception as error:
            traceback.print_exc()
            desk.send({"error": _describe(error)})
        else:
            desk.send({"reply": rundir.plain(reply)})
    return 0


def _describe(error: Exception) -> dict[str, Any]:
    return {
        "kind": type(error).__name__,
        "message": str(error) or type(error).__name__,
        "numerical": isinstance(error, NumericallyInvalid),
        "exit_code": error.exit_code if isinstance(error, QuantgateError) else 4,
    }


def _die_with_parent() -> None:
    """Ask Linux to end this process when its parent ends, however that happens. Elsewhere the end of input does it."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)


def _record(request: dict[str, Any], key: str, kind: type[Any]) -> Any:
    return rundir.decode(kind, json.dumps(request[key]))


# ---------------------------------------------------------------------------------------------- actions


def _quantize(desk: Desk, request: dict[str, Any]) -> Artifact:
    variant: Variant = _record(request, "variant", Variant)
    plan = QuantizePlan(
        model=_record(request, "model", ModelSource),
        variant=variant,
        base=None if request["base"] is None else _record(request, "base", Artifact),
        device=_record(request, "device", DeviceConfig),
    )
    device = plugins.load("device", plan.device.kind)(plan.device)  # one that is not there is told before anything is built
    if (reason := fitting.refusal(variant, plan.model, plan.device, device.info.total_bytes)) is not None:
        raise quantize.NotSupported(f"not run: {reason}")
    with rundir.artifact_slot(Path(request["cache"]), request["key"]) as slot:
        if not request["fresh"] and (stored := rundir.stored_artifact(slot)) is not None:
            return stored
        into, started_s = rundir.working_folder(slot), device.now_s()
        try:
            built = quantize.build(plugins.load("quantizer", variant.quantizer)(), plan, into, desk.progress)
            return rundir.settle(slot, into, replace(built, build_s=device.now_s() - started_s))
        finally:
            shutil.rmtree(into, ignore_errors=True)  # what a refused or failed build wrote; nothing is left of one that settled


def _open(desk: Desk, request: dict[str, Any]) -> Opened:
    config: DeviceConfig = _record(request, "device", DeviceConfig)
    engine = plugins.load("engine", request["engine"])()
    desk.device = plugins.load("device", config.kind)(config)
    desk.device.release()
    desk.base_bytes = desk.device.live_bytes()
    settings = _settings(request)
    desk.session = desk.stack.enter_context(engine.open(_record(request, "artifact", Artifact), settings, desk.device))
    return Opened(loaded=desk.session.loaded, device=desk.device.info)


def _settings(request: dict[str, Any]) -> EngineSettings:
    """How a session is opened, the same for the variant and for whatever is opened beside it."""
    asked: DeviceConfig = _record(request, "device", DeviceConfig)
    return EngineSettings(
        threads=asked.threads,
        dtype=asked.dtype,
        scoring_only=bool(request.get("scoring_only", False)),
        kv_cache=None if request.get("kv_cache") is None else _record(request, "kv_cache", KVCache),
        cached_scoring=bool(request.get("cached_scoring", False)),
    )


def _golden(request: dict[str, Any]) -> GoldenSet:
    path = Path(request["golden_set"])
    gathered = path.suffix == rundir.GATHERED
    items: GoldenSet = rundir.get_gathered(path) if gathered else golden.load(path, plugins.item_keys)
    if items.sha256 != request["golden_sha256"]:
        raise QuantgateError(f"golden set {items.label} changed while the run was going on; start the run again")
    return items


def _score(desk: Desk, request: dict[str, Any]) -> ScoreSheet:
    session, device = desk.opened()
    items, plan = _golden(request), _record(request, "plan", BatchPlan)
    if items.harness is not None:
        tasks = answer.Job(variant=request["variant"], golden=items, source=plugins.load("source", "lm_eval")(), plan=plan)
        return answer.score_tasks(session, device, tasks, desk.progress)
    metrics = {name: plugins.load("metric", name)() for name in {item.metric for item in items.items}}
    asked = items if "only" not in request else _only(items, frozenset(request["only"]))
    job = score.Job(variant=request["variant"], golden=asked, metrics=metrics, plan=plan)
    sheet = score.score(session, device, job, desk.progress)
    return replace(sheet, first_prompt=session.tokenizer.render(items.items[0]) if items.items else "")


def _only(items: GoldenSet, ids: frozenset[str]) -> GoldenSet:
    """A part of a golden set, with the digest of the whole."""
    return replace(items, items=tuple(item for item in items.items if item.item_id in ids))


def _comparison(desk: Desk, request: dict[str, Any]) -> tuple[Session, diverge.Job]:
    session, _ = desk.opened()
    return session, diverge.Job(golden=_golden(request), plan=_record(request, "plan", BatchPlan))


def _distributions(desk: Desk, request: dict[str, Any]) -> Distributions:
    """Write the reference's logits [positions, vocabulary] as one float32 file, whole or not at all."""
    session, job = _comparison(desk, request)
    path = Path(request["into"])
    shape = (diverge.positions(len(job.golden.items)), session.shape.vocabulary)
    with rundir.whole_file(path) as beside:
        stored: Any = np.lib.format.open_memmap(beside, mode="w+", dtype=np.float32, shape=shape)  # type: ignore[no-untyped-call]
        for places, rows in diverge.distributions(session, job, desk.progress):
            stored[places] = rows
        stored.flush()
    return Distributions(path=str(path), sha256=file_digest(path), positions=shape[0], vocabulary=shape[1])


def _divergence(desk: Desk, request: dict[str, Any]) -> KLStatistics:
    session, job = _comparison(desk, request)
    stored: Distributions = _record(request, "reference", Distributions)
    return diverge.divergence(session, job, np.load(stored.path, mmap_mode="r"), desk.progress)


def _canary_reference(desk: Desk, request: dict[str, Any]) -> Distributions:
    """Write the reference's logits after the canary's prompts as one float32 file, whole or not at all."""
    session, job = _comparison(desk, request)
    path = Path(request["into"])
    rows = diverge.canary_rows(session, job, request["prompts"], desk.progress)
    with rundir.whole_file(path) as beside, beside.open("wb") as file:
        np.save(file, rows)
    return Distributions(path=str(path), sha256=file_digest(path), positions=len(rows), vocabulary=session.shape.vocabulary)


def _canary(desk: Desk, request: dict[str, Any]) -> CanaryReading:
    session, job = _comparison(desk, request)
    stored: Distributions = _record(request, "reference", Distributions)
    return diverge.canary(session, job, np.load(stored.path, mmap_mode="r"), desk.progress)


def _texts(session: Session, request: dict[str, Any]) -> tuple[texts.Texts, DivergenceConfig, tuple[read.Passage, ...]]:
    config: DivergenceConfig = _record(request, "divergence", DivergenceConfig)
    found = texts.load(config)
    if found.sha256 != request["texts_sha256"]:
        raise QuantgateError(f"the texts {config.path} changed while the run was going on; start the run again")
    return found, config, read.passages(session, found, config)


def _read(desk: Desk, request: dict[str, Any]) -> Distributions:
    """The reference's own reading; its distributions go into a file, whole or not at all, unless they are to be recomputed."""
    session, _ = desk.opened()
    found, config, passages = _texts(session, request)
    positions, vocabulary = read.rows_needed(passages), session.shape.vocabulary
    path = Path(request["into"])
    row = stored_row(vocabulary)
    why_not = rundir.why_not_stored(path, positions * row.itemsize, config)
    if why_not:
        known = read.alone(session, passages, found, None, desk.progress)
        path_text, sha256 = "", ""
    else:
        # Written and not mapped: a full disk is then an error and no dead process.
        with rundir.whole_file(path) as beside, beside.open("wb") as file:
            form: Any = np.lib.format
            head = {"descr": form.dtype_to_descr(row), "fortran_order": False, "shape": (positions,)}
            form.write_array_header_2_0(file, head)
            known = read.alone(session, passages, found, file.write, desk.progress)
            file.flush()
            os.fsync(file.fileno())
        path_text, sha256 = str(path), file_digest(path)
    own = read.reading(passages, (found, config), known, None, "recomputed" if why_not else "stored")
    return Distributions(
        path=path_text, sha256=sha256, positions=positions, vocabulary=vocabulary, why_not_stored=why_not, reading=own
    )


@contextmanager
def _stored(path: Path) -> Iterator[read.Stored]:
    form: Any = np.lib.format
    with path.open("rb") as file:
        form.read_magic(file)
        (positions,), _, row = form.read_array_header_2_0(file)
        take = partial(np.fromfile, file, row)
        yield read.Stored(positions=positions, vocabulary=row["codes"].shape[0], take=take)


def _compare(desk: Desk, request: dict[str, Any]) -> TextReading:
    """A variant's reading beside the reference's: from its file, or by a second session in this process, closed afterwards."""
    session, device = desk.opened()
    found, config, passages = _texts(session, request)
    base: Distributions = _record(request, "reference", Distributions)
    if base.path:
        with _stored(Path(base.path)) as stored:
            compared = read.beside_stored(session, passages, found, stored, desk.progress)
    else:
        artifact: Artifact = _record(request, "reference_artifact", Artifact)
        with plugins.load("engine", request["engine"])().open(artifact, _settings(request), device) as reference:
            compared = read.beside(session, reference, passages, found, desk.progress)
    return read.reading(passages, (found, config), compared.variant.tolist(), compared, "stored" if base.path else "recomputed")


def _capacity(desk: Desk, request: dict[str, Any]) -> Capacity:
    session, device = desk.opened()
    job = capacity.Job(
        workload=_record(request, "workload", Workload),
        budget_bytes=request["budget_bytes"],
        base_bytes=desk.base_bytes,
        seed=request["seed"],
        scoring=request["scoring"],
    )
    return capacity.find(session, device, job, desk.progress)


def _time(desk: Desk, request: dict[str, Any]) -> Timed:
    session, device = desk.opened()
    job = measure.Job(
        workload=_record(request, "workload", Workload),
        batch_size=request["batch_size"],
        warmups=request["warmups"],
        seed=request["seed"],
        limit_s=request["limit_s"],
    )
    return measure.time_batch(session, device, job, desk.progress)


def _batching_prepare(desk: Desk, request: dict[str, Any]) -> PreparedBatching:
    session, _ = desk.opened()
    config: BatchingConfig = _record(request, "config", BatchingConfig)
    device: DeviceConfig = _record(request, "device", DeviceConfig)
    requests = batching.requests_of(session, config)
    return PreparedBatching(requests=requests, settings=batching.settings_of(session, requests, config.rows, device))


def _batching_static(desk: Desk, request: dict[str, Any]) -> BatchingRun:
    session, device = desk.opened()
    return batching.in_batches(session, device, _record(request, "job", batching.Job), desk.progress)


def _batching_compare(desk: Desk, request: dict[str, Any]) -> BatchingRun:
    session, _ = desk.opened()
    requests = _record(request, "requests", tuple[Request, ...])
    alone, run = (_record(request, name, BatchingRun) for name in ("alone", "run"))
    return batching.compared(session, requests, alone, run)


def _batching_open(desk: Desk, request: dict[str, Any]) -> Serving:
    config: DeviceConfig = _record(request, "device", DeviceConfig)
    batcher = plugins.load("batcher", request["engine"])()
    desk.device = plugins.load("device", config.kind)(config)
    settings: ServingSettings = _record(request, "settings", ServingSettings)
    desk.stream = desk.stack.enter_context(batcher.open(_record(request, "artifact", Artifact), settings, desk.device))
    return desk.stream.serving


def _batching_serve(desk: Desk, request: dict[str, Any]) -> BatchingRun:
    if desk.stream is None or desk.device is None:
        raise QuantgateError("nothing is served in this worker")
    return batching.served(desk.stream, desk.device, _record(request, "job", batching.Job), desk.progress)


def _speculate(desk: Desk, request: dict[str, Any]) -> SpeculationRun:
    """Speculative decoding of the open session with one drafter; a drafter that is a model is a second session, closed afterwards."""
    session, device = desk.opened()
    drafter: Drafter = _record(request, "drafter", Drafter)
    config: SpeculationConfig = _record(request, "config", SpeculationConfig)
    workload: Workload = _record(request, "workload", Workload)
    items = _record(request, "prompts", tuple[GoldenItem, ...])
    job = speculate.Job(
        prompts=speculate.prompts(session, items, config.output_tokens),
        draft_tokens=config.draft_tokens,
        batch_sizes=config.batch_sizes,
        output_tokens=config.output_tokens,
        repeats=config.repeats,
    )
    run = SpeculationRun(drafter=drafter.name, dtype=session.loaded.dtype, prompts=len(job.prompts))
    if drafter.kind == "prompt_lookup":
        passes = speculate.measure(session, device, job, draft.PromptLookup(), desk.progress)
        return replace(run, draft_weight_bytes=0, draft_kv_bytes_per_row=0, passes=passes)
    artifact: Artifact = _record(request, "draft", Artifact)
    with plugins.load("engine", request["engine"])().open(artifact, _settings(request), device) as second:
        if (why := draft.why_other_vocabulary(session.tokenizer, second.tokenizer)) is not None:
            raise EngineError(f"{drafter.name} has another vocabulary, and only the target's own tokens can be drafted: {why}")
        model = draft.DraftModel(second, vocabulary=session.shape.vocabulary, eos_ids=session.tokenizer.eos_ids)
        passes = speculate.measure(session, device, job, model, desk.progress)
        tokens = workload.prompt_tokens + workload.output_tokens
        row = kv_bytes_per_row(second.shape, tokens, second.loaded.kv_bytes_per_element)
        return replace(run, draft_weight_bytes=second.loaded.weight_bytes, draft_kv_bytes_per_row=row, passes=passes)


def _roof(desk: Desk, request: dict[str, Any]) -> Roofs:
    """What the device can do, before any model is in its memory."""
    return roof.measure(_device(request), _record(request, "job", roof.Job), desk.progress)


def _environment(desk: Desk, request: dict[str, Any]) -> dict[str, str]:
    return provenance.environment()


def _device_info(desk: Desk, request: dict[str, Any]) -> DeviceInfo:
    return _device(request).info


def _device_state(desk: Desk, request: dict[str, Any]) -> DeviceState:
    return _device(request).state()


def _device(request: dict[str, Any]) -> Device:
    config: DeviceConfig = _record(request, "device", DeviceConfig)
    device: Device = plugins.load("device", config.kind)(config)
    return device


ACTIONS: dict[str, Callable[[Desk, dict[str, Any]], Any]] = {
    "quantize": _quantize,
    "open": _open,
    "score": _score,
    "distributions": _distributions,
    "divergence": _divergence,
    "canary_reference": _canary_reference,
    "canary": _canary,
    "read": _read,
    "compare": _compare,
    "capacity": _capacity,
    "time": _time,
    "batching_prepare": _batching_prepare,
    "batching_static": _batching_static,
    "batching_compare": _batching_compare,
    "batching_open": _batching_open,
    "batching_serve": _batching_serve,
    "speculate": _speculate,
    "roof": _roof,
    "environment": _environment,
    "device_info": _device_info,
    "device_state": _device_state,
}


if __name__ == "__main__":
    sys.exit(main())
