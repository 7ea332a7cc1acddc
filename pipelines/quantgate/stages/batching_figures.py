"""Static against continuous batching in figures: a row for each engine, way and pattern of arrivals, their ratios, and the sentences. Pure.

The baseline of a speed is the variant's static batches in the run's own engine, which is what one has without a serving engine. Utilisation
and the times between tokens are compared within an engine: so what scheduling does is kept apart from what other kernels do. Nothing is
compared that was cut, served too much, or gave other ids in float32 than each request gets alone, ties aside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import geometric_mean

from quantgate.records import BatchingRow, BatchingRun, FirstDifference, ScheduleBar, ServedRequest, Tail
from quantgate.render.quantities import count, duration, fixed, milliseconds, per_s, percent, significant
from quantgate.stages.percentiles import median_of_known, percentile

TIE_NATS = 1e-3
"""Where alone preferred its own id by less than this, another kernel's rounding decides in float32."""
ALIKE = 0.05
"""Speeds that differ by less than this share are called alike: one run says no more."""
EXACT = "float32"


@dataclass(frozen=True, kw_only=True, slots=True)
class LeverFigure:
    """A figure that a policy may limit, or None with the reason. ``sentence`` holds ``{}`` where the figure is said."""

    name: str
    value: float | None = None
    sentence: str = ""
    why_not: str = ""


# ---------------------------------------------------------------------------------------------- rows


def rows_of(runs: Sequence[BatchingRun]) -> tuple[BatchingRow, ...]:
    """A row for each variant, engine, way and pattern of arrivals, repeats together, in the order in which they were first served."""
    groups: dict[tuple[str, str, str, str], list[BatchingRun]] = {}
    for run in runs:
        groups.setdefault((run.variant, run.arrivals.label, run.engine, run.mode), []).append(run)
    plain = [_row(group) for group in groups.values()]
    return tuple(_with_ratios(row, plain) for row in plain)


def _row(runs: Sequence[BatchingRun]) -> BatchingRow:
    first = runs[0]
    why_not = next((why for run in runs if (why := why_unusable(run)) is not None), None)
    shown: Sequence[BatchingRun] = () if why_not else runs
    served = [one for run in shown for one in run.requests]
    surest = max((one for run in shown for one in run.differences), key=_sureness, default=None)
    compared = all(run.compared for run in shown) and bool(shown)
    return BatchingRow(
        variant=first.variant,
        engine=first.engine,
        mode=first.mode,
        arrivals=first.arrivals.label,
        rows=first.rows,
        requests=len(first.requests),
        repeats=len(runs),
        dtype=first.dtype,
        library=first.library,
        useful_tokens=shown[0].useful_tokens if shown else None,
        useful_tokens_per_s=median_of_known(run.useful_tokens_per_s for run in shown),
        rates_per_s=tuple(rate for run in shown if (rate := run.useful_tokens_per_s) is not None),
        utilisation=median_of_known(run.utilisation for run in shown),
        steps=shown[0].steps if shown else None,
        wall_s=median_of_known(run.wall_s for run in shown),
        ttft=tail(value for one in served if (value := one.ttft_s) is not None),
        itl=tail(value for one in served for value in one.itl_s),
        queued=tail(value for one in served if (value := one.queued_s) is not None),
        preemptions=_sum(run.preemptions for run in shown),
        recomputed_tokens=_sum(run.recomputed_tokens for run in shown),
        differing=len({one.request_id for run in shown for one in run.differences}) if compared else None,
        first_difference=surest,
        ties_only=all(_is_tie(one) for run in shown for one in run.differences),
        why_not=why_not,
        schedule=tuple(schedule(shown[0])) if shown and first.mode != "alone" else (),
    )


def why_unusable(run: BatchingRun) -> str | None:
    """Why a run says nothing: it did not run or did not end, or a request got fewer or more tokens than it asked for."""
    if run.why_not is not None:
        return run.why_not
    wrong = [one for one in run.requests if not one.whole]
    if wrong:
        one, others = wrong[0], f", and {count(len(wrong) - 1)} others are wrong too" if len(wrong) > 1 else ""
        return (
            f"request {one.request_id} got {count(one.produced_tokens)} of {count(one.requested_tokens)} tokens{others}: nothing is "
            "compared with a run that cuts or overfills its requests"
        )
    return None if run.requests else "it holds no request"


def tail(values: Iterable[float]) -> Tail | None:
    """Middle and tail, each a time that was measured; None without a value."""
    found = list(values)
    p50, p90, p99 = (percentile(found, percent) for percent in (50, 90, 99))
    if p50 is None or p90 is None or p99 is None:
        return None
    return Tail(n=len(found), p50_s=p50, p90_s=p90, p99_s=p99)


def _sum(values: Iterable[int | None]) -> int | None:
    found = list(values)
    known = [value for value in found if value is not None]
    return sum(known) if known and len(known) == len(found) else None


def _sureness(one: FirstDifference) -> float:
    """How sure alone was of its own id; a difference without a margin is taken for the worst."""
    return float("inf") if one.margin_nats is None else one.margin_nats


