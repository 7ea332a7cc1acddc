"""Graded and unbounded scores under the gate: the decision is the statistics' own, and what does not fit together is never decided on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from evidence import CONDITIONS, ITEMS, decided, evidence, golden, item_id, policy, reference, variant
from quantgate.records import BatchPlan, Check, CheckRule, Evidence, ItemEvidence, ItemScore, ScoreSheet
from quantgate.stages.pairing import Meaning
from quantgate.stats.graded import decide_scores

QUALITY = CheckRule(kind="quality", margin=0.05)
UNBOUNDED = CheckRule(kind="quality", margin=0.5, scale="unbounded")
RNG = np.random.default_rng(3)
BASE = np.clip(RNG.normal(0.7, 0.15, ITEMS), 0, 1)
JITTER = RNG.normal(0.0, 0.05, ITEMS)
LOGS = RNG.normal(-40.0, 8.0, ITEMS)


def graded(values: Sequence[float | None] | np.ndarray, *, of: str, clusters: int | None = None, **fields: Any) -> ScoreSheet:
    """A sheet of scores in [0, 1], higher is better, unless told otherwise."""
    items = tuple(
        ItemScore(
            item_id=item_id(number),
            slice="even" if number % 2 == 0 else "odd",
            cluster=None if clusters is None else f"source {number % clusters}",
            value=None if value is None else float(value),
            evidence=ItemEvidence(item_id=item_id(number), text="a text", output_tokens=20),
        )
        for number, value in enumerate(values)
    )
    known = ScoreSheet(
        variant=of, golden_set="everyday", golden_version="1", golden_sha256=golden().sha256, items=items, batch_plan=BatchPlan(),
        conditions=CONDITIONS, first_prompt="one + one =", scale="unit", better="higher",
    )  # fmt: skip
    return replace(known, **fields)


def run(base: Any, other: Any, *, chance: float = 0.0, clusters: int | None = None, **fields: Any) -> Evidence:
    """A reference and a candidate with these scores."""
    sheets = [graded(values, of=of, clusters=clusters, **fields) for values, of in ((base, "float32"), (other, "int8"))]
    return evidence(reference(sheets[0]), variant("int8", sheets[1]), golden_sets=[golden(chance=chance)])


def check(found: Evidence, *rules: CheckRule, name: str = "quality/everyday", **fields: Any) -> Check:
    """One check of the candidate."""
    verdict = decided(found, policy(*(rules or (QUALITY,)), require_controls=False, **fields)).verdicts[1]
    return next(one for one in verdict.checks if one.name == name)


def test_the_decision_is_that_of_the_graded_rule() -> None:
    """Outcome, bounds and p-value on paired scores are those of the statistics, to the bit."""
    other = np.clip(BASE + JITTER, 0, 1)
    made, wanted = check(run(BASE, other)), decide_scores(losses=BASE - other, margin=0.05, alpha=0.05).decision
    found = (made.outcome, made.estimate, made.lower, made.bound, made.p_value)
    assert found == (wanted.outcome, wanted.estimate, wanted.lower, wanted.upper, wanted.p_pass)
    assert (made.outcome, made.scale, made.n, made.b) == ("pass", "unit", ITEMS, int((other < BASE).sum()))
    assert "points of score" in made.because


def test_a_large_loss_fails_and_says_so() -> None:
    """A fifth less everywhere is beyond five points."""
    made = check(run(BASE, np.clip(BASE - 0.2 + JITTER, 0, 1)))
    assert (made.outcome, made.because.startswith("loses ")) == ("fail", True)


def test_clusters_decide_on_graded_scores_too() -> None:
    """Items that share sources go through the clustered form of the same rule; under ten sources nothing is shown."""
    other = np.clip(BASE + JITTER, 0, 1)
    sources = [f"source {number % 40}" for number in range(ITEMS)]
    wanted = decide_scores(losses=BASE - other, margin=0.05, alpha=0.05, clusters=sources).decision
    made = check(run(BASE, other, clusters=40))
    assert (made.outcome, made.bound) == (wanted.outcome, wanted.upper)
    assert "effective clusters" in check(run(BASE, other, clusters=5)).because


def test_slices_holm_and_waivers_work_as_with_right_or_wrong() -> None:
    """A required slice is a check of its own; Holm tests the better of two first; a waiver keeps a fail from blocking."""
    other = np.clip(BASE + JITTER, 0, 1)
    rule = CheckRule(kind="quality", margin=0.1, slices=("even",), minimum_items=50)
    made = check(run(BASE, other), QUALITY, rule, name="quality/everyday/even")
    assert (made.outcome, made.n) == ("pass", ITEMS // 2)
    found = run(BASE, other)
    worse = variant("int4", graded(np.clip(BASE - 0.2, 0, 1), of="int4"))
    two = decided(evidence(*found.variants, worse, golden_sets=found.golden_sets), policy(QUALITY, require="any", require_controls=False))
    assert (two.outcome, two.chosen) == ("pass", "int8")
    assert next(one.level for one in two.verdicts[1].checks if one.name == "quality/everyday") == 0.975


def test_the_assay_must_be_sensitive_for_scores_too() -> None:
    """A reference that scores 6 of 100 cannot lose five points in a way that shows."""
    low = np.full(ITEMS, 0.06) + np.abs(JITTER) / 10
    made = check(run(low, low * 0.9))
    assert made.outcome == "not_measured"
    assert "scores 6." in made.because and "could not be seen" in made.because


@pytest.mark.parametrize("scale", ["unit", "unbounded"])
def test_b97_where_lower_is_better_more_is_a_loss(scale: Any) -> None:
    """B97: 37 % more of what should be little is a loss, never a gain by the metric's name; 37 % less is a gain."""
    base = np.full(ITEMS, 0.2) + np.abs(JITTER)
    rule = UNBOUNDED if scale == "unbounded" else QUALITY
    rule = replace(rule, margin=0.02)
    more = check(run(base, base * 1.37, scale=scale, better="lower"), rule)
    less = check(run(base, base * 0.63, scale=scale, better="lower"), rule)
    assert (more.outcome, less.outcome) == ("fail", "pass")
    assert more.estimate is not None and more.estimate > 0.06


