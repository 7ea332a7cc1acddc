"""What is asked of a loaded variant: canary, golden sets, distributions, texts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from quantgate import golden, rundir
from quantgate.errors import MeasureError
from quantgate.measuring.keys import kept_stage, key_of, machine_of, way_of
from quantgate.measuring.processes import LazyProcess, cache_of
from quantgate.measuring.work import Run, noting_failures
from quantgate.records import (
    BatchPlan,
    CanaryReading,
    Distributions,
    DivergenceConfig,
    GoldenSet,
    KLStatistics,
    ScoreSheet,
    TextReading,
    Variant,
)
from quantgate.stages import canary, diverge, early, stopping
from quantgate.texts import Texts

IDENTITY_ROWS_DIVISOR = 4


def ask_canary(work: Run, variant: Variant, one: GoldenSet, lazy: LazyProcess) -> None:
    """The reference stores what it says after the first prompts; a candidate is compared with it before it is scored."""
    rule, prompts = work.config.policy.canary, canary.asked_on(work.config.policy, len(one.items))
    if rule is None or not prompts:
        return
    plan, base = work.config.batch_plan, work.canaries.get(one.name)
    artifact = work.evidence[variant.name].artifact
    parts = {"artifact": artifact, "engine": work.config.engine, "golden": one.sha256, "plan": plan, "prompts": prompts, "base": base}
    key = key_of(work, **parts, **machine_of(work), **way_of(work, variant))
    values = {"golden_set": one.path, "golden_sha256": one.sha256, "plan": plan}
    if variant.role == "reference":

        def store() -> Distributions:
            lazy.open()
            into = str(work.config.cache / "distributions" / f"{key}.npy")
            return lazy.ask("canary_reference", Distributions, into=into, prompts=prompts, **values)

        work.canaries[one.name] = kept_stage(work, variant, f"canary {one.name}", Distributions, key, store, rundir.is_whole)
        return

    def compare() -> CanaryReading:
        lazy.open()
        return lazy.ask("canary", CanaryReading, reference=base, **values)

    if base is None:
        raise MeasureError("what the reference says after the canary's prompts is missing")
    found = canary.ended(kept_stage(work, variant, f"canary {one.name}", CanaryReading, key, compare), rule)
    known = work.evidence[variant.name]
    work.evidence[variant.name] = replace(known, canaries=(*known.canaries, found))


def score_set(work: Run, variant: Variant, one: GoldenSet, lazy: LazyProcess, token_budget: int | None = None) -> None:
    """The variant's score sheet of one golden set into its evidence."""
    plan = _plan(work.config.batch_plan, variant)
    plan = plan if token_budget is None else replace(plan, token_budget=token_budget)
    artifact = work.evidence[variant.name].artifact
    parts = {"artifact": artifact, "golden": one.sha256, "plan": plan}
    key = key_of(work, engine=work.config.engine, **parts, **machine_of(work), **way_of(work, variant), **_early(work, variant, one))

    def make() -> ScoreSheet:
        lazy.open()
        values = {"golden_set": one.path, "golden_sha256": one.sha256, "plan": plan, "variant": variant.name}
        if early.looks_early(work.config.policy):
            return _score_in_parts(work, variant, one, lambda only: lazy.ask("score", ScoreSheet, only=only, **values))
        return lazy.ask("score", ScoreSheet, **values)

    sheet = kept_stage(work, variant, f"score {one.name}", ScoreSheet, key, make)
    lines = "".join(rundir.encode(item) + "\n" for item in sheet.items)
    rundir.write_text(work.folder / "variants" / variant.name / "scores" / f"{one.name}.jsonl", lines)
    known = work.evidence[variant.name]
    work.evidence[variant.name] = replace(known, sheets=(*known.sheets, sheet))


def _early(work: Run, variant: Variant, one: GoldenSet) -> dict[str, Any]:
    """What a sheet depends on besides, where the policy looks early: when a candidate's ends follows from the policy and the reference."""
    if not early.looks_early(work.config.policy):
        return {}
    parts = stopping.parts(work.config.policy, golden.reference_of(one))
    if variant.role != "candidate":
        return {"parts": parts}
    base = work.evidence[work.config.reference.name]
    sheets = [sheet.items for sheet in base.sheets if sheet.golden_sha256 == one.sha256]
    return {"parts": parts, "policy": work.config.policy, "candidates": len(work.config.candidates), "reference": sheets}


