"""Checks on speed: what is shown, what is not comparable, what is no speed at all, and the sentences."""

from __future__ import annotations

from dataclasses import replace
from math import log
from typing import Any

import pytest

from evidence import DEVICE, FREED, QUALITY, candidate, decided, evidence, identity, known_bad, policy, reference
from quantgate.records import Check, CheckRule, LeftOut, SpeedPoint, SpeedRun
from quantgate.stages.percentiles import percentile
from racing import generation, speed_run
from speeds import ROOFS, loaded, rate

RULE = CheckRule(kind="min_speed_ratio", minimum=0.95, at=1)
TTFT = CheckRule(kind="max_ttft_ratio", maximum=1.1, at=1)
P99 = CheckRule(kind="max_itl_p99_ratio", maximum=1.1, at=1)
EVEN = (1.0, 1.002, 0.998, 1.001)
SLOW = (0.85, 0.851, 0.849, 0.85)


def check(run: SpeedRun | None, rule: CheckRule = RULE, *others: Any, **fields: Any) -> Check:
    """The check of a rule on a candidate with this run."""
    found = decided(evidence(reference(), candidate(speed=run, **fields), *others, known_bad()), policy(QUALITY, FREED, rule))
    verdict = next(one for one in found.verdicts if one.variant == "int8")
    return next(one for one in verdict.checks if one.name.startswith(("speed", "ttft", "itl")))


def test_a_variant_as_fast_as_the_reference_passes() -> None:
    """Loss, bound and margin are logarithms; the sentence is in times and percent."""
    found = check(speed_run(EVEN))
    assert (found.name, found.outcome, found.n) == ("speed_ratio/batch-1", "pass", 4)
    assert found.estimate == pytest.approx(0, abs=1e-3) and found.margin == pytest.approx(-log(0.95))
    assert found.bound is not None and found.bound <= -log(0.95)
    assert found.because.startswith("has 1.000 times the reference's decode tokens per second at batch 1, at least 0.99")
    assert found.because.endswith("with 95 % confidence over 4 quadruples (CV 0.2 %); at least 0.95 is asked for")


@pytest.mark.parametrize(("rule", "words"), [(RULE, "at most 0.85"), (TTFT, "at least 1.17"), (P99, "at least 1.17")])
def test_a_variant_that_is_slower_fails(rule: CheckRule, words: str) -> None:
    """15 % fewer tokens a second are 18 % more time to the first token and between any two."""
    found = check(speed_run(SLOW), rule)
    assert found.outcome == "fail" and words in found.because


def test_a_fast_enough_variant_passes_on_times_too() -> None:
    """Times: the limit is a maximum, and a ratio of 1 lies below it."""
    assert {check(speed_run(EVEN), one).outcome for one in (TTFT, P99)} == {"pass"}


def test_too_few_quadruples_are_inconclusive() -> None:
    """One quadruple has a ratio and no interval: never a pass."""
    found = check(speed_run((1.1,)))
    assert found.outcome == "inconclusive" and found.bound is None
    assert "nothing can be shown: there is 1 quadruple, and the first planned look is at 4" in found.because


def test_inconclusive_says_how_many_quadruples_would_show_it() -> None:
    """At no loss, and at the ratio seen."""
    found = check(speed_run((0.9, 1.04, 0.93, 1.06)))
    assert found.outcome == "inconclusive"
    assert ". Without a loss about " in found.because and "quadruples would show it, at the ratio seen " in found.because


def test_speed_decides_only_where_a_policy_asks() -> None:
    """The same slow variant passes a policy that says nothing of speed, or that only looks at it."""
    runs = evidence(reference(), candidate(speed=speed_run(SLOW)), known_bad())
    assert decided(runs, policy(QUALITY, FREED)).outcome == "pass"
    assert decided(runs, policy(QUALITY, FREED, replace(RULE, tier="advisory"))).outcome == "pass"
    assert decided(runs, policy(QUALITY, FREED, RULE)).outcome == "fail"


def test_speed_alone_is_no_reason_to_pass() -> None:
    """A fast variant that loses quality fails."""
    found = evidence(reference(), candidate(b=80, c=0, speed=speed_run(EVEN)), known_bad())
    assert decided(found, policy(QUALITY, FREED, RULE)).outcome == "fail"


def test_several_candidates_are_corrected() -> None:
    """Under Holm a speed check is part of a candidate's p-value and tested at its level: what passes at 0.05 need not at 0.025."""
    ratios = (0.965, 0.975, 0.97, 0.98, 0.968, 0.972)
    runs = evidence(reference(), candidate(speed=speed_run(ratios)), candidate("int4", b=90, c=0), known_bad())
    found = decided(runs, policy(QUALITY, FREED, RULE, require="any"))
    levels = {one.name: one.level for verdict in found.verdicts if verdict.variant == "int8" for one in verdict.checks if one.level}
    assert set(levels.values()) == {0.975}


