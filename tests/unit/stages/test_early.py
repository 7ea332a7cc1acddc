"""Looking early: the order, the looks, which stop may be used, and that the decision is the statistics' own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from evidence import (
    ITEMS,
    QUALITY,
    RIGHT,
    candidate,
    decided,
    evidence,
    golden,
    item_id,
    known_bad,
    policy,
    reference,
    sheet,
    variant,
)
from quantgate.records import Check, CheckRule, Evidence, Policy, ScoreSheet, Sequential, VariantEvidence
from quantgate.stages import early, stopping
from quantgate.stages.deciding import decide, p_pass
from quantgate.stages.early import Early
from quantgate.stages.pairing import Pairs
from quantgate.stats.sequential import anytime, planned_looks

LOOKS = policy(QUALITY, looks=4, looks_seed=5, minimum_items=20, require_controls=False)
BET = policy(QUALITY, sequential=Sequential(bet=0.9, seed=5), minimum_items=20, require_controls=False)


def check(found: Evidence, by: Policy, name: str = "quality/everyday") -> Check:
    return next(one for one in decided(found, by).verdicts[1].checks if one.name == name)


def pairs(losses: Sequence[float], **fields: Any) -> Pairs:
    known = Pairs(
        losses=tuple(losses), scale="binary", clusters=None, reference_answered=(1.0,) * len(losses), absent_variant=0, absent_reference=0
    )
    return replace(known, **fields)


def in_order(by: Policy, one: VariantEvidence) -> list[float]:
    """What each item lost against the reference, in the order of asking."""
    right = {item.item_id: float(item.value or 0) for item in one.sheets[0].items}
    base = {item.item_id: float(item.value or 0) for item in reference().sheets[0].items}
    return [base[name] - right[name] for name in early.order(golden(), early.seed_of(by))]


def test_the_order_is_fixed_by_seed_and_set() -> None:
    """The same every time, all items once; another seed or set gives another order, and no score has a say."""
    first = early.order(golden(), 5)
    assert first == early.order(golden(), 5)
    assert sorted(first) == sorted(golden().item_ids) and first != golden().item_ids
    assert first != early.order(golden(), 6)
    assert first != early.order(replace(golden(), sha256="0" * 64), 5)


def test_looks_are_at_equal_distances_and_the_last_has_all() -> None:
    """Rounded up, never twice at one size."""
    assert early.look_sizes(100, 3) == (34, 67, 100)
    assert early.look_sizes(3, 5) == (1, 2, 3)
    assert early.look_sizes(0, 3) == ()


def test_planned_looks_decide_at_the_first_that_shows_anything() -> None:
    """With everything there, the decision is that of the look at which one would have stopped."""
    sizes = (50, 100, 150, 200)
    found = decide(pairs([0.0] * 200), 0.05, 0.05, Early(sizes=sizes))
    levels = [one.level for one in planned_looks(sizes, alpha=0.05)]
    assert (found.decision.outcome, found.items) == ("pass", 150)
    assert found.decision.level == levels[2]
    assert decide(pairs([0.0] * 200), 0.05, 0.05).items == 200


def test_the_p_value_over_looks_agrees_with_the_decision() -> None:
    """It is at most alpha exactly where the plan at alpha has passed."""
    one, plan = pairs([0.0] * 190 + [1.0] * 3 + [0.0] * 7), Early(sizes=(50, 100, 150, 200))
    p = p_pass(one, 0.05, plan)
    for alpha in (p * 1.01, p * 0.99):
        assert (decide(one, 0.05, alpha, plan).decision.outcome == "pass") == (p <= alpha)


def test_every_item_is_looked_at_in_the_order_of_the_seed() -> None:
    """The gate's outcome and number of items are those of the statistics on the losses in that order."""
    one = candidate(b=2, c=2)
    losses = in_order(BET, one)
    wanted = anytime(losses, margin=0.05, alpha=0.05, bet=0.9, fewest=20)
    made = check(evidence(reference(), one), BET)
    assert (made.outcome, made.items_used, made.estimate, made.n) == (wanted.outcome, wanted.items, sum(losses) / ITEMS, ITEMS)
    assert made.bound is not None and made.estimate is not None and made.estimate <= made.bound <= wanted.upper
    assert made.outcome == "pass" and f"shown after {wanted.items} items" in made.because


def test_nothing_is_declared_before_the_fewest_items() -> None:
    """The evidence counts from the first item; what it shows counts from the policy's fewest items on, and so does its p-value."""
    losses = [-1.0] * 10 + [0.0] * 90
    how = early.Early(bet=0.9, fewest=60)
    assert decide(pairs(losses), 0.05, 0.05, early.Early(bet=0.9)).items == 5
    assert (decide(pairs(losses), 0.05, 0.05, how).items, decide(pairs(losses), 0.05, 0.05, how).decision.outcome) == (60, "pass")
    short = pairs(losses[:50])
    assert (decide(short, 0.05, 0.05, how).decision.outcome, p_pass(short, 0.05, how)) == ("inconclusive", 1.0)


