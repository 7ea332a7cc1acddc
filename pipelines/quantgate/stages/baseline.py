"""Today's reference beside the pinned one, item by item, before any variant is compared with it. Pure.

A variant is judged against the reference of its own run. Where the reference itself moved, from a library, a driver, a template or the
machine, a variant that moved along with it loses nothing, and one that stayed where it was seems to lose. So a run with a baseline first
asks whether its reference still answers as the one that a person pinned. These are counts over the very items that the variants are
compared on, no sample of others: they are held to plain limits, and the exact test beside them is only shown.

What was asked must be equal: model, golden set, template, tokenizer, batch plan. What it ran on may differ, and is named where the
reference moved: that is what the comparison is for. An item without an answer counts as wrong, on either side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import fsum

from quantgate.records import (
    BaselineEvidence,
    BaselineLimits,
    BaselineReport,
    BaselineRow,
    BaselineSet,
    Check,
    Evidence,
    GoldenReference,
    Scalar,
    Scale,
    ScoreSheet,
    VariantEvidence,
    Verdict,
)
from quantgate.render.quantities import count, margin_points, p_value, percent, points, significant
from quantgate.stages.marks import digest, ids, number, scores
from quantgate.stages.pairing import plan_words
from quantgate.stages.subject import sheet_of
from quantgate.stages.suspects import changed
from quantgate.stats.inputs import exact
from quantgate.stats.proportions import mcnemar_exact

RAN_ON = ("device", "driver", "threads", "layout")
"""Conditions of a sheet that may differ: the machine, and how an engine lays out its rows there."""
ALL = "*"


# ---------------------------------------------------------------------------------------------- compared


def compared(evidence: Evidence) -> BaselineReport | None:
    """Every golden set of the run beside the baseline; None for a run without one."""
    if (found := evidence.baseline) is None:
        return None
    reference = next(one for one in evidence.variants if one.variant.role == "reference")
    pinned = found.pinned
    if pinned is None:
        return BaselineReport(file=found.file, why_not=found.why_not or "it could not be read")
    why_not = _other_model(pinned.model_sha256, evidence.fingerprint.model_sha256)
    reused = [one.removeprefix("score ") for one in reference.reused if one.startswith("score ")]
    return BaselineReport(
        file=found.file,
        why_not=why_not,
        rows=() if why_not else tuple(_row(found, golden, reference) for golden in evidence.golden_sets),
        run_id=pinned.run_id,
        created_at=pinned.created_at,
        accepted_at=pinned.accepted_at,
        accepted_by=pinned.accepted_by,
        reason=pinned.reason,
        replaced=len(pinned.earlier),
        different=tuple(dict.fromkeys(_different(found, evidence, reference))),
        reused=tuple(reused),
    )


def foreseen(found: BaselineEvidence, golden_sets: Sequence[GoldenReference], model_sha256: str | None) -> Iterator[str]:
    """What is known before anything is measured to keep today's reference from being compared; without a model's digest less is."""
    if found.pinned is None:
        yield found.why_not
        return
    if model_sha256 is not None and (why := _other_model(found.pinned.model_sha256, model_sha256)):
        yield why
    for golden in golden_sets:
        kept = next((one for one in found.pinned.golden_sets if one.name == golden.name), None)
        if kept is None:
            yield f"it holds no golden set {golden.name}"
        elif kept.sha256 != golden.sha256:
            yield f"it pins {golden.name} {kept.version} ({kept.sha256[:12]}), and the run has {golden.version} ({golden.sha256[:12]})"


def _other_model(then: str | None, now: str | None) -> str:
    if then is None or now is None:
        return f"not comparable: the model's digest is not known {'in the baseline' if then is None else 'today'}"
    return "" if then == now else f"not comparable: it pins another model ({then[:12]}, and today's is {now[:12]})"


def _row(found: BaselineEvidence, golden: GoldenReference, reference: VariantEvidence) -> BaselineRow:
    limits = _limits(found.limits, golden.name)
    kept = next((one for one in found.pinned.golden_sets if one.name == golden.name), None) if found.pinned else None
    sheet = sheet_of(reference, golden)
    if kept is None or sheet is None:
        why = f"it holds no golden set {golden.name}" if kept is None else "the reference was not scored on it today"
        return BaselineRow(golden_set=golden.name, holds=False, limits=limits, why_not=why)
    why = next(_not_alike(kept, golden, sheet), "")
    if not why and kept.scale == "unbounded" and limits.golden_set == ALL:
        why = f"its scores have no bounds: give {golden.name} limits of its own, in the score's unit, under 'limits'"
    if why:
        return BaselineRow(golden_set=golden.name, holds=False, limits=limits, why_not=why)
    try:
        return _counted(kept, golden, sheet, limits)
    except ValueError as error:
        return BaselineRow(golden_set=golden.name, holds=False, limits=limits, why_not=str(error))


def _limits(limits: Sequence[BaselineLimits], golden_set: str) -> BaselineLimits:
    own = (one for one in limits if one.golden_set == golden_set)
    return next(own, None) or next((one for one in limits if one.golden_set == ALL), BaselineLimits())


def _not_alike(kept: BaselineSet, golden: GoldenReference, sheet: ScoreSheet) -> Iterator[str]:
    """Each thing that was asked otherwise then, in half a sentence."""
    pairs: list[tuple[str, object, object]] = [
        ("the golden set's digest", kept.sha256[:12], golden.sha256[:12]),
        ("the digest of its item ids", kept.items_sha256[:12], ids(golden)[:12]),
        ("the batch plan", plan_words(kept.batch_plan), plan_words(sheet.batch_plan)),
        *_asked(kept.conditions, sheet.conditions),
        ("the scale of the scores", kept.scale, sheet.scale),
        ("which scores are better", kept.better, sheet.better),
        ("the digest of the first prompt, hence the template,", kept.prompt_sha256[:12], digest(sheet.first_prompt)[:12]),
    ]
    if sheet.stopped is not None:
        yield "scoring of today's reference stopped before the last item"
    yield from (f"not comparable: {what} is {then} in the baseline and {now} today" for what, then, now in pairs if then != now)


def _asked(then: Mapping[str, Scalar], now: Mapping[str, Scalar]) -> Iterator[tuple[str, object, object]]:
    for name in sorted({*then, *now} - {*RAN_ON}):
        yield name, _short(then.get(name, "not known")), _short(now.get(name, "not known"))


def _short(value: Scalar) -> Scalar:
    return value[:12] if isinstance(value, str) and len(value) == 64 else value


def _counted(kept: BaselineSet, golden: GoldenReference, sheet: ScoreSheet, limits: BaselineLimits) -> BaselineRow:
    """The items that came out otherwise. Raises ``ValueError`` where scores cannot be compared item by item."""
    today = {item.item_id: item.value for item in sheet.items}
    then, now = scores(kept), [today.get(one) for one in golden.item_ids]
    scale = _scale(kept, now)
    if scale == "unbounded" and any((one is None) != (other is None) for one, other in zip(then, now, strict=True)):
        raise ValueError("an item has a score on one of the sides only, and scores without bounds have no worst one")
    worst = 1.0 if kept.better == "lower" else 0.0
    sign = -1.0 if kept.better == "lower" else 1.0
    losses = [sign * (_or(one, worst) - _or(_kept_as(other, kept), worst)) for one, other in zip(then, now, strict=True)]
    b, c, n = sum(loss > 0 for loss in losses), sum(loss < 0 for loss in losses), len(losses)
    if not n:
        raise ValueError("the golden set has no item")
    loss = Fraction(b - c, n) if scale == "binary" else Fraction(fsum(losses)).limit_denominator(10**9) / n
    return BaselineRow(
        golden_set=golden.name,
        holds=not _beyond(loss, Fraction(b + c, n), limits),
        limits=limits,
        n=n,
        b=b,
        c=c,
        loss=float(loss),
        mean_then=kept.mean,
        mean_now=sheet.mean,
        scale=scale,
        mcnemar_p=mcnemar_exact(b=b, c=c).two_sided if scale == "binary" else None,
    )


def _scale(kept: BaselineSet, now: Sequence[float | None]) -> Scale:
    if kept.scale == "unbounded":
        return "unbounded"
    if kept.form == "marks" and all(value in (None, 0, 1) for value in now):
        return "binary"
    if all(value is None or 0 <= value <= 1 for value in now):
        return "unit"
    raise ValueError("today's scores are not between 0 and 1, as those of the baseline are")


def _kept_as(value: float | None, kept: BaselineSet) -> float | None:
    """Today's score with the digits that a baseline keeps."""
    return value if value is None or kept.form == "marks" else float(number(value))


