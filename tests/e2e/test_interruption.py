"""Runs that are interrupted, killed, gone on with, or under way at the same time. With real processes."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from chain import CONTROL, REFERENCE, Chain, candidate, junit_is_green, report_of, reused_of, stages_of, verdicts_of

LONG_S = 60.0


@pytest.fixture
def processes(chain: Chain) -> Chain:
    """The chain with a process a variant."""
    chain.executor = "process"
    return chain


def until(holds: Callable[[], bool]) -> None:
    """Wait for something that must come."""
    end_s = time.monotonic() + LONG_S
    while not holds():
        assert time.monotonic() < end_s, "waited in vain"
        time.sleep(0.02)


def workers_of(pid: int) -> list[int]:
    """Processes that a process started and that run."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parts = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        if int(parts[1]) == pid and parts[0] != "Z":
            found.append(int(stat.parent.name))
    return found


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def hanging(chain: Chain) -> tuple[subprocess.Popen[str], list[int]]:
    """A run whose int8 does not answer while the file ``hang`` is there; the process and its worker."""
    (chain.root / "hang").touch()
    slow = candidate("int8", fault="hang", fault_while=str(chain.root / "hang"))
    chain.policy(require_controls=False)
    process = chain.start("run", chain.config(variants=[REFERENCE, slow]), "--ci")
    try:
        until(lambda: any(asked_int8(log.read_text(encoding="utf-8")) for log in chain.reports.glob("*/run.log")))
        until(lambda: bool(workers_of(process.pid)))
    except BaseException:
        process.kill()
        raise
    return process, workers_of(process.pid)


def asked_int8(log: str) -> bool:
    """The run waits for the first answer of int8."""
    return (
        "int8: load done" in log
        and log.splitlines()[-1].split(" ")[1] == "int8:"
        and " done " not in log.splitlines()[-1]
    )


def state_of(folder: Path) -> str:
    return str(json.loads((folder / "run.json").read_text(encoding="utf-8"))["state"])


@pytest.mark.parametrize("how", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_an_interrupted_run_can_be_gone_on_with(processes: Chain, how: signal.Signals) -> None:
    """Ctrl-C: exit 130, no worker left, the command to go on with; what was complete is not done again, and the run passes."""
    chain = processes
    process, workers = hanging(chain)
    process.send_signal(how)
    out, _ = process.communicate(timeout=LONG_S)
    assert process.returncode == 130
    assert f"go on with: quantgate run {chain.root / 'run.yaml'} --resume {chain.last}" in out
    assert "Traceback" not in out
    until(lambda: not any(map(runs, workers)))
    assert state_of(chain.last) == "interrupted"
    assert not (chain.last / "report.json").exists()
    complete = stages_of(chain.last)
    assert (complete["float32"][:2], complete["int8"]) == (["quantize", "load"], ["quantize", "load"])
    (chain.root / "hang").unlink()
    done = chain.cli("run", chain.root / "run.yaml", "--resume", chain.last.name)
    assert done.code == 0, done.err
    assert len(chain.runs) == 1
    assert state_of(chain.last) == "complete"
    assert junit_is_green(chain.last)
    assert reused_of(chain.last) == complete


def test_an_altered_result_is_measured_again_on_resume(processes: Chain) -> None:
    """Of the completed stages only those whose content has its digest are skipped."""
    chain = processes
    process, _ = hanging(chain)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=LONG_S)
    (chain.root / "hang").unlink()
    for path in [
        chain.last / "variants" / "float32" / "score" / "sums.json",
        *(chain.root / "cache" / "results" / "score").iterdir(),
    ]:
        path.write_text(path.read_text(encoding="utf-8").replace('"value": 1.0', '"value": 0.0', 1), encoding="utf-8")
    done = chain.cli("run", chain.root / "run.yaml", "--resume", chain.last.name)
    assert done.code == 0, done.err
    reused = reused_of(chain.last)["float32"]
    assert "score sums" not in reused
    assert {"quantize", "load", "capacity"} <= set(reused)