def _score_in_parts(work: Run, variant: Variant, one: GoldenSet, ask: Callable[[tuple[str, ...]], ScoreSheet]) -> ScoreSheet:
    """Ask part after part; a candidate's scoring ends where a pass is shown."""
    policy, reference = work.config.policy, golden.reference_of(one)
    known = (work.evidence[work.config.reference.name], work.evidence[variant.name])
    sheets: list[ScoreSheet] = []
    for part in stopping.parts(policy, reference):
        sheets.append(ask(part))
        sheet = stopping.joined(sheets, reference, policy)
        stopped = stopping.enough(sheet, reference, known, (policy, len(work.config.candidates)))
        if stopped is not None:
            asked = f"{len(sheet.items)} of {len(one.items)} items"
            work.display.note(f"{variant.name}: scoring {one.name} stopped after {asked}: a pass is shown")
            return stopped
    return stopping.joined(sheets, reference, policy)


def diverge_or_say(work: Run, variant: Variant, one: GoldenSet, lazy: LazyProcess) -> None:
    """Divergence after the prompts of a golden set, or on the variant's sheet why there is none."""
    why = diverge.why_none(one) if work.texts is None else f"it was taken over the texts {work.texts.name}"
    if why is None:
        before = len(work.evidence[variant.name].failures)
        with noting_failures(work, variant, f"kl {one.name}"):
            _diverge(work, variant, one, lazy)
        failed = work.evidence[variant.name].failures[before:]
        why = failed[0].message if failed else None
    if why is not None and variant.role != "reference":
        known = work.evidence[variant.name]
        sheets = tuple(replace(each, why_no_kl=why) if each.golden_sha256 == one.sha256 else each for each in known.sheets)
        work.evidence[variant.name] = replace(known, sheets=sheets)


def read_texts(work: Run, variant: Variant, texts: Texts, lazy: LazyProcess) -> None:
    """The reference reads first and stores its distributions where there is room; every other variant is compared with them."""
    config = work.config.divergence
    if config is None:
        return
    one, base, reference = work.evidence[variant.name], work.distributions.get(""), work.evidence[work.config.reference.name]
    key = key_of(
        work,
        artifact=one.artifact,
        engine=work.config.engine,
        texts=texts.sha256,
        divergence=replace(config, path=config.name),
        base=None if variant.role == "reference" else (base, reference.artifact),
        **machine_of(work),
        **way_of(work, variant),
    )
    values = {"divergence": config, "texts_sha256": texts.sha256}
    stage = f"read {texts.name}"
    if variant.role == "reference":

        def store() -> Distributions:
            lazy.open()
            return lazy.ask("read", Distributions, into=str(work.config.cache / "distributions" / f"{key}.npy"), **values)

        found = kept_stage(work, variant, stage, Distributions, key, store, rundir.is_whole)
        work.distributions[""] = found
        work.evidence[variant.name] = replace(work.evidence[variant.name], reading=found.reading)
        _say_how(work, config, found)
        return

    def compare() -> TextReading:
        lazy.open()
        asked = {"reference": base, "reference_artifact": reference.artifact, "engine": work.config.engine, "device": work.config.device}
        return lazy.ask("compare", TextReading, **asked, **values, **cache_of(work, reference.variant))

    if base is None:
        raise MeasureError(f"the reference did not read the texts {texts.name}")
    read = kept_stage(work, variant, stage, TextReading, key, compare)
    work.evidence[variant.name] = replace(work.evidence[variant.name], reading=read)


def _say_how(work: Run, config: DivergenceConfig, found: Distributions) -> None:
    if found.why_not_stored and config.reference == "auto":
        work.display.note(
            f"the reference's distributions over {config.name} are not stored, {found.why_not_stored}: each variant's process runs the "
            "reference beside it"
        )


