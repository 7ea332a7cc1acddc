"""A trend as text for a terminal, as a section of a page, and as one figure.

The figure has a panel a series, intervals as bars, and each change as a line with its night.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from quantgate.records import Trend, TrendChange, Trended, TrendPoint, TrendSeries
from quantgate.render import elements as e, quantities as q
from quantgate.render.canvas import INK, MUTED, RULE, Canvas, Scale
from quantgate.render.terminal import plain
from quantgate.stats.drift import FEWEST

NAMES: dict[Trended, str] = {
    "loss": "loss, points",
    "error": "reference wrong, points",
    "kl": "KL mean, nats",
    "freed": "weights freed",
    "ceiling": "batch fits",
    "tokens_per_s": "tokens/s there",
}
_HEAD = ("variant", "series", "nights", "first", "last [interval]", "changes")
_PANEL, _LEFT, _RIGHT = 118, 190, 690


# ---------------------------------------------------------------------------------------------- text


def text(found: Trend) -> str:
    """The table, then a sentence for each change and each note."""
    rows = [_HEAD, *(_row(one) for one in found.series)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    first, last = found.nights[0], found.nights[-1]
    head = f"{plain(found.model)}: {len(found.nights)} nights, {plain(first)} to {plain(last)}"
    said = [sentence for one in found.series for sentence in sentences(one)]
    return "\n".join([head, "", *lines, "", *(said or [_silent(found)]), *(plain(note) for note in found.notes)]) + "\n"


def _silent(found: Trend) -> str:
    """Why no change is told: none is there, or none could be told yet."""
    if _tells(found):
        return f"No change is told: every series of {FEWEST + 1} nights or more stays within the noise of its nights."
    return f"No change can be told yet: that takes {FEWEST + 1} nights of one series, and the longest here has {_longest(found)}."


def _tells(found: Trend) -> bool:
    """Enough nights in a series for a change to be told at all."""
    return _longest(found) > FEWEST


def _longest(found: Trend) -> int:
    return max((len(one.points) for one in found.series), default=0)


def _finding(found: Trend) -> str:
    """What the figure shows, in few words."""
    worse = sum(one.worse for one in found.series)
    if worse:
        return f"{worse} of {len(found.series)} series stand worse than before"
    if _tells(found):
        return f"over {len(found.nights)} nights nothing got worse"
    return f"{_longest(found)} nights are too few to tell a change"


def _row(one: TrendSeries) -> tuple[str, ...]:
    name = NAMES[one.what] + (f" {one.golden_set}" if one.golden_set else "")
    changes = ", ".join("worse" if each.worse else "better" for each in one.changes) or "none"
    first, last = one.points[0], one.points[-1]
    cells = (one.variant, name, str(len(one.points)), value(one.what, first.value), _with_interval(one.what, last), changes)
    return tuple(plain(cell) for cell in cells)


def _with_interval(what: Trended, point: TrendPoint) -> str:
    if point.lower is None or point.upper is None:
        return value(what, point.value)
    return f"{value(what, point.value)} [{value(what, point.lower)}, {value(what, point.upper)}]"


def sentences(one: TrendSeries) -> Iterator[str]:
    """What changed, since when, how long it took to tell, and what else is different since."""
    name = f"{one.variant}, {NAMES[one.what]}" + (f" on {one.golden_set}" if one.golden_set else "")
    for each in one.changes:
        moved = f"{value(one.what, each.before)} -> {value(one.what, each.after)}"
        yield plain(f"{'WORSE ' if each.worse else 'better'} {name}: {moved} since {each.since}, told {_when(each)}. {_suspected(each)}")


def _when(each: TrendChange) -> str:
    return "on that night" if each.nights == 1 else f"on its night {each.nights}, {each.told}"


def _suspected(each: TrendChange) -> str:
    if not each.suspects:
        return "Nothing of code, libraries, model or machine is different."
    return f"Different since: {', '.join(each.suspects)}."


def value(what: Trended, found: float) -> str:
    """A figure in the unit that people read it in."""
    match what:
        case "loss" | "error":
            return q.points(found)
        case "freed":
            return q.decimal_bytes(round(found))
        case "ceiling":
            return q.count(round(found))
        case "tokens_per_s":
            return q.per_s(found)
        case _:
            return q.significant(found)


# ---------------------------------------------------------------------------------------------- the page


def section(found: Trend | None) -> e.Html:
    """The nights up to a run's own as a section of its page; nothing where there are too few."""
    if found is None or not found.series:
        return e.Html("")
    finding = _finding(found)
    finding = finding[0].upper() + finding[1:]
    columns = [e.words("Variant"), e.words("Series"), *map(e.Column, ("Nights", "First", "Tonight")), e.words("Changes")]
    grid = e.table("Each figure over the nights, tonight's with its interval", columns, [_row(one) for one in found.series])
    said = [sentence for one in found.series for sentence in sentences(one)]
    note = "Intervals: exact 90 % ones of a loss, the lowest and highest of a night's blocks of speed. Nothing here decides anything."
    return e.section(
        "nights",
        "Nights before",
        e.figure(figure(replace(found, series=tuple(one for one in found.series if _moves(one))), heading=False), finding),
        e.el("ul", *(e.el("li", one) for one in said), class_="sentences") if said else "",
        e.fold("Every series", grid),
        e.el("p", note, class_="note"),
    )


