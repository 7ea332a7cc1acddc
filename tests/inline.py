"""An executor without processes: the worker's own loop, served in this process. For tests of everything but processes."""

from __future__ import annotations

import io
import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from quantgate import plugins, worker
from quantgate.errors import WorkerFailed
from quantgate.ports import Progress
from quantgate.records import Variant


class InlineExecutor:
    """Opens workers in this process."""

    def open(self, variant: Variant, log: Path) -> InlineWorker:
        return InlineWorker()


class InlineWorker:
    """A desk of the worker, asked in the JSON lines that a process would be asked in."""

    def __init__(self) -> None:
        self._desk = worker.Desk(out=io.StringIO())

    def ask(self, request: dict[str, Any], progress: Progress) -> Any:
        answers = self._desk.out = io.StringIO()
        worker._serve(self._desk, io.BytesIO(json.dumps(request, allow_nan=False).encode() + b"\n"))
        for message in map(json.loads, answers.getvalue().splitlines()):
            match message:
                case {"progress": [done, total, what]}:
                    progress(done, total, what)
                case {"error": error}:
                    raise WorkerFailed(**error)
        return message["reply"]

    def close(self) -> None:
        self._desk.stack.close()

    def kill(self) -> None:
        """Nothing runs here that could be killed."""


@contextmanager
def inline_executor() -> Iterator[None]:
    """Make the executor without processes known as ``inline``, and forget it again."""
    plugins.BUILT_IN["executor"]["inline"] = "inline:InlineExecutor"
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        del plugins.BUILT_IN["executor"]["inline"]
