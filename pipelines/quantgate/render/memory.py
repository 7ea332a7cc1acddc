"""The page's section on memory: what was freed, and the ceiling, predicted beside confirmed."""

from __future__ import annotations

from quantgate.records import MeasurementRow, Report
from quantgate.render import figures, kv, proof, quantities as q
from quantgate.render.elements import (
    Cell as _Cell,
    Column as _Column,
    Html as _Html,
    el as _el,
    figure as _figure,
    join as _join,
    section as _section,
    table as _table,
    with_small as _with_small,
    words as _words,
)


def section(report: Report) -> _Html:
    """The chain from bytes freed to tokens per second, and the ceilings."""
    reference = next((row for row in report.measurements if row.role == "reference"), None)
    chains = [chain for row in report.measurements if (chain := _chain(row, reference))]
    lengths = {(row.ceiling.prompt_tokens, row.ceiling.output_tokens) for row in report.measurements if row.ceiling}
    at = "; ".join(f"{prompt} prompt and {output} output tokens" for prompt, output in sorted(lengths))
    return _section(
        "memory",
        "Memory and the batch that fits",
        _figure(figures.memory_figure(report, heading=False), figures.memory_finding(report)),
        *chains,
        _ceiling_table(report, at) if report.measurements else _el("p", "No memory was measured."),
        kv.part(report),
        _el(
            "p",
            "KV tokens are the tokens of cache that the freed bytes hold. Predicted is arithmetic: room over what one request "
            "takes; confirmed is the largest batch that was really filled at full length, three times. The scoring batch is the ceiling of "
            "reading whole prompts for log-likelihoods.",
            class_="note",
        ),
    )


def _chain(row: MeasurementRow, reference: MeasurementRow | None) -> _Html:
    """Write a candidate's way from freed bytes to tokens per second, beside the reference's figures."""
    if row.role != "candidate" or row.freed_bytes is None or row.ceiling is None or reference is None:
        return _Html("")
    steps = [
        (f"{q.decimal_bytes(row.freed_bytes)} freed", f"{q.percent(row.freed_share)} of the weights"),
        (f"{q.count(row.kv_tokens_freed)} KV tokens", "more in the cache"),
        (
            f"batch {q.batch_ceiling(row.ceiling)}",
            f"instead of {q.batch_ceiling(reference.ceiling)}; {q.count(row.ceiling.predicted)} were predicted",
        ),
        (
            f"{q.per_s(row.tokens_per_s_at_ceiling)} tokens/s",
            f"instead of {q.per_s(reference.tokens_per_s_at_ceiling)}",
        ),
    ]
    boxes = [_el("li", _el("span", big), _el("small", small)) for big, small in steps]
    return _el("div", _el("strong", row.variant), _el("ol", *boxes), class_="chain")


def _ceiling_table(report: Report, lengths: str) -> _Html:
    unit, size = q.byte_column(tuple(row.weight_bytes for row in report.measurements))
    columns = [
        _words("Variant"),
        _Column(f"Weights, {unit}"),
        _Column(f"Freed, {unit}"),
        _Column("KV tokens freed"),
        _Column(f"Fixed, {unit}"),
        _Column(f"Room, {unit}"),
        _Column(f"A request, {unit}"),
        _Column("Batch predicted"),
        _Column("Batch confirmed"),
        _words("Limited by"),
        _Column("Probes"),
        _Column("Scoring batch"),
        _Column("Tokens/s there"),
        _Column("vs reference"),
    ]
    budgets = {row.ceiling.budget_bytes for row in report.measurements if row.ceiling and row.ceiling.budget_bytes}
    budget = "; ".join(f"{q.decimal_bytes(value)} ({q.binary_bytes(value)})" for value in sorted(budgets))
    caption = (
        "From freed bytes to tokens/s"
        + (f" at {lengths}" if lengths else "")
        + (f"; budget {budget}" if budget else "")
    )
    table = _table(caption, columns, [_ceiling_cells(row, size) for row in report.measurements], kind="ceilings")
    reasons = [
        f"{row.variant}: {row.ceiling.why_not}" for row in report.measurements if row.ceiling and row.ceiling.why_not
    ]
    fills = [f"{row.variant}: {line}" for row in report.measurements if row.ceiling for line in row.ceiling.notes]
    notes = [f"{row.variant}: {row.note}" for row in report.measurements if row.note]
    lines = [*reasons, *fills, *notes, *proof.report_lines(report)]
    return _join([table, _el("ul", *(_el("li", line) for line in lines), class_="sentences")])


def _ceiling_cells(row: MeasurementRow, size: int) -> list[_Cell]:
    ceiling = row.ceiling
    room = request = None
    if ceiling is not None and ceiling.budget_bytes is not None and ceiling.fixed_bytes is not None:
        room = ceiling.budget_bytes - ceiling.fixed_bytes
    prefill = None if ceiling is None else ceiling.prefill_bytes_per_row
    decode = None if ceiling is None else ceiling.decode_bytes_per_row or ceiling.kv_bytes_per_row
    if prefill is not None or decode is not None:
        request = max(prefill or 0, decode or 0)
    binds = "" if prefill is None or decode is None else "prefill binds" if prefill > decode else "decode binds"
    freed, error = row.freed_bytes, None if ceiling is None else ceiling.prediction_error
    return [
        row.variant,
        q.in_unit(row.weight_bytes, size),
        _with_small(q.in_unit(freed, size), "simulated" if row.freed_simulated and freed is not None else ""),
        q.count(row.kv_tokens_freed),
        q.in_unit(None if ceiling is None else ceiling.fixed_bytes, size),
        q.in_unit(room, size),
        _with_small(q.in_unit(request, size), binds),
        _with_small(q.count(None if ceiling is None else ceiling.predicted), "" if error is None else f"{q.percent(error, digits=1)} off"),
        q.batch_ceiling(ceiling),
        (ceiling.limited_by if ceiling is not None else None) or q.UNKNOWN,
        q.count(None if ceiling is None else ceiling.probes),
        q.scoring_ceiling(ceiling),
        q.per_s(row.tokens_per_s_at_ceiling),
        q.ratio(row.ratio_at_ceiling),
    ]