def agree_on_plans(work: Run) -> None:
    """Where a variant ran out of memory and was scored under a smaller token budget, score all the others under it too.

    Answers may depend on the batch. A variant that cannot be scored so loses its sheet, which counts as not measured.
    """
    for one in work.goldens:
        while behind := _behind(work, one):
            variant, least = behind
            why = f"scoring {one.name} again in batches of {least} tokens: another variant had no memory for more"
            work.display.note(f"{variant.name}: {why}")
            _score_again(work, variant, one, least)


def _behind(work: Run, one: GoldenSet) -> tuple[Variant, int] | None:
    """A variant whose sheet is of a larger token budget than the smallest, and that one."""
    sheets = {
        variant.name: sheet
        for variant in work.config.variants
        for sheet in work.evidence[variant.name].sheets
        if sheet.golden_sha256 == one.sha256
    }
    least = min((sheet.batch_plan.token_budget for sheet in sheets.values()), default=0)
    larger = (each for each in work.config.variants if each.name in sheets and sheets[each.name].batch_plan.token_budget > least)
    found = next(larger, None)
    return None if found is None else (found, least)


def _score_again(work: Run, variant: Variant, one: GoldenSet, token_budget: int) -> None:
    """Replace a sheet by one of a smaller budget, in a process of its own; what its distributions said stays."""
    known = work.evidence[variant.name]
    before = next(sheet for sheet in known.sheets if sheet.golden_sha256 == one.sha256)
    work.evidence[variant.name] = replace(known, sheets=tuple(sheet for sheet in known.sheets if sheet is not before))
    with ExitStack() as stack, noting_failures(work, variant, f"score {one.name}"):
        score_set(work, variant, one, LazyProcess(work, variant, stack), token_budget)
    known = work.evidence[variant.name]
    sheets = [
        replace(sheet, kl=before.kl, why_no_kl=before.why_no_kl) if sheet.golden_sha256 == one.sha256 else sheet
        for sheet in known.sheets
    ]
    place = [golden.sha256 for golden in work.goldens].index
    work.evidence[variant.name] = replace(known, sheets=tuple(sorted(sheets, key=lambda sheet: place(sheet.golden_sha256))))


def _diverge(work: Run, variant: Variant, one: GoldenSet, lazy: LazyProcess) -> None:
    """The reference stores its distributions; every other variant is compared with them."""
    plan = _plan(work.config.batch_plan, variant)
    artifact = work.evidence[variant.name].artifact
    base = work.distributions.get(one.name)
    parts = {"artifact": artifact, "golden": one.sha256, "plan": plan, "base": base}
    key = key_of(work, engine=work.config.engine, **parts, **machine_of(work), **way_of(work, variant))
    values = {"golden_set": one.path, "golden_sha256": one.sha256, "plan": plan}
    if variant.role == "reference":

        def store() -> Distributions:
            lazy.open()
            into = str(work.config.cache / "distributions" / f"{key}.npy")
            return lazy.ask("distributions", Distributions, into=into, **values)

        work.distributions[one.name] = kept_stage(work, variant, f"kl {one.name}", Distributions, key, store, rundir.is_whole)
        return

    def compare() -> KLStatistics:
        lazy.open()
        return lazy.ask("divergence", KLStatistics, reference=base, **values)

    if base is None:
        raise MeasureError("the reference's distributions are missing")
    kl = kept_stage(work, variant, f"kl {one.name}", KLStatistics, key, compare)
    known = work.evidence[variant.name]
    sheets = tuple(replace(sheet, kl=kl) if sheet.golden_sha256 == one.sha256 else sheet for sheet in known.sheets)
    work.evidence[variant.name] = replace(known, sheets=sheets)


def _plan(plan: BatchPlan, variant: Variant) -> BatchPlan:
    """The identity control scores under other batches: what moves then is the noise of batching."""
    if variant.role != "identity":
        return plan
    other = plan.max_rows // IDENTITY_ROWS_DIVISOR if plan.max_rows > 1 else IDENTITY_ROWS_DIVISOR
    return replace(plan, max_rows=max(1, other))
