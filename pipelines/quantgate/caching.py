"""What lies in the cache: listed, checked byte for byte, thrown away. Knows the places that ``rundir`` keeps; measures nothing.

A cache is judged by what lies in it, wherever it was built: a copy is checked where it is. An artifact that a running process holds the
lock of is never touched, and neither is anything that this program did not put there.
"""

from __future__ import annotations

import fcntl
import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from quantgate import rundir
from quantgate.errors import RunFolderError, UsageError
from quantgate.records import Artifact

State = Literal["whole", "altered", "without record", "leftover", "in use", "unknown"]
"""``unknown``: what this program did not put there."""
PARTS = ("artifacts", "results", "distributions", "golden", "calibration")
"""Folders of a cache, of which runs make those that they need."""
_KEY = re.compile(r"[0-9a-f]{64}")
_LOCK = re.compile(r"\.[0-9a-f]{64}\.lock")
_LEFTOVER = re.compile(r"\.([0-9a-f]{64})\.(?:.*\.tmp|json\..+)")
"""A folder that was being built, or a record that was being written."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One artifact of the cache, what an interrupted build left of one, or something that lies among them."""

    key: str
    """Empty for what is not known here."""
    path: Path
    state: State
    variant: str = ""
    format: str = ""
    note: str = ""
    bytes: int = 0
    used_s: float = 0.0
    """When its record was written, seconds since 1970."""


def place(named: str | None, default: Path) -> Path:
    """The cache that is meant. Only the default one may be missing: nothing was run yet. Raises ``UsageError`` for any other."""
    if named is None:
        where = default
    elif not named.strip():
        raise UsageError("--cache is empty; give the folder of a cache, or leave --cache out for the default one")
    else:
        where = Path(named).expanduser()
        if not where.exists():
            raise UsageError(f"there is no cache at {where}; give the folder that a config names under 'cache', or leave --cache out")
    for folder in (where, where / "artifacts"):
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"{folder} is a file, and a cache is a folder; give the folder that a config names under 'cache'")
    if where.is_dir() and any(where.iterdir()) and not any((where / part).is_dir() for part in PARTS):
        inside = where.name == "artifacts" or any(_KEY.fullmatch(one.name) for one in where.iterdir())
        hint = f"did you mean {where.parent}?" if inside else f"a cache holds folders of these names: {', '.join(PARTS)}"
        raise UsageError(f"{where} is no cache of quantgate: {hint}")
    return where


def entries(cache: Path, *, check: bool) -> tuple[Entry, ...]:
    """Everything under ``cache/artifacts``, oldest first. ``check`` reads every byte; without it, records are trusted."""
    root = cache / "artifacts"
    if not root.is_dir():
        return ()
    keys = _keys(root)
    found = [_entry(root, key, check=check) for key in sorted(keys)]
    found += [_beside(root, path) for path in sorted(root.iterdir()) if not _of_an_artifact(path.name)]
    return tuple(sorted(found, key=lambda one: (one.used_s, one.key, one.path.name)))


def _of_an_artifact(name: str) -> bool:
    return _KEY.fullmatch(name.removesuffix(".json")) is not None or _LOCK.fullmatch(name) is not None


def _keys(root: Path) -> set[str]:
    names = {path.name.removesuffix(".json") for path in root.iterdir()}
    return {name for name in names if _KEY.fullmatch(name)}


def _beside(root: Path, path: Path) -> Entry:
    """What is no artifact: left by a build that was interrupted, or by somebody else."""
    match = _LEFTOVER.fullmatch(path.name)
    if match is None:
        return Entry(key="", path=path, state="unknown", note=f"{path.name}: {_what(path)}", bytes=_size(path))
    state: State = "leftover" if _free(root, match[1]) else "in use"
    return Entry(key=match[1], path=path, state=state, note="of an interrupted build" if state == "leftover" else "", bytes=_size(path))


def _entry(root: Path, key: str, *, check: bool) -> Entry:
    slot, record = root / key, root / f"{key}.json"
    size = _size(slot)
    if not _free(root, key):
        return Entry(key=key, path=slot, state="in use", bytes=size)
    try:
        known = rundir.get(record, kind="artifact", key=None, record=Artifact)
    except RunFolderError:
        return Entry(key=key, path=slot, state="altered", note="its record cannot be read", bytes=size)
    if known is None:
        return Entry(key=key, path=slot, state="without record", note=_what(slot), bytes=size)
    lies = Path(rundir.placed(known, slot).path)
    whole = rundir.stored_artifact(slot) is not None if check else lies.is_dir()
    return Entry(
        key=key,
        path=lies,
        state="whole" if whole else "altered",
        variant=known.variant,
        format=known.format,
        note=_lying(lies, slot) or known.note,
        bytes=size,
        used_s=record.stat().st_mtime,
    )


