"""Static against continuous batching on a page: a table, and a figure of which row held which request and until when.

Shows what ``stages.batching_figures`` derived, and adds nothing of its own but the drawing.
"""

from __future__ import annotations

from collections.abc import Sequence

from quantgate.records import BatchingRow, Report, Tail
from quantgate.render import quantities as q
from quantgate.render.canvas import INK, MUTED, RULE, Canvas, Scale, ticks
from quantgate.render.elements import Cell, Column, Html, el, figure, join, section, table, words

TITLE = "Continuous batching"
_LEFT, _RIGHT, _LANE, _BAR = 120.0, 700.0, 16.0, 11.0
_WORDS = {"alone": "alone", "static": "static batches", "continuous": "continuous"}
HEADERS = (
    "Engine",
    "Way",
    "Rows",
    "Useful tokens/s",
    "vs static",
    "vs own static",
    "Utilisation",
    "Steps",
    "First token p50, ms",
    "p99, ms",
    "Between tokens p50, ms",
    "p90, ms",
    "p99, ms",
    "Queued p50, ms",
    "Gave way",
    "Other ids",
)
"""Of the table on every page; engine and way are words, the rest numbers."""


def html(report: Report) -> Html:
    """The section of the page; nothing where the run did not try it."""
    if not report.batching:
        return Html("")
    parts = [_pattern(report.batching, *key) for key in _patterns(report.batching)]
    return section("batching", TITLE, *_reasons(report.batching), *parts)


def _patterns(rows: Sequence[BatchingRow]) -> list[tuple[str, str]]:
    """Variants with each pattern of arrivals, in order; a request alone has no pattern."""
    return list(dict.fromkeys((row.variant, row.arrivals) for row in rows if row.mode != "alone"))


def _pattern(rows: Sequence[BatchingRow], variant: str, arrivals: str) -> Html:
    shown = shown_rows(rows, variant, arrivals)
    columns = [words(HEADERS[0]), words(HEADERS[1]), *(Column(one) for one in HEADERS[2:])]
    cells: list[list[Cell]] = [list(row_cells(row)) for row in shown]
    return join(
        [
            table(caption(shown, variant, arrivals), columns, cells),
            figure(schedule_figure(shown, ident=f"schedule-{variant}-{arrivals}"), schedule_finding(shown)),
        ]
    )


def shown_rows(rows: Sequence[BatchingRow], variant: str, arrivals: str) -> list[BatchingRow]:
    """The rows of one table: each request alone, then the ways under one pattern of arrivals."""
    return [row for row in rows if row.variant == variant and (row.mode == "alone" or row.arrivals == arrivals)]


def caption(rows: Sequence[BatchingRow], variant: str, arrivals: str) -> str:
    """What a table is of."""
    served = next((row for row in rows if row.mode != "alone" and row.why_not is None), rows[-1])
    asked = f"{q.count(served.requests)} requests, {arrivals}, {q.count(served.useful_tokens)} tokens asked for"
    repeats = "" if served.repeats == 1 else f"; medians over {served.repeats} runs"
    return f"{variant}: {asked}; useful tokens/s end to end, prefill and waiting included{repeats}"


def row_cells(row: BatchingRow) -> list[str]:
    """The cells of one row, a text each; ``not run`` where nothing is known."""
    way = _WORDS[row.mode] if row.why_not is None else f"{_WORDS[row.mode]} (no figures)"
    return [
        row.engine,
        way,
        q.count(row.rows),
        q.per_s(row.useful_tokens_per_s),
        q.ratio(row.speed_ratio),
        q.ratio(row.own_speed_ratio),
        q.percent(row.utilisation) if row.mode != "alone" else q.UNKNOWN,
        q.count(row.steps),
        *_tail(row.ttft, "p50_s", "p99_s"),
        *_tail(row.itl, "p50_s", "p90_s", "p99_s"),
        *_tail(row.queued, "p50_s"),
        q.count(row.preemptions),
        q.UNKNOWN if row.differing is None else f"{q.count(row.differing)}{' (ties)' if row.differing and row.ties_only else ''}",
    ]


