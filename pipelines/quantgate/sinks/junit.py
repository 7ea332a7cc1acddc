"""JUnit XML as a sink: junit.xml in the run folder, where a CI system picks it up."""

from __future__ import annotations

from pathlib import Path

from quantgate.files import write_whole
from quantgate.records import Report
from quantgate.render import junit


class JUnitSink:
    """Writes junit.xml and returns its path. Raises ``QuantgateError`` for a report that contradicts its exit code."""

    name = "junit"

    def publish(self, report: Report, folder: Path) -> str:
        path = folder / "junit.xml"
        write_whole(path, junit.document(report))
        return str(path)
