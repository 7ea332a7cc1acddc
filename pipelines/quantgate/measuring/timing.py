"""Speed of each variant beside the reference's, and the roofs of the device."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace

from quantgate import rundir
from quantgate.errors import MeasureError, OverRoof, WorkerDied
from quantgate.measuring.keys import key_of, machine_of, way_of
from quantgate.measuring.processes import LazyProcess
from quantgate.measuring.work import SEED, Run, noting_failures, timed_variants
from quantgate.records import (
    DeviceInfo,
    DeviceState,
    Generation,
    LeftOut,
    Roofs,
    SpeedPoint,
    SpeedRun,
    Timed,
    Variant,
    VariantEvidence,
    Workload,
)
from quantgate.stages import against_roofs, roof, sweep
from quantgate.stages.interleave import ORDER, Hands, Job, Who, interleave
from quantgate.stages.plan import first_level
from quantgate.stages.quadruples import confirmed
from quantgate.stages.speed import rules_of
from quantgate.stats.speed import look_sizes

MOST_DEATHS = 2
"""Processes that may die while a variant is timed, before the variant is given up."""


def time_all(work: Run) -> None:
    """Reference and variant in turn, each in its own process, one working at a time; each variant has its share of the budget."""
    reference, left_s, variants = work.config.reference, work.config.timing.budget_s, _to_time(work)
    if variants:
        _roof(work)
    for place, variant in enumerate(variants):
        share_s, started_s = None if left_s is None else left_s / (len(variants) - place), work.display.now_s()
        with noting_failures(work, variant, "time"):
            work.display.step(variant.name, "time")
            _time(work, reference, variant, share_s)
            work.display.step_done(reused=False)
        done = work.evidence[variant.name].speed
        spent_s = max(work.display.now_s() - started_s, 0.0 if done is None else done.seconds)
        left_s = None if left_s is None else max(0.0, left_s - spent_s)
    if variants:
        _look_at_device(work, reference)


def _to_time(work: Run) -> list[Variant]:
    """What is timed beside the reference: nothing where the reference holds no request."""
    reference = work.config.reference
    found = [one for one in timed_variants(work.config) if _ceiling(work, reference if one.role == "identity" else one)]
    return found if _ceiling(work, reference) else []


def _time(work: Run, reference: Variant, variant: Variant, budget_s: float | None) -> None:
    """Quadruples R V V R, kept one by one: an interrupted run goes on where it was."""
    base, one, config = work.evidence[reference.name], work.evidence[variant.name], work.config
    sizes = look_sizes(config.timing.most_quadruples)
    job = _job(work, base, one, budget_s)
    name, workloads = f"variants/{variant.name}/speed", tuple(job.workloads.values())
    parts = {"artifact": one.artifact, "base": base.artifact, "targets": job.targets, "workloads": workloads, "looks": sizes}
    key = key_of(work, run=work.info.run_id, fresh=job.fresh, **parts, **way_of(work, variant))

    def keep(run: SpeedRun) -> None:
        work.shelf.keep(name, kind="speed", key=key, record=run, share=False)
        work.evidence[variant.name] = replace(work.evidence[variant.name], speed=run)

    done = rundir.get(work.folder / f"{name}.json", kind="speed", key=key, record=SpeedRun)
    if done is None or not done.complete:
        started = SpeedRun(variant=variant.name, generations=(), order=" ".join(who[0].upper() for who in ORDER), looks=sizes)
        with ExitStack() as stack:
            pair = _Pair(work, stack, {"reference": reference, "variant": variant})
            hands = Hands(time_one=pair.time_one, renew=pair.renew, keep=keep, clock=_clock(work), progress=pair.tell)
            done = interleave(job, replace(done or started, left_out=_beyond(job, one, base)), hands)
        done = replace(done, device=pair.devices.get("variant"), partner_device=pair.devices.get("reference"))
    keep(done)
    try:
        _refuse_faults(work, {reference.name: done.partner, variant.name: done.generations})
    except OverRoof:
        work.evidence[variant.name] = replace(work.evidence[variant.name], speed=None)
        raise
    earlier = () if base.speed is None else base.speed.generations
    work.evidence[reference.name] = replace(base, speed=SpeedRun(variant=reference.name, generations=(*earlier, *done.partner)))


def _job(work: Run, base: VariantEvidence, one: VariantEvidence, budget_s: float | None) -> Job:
    config = work.config
    workloads = (config.workload, *config.workloads)
    sizes = look_sizes(config.timing.most_quadruples)
    first_look = next((size for size in sizes if size >= config.workload.quadruples), sizes[-1])
    return Job(
        targets=sweep.targets(one, base, workloads, rules_of(config.policy), (config.timing, first_look)),
        workloads={each.name: each for each in workloads},
        level=first_level(config.policy, len(config.candidates)),
        budget_s=budget_s,
        opening_s=sum(each.loaded.load_s for each in (base, one) if each.loaded is not None),
        fresh=config.timing.processes == "fresh",
    )


def _beyond(job: Job, one: VariantEvidence, base: VariantEvidence) -> tuple[LeftOut, ...]:
    """Points that a policy asks for and that do not fit."""
    found = {each.point: sweep.why_impossible(each.point, one, base, job.workloads[each.point.workload]) for each in job.targets}
    return tuple(LeftOut(point=point, because=why) for point, why in found.items() if why is not None)


def _clock(work: Run) -> Callable[[], float]:
    """The run's clock; under ``provenance: fixed`` one that stands still, so that only what devices say of their time counts."""
    return (lambda: 0.0) if work.config.provenance == "fixed" else work.display.now_s


