"""A diagnosis as people read it: one line at a terminal, the whole as text, a block of Markdown, a section of the page."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator

from quantgate.records import Report
from quantgate.render import quantities as q
from quantgate.render.elements import Html, el, fold, table, words
from quantgate.symptoms import Advice, Diagnosis, Field, Rule, Symptoms, Threshold, given

TITLE = "Which limit binds"
_WIDTH = 116


def limit_line(report: Report) -> str:
    """The line of a run's end; empty where the report holds no diagnosis."""
    return "" if report.diagnosis is None else f"Limit: {report.diagnosis.line}"


# ---------------------------------------------------------------------------------------------- figures in words


def seen(symptoms: Symptoms) -> tuple[tuple[str, str], ...]:
    """Each known symptom by its key, and its value with its unit."""
    known = [(one.key.replace("_", " "), value(one, getattr(symptoms, one.attribute))) for one in given(symptoms)]
    steps = ", ".join(f"{q.milliseconds(one.step_s)} ms at batch {q.count(one.batch)}" for one in symptoms.timings)
    return (*known, *((("decode steps", steps),) if steps else ()))


def value(field: Field, found: float) -> str:
    """A symptom's value with its unit."""
    match field.kind:
        case "bytes":
            return q.decimal_bytes(int(found))
        case "rate":
            return f"{q.decimal_bytes(round(found))}/s"
        case "share":
            return q.percent(found, digits=0 if found >= 0.1 else 1)
        case "seconds":
            return f"{q.milliseconds(found)} ms"
        case "flag":
            return "yes" if found else "no"
        case "ratio" | "cost":
            return q.significant(found)
        case _:
            return q.count(int(found))


def threshold(one: Threshold) -> str:
    """A threshold's value with its unit."""
    match one.unit:
        case "share":
            return q.percent(one.value)
        case "x":
            return q.ratio(one.value)
        case "rows":
            return f"{q.count(round(one.value))} rows"
        case _:
            return q.fixed(one.value, 2)


def _rule(one: Rule) -> str:
    return f"{one.because}; measure {one.wanted}" if one.wanted else one.because


def _figures(one: Advice) -> tuple[tuple[str, str], ...]:
    """What stands under a lever."""
    return ("costs", one.cost), ("predicted", one.predicted), ("measured", one.measured)


def _open(found: Diagnosis) -> list[str]:
    """What contradicts itself, and what should be measured next."""
    against = [f"contradiction: {one.because}" for one in found.contradictions]
    return [*against, *(f"measure next: {one}" for one in found.wanted), *(f"it binds too: {one}" for one in found.also)]


# ---------------------------------------------------------------------------------------------- a terminal


def text(found: Diagnosis) -> str:
    """The whole diagnosis, for a terminal."""
    blocks = [
        _wrapped(found.sentence, ""),
        _block("seen", [f"{what}: {figure}" for what, figure in seen(found.symptoms)] or ["nothing"]),
        _block("rules", [f"{one.state:<9}  {one.name}: {_rule(one)}" for one in found.rules], hang=11),
        _block("open", _open(found)),
        "\n".join(["levers", *(line for one in found.levers for line in _lever(one))]),
        _block("thresholds", [f"{one.name} {threshold(one)}: {one.why}" for one in found.thresholds]),
        _block("notes", list(found.notes)),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _block(title: str, lines: list[str], hang: int = 2) -> str:
    return "\n".join([title, *(_wrapped(line, "  ", hang) for line in lines)]) if lines else ""


def _lever(one: Advice) -> Iterator[str]:
    yield _wrapped(f"{one.fit:<12}  {one.lever}: {one.because}", "  ", hang=14)
    for name, words_ in _figures(one):
        yield _wrapped(f"{name}: {words_}", " " * 16)


def _wrapped(line: str, indent: str, hang: int = 2) -> str:
    return textwrap.fill(line, _WIDTH, initial_indent=indent, subsequent_indent=f"{indent}{' ' * hang}", break_on_hyphens=False)


# ---------------------------------------------------------------------------------------------- Markdown and the page


def markdown(report: Report, escaped: Callable[[str], str]) -> list[str]:
    """Blocks of Markdown; ``escaped`` makes text safe for it."""
    found = report.diagnosis
    if found is None:
        return []
    levers = [
        f"- **{escaped(one.lever)}**: {escaped(one.fit)}, {escaped(one.because)}\n"
        + "\n".join(f"  - {name}: {escaped(words_)}" for name, words_ in _figures(one))
        for one in found.levers
    ]
    rules = [f"- {one.state}: {escaped(one.name)}: {escaped(_rule(one))}" for one in found.rules]
    opened = [f"- {escaped(one)}" for one in _open(found)]
    return [f"## {TITLE}", escaped(found.sentence), *("\n".join(lines) for lines in (opened, levers, rules) if lines)]


def section(report: Report) -> Html:
    """The section of the page; nothing where the report holds no diagnosis."""
    found = report.diagnosis
    if found is None:
        return Html("")
    return el(
        "section",
        el("h2", TITLE),
        el("p", el("strong", found.sentence)),
        el("ul", *(el("li", one) for one in (*_open(found), *found.notes)), class_="sentences") if _open(found) or found.notes else "",
        _levers(found),
        _rules(found),
        fold("What was seen, and the thresholds that the rules decide by", _seen(found), _thresholds(found)),
        id="diagnosis",
    )


def _levers(found: Diagnosis) -> Html:
    columns = [words(one) for one in ("Lever", "Fits", "Why", "What it costs", "Predicted", "Measured")]
    rows = [[one.lever, one.fit, one.because, one.cost, one.predicted, one.measured] for one in found.levers]
    return table("Levers, with what each costs and gains; gains in tokens/s over now", columns, rows, kind="stack checks")


def _rules(found: Diagnosis) -> Html:
    columns = [words(one) for one in ("Rule", "State", "Speaks for", "Numbers")]
    rows = [[one.name, one.state, one.limit, _rule(one)] for one in found.rules]
    return table("Rules, and the numbers they rest on", columns, rows, kind="stack checks")


def _seen(found: Diagnosis) -> Html:
    return table("What was seen", [words("Symptom"), words("Value")], seen(found.symptoms))


def _thresholds(found: Diagnosis) -> Html:
    columns = [words("Threshold"), words("Value"), words("Why")]
    return table("Thresholds", columns, [[one.name, threshold(one), one.why] for one in found.thresholds])
