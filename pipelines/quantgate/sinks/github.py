"""GitHub Actions as a sink: the job's summary, and annotations beside the run.

The summary is a file that every step of a job appends to, and GitHub drops one of more than 1 MiB: a longer report is cut to its verdict,
table and sentences, and says where the whole one is.
"""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from quantgate.records import Report
from quantgate.render import markdown
from quantgate.render.annotations import lines

LARGEST_BYTES = 1024 * 1024


class GitHubSink:
    """Appends report.md to ``summary`` and writes workflow commands to ``stream``; each only where it is given."""

    name = "github"

    def __init__(self, summary: Path | None = None, stream: TextIO | None = None) -> None:
        self.summary, self.stream = summary, stream

    def publish(self, report: Report, folder: Path) -> str:
        """Annotations first: where the summary cannot be written, they stand."""
        if self.stream is not None:
            encoding = getattr(self.stream, "encoding", None) or "utf-8"
            text = "".join(f"{line}\n" for line in lines(report))
            self.stream.write(text.encode(encoding, errors="replace").decode(encoding))
            self.stream.flush()
        if self.summary is None:
            return ""
        _append(self.summary, report)
        return f"summary appended to {self.summary}"


def _append(path: Path, report: Report) -> None:
    """Behind what other steps wrote, with an empty line between."""
    there = path.stat().st_size if path.exists() else 0
    room = LARGEST_BYTES - there - 2
    text = markdown.page(report)
    if len(text.encode()) > room:
        text = _cut(markdown.brief(report), room)
    with path.open("a", encoding="utf-8", newline="\n") as stream:
        stream.write(f"\n{text}" if there else text)


def _cut(text: str, room: int) -> str:
    """Whole lines that fit."""
    kept: list[str] = []
    for line in text.splitlines(keepends=True):
        room -= len(line.encode())
        if room < 0:
            break
        kept.append(line)
    return "".join(kept)
