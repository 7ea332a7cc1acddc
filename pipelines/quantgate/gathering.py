"""The golden sets of a run, wherever they come from: read from their folder, or made from a source and kept under their digest.

A source is read anew for every run. Where it gives other items than the digest in the config pins, the run is refused; where it gives
others than the last time on this machine, that is told: the two runs are not comparable, and their digests say so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from quantgate import golden, plugins, rundir
from quantgate.errors import ConfigError
from quantgate.ports import Source
from quantgate.records import DatasetSource, GoldenSet, HarnessSource


def gather(
    asked: Sequence[Path | DatasetSource | HarnessSource], cache: Path, note: Callable[[str], None]
) -> tuple[GoldenSet, ...]:
    """Every golden set, whole. Raises ``GoldenSetError`` or ``ConfigError`` before anything is measured."""
    return tuple(golden.load(one, plugins.item_keys) if isinstance(one, Path) else _made(one, cache / "golden", note) for one in asked)


def _made(asked: DatasetSource | HarnessSource, folder: Path, note: Callable[[str], None]) -> GoldenSet:
    """A golden set made from its source, with its record beside it for the workers to read."""
    source: Source = plugins.load("source", "datasets" if isinstance(asked, DatasetSource) else "lm_eval")()
    into = folder / asked.name
    found = source.gather(asked, into)
    if asked.sha256 is not None and found.sha256 != asked.sha256:
        what = f"its items have the digest {found.sha256}, and the config pins {asked.sha256}"
        raise ConfigError(f"golden set {asked.name}: {what}; find out what changed upstream, then pin the new one")
    _tell_change(asked, found, folder / f"{asked.name}.last.json", note)
    path = into / f"{found.sha256[:16]}{rundir.GATHERED}"
    kept = replace(found, path=str(path))
    rundir.put_gathered(path, kept)
    return kept


def _tell_change(asked: DatasetSource | HarnessSource, found: GoldenSet, memory: Path, note: Callable[[str], None]) -> None:
    key = rundir.digest(asked)
    before = rundir.get(memory, kind="source", key=key, record=str)
    if before is not None and before != found.sha256:
        what = f"its source gives other items than the last time (digest {before[:12]}, now {found.sha256[:12]})"
        note(f"golden set {found.name}: {what}; earlier runs are not comparable with this one")
    rundir.put(memory, kind="source", key=key, record=found.sha256)
