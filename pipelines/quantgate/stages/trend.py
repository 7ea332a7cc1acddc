"""Nights in a row -> each figure's series, with the changes that no night's own noise explains.

Quality is the loss against the same night's reference, item by item, and its noise is how often the same items come out otherwise
from one night to the next. The reference's own share of wrong answers is a series, too: where it moves, the baseline moved. Nothing
is read or written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import mean

import numpy as np

from quantgate.records import (
    Evidence,
    GoldenReference,
    Night,
    ScoreSheet,
    Trend,
    TrendChange,
    Trended,
    TrendPoint,
    TrendSeries,
    VariantEvidence,
)
from quantgate.stages import alike
from quantgate.stages.suspects import changed
from quantgate.stats import drift
from quantgate.stats.paired import loss_lower, loss_upper

ALPHA = 0.05
"""One-sided, of each bound of a night's loss."""
EXACT = 0.001
"""Share of the level under which a figure without noise is taken as unchanged."""
ENOUGH = 3
"""Nights, tonight's among them, from which on a page shows a series."""
LESS_IS_WORSE: frozenset[Trended] = frozenset({"freed", "ceiling", "tokens_per_s"})


def trend(model: str, nights: Sequence[Night], notes: Sequence[str]) -> Trend:
    """Every series of the nights, which come oldest first."""
    last = nights[-1].evidence
    series: list[TrendSeries] = []
    said = list(notes)
    for one in last.variants:
        if one.variant.role == "known_bad":
            continue
        same = _same(one, nights, said)
        for golden in last.golden_sets:
            series += _answers(one, golden, same, said)
            series += _plain(one, "kl", same, golden)
        series += _plain(one, "freed", same, None)
        here = _same_place(one, same)
        series += [each for what in ("ceiling", "tokens_per_s") for each in _plain(one, what, here, None)]
    return Trend(model=model, nights=tuple(one.run_id for one in nights), series=tuple(series), notes=tuple(dict.fromkeys(said)))


def for_page(model: str, nights: Sequence[Night]) -> Trend | None:
    """What a report looks back on: series with a point on tonight's run and on ``ENOUGH`` nights at least; None without one."""
    found = trend(model, nights, ())
    tonight = nights[-1].run_id
    series = tuple(one for one in found.series if len(one.points) >= ENOUGH and one.points[-1].run_id == tonight)
    return replace(found, series=series, notes=()) if series else None


def _same(one: VariantEvidence, nights: Sequence[Night], said: list[str]) -> list[Night]:
    """The nights on which the name meant the same variant: another scheme under its name is no drift."""
    named = [(night, each) for night in nights if (each := _named(night.evidence, one.variant.name)) is not None]
    found = [(night, alike.other_definition(each, one)) for night, each in named]
    if others := [why for _, why in found if why is not None]:
        said.append(f"{one.variant.name}: {len(others)} of {len(nights)} nights are of another variant of that name; {others[-1]}")
    return [night for night, why in found if why is None]


def _same_place(one: VariantEvidence, nights: Sequence[Night]) -> list[Night]:
    """The nights whose ceiling and speed can be compared: the same device, lengths and budget."""
    return [
        night
        for night in nights
        if (each := _named(night.evidence, one.variant.name)) is not None
        and alike.other_device(each.device, one.device) is None
        and alike.other_lengths(each.capacity, one.capacity) is None
    ]


def _named(evidence: Evidence, name: str) -> VariantEvidence | None:
    return next((one for one in evidence.variants if one.variant.name == name), None)


# ---------------------------------------------------------------------------------------------- answers


def _answers(one: VariantEvidence, golden: GoldenReference, nights: Sequence[Night], said: list[str]) -> Iterator[TrendSeries]:
    name, is_reference = one.variant.name, one.variant.role == "reference"
    found = [(night, _losses(night.evidence, name, golden)) for night in nights]
    there = [(night, losses) for night, losses in found if losses is not None]
    if len(there) < len(nights):
        said.append(f"{name} on {golden.name} {golden.version}: {len(there)} of {len(nights)} nights hold scores of these very items")
    if len(there) < 2:
        return
    losses = np.array([one for _, one in there])
    moved = np.diff(losses, axis=0)
    noise = drift.ItemChanges(squares=(moved**2).sum(axis=1), fourths=(moved**4).sum(axis=1), items=losses.shape[1])
    changes = drift.changes(losses.mean(axis=1), noise=noise)
    rows = [night for night, _ in there]
    yield TrendSeries(
        variant=name,
        role=one.variant.role,
        what="error" if is_reference else "loss",
        golden_set=golden.name,
        points=tuple(_point(night, row, is_reference) for night, row in zip(rows, losses, strict=True)),
        changes=tuple(_change(rows, each, "loss") for each in changes),
    )