def _roof(work: Run) -> None:
    """Measure what the device can do. Never used again by a later run, as speed is not."""
    work.display.step(work.config.reference.name, "roof")
    found = rundir.get(work.folder / "roofs.json", kind="roofs", key=_roof_key(work), record=Roofs)
    _keep_roofs(work, _measured_roofs(work) if found is None else found)
    for why in work.roofs.why_not if work.roofs is not None else ():
        work.display.note(f"a roof of the device is missing: {why}")
    work.display.step_done(reused=False)


def _roof_job(work: Run) -> roof.Job:
    facts = [one for variant in (work.config.reference, *_to_time(work)) if (one := work.evidence[variant.name].loaded) is not None]
    return roof.Job(
        weight_bytes=tuple(sorted({one.weight_bytes for one in facts})),
        dtypes=tuple(dict.fromkeys(dtype for one in facts for dtype in against_roofs.arithmetic_types(one))),
    )


def _roof_key(work: Run) -> str:
    return key_of(work, run=work.info.run_id, job=_roof_job(work), **machine_of(work))


def _measured_roofs(work: Run) -> Roofs:
    """In a process that holds no model. A roof that is missing is told beside every figure that lacks it."""
    with ExitStack() as stack:
        try:
            return LazyProcess(work, work.config.reference, stack).ask("roof", Roofs, device=work.config.device, job=_roof_job(work))
        except MeasureError as error:
            return Roofs(why_not=(str(error),))


def _keep_roofs(work: Run, found: Roofs) -> None:
    rundir.put(work.folder / "roofs.json", kind="roofs", key=_roof_key(work), record=found)
    work.roofs = found


def _refuse_faults(work: Run, taken: dict[str, tuple[Generation, ...]]) -> None:
    """Raise ``OverRoof`` for a speed that the device cannot have had, also by roofs measured again: it may have been busy before."""

    def look() -> None:
        for name, generations in taken.items():
            against_roofs.refuse_faults(name, generations, work.evidence[name].loaded, work.roofs)

    try:
        look()
    except OverRoof as error:
        work.display.note(f"{error}; the roofs are measured again, in case the machine was busy")
        _keep_roofs(work, roof.joined(work.roofs, _measured_roofs(work)))
        look()


def _look_at_device(work: Run, reference: Variant) -> None:
    """Clocks and heat once more, when everything is timed."""
    with ExitStack() as stack, suppress(MeasureError):
        after = LazyProcess(work, reference, stack).ask("device_state", DeviceState, device=work.config.device)
        work.roofs = None if work.roofs is None else replace(work.roofs, after=after)


def _ceiling(work: Run, variant: Variant) -> int:
    return confirmed(work.evidence[variant.name])


class _Pair:
    """Two processes that are timed against each other, each started and opened when first needed."""

    def __init__(self, work: Run, stack: ExitStack, variants: dict[Who, Variant]) -> None:
        self._work, self._variants, self._living = work, variants, stack.enter_context(ExitStack())
        self._workers = {who: self._started(who) for who in variants}
        self._warm: set[tuple[Who, str, int]] = set()
        self._deaths = 0
        self.devices: dict[Who, DeviceInfo] = {}

    def _started(self, who: Who) -> LazyProcess:
        return LazyProcess(self._work, self._variants[who], self._living, generates=True)

    def renew(self) -> None:
        """End both processes, so that two of them never hold more than is measured; new ones start when asked."""
        self._living.close()
        self._workers, self._warm = {who: self._started(who) for who in self._variants}, set()

    def tell(self, point: SpeedPoint, number: int) -> None:
        self._work.display.progress(0, 0, f"timing {point.at}, quadruple {number}")

    def time_one(self, who: Who, workload: Workload, batch: int, limit_s: float | None) -> Timed:
        """One batch; warmed up the first time it runs in its process. A process that dies is told and started again, a few times."""
        place = (who, workload.name, batch)
        values = {"workload": workload, "batch_size": batch, "warmups": 0 if place in self._warm else workload.warmups, "seed": SEED}
        try:
            self.devices[who] = self._workers[who].open().device
            found = self._workers[who].ask("time", Timed, limit_s=limit_s, **values)
        except WorkerDied as error:
            self._deaths += 1
            if self._deaths > MOST_DEATHS:
                raise
            self._workers[who] = self._started(who)
            self._warm = {one for one in self._warm if one[0] != who}
            return Timed(generations=(), outcome="died", seconds=0.0, why_not=str(error))
        self._warm.add(place)
        return found
