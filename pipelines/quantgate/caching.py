"""What lies in the cache: listed, checked byte for byte, thrown away. Knows the places that ``rundir`` keeps; measures nothing.

An artifact that a running process holds the lock of is never touched, and neither is anything that this program did not put there.
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
from quantgate.errors import RunFolderError
from quantgate.records import Artifact

State = Literal["whole", "altered", "without record", "leftover", "in use"]
_KEY = re.compile(r"[0-9a-f]{64}")
_LEFTOVER = re.compile(r"\.([0-9a-f]{64})\..*\.tmp")


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One artifact of the cache, or what an interrupted build left of one."""

    key: str
    path: Path
    state: State
    variant: str = ""
    format: str = ""
    note: str = ""
    bytes: int = 0
    used_s: float = 0.0
    """When its record was written, seconds since 1970."""


def entries(cache: Path, *, check: bool) -> tuple[Entry, ...]:
    """Everything under ``cache/artifacts``, oldest first. ``check`` reads every byte; without it, records are trusted."""
    root = cache / "artifacts"
    if not root.is_dir():
        return ()
    found = [_entry(root, key, check=check) for key in sorted(_keys(root))]
    found += [
        Entry(key=match[1], path=path, state="leftover" if _free(root, match[1]) else "in use", bytes=_size(path))
        for path in sorted(root.iterdir())
        if (match := _LEFTOVER.fullmatch(path.name)) is not None
    ]
    return tuple(sorted(found, key=lambda one: (one.used_s, one.key)))


def _keys(root: Path) -> set[str]:
    names = {path.name.removesuffix(".json") for path in root.iterdir()}
    return {name for name in names if _KEY.fullmatch(name)}


def _entry(root: Path, key: str, *, check: bool) -> Entry:
    slot, record = root / key, root / f"{key}.json"
    size = _size(slot)
    if not _free(root, key):
        return Entry(key=key, path=slot, state="in use", bytes=size)
    try:
        known = rundir.get(record, kind="artifact", key=None, record=Artifact)
    except RunFolderError:
        return Entry(key=key, path=slot, state="altered", bytes=size)
    if known is None:
        return Entry(key=key, path=slot, state="without record", bytes=size)
    whole = rundir.stored_artifact(slot) is not None if check else Path(known.path).is_dir()
    return Entry(
        key=key,
        path=Path(known.path),
        state="whole" if whole else "altered",
        variant=known.variant,
        format=known.format,
        note=known.note,
        bytes=size,
        used_s=record.stat().st_mtime,
    )


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) if path.is_dir() else 0


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
        if one.state == "in use" or (one.state == "whole" and not old):
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
            (root / f"{one.key}.json").unlink(missing_ok=True)
        inside = one.path if one.path.parent == root else root / one.key
        shutil.rmtree(inside, ignore_errors=True)
    return True


# ---------------------------------------------------------------------------------------------- saying it


def table(found: tuple[Entry, ...], cache: Path) -> str:
    """One line an entry, and the sum."""
    lines = [
        f"{one.key[:12]}  {one.bytes / 10**6:9.1f} MB  {one.state:<14}  {one.variant or '-'}  {one.note or one.format}".rstrip()
        for one in found
    ]
    total = sum(one.bytes for one in found)
    return "\n".join([*lines, f"{len(found)} entries, {total / 10**6:.1f} MB in {cache / 'artifacts'}"])


def as_json(found: tuple[Entry, ...]) -> str:
    """The same for programs."""
    rows = [{"key": one.key, "path": str(one.path), "state": one.state, "variant": one.variant, "bytes": one.bytes} for one in found]
    return json.dumps(rows, indent=2)
