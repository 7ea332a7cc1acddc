"""What reports say of speed beyond the timings: crossovers, latency, roofs and what was reached of them, cost. Tables and plain lines.

A figure that is missing has its reason; a share of a roof stands beside the roof, its scatter, and what the vendor promises.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from quantgate.records import MAIN, CostRow, DeviceInfo, DeviceState, MeasurementRow, Report, RooflineRow, RoofRate
from quantgate.render import latency, quantities as q, roofs, throughput
from quantgate.render.elements import Column, Html, el, figure, join, table, with_small, words


def drawings(report: Report) -> dict[str, str]:
    """Name -> SVG with its title, for whoever keeps figures as files; what was not measured is absent."""
    found = {
        "throughput": throughput.throughput_figure(report),
        "latency": latency.latency_figure(report),
        "roofline": roofs.roofline_figure(report),
    }
    return {name: svg for name, svg in found.items() if svg}


# ---------------------------------------------------------------------------------------------- the page


def above_timings(report: Report) -> Html:
    """Tokens a second over the batch, where variants cross, and what each reaches at its own ceiling."""
    said = [*throughput.sentences(report), *_at_ceilings(report)]
    return join(
        [
            figure(throughput.throughput_figure(report, heading=False), throughput.throughput_finding(report)),
            el("ul", *(el("li", one) for one in said), class_="sentences") if said else "",
        ]
    )


def below_timings(report: Report) -> Html:
    """Latency, the roofs and what was reached of them, cost."""
    return join(
        [
            figure(latency.latency_figure(report, heading=False), latency.latency_finding(report)),
            _roof_part(report),
            _cost_part(report),
        ]
    )


def _at_ceilings(report: Report) -> Iterator[str]:
    """The figure that decides: a larger batch fits a smaller model, and that is where it is served."""
    reference = next((row for row in report.measurements if row.role == "reference"), None)
    for row in report.measurements:
        if reference is None or row.ratio_at_ceiling is None or reference.tokens_per_s_at_ceiling is None:
            continue
        ours = f"{q.per_s(row.tokens_per_s_at_ceiling)} tokens/s at {q.batch_ceiling(row.ceiling)}"
        theirs = f"{q.per_s(reference.tokens_per_s_at_ceiling)} at {q.batch_ceiling(reference.ceiling)}"
        against = f"{q.ratio(row.ratio_at_ceiling)} {reference.variant}'s {theirs}"
        yield f"At its own ceiling, which decides, {row.variant} decodes {ours}: {against}."


def _roof_part(report: Report) -> Html:
    rows = [(row.variant, one) for row in report.measurements for one in row.roofline]
    if not rows and report.roofs is None:
        return Html("")
    note = (
        "A decode step reads every weight it uses once and the KV cache of all rows; its floor is those bytes over the bandwidth "
        "measured in this run, or its operations over the matrix rate, whichever takes longer. MBU is the memory's floor over the time "
        "taken, MFU the arithmetic's. A low MBU is time that goes into other things than reading: unpacking weights, calls, copies."
    )
    missing = [f"A roof is missing: {why}." for why in (() if report.roofs is None else report.roofs.why_not)]
    return join(
        [
            el("h3", "Against the roofs of the device"),
            figure(roofs.roofline_figure(report, heading=False), roofs.roofline_finding(report)),
            _roofline_table(rows) if rows else "",
            _rate_table(report),
            el("ul", *(el("li", one) for one in [*missing, *_device_lines(report)]), class_="sentences"),
            el("p", note, class_="note"),
        ]
    )


def _roofline_table(rows: Sequence[tuple[str, RooflineRow]]) -> Html:
    several = any(row.workload != MAIN for _, row in rows)
    columns = [
        words("Variant"),
        *([words("Workload")] if several else []),
        Column("Batch"),
        Column("Bytes a step, MB"),
        Column("Operations a step, millions"),
        Column("Floor, ms"),
        Column("Took, ms"),
        words("Nearer roof"),
        Column("MBU, %"),
        Column("MFU, %"),
        Column("MFU of prompts, %"),
    ]
    cells = [[variant, *([row.workload] if several else []), *_roofline_cells(row)] for variant, row in rows]
    return table("Decode steps against the roofs; medians", columns, cells)


def _roofline_cells(row: RooflineRow) -> list[str]:
    floors = [one for one in (row.memory_floor_s, row.compute_floor_s) if one is not None]
    return [
        q.count(row.batch_size),
        q.significant(None if row.step_bytes is None else row.step_bytes / 1e6),
        q.significant(None if row.step_flops is None else row.step_flops / 1e6),
        q.milliseconds(max(floors, default=None)),
        q.milliseconds(row.tpot_s),
        with_small(row.bound or q.UNKNOWN, row.fault or row.why_not or ""),
        q.percent_number(row.mbu),
        _share(row.mfu),
        _share(row.prefill_mfu),
    ]


def _share(value: float | None) -> str:
    """Small shares with a digit more: a memory-bound step uses little of the arithmetic."""
    return q.percent_number(value, digits=0 if value is None or value >= 0.1 else 1)


def _rate_table(report: Report) -> Html:
    if report.roofs is None or not (report.roofs.reads or report.roofs.multiplies):
        return Html("")
    columns = [words("Roof"), Column("Measured"), Column("Scatter (CV), %"), Column("Repeats"), words("How"), Column("Datasheet")]
    cells = [_rate_cells(one, report) for one in (*report.roofs.reads, *report.roofs.multiplies)]
    return table("What the device does at most, measured before the timing; the fastest of several ways", columns, cells, kind="stack")


def _rate_cells(one: RoofRate, report: Report) -> list[str]:
    reads, device = one.what == "read", report.device
    unit = "B/s" if reads else "FLOP/s"
    return [
        f"reading {q.decimal_bytes(one.working_set_bytes)}" if reads else f"multiplying in {one.dtype}",
        q.rate(one.median_per_s, unit),
        q.percent_number(one.cv, digits=1),
        q.count(len(one.per_s)),
        with_small(one.way, _beside_cache(one, report) if reads else ""),
        _promised(one, device, unit),
    ]


def _beside_cache(one: RoofRate, report: Report) -> str:
    cache = None if report.roofs is None else report.roofs.cache_bytes
    if not cache:
        return "the last-level cache is not known"
    return f"{q.significant(one.working_set_bytes / cache, 2)} times the last-level cache of {q.binary_bytes(cache)}"


def _promised(one: RoofRate, device: DeviceInfo | None, unit: str) -> str:
    """The vendor's figure: of a matrix rate only for the 16-bit types it is stated for."""
    peak = None
    if device is not None:
        peak = device.peak_bytes_per_s if one.what == "read" else device.peak_flops_per_s if "16" in one.dtype else None
    return with_small(q.rate(peak, unit), "" if peak is None or device is None else device.peak_source or "")


