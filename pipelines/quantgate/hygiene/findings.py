"""One thing that is wrong or doubtful in a golden set: where, what, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """``fault``: the set must not be used so. ``warning``: only a person can tell."""

    severity: Literal["fault", "warning"]
    kind: str
    """Two or three words, the same for all findings of its kind."""
    file: str
    line: int
    """0 where it concerns the file as a whole."""
    field: str
    """Key of the item, with its place in a list; empty where a line has no keys."""
    what: str
    advice: str = ""

    def sentence(self) -> str:
        """``file:line: severity: field: what; advice``, as compilers write, so that editors find the place."""
        place = f"{self.file}:{self.line}" if self.line else self.file
        field = f"{self.field}: " if self.field else ""
        return f"{place}: {self.severity}: {field}{self.what}" + (f"; {self.advice}" if self.advice else "")


def warning(kind: str, line: int, field: str, what: str, advice: str) -> Finding:
    """A finding for a person to judge; whoever reads the file fills its name in."""
    return Finding(severity="warning", kind=kind, file="", line=line, field=field, what=what, advice=advice)


def fault(kind: str, line: int, field: str, what: str, advice: str = "") -> Finding:
    """A finding that must be mended."""
    return Finding(severity="fault", kind=kind, file="", line=line, field=field, what=what, advice=advice)
