"""One process a variant: started here, asked over JSON lines, ended here.

The worker reads requests from its standard input and answers on a pipe of its own, so that whatever a library prints goes to the
variant's log and never between the answers. It leads a process group of its own: Ctrl-C reaches only the run, which then ends its workers.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from quantgate.errors import WorkerDied, WorkerFailed
from quantgate.ports import Progress
from quantgate.records import Variant

QUIET = {"TOKENIZERS_PARALLELISM": "false", "TRANSFORMERS_VERBOSITY": "error", "PYTHONUNBUFFERED": "1"}
END_GRACE_S = 5.0


class ProcessExecutor:
    """Starts workers with this interpreter, or with the one the variant names."""

    def open(self, variant: Variant, log: Path) -> ProcessWorker:
        return ProcessWorker(variant.name, variant.interpreter or sys.executable, log)


class ProcessWorker:
    """A running worker. Not safe for two threads."""

    def __init__(self, name: str, interpreter: str, log: Path) -> None:
        self._name, self._log_path = name, log
        reading, writing = os.pipe()
        self._log: TextIO = log.open("a", encoding="utf-8")
        try:
            self._process = subprocess.Popen(
                [interpreter, "-m", "quantgate.worker", str(writing)],
                stdin=subprocess.PIPE,
                stdout=self._log,
                stderr=self._log,
                pass_fds=(writing,),
                env=_environment(),
                start_new_session=True,
            )
        except OSError as error:
            os.close(reading)
            self._log.close()
            raise WorkerDied(f"{name}: the interpreter {interpreter} could not be started: {error.strerror or error}") from error
        finally:
            os.close(writing)
        self._answers = os.fdopen(reading, "rb")

    def ask(self, request: dict[str, Any], progress: Progress) -> Any:
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(request, allow_nan=False).encode() + b"\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError) as error:
            raise self._death() from error
        for line in self._answers:
            if not line.endswith(b"\n"):
                break  # it died while it was writing
            message: Mapping[str, Any] = json.loads(line)
            match message:
                case {"progress": [done, total, what]}:
                    progress(done, total, what)
                case {"reply": reply}:
                    return reply
                case {"error": {"kind": kind, "message": text, "numerical": numerical, "exit_code": exit_code}}:
                    raise WorkerFailed(kind=kind, message=text, numerical=numerical, exit_code=exit_code)
        raise self._death()

    def close(self) -> None:
        """End the worker: first by closing its input, then by signal. Safe to call twice."""
        with suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        try:
            self._process.wait(timeout=END_GRACE_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._answers.close()
        self._log.close()

    def kill(self) -> None:
        """End the worker and what it started, now."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _death(self) -> WorkerDied:
        code = self._process.wait()
        if code == -signal.SIGKILL:
            how = "was killed (signal 9), which is what the kernel does when memory runs out"
        elif code < 0:
            how = f"was ended by {signal.Signals(-code).name}"
        else:
            how = f"ended with exit code {code} without an answer"
        return WorkerDied(f"the process of '{self._name}' {how}; its last words are in {self._log_path}{_last_line(self._log_path)}")


def _environment() -> dict[str, str]:
    """The caller's environment, quiet libraries, and this package importable from where it lies."""
    root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(part for part in (root, os.environ.get("PYTHONPATH", "")) if part)
    return {**os.environ, **{key: os.environ.get(key, value) for key, value in QUIET.items()}, "PYTHONPATH": path}


def _last_line(log: Path) -> str:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        return ""
    return f": {lines[-1][:300]}" if lines else ""
