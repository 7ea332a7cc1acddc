"""``python -m quantgate.worker FD``: one variant's process. Reads a request a line, answers a line at a time on the pipe FD.

The request names an action and carries records as JSON. Adapters are loaded when first needed, so a worker holds only its variant's
libraries. Progress goes out between request and reply. The process ends with its input, or with the process that started it.
"""

from __future__ import annotations

import ctypes
import json
import os
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

from quantgate import golden, plugins, rundir, texts
from quantgate.divergence import stored_row
from quantgate.errors import NumericallyInvalid, QuantgateError
from quantgate.files import file_digest
from quantgate.ports import Device, QuantizePlan, Session
from quantgate.records import (
    Artifact,
    BatchPlan,
    CanaryReading,
    Capacity,
    DeviceConfig,
    DeviceState,
    Distributions,
    DivergenceConfig,
    EngineSettings,
    Generation,
    GoldenSet,
    KLStatistics,
    ModelSource,
    Opened,
    Roofs,
    ScoreSheet,
    TextReading,
    Variant,
    Workload,
)
from quantgate.stages import answer, capacity, diverge, measure, quantize, read, roof, score

PROGRESS_EVERY_S = 0.2
PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


@dataclass(slots=True)
class Desk:
    """What a worker holds between requests."""

    out: TextIO
    stack: ExitStack = field(default_factory=ExitStack)
    device: Device | None = None
    session: Session | None = None
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
    plugins.load("device", plan.device.kind)(plan.device)  # a device that is not there is told before anything is built
    with rundir.artifact_slot(Path(request["cache"]), request["key"]) as slot:
        if not request["fresh"] and (stored := rundir.stored_artifact(slot)) is not None:
            return stored
        into = rundir.working_folder(slot)
        built = quantize.build(plugins.load("quantizer", variant.quantizer)(), plan, into, desk.progress)
        return rundir.settle(slot, into, built)


def _open(desk: Desk, request: dict[str, Any]) -> Opened:
    config: DeviceConfig = _record(request, "device", DeviceConfig)
    engine = plugins.load("engine", request["engine"])()
    desk.device = plugins.load("device", config.kind)(config)
    desk.device.release()
    desk.base_bytes = desk.device.live_bytes()
    settings = EngineSettings(threads=config.threads, scoring_only=bool(request.get("scoring_only", False)))
    desk.session = desk.stack.enter_context(engine.open(_record(request, "artifact", Artifact), settings, desk.device))
    return Opened(loaded=desk.session.loaded, device=desk.device.info)


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
        settings = EngineSettings(threads=_record(request, "device", DeviceConfig).threads)
        with plugins.load("engine", request["engine"])().open(artifact, settings, device) as reference:
            compared = read.beside(session, reference, passages, found, desk.progress)
    return read.reading(passages, (found, config), compared.variant.tolist(), compared, "stored" if base.path else "recomputed")


def _capacity(desk: Desk, request: dict[str, Any]) -> Capacity:
    session, device = desk.opened()
    job = capacity.Job(
        workload=_record(request, "workload", Workload),
        budget_bytes=request["budget_bytes"],
        base_bytes=desk.base_bytes,
        seed=request["seed"],
        scoring=True,
    )
    return capacity.find(session, device, job, desk.progress)


def _time(desk: Desk, request: dict[str, Any]) -> tuple[Generation, ...]:
    session, device = desk.opened()
    job = measure.Job(
        workload=_record(request, "workload", Workload),
        batch_sizes=tuple(request["batch_sizes"]),
        warmups=request["warmups"],
        seed=request["seed"],
    )
    return measure.block(session, device, job, desk.progress)


def _roof(desk: Desk, request: dict[str, Any]) -> Roofs:
    """What the device can do, before any model is in its memory."""
    return roof.measure(_device(request), _record(request, "job", roof.Job), desk.progress)


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
    "roof": _roof,
    "device_state": _device_state,
}


if __name__ == "__main__":
    sys.exit(main())
