"""reports/<run_id>/ and the cache beside it: strict JSON, atomic writes, digests, resume.

A stored result is an envelope ``{schema_version, kind, key, sha256, body}``. The key is the digest of everything the result depends on; a
result is used again only where the key is equal and the body still has its digest. Writing goes to a temporary file in the same folder,
is synced, and replaces the old file in one step, so that a crash or a full disk leaves the old state or the new one, never half of each.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from quantgate.errors import RunFolderError
from quantgate.files import digest_folder, file_digest, write_whole
from quantgate.records import Artifact, Distributions, DivergenceConfig, GoldenSet
from quantgate.refusals import allowed

SCHEMA_VERSION = 1
DIGITS = 12
DISK_RESERVE = 0.1
"""Share of the free disk that stored distributions leave to others."""
T = TypeVar("T")


# ---------------------------------------------------------------------------------------------- records as JSON


def plain(value: Any) -> Any:
    """A record as JSON values. Raises ``TypeError`` for what is neither a record nor a JSON value, numpy scalars included.

    A lone surrogate, which no UTF-8 file can hold, becomes a question mark.
    """
    if type(value) is str:
        return value if value.isascii() else value.encode("utf-8", errors="replace").decode("utf-8")
    if value is None or type(value) in (bool, int, float):  # exact types: numpy.float64 is a float by inheritance
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    raise TypeError(f"{type(value).__name__} cannot be stored: convert it to a plain value where it is made")


def rounded(value: T) -> T:
    """A record with every float at twelve significant digits: what lies beyond is one processor's arithmetic, no figure."""
    found: Any = value
    if type(value) is float:
        found = float(f"{value:.{DIGITS}g}")
    elif is_dataclass(value) and not isinstance(value, type):
        found = type(value)(**{field.name: rounded(getattr(value, field.name)) for field in fields(value)})
    elif isinstance(value, dict):
        found = {key: rounded(one) for key, one in value.items()}
    elif isinstance(value, list | tuple):
        found = type(value)(rounded(one) for one in value)
    return cast(T, found)


def encode(value: Any, *, indent: int | None = None) -> str:
    """Strict JSON with keys in the record's order. Raises ``ValueError`` for NaN and infinity: unknown is None with a reason."""
    return json.dumps(plain(value), allow_nan=False, ensure_ascii=False, indent=indent)


def decode(kind: type[T], text: str) -> T:
    """A record from its JSON. Raises ``RunFolderError`` for anything that is not exactly such a record."""
    try:
        _refuse_nonfinite(text)
        record: T = _adapter(kind).validate_json(text, strict=True)
        return record
    except (ValueError, RecursionError) as error:
        raise RunFolderError(f"not a valid {getattr(kind, '__name__', kind)}: {_first_line(error)}") from error


def digest(value: Any) -> str:
    """SHA-256 of a value's canonical JSON (sorted keys, no spaces)."""
    text = json.dumps(plain(value), allow_nan=False, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def json_schema(kind: type[Any]) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a record as it is written: every field is there, and no other."""
    schema = _adapter(kind).json_schema(mode="serialization")
    for one in (schema, *schema.get("$defs", {}).values()):
        if "properties" in one:
            one["required"], one["additionalProperties"] = list(one["properties"]), False
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


def _refuse_nonfinite(text: str) -> None:
    """NaN, Infinity and numbers that overflow to infinity are not evidence."""

    def refuse(token: str) -> float:
        raise ValueError(f"{token} is not a finite JSON number")

    def finite(token: str) -> float:
        return number if isfinite(number := float(token)) else refuse(token)

    json.loads(text, parse_constant=refuse, parse_float=finite)


def _first_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        detail = error.errors()[0]
        place = ".".join(str(part) for part in detail["loc"])
        return f"{place}: {allowed(detail, {})}" if place else allowed(detail, {})
    return str(error).splitlines()[0] if str(error) else type(error).__name__


# ---------------------------------------------------------------------------------------------- files


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn the operating system's errors into one that names the path and what to do."""
    try:
        yield
    except OSError as error:
        advice = "free some space or choose another place: 'out:' and 'cache:' in a config, --out for judge"
        file = next((one for one in path.parents if one.is_file()), None)
        what = error.strerror or str(error) if file is None else f"{file} is a file and no folder"
        raise RunFolderError(f"cannot write {path}: {what}; {advice}") from error


def write_text(path: Path, text: str) -> None:
    """Write a file in one step, synced to disk. Raises ``RunFolderError`` where that cannot be done; nothing is left half-written."""
    with translated(path):
        write_whole(path, text)


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A file beside ``path`` to write into, put in its place when the block ends well and removed when it does not."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with translated(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield beside
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)


