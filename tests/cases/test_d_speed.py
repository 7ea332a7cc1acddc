"""Public bug reports, part D: tokens per second and latency."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import log

import pytest

from evidence import DEVICE, FREED, QUALITY, candidate, decided, evidence, known_bad, policy, reference
from quantgate import roofline
from quantgate.devices.fake import FakeDevice
from quantgate.errors import OverRoof
from quantgate.records import (
    CheckRule,
    DeviceConfig,
    Generation,
    ModelShape,
    ModelSource,
    Request,
    SpeedRun,
    Step,
    WeightsUsed,
    Workload,
)
from quantgate.rundir import encode
from quantgate.stages import report
from quantgate.stages.measure import Job, fixed_requests, produced_tokens, time_batch, timed
from quantgate.stats.speed import decide, look_sizes
from racing import speed_run
from sessions import Scripted, full_rows, quiet


def _generation(
    step_s: Sequence[float], *, asked: int, produced: int | None = None, warmup: bool = False
) -> Generation:
    return Generation(
        batch_size=1,
        prompt_tokens=4,
        output_tokens=asked,
        produced_tokens=len(step_s) if produced is None else produced,
        step_s=tuple(step_s),
        warmup=warmup,
    )


def _rows(*generations: Generation) -> tuple[object, ...]:
    one = candidate(speed=SpeedRun(variant="int8", generations=generations))
    found = evidence(reference(), one, known_bad())
    context = report.Context(
        run_id="x",
        created_at="",
        model=ModelSource(name="m", path="/m"),
        golden_sets=(),
        policy=policy(),
        commands=(),
        seconds=0.0,
    )
    return report.build(context, found, decided(found), None).measurements[1].speed


def test_b35_tokens_after_the_first_end_of_sequence_are_not_counted() -> None:
    """[10, 1, 5, 3, 2, 2] with EOS 2 is 5 tokens: at 455.085 samples/s 2,275.43 tokens/s and not 2,730.51."""
    steps = [Step(ids={"row": one}) for one in (10, 1, 5, 3, 2, 2)]
    produced = produced_tokens(steps, (2,))
    assert produced == 5
    assert produced * 455.085 == pytest.approx(2275.43, abs=0.006)
    one = replace(_generation([(step + 1) / 455.085 / 6 for step in range(6)], asked=6), produced_tokens=produced)
    assert one.end_to_end_tokens_per_s == pytest.approx(2275.43, abs=0.006)
    assert one.why_no_speed == "it stopped early: 5 of 6 tokens were produced"


def test_b37_the_produced_length_counts_and_an_early_stop_shows() -> None:
    """100 asked for, 20 produced, first at 0.2 s, last at 2.1 s: 0.1 s a token, 9.52 tokens/s end to end, early stop 100 %."""
    one = _generation([0.2 + 0.1 * step for step in range(20)], asked=100)
    assert one.tpot_s == pytest.approx(0.1)
    assert one.end_to_end_tokens_per_s == pytest.approx(9.52, abs=0.005)
    assert one.early_stop
    row = _rows(one)[0]
    assert row.early_stop_share == 1.0  # type: ignore[attr-defined]
    assert (row.output_tokens_per_s, row.tpot_s) == (None, None)  # type: ignore[attr-defined]  # refused as a speed, not averaged in


def test_b38_decode_and_end_to_end_are_not_mixed() -> None:
    """190 tokens in 4.409816 s, of which 189 decoded in 3.751546 s: 50.38 tokens/s decode, 43.09 end to end."""
    first = 4.409816 - 3.751546
    one = _generation([first + 3.751546 * step / 189 for step in range(190)], asked=190)
    assert one.output_tokens_per_s == pytest.approx(50.38, abs=0.005)
    assert one.end_to_end_tokens_per_s == pytest.approx(43.09, abs=0.005)
    prefill = _generation([0.5, *(0.5 + 0.025 * step for step in range(1, 17))], asked=17)
    assert prefill.output_tokens_per_s == pytest.approx(40.0)


@pytest.mark.parametrize("steps", [[], [0.2]])
def test_b40_one_token_or_none_has_no_time_per_token(steps: list[float]) -> None:
    """TPOT and decode rate are null: no crash, no division by zero, no infinity in JSON, and left out of the median."""
    one = _generation(steps, asked=1)
    assert (one.tpot_s, one.output_tokens_per_s) == (None, None)
    row = _rows(one)[0]
    assert json.loads(encode(row))["tpot_s"] is None and json.loads(encode(row))["itl_p50_s"] is None
    assert one.itl_s == ()
    nothing = replace(one, produced_tokens=0)
    assert nothing.end_to_end_tokens_per_s == (0.0 if steps else None)
    mixed = _rows(one, _generation([0.1, 0.2, 0.3], asked=3))[0]
    assert mixed.tpot_s == pytest.approx(0.1)  # type: ignore[attr-defined]


class Asynchronous(FakeDevice):
    """Work that was submitted takes its time at the barrier only."""

    def __init__(self) -> None:
        super().__init__(DeviceConfig(kind="fake"))
        self.pending_s = 0.0
        self.log: list[str] = []

    def submit(self, seconds: float) -> None:
        self.advance(0.001)
        self.pending_s += seconds
        self.log.append("submit")

    def synchronize(self) -> None:
        self.advance(self.pending_s)
        self.pending_s = 0.0
        self.log.append("sync")

    def now_s(self) -> float:
        self.log.append("clock")
        return super().now_s()


def test_b43_the_clock_is_read_behind_a_barrier() -> None:
    """A step returns in 1 ms and is done after 40: the timer waits before it starts and before each reading."""
    gpu = Asynchronous()

    def generate(requests: Sequence[Request]) -> Iterator[Step]:
        for step in full_rows(requests):
            gpu.submit(0.040)
            yield step

    session = Scripted(generate)
    gpu.submit(5.0)  # somebody's unfinished work is not part of the measurement
    one = timed(session, gpu, fixed_requests(session, Workload(prompt_tokens=2, output_tokens=10), 1, 1))
    gaps = [after - before for before, after in zip((0.0, *one.step_s), one.step_s, strict=False)]
    assert len(gaps) == 10 and min(gaps) >= 0.040 and max(gaps) < 0.05
    readings = [place for place, what in enumerate(gpu.log) if what == "clock"]
    assert len(readings) == 11 and all(gpu.log[place - 1] == "sync" for place in readings)


def test_b44_warm_ups_are_not_measured() -> None:
    """Walls of 3.0, 0.5, 0.1, 0.1, 0.1, 0.1 s with two warm-ups discarded: a median of 0.1 and two reported as discarded."""
    walls = [3.0, 0.5, 0.1, 0.1, 0.1, 0.1]
    row = _rows(*(_generation([wall, 2 * wall], asked=2, warmup=place < 2) for place, wall in enumerate(walls)))[0]
    assert (row.ttft_s, row.tpot_s, row.warmups, row.generations) == (0.1, 0.1, 2, 4)  # type: ignore[attr-defined]
    session = Scripted(full_rows)
    gpu = FakeDevice(DeviceConfig(kind="fake"))
    job = Job(workload=Workload(prompt_tokens=2, output_tokens=9), batch_size=1, warmups=2, seed=1)
    assert [one.warmup for one in time_batch(session, gpu, job, quiet).generations] == [True, True, False]


def test_b44_a_cold_first_iteration_is_told() -> None:
    """A first measured generation of more than twice the median is worth a sentence; an even series is not."""

    def sentences(walls: Sequence[float]) -> str:
        speed = SpeedRun(variant="int8", generations=tuple(_generation([wall / 2, wall], asked=2) for wall in walls))
        found = evidence(reference(), candidate(speed=speed), known_bad())
        context = report.Context(
            run_id="x",
            created_at="",
            model=ModelSource(name="m", path="/m"),
            golden_sets=(),
            policy=policy(),
            commands=(),
            seconds=0.0,
        )
        return " ".join(report.build(context, found, decided(found), None).sentences)

    assert "the first timed generation at batch 1 took 5.00x the median" in sentences([0.5, 0.1, 0.1, 0.1])
    assert "the first timed generation" not in sentences([0.19, 0.1, 0.1, 0.1])


def test_b45_a_slower_variant_is_not_rejected_for_its_speed() -> None:
    """Without a check on speed a variant that is five times slower at batch 1 passes, and its ratio is reported."""
    slow = tuple(_generation([0.5, 1.0], asked=2) for _ in range(2))
    fast = tuple(_generation([0.1, 0.2], asked=2) for _ in range(2))
    found = evidence(
        reference(), candidate(speed=SpeedRun(variant="int8", generations=slow, partner=fast)), known_bad()
    )
    assert decided(found).outcome == "pass"
    assert found.variants[1].speed is not None
    assert found.variants[1].speed.ratio(1) == pytest.approx(0.2)


BASE, AGAIN = [100, 101, 99, 100, 102], [99, 103, 100, 98, 101]
"""Tokens a second of the same code, measured twice."""
FIVE_PERCENT = CheckRule(kind="min_speed_ratio", minimum=0.95, at=1)


def _speed_check(run: SpeedRun, **fields: object) -> tuple[str, str]:
    found = decided(evidence(reference(), candidate(speed=run, **fields), known_bad()), policy(QUALITY, FREED, FIVE_PERCENT))
    check = next(one for one in found.verdicts[1].checks if one.name == "speed_ratio/batch-1")
    return check.outcome, check.because


def test_b114_identical_code_does_not_fail() -> None:
    """The A/A rows of the report, pair by pair, show a loss within 5 %; with one more percent of luck on either side they are left open."""
    losses = [log(base / again) for base, again in zip(BASE, AGAIN, strict=True)]
    found = decide(losses, margin=-log(0.95), alpha=0.05, sizes=look_sizes(32))
    assert found.outcome in ("pass", "inconclusive") and found.lower < 0 < found.upper
    assert _speed_check(speed_run([again / base for base, again in zip(BASE, AGAIN, strict=True)]))[0] != "fail"


def test_b114_a_threshold_alone_is_no_fail() -> None:
    """An estimate beyond the margin is a fail only with its whole interval there; otherwise more is timed."""
    assert _speed_check(speed_run([0.90, 1.02, 0.88, 0.97]))[0] == "inconclusive"
    assert _speed_check(speed_run([0.90, 0.901, 0.899, 0.90]))[0] == "fail"


def test_b114_other_machines_are_not_compared() -> None:
    """100 tokens a second here and 80 on another machine: not measured, and the field is named."""
    elsewhere = replace(DEVICE, name="another machine")
    outcome, because = _speed_check(speed_run([0.8] * 6, device=elsewhere))
    assert outcome == "not_measured"
    assert "the device's name is 'fake device' for the reference and 'another machine' for the variant" in because


def test_b45_a_rate_above_the_bandwidth_is_a_measuring_fault() -> None:
    """8,030,261,248 parameters in bfloat16 at 3.35 TB/s: at most 208.6 tokens/s at batch 1, so 900 are refused and 200 are not."""
    shape = ModelShape(layers=(), hidden=1, vocabulary=1, tied=True)
    used = WeightsUsed(read_bytes=2 * 8_030_261_248, row_bytes=0, body_parameters=8_030_261_248, head_parameters=0)
    most = roofline.most_tokens_per_s(used, shape, cache_element_bytes=2, tokens=1, bytes_per_s=3.35e12)
    assert most == pytest.approx(208.6, abs=0.05)
    with pytest.raises(OverRoof, match=r"4\.31 times the measured roof"):
        roofline.refuse_over_roof("900 tokens/s", 900 / most, 0.0)
    roofline.refuse_over_roof("200 tokens/s", 200 / most, 0.0)