def _lying(lies: Path, slot: Path) -> str:
    """What there is to say of the place; nothing of a folder in its slot."""
    if not lies.is_dir():
        return f"its folder is missing: {lies}"
    return "" if lies == slot else f"used where it lies: {lies}"


def _what(path: Path) -> str:
    if path.is_symlink():
        return "a link" if path.exists() else "a broken link"
    return "a folder" if path.is_dir() else "a file"


def _size(path: Path) -> int:
    """Bytes of a file, or of the files of a folder; what a link outside leads to is no part of a cache."""
    if path.is_dir() and not path.is_symlink():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return path.lstat().st_size if path.is_symlink() or path.is_file() else 0


def _free(root: Path, key: str) -> bool:
    lock = root / f".{key}.lock"
    if not lock.exists():
        return True
    with _tried(lock) as held:
        return held


@contextmanager
def _tried(lock: Path) -> Iterator[bool]:
    """Whether the lock could be had; kept until the block ends."""
    with lock.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True


# ---------------------------------------------------------------------------------------------- throwing away


def prune(cache: Path, *, older_than_s: float | None, now_s: float) -> tuple[Entry, ...]:
    """Remove leftovers, artifacts without a record or altered ones, and with ``older_than_s`` those built longer ago. Returns what went."""
    gone = []
    for one in entries(cache, check=True):
        old = older_than_s is not None and now_s - one.used_s > older_than_s
        if one.state in ("in use", "unknown") or (one.state == "whole" and not old):
            continue
        if _remove(cache / "artifacts", one):
            gone.append(one)
    return tuple(gone)


def _remove(root: Path, one: Entry) -> bool:
    """The record first, so that a crash leaves a folder that nobody accepts. A folder outside the cache, used where it lies, stays."""
    with _tried(root / f".{one.key}.lock") as held, rundir.translated(root):
        if not held:
            return False
        if one.state != "leftover":
            _erase(root / f"{one.key}.json")
        _erase(one.path if one.path.parent == root else root / one.key)
    return True


def _erase(path: Path) -> None:
    """A folder with what is in it; a link is removed and not followed. Raises ``RunFolderError`` where that cannot be done."""
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise RunFolderError(f"cannot remove {path}: {error.strerror or error}; remove it by hand, or change who may write") from error


def left_alone(cache: Path) -> tuple[Entry, ...]:
    """What prune does not touch and is not whole either: things that are in use or not known here."""
    return tuple(one for one in entries(cache, check=False) if one.state in ("in use", "unknown"))


# ---------------------------------------------------------------------------------------------- saying it


def table(found: tuple[Entry, ...], cache: Path) -> str:
    """One line an entry, and the sum."""
    return "\n".join([*_rows(found), f"{_count(found)} in {cache / 'artifacts'}"])


def pruned(gone: tuple[Entry, ...], left: tuple[Entry, ...], cache: Path) -> str:
    """What went, and what was left for whoever put it there."""
    lines = [*_rows(gone), f"{_count(gone)} removed from {cache / 'artifacts'}"]
    for one in left:
        why = "in use by a run" if one.state == "in use" else f"{_what(one.path)} that quantgate did not put there"
        lines.append(f"left alone: {one.path}, {why}")
    return "\n".join(lines)


def _rows(found: tuple[Entry, ...]) -> list[str]:
    return [
        f"{one.key[:12] or '-':<12}  {one.bytes / 10**6:9.1f} MB  {one.state:<14}  {one.variant or '-'}  {one.note or one.format}".rstrip()
        for one in found
    ]


def _count(found: tuple[Entry, ...]) -> str:
    return f"{len(found)} {'entry' if len(found) == 1 else 'entries'}, {sum(one.bytes for one in found) / 10**6:.1f} MB"


def as_json(found: tuple[Entry, ...]) -> str:
    """The same for programs."""
    return json.dumps([_row(one) for one in found], indent=2)


def pruned_as_json(gone: tuple[Entry, ...], left: tuple[Entry, ...]) -> str:
    """What went and what was left, for programs."""
    rows = [{**_row(one), "removed": True} for one in gone] + [{**_row(one), "removed": False} for one in left]
    return json.dumps(rows, indent=2)


def _row(one: Entry) -> dict[str, str | int]:
    return {"key": one.key, "path": str(one.path), "state": one.state, "variant": one.variant, "note": one.note, "bytes": one.bytes}