def _is_tie(one: FirstDifference) -> bool:
    return one.margin_nats is not None and one.margin_nats < TIE_NATS


# ---------------------------------------------------------------------------------------------- ratios


def _with_ratios(row: BatchingRow, rows: Sequence[BatchingRow]) -> BatchingRow:
    if row.mode == "alone":
        return row
    alike = [one for one in rows if (one.variant, one.arrivals) == (row.variant, row.arrivals)]
    baseline = baseline_of(row, rows)
    own = next((one for one in alike if one.mode == "static" and one.engine == row.engine), None)
    row = replace(row, speed_ratio=None if row is baseline or baseline is None else _faster(row, baseline))
    if row.mode != "continuous" or own is None:
        return row
    p99s = [None if one.itl is None else one.itl.p99_s for one in (row, own)]
    return replace(
        row,
        own_speed_ratio=_faster(row, own),
        utilisation_gain=_ratio(row.utilisation, own.utilisation),
        itl_p99_ratio=_ratio(*p99s),
    )


def baseline_of(row: BatchingRow, rows: Sequence[BatchingRow]) -> BatchingRow | None:
    """The first static row of the same variant and arrivals: that of the run's own engine."""
    served = [one for one in rows if one.mode == "alone" and one.variant == row.variant]
    own = served[0].engine if served else None
    static = [one for one in rows if (one.variant, one.arrivals, one.mode) == (row.variant, row.arrivals, "static")]
    return next((one for one in static if own in (None, one.engine)), None)


def _faster(row: BatchingRow, other: BatchingRow) -> float | None:
    """Geometric mean of the repeats' rates over that of the other's: a machine that drifts steadily cancels where the ways alternate."""
    ours, theirs = row.rates_per_s, other.rates_per_s
    return geometric_mean(ours) / geometric_mean(theirs) if ours and theirs and min(*ours, *theirs) > 0 else None


def _ratio(ours: float | None, theirs: float | None) -> float | None:
    return ours / theirs if ours is not None and theirs else None


# ---------------------------------------------------------------------------------------------- the schedule


def schedule(run: BatchingRun) -> Iterator[ScheduleBar]:
    """Which row held which request, and until when: in a static batch until its longest one ends. Rows go out as they become free."""
    served = sorted((one for one in run.requests if one.token_s), key=lambda one: (one.started_s or 0.0, one.arrived_s))
    held = _held_until(run, served)
    free: list[float] = []
    for one in served:
        started_s, until_s = one.started_s or 0.0, held[one.request_id]
        row = next((index for index, freed_s in enumerate(free) if freed_s <= started_s + 1e-9), None)
        if row is None:
            row = len(free)
            free.append(0.0)
        free[row] = until_s
        yield ScheduleBar(row=row, request_id=one.request_id, started_s=started_s, ended_s=one.token_s[-1], held_s=until_s)


def _held_until(run: BatchingRun, served: Sequence[ServedRequest]) -> Mapping[str, float]:
    """Requests of one static batch start together, and their rows are held until the longest ends."""
    if run.mode != "static":
        return {one.request_id: one.token_s[-1] for one in served}
    return {one.request_id: max(each.token_s[-1] for each in served if each.started_s == one.started_s) for one in served}


# ---------------------------------------------------------------------------------------------- what a policy may ask


def limited(kind: str, engine: str | None, runs: Sequence[BatchingRun]) -> Iterator[LeverFigure]:
    """The figure of a check of one variant, for each engine that serves continuously: the worst over the patterns of arrivals."""
    rows = rows_of(runs)
    engines = list(dict.fromkeys(row.engine for row in rows if row.mode == "continuous"))
    for name in [engine] if engine is not None else engines:
        mine = [row for row in rows if row.engine == name]
        yield _limited(kind, f"lever/{kind}/{name}", name, mine)
    if engine is None and not engines:
        why_not = "the run did not try continuous batching on it; name it under levers.batching.variants of the config"
        yield LeverFigure(name=f"lever/{kind}", why_not=why_not)


def _limited(kind: str, name: str, engine: str, rows: Sequence[BatchingRow]) -> LeverFigure:
    continuous = [row for row in rows if row.mode == "continuous"]
    if not continuous:
        return LeverFigure(name=name, why_not=f"the run did not serve it continuously with {engine}")
    for row in (*continuous, *(row for row in rows if row.mode == "static")):
        if (why := _why_incomparable(row)) is not None:
            return LeverFigure(name=name, why_not=f"{engine}, {row.mode}, {row.arrivals}: {why}")
    gains = kind == "batching_utilisation_gain"
    found = [row.utilisation_gain if gains else row.itl_p99_ratio for row in continuous]
    known = [value for value in found if value is not None]
    if len(known) < len(found):
        lacks = "steps" if gains else "times between tokens"
        return LeverFigure(name=name, why_not=f"the {lacks} of static and continuous batching with {engine} are not both known")
    if gains:
        return LeverFigure(name=name, value=min(known), sentence=f"reaches {{}} the utilisation of static batches with {engine}")
    sentence = f"has {{}} the 99th percentile of the time between tokens of static batches, with {engine}"
    return LeverFigure(name=name, value=max(known), sentence=sentence)


