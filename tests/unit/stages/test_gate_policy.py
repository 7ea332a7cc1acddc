"""What a policy may ask for beyond one margin: slices, an order, a family, waivers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evidence import (
    FREED,
    ITEMS,
    QUALITY,
    RIGHT,
    candidate,
    changed,
    decided,
    evidence,
    failure,
    golden,
    identity,
    known_bad,
    loaded,
    passing,
    policy,
    reference,
    sheet,
    variant,
)
from quantgate.records import (
    Check,
    CheckRule,
    Decision,
    Evidence,
    ItemEvidence,
    KLStatistics,
    Policy,
    TextReading,
    VariantEvidence,
    Verdict,
    Waiver,
)
from quantgate.stages.quality import part_of, slice_names
from quantgate.stats.multiplicity import holm
from quantgate.stats.paired import p_loss_at_least

EVEN = CheckRule(kind="quality", slices=("even",), margin=0.08)
ODD = replace(EVEN, slices=("odd",))
WAIVER = Waiver(
    check="quality/everyday", variant="int8", owner="A. Meyer", reason="the old tokenizer", expires="2026-11-29"
)


def verdict(decision: Decision, name: str = "int8") -> Verdict:
    return next(one for one in decision.verdicts if one.variant == name)


def check(decision: Decision, name: str, of: str = "int8") -> Check:
    return next(one for one in verdict(decision, of).checks if one.name == name)


def wrong_on(*numbers: int, name: str = "int8") -> VariantEvidence:
    """A candidate that loses these items and no other."""
    return variant(name, sheet(set(range(RIGHT)) - set(numbers), of=name))


# ---------------------------------------------------------------------------------------------- slices


def test_a_required_slice_joins_the_intersection() -> None:
    """Twelve losses in one slice pass the whole set's wide margin and fail the slice's; losses in the other one do not touch it."""
    whole = replace(QUALITY, margin=0.12)
    bad = decided(evidence(reference(), wrong_on(*range(0, 32, 2)), known_bad()), policy(whole, EVEN))
    assert check(bad, "quality/everyday").outcome == "pass"
    slice_ = check(bad, "quality/everyday/even")
    assert (slice_.outcome, slice_.n, slice_.b, slice_.c) == ("fail", 100, 16, 0)
    assert verdict(bad).because.startswith("loses 16.0 points on even, at least")
    assert (bad.outcome, verdict(bad).outcome) == ("fail", "fail")
    good = decided(evidence(reference(), wrong_on(1, 3), known_bad()), policy(whole, EVEN))
    assert (good.outcome, check(good, "quality/everyday/even").outcome) == ("pass", "pass")


def test_a_slice_is_decided_at_the_candidates_own_level_without_a_correction() -> None:
    """Two candidates, two slices: each check stands at Holm's level over the candidates, and the slices do not divide it."""
    found = evidence(reference(), candidate("int8"), candidate("int4", b=4, c=1), known_bad())
    decision = decided(found, policy(QUALITY, EVEN, ODD, require="any"))
    levels = {one.variant: {each.level for each in one.checks if each.level} for one in decision.verdicts}
    assert levels["int8"] == {0.975} and levels["int4"] == {0.95}


def test_a_required_slice_counts_in_the_candidates_p_value() -> None:
    """Of two that are equal on the whole set the one that is poorer on a required slice is tested second."""
    poor, good = wrong_on(0, 2, 4), wrong_on(1, 3, 5, name="int4")
    decision = decided(evidence(reference(), poor, good, known_bad()), policy(QUALITY, EVEN, require="any"))
    assert check(decision, "quality/everyday", "int4").level == 0.975
    assert check(decision, "quality/everyday").level == 0.95