def _device_lines(report: Report) -> Iterator[str]:
    """Threads, clocks and heat, and what of them nobody can read here."""
    found = report.roofs
    if found is None or found.before is None:
        return
    threads = "" if report.device is None or not report.device.threads else f"{q.count(report.device.threads)} threads; "
    states = [("before", found.before), *([("after", found.after)] if found.after is not None else [])]
    said = [f"{when} the timing {words}" for when, state in states if (words := _state_words(state))]
    if said:
        yield f"{threads}{'; '.join(said)}."
    if found.before.unknown:
        yield f"Not known here: {'; '.join(found.before.unknown)}."


def _state_words(state: DeviceState) -> str:
    held = None if state.throttled is None else ", ".join(state.throttled) or "nothing"
    parts = [
        None if state.clock_hz is None else f"clock {q.rate(state.clock_hz, 'Hz')}",
        None if state.memory_clock_hz is None else f"memory clock {q.rate(state.memory_clock_hz, 'Hz')}",
        None if state.governor is None else f"governor {state.governor}",
        None if state.temperature_c is None else f"{q.significant(state.temperature_c, 2)} °C",
        None if state.throttle_events is None else f"slowed down by heat {q.count(state.throttle_events)} times since it was switched on",
        None if held is None else f"clocks held down by {held}",
    ]
    return ", ".join(part for part in parts if part is not None)


# ---------------------------------------------------------------------------------------------- cost


