"""Golden sets: read a list of questions with their right answers, and trust nothing about the file.

Knows the layout ``golden_sets/<name>/v<N>/{items.jsonl, manifest.json}``. Refuses to know the keys of an item, which
``golden_items`` reads, and how an item is shown to a model or scored. Nothing is cached: a load reads the bytes on disk
and digests them, every time.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Never

from quantgate.errors import GoldenSetError
from quantgate.golden_items import KeysOf, built_in, parse, read_lines
from quantgate.records import GoldenItem, GoldenPart, GoldenReference, GoldenSet
from quantgate.strictjson import BOM, Fault, kind, needed, object_of, refuse_unknown, string, whole

ITEMS_FILE = "items.jsonl"
MANIFEST_FILE = "manifest.json"


def load(path: Path, keys_of: KeysOf = built_in) -> GoldenSet:
    """Read a folder with a manifest, or a bare JSON Lines file (then unversioned and named after the file).

    ``keys_of``: the keys of a metric's items by the metric's name; the built-in metrics' where it is left out.

    An ``items.jsonl`` with a manifest beside it is read as its folder, so that no spelling of the path goes round the
    digest.

    Raises:
        GoldenSetError: unreadable, altered under its manifest, without items, or faulty; ``line`` is that of the
        first fault.
    """
    sealed = path.name == ITEMS_FILE and (path.parent / MANIFEST_FILE).exists()
    folder = path.parent if sealed else path
    return _load_folder(folder, keys_of) if folder.is_dir() else _load_bare(path, keys_of)


def examine(path: Path, keys_of: KeysOf = built_in) -> tuple[tuple[GoldenItem, ...], tuple[tuple[int, str], ...]]:
    """The items of all readable lines of a JSON Lines file, and every fault with its line, none left out.

    Raises ``GoldenSetError`` only where the file cannot be read at all.
    """
    data = _read(path)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return (), ((1, "is UTF-16; save it as UTF-8"),)
    items, faults = read_lines(data, path.parent, keys_of)
    return tuple(items), tuple(faults) if items or faults else ((0, "has 0 items, so nothing could be measured"),)


def reference_of(golden: GoldenSet) -> GoldenReference:
    """Reduce a golden set to what the gate may know: ids, chance level and digest."""
    return GoldenReference(
        name=golden.name,
        version=golden.version,
        sha256=golden.sha256,
        item_ids=tuple(item.item_id for item in golden.items),
        chance_level=chance_level(golden.items),
        parts=tuple(_part(golden, name) for name in golden.slices),
    )


def _part(golden: GoldenSet, name: str) -> GoldenPart:
    items = [item for item in golden.items if item.slice == name]
    return GoldenPart(name=name, item_ids=tuple(item.item_id for item in items), chance_level=chance_level(items))


def chance_level(items: Sequence[GoldenItem]) -> float:
    """Compute the mean accuracy of guessing, in [0, 1]: 1 / choices for multiple choice, 0 for generated answers.

    Raises:
        ValueError: no items.
    """
    if not items:
        raise ValueError("no items: a chance level needs at least one")
    return sum(1 / len(item.choices) for item in items if item.choices) / len(items)


def write_manifest(folder: Path, licence: str, keys_of: KeysOf = built_in) -> Path:
    """Seal ``<name>/v<N>/items.jsonl`` with its digest and return the manifest's path. Sealing twice alike is harmless.

    Raises:
        GoldenSetError: the folder is not named ``v<N>``, the items are faulty, or another content is already sealed
        there.
    """
    folder = folder.resolve()
    if not re.fullmatch(r"v[1-9][0-9]*", folder.name):
        raise GoldenSetError(
            f"the folder is named {folder.name!r}; expected <name>/v<N>, such as faq/v1", file=str(folder)
        )
    data = _read(folder / ITEMS_FILE)
    items = parse(data, str(folder / ITEMS_FILE), keys_of)
    manifest = _Manifest(
        schema_version=1,
        name=folder.parent.name,
        version=folder.name,
        sha256=_sha256(data),
        count=len(items),
        slices=_slice_counts(items),
        licence=licence,
    )
    return _seal(folder / MANIFEST_FILE, manifest)


# ---------------------------------------------------------------------------------------------- files and manifest


@dataclass(frozen=True, kw_only=True, slots=True)
class _Manifest:
    """manifest.json, schema version 1."""

    schema_version: int
    name: str
    version: str
    sha256: str
    count: int
    slices: dict[str, int]
    licence: str


def _load_bare(path: Path, keys_of: KeysOf) -> GoldenSet:
    data = _read(path)
    items = parse(data, str(path), keys_of)
    return GoldenSet(name=path.stem, version="unversioned", sha256=_sha256(data), items=items, path=str(path))


def _load_folder(folder: Path, keys_of: KeysOf) -> GoldenSet:
    file = str(folder / ITEMS_FILE)
    data = _read(folder / ITEMS_FILE)
    manifest = _read_manifest(folder / MANIFEST_FILE)
    sha256 = _sha256(data)
    if sha256 != manifest.sha256:
        _refuse_altered(file, f"its digest is {sha256}, the manifest has {manifest.sha256}")
    items = parse(data, file, keys_of)
    if len(items) != manifest.count:
        _refuse_altered(file, f"it has {len(items)} items, the manifest has {manifest.count}")
    if _slice_counts(items) != manifest.slices:
        _refuse_altered(file, f"its slices are {_slice_counts(items)}, the manifest has {manifest.slices}")
    return GoldenSet(name=manifest.name, version=manifest.version, sha256=sha256, items=items, path=str(folder))


def _refuse_altered(file: str, difference: str) -> Never:
    advice = "restore it, or make a new version (v<N+1>) with its own manifest"
    raise GoldenSetError(f"the file was changed under an old manifest: {difference}; {advice}", file=file)


def _read(path: Path) -> bytes:
    """Read all bytes of a file; a missing manifest gets its own advice."""
    try:
        return path.read_bytes()
    except OSError as error:
        sealed = path.name == MANIFEST_FILE and isinstance(error, FileNotFoundError)
        hint = "; seal the folder with quantgate.golden.write_manifest(folder, licence)" if sealed else ""
        raise GoldenSetError(f"cannot be read: {error.strerror}{hint}", file=str(path)) from error


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _slice_counts(items: Sequence[GoldenItem]) -> dict[str, int]:
    return dict(Counter(item.slice for item in items))


def _read_manifest(path: Path) -> _Manifest:
    data = _read(path)
    try:
        row = object_of(data.removeprefix(BOM))
        refuse_unknown(row, tuple(_Manifest.__dataclass_fields__))
        if row.get("schema_version") != 1:
            raise Fault(f"schema_version: found {row.get('schema_version')!r}, this quantgate reads 1")
        return _Manifest(
            schema_version=1,
            name=string(needed(row, "name"), "name"),
            version=string(needed(row, "version"), "version"),
            sha256=string(needed(row, "sha256"), "sha256"),
            count=whole(needed(row, "count"), "count"),
            slices=_counts(needed(row, "slices")),
            licence=string(needed(row, "licence"), "licence"),
        )
    except Fault as fault:
        raise GoldenSetError(str(fault), file=str(path)) from fault


def _counts(value: object) -> dict[str, int]:
    if not isinstance(value, dict):
        raise Fault(f"slices: found {kind(value)}, expected an object of slice names and item counts")
    return {name: whole(count, f"slices[{name!r}]") for name, count in value.items()}


def _seal(path: Path, manifest: _Manifest) -> Path:
    """Write the manifest in one step; an earlier one for other bytes stays."""
    if path.exists() and _read_manifest(path).sha256 != manifest.sha256:
        number = int(manifest.version.removeprefix("v"))
        raise GoldenSetError(
            f"already seals another content; put the changed items into v{number + 1}, so that earlier results keep "
            f"their meaning (or delete the manifest, if nothing was measured with {manifest.version} yet)",
            file=str(path),
        )
    if path.exists() and (sealed := _read_manifest(path).licence) != manifest.licence:
        number = int(manifest.version.removeprefix("v"))
        what = f"is sealed under the licence {sealed!r}, asked is {manifest.licence!r}; make a new version (v{number + 1}) for that"
        raise GoldenSetError(what, file=str(path))
    try:
        string(manifest.licence, "licence")
    except Fault as fault:
        raise GoldenSetError(str(fault), file=str(path)) from fault
    draft = path.with_suffix(".json.partial")
    draft.write_bytes((json.dumps(asdict(manifest), indent=2, ensure_ascii=False) + "\n").encode())
    draft.replace(path)
    return path