@pytest.mark.parametrize(("slices", "k"), [(("odd",), 1), (("even", "odd"), 2), (("*",), 2)])
def test_advisory_slices_are_shown_at_alpha_over_their_number(slices: tuple[str, ...], k: int) -> None:
    """Of k slices looked at each stands at alpha / k; they say so and decide nothing."""
    advisory = CheckRule(kind="quality", tier="advisory", slices=slices, margin=0.01)
    decision = decided(evidence(reference(), wrong_on(1, 3, 5), known_bad()), policy(QUALITY, FREED, advisory))
    found = [one for one in verdict(decision).checks if one.name.count("/") == 2]
    assert len(found) == k
    assert {one.level for one in found} == {1 - 0.05 / k}
    assert all(f"; {k} slice{'s' if k > 1 else ''} looked at" in one.because for one in found)
    assert decision.outcome == "pass"


def test_required_slices_are_not_counted_among_those_looked_at() -> None:
    """Only advisory slices share alpha."""
    advisory = CheckRule(kind="quality", tier="advisory", slices=("odd",), margin=0.08)
    decision = decided(passing(), policy(QUALITY, EVEN, advisory, require="any"))
    assert [check(decision, f"quality/everyday/{name}").level for name in ("even", "odd")] == [0.95, 0.95]
    assert "looked at" not in check(decision, "quality/everyday/even").because


def test_minimum_items_of_a_check_goes_before_the_policys() -> None:
    """100 items of a slice: too few for the policy's 150, enough for a check that asks for 60, too few for one that asks for 101."""
    for fewest, outcome in ((None, "not_measured"), (60, "pass"), (101, "not_measured")):
        by = policy(QUALITY, replace(EVEN, minimum_items=fewest), minimum_items=150)
        assert check(decided(passing(), by), "quality/everyday/even").outcome == outcome


@pytest.mark.parametrize(
    ("stored", "words"),
    [(golden(), "everyday has no slice 'sums'"), (replace(golden(), parts=()), "does not say which items a slice has")],
)
def test_a_slice_that_is_not_there_is_not_measured(stored: object, words: str) -> None:
    """Stored evidence without the slice, or from before slices were noted: not measured, and it blocks."""
    found = replace(passing(), golden_sets=(stored,))  # type: ignore[arg-type]
    decision = decided(found, policy(QUALITY, replace(EVEN, slices=("sums",)), require_controls=False))
    assert decision.outcome == "not_measured"
    assert words in verdict(decision).because


def test_every_slice_of_evidence_without_slices_does_not_vanish() -> None:
    """``*`` over a set that notes no slices is a check that is not measured, and not none."""
    found = replace(passing(), golden_sets=(replace(golden(), parts=()),))
    decision = decided(found, policy(QUALITY, replace(EVEN, slices=("*",)), require_controls=False))
    assert check(decision, "quality/everyday/*").outcome == "not_measured"


def test_items_that_vanish_from_a_slice_count_as_lost_there() -> None:
    """Twenty items of one slice are missing from the sheet: that slice loses them, the other one loses nothing."""
    gone = list(range(0, 40, 2))
    found = changed(passing(), "int8", sheets=(sheet(range(RIGHT), absent=gone),))
    decision = decided(found, policy(replace(QUALITY, margin=0.3), EVEN, ODD))
    assert (check(decision, "quality/everyday/even").b, check(decision, "quality/everyday/odd").b) == (20, 0)
    assert "20 items without an answer count as lost" in check(decision, "quality/everyday/even").because


def test_a_sheet_that_is_not_comparable_is_not_comparable_on_a_slice() -> None:
    """An id that the golden set does not have makes every slice not measured, not only the one that it claims to be of."""
    odd = candidate().sheets[0]
    broken = replace(odd, items=(replace(odd.items[0], item_id="who"), *odd.items[1:]))
    decision = decided(changed(passing(), "int8", sheets=(broken,)), policy(QUALITY, EVEN, ODD))
    assert {one.outcome for one in verdict(decision).checks if one.name.startswith("quality")} == {"not_measured"}


