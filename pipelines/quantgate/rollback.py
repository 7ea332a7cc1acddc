"""Moving an alias back to an earlier version: only to one that passed, whose checkpoint is there, and with a reason on record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from quantgate import runs, stores
from quantgate.errors import RegistryError, UsageError
from quantgate.files import digest_folder


@dataclass(frozen=True, kw_only=True, slots=True)
class Rollback:
    """Which version is to be out again, and why. ``run``: any run of the model; ``expecting``: the version that must be out now."""

    run: Path
    to: str
    reason: str
    alias: str | None = None
    expecting: str | None = None


def roll_back(asked: Rollback, warn: Callable[[str], None]) -> str:
    """Move the alias back by compare-and-set and return what was done. Raises ``RegistryError`` where nothing may be moved."""
    if not asked.reason.strip():
        raise UsageError("a rollback needs a reason: what is wrong with the version that is out")
    info = runs.load_info(asked.run)
    model, alias = info.registered_model, asked.alias or info.alias
    registry = stores.registry_of(info, asked.run)
    tags, current = registry.tags(model, asked.to), registry.alias(model, alias)
    if asked.to == current:
        raise RegistryError(f"alias '{alias}' of '{model}' points at version {current} already; nothing was moved")
    if current is None:
        raise RegistryError(f"alias '{alias}' of '{model}' points nowhere, so there is nothing to move back from; promote a run instead")
    _refuse_unusable(asked.to, tags)
    reason = " ".join(asked.reason.split())
    registry.move(model, alias, to=asked.to, expecting=asked.expecting or current, reason=reason)
    stores.follow(info, asked.run, (current, asked.to), warn, also=alias)
    what = f"{tags.get('variant', 'a variant')} of run {tags.get('run_id', 'not known')}"
    return f"{alias} of {model}: version {asked.expecting or current} -> version {asked.to}, {what}. Reason on record: {reason}"


def _refuse_unusable(version: str, tags: Mapping[str, str]) -> None:
    """The checkpoint that would be out again must be there, every byte as it was judged."""
    path = Path(tags.get("artifact_path", ""))
    if not path.is_absolute():  # a run whose places are told without a machine
        return
    if not path.is_dir() or digest_folder(path)[0] != tags.get("artifact_sha256"):
        state = "was altered" if path.is_dir() else "is gone"
        raise RegistryError(f"the checkpoint of version {version} {state}: {path}; nothing was moved")
