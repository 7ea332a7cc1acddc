"""Files that several processes share: held alone, written whole or not at all, told apart by digest. Standard library only."""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from quantgate.errors import RegistryError

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
