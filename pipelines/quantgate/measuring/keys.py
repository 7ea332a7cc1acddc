"""What a result depends on, as a digest: results of an earlier run are used where all of it is the same."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any

from quantgate import provenance, rundir
from quantgate.errors import MeasureError
from quantgate.measuring.processes import LazyProcess, Process, cache_of
from quantgate.measuring.work import Run, T, is_filled
from quantgate.records import Artifact, DeviceInfo, Distributions, Variant

HOST_KINDS = ("cpu", "fake")
"""Devices of which the fingerprint says all; any other is asked for its model and driver."""


def kept_stage(
    work: Run,
    variant: Variant,
    stage: str,
    record: type[T],
    key: str,
    make: Callable[[], T],
    usable: Callable[[T], bool] = lambda found: True,
) -> T:
    """A stage's result: kept from this run or an earlier one where it is still ``usable``, else made now and kept."""
    work.display.step(variant.name, stage)
    name = f"variants/{variant.name}/{stage.replace(' ', '/')}"
    kind = stage.split(" ")[0]
    if (found := work.shelf.find(name, kind=kind, key=key, record=record)) is not None and usable(found):
        one = work.evidence[variant.name]
        work.evidence[variant.name] = replace(one, reused=(*one.reused, stage))
        work.display.step_done(reused=True)
        return found
    made = make()
    work.shelf.keep(name, kind=kind, key=key, record=made)
    work.display.step_done(reused=False)
    return made


def key_of(work: Run, **parts: Any) -> str:
    """Digest of what a result depends on: code and libraries, and the parts given. The code counts under ``provenance: fixed`` too."""
    known, given = work.fingerprint, {name: _anywhere(part) for name, part in parts.items()}
    return rundir.digest({"source": provenance.source_digest(), "libraries": known.libraries, "python": known.python, **given})


def _anywhere(part: Any) -> Any:
    """A part without the place of its files, whose digest it holds, nor how long they took: moved or built again, they are the same."""
    if isinstance(part, tuple):
        return tuple(_anywhere(one) for one in part)
    if isinstance(part, Artifact):
        return replace(part, path="", build_s=None)
    return replace(part, path="") if isinstance(part, Distributions) else part


def machine_of(work: Run) -> dict[str, Any]:
    """What memory and speed depend on besides the code and its libraries."""
    known = work.fingerprint
    return {"cpu": known.cpu, "platform": known.platform, "device": rundir.plain(work.config.device), **work.accelerator}


def accelerator(work: Run) -> dict[str, Any]:
    """Model, size, driver and allocator: another card in the same machine is measured anew, one that does not tell in every run."""
    if work.config.device.kind in HOST_KINDS:
        return {}
    with ExitStack() as stack, suppress(MeasureError):
        found = LazyProcess(work, work.config.reference, stack).ask("device_info", DeviceInfo, device=work.config.device)
        return {"accelerator": (found.kind, found.name, found.total_bytes, found.driver, found.allocator)}
    return {"accelerator": work.info.run_id}


def way_of(work: Run, variant: Variant) -> dict[str, Any]:
    """How a variant is loaded, where it is not the usual way, is part of its results' keys."""
    return {**({} if is_filled(variant) else {"scoring_only": True}), **cache_of(work, variant), **environment(work, variant)}


def environment(work: Run, variant: Variant) -> dict[str, Any]:
    """The libraries of an interpreter of its own: the fingerprint knows those of the run's, and others give other results."""
    if (python := variant.interpreter) is None:
        return {}
    if python not in work.environments:
        with ExitStack() as stack:
            work.environments[python] = Process(work, variant, stack).ask("environment", dict[str, str])
    return {"environment": work.environments[python]}