@pytest.mark.parametrize("how", [early.Early(bet=0.9, fewest=1), early.Early(sizes=(200, 400))])
def test_a_pass_shown_early_does_not_stand_against_all_items(how: early.Early) -> None:
    """Gains first and losses after: with a loss at the margin over all items nothing passes, whatever the first ones showed."""
    losses = [-1.0] * 2 + [0.0] * 298 + [1.0] * 22 + [0.0] * 78
    found = decide(pairs(losses), 0.05, 0.05, how)
    assert found.items < 400 and found.decision.outcome == "inconclusive"
    assert (found.decision.estimate, p_pass(pairs(losses), 0.05, how)) == (0.05, 1.0)
    assert "over all 400 the loss is at or above the margin" in str(found.decision.reason)
    better = losses[:-79] + [0.0] * 79
    stands = decide(pairs(better), 0.05, 0.05, how).decision
    assert (stands.outcome, stands.estimate, stands.upper <= 0.05) == ("pass", 19 / 400, True)


def test_losses_are_ranked_over_the_items_that_all_were_asked() -> None:
    """int8 stopped at 90 without a loss; int4 lost two of those and gains later: its better mean over all items does not outrank it."""
    first = set(early.order(golden(), 5)[:90])
    right = [number for number in range(ITEMS) if item_id(number) in first]
    lost = [number for number in right if number < RIGHT][:2]
    full = sheet([number for number in range(ITEMS) if number not in lost and (number < RIGHT or number not in right)], of="int4")
    stop = stopped(BET, 90, sheet(range(RIGHT)))
    found = decided(evidence(reference(), variant("int4", full), variant("int8", stop)), replace(BET, objective="smallest_loss"))
    estimates = [next(check.estimate for check in one.checks if check.n) for one in found.verdicts[1:]]
    assert [one.outcome for one in found.verdicts[1:]] == ["pass", "pass"], found.because
    assert estimates[0] < estimates[1] == 0.0
    assert found.chosen == "int8"


def test_shared_sources_and_unbounded_scores_are_not_for_every_item() -> None:
    """The anytime-valid mode needs independent items and bounds: otherwise it is not measured, never decided in another way."""
    sheets = [sheet(range(RIGHT), of=of, clusters=50) for of in ("float32", "int8")]
    made = check(evidence(reference(sheets[0]), variant("int8", sheets[1])), BET)
    assert (made.outcome, "some of these share a source" in made.because) == ("not_measured", True)


def test_the_controls_are_looked_at_in_the_same_way() -> None:
    """A known-bad control still fails."""
    found = evidence(reference(), candidate(), known_bad())
    for by in (LOOKS, BET):
        assert [one.outcome for one in decided(found, replace(by, require_controls=True)).verdicts] == ["pass", "pass", "fail"]


# ---------------------------------------------------------------------------------------------- sheets that end early


def stopped(by: Policy, asked: int, one: ScoreSheet | None = None) -> ScoreSheet:
    """The candidate's sheet ended after so many items in the policy's order."""
    whole = one or candidate().sheets[0]
    ids = set(early.order(golden(), early.seed_of(by))[:asked])
    stop = early.stopped_by(by, asked, ITEMS, "a pass was shown")
    return replace(whole, items=tuple(item for item in whole.items if item.item_id in ids), stopped=stop)


def run(made: ScoreSheet) -> Evidence:
    return evidence(reference(), variant("int8", made))


@pytest.mark.parametrize(("by", "asked"), [(LOOKS, 150), (BET, 90), (BET, 120)])
def test_a_stop_is_judged_as_the_whole_would_have_been(by: Policy, asked: int) -> None:
    """Items that were not asked are not lost: outcome and items are those of the whole sheet at that look, whose bound is no wider."""
    found, whole = check(run(stopped(by, asked)), by), check(run(candidate().sheets[0]), by)
    if found.outcome == "pass":
        assert (found.items_used, found.level) == (whole.items_used, whole.level)
        assert found.bound is not None and whole.bound is not None and whole.bound <= found.bound
    assert found.outcome in ("pass", "inconclusive")
    assert "without an answer" not in found.because
    assert found.n == asked


def test_an_item_that_was_asked_and_not_answered_is_still_lost() -> None:
    """The stop excuses what lies behind it and nothing before."""
    made = stopped(LOOKS, 150)
    gone = replace(made.items[0], value=None)
    found = check(run(replace(made, items=(gone, *made.items[1:]))), LOOKS)
    assert "1 item without an answer counts as lost" in found.because


def _shortened(made: ScoreSheet) -> ScoreSheet:
    return replace(made, items=made.items[1:])


def _exchanged(made: ScoreSheet) -> ScoreSheet:
    other = next(one for one in candidate().sheets[0].items if one.item_id not in {item.item_id for item in made.items})
    return replace(made, items=(other, *made.items[1:]))