def broken(**fields: Any) -> SpeedRun:
    """A run whose third generation has fields replaced."""
    run = speed_run(EVEN)
    generations = list(run.generations)
    generations[2] = replace(generations[2], **fields)
    return replace(run, generations=tuple(generations))


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (None, "its speed was not measured"),
        (speed_run(()), "batch 1: it was not timed there"),
        (speed_run(EVEN, complete=False), "its timing did not come to its end"),
        (speed_run((), left_out=(LeftOut(point=SpeedPoint(batch_size=1, reference_batch=1), because="no time"),)), "batch 1: no time"),
        (broken(produced_tokens=60), "is no speed: it stopped early: 60 of 64 tokens were produced"),
        (broken(step_s=(0.1, float("nan"), 0.3)), "is no speed: its times are no rising row of finite seconds"),
        (broken(prompt_tokens=65), "not comparable: prompt tokens is '64' for the reference and '64, 65' for the variant"),
        (broken(output_tokens=32, produced_tokens=64), "not comparable: output tokens"),
        (broken(batch_size=2, produced_tokens=128), "its generations are of other batches"),
        (broken(warmup=True), "it was a warm-up"),
        (replace(speed_run(EVEN), generations=()), "a quadruple lacks one of its generations"),
        (speed_run(EVEN, device=replace(DEVICE, driver="550")), "driver is None for the reference and '550' for the variant"),
        (speed_run(EVEN, device=replace(DEVICE, threads=2)), "not comparable: threads is 1 for the reference and 2 for the variant"),
        (speed_run(EVEN, device=replace(DEVICE, name="other")), "not comparable: the device's name is"),
    ],
)
def test_what_cannot_be_compared_is_not_measured(run: SpeedRun | None, words: str) -> None:
    """Missing, early-stopped, non-finite and incomparable times never pass and never fail; the reason names the field."""
    found = check(run)
    assert found.outcome == "not_measured" and words in found.because


def test_quadruples_of_the_same_processes_say_what_their_interval_lacks() -> None:
    """One pair, two of them, or one a quadruple; evidence that does not say is of one pair."""

    def said(*pairs: int | None) -> str:
        run = speed_run(EVEN)
        quadruples = tuple(replace(one, pair=pair) for one, pair in zip(run.quadruples, pairs, strict=True))
        return check(replace(run, quadruples=quadruples)).because

    count = len(EVEN)
    assert "of 1 pair of processes, whose own difference it does not contain" in said(*[None] * count) == said(*[1] * count)
    assert "of 2 pairs of processes" in said(1, *[2] * (count - 1))
    assert "of processes" not in said(*range(count))


def test_a_percentile_needs_its_waits() -> None:
    """Two generations of 40 tokens have 78 waits between tokens: no 99th percentile."""
    short = [generation(0.1, tokens=40)] * 8
    found = check(replace(speed_run(EVEN), generations=tuple(short), partner=tuple(short)), P99)
    assert found.outcome == "not_measured" and "100 waits" in found.because
    assert percentile([4.0, 2.0, 3.0, 1.0], 50) == 2.0 and percentile([], 50) is None


def test_at_each_ones_own_ceiling() -> None:
    """A variant of ceiling 20 beside a reference of 10; without a confirmed ceiling it is not measured."""
    rule = replace(RULE, at="ceiling")
    run = speed_run(EVEN, at=SpeedPoint(batch_size=20, reference_batch=10))
    twice = replace(run, generations=tuple(replace(one, step_s=tuple(s for s in one.step_s)) for one in run.generations))
    found = check(twice, rule)
    assert (found.name, found.outcome) == ("speed_ratio/ceiling", "pass")
    assert "has 2.000 times" in found.because and "at its own ceiling (batch 20, the reference's 10)" in found.because
    assert check(twice, rule, capacity=None).outcome == "not_measured"


def test_a_margin_below_the_noise_floor_is_told() -> None:
    """The reference against itself varied by more than the margin: the check says so and is decided as ever."""
    noisy = replace(identity(), speed=speed_run((1.2, 0.8, 1.1, 0.9)), capacity=None)
    quiet = replace(identity(), speed=speed_run(EVEN), capacity=None)
    assert "The margin lies below the run's own noise floor of " in check(speed_run(EVEN), RULE, noisy).because
    assert check(speed_run(EVEN), RULE, noisy).outcome == "pass"
    assert "noise floor" not in check(speed_run(EVEN), RULE, quiet).because


def test_the_identity_control_is_judged_on_quality_alone() -> None:
    """Its timing is a figure; a machine that is noisy invalidates no run."""
    noisy = replace(identity(), speed=speed_run(SLOW), capacity=None)
    found = decided(evidence(reference(), candidate(speed=speed_run(EVEN)), noisy, known_bad()), policy(QUALITY, FREED, RULE))
    assert found.outcome == "pass"


def test_evidence_of_an_earlier_version_is_not_measured() -> None:
    """Timed blocks without quadruples say nothing at a planned look."""
    old = replace(speed_run(EVEN), quadruples=(), looks=(), device=None, partner_device=None)
    assert check(old).outcome == "not_measured"


def test_a_speed_above_the_roof_decides_nothing() -> None:
    """Steps that would read int8's weights at twice the measured bandwidth: stored times pass no check and fail none."""
    facts = replace(loaded("int8"), weights_sha256="ab" * 32)
    made = evidence(reference(), replace(candidate(speed=speed_run(EVEN)), loaded=facts), known_bad())
    for bandwidth, outcome in ((23e9, "pass"), (1e9, "not_measured")):
        found = decided(replace(made, roofs=replace(ROOFS, reads=(rate("read", bandwidth),))), policy(QUALITY, RULE))
        one = next(each for each in found.verdicts[1].checks if each.name.startswith("speed"))
        assert one.outcome == outcome
    assert "int8 at batch 1: what it reads" in one.because and "measuring fault" in one.because
