"""The cache of artifacts: listed, verified, pruned; what is in use or was not put there by quantgate stays."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

import pytest

from quantgate import caching, rundir
from quantgate.cli import main
from quantgate.records import Artifact

KEYS = tuple(letter * 64 for letter in "abcd")


def stored(cache: Path, key: str) -> Path:
    with rundir.artifact_slot(cache, key) as slot:
        into = rundir.working_folder(slot)
        (into / "weights").write_bytes(b"w" * 1000)
        made = Artifact(variant="v", path=str(into), format="test", stored_bytes=0, sha256="")
        return Path(rundir.settle(slot, into, made).path)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """One whole artifact, one altered, one without its record, and what a killed build leaves."""
    stored(tmp_path, KEYS[0])
    (stored(tmp_path, KEYS[1]) / "weights").write_bytes(b"x" * 1000)
    stored(tmp_path, KEYS[2])
    (tmp_path / "artifacts" / f"{KEYS[2]}.json").unlink()
    leftover = tmp_path / "artifacts" / f".{KEYS[3]}.abc.tmp"
    leftover.mkdir()
    (leftover / "half").write_bytes(b"h")
    (tmp_path / "artifacts" / "notes.txt").write_text("somebody's own")
    return tmp_path


def states(cache: Path, *, check: bool = True) -> dict[str, str]:
    return {one.key[0]: one.state for one in caching.entries(cache, check=check)}


def test_every_state_is_told(cache: Path) -> None:
    """Reading every byte tells the altered one apart; by record alone it looks whole."""
    assert states(cache) == {"a": "whole", "b": "altered", "c": "without record", "d": "leftover"}
    assert states(cache, check=False)["b"] == "whole"
    assert caching.entries(cache / "nothing-here", check=True) == ()


def test_prune_keeps_what_is_whole(cache: Path) -> None:
    """Pruning removes what no run would accept, and nothing else."""
    gone = caching.prune(cache, older_than_s=None, now_s=0.0)
    assert {one.key[0] for one in gone} == set("bcd")
    assert states(cache) == {"a": "whole"}
    assert (cache / "artifacts" / "notes.txt").exists()
    assert rundir.stored_artifact(cache / "artifacts" / KEYS[0]) is not None


def test_prune_by_age(cache: Path) -> None:
    """Whole artifacts go where they were built longer ago than asked."""
    record = cache / "artifacts" / f"{KEYS[0]}.json"
    os.utime(record, (1000.0, 1000.0))
    assert not [one for one in caching.prune(cache, older_than_s=500.0, now_s=1400.0) if one.state == "whole"]
    assert [one.key[0] for one in caching.prune(cache, older_than_s=300.0, now_s=1400.0)] == ["a"]
    assert states(cache) == {}


def test_what_is_in_use_stays(cache: Path) -> None:
    """An artifact whose lock another process holds is neither judged nor removed."""
    with (cache / "artifacts" / f".{KEYS[1]}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert states(cache)["b"] == "in use"
        caching.prune(cache, older_than_s=0.0, now_s=1e12)
        assert (cache / "artifacts" / KEYS[1]).is_dir()


def test_a_folder_used_where_it_lies_is_never_removed(tmp_path: Path) -> None:
    """Pruning forgets a checkpoint outside the cache and leaves its files."""
    outside = tmp_path / "mine"
    outside.mkdir()
    (outside / "weights").write_bytes(b"w")
    with rundir.artifact_slot(tmp_path, KEYS[0]) as slot:
        into = rundir.working_folder(slot)
        rundir.settle(slot, into, Artifact(variant="v", path=str(outside), format="test", stored_bytes=0, sha256=""))
    caching.prune(tmp_path, older_than_s=0.0, now_s=1e12)
    assert (outside / "weights").exists()
    assert states(tmp_path) == {}


def test_commands(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Verifying ends with 4 while something is not whole; after prune it ends with 0; only prune takes an age."""
    assert main(["cache", "list", "--cache", str(cache)]) == 0
    assert "4 entries" in capsys.readouterr().out
    assert main(["cache", "verify", "--cache", str(cache), "--json"]) == 4
    assert {row["state"] for row in json.loads(capsys.readouterr().out)} == {"whole", "altered", "without record", "leftover"}
    assert main(["cache", "prune", "--cache", str(cache)]) == 0
    assert main(["cache", "verify", "--cache", str(cache)]) == 0
    assert main(["cache", "list", "--older-than-days", "3", "--cache", str(cache)]) == 2
