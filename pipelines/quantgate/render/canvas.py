"""An SVG figure under construction: lines, marks, texts and patterns at places in a view box 720 wide.

Knows how to draw and not what: titles, data and findings are the caller's. Nothing is told by colour alone.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from quantgate.render import quantities as q

WIDTH = 720
INK, MUTED, RULE, BAND = "#1c2430", "#56616e", "#c9d0d8", "#eef1f4"
SERIES = (
    ("#1c2430", "", "circle"),
    ("#1d5fa8", "7 4", "square"),
    ("#a8480f", "2 3", "triangle"),
    ("#6a3d8f", "9 3 2 3", "diamond"),
    ("#3c7a45", "12 4", "circle"),
)
"""Colour, dash and marker of each line: told apart without colour."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps a stretch of values to a stretch of the view box; values beyond it are mapped beyond."""

    domain: tuple[float, float]
    span: tuple[float, float]

    def __call__(self, value: float) -> float:
        (low, high), (start, stop) = self.domain, self.span
        return start + (value - low) / (high - low) * (stop - start) if high > low else start


class Canvas:
    """An SVG element under construction; ElementTree escapes whatever text it is given."""

    def __init__(self, ident: str, title: str, heading: bool, *, width: int = WIDTH) -> None:
        self.ident = re.sub(r"[^A-Za-z0-9_-]+", "-", ident)
        self.width = width
        self.root = ElementTree.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "role": "img"})
        self.root.set("aria-labelledby", f"{self.ident}-title")
        self.root.set("font-family", "system-ui, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif")
        ElementTree.SubElement(self.root, "title", {"id": f"{self.ident}-title"}).text = q.storable(title)
        lines = textwrap.wrap(q.storable(title), 76) if heading else []
        for index, line in enumerate(lines):
            self.text(12, 22 + 20 * index, line, size=15, weight=600)
        self.top = 20 * len(lines) + 10 if lines else 0

    def add(self, tag: str, **attributes: float | str) -> ElementTree.Element:
        """Add an element; underscores in names stand for hyphens, numbers are cut to two decimals."""
        shown = {name.replace("_", "-"): _number(value) for name, value in attributes.items()}
        return ElementTree.SubElement(self.root, tag, shown)

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: float = 13,
        fill: str = INK,
        anchor: str = "start",
        weight: int = 400,
    ) -> None:
        element = self.add("text", x=x, y=y, font_size=size, fill=fill, text_anchor=anchor, font_weight=weight)
        element.text = q.storable(words)

    def note(self, x: float, y: float, words: str, *, size: float = 12, anchor: str = "start") -> None:
        """Write a small grey text, for axes and second lines."""
        self.text(x, y, words, size=size, fill=MUTED, anchor=anchor)

    def line(
        self,
        start: tuple[float, float],
        end: tuple[float, float],
        *,
        stroke: str = INK,
        width: float = 1,
        dash: str = "",
    ) -> None:
        dashed = {"stroke_dasharray": dash} if dash else {}
        self.add("line", x1=start[0], y1=start[1], x2=end[0], y2=end[1], stroke=stroke, stroke_width=width, **dashed)

    def path(self, spots: Sequence[tuple[float, float]], stroke: str, dash: str) -> None:
        dashed = {"stroke_dasharray": dash} if dash else {}
        self.add("polyline", points=_spots(spots), fill="none", stroke=stroke, stroke_width=1.8, **dashed)

    def polygon(self, spots: Sequence[tuple[float, float]], fill: str = INK) -> None:
        self.add("polygon", points=_spots(spots), fill=fill, stroke=INK, stroke_width=1)

    def mark(self, shape: str, x: float, y: float, *, fill: str) -> None:
        """Draw a marker about 10 units wide."""
        match shape:
            case "circle":
                stroke = INK if fill == "#ffffff" else fill
                self.add("circle", cx=x, cy=y, r=4.5, fill=fill, stroke=stroke, stroke_width=2)
            case "square":
                self.add("rect", x=x - 5, y=y - 5, width=10, height=10, fill=fill)
            case "triangle":
                self.add("polygon", points=_spots([(x, y - 6), (x + 6, y + 5), (x - 6, y + 5)]), fill=fill)
            case _:
                self.add("polygon", points=_spots([(x, y - 6), (x + 6, y), (x, y + 6), (x - 6, y)]), fill=fill)

    def patterns(self) -> None:
        """Define the hatch and the dots that tell areas apart without colour."""
        definitions = ElementTree.SubElement(self.root, "defs")
        size = {"width": "6", "height": "6", "patternUnits": "userSpaceOnUse"}
        for name, background in (("hatch", "#ffffff"), ("dots", "#f7f9fb")):
            pattern = ElementTree.SubElement(definitions, "pattern", {"id": f"{self.ident}-{name}", **size})
            ElementTree.SubElement(pattern, "rect", {"width": "6", "height": "6", "fill": background})
            if name == "hatch":
                stroke = {"stroke": INK, "stroke-width": "1.2"}
                ElementTree.SubElement(pattern, "path", {"d": "M-1 7L7 -1M-1 1L1 -1M5 7L7 5", **stroke})
            else:
                ElementTree.SubElement(pattern, "circle", {"cx": "3", "cy": "3", "r": "0.8", "fill": MUTED})

    def ref(self, pattern: str) -> str:
        return f"url(#{self.ident}-{pattern})"

    def svg(self, height: float) -> str:
        """Close the figure at the given height and return it as text."""
        self.root.set("viewBox", f"0 0 {self.width} {_number(height)}")
        return ElementTree.tostring(self.root, encoding="unicode")


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")


def _spots(spots: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{_number(x)},{_number(y)}" for x, y in spots)


def ticks(low: float, high: float, wanted: int) -> list[float]:
    """Choose about ``wanted`` round values within ``low``..``high``: 1, 2, 2.5 or 5 times a power of ten apart."""
    if not high > low:
        return [low]
    raw = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw)
    first = math.ceil(low / step)
    return [round(index * step, 10) + 0.0 for index in range(first, math.floor(high / step) + 1)]