def test_nan_on_a_set_fails_its_slices_too() -> None:
    """A variant that computed NaN on a set has no pairs there: its slices fail with it."""
    found = changed(passing(), "int8", sheets=(), failures=(failure("int8", "score everyday", numerical=True),))
    decision = decided(found, policy(QUALITY, EVEN))
    assert check(decision, "quality/everyday/even").outcome == "fail"


def test_a_slice_uses_its_own_chance_level() -> None:
    """A slice that the reference only guesses on cannot show a loss, though the whole set can."""
    whole = golden()
    guessed = replace(whole, parts=(replace(whole.parts[0], chance_level=0.75), whole.parts[1]))
    decision = decided(replace(passing(), golden_sets=(guessed,)), policy(QUALITY, EVEN, require_controls=False))
    assert check(decision, "quality/everyday").outcome == "pass"
    assert "guessing gives 75.0 %" in check(decision, "quality/everyday/even").because


def test_controls_answer_to_slices_too() -> None:
    """A known-bad control that fails the set and not a required slice is wrong; the identity must pass the slice."""
    half = known_bad({number for number in range(RIGHT) if number % 2 == 0} | set(range(1, 20, 2)))
    decision = decided(evidence(reference(), candidate(), half), policy(QUALITY, EVEN, require="any"))
    assert (decision.outcome, verdict(decision, "int2").control_ok) == ("not_measured", False)
    lost = identity(set(range(RIGHT)) - set(range(0, 20, 2)))
    again = decided(evidence(reference(), candidate(), known_bad(), lost), policy(replace(QUALITY, margin=0.2), EVEN))
    assert verdict(again, "again").control_ok is False


