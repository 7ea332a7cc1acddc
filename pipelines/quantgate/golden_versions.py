"""New versions of a golden set: items added or retired for a reason, in a folder of their own, with a log of who, when and why.

A version that was sealed never changes. The next one is made beside it, checked and sealed there, and put in its place in one step.
``CHANGES.jsonl`` in each version holds the whole history, a line a change, each with the digests before and after.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import Literal

from quantgate import golden
from quantgate.errors import GoldenSetError
from quantgate.hygiene.sets import same_questions
from quantgate.records import GoldenItem, GoldenSet

CHANGES_FILE = "CHANGES.jsonl"
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, kw_only=True, slots=True)
class Author:
    """Who changes a set, when (UTC, ISO 8601) and why."""

    who: str
    when: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One line of the log."""

    version: str
    before: str
    action: Literal["add", "retire"]
    ids: tuple[str, ...]
    who: str
    when: str
    reason: str
    sha256_before: str
    sha256: str


def add(folder: Path, new: Path, author: Author) -> tuple[Path, Change]:
    """Make the next version with the items of the file ``new`` behind the old ones.

    Raises ``GoldenSetError``: the old version is altered, not the newest or not sealed, the new items are faulty, or an id is taken.
    """
    old = _sealed(folder)
    coming = golden.load(new)
    taken = {item.item_id: item for item in old.items}
    for item in coming.items:
        if (known := taken.get(item.item_id)) is not None:
            what = f"id: {item.item_id!r} is taken by line {known.line} of {old.label}; retire that item first, or name this one otherwise"
            raise GoldenSetError(what, file=str(new), line=item.line)
    lines = [*_lines_of(folder / golden.ITEMS_FILE, old.items), *_lines_of(items_file(new), coming.items)]
    ids = tuple(item.item_id for item in coming.items)
    return _next(folder, lines, _Asked(action="add", ids=ids, author=author, sha256=old.sha256))


def retire(folder: Path, ids: Sequence[str], author: Author) -> tuple[Path, Change]:
    """Make the next version without the items of these ids. Raises ``GoldenSetError`` as ``add`` does, and for an unknown id."""
    old = _sealed(folder)
    known = [item.item_id for item in old.items]
    for one in ids:
        if one not in known:
            nearest = get_close_matches(one, known, n=1)
            hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
            raise GoldenSetError(f"{old.label} has no item {one!r}{hint}", file=str(folder))
    kept = [item for item in old.items if item.item_id not in ids]
    if not kept:
        raise GoldenSetError("nothing would be left; a golden set needs an item", file=str(folder))
    lines = _lines_of(folder / golden.ITEMS_FILE, kept)
    return _next(folder, lines, _Asked(action="retire", ids=tuple(dict.fromkeys(ids)), author=author, sha256=old.sha256))


def newest(path: Path) -> Path:
    """The version's folder itself, or the newest version in a set's folder. Raises ``GoldenSetError`` where there is none."""
    if _number(path.resolve()) is not None:
        return path
    versions = [one for one in path.glob("v*") if _number(one) is not None]
    if not versions:
        raise GoldenSetError("is no golden set: expected <name>/v<N>, or <name> with a version in it", file=str(path))
    return max(versions, key=lambda one: _number(one) or 0)


def changes(folder: Path) -> tuple[Change, ...]:
    """The log of a version, oldest first; empty for one without. Raises ``GoldenSetError`` for a line that is none."""
    file = folder / CHANGES_FILE
    if not file.exists():
        return ()
    found = []
    for line, row in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            values = json.loads(row)
            found.append(Change(**{**values, "ids": tuple(values["ids"])}))
        except (ValueError, TypeError, KeyError) as error:
            raise GoldenSetError(f"is no line of a log: {error}", file=str(file), line=line) from error
    return tuple(found)


def check_log(folder: Path, sha256: str) -> None:
    """Raise ``GoldenSetError`` where the log's last line is of other items than the version's, or a digest does not follow."""
    log = changes(folder)
    for line, (earlier, later) in enumerate(pairwise(log), start=2):
        if later.sha256_before != earlier.sha256:
            what = f"the digest before does not follow from line {line - 1}: a line was taken out or altered"
            raise GoldenSetError(what, file=str(folder / CHANGES_FILE), line=line)
    if log and (log[-1].sha256, log[-1].version) != (sha256, folder.resolve().name):
        what = f"its last line tells of {log[-1].version} with digest {log[-1].sha256[:12]}, the items have {sha256[:12]}"
        raise GoldenSetError(what, file=str(folder / CHANGES_FILE), line=len(log))