ONCE = policy(QUALITY, minimum_items=20, require_controls=False)
UNUSABLE: dict[str, tuple[ScoreSheet, Policy, str]] = {
    "a policy that looks once": (stopped(LOOKS, 150), ONCE, "this policy does not look early"),
    "anytime under a policy that looks once": (stopped(BET, 150), ONCE, "this policy does not look early"),
    "another seed": (stopped(LOOKS, 150), replace(LOOKS, looks_seed=6), "by another rule than this policy's"),
    "another number of looks": (stopped(LOOKS, 150), replace(LOOKS, looks=3), "by another rule"),
    "another bet": (stopped(BET, 150), replace(BET, sequential=Sequential(bet=0.5, seed=5)), "by another rule"),
    "looks under a bet": (stopped(LOOKS, 150), BET, "by another rule"),
    "no look there": (stopped(LOOKS, 151), LOOKS, "where no look was planned"),
    "half stopped: one fewer": (_shortened(stopped(LOOKS, 150)), LOOKS, "are not the first 150"),
    "chosen items": (_exchanged(stopped(BET, 150)), BET, "are not the first 150"),
    "more than it says": (replace(candidate().sheets[0], stopped=early.stopped_by(BET, 150, ITEMS, "")), BET, "are not the first 150"),
    "another size of the set": (
        replace(stopped(BET, 150), stopped=early.stopped_by(BET, 150, 900, "")), BET, "the golden set has 200 items",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", UNUSABLE)
def test_a_stop_by_another_rule_is_not_measured(case: str) -> None:
    """An early end counts only for the rule that allowed it; anything else would be a second chance to pass."""
    made, by, words = UNUSABLE[case]
    found = check(run(made), by)
    assert (found.outcome, words in found.because) == ("not_measured", True), found.because


def test_the_reference_and_controls_answer_everything() -> None:
    """Neither may end early."""
    base = stopped(LOOKS, 150, reference().sheets[0])
    assert "the scoring of the reference stopped early" in check(evidence(reference(base), candidate()), LOOKS).because
    bad = variant("int2", stopped(LOOKS, 150, sheet(range(40), of="int2")), role="known_bad")
    verdict = decided(evidence(reference(), candidate(), bad), LOOKS).verdicts[2]
    assert verdict.outcome == "not_measured"


# ---------------------------------------------------------------------------------------------- when to stop


def test_scoring_ends_on_a_pass_of_all_that_is_required() -> None:
    """Not before the policy's fewest items, not on the last item, not for a control, not where a perplexity needs every text."""
    one, by = candidate(), LOOKS
    part = replace(stopped(by, 150), stopped=None)
    known = (reference(), replace(one, sheets=()))
    found = stopping.enough(part, golden(), known, (by, 1))
    assert found is not None and found.stopped is not None and found.stopped.asked == 150
    assert check(run(found), by).outcome == "pass"
    assert stopping.enough(replace(stopped(by, 50), stopped=None), golden(), known, (by, 1)) is None
    assert stopping.enough(one.sheets[0], golden(), known, (by, 1)) is None
    assert stopping.enough(part, golden(), known, (replace(by, minimum_items=160), 1)) is None
    assert stopping.enough(part, golden(), known, (replace(by, require="any"), 6)) is None
    texts = replace(by, checks=(*by.checks, CheckRule(kind="perplexity_ratio", maximum=1.1)))
    assert stopping.enough(part, golden(), known, (texts, 1)) is None
    bad = replace(known_bad(), sheets=())
    assert stopping.enough(part, golden(), (reference(), bad), (by, 1)) is None


def test_a_variant_that_loses_is_scored_to_its_end() -> None:
    """A fail that is shown is no reason to stop: its report is to be whole."""
    lost = variant("int8", sheet(range(40, RIGHT)))
    part = replace(stopped(LOOKS, 100, lost.sheets[0]), stopped=None)
    assert stopping.enough(part, golden(), (reference(), lost), (LOOKS, 1)) is None


def test_parts_are_the_order_cut_at_the_looks() -> None:
    """All items once, in the order of asking; in the anytime-valid mode in steps that fill batches."""
    for by, number in ((LOOKS, 4), (BET, ITEMS // stopping.AT_A_TIME)):
        parts = stopping.parts(by, golden())
        assert len(parts) == number
        assert tuple(one for part in parts for one in part) == early.order(golden(), 5)


def test_a_slice_is_looked_at_when_the_whole_is() -> None:
    """Its looks have as many of its items as the whole set's looks hold."""
    found = early.early_of(LOOKS, golden(), golden().parts[0].item_ids, 1)
    assert found is not None and found.sizes[-1] == ITEMS // 2 and len(found.sizes) == 4
    asked = early.order(golden(), 5)[:50]
    assert found.sizes[0] == sum(int(one[1:]) % 2 == 0 for one in asked)
    assert item_id(0) in golden().parts[0].item_ids