def cost_header(report: Report) -> str:
    """The header of a column of costs; empty where the run has no price, and then there is no column."""
    return "" if report.price is None else f"{report.price.currency} per M tokens"


def cost_cell(row: MeasurementRow | None) -> str:
    """What a million output tokens cost at the best batch."""
    return q.UNKNOWN if row is None or row.cost is None else q.money(row.cost.per_million_tokens)


def _cost_part(report: Report) -> Html:
    rows = [(row.variant, row.cost) for row in report.measurements if row.cost is not None]
    if report.price is None or not rows:
        return Html("")
    currency = report.price.currency
    columns = [
        words("Variant"),
        Column("Best batch"),
        Column("Output tokens/s, prompts included"),
        Column(f"{currency} per million output tokens"),
        Column(f"Output tokens per {currency}"),
        Column("vs reference"),
    ]
    lengths = {(row.ceiling.prompt_tokens, row.ceiling.output_tokens) for row in report.measurements if row.ceiling}
    at = "; ".join(f"{prompt} prompt and {output} output tokens" for prompt, output in sorted(lengths))
    caption = f"Cost at {q.check_limit('cost', report.price.per_hour)} {currency} an hour" + (f", {at}" if at else "")
    budget = report.budget
    allowed = None if budget is None else q.check_limit("cost", budget.max_cost_per_million_tokens)
    owned = [] if budget is None else [f"Budget of {budget.owner}: at most {allowed} {currency} per million output tokens."]
    note = (
        "The hour pays for reading prompts too, so these tokens a second are produced tokens over the whole time of a batch, fewer "
        "than the decode rate above. The best batch is the one with most of them, at or under the variant's ceiling."
    )
    lines = [*owned, *_budget_lines(report)]
    return join(
        [
            el("h3", "Cost"),
            table(caption, columns, [[variant, *_cost_cells(one)] for variant, one in rows], kind="stack"),
            el("ul", *(el("li", one) for one in lines), class_="sentences") if lines else "",
            el("p", note, class_="note"),
        ]
    )


def _budget_lines(report: Report) -> Iterator[str]:
    for verdict in report.verdicts:
        for check in verdict.checks:
            if check.name == "cost/budget":
                yield f"{verdict.variant} {check.because}."


def _cost_cells(one: CostRow) -> list[str]:
    tokens = None if one.tokens_per_unit is None else round(one.tokens_per_unit)
    return [
        with_small(q.count(one.batch_size), one.why_not or ""),
        q.per_s(one.output_tokens_per_s),
        q.money(one.per_million_tokens),
        q.count(tokens),
        q.ratio(one.ratio_to_reference),
    ]


# ---------------------------------------------------------------------------------------------- plain lines


def lines_of(report: Report, row: MeasurementRow) -> list[str]:
    """What a terminal says of one variant's speed beside its timings."""
    reference = next((one for one in report.measurements if one.role == "reference"), None)
    found = [throughput.crossover_sentence(row, "the reference" if reference is None else reference.variant)]
    found += [_roofline_line(one) for one in row.roofline]
    found += [] if row.cost is None else [_cost_line(row.cost)]
    return [one for one in found if one]


def _roofline_line(row: RooflineRow) -> str:
    head = f"batch {q.count(row.batch_size)}" + ("" if row.workload == MAIN else f" of {row.workload}")
    if row.fault or row.why_not:
        return f"{head}: against the roofs not known: {row.fault or row.why_not}"
    floors = [one for one in (row.memory_floor_s, row.compute_floor_s) if one is not None]
    took = f"{q.milliseconds(row.tpot_s)} ms a step, {q.milliseconds(max(floors, default=None))} ms at least"
    return f"{head}: {took} ({row.bound} binds), MBU {q.percent(row.mbu)}, MFU {_share(row.mfu)} %"


def _cost_line(one: CostRow) -> str:
    if one.why_not is not None:
        return f"cost not known: {one.why_not}"
    against = "" if one.ratio_to_reference is None else f", {q.ratio(one.ratio_to_reference)} the reference's"
    rate = f"batch {q.count(one.batch_size)}, {q.per_s(one.output_tokens_per_s)} tokens/s with prompts"
    return f"{q.money(one.per_million_tokens)} {one.currency} per million output tokens at {rate}{against}"
