"""Workers: started, asked, and ended, however they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from quantgate import rundir
from quantgate.errors import WorkerDied, WorkerFailed
from quantgate.executors.process import ProcessExecutor, ProcessWorker
from quantgate.records import Artifact, DeviceConfig, Variant


def silent(done: int, total: int, what: str) -> None:
    """Progress that nobody looks at."""


@contextmanager
def worker(folder: Path, interpreter: Path | None = None) -> Iterator[ProcessWorker]:
    """A worker of variant int8, ended in any case."""
    variant = Variant(name="int8", quantizer="fake", interpreter=None if interpreter is None else str(interpreter))
    opened = ProcessExecutor().open(variant, folder / "int8.log")
    try:
        yield opened
    finally:
        opened.close()


def script(folder: Path, body: str) -> Path:
    """Another interpreter: it is called as ``-m quantgate.worker FD`` and does what the body says."""
    path = folder / "interpreter"
    head = f"#!{sys.executable}\nimport os, sys, time\nsys.stdin.readline()\nout = os.fdopen(int(sys.argv[3]), 'w')\n"
    path.write_text(head + body, encoding="utf-8")
    path.chmod(0o755)
    return path


def open_request(folder: Path, fault: str = "none") -> dict[str, Any]:
    """Opens a fake variant."""
    text = f'{{"weight_bytes": 10, "error_rate": 0.2, "step_s": 0.01, "seed": 0, "fault": "{fault}", "fault_while": null, "bits": 8}}'
    (folder / "fake-model.json").write_text(text, encoding="utf-8")
    artifact = Artifact(variant="int8", path=str(folder), format="fake", stored_bytes=0, sha256="")
    return {
        "action": "open",
        "engine": "fake",
        **rundir.plain({"artifact": artifact, "device": DeviceConfig(kind="fake")}),
    }


def alive(pid: int) -> bool:
    """The process runs: neither gone nor waiting to be collected."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pid: int) -> bool:
    """The process ends within ten seconds."""
    until_s = time.monotonic() + 10
    while alive(pid) and time.monotonic() < until_s:
        time.sleep(0.02)
    return not alive(pid)


def test_a_worker_answers(tmp_path: Path) -> None:
    """A request gets its reply; what is printed goes to the log; after close the process is gone."""
    with worker(tmp_path) as opened:
        reply = opened.ask(open_request(tmp_path), silent)
        assert reply["loaded"]["weight_bytes"] == 10
        pid = opened._process.pid
        assert alive(pid)
    assert gone(pid)
    opened.close()


def test_an_error_in_the_worker_comes_back(tmp_path: Path) -> None:
    """The class name, the sentence and the exit code of an error arrive, its traceback stands in the log, and the worker goes on."""
    with worker(tmp_path) as opened:
        with pytest.raises(WorkerFailed, match="no variant is open in this worker") as caught:
            opened.ask({"action": "score"}, silent)
        assert (caught.value.kind, caught.value.exit_code, caught.value.numerical) == ("QuantgateError", 4, False)
        with pytest.raises(WorkerFailed, match="unknown engine 'fke': did you mean fake") as caught:
            opened.ask({**open_request(tmp_path), "engine": "fke"}, silent)
        assert (caught.value.kind, caught.value.exit_code) == ("UnknownPlugin", 2)
        assert opened.ask(open_request(tmp_path), silent)["loaded"]["weight_bytes"] == 10
    assert "Traceback" in (tmp_path / "int8.log").read_text(encoding="utf-8")


def test_progress_comes_before_the_reply(tmp_path: Path) -> None:
    """Progress lines are handed on in order, and library output between them disturbs nothing."""
    body = (
        "print('a library speaks', flush=True)\n"
        'out.write(\'{"progress": [1, 2, "x"]}\\n{"progress": [2, 2, "y"]}\\n{"reply": [7]}\\n\'); out.flush(); sys.stdin.read()\n'
    )
    seen: list[tuple[int, int, str]] = []
    with worker(tmp_path, script(tmp_path, body)) as opened:
        assert opened.ask({"action": "x"}, lambda *parts: seen.append(parts)) == [7]
    assert seen == [(1, 2, "x"), (2, 2, "y")]
    assert (tmp_path / "int8.log").read_text(encoding="utf-8") == "a library speaks\n"


DEATHS = {
    "os.kill(os.getpid(), 9)": "was killed (signal 9), which is what the kernel does when memory runs out",
    "os.kill(os.getpid(), 11)": "was ended by SIGSEGV",
    "print('no CUDA', file=sys.stderr); sys.exit(3)": "ended with exit code 3 without an answer; its last words are in {log}: no CUDA",
    "sys.exit(0)": "ended with exit code 0 without an answer",
    "out.write('{\"reply\": 1'); out.flush(); os._exit(1)": "ended with exit code 1 without an answer",
}


@pytest.mark.parametrize("body", DEATHS)
def test_a_worker_that_dies_is_a_failure_of_its_variant(tmp_path: Path, body: str) -> None:
    """However a process ends, with half an answer too, it is said how and where to look, and nothing hangs."""
    with worker(tmp_path, script(tmp_path, body)) as opened, pytest.raises(WorkerDied) as caught:
        opened.ask({"action": "x"}, silent)
    assert f"the process of 'int8' {DEATHS[body].format(log=tmp_path / 'int8.log')}" in str(caught.value)
    assert caught.value.exit_code == 4


def test_a_worker_that_died_between_requests(tmp_path: Path) -> None:
    """A request to a process that is gone is answered with how it ended."""
    with worker(tmp_path) as opened:
        opened.ask(open_request(tmp_path), silent)
        os.kill(opened._process.pid, signal.SIGKILL)
        opened._process.wait()
        with pytest.raises(WorkerDied, match="was killed"):
            opened.ask(open_request(tmp_path), silent)


def test_an_interpreter_that_is_not_there(tmp_path: Path) -> None:
    """A wrong ``python:`` of a variant is named."""
    with (
        pytest.raises(WorkerDied, match=r"int8: the interpreter .*/nothing could not be started: No such file"),
        worker(tmp_path, tmp_path / "nothing"),
    ):
        pass


def test_kill_ends_what_the_worker_started(tmp_path: Path) -> None:
    """A worker's own processes end with it."""
    body = (
        "import subprocess\nchild = subprocess.Popen(['sleep', '60'])\n"
        "out.write('{\"reply\": %d}\\n' % child.pid); out.flush(); time.sleep(60)\n"
    )
    with worker(tmp_path, script(tmp_path, body)) as opened:
        child = opened.ask({"action": "x"}, silent)
        assert alive(child)
        opened.kill()
        assert gone(child)
        assert gone(opened._process.pid)


def test_a_worker_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    """A run that is killed outright leaves no worker behind."""
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom quantgate.executors.process import ProcessWorker\n"
        f"worker = ProcessWorker('int8', sys.executable, Path({str(tmp_path / 'log')!r}))\n"
        "print(worker._process.pid, flush=True)\ntime.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        time.sleep(0.1)
        parent.kill()
    assert gone(pid)
