"""Named results of other tools -> evidence: matched by task and item, with what a reader must know of them. Pure.

The reference's items define each set. What the files state of how they were taken must agree, which the gate checks; marks of single
items, such as the digest of a prompt, are compared here, where the items are, and become one condition each.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isclose

from quantgate.records import (
    BatchPlan,
    GoldenItem,
    GoldenPart,
    GoldenReference,
    GoldenSet,
    ItemScore,
    Results,
    Role,
    Scalar,
    ScoreSheet,
    TaskResults,
    Variant,
    VariantEvidence,
)
from quantgate.render.quantities import count, percent
from quantgate.stages.pairing import CONDITIONS, FIRST_DIFFERENT

UNNAMED = "items"
"""Name of the golden set where neither file names its task."""
_LISTED = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """One model's results under the name they are judged by."""

    name: str
    role: Role
    results: Results
    how: str
    """``read as lm_eval``, with how that was known."""
    known: VariantEvidence | None = None
    """What a run of our own knows of it besides."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Matched:
    """All sides on the reference's sets."""

    variants: tuple[VariantEvidence, ...]
    references: tuple[GoldenReference, ...]
    golden_sets: tuple[GoldenSet, ...]
    notes: tuple[str, ...]


def match(sides: Sequence[Side], chance_level: float | None) -> Matched:
    """The reference, which comes first, and every other side on its sets. ``chance_level``: as given, None where it was not."""
    reference, others = sides[0], sides[1:]
    sets = tuple(_golden(task, chance_level, others) for task in reference.results.tasks)
    variants = tuple(_evidence(side, reference, sets) for side in sides)
    return Matched(
        variants=variants,
        references=tuple(one.reference for one in sets),
        golden_sets=tuple(one.questions for one in sets),
        notes=tuple(_notes(sides, sets, variants)),
    )


# ---------------------------------------------------------------------------------------------- golden sets


@dataclass(frozen=True, kw_only=True, slots=True)
class _Set:
    """A golden set as the reference's results define it."""

    task: TaskResults
    reference: GoldenReference
    questions: GoldenSet
    chance_from: str
    digests: Mapping[str, str]
    """Of each mark over all items."""


def _golden(task: TaskResults, given: float | None, others: Sequence[Side]) -> _Set:
    theirs = [side.results.tasks[0].name for side in others if len(side.results.tasks) == 1]
    name = task.name or next((one for one in theirs if one), UNNAMED)
    items = tuple({item.item_id: item for item in reversed(task.items)}.values())[::-1]
    chance, chance_from = _chance(task, given)
    sha256 = _questions_digest(name, task, items)
    reference = GoldenReference(
        name=name,
        version=task.metric or "scores",
        sha256=sha256,
        item_ids=tuple(item.item_id for item in items),
        chance_level=chance,
        parts=tuple(_parts(items, chance)),
    )
    questions = GoldenSet(
        name=name,
        version=reference.version,
        sha256=sha256,
        items=tuple(
            GoldenItem(
                item_id=item.item_id, slice=item.slice, prompt=task.prompts.get(item.item_id, ""), metric=task.metric
            )
            for item in items
        ),
        path="",
    )
    digests = {field: _short(marks) for field, marks in task.marks.items()}
    return _Set(task=task, reference=reference, questions=questions, chance_from=chance_from, digests=digests)


def _chance(task: TaskResults, given: float | None) -> tuple[float, str]:
    if given is not None:
        implied = (
            ""
            if task.chance_level is None
            else f", the choices in the file give {percent(task.chance_level, digits=1)}"
        )
        return given, f"as given{implied}"
    if task.chance_level is not None:
        return task.chance_level, "from the number of choices in the file"
    return 0.0, "as the file does not say it; give --chance for multiple choice"


def _parts(items: Sequence[ItemScore], chance: float) -> Iterator[GoldenPart]:
    by_slice: dict[str, list[ItemScore]] = {}
    for item in items:
        by_slice.setdefault(item.slice, []).append(item)
    overall = _guessing(items)
    for name, found in by_slice.items():
        own = _guessing(found) if overall is not None and isclose(overall, chance) else None
        yield GoldenPart(
            name=name, item_ids=tuple(item.item_id for item in found), chance_level=chance if own is None else own
        )


def _guessing(items: Sequence[ItemScore]) -> float | None:
    """Mean of 1 / choices, where every item has log-likelihoods."""
    counts = [len(item.evidence.loglikelihoods) for item in items]
    return sum(1 / one for one in counts) / len(counts) if min(counts, default=0) > 0 else None


