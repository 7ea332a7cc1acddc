"""Speed in tables: the ratio with its interval, latencies apart, other workloads apart, and what was left out."""

from __future__ import annotations

from dataclasses import replace

import samples
from quantgate.records import LeftOut, MeasurementRow, SpeedPoint
from quantgate.render import html, markdown, timings
from quantgate.render.quantities import check_figure, check_limit, speed_loss
from quantgate.render.terminal import check_figures, show_variant

POINTS = (SpeedPoint(batch_size=16, reference_batch=16), SpeedPoint(batch_size=32, reference_batch=None, workload="chat"))


def _row(row: MeasurementRow) -> MeasurementRow:
    """Of int8 a row with an interval, one of another workload, and two points that were left out for the same reason."""
    timed = replace(row.speed[0], ratio_low=0.4067, ratio_high=0.4141, ratio_level=0.95, quadruples=6, cv=0.0123, itl_p99_s=0.25)
    other = replace(timed, workload="chat", ratio_low=None, ratio_high=None, ratio_level=None, quadruples=1, cv=None)
    left = tuple(LeftOut(point=one, because="the budget ended") for one in POINTS)
    return replace(row, speed=(timed,), other_speed=(other,), speed_left_out=left, at_ceiling=timed)


def _report() -> object:
    found = samples.sample_report()
    return replace(found, measurements=tuple(_row(one) if one.variant == "int8" else one for one in found.measurements))


def test_bounds_are_rounded_outward_and_what_is_unknown_is_a_dash() -> None:
    """From is rounded down and to is rounded up, each table says its confidence, and one quadruple has neither."""
    row = next(one for one in _report().measurements if one.variant == "int8")  # type: ignore[attr-defined]
    found = dict(timings.tables(row))
    assert list(found) == [
        "speed, decode (from and to: 95 % on each side)",
        "speed, latency",
        "speed of workload chat, decode",
        "speed of workload chat, latency",
        "speed, each at its own ceiling (from and to: 95 % on each side)",
    ]
    decode = found["speed, decode (from and to: 95 % on each side)"]
    assert (decode["from"], decode["to"], decode["CV, %"], decode["quadruples"]) == (["0.40"], ["0.42"], ["1.2"], ["6"])
    chat = found["speed of workload chat, decode"]
    assert (chat["from"], chat["to"], chat["CV, %"]) == (["-"], ["-"], ["-"])
    assert found["speed, latency"]["p99"] == ["250"] and found["speed, latency"]["p90"] == ["-"]


def test_what_was_left_out_is_on_every_page() -> None:
    """Points of one reason stand together, with their workload."""
    report, words = _report(), "batch 16, batch 32 of chat: the budget ended"
    assert words in show_variant(report, "int8")  # type: ignore[arg-type]
    assert words in markdown.page(report) and words in html.page(report)  # type: ignore[arg-type]
    assert "| int8 | chat | 1 |" in markdown.page(report)  # type: ignore[arg-type]


def test_a_check_on_speed_reads_in_percent() -> None:
    """Logarithms never show: a loss is slower or longer, a gain has a minus, bounds are rounded outward, limits are exact."""
    check = samples.check("pass", name="speed_ratio/batch-1", estimate=0.01, lower=-0.0202, bound=0.0305, margin=0.0512932943875505, n=4)
    assert check_figures(check) == (
        "estimate 1.0 % slower, lower bound 2.1 % faster, upper bound 3.1 % slower, allowed 5.0 % slower, quadruples 4"
    )
    assert check_limit("ttft_ratio/batch-1", 0.0953101798043249) == "10.0 % longer"
    assert speed_loss("ttft_ratio/batch-1", -0.1, towards="up") == "9.5 % shorter"  # 9.516 %: a gain is rounded so that none is added
    assert speed_loss("speed_ratio/batch-1", -0.1, towards="down") == "10.6 % faster"  # 10.517 %
    assert check_figure(check, None) == "-" and speed_loss("speed_ratio/ceiling", 0.0512932943875505) == "5.0 % slower"
    assert check_limit("min_speed_ratio", 0.95) == "0.95x"
