"""What a policy asks before anything is measured, and whether golden sets can answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evidence import FREED, QUALITY, decided, evidence, golden, known_bad, policy, reference, sheet, variant
from quantgate.records import CheckRule, Policy, Sequential, Waiver
from quantgate.stages import plan
from quantgate.stats.paired import p_loss_at_least
from quantgate.stats.power import items_needed, items_without_a_flip, power

EVEN = CheckRule(kind="quality", slices=("even",), margin=0.08)
LOOK = CheckRule(kind="quality", tier="advisory", slices=("*",), margin=0.1)


@pytest.mark.parametrize(
    ("by", "candidates", "level"),
    [
        (policy(require="any"), 3, 0.05 / 3),
        (policy(require="any", family_size=5), 3, 0.01),
        (policy(require="any", family_size=2), 3, 0.05 / 3),
        (policy(require="any", correction="none"), 3, 0.05),
        (policy(require="any", correction="fixed_sequence", order=("a", "b")), 2, 0.05),
        (policy(require="all"), 3, 0.05),
        (policy(require="any"), 0, 0.05),
    ],
)
def test_the_first_level(by: Policy, candidates: int, level: float) -> None:
    """Holm divides alpha by its family; an order and ``all`` do not."""
    assert plan.first_level(by, candidates) == level


def test_the_first_level_is_the_one_the_gate_tests_the_best_at() -> None:
    """The plan and the decision agree on it."""
    ids = ("a", "b", "c")
    found = evidence(reference(), *(variant(name, sheet(range(at, 160), of=name)) for at, name in enumerate(ids)), known_bad())
    by = policy(require="any", family_size=4)
    best = next(one for one in decided(found, by).verdicts if one.variant == "a")
    assert next(one.level for one in best.checks if one.level) == 1 - plan.first_level(by, 3)


def test_questions_are_the_checks_of_the_gate() -> None:
    """A question a set and slice, with its items, margin and level; their names are those the gate gives."""
    by = policy(QUALITY, FREED, EVEN, LOOK, require="any")
    asked = plan.questions(by, (golden(), golden("law", items=90)), 2)
    assert [(one.check, one.golden, one.items, one.margin, one.level) for one in asked] == [
        ("quality/everyday", "everyday 1", 200, 0.05, 0.025),
        ("quality/law", "law 1", 90, 0.05, 0.025),
        ("quality/everyday/even", "even of everyday 1", 100, 0.08, 0.025),
        ("quality/law/even", "even of law 1", 45, 0.08, 0.025),
        ("quality/everyday/even", "even of everyday 1", 100, 0.1, 0.0125),
        ("quality/everyday/odd", "odd of everyday 1", 100, 0.1, 0.0125),
        ("quality/law/even", "even of law 1", 45, 0.1, 0.0125),
        ("quality/law/odd", "odd of law 1", 45, 0.1, 0.0125),
    ]
    judged = decided(evidence(reference(), variant("int8", sheet(range(160)))), policy(QUALITY, EVEN, LOOK, require_controls=False))
    names = [one.name for one in judged.verdicts[1].checks if one.name.startswith("quality")]
    assert names == [one.check for one in plan.questions(policy(QUALITY, EVEN, LOOK), (golden(),), 1)]


def test_a_resolution_is_what_the_statistics_say() -> None:
    """Each figure is the enumeration's own, at the question's level."""
    question = plan.questions(policy(require="any"), (golden(),), 2)[0]
    found = plan.resolution(question, policy(require="any"))
    assert found.power == power(n=200, flip_rate=0.05, margin=0.05, alpha=0.025)
    assert found.items_needed == items_needed(flip_rate=0.05, margin=0.05, alpha=0.025)
    assert found.items_without_a_flip == items_without_a_flip(margin=0.05, alpha=0.025)
    assert found.smallest_margin is not None and found.largest_flip_rate is not None


@pytest.mark.parametrize(("margin", "items"), [(0.01, 299), (0.02, 149), (0.03, 99), (0.05, 59)])
def test_the_fewest_items_that_can_pass_without_a_flip(margin: float, items: int) -> None:
    """299, 149, 99 and 59 items for 1, 2, 3 and 5 points at 0.05; one fewer does not pass."""
    assert items_without_a_flip(margin=margin) == items
    assert p_loss_at_least(b=0, c=0, n=items, margin=margin) <= 0.05 < p_loss_at_least(b=0, c=0, n=items - 1, margin=margin)


def test_no_number_of_items_passes_below_the_smallest_p_value() -> None:
    """A level at or below gamma is met by nothing."""
    assert items_without_a_flip(margin=0.05, alpha=1e-4) is None


SPEED = CheckRule(kind="min_speed_ratio", minimum=0.9)
WAIVER = Waiver(check="quality/everyday", variant="int8", owner="a", reason="b", expires="2026-12-31")


@pytest.mark.parametrize(
    ("by", "where", "words"),
    [
        (policy(QUALITY, replace(QUALITY, golden_set="law")), ("checks", 1, "golden_set"), "golden set 'law', and the run has everyday"),
        (policy(QUALITY, replace(EVEN, slices=("evn",))), ("checks", 1, "slice"), "no slice 'evn': did you mean 'even'? known are"),
        (policy(EVEN, minimum_items=101), ("checks", 0), "slice 'even' of everyday has 100 items and the policy asks for at least 101"),
        (policy(QUALITY, replace(QUALITY, golden_set="everyday", margin=0.1)), ("checks", 1), "everyday stands twice, as checks[0]"),
        (policy(QUALITY, SPEED, FREED, replace(SPEED, minimum=0.8)), ("checks", 3), "stands twice, as checks[1] and as checks[3]"),
        (policy(waivers=(replace(WAIVER, check="quality/every"),)), ("waivers", 0, "check"), "did you mean 'quality/everyday'?"),
        (policy(waivers=(replace(WAIVER, check="kl_mean/everyday"),)), ("waivers", 0, "check"), "no required check 'kl_mean/everyday'"),
    ],
)
def test_what_the_golden_sets_cannot_answer(by: Policy, where: plan.Where, words: str) -> None:
    """A set, slice or check that is not there, with the place of its key and the nearest name."""
    found = plan.fault(by, (golden(),))
    assert found is not None and (found.where, words in found.what) == (where, True), found


@pytest.mark.parametrize(
    "name",
    ["quality/everyday", "quality/everyday/even", "memory/freed_share", "ceiling/ratio", "kl_p99/everyday", "output_length/everyday"],
)
def test_every_required_check_can_be_named_by_a_waiver(name: str) -> None:
    """The names the gate gives are the names a waiver may use."""
    rules = (
        QUALITY, FREED, EVEN, CheckRule(kind="ceiling_ratio", minimum=1.5), CheckRule(kind="kl_p99", maximum=1.0),
        CheckRule(kind="output_length", minimum=0.5, maximum=2.0),
    )  # fmt: skip
    assert plan.fault(policy(*rules, waivers=(replace(WAIVER, check=name),)), (golden(),)) is None


def test_a_check_may_stand_in_both_tiers_and_at_several_batches() -> None:
    """A required limit with a tighter advisory one is two questions, and so are two batch sizes."""
    rules = (QUALITY, replace(QUALITY, tier="advisory", margin=0.02), SPEED, replace(SPEED, at=8), replace(SPEED, at="ceiling"))
    assert plan.fault(policy(*rules), (golden(),)) is None


def test_an_advisory_slice_that_is_small_is_no_fault() -> None:
    """It is shown as not measured and blocks nothing."""
    assert plan.fault(policy(QUALITY, LOOK, minimum_items=150), (golden(),)) is None


def test_noise_that_would_block_the_reference_is_named() -> None:
    """Under 0.99 at the noise flip rate, enumerated at the controls' own level; at the default rate the same set is fine."""
    question = plan.questions(policy(), (golden(),), 2)[0]
    assert plan.why_noisy(question, policy()) is None
    found = plan.why_noisy(question, policy(noise_flip_rate=0.1))
    reached = power(n=200, flip_rate=0.1, margin=0.05, alpha=0.05)
    assert found is not None and f"with probability {int(reached * 1000) / 1000:.3f} only" in found