def why_not_stored(path: Path, size_bytes: int, config: DivergenceConfig) -> str:
    """Why an array of distributions is not to be written, in a sentence; empty where it is.

    Raises ``RunFolderError`` where it was asked for by name and the disk has no room for it.
    """
    if config.reference == "recomputed":
        return "the config asks for 'recomputed'"
    there = next(one for one in path.parents if one.exists())
    needed, free_bytes = f"{size_bytes / 1e9:,.1f} GB", shutil.disk_usage(there).free
    if size_bytes > free_bytes * (1 - DISK_RESERVE):
        short = f"they take {needed}, and {there} has {free_bytes / 1e9:,.1f} GB free"
        if config.reference == "stored":
            raise RunFolderError(f"the reference's distributions cannot be stored: {short}; use 'reference: recomputed' or fewer texts")
        return short
    if config.reference == "auto" and size_bytes > config.disk_limit_bytes:
        return f"they take {needed}, and 'disk_limit' is {config.disk_limit_bytes / 1e9:,.1f} GB"
    return ""


def is_whole(stored: Distributions) -> bool:
    """Whether a stored array is there with every byte as it was written; true where nothing was to be stored."""
    if not stored.path:
        return True
    path = Path(stored.path)
    return path.is_file() and file_digest(path) == stored.sha256


def read_text(path: Path) -> str:
    """A file's text. Raises ``RunFolderError`` where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RunFolderError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error


# ---------------------------------------------------------------------------------------------- stored results


@dataclass(frozen=True, kw_only=True, slots=True)
class Envelope:
    """A stored result with what it depends on and its own digest."""

    schema_version: int
    kind: str
    key: str
    sha256: str
    body: Any


def put(path: Path, *, kind: str, key: str, record: Any, indent: int | None = None) -> None:
    """Store a record under its key; with ``indent`` so that people can read it and see what changed."""
    body = plain(record)
    envelope = Envelope(schema_version=SCHEMA_VERSION, kind=kind, key=key, sha256=digest(body), body=body)
    write_text(path, encode(envelope, indent=indent) + "\n")


def get(path: Path, *, kind: str, key: str | None, record: type[T]) -> T | None:
    """A stored record whose key is equal and whose body is unaltered; None where there is none such. ``key`` None takes any.

    Raises ``RunFolderError`` only where ``key`` is None and the file is there but damaged: then the caller asked for this very file.
    """
    found = sealed(path, kind=kind, key=key, record=record)
    return None if found is None else found[0]


def sealed(path: Path, *, kind: str, key: str | None, record: type[T]) -> tuple[T, str] | None:
    """As ``get``, with the digest that the body was written with: a record that has grown since would give another."""
    try:
        envelope = decode(Envelope, path.read_text(encoding="utf-8"))
        if envelope.schema_version != SCHEMA_VERSION or envelope.kind != kind:
            found = f"{envelope.kind} of schema version {envelope.schema_version}"
            raise RunFolderError(f"it holds {found}; expected {kind} of {SCHEMA_VERSION}")
        if key is not None and envelope.key != key:
            return None
        if digest(envelope.body) != envelope.sha256:
            raise RunFolderError("it was altered: its content does not have the digest it was stored with")
        return decode(record, json.dumps(envelope.body)), envelope.sha256
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, RunFolderError) as error:
        if key is None:
            raise RunFolderError(f"{path} cannot be used: {error}") from error
        return None


GATHERED = ".json"
"""Ends the name of a golden set's record, as against its folder or its lines."""


def put_gathered(path: Path, golden: GoldenSet) -> None:
    """Store a golden set that was made from a source; ``path`` ends in ``GATHERED``."""
    put(path, kind="golden", key=golden.sha256, record=golden)