def _moves(one: TrendSeries) -> bool:
    """Worth a panel on a page: losses and speed, and whatever is not the same every night. The table has the others."""
    return one.what in ("loss", "tokens_per_s") or len({point.value for point in one.points}) > 1


# ---------------------------------------------------------------------------------------------- figure


def figure(found: Trend, *, heading: bool = True) -> str:
    """All series as one SVG; the empty string without one."""
    if not found.series:
        return ""
    canvas = Canvas("trend", f"{found.model}: {_finding(found)}", heading)
    top = canvas.top + 8
    for index, one in enumerate(found.series):
        _panel(canvas, one, found.nights, top + index * _PANEL)
    return canvas.svg(top + len(found.series) * _PANEL)


def _panel(canvas: Canvas, one: TrendSeries, nights: Sequence[str], top: float) -> None:
    bounds = [bound for point in one.points for bound in (point.value, point.lower, point.upper) if bound is not None]
    low, high = min(bounds), max(bounds)
    room = max((high - low) * 0.08, abs(high) * 0.01) or 1.0
    across = Scale((0.0, float(max(len(nights) - 1, 1))), (_LEFT, _RIGHT))
    up = Scale((low - room, high + room), (top + _PANEL - 34, top + 8))
    places = {run: across(float(at)) for at, run in enumerate(nights)}
    canvas.text(12, top + 22, q.shortened(one.variant, 20), weight=600)
    canvas.note(12, top + 38, NAMES[one.what])
    canvas.note(12, top + 53, one.golden_set or "")
    for bound in (low, high) if value(one.what, high) != value(one.what, low) else (low,):
        canvas.note(_LEFT - 8, up(bound) + 4, value(one.what, bound), size=11, anchor="end")
    canvas.line((_LEFT, up(low - room)), (_RIGHT, up(low - room)), stroke=RULE)
    for point in one.points:
        if point.lower is not None and point.upper is not None:
            canvas.line((places[point.run_id], up(point.lower)), (places[point.run_id], up(point.upper)), stroke=MUTED)
    canvas.path([(places[point.run_id], up(point.value)) for point in one.points], INK, "")
    for point in one.points:
        canvas.add("circle", cx=places[point.run_id], cy=up(point.value), r=2.2, fill=INK)
    for each in one.changes:
        x = places[each.since]
        canvas.line((x, top + 6), (x, up(low - room)), stroke="#98231c" if each.worse else "#14602b", width=1.5, dash="4 3")
        words = f"{'worse' if each.worse else 'better'} since night {list(nights).index(each.since) + 1}"
        canvas.note(x, top + _PANEL - 20, words, size=11, anchor="end" if x > (_LEFT + _RIGHT) / 2 else "start")
