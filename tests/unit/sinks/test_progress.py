"""Progress for a person: what is printed on a terminal and elsewhere, and that it never stops a run."""

from __future__ import annotations

import errno
import io
from pathlib import Path

import pytest

from quantgate.sinks.progress import ProgressDisplay


class Clocked(ProgressDisplay):
    """A display whose time is set by the test."""

    seconds = 0.0

    def now_s(self) -> float:
        return self.seconds


def shown(folder: Path, *, live: bool) -> tuple[Clocked, io.StringIO]:
    """A display that has started a run of four steps."""
    stream = io.StringIO()
    display = Clocked(stream, live=live)
    display.start(folder, ("score sums", "score sums", "load", "time"))
    return display, stream


def test_lines_elsewhere(tmp_path: Path) -> None:
    """Not on a terminal: a line when a step ends, with its time, none rewritten; the same in run.log."""
    display, stream = shown(tmp_path, live=False)
    display.step("int8", "score sums")
    display.seconds = 3.0
    display.progress(1, 2, "scoring")
    display.step_done(reused=False)
    display.step("int4", "score sums")
    display.step_done(reused=True)
    display.stop()
    lines = stream.getvalue().splitlines()
    assert lines[1] == "[ 1/4] int8         score sums           3.0 s"
    assert lines[2] == "[ 2/4] int4         score sums           reused, unchanged since it was measured"
    assert "\r" not in stream.getvalue()
    assert "int8: score sums done (3.0 s)" in (tmp_path / "run.log").read_text(encoding="utf-8")


def test_a_long_step_is_heard_of(tmp_path: Path) -> None:
    """Elsewhere a step that takes long gives a line each half minute, with what is left at the pace so far."""
    display, stream = shown(tmp_path, live=False)
    display.step("int8", "score sums")
    for display.seconds in (10.0, 20.0, 31.0, 40.0, 62.0):
        display.progress(int(display.seconds), 124, "scoring sums")
    assert [line for line in stream.getvalue().splitlines() if "left" in line] == [
        "[ 1/4] int8         scoring sums 31/124 · 1 min 33 s left in this step",
        "[ 1/4] int8         scoring sums 62/124 · 1 min 2 s left in this step",
    ]


def test_a_job_s_log_is_terse(tmp_path: Path) -> None:
    """Under a CI system a step that takes long gives a line each ten minutes, and one when it ends."""
    stream = io.StringIO()
    display = Clocked(stream, live=False, quiet=True)
    display.start(tmp_path, ("score sums",))
    display.step("int8", "score sums")
    for display.seconds in (31.0, 62.0, 599.0, 601.0, 700.0):
        display.progress(int(display.seconds), 1202, "scoring sums")
    display.step_done(reused=False)
    assert stream.getvalue().splitlines()[1:] == [
        "[ 1/1] int8         scoring sums 601/1202 · 10 min 1 s left in this step",
        "[ 1/1] int8         score sums           11 min 40 s",
    ]


def test_the_whole_run_is_estimated_from_what_others_took(tmp_path: Path) -> None:
    """Steps to come count what the same stage took before; a stage that nobody has done yet makes it "at least"."""
    stream = io.StringIO()
    display = Clocked(stream, live=False)
    display.start(tmp_path, ("load", "score sums", "load", "score sums", "load"))
    for stage, seconds in (("load", 10.0), ("score sums", 100.0)):
        display.step("float32", stage)
        display.seconds += seconds
        display.step_done(reused=False)
    display.step("int8", "load")
    display.seconds += 31.0
    display.progress(1, 2, "loading")
    assert stream.getvalue().splitlines()[-1].endswith("31 s left in this step · about 2 min 21 s in all")
    display.start(tmp_path, ("load", "time", "load"))
    display.step("int8", "time")
    display.seconds += 31.0
    display.progress(0, 0, "timing")
    assert stream.getvalue().splitlines()[-1].endswith("31 s so far · at least 10 s in all")


def test_a_reused_stage_is_expected_to_be_reused_again(tmp_path: Path) -> None:
    """What was reused for one variant adds no time for the next."""
    stream = io.StringIO()
    display = Clocked(stream, live=False)
    display.start(tmp_path, ("load", "time", "load"))
    display.step("float32", "load")
    display.step_done(reused=True)
    display.step("int8", "time")
    display.seconds += 40.0
    display.progress(1, 2, "timing")
    assert stream.getvalue().splitlines()[-1].endswith("40 s left in this step · about 40 s in all")


def test_a_terminal_line_is_rewritten(tmp_path: Path) -> None:
    """On a terminal one line is rewritten and cleared before anything else is printed."""
    display, stream = shown(tmp_path, live=True)
    display.step("int8", "load")
    display.note("a note")
    display.stop()
    before, _, after = stream.getvalue().partition("a note\n")
    assert before.count("\n") == 1
    assert before.endswith(" \r")
    assert after == ""


class Broken(io.StringIO):
    """A stream that nobody reads any more."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


@pytest.mark.parametrize("live", [True, False])
def test_nobody_looking_ends_nothing(tmp_path: Path, live: bool) -> None:
    """A closed pipe, and a log that cannot be written, are no reason to lose a run."""
    (tmp_path / "run.log").mkdir()
    display = ProgressDisplay(Broken(), live=live)
    display.start(tmp_path, ("load",))
    display.step("int8", "load")
    display.progress(1, 1, "loading")
    display.step_done(reused=False)
    display.stop()
