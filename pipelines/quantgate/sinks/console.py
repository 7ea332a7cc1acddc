"""The console as a sink: the verdict table on a stream."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from quantgate.records import Report
from quantgate.render.terminal import verdict_table


class ConsoleSink:
    """Prints the verdict table on ``stream``; letters that its encoding lacks become question marks."""

    name = "console"

    def __init__(self, stream: TextIO, *, colour: bool = False, width: int | None = None) -> None:
        self.stream, self.colour, self.width = stream, colour, width

    def publish(self, report: Report, folder: Path) -> str:
        text = verdict_table(report, width=self.width, colour=self.colour, folder=folder)
        encoding = getattr(self.stream, "encoding", None) or "utf-8"
        self.stream.write(text.encode(encoding, errors="replace").decode(encoding))
        self.stream.flush()
        return ""
