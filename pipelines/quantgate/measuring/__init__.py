"""Everything that a run measures, one variant at a time, each in a process of its own.

``quantize`` for all, then ``load -> capacity -> score -> kl`` (or ``read``) for each,
then ``roof`` for the device, and ``time`` with the reference's process and a variant's in turn.
A stage that is done is kept under the digest of everything it depends on: a resumed run skips it, and a later run on the same machine uses
it again. Speed is never used again: machines drift. A failure is evidence of its variant and does not take the others along.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from quantgate.errors import MeasureError
from quantgate.measuring.building import build_variant
from quantgate.measuring.filling import fill
from quantgate.measuring.keys import accelerator, kept_stage, key_of, machine_of, way_of
from quantgate.measuring.processes import LazyProcess
from quantgate.measuring.scoring import agree_on_plans, ask_canary, diverge_or_say, read_texts, score_set
from quantgate.measuring.timing import time_all
from quantgate.measuring.work import Run, is_filled, noting_failures
from quantgate.records import Opened, Variant, VariantEvidence
from quantgate.stages import canary


def measure_all(work: Run) -> None:
    """Build all, then load, score and fill each, then time. The reference comes first: nothing is worth measuring without it."""
    variants = sorted(work.config.variants, key=lambda one: one.role != "reference")
    work.accelerator = accelerator(work)
    for variant in variants:
        work.evidence[variant.name] = VariantEvidence(variant=variant)
        with noting_failures(work, variant, "quantize"):
            build_variant(work, variant)
        if variant.role == "reference":
            _require_reference(work)
    for variant in variants:
        if work.evidence[variant.name].artifact is not None:
            _measure(work, variant)
        if variant.role == "reference" and work.evidence[variant.name].loaded is None:
            return
    agree_on_plans(work)
    time_all(work)


def _require_reference(work: Run) -> None:
    one = work.evidence[work.config.reference.name]
    work.base = one.artifact
    if one.artifact is None:
        raise MeasureError(f"the reference could not be prepared: {one.failures[0].message}")


def _measure(work: Run, variant: Variant) -> None:
    """Load, fill and score one variant in one process; the fill first, while nothing but the weights has been in memory."""
    with ExitStack() as stack:
        lazy = LazyProcess(work, variant, stack)
        with noting_failures(work, variant, "load"):
            _load(work, variant, lazy)
        if work.evidence[variant.name].loaded is None:
            return
        artifact = work.evidence[variant.name].artifact
        if is_filled(variant) and artifact is not None and not artifact.simulated:
            with noting_failures(work, variant, "capacity"):
                fill(work, variant, lazy)
        for one in work.goldens if is_filled(variant) else ():
            with noting_failures(work, variant, f"canary {one.name}"):
                ask_canary(work, variant, one, lazy)
            if canary.is_stopped(work.evidence[variant.name]):
                work.display.note(f"{variant.name}: the canary on {one.name} shows that it is broken; it is not scored")
                return
        for one in work.goldens:
            with noting_failures(work, variant, f"score {one.name}"):
                score_set(work, variant, one, lazy)
            diverge_or_say(work, variant, one, lazy)
        if work.texts is not None:
            with noting_failures(work, variant, f"read {work.texts.name}"):
                read_texts(work, variant, work.texts, lazy)


def _load(work: Run, variant: Variant, lazy: LazyProcess) -> None:
    artifact = work.evidence[variant.name].artifact
    key = key_of(work, artifact=artifact, engine=work.config.engine, **machine_of(work), **way_of(work, variant))
    found = kept_stage(work, variant, "load", Opened, key, lazy.open)
    work.evidence[variant.name] = replace(work.evidence[variant.name], loaded=found.loaded, device=found.device)