@pytest.mark.parametrize("what", ["config", "policy"])
def test_another_config_or_policy_does_not_go_on(chain: Chain, what: str) -> None:
    """A run is gone on with as it was asked for, or not at all: exit 2 and what changed."""
    assert chain.run().code == 0
    before = (chain.last / "report.json").read_bytes()
    if what == "policy":
        chain.policy(alpha=0.04)
    done = chain.run(
        "--resume",
        chain.last.name,
        **({"variants": [REFERENCE, candidate("int4"), CONTROL]} if what == "config" else {}),
    )
    assert (done.code, f"the {what} changed since run {chain.last.name} was started" in done.err) == (2, True)
    assert (chain.last / "report.json").read_bytes() == before


def test_a_run_that_is_not_there_is_not_gone_on_with(chain: Chain) -> None:
    """--resume with an unknown id is a mistake of the caller."""
    done = chain.run("--resume", "nothing")
    assert (done.code, "no run in" in done.err) == (2, True)


def test_a_killed_run_leaves_nothing_behind_and_can_be_gone_on_with(processes: Chain) -> None:
    """The run itself is killed outright: its worker ends too, the folder stays usable."""
    chain = processes
    process, workers = hanging(chain)
    process.kill()
    process.communicate(timeout=LONG_S)
    until(lambda: not any(map(runs, workers)))
    assert state_of(chain.last) == "running"
    (chain.root / "hang").unlink()
    assert chain.cli("run", chain.root / "run.yaml", "--resume", chain.last.name).code == 0


def test_a_run_folder_is_worked_in_by_one(processes: Chain) -> None:
    """Going on with a run that is under way is refused, and does it no harm."""
    chain = processes
    process, _ = hanging(chain)
    try:
        done = chain.cli("run", chain.root / "run.yaml", "--resume", chain.last.name)
        assert (done.code, "is in use by another run" in done.err) == (4, True)
        assert state_of(chain.last) == "running"
    finally:
        (chain.root / "hang").unlink()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=LONG_S)


@pytest.mark.parametrize(("require", "code"), [("any", 0), pytest.param("all", 4, marks=pytest.mark.slow)])
def test_a_worker_that_is_killed_is_one_variant_less(processes: Chain, require: str, code: int) -> None:
    """One variant's process is killed outright (what the kernel does without memory): reported as such, the others are measured."""
    chain = processes
    chain.policy(require=require)
    done = chain.run(variants=[REFERENCE, candidate("big", fault="kill"), candidate("int8", error_rate=0.203), CONTROL])
    assert done.code == code, done.err
    assert verdicts_of(chain.last) == {"float32": "pass", "big": "not_measured", "int8": "pass", "int2": "fail"}
    assert "was killed (signal 9), which is what the kernel does when memory runs out" in " ".join(
        report_of(chain.last)["sentences"]
    )
    assert junit_is_green(chain.last) == (code == 0)


def test_two_runs_at_once(processes: Chain) -> None:
    """Two runs into one cache and one out: both end with their verdict, no file is mixed, the alias is moved by compare-and-set."""
    chain = processes
    chain.policy(require_controls=False)
    config = chain.config(variants=[REFERENCE, candidate()])
    both = [chain.start("run", config, "--ci") for _ in range(2)]
    outputs = [one.communicate(timeout=LONG_S)[0] for one in both]
    assert [one.returncode for one in both] == [0, 0], outputs
    assert len(chain.runs) == 2
    for folder in chain.runs:
        assert report_of(folder)["outcome"] == "pass"
        assert chain.cli("show", folder).code == 0
        promotion = report_of(folder)["promotion"]
        assert promotion["promoted"] or "another promotion came first" in promotion["because"]
    assert any(report_of(folder)["promotion"]["promoted"] for folder in chain.runs)
    artifacts = chain.root / "cache" / "artifacts"
    assert len([one for one in artifacts.iterdir() if one.is_dir()]) == 2
    assert not list(artifacts.glob("*.tmp"))
    registry = json.loads((chain.reports / "registry.json").read_text(encoding="utf-8"))
    assert registry


def test_a_reader_that_goes_away_changes_no_verdict(processes: Chain) -> None:
    """``quantgate run ... | head -1`` ends with the verdict's code, without a traceback."""
    chain = processes
    chain.policy(require_controls=False)
    process = chain.start("run", chain.config(variants=[REFERENCE, candidate()]), "--ci")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=LONG_S) == 0
    assert report_of(chain.last)["outcome"] == "pass"
