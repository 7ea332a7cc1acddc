"""Speed in tables and sentences that every page uses: rates with their paired ratio, latencies apart, and what was left out. No charts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from quantgate.records import LeftOut, MeasurementRow, Report, SpeedRow
from quantgate.render import quantities as q
from quantgate.render.elements import Column, Html, el, join, table, words

Columns = Mapping[str, Callable[[SpeedRow], str]]
_RATES: Columns = {
    "batch": lambda row: q.count(row.batch_size),
    "tokens/s": lambda row: q.per_s(row.output_tokens_per_s),
    "low": lambda row: q.per_s(row.output_tokens_per_s_low),
    "high": lambda row: q.per_s(row.output_tokens_per_s_high),
    "vs reference": lambda row: q.ratio(row.ratio_to_reference),
    "from": lambda row: q.fixed(row.ratio_low, 2, towards="down"),
    "to": lambda row: q.fixed(row.ratio_high, 2, towards="up"),
    "CV, %": lambda row: q.percent_number(row.cv, digits=1),
    "quadruples": lambda row: q.count(row.quadruples),
    "runs": lambda row: q.count(row.generations),
    "warm-ups": lambda row: q.count(row.warmups),
    "early stops": lambda row: q.percent(row.early_stop_share),
}
_TIMES: Columns = {
    "batch": lambda row: q.count(row.batch_size),
    "first token, ms": lambda row: q.milliseconds(row.ttft_s),
    "per token, ms": lambda row: q.milliseconds(row.tpot_s),
    "wait p50, ms": lambda row: q.milliseconds(row.itl_p50_s),
    "p90": lambda row: q.milliseconds(row.itl_p90_s),
    "p99": lambda row: q.milliseconds(row.itl_p99_s),
    "prefill tokens/s": lambda row: q.per_s(row.prefill_tokens_per_s),
    "end-to-end tokens/s": lambda row: q.per_s(row.end_to_end_tokens_per_s),
}
CAPTION = (
    "Medians; tokens/s is decode alone, of the whole batch, with the slowest and fastest run; vs reference is the mean over quadruples "
    "reference, variant, variant, reference at the same batch, from and to its one-sided bounds where there are four quadruples or more; "
    "runs that stopped early enter no figure"
)
TIMES_CAPTION = (
    "First token holds the prefill; per token is (last - first) / (tokens - 1); waits are the times between tokens, all runs together; "
    "end to end is all produced tokens over the whole time"
)


def tables(row: MeasurementRow) -> list[tuple[str, dict[str, list[str]]]]:
    """Heading and columns of each table of one variant; none where nothing was timed."""
    found = [("speed, decode", _RATES, row.speed), ("speed, latency", _TIMES, row.speed)]
    for name in dict.fromkeys(one.workload for one in row.other_speed):
        rows = tuple(one for one in row.other_speed if one.workload == name)
        found += [(f"speed of workload {name}, decode", _RATES, rows), (f"speed of workload {name}, latency", _TIMES, rows)]
    if row.at_ceiling is not None:
        found.append(("speed, each at its own ceiling", _RATES, (row.at_ceiling,)))
    return [(f"{head}{_level(rows, columns)}", _filled(columns, rows)) for head, columns, rows in found if rows]


def _level(rows: Sequence[SpeedRow], columns: Columns) -> str:
    levels = {one.ratio_level for one in rows if one.ratio_level is not None} if columns is _RATES else set()
    return f" (from and to: {q.level_percent(levels.pop())} on each side)" if len(levels) == 1 else ""


def _filled(columns: Columns, rows: Sequence[SpeedRow]) -> dict[str, list[str]]:
    return {title: [cell(row) for row in rows] for title, cell in columns.items()}


def left_out(row: MeasurementRow) -> list[str]:
    """What was not timed of one variant, points of one reason together."""
    return [f"not timed, or not as often as asked: {line}" for line in _grouped(row.speed_left_out)]


def _grouped(found: Sequence[LeftOut]) -> list[str]:
    by_reason: dict[str, list[str]] = {}
    for one in found:
        by_reason.setdefault(one.because, []).append(one.point.at)
    return [f"{', '.join(points)}: {because}" for because, points in by_reason.items()]


def _timed(report: Report) -> list[tuple[str, SpeedRow]]:
    """Every row with its variant; the ceilings' own comparison last of each."""
    return [(row.variant, speed) for row in report.measurements for speed in (*row.speed, *row.other_speed)]


def _missing(report: Report) -> list[str]:
    return [f"{row.variant}: {line}" for row in report.measurements for line in left_out(row)]


def page(report: Report) -> Html:
    """The tables of an HTML page and what was left out."""
    timed = _timed(report)
    parts = [_html_table(CAPTION, _RATES, timed), _html_table(TIMES_CAPTION, _TIMES, timed)]
    if missing := _missing(report):
        parts.append(el("ul", *(el("li", line) for line in missing)))
    return join(parts)


def _html_table(caption: str, columns: Columns, timed: Sequence[tuple[str, SpeedRow]]) -> Html:
    several = any(row.workload != timed[0][1].workload for _, row in timed)
    heads = [words("Variant"), *([words("Workload")] if several else []), *(Column(title[0].upper() + title[1:]) for title in columns)]
    cells = [
        [variant, *([row.workload] if several else []), *(cell(row) for cell in columns.values())] for variant, row in timed
    ]
    return table(caption, heads, cells)


def markdown_rows(report: Report) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows of one table: the rates, as the terminal has them. No rows where nothing was timed."""
    several = any(row.other_speed for row in report.measurements)
    header = ("Variant", *(("Workload",) if several else ()), *_RATES)
    rows = [
        (variant, *((row.workload,) if several else ()), *(cell(row) for cell in _RATES.values())) for variant, row in _timed(report)
    ]
    return header, rows


def markdown_lines(report: Report) -> list[str]:
    """What was left out, a line each."""
    return _missing(report)