def test_slices_of_a_golden_set() -> None:
    """Names are taken as given, once each; ``*`` is every slice; a slice is a golden set of its own under the whole one's digest."""
    where = golden()
    assert slice_names(replace(EVEN, slices=("odd", "*")), where) == ("odd", "even")
    assert slice_names(QUALITY, where) == ()
    part = part_of(where, "odd")
    assert part is not None and (len(part.item_ids), part.sha256) == (ITEMS // 2, where.sha256)
    assert part_of(where, "sums") is None


# ---------------------------------------------------------------------------------------------- a family, an order


def test_holm_over_a_family_that_the_policy_counts() -> None:
    """Two candidates of a run, five counted: the better is tested at alpha / 5, the other at alpha / 4."""
    found = evidence(reference(), candidate("int8"), candidate("int4", b=3, c=1), known_bad())
    decision = decided(found, policy(require="any", family_size=5))
    assert [check(decision, "quality/everyday", name).level for name in ("int8", "int4")] == [0.99, 0.9875]
    assert holm({"a": 0.01, "b": 0.02}, alpha=0.05, k=5)[0].level == 0.01


def test_a_family_smaller_than_the_run_counts_the_run() -> None:
    """Stored evidence with more candidates than the policy counts is corrected over all of them."""
    found = evidence(reference(), candidate("int8"), candidate("int4"), known_bad())
    assert {one.level for one in verdict(decided(found, policy(require="any", family_size=1))).checks if one.level} == {0.95}
    levels = [check(decided(found, policy(require="any", family_size=1)), "quality/everyday", name).level for name in ("int4", "int8")]
    assert levels == [0.975, 0.95]


def in_order(*order: str, **fields: object) -> Policy:
    return policy(require="any", correction="fixed_sequence", order=order, **fields)


THREE = evidence(reference(), candidate("int8"), candidate("int4", b=8, c=2), candidate("int3", b=2, c=2), known_bad())


def test_a_sequence_tests_each_at_alpha_until_one_is_no_pass() -> None:
    """int8 passes at the full alpha, int4 stops it, int3 would pass and is not tested."""
    decision = decided(THREE, in_order("int8", "int4", "int3"))
    assert [verdict(decision, name).outcome for name in ("int8", "int4", "int3")] == ["pass", "inconclusive", "inconclusive"]
    assert check(decision, "quality/everyday").level == 0.95
    untested = check(decision, "quality/everyday", "int3")
    assert untested.because == "is not tested: int4 stands before it in the policy's order and is not a pass"
    assert (untested.n, untested.b, untested.c, untested.estimate) == (ITEMS, 2, 2, 0.0)
    assert (untested.level, untested.bound, untested.lower, untested.p_value) == (None, None, None, None)
    assert (decision.outcome, decision.chosen) == ("pass", "int8")


def test_a_sequence_whose_first_does_not_pass_passes_nothing() -> None:
    """The same candidates in the other order: the run is inconclusive although one would pass alone."""
    decision = decided(THREE, in_order("int4", "int8", "int3"))
    assert (decision.outcome, decision.chosen) == ("inconclusive", None)
    assert decided(THREE, policy(require="any", correction="none")).outcome == "pass"


@pytest.mark.parametrize(
    "broken",
    [
        changed(THREE, "int8", failures=(failure("int8", "time"),)),
        changed(THREE, "int8", loaded=loaded("int8", weight_bytes=4000, quantized=800)),
        replace(THREE, variants=tuple(one for one in THREE.variants if one.variant.name != "int8")),
    ],
    ids=["not measured", "a plain check fails", "not in the run"],
)
def test_anything_but_a_pass_stops_a_sequence(broken: Evidence) -> None:
    """A crash, a limit that is missed, or a candidate that the run does not have leaves the later ones untested."""
    decision = decided(broken, in_order("int8", "int3", "int4"))
    assert "is not tested: int8" in verdict(decision, "int3").because
    assert decision.outcome != "pass"


def test_a_candidate_without_a_place_is_not_tested() -> None:
    """A candidate that the order does not name never passes."""
    decision = decided(THREE, in_order("int8", "int4"))
    assert verdict(decision, "int3").because == "is not tested: the policy's order does not name it"


def test_what_is_not_measured_stays_so_behind_the_stop() -> None:
    """An untested candidate that crashed is not measured, and one with NaN fails."""
    found = changed(THREE, "int3", failures=(failure("int3", "time"),))
    assert verdict(decided(found, in_order("int4", "int3", "int8")), "int3").outcome == "not_measured"
    nan = changed(THREE, "int3", sheets=(sheet(range(RIGHT), of="int3", nonfinite=[1]),))
    assert verdict(decided(nan, in_order("int4", "int3", "int8")), "int3").outcome == "fail"


# ---------------------------------------------------------------------------------------------- waivers

LOSER = evidence(reference(), candidate(b=40, c=0), known_bad())
UNCLEAR = evidence(reference(), candidate(b=8, c=2), known_bad())


@pytest.mark.parametrize(("found", "outcome"), [(LOSER, "fail"), (UNCLEAR, "inconclusive")])
def test_a_waived_check_does_not_block_and_keeps_its_outcome(found: Evidence, outcome: str) -> None:
    """Fail and inconclusive are waived alike; the check says by whom, why and until when, and so does the verdict."""
    decision = decided(found, policy(waivers=(WAIVER,)))
    one = check(decision, "quality/everyday")
    assert (one.outcome, one.waived_by) == (outcome, "A. Meyer: the old tokenizer, until 2026-11-29")
    assert (decision.outcome, decision.chosen) == ("pass", "int8")
    assert decision.because == "int8 passes with a waiver and goes forward"
    assert verdict(decision).because.startswith(
        "passes with a waiver for quality/everyday by A. Meyer: the old tokenizer, until 2026-11-29; it loses "
    )


@pytest.mark.parametrize("created_at", [None, "", "2026-11-30T00:00:00+00:00", "soon", "2026-13-01"])
def test_a_waiver_that_does_not_hold_does_nothing(created_at: str | None) -> None:
    """Expired on the run's own day, or a day that cannot be read: the check blocks as without it."""
    plain, held = decided(LOSER), decided(LOSER, policy(waivers=(WAIVER,)), created_at=created_at)
    assert replace(held, policy_sha256=plain.policy_sha256) == plain


def test_an_expiry_that_cannot_be_read_never_holds() -> None:
    """A waiver is held by a day and by nothing else."""
    assert not replace(WAIVER, expires="never").holds("2026-11-29")
    assert WAIVER.holds("2026-11-29T23:59:59+00:00") and not WAIVER.holds("2026-11-30T00:00:00+00:00")


@pytest.mark.parametrize("field", [{"variant": "int4"}, {"check": "quality/other"}, {"check": "memory/freed_share"}])
def test_a_waiver_is_for_one_check_of_one_variant(field: dict[str, str]) -> None:
    """The name of another variant or check waives nothing here."""
    decision = decided(LOSER, policy(waivers=(replace(WAIVER, **field),)))
    assert (decision.outcome, verdict(decision).outcome) == ("fail", "fail")


@pytest.mark.parametrize("name", ["ran", "finite", "distinct", "demands"])
def test_what_shows_that_it_was_measured_is_never_waived(name: str) -> None:
    """NaN, a crash, and weights that are another's block with and without a waiver."""
    broken = {
        "ran": changed(passing(), "int8", failures=(failure("int8", "time"),)),
        "finite": changed(passing(), "int8", sheets=(sheet(range(RIGHT), nonfinite=[1]),)),
        "distinct": changed(passing(), "int8", loaded=None),
        "demands": passing(),
    }[name]
    by = policy(require_controls=False) if name != "demands" else policy(CheckRule(kind="kl_mean", maximum=9.0))
    decision = decided(broken, replace(by, waivers=(replace(WAIVER, check=name),)))
    assert decision.outcome == decided(broken, by).outcome != "pass"
    assert all(one.waived_by is None for one in verdict(decision).checks)


def test_what_was_not_measured_is_never_waived() -> None:
    """A quality check without evidence blocks with and without a waiver."""
    decision = decided(changed(passing(), "int8", sheets=()), policy(waivers=(WAIVER,)))
    assert (decision.outcome, check(decision, "quality/everyday").waived_by) == ("not_measured", None)


@pytest.mark.parametrize("role", ["known_bad", "identity", "reference"])
def test_controls_and_the_reference_cannot_be_waived(role: str) -> None:
    """A control that comes out wrong makes the run not measured whatever is waived for it."""
    lost = identity(range(40, RIGHT))
    found = {
        "known_bad": evidence(reference(), candidate(), known_bad(range(8, RIGHT))),
        "identity": evidence(reference(), candidate(), known_bad(), lost),
        "reference": changed(passing(), "float32", failures=(failure("float32", "time"),)),
    }[role]
    name = {"known_bad": "int2", "identity": "again", "reference": "float32"}[role]
    waivers = tuple(replace(WAIVER, variant=name, check=each) for each in ("quality/everyday", "ran"))
    decision = decided(found, policy(waivers=waivers))
    assert (decision.outcome, decision.chosen) == ("not_measured", None)


def test_the_rest_must_still_be_shown() -> None:
    """With the whole set waived a required slice still blocks, and a plain limit does too."""
    by = policy(QUALITY, EVEN, FREED, waivers=(WAIVER,))
    lost = decided(evidence(reference(), wrong_on(*range(0, 60, 2)), known_bad()), by)
    assert (lost.outcome, check(lost, "quality/everyday/even").outcome) == ("fail", "fail")
    heavy = changed(LOSER, "int8", loaded=loaded("int8", weight_bytes=3900, quantized=800))
    assert decided(heavy, by).outcome == "fail"


def test_a_plain_limit_can_be_waived() -> None:
    """A variant that frees too little passes with a waiver for that, and its loss is still shown."""
    heavy = changed(passing(), "int8", loaded=loaded("int8", weight_bytes=3900, quantized=800))
    decision = decided(heavy, policy(waivers=(replace(WAIVER, check="memory/freed_share"),)))
    assert decision.outcome == "pass"
    assert "frees 2.5 % of the weight memory" in verdict(decision).because
    assert verdict(decision).because.endswith("with 95 % confidence; allowed 5.0")


def test_a_waived_candidate_leaves_the_others_no_looser_level() -> None:
    """Two candidates, one wholly waived: it keeps its place in Holm's family, last, and the other is tested at alpha / 2."""
    found = evidence(reference(), candidate("int8", b=40, c=0), candidate("int4"), known_bad())
    decision = decided(found, policy(require="any", waivers=(WAIVER,)))
    assert check(decision, "quality/everyday", "int4").level == 0.975
    assert [verdict(decision, name).outcome for name in ("int8", "int4")] == ["pass", "pass"]


def test_a_waived_set_leaves_the_rest_its_p_value() -> None:
    """Two sets, one waived: the other decides the candidate's place among several."""
    sets = (golden(), golden("law"))

    def of(name: str, lost: int, lost_law: int) -> VariantEvidence:
        return variant(
            name,
            sheet(range(lost, RIGHT), of=name),
            sheet(range(lost_law, RIGHT), of=name, on=sets[1]),
        )

    base = reference(sheet(range(RIGHT), of="float32"), sheet(range(RIGHT), of="float32", on=sets[1]))
    found = evidence(base, of("int8", 30, 0), of("int4", 2, 2), golden_sets=sets)
    by = policy(require="any", require_controls=False, waivers=(WAIVER,))
    decision = decided(found, by)
    assert check(decision, "quality/law").level == 0.975  # int8's only question left is the best of all
    assert p_loss_at_least(b=0, c=0, n=ITEMS, margin=0.05) < p_loss_at_least(b=2, c=0, n=ITEMS, margin=0.05)


def test_a_waiver_does_not_let_a_sequence_go_on() -> None:
    """What passes by a waiver was not shown, so the candidates behind it are not tested."""
    found = evidence(reference(), candidate("int8", b=40, c=0), candidate("int4"), known_bad())
    decision = decided(found, in_order("int8", "int4", waivers=(WAIVER,)))
    assert [verdict(decision, name).outcome for name in ("int8", "int4")] == ["pass", "inconclusive"]


def test_under_all_a_waiver_of_another_is_said() -> None:
    """Every candidate passes, one of them by a waiver: the run's headline names it."""
    found = evidence(reference(), candidate("int8", b=40, c=0), candidate("int4", weight_bytes=900), known_bad())
    decision = decided(found, policy(waivers=(WAIVER,)))
    assert decision.because == "int4 goes forward: every candidate passes (int8 with a waiver)"


def test_an_advisory_check_is_not_waived() -> None:
    """It blocks nothing, so there is nothing to waive."""
    by = policy(QUALITY, replace(QUALITY, margin=0.01, golden_set="law", tier="advisory"), waivers=(WAIVER,))
    assert all(one.waived_by is None for one in verdict(decided(passing(), by)).checks)


# ---------------------------------------------------------------------------------------------- absolute limits


def with_kl(**figures: float) -> Evidence:
    """The passing run, its candidate with these figures of its distributions."""
    known = KLStatistics(positions=500, mean=0.01, median=0.005, p99=0.2, maximum=0.9, top1_agreement=0.97)
    return changed(passing(), "int8", sheets=(replace(candidate().sheets[0], kl=replace(known, **figures)),))


P99 = CheckRule(kind="kl_p99", maximum=0.3)
TOP1 = CheckRule(kind="top1_agreement", minimum=0.95)


@pytest.mark.parametrize(
    ("rule", "figures", "outcome", "words"),
    [
        (P99, {}, "pass", "differs from the reference by 0.200 nats or less at 99 of 100 tokens; at most 0.3 nats is allowed"),
        (P99, {"p99": 0.3}, "pass", "at most 0.3 nats is allowed"),
        (P99, {"p99": 0.301}, "fail", "by 0.301 nats or less at 99 of 100 tokens; at most 0.3 nats is allowed"),
        (P99, {"p99": -0.1}, "not_measured", "a 99th percentile of -0.1 nats is not possible"),
        (P99, {"p99": float("nan")}, "not_measured", "not possible"),
        (P99, {"p99": float("inf")}, "not_measured", "is not a number"),
        (TOP1, {}, "pass", "has the reference's likeliest token at 97.0 % of the positions; at least 95 % is asked for"),
        (TOP1, {"top1_agreement": 0.95}, "pass", "at least 95 % is asked for"),
        (TOP1, {"top1_agreement": 0.94999}, "fail", "at 94.9 % of the positions; at least 95 % is asked for"),
        (TOP1, {"top1_agreement": 1.01}, "not_measured", "an agreement of 1.01 is not possible"),
        (TOP1, {"top1_agreement": float("nan")}, "not_measured", "not possible"),
    ],
)
def test_limits_on_distributions(rule: CheckRule, figures: dict[str, float], outcome: str, words: str) -> None:
    """Both limits are inclusive, block alone, and an impossible figure is not measured."""
    decision = decided(with_kl(**figures), policy(QUALITY, rule))
    one = check(decision, f"{rule.kind}/everyday")
    assert (one.outcome, words in one.because) == (outcome, True), one.because
    assert decision.outcome == outcome


@pytest.mark.parametrize("rule", [P99, TOP1])
def test_a_limit_on_distributions_without_evidence_is_not_measured(rule: CheckRule) -> None:
    """No distributions, a set that is not there, or too few positions: the demand stays and blocks."""
    for found in (passing(), with_kl(positions=99)):
        assert check(decided(found, policy(QUALITY, rule)), f"{rule.kind}/everyday").outcome == "not_measured"
    nowhere = policy(QUALITY, replace(rule, golden_set="law"))
    assert check(decided(passing(), nowhere), f"{rule.kind}/law").outcome == "not_measured"


def test_distributions_alone_pass_nothing() -> None:
    """All three limits met and no quality check: a divergence says how much changed and not which way."""
    by = policy(P99, TOP1, CheckRule(kind="kl_mean", maximum=1.0), require_controls=False)
    assert verdict(decided(with_kl(), by)).outcome == "inconclusive"


# ---------------------------------------------------------------------------------------------- over texts

FAR = KLStatistics(
    positions=20_000, mean=0.01, median=0.005, p99=0.2, maximum=0.9, top1_agreement=0.97, p999=0.6, rms_dp=0.031, standard_error=0.001
)
P999 = CheckRule(kind="kl_p999", maximum=0.7)
RMS = CheckRule(kind="rms_probability_change", maximum=0.05)


def reading(kl: KLStatistics | None = None, *, tokens: int = 200, sha256: str = "ab" * 32, why: str | None = None) -> TextReading:
    """How a variant read a hundred texts."""
    items = tuple(ItemEvidence(item_id=f"t{at}", loglikelihoods=(-3.0,), scored_tokens=tokens) for at in range(100))
    return TextReading(
        texts="books", sha256=sha256, items=items, slices=("all",) * 100, cut=0, tokens_per_text=512, kl=kl, why_no_kl=why
    )


def over_texts(variant: TextReading | None, base: TextReading | None = None) -> Evidence:
    """The passing run, both having read the texts."""
    return changed(changed(passing(), "float32", reading=base), "int8", reading=variant)


@pytest.mark.parametrize(
    ("rule", "kl", "outcome", "words"),
    [
        (P999, FAR, "pass", "differs from the reference by 0.600 nats or less at 999 of 1,000 tokens; at most 0.7 nats is allowed"),
        (P999, replace(FAR, p999=0.701), "fail", "at most 0.7 nats is allowed"),
        (P999, replace(FAR, p999=None, positions=9_999), "not_measured", "takes 10,000 tokens, and there are 9,999 positions of books"),
        (P999, replace(FAR, p999=float("nan")), "not_measured", "not possible"),
        (RMS, FAR, "pass", "changes the true next token's probability by 3.10 % (root mean square); at most 5 % is allowed"),
        (RMS, replace(FAR, rms_dp=0.05), "pass", "at most 5 % is allowed"),
        (RMS, replace(FAR, rms_dp=0.05001), "fail", "by 5.01 %"),
        (RMS, replace(FAR, rms_dp=1.5), "not_measured", "by 1.5 is not possible"),
        (RMS, replace(FAR, rms_dp=None), "not_measured", "after a prompt there is no true next token"),
        (P99, FAR, "pass", "by 0.200 nats or less"),
    ],
)
def test_limits_over_texts(rule: CheckRule, kl: KLStatistics, outcome: str, words: str) -> None:
    """Where both read the texts, every check on distributions is taken there and named by them."""
    one = check(decided(over_texts(reading(kl), reading()), policy(QUALITY, rule)), f"{rule.kind}/books")
    assert (one.outcome, words in one.because) == (outcome, True), one.because


@pytest.mark.parametrize(
    ("variant", "base", "words"),
    [
        (None, reading(), "the variant did not read the texts books"),
        (reading(FAR), None, "the reference did not read the texts books"),
        (reading(FAR, sha256="cd" * 32), reading(), "did not read the same tokens"),
        (reading(FAR, tokens=199), reading(), "did not read the same tokens"),
        (reading(why="99 tokens are too few"), reading(), "is not known: 99 tokens are too few"),
    ],
)
def test_texts_that_were_not_both_read_are_not_measured(variant: TextReading | None, base: TextReading | None, words: str) -> None:
    """One side missing, another file, other tokens, or too few: the demand stays and blocks."""
    decision = decided(over_texts(variant, base), policy(QUALITY, P99))
    one = check(decision, "kl_p99/books")
    assert (one.outcome, words in one.because) == ("not_measured", True), one.because
    assert decision.outcome == "not_measured"


def test_texts_do_not_answer_for_a_golden_set() -> None:
    """A check that names a golden set is not measured in a run whose divergence was taken over texts."""
    by = policy(QUALITY, replace(P99, golden_set="everyday"))
    assert check(decided(over_texts(reading(FAR), reading()), by), "kl_p99/everyday").outcome == "not_measured"


@pytest.mark.parametrize(("stage", "name"), [("read books", "kl_p99/books"), ("kl everyday", "kl_p99/everyday")])
def test_nan_where_the_reference_was_finite_is_a_fail(stage: str, name: str) -> None:
    """Our own session saw it, so it is shown; where the reference broke at the same stage nothing is known."""
    found = over_texts(None, reading()) if stage.startswith("read") else passing()
    broken = changed(found, "int8", failures=(failure("int8", stage, numerical=True),))
    assert check(decided(broken, policy(QUALITY, P99)), name).outcome == "fail"
    assert decided(broken, policy(QUALITY, P99)).outcome == "fail"
    both = changed(broken, "float32", failures=(failure("float32", stage, numerical=True),))
    assert check(decided(both, policy(QUALITY, P99)), name).outcome == "not_measured"


def test_a_set_too_small_for_its_own_reference_says_so() -> None:
    """A reference that does well, on so few items that it might do badly, is not called one that cannot do the set."""
    whole = golden()
    few = replace(whole, parts=(replace(whole.parts[0], item_ids=whole.parts[0].item_ids[:3]), whole.parts[1]))
    decision = decided(replace(passing(), golden_sets=(few,)), policy(EVEN, minimum_items=1, require_controls=False))
    assert "with 3 items the reference's own score is not known well enough" in check(decision, "quality/everyday/even").because
