"""The cache of artifacts: listed, verified, pruned; what is in use or was not put there by quantgate stays."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
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
    """One whole artifact, one altered, one without its record, what a killed build leaves, and a file of somebody else's."""
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
    return {one.key[:1] or one.path.name: one.state for one in caching.entries(cache, check=check)}


def test_every_state_is_told(cache: Path) -> None:
    """Reading every byte tells the altered one apart; by record alone it looks whole."""
    assert states(cache) == {"a": "whole", "b": "altered", "c": "without record", "d": "leftover", "notes.txt": "unknown"}
    assert states(cache, check=False)["b"] == "whole"
    assert caching.entries(cache / "nothing-here", check=True) == ()


def test_prune_keeps_what_is_whole(cache: Path) -> None:
    """Pruning removes what no run would accept, and nothing else."""
    gone = caching.prune(cache, older_than_s=None, now_s=0.0)
    assert {one.key[0] for one in gone} == set("bcd")
    assert states(cache) == {"a": "whole", "notes.txt": "unknown"}
    assert (cache / "artifacts" / "notes.txt").exists()
    assert rundir.stored_artifact(cache / "artifacts" / KEYS[0]) is not None


def test_prune_by_age(cache: Path) -> None:
    """Whole artifacts go where they were built longer ago than asked."""
    record = cache / "artifacts" / f"{KEYS[0]}.json"
    os.utime(record, (1000.0, 1000.0))
    assert not [one for one in caching.prune(cache, older_than_s=500.0, now_s=1400.0) if one.state == "whole"]
    assert [one.key[0] for one in caching.prune(cache, older_than_s=300.0, now_s=1400.0)] == ["a"]
    assert states(cache) == {"notes.txt": "unknown"}


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


# ---------------------------------------------------------------------------------------------- a cache that was copied


def damage(weights: Path, how: str) -> None:
    match how:
        case "appended":
            weights.write_bytes(weights.read_bytes() + b"w")
        case "emptied":
            weights.write_bytes(b"")
        case "removed":
            weights.unlink()
        case "folder gone":
            shutil.rmtree(weights.parent)


@pytest.mark.parametrize("how", ["appended", "emptied", "removed", "folder gone"])
def test_a_damaged_copy_is_not_whole(tmp_path: Path, how: str) -> None:
    """A copy is checked where it lies: damage there is found, the undamaged original does not speak for it, and prune removes it."""
    stored(tmp_path / "original", KEYS[0])
    shutil.copytree(tmp_path / "original", tmp_path / "copy")
    (before,) = caching.entries(tmp_path / "copy", check=True)
    assert (before.state, before.bytes, before.path) == ("whole", 1000, tmp_path / "copy" / "artifacts" / KEYS[0])
    damage(tmp_path / "copy" / "artifacts" / KEYS[0] / "weights", how)
    assert states(tmp_path / "copy") == {"a": "altered"}
    assert main(["cache", "verify", "--cache", str(tmp_path / "copy")]) == 4
    assert [one.state for one in caching.prune(tmp_path / "copy", older_than_s=None, now_s=0.0)] == ["altered"]
    assert states(tmp_path / "copy") == {}
    assert states(tmp_path / "original") == {"a": "whole"}


def test_a_moved_cache_is_whole(tmp_path: Path) -> None:
    """A cache that was moved away from where it was built is as good as before, by record and by every byte, and is pruned there."""
    stored(tmp_path / "here", KEYS[0])
    (tmp_path / "here").rename(tmp_path / "there")
    assert states(tmp_path / "there") == states(tmp_path / "there", check=False) == {"a": "whole"}
    caching.prune(tmp_path / "there", older_than_s=0.0, now_s=1e12)
    assert not (tmp_path / "there" / "artifacts" / KEYS[0]).exists()


# ---------------------------------------------------------------------------------------------- what else lies there


