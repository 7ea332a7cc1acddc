"""The registry in a file: what it keeps, how it fails, and who may be registered."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from publishing import RUN_ID, in_processes, report
from quantgate.errors import RegistryError
from quantgate.registries.local import LocalRegistry, candidate_of, locked

MOVE = """
import sys
from pathlib import Path
from quantgate.errors import RegistryError
from quantgate.registries.local import LocalRegistry
try:
    LocalRegistry(Path(sys.argv[1])).move("m", "champion", to=str(int(sys.argv[2]) + 1), expecting=None)
except RegistryError as error:
    sys.exit(f"lost: {error}")
"""


def test_moves_are_kept_with_their_time(tmp_path: Path) -> None:
    """Every move stands in the history: when by the injected clock, what, from where, to where."""
    registry = LocalRegistry(tmp_path / "registry.json", clock=lambda: 0.0)
    registry.register("m", report(), "int8")
    registry.register("m", report(), "nf4")
    registry.move("m", "champion", to="1", expecting=None)
    registry.move("m", "champion", to="2", expecting="1")
    at = "1970-01-01T00:00:00+00:00"
    assert registry.history("m") == (
        {"at": at, "alias": "champion", "from": None, "to": "1"},
        {"at": at, "alias": "champion", "from": "1", "to": "2"},
    )


def test_a_refused_move_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    """A refusal writes nothing, not even a model that was only asked for."""
    path = tmp_path / "registry.json"
    registry = LocalRegistry(path)
    registry.register("m", report(outcome="fail"), "int8")
    before = path.read_bytes()
    for model in ("m", "unknown"):
        with pytest.raises(RegistryError):
            registry.move(model, "champion", to="1", expecting=None)
    assert path.read_bytes() == before


def test_two_processes_cannot_both_move(tmp_path: Path) -> None:
    """Of two promotions that start from the same state one wins and the other is told."""
    path = tmp_path / "registry.json"
    registry = LocalRegistry(path)
    registry.register("m", report(), "int8")
    registry.register("m", report(), "nf4")
    finished = in_processes(MOVE, str(path))
    assert sorted(process.returncode for process in finished) == [0, 1]
    assert "another promotion came first" in "".join(process.stderr for process in finished)
    assert len(registry.history("m")) == 1


@pytest.mark.parametrize("content", ["", "{", "[]", '{"schema_version": 2, "models": {}}', "\x00"])
def test_a_damaged_file_is_refused_and_kept(tmp_path: Path, content: str) -> None:
    """A file that is no registry of this schema is an error and never overwritten by an empty one."""
    path = tmp_path / "registry.json"
    path.write_text(content)
    registry = LocalRegistry(path)
    for use in (lambda: registry.alias("m", "champion"), lambda: registry.register("m", report(), "int8")):
        with pytest.raises(RegistryError, match="registry"):
            use()
    assert path.read_text() == content


def test_an_unwritable_place_is_a_registry_error(tmp_path: Path) -> None:
    """A path below a file cannot be written, and the registry says so in its own error."""
    (tmp_path / "file").touch()
    with pytest.raises(RegistryError):
        LocalRegistry(tmp_path / "file" / "registry.json").register("m", report(), "int8")


def test_a_held_lock_is_waited_for_and_then_reported(tmp_path: Path) -> None:
    """A lock that another holder keeps ends in an error that names the file."""
    with (
        locked(tmp_path / "x.lock"),
        pytest.raises(RegistryError, match=r"x\.lock"),
        locked(tmp_path / "x.lock", wait_s=0.05),
    ):
        pass


def test_no_temporary_file_stays(tmp_path: Path) -> None:
    """After a change the folder holds the registry and its lock."""
    LocalRegistry(tmp_path / "registry.json").register("m", report(), "int8")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["registry.json", "registry.json.lock"]
    assert json.loads((tmp_path / "registry.json").read_text())["schema_version"] == 1


def test_the_reference_is_no_candidate() -> None:
    """Only a judged candidate can be registered."""
    for variant in ("float32", "unknown"):
        with pytest.raises(RegistryError, match=variant):
            candidate_of(report(), variant)


def test_a_candidate_without_an_artifact_is_refused() -> None:
    """A version must point at something."""
    found = report()
    rows = tuple(replace(row, artifact_sha256=None) for row in found.measurements)
    with pytest.raises(RegistryError, match="artifact"):
        candidate_of(replace(found, measurements=rows), "int8")


@pytest.mark.parametrize(
    ("run", "exit_code", "recorded"),
    [("pass", 0, "pass"), ("pass", 4, "not_measured"), ("not_measured", 4, "not_measured"), ("fail", 1, "fail")],
)
def test_a_pass_in_a_run_that_did_not_pass_is_no_pass(run: str, exit_code: int, recorded: str) -> None:
    """A candidate's own pass counts only where the run as a whole passed with exit code 0."""
    found = replace(report(), outcome=run, exit_code=exit_code)  # type: ignore[arg-type]
    tags = candidate_of(found, "int8").tags
    assert (tags["outcome"], tags["verdict"]) == (recorded, "pass")


def test_the_report_is_found_beside_the_artifact() -> None:
    """An artifact in the run's folder leads to the run's page; any other names the run."""
    found = report()
    inside = tuple(replace(row, artifact_path=f"/r/{RUN_ID}/variants/v/model") for row in found.measurements)
    assert candidate_of(replace(found, measurements=inside), "int8").tags["report"] == f"file:///r/{RUN_ID}/report.html"
    assert candidate_of(found, "int8").tags["report"] == f"run {RUN_ID}"


def test_a_waived_check_is_told_of_in_the_version() -> None:
    """Whoever looks at a version sees by which waiver it passed; one without waivers says so."""
    plain = report()
    verdict = plain.verdicts[0]
    because = "ana: known and accepted, until 2026-12-31"
    waived = replace(verdict.checks[0], outcome="fail", waived_by=because)
    lenient = replace(plain, verdicts=(replace(verdict, checks=(waived,)), *plain.verdicts[1:]))
    assert candidate_of(plain, verdict.variant).tags["waivers"] == "none"
    assert candidate_of(lenient, verdict.variant).tags["waivers"] == f"{waived.name}: fail, {because}"
