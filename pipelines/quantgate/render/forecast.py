"""A forecast as a terminal shows it: what would run, what fits at most, how long it took before, what can be resolved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from quantgate.forecasts import Forecast, GoldenForecast, LeverForecast, VariantForecast
from quantgate.render import quantities as q


def text(forecast: Forecast) -> str:
    """The whole forecast, refusals last, where they are seen."""
    return "\n".join(_lines(forecast)) + "\n"


def _lines(found: Forecast) -> Iterator[str]:
    tokens = f"{q.count(found.prompt_tokens)} prompt and {q.count(found.output_tokens)} output tokens"
    yield f"{found.model} on {found.device}, budget {q.decimal_bytes(found.budget_bytes)}, requests of {tokens}"
    yield ""
    yield from _aligned(_variant_cells(found))
    yield "Batches are upper limits: weights and cache are arithmetic, activations are not counted; the run's fills confirm the ceiling."
    if found.golden_sets:
        yield ""
        yield from _aligned(_golden_cells(found.golden_sets))
    if found.levers:
        yield ""
        yield from map(_lever, found.levers)
    yield ""
    yield from _times(found)
    yield f"disk: {q.decimal_bytes(found.disk_bytes)} at most for the cache, {q.decimal_bytes(found.disk_free_bytes)} free"
    yield from found.notes
    yield ""
    if not found.refusals:
        yield "Nothing stands against it: quantgate run would measure."
        return
    yield "This cannot work:"
    for one in found.refusals:
        yield f"- {one}"


def _variant_cells(found: Forecast) -> list[list[str]]:
    header = ["variant", "role", "scheme", "weights", "cache a request", "batch at most", "runs"]
    return [header, *(_variant(one, found.max_batch) for one in found.variants)]


def _variant(one: VariantForecast, cap: int) -> list[str]:
    most = q.UNKNOWN if one.most_requests is None else f"{'>= ' if one.most_requests == cap else ''}{q.count(one.most_requests)}"
    return [
        one.variant, one.role, one.scheme, q.decimal_bytes(one.weight_bytes), q.decimal_bytes(one.kv_bytes_per_request), most,
        "yes" if one.why_not is None else "no",
    ]  # fmt: skip


def _golden_cells(sets: Sequence[GoldenForecast]) -> list[list[str]]:
    cells = [["check", "golden set", "items", "margin, points", "passes without a loss", "smallest margin, points"]]
    for one in sets:
        smallest = q.points(one.smallest_margin, towards="up", digits=2)
        power = q.fixed(one.power, 2, towards="down")
        cells.append([one.check, one.golden, q.count(one.items), q.margin_points(one.margin), power, smallest])
    return cells


def _lever(one: LeverForecast) -> str:
    before = "time not known" if one.seconds is None else f"took {q.duration(one.seconds)} before"
    return f"{one.lever}: {one.what or 'cannot be measured'}" + (f"; {before}" if one.why_not is None else "")


def _times(found: Forecast) -> Iterator[str]:
    known = [(one.variant, stage) for one in found.variants for stage in one.stages if stage.seconds is not None]
    if not known:
        yield "time: not known, this machine has no earlier run of this model and these variants"
        return
    for one in found.variants:
        stages = [f"{stage.stage} {q.duration(stage.seconds)}" for stage in one.stages if stage.seconds is not None]
        missing = [stage.stage for stage in one.stages if stage.seconds is None]
        if stages:
            yield f"time of {one.variant}: {', '.join(stages)}" + (f"; not known: {', '.join(missing)}" if missing else "")
    yield f"time in all: {q.duration(found.seconds)} where known; comparing distributions is not in it, and what the cache holds takes none"


def _aligned(cells: list[list[str]]) -> list[str]:
    widths = [max(len(line[place]) for line in cells) for place in range(len(cells[0]))]
    return ["  ".join(one.ljust(width) for one, width in zip(line, widths, strict=True)).rstrip() for line in cells]