def _why_incomparable(row: BatchingRow) -> str | None:
    if row.why_not is not None:
        return row.why_not
    if row.differing is None:
        return "its ids were not compared with those of each request alone"
    if row.differing and row.dtype == EXACT and not row.ties_only:
        return f"{_requests(row.differing)} of {count(row.requests)} get other ids than alone in float32, and not by a tie"
    return None


def _requests(number: int) -> str:
    return f"{count(number)} {'request' if number == 1 else 'requests'}"


# ---------------------------------------------------------------------------------------------- sentences


def sentences(rows: Sequence[BatchingRow]) -> Iterator[str]:
    """What continuous batching did, plainly: gain or loss over static batches, and what it costs in time between tokens."""
    said: set[tuple[str, str, str]] = set()
    for row in rows:
        if row.why_not is not None:
            key = (row.variant, row.engine, row.why_not)
            if key not in said:
                said.add(key)
                yield _not_run(row)
        elif row.mode == "continuous":
            yield _compared(row, rows)
        if row.differing:
            yield _differs(row)


def _not_run(row: BatchingRow) -> str:
    """Once for an engine that ran in no way at all; else with the way in which it did not."""
    way = "" if row.why_not and row.why_not.startswith("not run:") else f", {row.mode}, {row.arrivals}"
    return f"{row.variant}: batching with {row.engine}{way}: {(row.why_not or '').rstrip('.')}."


def _compared(row: BatchingRow, rows: Sequence[BatchingRow]) -> str:
    head = f"{row.variant}: continuous batching with {row.engine}, {row.arrivals}"
    baseline = baseline_of(row, rows)
    if baseline is None or row.speed_ratio is None:
        return f"{head}, gives {per_s(row.useful_tokens_per_s)} useful tokens/s; there are no static batches to compare with."
    parts = [
        f"{head}, gives {per_s(row.useful_tokens_per_s)} useful tokens/s against {per_s(baseline.useful_tokens_per_s)} in static batches "
        f"with {baseline.engine}: {fixed(row.speed_ratio, 2)}x, {_word(row, baseline, row.speed_ratio)}",
        *_scheduling(row, rows),
        *_waiting(row, baseline),
    ]
    return f"{'. '.join(parts)}."


def _word(row: BatchingRow, baseline: BatchingRow, ratio: float) -> str:
    """Gain or loss where every repeat says so; of a single one the reader is told that it is one."""
    each = [ours / theirs for ours, theirs in zip(row.rates_per_s, baseline.rates_per_s, strict=False)]
    spread = f" ({fixed(min(each), 2)}x to {fixed(max(each), 2)}x over {len(each)} repeats)" if len(each) > 1 else ""
    if abs(ratio - 1) < ALIKE or min(each) < 1 < max(each):
        return f"no difference to speak of{spread}"
    once = "" if spread else "; measured once, so a machine that drifts is part of it"
    return f"a gain{spread}{once}" if ratio > 1 else f"a loss{spread}: do not switch it on here{once}"


def _scheduling(row: BatchingRow, rows: Sequence[BatchingRow]) -> Iterator[str]:
    own = next((one for one in rows if _key(one) == (row.variant, row.arrivals, row.engine, "static")), None)
    if own is not None and row.utilisation is not None and own.utilisation is not None:
        yield f"Of the places in its steps {percent(row.utilisation)} gave a token, of static batches {percent(own.utilisation)}"
    if own is not None and row.own_speed_ratio is not None and row.speed_ratio != row.own_speed_ratio:
        yield f"Over its own static batches it is {fixed(row.own_speed_ratio, 2)}x: the rest comes from its kernels"


def _key(row: BatchingRow) -> tuple[str, str, str, str]:
    return row.variant, row.arrivals, row.engine, row.mode


def _waiting(row: BatchingRow, baseline: BatchingRow) -> Iterator[str]:
    if row.ttft is not None and baseline.ttft is not None:
        ours, theirs = (_wait(one.p50_s) for one in (row.ttft, baseline.ttft))
        yield f"Half of the requests have their first token within {ours} instead of {theirs}"


def _wait(seconds: float) -> str:
    return duration(seconds) if seconds >= 1 else f"{milliseconds(seconds)} ms"


def _differs(row: BatchingRow) -> str:
    head = f"{row.variant}: with {row.engine}, {row.mode}, {row.arrivals}, {_requests(row.differing or 0)} of {count(row.requests)}"
    one = row.first_difference
    where = "" if one is None else f", the clearest at token {count(one.token)} of {one.request_id}"
    margin = "" if one is None or one.margin_nats is None else f", where alone preferred its own by {significant(one.margin_nats, 2)} nats"
    if row.dtype != EXACT:
        return f"{head} get other ids than alone{where}{margin}; in {row.dtype} that is only reported."
    if row.ties_only:
        return f"{head} get other ids than alone{where}{margin}: ties that rounding decides."
    return f"{head} get other ids than alone in float32{where}{margin}: the answers are not the same, and nothing passes on them."