def test_an_absent_item_is_the_lowest_score_and_in_the_reference_the_highest() -> None:
    """In [0, 1] both ends are known, whichever way the metric goes."""
    assert Meaning(scale="unit", better="higher").loss(0.3, None) == 1.0
    assert Meaning(scale="unit", better="lower").loss(0.3, None) == 1.0
    assert Meaning(scale="unit", better="higher").loss(None, 0.3) == pytest.approx(0.7)
    assert Meaning(scale="unit", better="lower").loss(None, 0.3) == pytest.approx(0.3)


def test_absent_items_count_as_lost() -> None:
    """Thirty of 200 without a score are lost whole, and block."""
    other: list[float | None] = [None if number < 30 else float(value) for number, value in enumerate(BASE)]
    made = check(run(BASE, other))
    assert made.outcome == "fail"
    assert "30 items without an answer count as lost" in made.because


def test_unbounded_scores_are_decided_in_their_own_unit() -> None:
    """Log-likelihoods under a margin of half a nat an item; the sentence and the bounds have that unit."""
    other = LOGS - np.abs(JITTER)
    made = check(run(LOGS, other, scale="unbounded"), UNBOUNDED)
    wanted = decide_scores(losses=LOGS - other, margin=0.5, alpha=0.05, bounded=False).decision
    assert (made.outcome, made.bound, made.scale) == (wanted.outcome, wanted.upper, "unbounded")
    assert "in score" in made.because and "allowed 0.50" in made.because and "points" not in made.because


def test_unbounded_scores_with_few_changes_show_nothing() -> None:
    """Under twenty that changed: inconclusive, and no bound is made up."""
    made = check(run(LOGS, LOGS - np.where(np.arange(ITEMS) < 5, 0.1, 0), scale="unbounded"), UNBOUNDED)
    assert (made.outcome, made.lower, made.bound) == ("inconclusive", None, None)
    assert "5 units changed" in made.because


NAN, INF = math.nan, math.inf


def with_one(value: float | None) -> list[float | None]:
    return [value, *(float(one) for one in BASE[1:])]


