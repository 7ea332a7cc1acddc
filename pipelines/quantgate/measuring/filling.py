"""A variant's own batch ceiling."""

from __future__ import annotations

from dataclasses import replace

from quantgate.errors import MeasureError
from quantgate.measuring.keys import kept_stage, key_of, machine_of, way_of
from quantgate.measuring.processes import LazyProcess
from quantgate.measuring.work import SEED, Run
from quantgate.records import Capacity, Variant


def fill(work: Run, variant: Variant, lazy: LazyProcess) -> None:
    """The variant's ceilings into its evidence, found now or by an earlier run of the same machine."""
    config, artifact = work.config, work.evidence[variant.name].artifact
    budget = _budget(work, variant)
    parts = {"artifact": artifact, "engine": config.engine, "workload": config.workload, "budget": budget, "seed": SEED}
    key = key_of(work, **parts, **machine_of(work), **way_of(work, variant))

    def make() -> Capacity:
        lazy.open()
        return lazy.ask("capacity", Capacity, workload=config.workload, budget_bytes=budget, seed=SEED, scoring=True)

    found = kept_stage(work, variant, "capacity", Capacity, key, make, usable=lambda one: one.limited_by != "time")
    work.evidence[variant.name] = replace(work.evidence[variant.name], capacity=found)


def _budget(work: Run, variant: Variant) -> int:
    """The configured budget, else all of the device."""
    if work.config.device.memory_budget_bytes is not None:
        return work.config.device.memory_budget_bytes
    info = work.evidence[variant.name].device
    if info is None:
        raise MeasureError("the device is not known, so its memory is not either")
    return info.total_bytes
