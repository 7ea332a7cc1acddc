"""The run folder as a sink: report.html for people, report.md for pull requests and CI summaries.

report.json is the record and is written before any sink runs. Each file is written beside its place and renamed over it, so
that a reader sees the old page or the new one, never half of one.
"""

from __future__ import annotations

from pathlib import Path

from quantgate.files import write_whole
from quantgate.records import Report, Trend
from quantgate.render import html, markdown


class FolderSink:
    """Writes the pages of a report into its folder and returns the path of the HTML page."""

    name = "folder"

    def __init__(self, trend: Trend | None = None) -> None:
        self.trend = trend
        """The nights before, which the page shows and the record of the run does not hold."""

    def publish(self, report: Report, folder: Path) -> str:
        page = folder / "report.html"
        write_whole(page, html.page(report, self.trend))
        write_whole(folder / "report.md", markdown.page(report))
        return str(page)