def test_early_looks_are_planned_for() -> None:
    """Planned looks cost a little power; the anytime-valid mode costs more, and says when half have passed; the same every time."""
    question = plan.questions(policy(), (golden(items=600),), 1)[0]
    once, looks = policy(), policy(looks=3)
    bet = policy(sequential=Sequential(bet=0.7))
    chances = [plan.chance(question, by, 0.05, 0.05) for by in (once, looks, bet)]
    assert chances[0] > chances[1] > 0.9 and chances == [plan.chance(question, by, 0.05, 0.05) for by in (once, looks, bet)]
    found = plan.resolution(question, bet)
    assert found.half_stop_by is not None and 60 < found.half_stop_by < 600
    said = " ".join(line for one in plan.explain(bet, (golden(items=600),), 1) for line in (one.sentence, *one.lines))
    assert "half have passed after" in said and "looked at after every item" in said
    assert "the reference itself, with 0.5 % flipped by other batches" in said


def test_unbounded_scores_cannot_be_planned_for() -> None:
    """Nothing is known of how much they vary, and their margin is no share of items."""
    rule = CheckRule(kind="quality", margin=3.0, scale="unbounded")
    assert plan.questions(policy(rule), (golden(),), 1) == ()


def test_the_looks_that_remain_are_said_beforehand() -> None:
    """Of three looks at 200 items two hold fewer than 150: one remains, and it is planned at the full level."""
    by = policy(QUALITY, looks=3, minimum_items=150, require_controls=False)
    said = [line for one in plan.explain(by, (golden(),), 1) for line in one.lines]
    assert "looks at 200 items; left out with fewer than 150 items: 67, 134" in said
    asked = plan.questions(by, (golden(),), 1)[0]
    assert plan.chance(asked, by, 0.05, 0.05) == plan.chance(asked, replace(by, looks=None), 0.05, 0.05)
