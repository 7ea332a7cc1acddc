"""What the machine did: sampled into the folder, and read back as figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from quantgate.sinks.mlflow_system import FILE, SystemWatch, system_figures


def test_a_short_block_has_its_beginning_and_its_end(tmp_path: Path) -> None:
    """However short it is, there are two samples of processor and memory, with their times."""
    ticks = iter(range(100, 200))
    with SystemWatch(tmp_path, interval_s=60, clock=lambda: next(ticks)):
        pass
    found = list(system_figures(tmp_path))
    assert {(one.step, one.at_ms) for one in found} == {(0, 100_000), (1, 101_000)}
    assert {"system/cpu_utilization_percentage", "system/system_memory_usage_megabytes"} <= {one.name for one in found}


def test_a_run_that_is_gone_on_with_adds_to_its_samples(tmp_path: Path) -> None:
    """The second block's steps come after the first one's."""
    for _ in range(2):
        with SystemWatch(tmp_path, interval_s=60):
            pass
    assert sorted({one.step for one in system_figures(tmp_path)}) == [0, 1, 2, 3]


def test_what_cannot_be_sampled_fails_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A monitor that raises, and an error of the block itself: neither hides the other."""

    def broken(self: Any) -> None:
        raise OSError("no such counter")

    monkeypatch.setattr("quantgate.sinks.mlflow_system.CPUMonitor.collect_metrics", broken)
    with pytest.raises(ZeroDivisionError), SystemWatch(tmp_path, interval_s=60):
        raise ZeroDivisionError
    assert list(system_figures(tmp_path)) == []


def test_a_line_that_was_cut_off_is_no_sample(tmp_path: Path) -> None:
    """A crash in the middle of a line costs that line."""
    line = json.dumps({"at_ms": 5, "metrics": {"cpu": 1.0}})
    (tmp_path / FILE).write_text(f"{line}\n{line[:20]}\n{line}\n", encoding="utf-8")
    assert [(one.name, one.step, one.at_ms) for one in system_figures(tmp_path)] == [("system/cpu", 0, 5), ("system/cpu", 2, 5)]
    assert list(system_figures(tmp_path / "nowhere")) == []
