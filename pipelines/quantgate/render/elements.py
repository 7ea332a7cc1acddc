"""The elements that the page is made of: markup that escapes what is not markup, tables, figures and folds.

Every text goes through ``el``, which escapes whatever is not markup of our own, so a prompt cannot become a tag.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from quantgate.render import quantities as q

_SUMMARY_LENGTH = 72


class Html(str):
    """Markup of our own: the only text that is not escaped."""

    __slots__ = ()


Cell: TypeAlias = str
_VOID = frozenset({"meta", "br", "input"})


def el(name: str, /, *children: str, **attributes: str) -> Html:
    """Build an element. Children are escaped unless they are markup; a trailing underscore keeps Python's words apart."""
    shown = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(_clean(value))}"' for key, value in attributes.items()
    )
    inside = "".join(_escaped(child) for child in children)
    return Html(f"<{name}{shown}>" if name in _VOID else f"<{name}{shown}>{inside}</{name}>")


def _escaped(text: str) -> str:
    return text if isinstance(text, Html) else html.escape(_clean(text))


def _clean(text: str) -> str:
    """Show what would steer a browser as its picture and drop what no file can hold."""
    return q.storable(q.visible(text))


def join(parts: Iterable[str]) -> Html:
    """Set parts one after the other, escaping those that are not markup."""
    return Html("".join(_escaped(part) for part in parts))


def section(ident: str, title: str, *content: str) -> Html:
    """Build a section that links can lead to."""
    return el("section", el("h2", title), *content, id=ident)


@dataclass(frozen=True, slots=True)
class Column:
    """A column's header with its unit; numbers are set right, words left. ``drawn`` is markup under the title."""

    title: str
    number: bool = True
    drawn: str = ""


def words(title: str) -> Column:
    """Make a column of words."""
    return Column(title, number=False)


def table(
    caption: str,
    columns: Sequence[Column],
    rows: Iterable[Sequence[Cell]],
    *,
    kind: str = "",
    marks: Sequence[Mapping[str, str]] = (),
) -> Html:
    """Build a table in a container that scrolls by itself; ``stack`` turns rows into cards on a narrow screen.

    ``marks``: attributes of each row, for a script to find it by.
    """
    head = el("tr", *(el("th", column.title, column.drawn, scope="col", class_=_side(column)) for column in columns))
    body = [_row(columns, row, marks[at] if marks else {}) for at, row in enumerate(rows)]
    table = el("table", el("caption", el("span", caption)), el("thead", head), el("tbody", *body), class_=kind)
    return el("div", table, class_="scroll", tabindex="0", role="region", aria_label=caption)


def _row(columns: Sequence[Column], cells: Sequence[Cell], mark: Mapping[str, str]) -> Html:
    first = el("th", cells[0], scope="row", class_=_side(columns[0]))
    rest = [
        el("td", cell, class_=_side(column) + (" none" if cell == q.UNKNOWN else ""), data_label=column.title)
        for column, cell in zip(columns[1:], cells[1:], strict=True)
    ]
    return el("tr", first, *rest, **mark)


def _side(column: Column) -> str:
    return "n" if column.number else "w"


def figure(svg: str, finding: str) -> Html:
    """Set a figure under its finding; nothing where nothing was drawn."""
    if not svg:
        return Html("")
    drawing = el("div", inline(svg), class_="scroll drawing", tabindex="0", role="region", aria_label=finding)
    return el("figure", el("figcaption", finding), drawing)


def inline(svg: str) -> Html:
    """Take a figure into the page, where its namespace is implied."""
    return Html(svg.replace(' xmlns="http://www.w3.org/2000/svg"', "", 1))


def with_small(text: str, small: str) -> Html:
    """Set a text with a small second line, where there is one."""
    return join([text, el("small", small)]) if small else join([text])


def fold(summary: str, *content: str, opened: bool = False) -> Html:
    """Fold content behind a summary."""
    marks = {"open": "open"} if opened else {}
    return el("details", el("summary", summary), *content, **marks)


def folded_text(text: str) -> Html:
    """Show a short text as it is; fold a long one or one of several lines behind its beginning."""
    text = text.strip()
    if len(text) <= _SUMMARY_LENGTH and "\n" not in text:
        return el("span", text or "(empty)", class_="text")
    return fold(q.shortened(text, _SUMMARY_LENGTH), el("pre", text))


def badge(word: str) -> Html:
    """A verdict as a word in a box; the word alone says it."""
    kinds = {"PASS": "pass", "FAIL": "fail", "INCONCLUSIVE": "inconclusive", "CONTROL": "wrong", "NOT": "missing"}
    plain = kinds.get(word.split(" ")[0].strip(","), "plain")
    kind = "control" if ", as it must" in word else "inconclusive" if "(waived)" in word else plain
    return el("span", word, class_=f"badge {kind}")


def definitions(facts: Iterable[tuple[str, str]]) -> Html:
    """Names and facts, one below the other; what is unknown is ``-``."""
    return el("dl", *(el("div", el("dt", name), el("dd", fact or q.UNKNOWN)) for name, fact in facts))


def digest(sha256: str | None) -> str:
    """A digest in full, for copying."""
    return q.UNKNOWN if sha256 is None else el("code", sha256, class_="digest")