def get_gathered(path: Path) -> GoldenSet:
    """A golden set that was made from a source. Raises ``RunFolderError`` where it is missing or was altered."""
    if (found := get(path, kind="golden", key=None, record=GoldenSet)) is None:
        raise RunFolderError(f"{path} is not there any more; start the run again")
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Shelf:
    """Results of one run, with the cache of earlier runs behind it. ``fresh`` reads neither; both are written."""

    run: Path
    cache: Path
    fresh: bool = False

    def find(self, name: str, *, kind: str, key: str, record: type[T]) -> T | None:
        """A result of this run (when resumed) or of an earlier one."""
        if self.fresh:
            return None
        found = get(self.run / f"{name}.json", kind=kind, key=key, record=record)
        if found is None and (found := get(self._cached(kind, key), kind=kind, key=key, record=record)) is not None:
            put(self.run / f"{name}.json", kind=kind, key=key, record=found)
        return found

    def keep(self, name: str, *, kind: str, key: str, record: Any, share: bool = True) -> None:
        """Store a result in the run and, with ``share``, for later runs."""
        put(self.run / f"{name}.json", kind=kind, key=key, record=record)
        if share:
            put(self._cached(kind, key), kind=kind, key=key, record=record)

    def _cached(self, kind: str, key: str) -> Path:
        return self.cache / "results" / kind / f"{key}.json"


# ---------------------------------------------------------------------------------------------- artifacts


@contextmanager
def artifact_slot(cache: Path, key: str) -> Iterator[Path]:
    """The folder of one artifact, held alone: a second run that wants the same artifact waits and then finds it."""
    root = cache / "artifacts"
    with translated(root):
        root.mkdir(parents=True, exist_ok=True)
        lock = (root / f".{key}.lock").open("w")
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for leftover in root.glob(f".{key}.*.tmp"):
            shutil.rmtree(leftover, ignore_errors=True)
        yield root / key


def stored_artifact(slot: Path) -> Artifact | None:
    """The artifact of a slot where it is complete and every byte of it is unaltered, else None. What was read is what its path names."""
    known = get(slot.with_name(f"{slot.name}.json"), kind="artifact", key=slot.name, record=Artifact)
    found = None if known is None else placed(known, slot)
    if found is None or not Path(found.path).is_dir():
        return None
    try:
        return found if digest_folder(Path(found.path))[0] == found.sha256 else None
    except OSError:  # unreadable, or taken away while it was read: not there
        return None


def placed(artifact: Artifact, slot: Path) -> Artifact:
    """The artifact with the place where it lies now: beside its record, wherever the cache was when it was built.

    A folder that was used where it lies has a name of its own, and stays where the record says.
    """
    return replace(artifact, path=str(slot)) if Path(artifact.path).name == slot.name else artifact


def working_folder(slot: Path) -> Path:
    """An empty folder on the same file system in which an artifact is built."""
    with translated(slot):
        return Path(tempfile.mkdtemp(dir=slot.parent, prefix=f".{slot.name}.", suffix=".tmp"))


def settle(slot: Path, built: Path, artifact: Artifact) -> Artifact:
    """Move a finished folder into its slot and store its record last, so that an artifact without record does not count.

    Where the slot holds the same bytes already they stay: another run may be reading them.
    """
    path = slot if Path(artifact.path) == built else Path(artifact.path)
    with translated(slot):
        sha256, stored_bytes = digest_folder(built if path == slot else path)
        there = stored_artifact(slot)
        if path == slot and (there is None or there.sha256 != sha256):
            shutil.rmtree(slot, ignore_errors=True)
            built.replace(slot)
        shutil.rmtree(built, ignore_errors=True)
    values = {field.name: getattr(artifact, field.name) for field in fields(Artifact)}
    final = Artifact(**{**values, "path": str(path), "sha256": sha256, "stored_bytes": stored_bytes})
    put(slot.with_name(f"{slot.name}.json"), kind="artifact", key=slot.name, record=final)
    return final


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold a run folder alone. Raises ``RunFolderError`` where another process works in it."""
    with translated(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise RunFolderError(
                f"{folder} is in use by another run or command; wait until that has ended, then try again"
            ) from error
        yield