def _losses(evidence: Evidence, name: str, golden: GoldenReference) -> list[float] | None:
    """Each item's loss against the reference; of the reference itself, each item's distance from right. None where not comparable."""
    reference = next((one for one in evidence.variants if one.variant.role == "reference"), None)
    variant = _named(evidence, name)
    ours, theirs = _sheet(variant, golden), _sheet(reference, golden)
    if ours is None or theirs is None:
        return None
    right, base = _values(ours), _values(theirs)
    graded = [value for value in (*right.values(), *base.values()) if value is not None]
    if any(not 0 <= value <= 1 for value in graded):
        return None
    if variant is reference:
        return [1.0 - (base.get(item) or 0.0) for item in golden.item_ids]
    return [_loss(base.get(item), right.get(item)) for item in golden.item_ids]


def _loss(reference: float | None, variant: float | None) -> float:
    """An item without an answer of the variant is lost; one without an answer of the reference alone says nothing."""
    if variant is None:
        return 1.0
    return 0.0 if reference is None else reference - variant


def _sheet(one: VariantEvidence | None, golden: GoldenReference) -> ScoreSheet | None:
    sheets = () if one is None else one.sheets
    return next((sheet for sheet in sheets if sheet.golden_set == golden.name and sheet.golden_sha256 == golden.sha256), None)


def _values(sheet: ScoreSheet) -> dict[str, float | None]:
    return {item.item_id: item.value for item in sheet.items}


def _point(night: Night, losses: np.ndarray[tuple[int], np.dtype[np.float64]], is_reference: bool) -> TrendPoint:
    value, n = float(losses.mean()), len(losses)
    b, c = int((losses == 1).sum()), int((losses == -1).sum())
    lower: float | None = None
    upper: float | None = None
    if not is_reference and b + c == int((losses != 0).sum()):
        lower, upper = (each(b=b, c=c, n=n, alpha=ALPHA) for each in (loss_lower, loss_upper))
    return TrendPoint(run_id=night.run_id, created_at=night.created_at, value=value, lower=lower, upper=upper)


# ---------------------------------------------------------------------------------------------- other figures


def _plain(one: VariantEvidence, what: Trended, nights: Sequence[Night], golden: GoldenReference | None) -> Iterator[TrendSeries]:
    found = [(night, _figure(night, one.variant.name, what, golden)) for night in nights]
    there = [(night, point) for night, point in found if point is not None]
    if len(there) < 2:
        return
    values = np.array([point.value for _, point in there])
    rows = [night for night, _ in there]
    yield TrendSeries(
        variant=one.variant.name,
        role=one.variant.role,
        what=what,
        golden_set=None if golden is None else golden.name,
        points=tuple(point for _, point in there),
        changes=tuple(_change(rows, each, what) for each in drift.changes(values, noise=EXACT * float(np.abs(values).mean()))),
    )


def _figure(night: Night, name: str, what: Trended, golden: GoldenReference | None) -> TrendPoint | None:
    one = _named(night.evidence, name)
    if one is None:
        return None
    value, lower, upper = _measured(one, night.evidence, what, golden)
    if value is None:
        return None
    return TrendPoint(run_id=night.run_id, created_at=night.created_at, value=value, lower=lower, upper=upper)


def _measured(
    one: VariantEvidence, evidence: Evidence, what: Trended, golden: GoldenReference | None
) -> tuple[float | None, float | None, float | None]:
    """A figure with the lowest and highest of the night, where it was measured several times."""
    if what == "kl":
        sheet = None if golden is None else _sheet(one, golden)
        return (None if sheet is None or sheet.kl is None else sheet.kl.mean), None, None
    if what == "freed":
        return _freed(one, evidence), None, None
    if what == "ceiling":
        return (None if one.capacity is None or one.capacity.confirmed is None else float(one.capacity.confirmed)), None, None
    rates = [] if one.speed is None or one.capacity is None or not one.capacity.confirmed else one.speed.rates(one.capacity.confirmed)
    spread = (min(rates), max(rates)) if len(rates) > 1 else (None, None)  # one block says nothing of its own spread
    return one.tokens_per_s_at_ceiling, *spread


def _freed(one: VariantEvidence, evidence: Evidence) -> float | None:
    """Bytes of weights that the variant frees against the night's reference."""
    base = next((each.loaded for each in evidence.variants if each.variant.role == "reference"), None)
    if base is None or one.variant.role == "reference":
        return None
    if one.artifact is not None and one.artifact.simulated:
        ours = one.artifact.simulated_weight_bytes
    else:
        ours = None if one.loaded is None else one.loaded.weight_bytes
    return None if ours is None else float(base.weight_bytes - ours)


# ---------------------------------------------------------------------------------------------- changes


def _change(nights: Sequence[Night], found: drift.Change, what: Trended) -> TrendChange:
    return TrendChange(
        since=nights[found.start].run_id,
        told=nights[found.told].run_id,
        nights=found.told - found.start + 1,
        before=found.before,
        after=found.after,
        z=found.z,
        worse=(found.after < found.before) == (what in LESS_IS_WORSE),
        suspects=tuple(changed(nights[found.start - 1].evidence.fingerprint, nights[found.start].evidence.fingerprint)),
    )


def level(series: TrendSeries) -> float:
    """Mean of the nights since the last change."""
    since = series.changes[-1].since if series.changes else series.points[0].run_id
    at = next(index for index, point in enumerate(series.points) if point.run_id == since)
    return mean(point.value for point in series.points[at:])
