"""Progress for a person: which variant, which stage, how far, how long still.

On a terminal one line is rewritten; elsewhere a line is printed when a step ends, and at most every half minute in between (``quiet``, for
a job's log: every ten minutes, so that nobody takes a long step for a dead one). All of it goes to standard error, and to run.log with the
time of day. What is left is estimated from the pace measured so far: the current step from its own items, steps to come from the same
stage of earlier variants. Where no variant has done a stage yet, it reads "at least".
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from quantgate.render.quantities import duration

REDRAW_EVERY_S = 0.5
LINE_EVERY_S = 30.0
QUIET_LINE_EVERY_S = 600.0
WIDTH = 110


class ProgressDisplay:
    """A ``Display`` on a text stream. ``live`` rewrites one line; ``quiet`` says little between two steps."""

    def __init__(self, stream: TextIO, *, live: bool, quiet: bool = False) -> None:
        self._stream, self._live = stream, live
        self._every_s = REDRAW_EVERY_S if live else QUIET_LINE_EVERY_S if quiet else LINE_EVERY_S
        self._log: TextIO | None = None
        self._plan: Sequence[str] = ()
        self._index = 0
        self._variant, self._stage, self._what = "", "", ""
        self._done, self._total = 0, 0
        self._step_start_s, self._drawn_s = 0.0, 0.0
        self._pace_s: dict[str, float] = {}
        """Seconds that each stage took last; 0 where it was reused."""
        self._shown = False

    def now_s(self) -> float:
        return time.monotonic()

    def start(self, folder: Path, plan: Sequence[str]) -> None:
        with suppress(OSError):
            self._log = (folder / "run.log").open("a", encoding="utf-8")
        self._plan, self._index = plan, 0
        self.note(f"run folder {folder}")

    def step(self, variant: str, stage: str) -> None:
        self._index += 1
        self._variant, self._stage, self._what = variant, stage, ""
        self._done, self._total = 0, 0
        self._step_start_s = self._drawn_s = self.now_s()
        self._record(f"{variant}: {stage}")
        if self._live:
            self._draw()

    def progress(self, done: int, total: int, what: str) -> None:
        self._done, self._total, self._what = done, total, what
        if self.now_s() - self._drawn_s >= self._every_s:
            self._draw()

    def step_done(self, *, reused: bool) -> None:
        took_s = self.now_s() - self._step_start_s
        self._pace_s[self._stage] = 0.0 if reused else took_s
        how = "reused, unchanged since it was measured" if reused else duration(took_s)
        self._line(f"[{self._index:>2}/{self._steps()}] {self._variant:<12} {self._stage:<20} {how}")
        self._record(f"{self._variant}: {self._stage} done ({how})")

    def note(self, text: str) -> None:
        self._line(text)
        self._record(text)

    def stop(self) -> None:
        self._clear()
        if self._log is not None:
            with suppress(OSError):
                self._log.close()
            self._log = None

    # ------------------------------------------------------------------------------------------ drawing

    def _draw(self) -> None:
        self._drawn_s = self.now_s()
        count = f" {self._done}/{self._total}" if self._total else ""
        what = self._what or self._stage
        text = f"[{self._index:>2}/{self._steps()}] {self._variant:<12} {what}{count}{self._left()}"
        if not self._live:
            self._line(text)
            return
        width = self._width()
        self._write("\r" + text[:width].ljust(width))
        self._shown = True

    def _steps(self) -> int:
        """How many steps there are: those planned, and those that what was found made necessary."""
        return max(len(self._plan), self._index)

    def _left(self) -> str:
        """What is left of this step, and of the whole run."""
        passed_s = self.now_s() - self._step_start_s
        if self._total and self._done:
            step_s: float | None = passed_s * (self._total - self._done) / self._done
        else:
            known_s = self._pace_s.get(self._stage)
            step_s = None if known_s is None else max(0.0, known_s - passed_s)
        here = f"{duration(passed_s)} so far" if step_s is None else f"{duration(step_s)} left in this step"
        return f" · {here}{self._left_in_all(step_s)}"

    def _left_in_all(self, step_s: float | None) -> str:
        """Nothing before any stage has a pace, and nothing in the last step, where it would say the same twice."""
        to_come = self._plan[self._index :]
        known = [self._pace_s[stage] for stage in to_come if stage in self._pace_s]
        if not known:
            return ""
        whole = len(known) == len(to_come) and step_s is not None
        return f" · {'about' if whole else 'at least'} {duration(sum(known) + (step_s or 0.0))} in all"

    def _clear(self) -> None:
        if self._shown:
            self._write("\r" + " " * self._width() + "\r")
            self._shown = False

    def _line(self, text: str) -> None:
        self._clear()
        self._write(text + "\n")

    def _write(self, text: str) -> None:
        """Nobody looking any more (``2>&1 | head``) is no reason to end hours of measuring."""
        with suppress(OSError):
            self._stream.write(text)
            self._stream.flush()

    def _width(self) -> int:
        """Columns of one line: a longer one would wrap, and could not be rewritten."""
        with suppress(OSError, ValueError, AttributeError):
            return min(WIDTH, os.get_terminal_size(self._stream.fileno()).columns - 1)
        return WIDTH

    def _record(self, text: str) -> None:
        if self._log is not None:
            with suppress(
                OSError
            ):  # the log is a convenience: what must be kept is stored by the run, which reports a full disk
                self._log.write(f"{datetime.now(UTC).isoformat(timespec='seconds')} {text}\n")
                self._log.flush()
