import io
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

import samples
from quantgate.errors import QuantgateError
from quantgate.sinks.console import ConsoleSink
from quantgate.sinks.folder import FolderSink
from quantgate.sinks.junit import JUnitSink


def test_the_folder_gets_both_pages_and_nothing_else(tmp_path: Path) -> None:
    """report.html and report.md are written whole, no temporary file stays, and the page's path is returned."""
    place = FolderSink().publish(samples.sample_report(), tmp_path / "run")
    assert place == str(tmp_path / "run" / "report.html")
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["report.html", "report.md"]
    assert Path(place).read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_publishing_again_replaces_the_pages(tmp_path: Path) -> None:
    """A second publication leaves the new page only."""
    FolderSink().publish(samples.sample_report(), tmp_path)
    FolderSink().publish(samples.all_failing(), tmp_path)
    assert "No candidate passes." in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert len(list(tmp_path.iterdir())) == 2


def test_junit_is_written_and_parses(tmp_path: Path) -> None:
    """junit.xml parses, hostile texts included."""
    for report in (samples.sample_report(), samples.hostile()):
        ElementTree.parse(JUnitSink().publish(report, tmp_path))


def test_a_refused_document_leaves_the_old_one(tmp_path: Path) -> None:
    """A report that contradicts itself raises and changes no file."""
    before = Path(JUnitSink().publish(samples.sample_report(), tmp_path)).read_bytes()
    with pytest.raises(QuantgateError):
        JUnitSink().publish(replace(samples.all_failing(), exit_code=0), tmp_path)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [before]


def test_the_console_prints_the_table_and_where_the_page_is(tmp_path: Path) -> None:
    """The table on the stream names the page in the folder that was published."""
    stream = io.StringIO()
    ConsoleSink(stream).publish(samples.sample_report(), tmp_path)
    assert str(tmp_path / "report.html") in stream.getvalue()
    assert stream.getvalue().endswith("exit 0\n")


def test_a_console_without_unicode_is_no_reason_to_fail(tmp_path: Path) -> None:
    """A stream in ASCII gets question marks, not an exception."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    ConsoleSink(stream, colour=True).publish(samples.hostile(), tmp_path)
    assert b"exit 0" in raw.getvalue()
