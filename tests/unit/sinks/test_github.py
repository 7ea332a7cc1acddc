"""GitHub's summary and annotations: appended, within what GitHub takes, and nothing where nothing is asked for."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import samples
from quantgate.sinks.github import LARGEST_BYTES, GitHubSink


def test_the_summary_is_appended(tmp_path: Path) -> None:
    """What other steps wrote stays, an empty line stands between, and the whole report follows."""
    path = tmp_path / "summary.md"
    path.write_text("# earlier step\n", encoding="utf-8")
    assert str(path) in GitHubSink(path).publish(samples.sample_report(), tmp_path)
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# earlier step\n\n# ")
    assert "## Checks" in text and "| Variant |" in text


def test_a_summary_that_github_would_drop_is_cut(tmp_path: Path) -> None:
    """Over 1 MiB verdict, table and sentences alone; with hardly any room whole lines that fit."""
    report = samples.sample_report()
    check = report.verdicts[1].checks[0]
    verdict = replace(report.verdicts[1], checks=(replace(check, because="x" * LARGEST_BYTES),))
    path = tmp_path / "summary.md"
    GitHubSink(path).publish(replace(report, verdicts=(report.verdicts[0], verdict, *report.verdicts[2:])), tmp_path)
    text = path.read_text(encoding="utf-8")
    assert "## Checks" not in text and "| Variant |" in text and "the whole is report.md" in text
    path.write_text("y" * (LARGEST_BYTES - 400), encoding="utf-8")
    GitHubSink(path).publish(report, tmp_path)
    assert LARGEST_BYTES - 400 < path.stat().st_size <= LARGEST_BYTES


def test_annotations_go_to_the_stream(tmp_path: Path) -> None:
    """A workflow command a line, the last one ended too."""
    stream = io.StringIO()
    assert GitHubSink(None, stream).publish(samples.sample_report(), tmp_path) == ""
    assert stream.getvalue().startswith("::") and stream.getvalue().endswith("\n")


def test_nothing_is_asked_for(tmp_path: Path) -> None:
    """Neither file nor stream: nothing is written."""
    assert GitHubSink().publish(samples.sample_report(), tmp_path) == ""
    assert list(tmp_path.iterdir()) == []