def digest_of(file: Path) -> str:
    """SHA-256 of a file's bytes."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def digest_in(manifest: Path) -> str:
    """The digest that a manifest seals; empty where it cannot be read."""
    try:
        return str(json.loads(manifest.read_text(encoding="utf-8-sig"))["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


# ---------------------------------------------------------------------------------------------- the next version


@dataclass(frozen=True, kw_only=True, slots=True)
class _Asked:
    action: Literal["add", "retire"]
    ids: tuple[str, ...]
    author: Author
    sha256: str


def _sealed(folder: Path) -> GoldenSet:
    """The version to start from. Raises ``GoldenSetError`` where it does not have its manifest's digest or is not the newest."""
    place = folder.resolve()
    if (number := _number(place)) is None:
        raise GoldenSetError(f"the folder is named {place.name!r}; expected <name>/v<N>, such as faq/v1", file=str(folder))
    loaded = golden.load(folder)
    check_log(folder, loaded.sha256)
    later = [one.name for one in place.parent.glob("v*") if (_number(one) or 0) > number]
    if later:
        raise GoldenSetError(f"is not the newest version: there is {max(later, key=lambda one: int(one[1:]))}", file=str(folder))
    return loaded


def _number(folder: Path) -> int | None:
    found = re.fullmatch(r"v([1-9][0-9]*)", folder.name)
    return int(found[1]) if found else None


def items_file(path: Path) -> Path:
    """The items of a folder, or the file itself."""
    return path / golden.ITEMS_FILE if path.is_dir() else path


def _lines_of(file: Path, items: Sequence[GoldenItem]) -> list[bytes]:
    """The lines of the items as they were written, byte for byte."""
    lines = [one.removeprefix(_BOM).removesuffix(b"\r") for one in file.read_bytes().split(b"\n")]
    return [lines[item.line - 1] for item in items]


def _next(folder: Path, lines: Sequence[bytes], asked: _Asked) -> tuple[Path, Change]:
    """Write, check and seal the next version out of sight, then put it in its place."""
    for name, text in (("reason", asked.author.reason), ("who", asked.author.who)):
        if not text.strip() or not text.isprintable():
            raise GoldenSetError(f"{name}: one line of text is needed, found {text!r}", file=str(folder))
    home = folder.resolve().parent
    into = home / f"v{(_number(folder.resolve()) or 0) + 1}"
    with tempfile.TemporaryDirectory(prefix=".next-", dir=home) as scratch:
        draft = Path(scratch) / home.name / into.name
        draft.mkdir(parents=True)
        change = _draft(folder, draft, lines, asked)
        try:
            draft.rename(into)
        except OSError as error:
            raise GoldenSetError(f"cannot be put in place: {error.strerror}", file=str(into)) from error
    return folder.parent / into.name if folder.name == folder.resolve().name else into, change


def _refuse_contradictions(items: Sequence[GoldenItem], file: str) -> None:
    if found := next((one for one in same_questions(items) if one.severity == "fault"), None):
        raise GoldenSetError(f"{found.field}: {found.what}; {found.advice}", file=f"the new {file}", line=found.line)


def _draft(folder: Path, draft: Path, lines: Sequence[bytes], asked: _Asked) -> Change:
    items = draft / golden.ITEMS_FILE
    items.write_bytes(b"".join(line + b"\n" for line in lines))
    for name in ("CARD.md", CHANGES_FILE):
        if (folder / name).exists():
            shutil.copyfile(folder / name, draft / name)
    _refuse_contradictions(golden.examine(items)[0], str(items.name))
    licence = str(json.loads((folder / golden.MANIFEST_FILE).read_text(encoding="utf-8-sig"))["licence"])
    golden.write_manifest(draft, licence)
    change = Change(
        version=draft.name,
        before=folder.resolve().name,
        action=asked.action,
        ids=asked.ids,
        who=asked.author.who,
        when=asked.author.when,
        reason=asked.author.reason,
        sha256_before=asked.sha256,
        sha256=digest_of(items),
    )
    with (draft / CHANGES_FILE).open("a", encoding="utf-8") as log:
        log.write(json.dumps(asdict(change), ensure_ascii=False) + "\n")
    return change