def _tail(tail: Tail | None, *names: str) -> list[str]:
    return [q.milliseconds(None if tail is None else getattr(tail, name)) for name in names]


def reasons(rows: Sequence[BatchingRow]) -> list[str]:
    """Why an engine has no figures, once each."""
    found = [f"{row.variant}, {row.engine}: {row.why_not}" for row in rows if row.why_not is not None]
    return list(dict.fromkeys(found))


def _reasons(rows: Sequence[BatchingRow]) -> list[Html]:
    found = reasons(rows)
    return [el("ul", *(el("li", reason) for reason in found), class_="sentences")] if found else []


def markdown(report: Report) -> list[tuple[str, list[list[str]], list[str]]]:
    """Caption, rows and reasons of each table, for a page of Markdown."""
    return [
        (caption(shown, *key), [row_cells(row) for row in shown], reasons(shown))
        for key in _patterns(report.batching)
        if (shown := shown_rows(report.batching, *key))
    ]


# ---------------------------------------------------------------------------------------------- the schedule


def schedule_figure(rows: Sequence[BatchingRow], *, ident: str = "schedule") -> str:
    """A lane for each row of each way over one axis of seconds: solid where a request was served, hatched where its row was only held."""
    drawn = [row for row in rows if row.schedule]
    if not drawn:
        return ""
    canvas = Canvas(ident, "Which row held which request, and until when", heading=False)
    canvas.patterns()
    end_s = max(bar.held_s for row in drawn for bar in row.schedule)
    scale = Scale((0.0, end_s), (_LEFT, _RIGHT))
    top = canvas.top + 8.0
    bottom = top + sum(map(_height, drawn))
    for mark in ticks(0.0, end_s, 6):
        canvas.line((scale(mark), top - 4), (scale(mark), bottom), stroke=RULE)
        canvas.note(scale(mark), bottom + 16, q.significant(mark, 2), anchor="middle")
    for row in drawn:
        _way(canvas, scale, row, top)
        top += _height(row)
    said = "seconds from the start; solid: served, hatched: held by a finished request"
    canvas.note((_LEFT + _RIGHT) / 2, bottom + 34, said, anchor="middle")
    return canvas.svg(bottom + 44)


def _height(row: BatchingRow) -> float:
    """Of one way: its lanes, two lines of words at least."""
    return max((1 + max(bar.row for bar in row.schedule)) * _LANE, 34.0) + 12


def _way(canvas: Canvas, scale: Scale, row: BatchingRow, top: float) -> None:
    """One way with its lanes."""
    canvas.text(8, top + 12, row.engine, size=12, weight=600)
    canvas.note(8, top + 27, _WORDS[row.mode])
    for bar in row.schedule:
        y = top + bar.row * _LANE
        start, end, held = scale(bar.started_s), scale(bar.ended_s), scale(bar.held_s)
        canvas.add("rect", x=start, y=y, width=max(1.0, end - start - 1), height=_BAR, fill=MUTED, stroke=INK, stroke_width=0.6)
        if held > end:
            canvas.add("rect", x=end, y=y, width=held - end, height=_BAR, fill=canvas.ref("hatch"), stroke=INK, stroke_width=0.6)


def schedule_finding(rows: Sequence[BatchingRow]) -> str:
    """What the figure shows, in a sentence."""
    static = [row for row in rows if row.mode == "static" and row.utilisation is not None]
    continuous = [row for row in rows if row.mode == "continuous" and row.utilisation is not None]
    if not static or not continuous:
        return "When each request was served"
    best = max(continuous, key=lambda row: row.utilisation or 0.0)
    return (
        f"Of the places in the steps of static batches {q.percent(static[0].utilisation)} gave a token; where rows come and go, "
        f"{q.percent(best.utilisation)} did with {best.engine}"
    )
