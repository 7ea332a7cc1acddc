"""Speculative decoding of the reference, measured in the run: which prompts, which drafter's artifact, what is kept.

It comes after everything that the gate needs of variants, and what goes wrong here is told of its drafter and takes nothing else along.
Like speed it is never taken from an earlier run.
"""

from __future__ import annotations

from contextlib import ExitStack

from quantgate import rundir
from quantgate.config import RunConfig
from quantgate.errors import MeasureError
from quantgate.measuring.building import build
from quantgate.measuring.keys import key_of
from quantgate.measuring.processes import opened
from quantgate.measuring.work import Run
from quantgate.prompting import prompts
from quantgate.records import (
    Artifact,
    Drafter,
    GoldenItem,
    SpeculationConfig,
    SpeculationRun,
    Variant,
)

STAGE = "speculate"


def planned(config: RunConfig) -> tuple[str, ...]:
    """The stages in the order in which a display will be told of them."""
    asked = config.levers.speculation
    return () if asked is None else tuple(f"{STAGE} {one.name}" for one in asked.drafters)


def speculate(work: Run) -> tuple[SpeculationRun, ...]:
    """A run for each drafter; nothing where speculation was not asked for."""
    asked = work.config.levers.speculation
    if asked is None:
        return ()
    items = prompts(asked, work.goldens, str(work.config.path))
    return tuple(_one(work, asked, drafter, items) for drafter in asked.drafters)


def _one(work: Run, asked: SpeculationConfig, drafter: Drafter, items: tuple[GoldenItem, ...]) -> SpeculationRun:
    reference = work.config.reference
    work.display.step(reference.name, f"{STAGE} {drafter.name}")
    try:
        found = _measured(work, asked, drafter, items)
    except MeasureError as error:
        work.display.note(f"{drafter.name}: speculation did not finish: {error}")
        return SpeculationRun(drafter=drafter.name, why_not=str(error))
    work.display.step_done(reused=False)
    return found


def _measured(work: Run, asked: SpeculationConfig, drafter: Drafter, items: tuple[GoldenItem, ...]) -> SpeculationRun:
    """Kept in the run's own folder only: a resumed run goes on with it, a later run measures anew."""
    draft = _draft(work, drafter)
    config = work.config
    name = f"levers/speculation/{drafter.name.replace(':', '-')}"
    parts = {"artifact": work.evidence[config.reference.name].artifact, "draft": draft, "asked": asked, "prompts": items}
    key = key_of(work, run=work.info.run_id, drafter=drafter, workload=config.workload, device=config.device, **parts)
    if (kept := rundir.get(work.folder / f"{name}.json", kind="speculation", key=key, record=SpeculationRun)) is not None:
        return kept
    with ExitStack() as stack:
        worker = opened(work, config.reference, stack)
        values = {"drafter": drafter, "config": asked, "workload": config.workload, "prompts": items, "draft": draft}
        found = worker.ask("speculate", SpeculationRun, engine=config.engine, device=config.device, **values)
    work.shelf.keep(name, kind="speculation", key=key, record=found, share=False)
    return found


def _draft(work: Run, drafter: Drafter) -> Artifact | None:
    """The drafter's artifact; None for one without a model. Raises ``MeasureError`` where it cannot draft."""
    match drafter.kind:
        case "prompt_lookup":
            return None
        case "self":
            found = work.evidence[drafter.variant or ""].artifact
            if found is None:
                raise MeasureError(f"variant {drafter.variant} was not built, so it cannot draft")
            if found.simulated:
                raise MeasureError(f"variant {drafter.variant} is simulated: its weights are kept in float, so it drafts no faster")
            return found
        case "model":
            variant = Variant(name=f"draft-{drafter.name.partition(':')[2]}", quantizer=work.config.reference.quantizer)
            return build(work, variant, None, drafter.model or work.config.model)