def _questions_digest(name: str, task: TaskResults, items: Sequence[ItemScore]) -> str:
    fields = sorted(task.marks)
    rows = [[item.item_id, *(task.marks[field].get(item.item_id) for field in fields)] for item in items]
    text = json.dumps([name, task.metric, fields, rows], ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


# ---------------------------------------------------------------------------------------------- evidence


def _evidence(side: Side, reference: Side, sets: Sequence[_Set]) -> VariantEvidence:
    sheets = tuple(sheet for one in sets if (sheet := _sheet(side, reference, one)) is not None)
    options: dict[str, Scalar] = {"file": side.results.path, "sha256": side.results.sha256}
    if side.known is not None:
        variant = replace(side.known.variant, name=side.name, role=side.role)
        return replace(side.known, variant=variant, sheets=sheets, speed=None, reused=(), source="file")
    variant = Variant(name=side.name, quantizer=side.results.source, role=side.role, options=options)
    return VariantEvidence(variant=variant, sheets=sheets, source="file")


def _matching(side: Side, reference: Side, one: _Set) -> TaskResults | None:
    """The side's results on a set: by the task's name, or where each file has one task and one of them does not name it."""
    theirs = side.results.tasks
    if (
        side is not reference
        and len(theirs) == len(reference.results.tasks) == 1
        and not (theirs[0].name and one.task.name)
    ):
        return theirs[0]
    return next((task for task in theirs if task.name == one.task.name), None)


def _sheet(side: Side, reference: Side, one: _Set) -> ScoreSheet | None:
    task = _matching(side, reference, one)
    if task is None:
        return None
    golden = one.reference
    first = golden.item_ids[0] if golden.item_ids else ""
    return ScoreSheet(
        variant=side.name,
        golden_set=golden.name,
        golden_version=golden.version,
        golden_sha256=golden.sha256,
        items=task.items,
        batch_plan=BatchPlan(),
        conditions={**_stated(task), **_marked(task, one)},
        first_prompt=task.prompts.get(first, ""),
        scale=task.scale,
        better=task.better,
        stopped=task.stopped,
    )


def _stated(task: TaskResults) -> dict[str, Scalar]:
    return {**task.conditions, **({"metric": task.metric} if task.metric else {})}


def _marked(task: TaskResults, one: _Set) -> dict[str, Scalar]:
    """Each mark as one digest over all items: the reference's where the items agree, else with the first that does not."""
    found: dict[str, Scalar] = {}
    for field, theirs in task.marks.items():
        ours = one.task.marks.get(field)
        if ours is None:
            found[field] = _short(theirs)
        elif theirs == ours:
            found[field] = one.digests[field]
        else:
            odd = next((item for item, mark in theirs.items() if ours.get(item, mark) != mark), None)
            found[field] = one.digests[field] if odd is None else f"{_short(theirs)}{FIRST_DIFFERENT}{odd}"
    return found


def _short(marks: Mapping[str, str]) -> str:
    text = "\n".join(f"{item}\t{mark}" for item, mark in marks.items())
    return hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).hexdigest()[:12]


# ---------------------------------------------------------------------------------------------- what is said


def _notes(sides: Sequence[Side], sets: Sequence[_Set], variants: Sequence[VariantEvidence]) -> Iterator[str]:
    """What a reader of the report must know of the files, a sentence each."""
    reference, others = sides[0], sides[1:]
    for side in sides:
        items = sum(len(task.items) for task in side.results.tasks)
        yield f"{side.name}: {count(items)} items from {side.results.path}, {side.how}{_chosen(side.results.tasks)}."
        yield from (f"{side.name}: {note}." for note in side.results.notes)
    for one in sets:
        yield f"{one.reference.name}: the chance level is {percent(one.reference.chance_level, digits=1)}, {one.chance_from}."
    for side in others:
        if side.results.sha256 == reference.results.sha256:
            yield f"{side.name}: its file is the reference's, byte for byte."
        for one in sets:
            yield from _items_that_differ(side, _matching(side, reference, one), one)
        known = [id(_matching(side, reference, one)) for one in sets]
        for task in (task for task in side.results.tasks if id(task) not in known):
            yield f"{side.name}: task {task.name} is not in the reference's results and is not looked at."
    yield _unknown(variants)


def _chosen(tasks: Sequence[TaskResults]) -> str:
    """The metrics and filters that were read."""
    metrics = dict.fromkeys(task.metric for task in tasks if task.metric)
    filters = dict.fromkeys(str(task.conditions["filter"]) for task in tasks if "filter" in task.conditions)
    said = [f", {word} {', '.join(names)}" for word, names in (("metric", metrics), ("filter", filters)) if names]
    return "".join(said)


def _items_that_differ(side: Side, task: TaskResults | None, one: _Set) -> Iterator[str]:
    if task is None:
        return
    theirs, ours = {item.item_id for item in task.items}, set(one.reference.item_ids)
    if missing := [item for item in one.reference.item_ids if item not in theirs]:
        yield f"{side.name}: {_listed(missing)} missing on {one.reference.name}{_counted(task, one.task)}."
    if unknown := list(dict.fromkeys(item.item_id for item in task.items if item.item_id not in ours)):
        share = percent(len(unknown) / (len(ours) + len(unknown)), digits=1)
        yield f"{side.name}: {_listed(unknown)} on {one.reference.name} that the reference's results lack, {share} of all items."


def _counted(task: TaskResults, base: TaskResults) -> str:
    """What becomes of an item that is missing: without bounds there is no worst score that it could count as."""
    unbounded = "unbounded" in (task.scale, base.scale) or any(
        item.value is not None and not 0 <= item.value <= 1 for one in (task, base) for item in one.items
    )
    return ", and its scores have no worst one to count as" if unbounded else ", counted as lost"


def _listed(ids: Sequence[str]) -> str:
    more = f" and {count(len(ids) - _LISTED)} more" if len(ids) > _LISTED else ""
    return f"{count(len(ids))} {'item' if len(ids) == 1 else 'items'} ({', '.join(ids[:_LISTED])}{more})"


def _unknown(variants: Sequence[VariantEvidence]) -> str:
    """Which conditions were not compared, as one of two files does not state them."""
    stated = [set(sheet.conditions) for one in variants for sheet in one.sheets]
    on_all = set.intersection(*stated) if stated else set()
    names = {*CONDITIONS, "batch_plan"}.union(*stated) - on_all
    said = ", ".join(sorted(name.replace("_", " ") for name in names))
    return f"Not stated by every file, so not compared: {said}." if said else "Every condition is stated by every file."