def _or(value: float | None, worst: float) -> float:
    return worst if value is None else value


def _beyond(loss: Fraction, flips: Fraction, limits: BaselineLimits) -> bool:
    return (
        loss > exact(limits.max_loss)
        or -loss > exact(limits.max_gain)
        or (limits.max_flips is not None and flips > exact(limits.max_flips))
    )


def _different(found: BaselineEvidence, evidence: Evidence, reference: VariantEvidence) -> Iterator[str]:
    """What else is another one than when the reference was pinned."""
    if (pinned := found.pinned) is None:
        return
    yield from changed(pinned.environment, evidence.fingerprint)
    loaded = reference.loaded
    if loaded is not None and pinned.dtype is not None and loaded.dtype != pinned.dtype:
        yield f"dtype {pinned.dtype} -> {loaded.dtype}"
    if loaded is not None and pinned.weights_sha256 is not None and loaded.weights_sha256 != pinned.weights_sha256:
        yield "weights of the reference as loaded"
    for golden in evidence.golden_sets:
        kept, sheet = next((one for one in pinned.golden_sets if one.name == golden.name), None), sheet_of(reference, golden)
        for name in RAN_ON if kept is not None and sheet is not None else ():
            if kept and sheet and (was := kept.conditions.get(name)) != (now := sheet.conditions.get(name)):
                yield f"{name} {was} -> {now}"


# ---------------------------------------------------------------------------------------------- said


