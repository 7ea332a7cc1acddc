"""What the machine did during a run: processor, memory, disk, network, GPU, sampled into the run's folder and published with it.

MLflow's own monitors are asked, from a thread of the process that leads the run; the models work in processes of their own. A sample takes
about a millisecond and there is one every ten seconds, so a timed block is not disturbed. Each is one line of ``system.jsonl``: a run that
is killed keeps what was sampled, and one that is gone on with adds to it. A sample that cannot be taken is left out.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Any, Self

from mlflow.system_metrics.metrics.cpu_monitor import CPUMonitor
from mlflow.system_metrics.metrics.disk_monitor import DiskMonitor
from mlflow.system_metrics.metrics.gpu_monitor import GPUMonitor
from mlflow.system_metrics.metrics.network_monitor import NetworkMonitor

from quantgate.sinks.mlflow_figures import Figure

FILE = "system.jsonl"
INTERVAL_S = 10.0


class SystemWatch:
    """A block during which the machine is watched. One sample is taken at its beginning and one at its end, however short it is."""

    def __init__(self, folder: Path, *, interval_s: float = INTERVAL_S, clock: Callable[[], float] = time.time) -> None:
        self._file, self._interval_s, self._clock = folder / FILE, interval_s, clock
        self._ended = Event()
        self._monitors: list[Any] = [CPUMonitor(), DiskMonitor(), NetworkMonitor(), *_gpu()]
        self._thread = Thread(target=self._watch, name="system-metrics", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join(timeout=self._interval_s)

    def _watch(self) -> None:
        """Sample until the block ends; what cannot be sampled or written is no reason for a run to fail."""
        over = False
        while not over:
            with suppress(Exception):
                self._sample()
            over = self._ended.wait(self._interval_s)
        with suppress(Exception):
            self._sample()

    def _sample(self) -> None:
        found: dict[str, float] = {}
        for monitor in self._monitors:
            monitor.collect_metrics()
            found |= monitor.aggregate_metrics()
            monitor.clear_metrics()
        line = {"at_ms": int(self._clock() * 1000), "metrics": {name: value for name, value in found.items() if math.isfinite(value)}}
        with self._file.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")


def _gpu() -> list[Any]:
    """MLflow's monitor of NVIDIA's GPUs, where the library that asks them is installed and finds one."""
    try:
        return [GPUMonitor()]
    except Exception:  # without the library an ImportError, without a driver one of the library's own
        return []


def system_figures(folder: Path) -> Iterator[Figure]:
    """The samples of a run's folder as MLflow's UI expects them; a line that a crash cut off is no sample."""
    file = folder / FILE
    if not file.is_file():
        return
    for step, line in enumerate(file.read_text(encoding="utf-8").splitlines()):
        with suppress(ValueError, KeyError, TypeError):
            found = json.loads(line)
            for name, value in found["metrics"].items():
                yield Figure(name=f"system/{name}", value=float(value), step=step, at_ms=int(found["at_ms"]))