BROKEN: dict[str, tuple[Evidence, CheckRule, str]] = {
    "NaN": (run(BASE, with_one(NAN)), QUALITY, "which is no number"),
    "infinity": (run(with_one(INF), BASE), QUALITY, "which is no number"),
    "above one": (run(BASE, with_one(1.2)), QUALITY, "write 'scale: unbounded' into the check"),
    "below zero": (run(with_one(-0.1), BASE), QUALITY, "not between 0 and 1"),
    "NaN, unbounded": (run(LOGS, [NAN, *LOGS[1:]], scale="unbounded"), UNBOUNDED, "which is no number"),
    "an item missing, unbounded": (run(LOGS, [None, *LOGS[1:]], scale="unbounded"), UNBOUNDED, "lacks a score on one of the sides"),
    "unbounded scores, a margin in points": (run(LOGS, LOGS, scale="unbounded"), QUALITY, "its scores have no bounds"),
    "the policy says unbounded, the metric graded": (run(BASE, BASE), UNBOUNDED, "their metric says that they are graded in 0 to 1"),
    "no direction": (run(BASE, BASE - 0.01, better=None), QUALITY, "'better: higher' or 'better: lower'"),
    "no direction, unbounded": (run(LOGS, LOGS - 0.1, scale="unbounded", better=None), UNBOUNDED, "'better: higher' or"),
    "the other direction": (run(BASE, BASE), replace(QUALITY, better="lower"),
        "higher by the reference's results, higher by the variant's, lower by the policy"),
    "graded scores of a metric of right or wrong": (run(BASE, BASE, scale="binary"), QUALITY, "right (1) and wrong (0)"),
    "a reference that scores the same": (run(np.full(ITEMS, -3.0), LOGS, scale="unbounded"), UNBOUNDED, "the same score on every item"),
    "no margin": (run(BASE, BASE), replace(QUALITY, margin=None), "the policy gives no margin"),
    "a margin of one": (run(BASE, BASE), replace(QUALITY, margin=1.0), "must lie between 0 and 1"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_scores_are_not_measured(case: str) -> None:
    """Whatever is odd about graded or unbounded evidence, it ends not measured, with what to do."""
    found, rule, words = BROKEN[case]
    made = check(found, rule)
    assert (made.outcome, words in made.because) == ("not_measured", True), made.because


BOTH_WAYS = "higher by the reference's results, lower by the variant's"


def test_scales_or_directions_that_differ_between_the_sides() -> None:
    """One side graded and the other unbounded, or one way and the other: not comparable."""
    found = run(BASE, BASE)
    for fields, words in (({"scale": "unbounded"}, "the scale of the scores"), ({"better": "lower"}, BOTH_WAYS)):
        one = found.variants[1]
        odd = replace(one, sheets=(replace(one.sheets[0], **fields),))
        made = check(replace(found, variants=(found.variants[0], odd)))
        assert (made.outcome, words in made.because) == ("not_measured", True), made.because


def test_the_same_evidence_gives_the_same_verdict() -> None:
    """No randomness: twice the same record."""
    other = np.clip(BASE + JITTER, 0, 1)
    assert check(run(BASE, other)) == check(run(BASE, other))


TASKS = {**CONDITIONS, "tasks": "lm_eval", "metric": "overlap"}


def test_scores_of_task_code_are_what_its_numbers_are() -> None:
    """Graded ones are decided as such where the tasks state a direction; without one nothing is, and right or wrong needs none."""
    other = np.clip(BASE + JITTER, 0, 1)
    wanted = check(run(BASE, other))
    assert check(run(BASE, other, scale=None, conditions=TASKS)) == wanted
    unsaid = check(run(BASE, other, scale=None, better=None, conditions=TASKS))
    assert (unsaid.outcome, "write 'better: higher'" in unsaid.because) == ("not_measured", True)
    right = (BASE > 0.5).astype(float)
    made = check(run(right, right, scale=None, better=None, conditions=TASKS))
    assert (made.outcome, made.scale) == ("pass", "binary")


def test_unbounded_scores_of_task_code_are_named_by_the_policy() -> None:
    """Points up to 100 are no shares: not measured with what to write, and decided once that is written."""
    other = LOGS + 0.01 * JITTER
    made = check(run(LOGS, other, scale=None, conditions=TASKS))
    assert (made.outcome, "scale: unbounded" in made.because) == ("not_measured", True)
    assert check(run(LOGS, other, scale=None, conditions=TASKS), UNBOUNDED).outcome == "pass"


def test_a_session_that_states_nothing_has_right_or_wrong_only() -> None:
    """Only task code may leave open what its numbers are."""
    made = check(run(BASE, BASE, scale=None, better=None))
    assert (made.outcome, "right (1) and wrong (0)" in made.because) == ("not_measured", True)