def checks(evidence: Evidence) -> tuple[Check, ...]:
    """A check a golden set on the reference: it is where the baseline has it, or nothing can be measured against it."""
    found = compared(evidence)
    if found is None:
        return ()
    if found.why_not or not found.rows:
        return (_check("baseline", f"has no baseline to be compared with: {found.why_not or 'the run has no golden set'}"),)
    return tuple(_of_row(found, row) for row in found.rows)


def _check(name: str, because: str) -> Check:
    return Check(name=name, tier="required", outcome="not_measured", because=because)


def _of_row(found: BaselineReport, row: BaselineRow) -> Check:
    name = f"baseline/{row.golden_set}"
    if row.why_not:
        how = "pin a reference that was asked alike: quantgate baseline accept RUN --reason TEXT"
        return _check(name, f"cannot be compared with its baseline on {row.golden_set}: {row.why_not}; {how}")
    return Check(
        name=name,
        tier="required",
        outcome="pass" if row.holds else "not_measured",
        because=_stays(found, row) if row.holds else _moved(found, row),
        estimate=row.loss,
        margin=row.limits.max_loss,
        n=row.n,
        b=row.b,
        c=row.c,
        scale=row.scale,
    )


def _since(found: BaselineReport) -> str:
    return f"the baseline of run {found.run_id}"


def _stays(found: BaselineReport, row: BaselineRow) -> str:
    return f"is where {_since(found)} has it on {row.golden_set}: {_flips(row)}{_reused(found, row)}"


def _moved(found: BaselineReport, row: BaselineRow) -> str:
    """What moved, by how much, what was allowed, what else is different, and what to do."""
    tested = "" if row.mcnemar_p is None else f"; p {_equals(p_value(row.mcnemar_p))}"
    other = "; ".join(found.different) or "nothing of code, libraries or machine"
    return (
        f"moved from {_since(found)} on {row.golden_set}: it {amount(row)} ({_flips(row)}{tested}); allowed are {allowed(row)}. "
        f"Different since: {other}. Where that is meant, pin this run's reference: quantgate baseline accept RUN --reason TEXT"
    )


def _equals(text: str) -> str:
    return text if text.startswith("<") else f"= {text}"


def amount(row: BaselineRow) -> str:
    """``loses 2.1 points`` or ``gains 0.4 points``."""
    loss = row.loss or 0.0
    size = significant(abs(loss)) if row.scale == "unbounded" else f"{points(abs(loss))} points"
    return f"{'gains' if loss < 0 else 'loses'} {size}"


def _flips(row: BaselineRow) -> str:
    was, is_now = ("right", "wrong") if row.scale == "binary" else ("better", "worse")
    lost, gained = f"{count(row.b)} {was} then and {is_now} now", f"{count(row.c)} the other way"
    return f"of {count(row.n)} items {lost}, {gained}" if (row.b or row.c) else f"all {count(row.n)} items score as they did"


def allowed(row: BaselineRow) -> str:
    """The limits in words."""
    one, unit = row.limits, "" if row.scale == "unbounded" else " points"
    loss, gain = (significant(each) if row.scale == "unbounded" else margin_points(each) for each in (one.max_loss, one.max_gain))
    flips = "" if one.max_flips is None else f" and {percent(one.max_flips, digits=1)} of the items otherwise"
    return f"a loss of {loss}{unit}, a gain of {gain}{unit}{flips}"


def _reused(found: BaselineReport, row: BaselineRow) -> str:
    if row.golden_set not in found.reused:
        return ""
    return " (scored in an earlier run with the same code, libraries and machine, and not asked again)"


def sentence(found: BaselineReport | None) -> Iterator[str]:
    """One where the baseline holds; one that does not is said with the reference's verdict."""
    if found is not None and found.holds:
        by = f"accepted by {found.accepted_by} on {(found.accepted_at or '')[:10]}"
        yield f"Baseline: the reference {'; '.join(_stays(found, row) for row in found.rows)}; {by}."


# ---------------------------------------------------------------------------------------------- what a moved baseline does to the others


@dataclass(frozen=True, kw_only=True, slots=True)
class Pinned:
    """What comparing the reference with its baseline came to, for the verdicts of a run."""

    checks: tuple[Check, ...] = ()

    @property
    def broken(self) -> tuple[Check, ...]:
        """Those that keep the run from being measured."""
        return tuple(one for one in self.checks if one.outcome != "pass")

    @property
    def moved(self) -> bool:
        """A comparison took place, and the reference is not where it was."""
        return any(one.estimate is not None for one in self.broken)

    def of_variant(self) -> list[Check]:
        """A candidate is not judged against a reference that moved, whatever it seems to lose."""
        if not self.broken:
            return []
        why = "moved from its baseline" if self.moved else "could not be compared with its baseline"
        return [_check("baseline", f"is not judged: the reference {why}")]

    def headline(self, reference: Verdict) -> str:
        """What is said of the run before the reference's own words; empty where something else keeps the reference from counting."""
        names = {one.name for one in self.broken}
        if not names or any(one.outcome != "pass" and one.name not in names for one in reference.checks):
            return ""
        return "the baseline moved: " if self.moved else "the baseline cannot be used: "