def test_what_is_not_known_is_named_and_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Folders, files and links of others are named as what they are, are not whole, and survive prune, which says so."""
    stored(tmp_path, KEYS[0])
    root = tmp_path / "artifacts"
    (root / "mine").mkdir()
    (root / "mine" / "w").write_bytes(b"12")
    (root / "notes.txt").write_text("n")
    (root / "gone").symlink_to(tmp_path / "nowhere")
    assert main(["cache", "verify", "--cache", str(tmp_path)]) == 4
    said = capsys.readouterr().out
    assert all(words in said for words in ("mine: a folder", "notes.txt: a file", "gone: a broken link", "4 entries")), said
    assert main(["cache", "prune", "--cache", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "0 entries, 0.0 MB removed" in said
    assert f"left alone: {root / 'gone'}, a broken link that quantgate did not put there" in said
    assert {"mine", "notes.txt", "gone"} <= {one.name for one in root.iterdir()}
    assert main(["cache", "prune", "--cache", str(tmp_path), "--json"]) == 0
    assert [row["removed"] for row in json.loads(capsys.readouterr().out)] == [False] * 3


def test_leftovers_of_every_kind_go(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Folders half built, records half written, and links or files in the place of an artifact go; links are not followed."""
    aside = tmp_path / "aside"
    aside.mkdir()
    root = tmp_path / "cache" / "artifacts"
    root.mkdir(parents=True)
    (root / f".{KEYS[0]}.abc.tmp").mkdir()
    (root / f".{KEYS[1]}.json.x1y2").write_text("{")
    (root / KEYS[2]).symlink_to(aside)
    (root / KEYS[3]).write_text("a file")
    assert main(["cache", "prune", "--cache", str(tmp_path / "cache")]) == 0
    said = capsys.readouterr().out
    assert "4 entries, 0.0 MB removed" in said and said.count("of an interrupted build") == 2
    assert aside.is_dir()
    assert all(one.name.endswith(".lock") for one in root.iterdir())


def test_what_cannot_be_removed_is_said(cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder that the system does not let go of is one line and exit 4, and not counted as removed."""

    def refuse(path: Path, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(shutil, "rmtree", refuse)
    assert main(["cache", "prune", "--cache", str(cache)]) == 4
    assert "Permission denied; remove it by hand" in capsys.readouterr().err


# ---------------------------------------------------------------------------------------------- which cache


def test_a_cache_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A named cache that is missing, empty as a name, a file, or another folder is one line and exit 2, whatever is to be done with it."""
    (tmp_path / "file").write_text("")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "readme").write_text("")
    stored(tmp_path / "cache", KEYS[0])
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "artifacts").write_text("")
    cases = {
        str(tmp_path / "nothing"): "there is no cache at",
        "": "--cache is empty",
        str(tmp_path / "file"): "is a file, and a cache is a folder",
        str(tmp_path / "odd"): "is a file, and a cache is a folder",
        str(tmp_path / "other"): "is no cache of quantgate",
        str(tmp_path / "cache" / "artifacts"): f"did you mean {tmp_path / 'cache'}?",
    }
    for named, words in cases.items():
        for action in ("list", "verify", "prune"):
            assert main(["cache", action, "--cache", named]) == 2
            said = capsys.readouterr()
            assert words in said.err and said.err.count("\n") == 1 and not said.out, (named, said)


def test_an_empty_cache_and_a_default_one_that_is_not_there_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No run yet is no mistake: no entries, exit 0, and the place is said."""
    assert main(["cache", "verify", "--cache", str(tmp_path)]) == 0
    monkeypatch.setenv("QUANTGATE_CACHE", str(tmp_path / "later"))
    assert main(["cache", "list"]) == 0
    assert f"0 entries, 0.0 MB in {tmp_path / 'later' / 'artifacts'}" in capsys.readouterr().out


def test_commands(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Verifying ends with 4 while something is not whole; after prune, and without what others left, with 0; only prune takes an age."""
    assert main(["cache", "list", "--cache", str(cache)]) == 0
    assert "5 entries" in capsys.readouterr().out
    assert main(["cache", "verify", "--cache", str(cache), "--json"]) == 4
    assert {row["state"] for row in json.loads(capsys.readouterr().out)} == {
        "whole", "altered", "without record", "leftover", "unknown",
    }  # fmt: skip
    assert main(["cache", "prune", "--cache", str(cache)]) == 0
    assert main(["cache", "verify", "--cache", str(cache)]) == 4
    (cache / "artifacts" / "notes.txt").unlink()
    assert main(["cache", "verify", "--cache", str(cache)]) == 0
    assert main(["cache", "list", "--older-than-days", "3", "--cache", str(cache)]) == 2
