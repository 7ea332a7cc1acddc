"""Two runs side by side on a terminal. What is not comparable is said with its field; what was not measured is ``-``."""

from __future__ import annotations

from collections.abc import Iterator

from quantgate.records import Comparison, FigureChange, SetChange, VariantChange
from quantgate.render import quantities as q
from quantgate.render.terminal import plain


def text(found: Comparison) -> str:
    """The comparison as lines: what moved, variant by variant."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: Comparison) -> Iterator[str]:
    yield f"{plain(found.first)} -> {plain(found.second)}: what moved; loss is positive where the second run is worse"
    yield from (plain(note) for note in found.notes)
    if found.why_not is not None:
        yield plain(found.why_not)
    for one in found.variants:
        yield ""
        role = "" if one.role == "candidate" else f" ({one.role.replace('_', '-')})"
        yield f"{plain(one.variant)}{role}"
        yield from (f"  {line}" for line in _variant(one))
    for names, which in ((found.only_first, "first"), (found.only_second, "second")):
        if names:
            yield ""
            yield f"only in the {which} run: {', '.join(map(plain, names))}"


def _variant(one: VariantChange) -> Iterator[str]:
    if one.why_not is not None:
        yield plain(one.why_not)
    for each in one.golden_sets:
        yield f"{plain(each.golden_set)}: {plain(each.why_not) if each.why_not is not None else _answers(each)}"
        if each.why_not is None and (each.kl_before is not None or each.kl_after is not None):
            moved = f"{q.significant(each.kl_before)} -> {q.significant(each.kl_after)}"
            yield f"KL from the reference on {plain(each.golden_set)}, nats: {moved}"
    for figure in one.figures:
        yield f"{figure.name}: {plain(figure.why_not) if figure.why_not is not None else _moved(figure)}"


def _answers(each: SetChange) -> str:
    interval = (
        f"loss {q.points(each.loss)} points [{q.points(each.lower, towards='down')}, {q.points(each.upper, towards='up')}] "
        f"at {q.level_percent(each.level)} each side"
    )
    return (
        f"{q.percent(each.accuracy_before, digits=1)} -> {q.percent(each.accuracy_after, digits=1)} right of {q.count(each.n)} items; "
        f"{q.count(each.b)} got worse, {q.count(each.c)} got better, McNemar p {q.p_value(each.mcnemar_p)}; {interval}"
    )


def _moved(each: FigureChange) -> str:
    before = f"{_at_least(each.before_open)}{_figure(each.before, each.unit)}{_interval(each.before_bounds)}"
    after = f"{_at_least(each.after_open)}{_figure(each.after, each.unit)}{_interval(each.after_bounds)}"
    if each.before is None or each.after is None:
        return f"{before} -> {after}"
    if (each.before, each.before_open) == (each.after, each.after_open):
        return f"{after} in both" if each.after_open else f"{after}, unchanged"
    known = each.before and not (each.before_open or each.after_open)
    return f"{before} -> {after}" + (f" ({q.ratio(each.after / each.before)})" if known else "")


def _at_least(ends_open: bool) -> str:
    return ">= " if ends_open else ""


def _interval(bounds: tuple[float, float] | None) -> str:
    """Bounds of a ratio, rounded outward; nothing where there are none."""
    return "" if bounds is None else f" [{q.fixed(bounds[0], 3, towards='down')}, {q.fixed(bounds[1], 3, towards='up')}]"


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return q.UNKNOWN
    if unit == "x":
        return f"{q.fixed(value, 3)}x"
    return q.decimal_bytes(int(value)) if unit == "bytes" else f"{q.count(int(value))} requests" if unit == "requests" else q.per_s(value)
