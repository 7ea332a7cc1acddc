"""Rows of a report from timed generations."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evidence import candidate, capacity, reference
from quantgate.records import SpeedPoint, SpeedRun
from quantgate.stages.timings import at_ceiling, rows
from racing import generation, speed_run


def test_a_row_has_its_ratio_with_interval_and_spread() -> None:
    """The ratio is the mean over quadruples; the bounds stand around it at the policy's level; four quadruples are needed for them."""
    (row,), others = rows(speed_run((0.90, 0.92, 0.88, 0.90)), 0.05)
    assert others == () and (row.quadruples, row.generations, row.ratio_level) == (4, 8, 0.95)
    assert row.ratio_low is not None and row.ratio_high is not None and row.ratio_to_reference is not None
    assert row.ratio_low < row.ratio_to_reference < row.ratio_high
    assert row.ratio_to_reference == pytest.approx(0.90, abs=0.001) and row.cv == pytest.approx(0.018, abs=0.001)
    (few,), _ = rows(speed_run((0.9, 0.9)), 0.05)
    assert (few.ratio_low, few.ratio_high, few.ratio_level, few.quadruples) == (None, None, None, 2)


def test_latencies_are_of_all_waits_together() -> None:
    """50th, 90th and 99th percentile of the waits between tokens, by nearest rank; the last one needs a hundred of them."""
    (row,), _ = rows(SpeedRun(variant="x", generations=(generation(0.1), generation(0.3))), 0.05)
    assert row.itl_p50_s == pytest.approx(0.1) and row.itl_p90_s == pytest.approx(0.3) and row.itl_p99_s == pytest.approx(0.3)
    (short,), _ = rows(SpeedRun(variant="x", generations=(generation(0.1),)), 0.05)
    assert short.itl_p90_s == pytest.approx(0.1) and short.itl_p99_s is None
    assert (row.prefill_tokens_per_s, row.ratio_to_reference) == (pytest.approx((64 / 1.0 + 64 / 3.0) / 2), None)


def test_other_workloads_have_rows_of_their_own() -> None:
    """They do not mix with the run's own, nor with its rate at a batch."""
    run = SpeedRun(variant="x", generations=(generation(0.1), generation(0.2, workload="chat")))
    own, others = rows(run, 0.05)
    assert [one.workload for one in own] == ["main"] and [one.workload for one in others] == ["chat"]
    assert run.rates(1) == pytest.approx([10.0])


def test_a_run_that_stopped_early_is_counted_and_enters_no_figure() -> None:
    """Half of the runs stopped early: the share is told, the median is that of the other half."""
    run = SpeedRun(variant="x", generations=(generation(0.1), generation(0.2, produced_tokens=3)))
    (row,), _ = rows(run, 0.05)
    assert (row.early_stop_share, row.generations) == (0.5, 2) and row.output_tokens_per_s == pytest.approx(10.0)


def test_both_at_their_own_ceilings() -> None:
    """Paired there and only there."""
    at = SpeedPoint(batch_size=20, reference_batch=10)
    one = candidate(speed=speed_run((1.0, 1.0), at=at))
    found = at_ceiling(one, reference(), 0.05)
    assert found is not None and (found.batch_size, found.generations) == (20, 4)
    assert found.ratio_to_reference == pytest.approx(2.0)
    assert at_ceiling(replace(one, capacity=capacity(19)), reference(), 0.05) is None
    assert at_ceiling(candidate(), reference(), 0.05) is None


def test_runs_of_earlier_versions_keep_their_ratio() -> None:
    """Without quadruples the ratio is that of the means, without an interval."""
    old = replace(speed_run((0.9, 0.9)), quadruples=())
    (row,), _ = rows(old, 0.05)
    assert row.ratio_to_reference == pytest.approx(0.9) and row.ratio_low is None
