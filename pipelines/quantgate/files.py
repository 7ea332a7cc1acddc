"""Files that several processes share: held alone, written whole or not at all, told apart by digest. Standard library only."""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from quantgate.errors import RegistryError
from quantgate.records import FileDigest

LOCK_WAIT_S = 60.0
_POLL_S = 0.02


@contextmanager
def locked(path: Path, *, wait_s: float = LOCK_WAIT_S) -> Iterator[None]:
    """Hold the lock file ``path`` exclusively, across processes and threads; the system frees it when a holder dies.

    Raises ``RegistryError`` where another holder keeps it for longer than ``wait_s`` seconds.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        _acquire(handle.fileno(), path, time.monotonic() + wait_s)
        try:
            yield
        finally:
            fcntl.flock(handle, fcntl.LOCK_UN)


def _acquire(descriptor: int, path: Path, deadline_s: float) -> None:
    """Take the lock, polling until the deadline on the monotonic clock."""
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline_s:
                what = f"{path} is locked by another process; wait for it or end it, then run again"
                raise RegistryError(what) from None
            time.sleep(_POLL_S)
        else:
            return


def write_whole(path: Path, text: str) -> None:
    """Write UTF-8 text beside ``path``, force it to disk, and put it in place in one step.

    Raises ``OSError`` where that cannot be done; what stood there stays, and nothing is left half-written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def digest_folder(folder: Path) -> tuple[str, int]:
    """SHA-256 over names and contents of all files of a folder, and their bytes.

    Links are followed: a hub snapshot is made of them. What is hidden, or lies in a hidden folder, is no part of a model and left out.
    """
    found = file_digests(folder)
    return digest_of_files(found), sum((folder / one.name).stat().st_size for one in found)


def file_digests(folder: Path) -> tuple[FileDigest, ...]:
    """Every file of a folder with its digest, by name; hidden ones left out and links followed, as ``digest_folder`` does."""
    names = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    seen = [name for name in names if not any(part.startswith(".") for part in name.parts)]
    return tuple(FileDigest(name=name.as_posix(), sha256=file_digest(folder / name)) for name in seen)


def digest_of_files(files: Iterable[FileDigest]) -> str:
    """The digest of a folder that holds these files, in this order."""
    sha = hashlib.sha256()
    for one in files:
        sha.update(f"{one.name}\0{one.sha256}\n".encode())
    return sha.hexdigest()
