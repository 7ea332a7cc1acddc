"""A worker of its own for each question, as a run has one for each variant: what a library changes in one process is not in the next."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import tiny
from quantgate import rundir
from quantgate.executors.process import ProcessExecutor
from quantgate.records import Artifact, DeviceConfig, ModelSource, Opened, Variant

T = TypeVar("T")
CPU = DeviceConfig(threads=1)


def built(variant: Variant, base: Path, folder: Path) -> Artifact:
    """The variant, quantized in a process of its own; cache and log in ``folder``."""
    cache = folder / "cache"
    cache.mkdir(exist_ok=True)
    values = {"model": ModelSource(name="tiny", path=str(base)), "base": tiny.artifact(base), "device": CPU, "key": "a" * 64}
    return _ask(variant, folder, Artifact, {"action": "quantize", "variant": variant, "cache": str(cache), "fresh": False, **values})


def opened(variant: Variant, artifact: Artifact, folder: Path) -> Opened:
    """The artifact, loaded for scoring in a process of its own."""
    values = {"artifact": artifact, "engine": "transformers", "device": CPU, "scoring_only": True}
    return _ask(variant, folder, Opened, {"action": "open", **values})


def _ask(variant: Variant, folder: Path, kind: type[T], request: dict[str, Any]) -> T:
    worker = ProcessExecutor().open(variant, folder / f"{request['action']}.log")
    try:
        reply = worker.ask(rundir.plain(request), lambda *_: None)
    finally:
        worker.close()
    return rundir.decode(kind, rundir.encode(reply))
