"""Prometheus' text format -> samples, read strictly. Standard library only.

One sample a line: ``name{label="value",...} number [timestamp]``; lines that begin with ``#`` and blank ones say nothing
that is needed here. OpenMetrics' exemplars behind a number are skipped. A line that is none of these, a series that
stands twice and a text whose last line has no end are refused: a scrape that was cut off reads like another number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*\s*=\s*"(?:[^"\\\n]|\\.)*"'
_NUMBER = r"[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|[iI]nf|[nN]a[nN])"
_SAMPLE = re.compile(
    rf"(?P<name>{_NAME})(?:\{{\s*(?P<labels>(?:{_LABEL}\s*,\s*)*(?:{_LABEL})?)\s*\}})?"
    rf"\s+(?P<value>{_NUMBER})(?:\s+(?P<time>{_NUMBER}))?(?:\s+#\s.*)?"
)
_PAIR = re.compile(r'(\w+)\s*=\s*"((?:[^"\\\n]|\\.)*)"')
_ESCAPES = {"n": "\n", "\\": "\\", '"': '"'}


class Malformed(Exception):
    """A line that is no sample, by its number."""

    def __init__(self, line: int, what: str) -> None:
        self.line, self.what = line, what
        super().__init__(what)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One number of one series. It may be NaN or infinite, as the format allows."""

    name: str
    labels: Mapping[str, str]
    value: float
    line: int


def samples(text: str) -> Iterator[Sample]:
    """Every sample, in the order of the text. Raises ``Malformed`` for the first line that is not of the format."""
    if text and not text.endswith("\n"):
        raise Malformed(text.count("\n") + 1, "the last line has no end, so the text may be cut off; scrape it again")
    there: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not (bare := line.strip(" \t\r")) or bare.startswith("#"):
            continue
        sample = _sample(bare, number)
        series = (sample.name, tuple(sorted(sample.labels.items())))
        if series in there:
            raise Malformed(number, f"{sample.name} stands twice with the same labels, first in line {there[series]}")
        there[series] = number
        yield sample


def _sample(line: str, number: int) -> Sample:
    found = _SAMPLE.fullmatch(line)
    if found is None:
        shown = line if len(line) <= 60 else f"{line[:59]}…"
        raise Malformed(number, f'found {shown!r}, expected name{{label="value"}} number')
    labels: dict[str, str] = {}
    for key, value in _PAIR.findall(found["labels"] or ""):
        if key in labels:
            raise Malformed(number, f"label {key} stands twice")
        labels[key] = re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[0]), value)
    return Sample(name=found["name"], labels=labels, value=float(found["value"]), line=number)
