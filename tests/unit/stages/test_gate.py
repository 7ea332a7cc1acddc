from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from evidence import (
    CONDITIONS,
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
    item_id,
    known_bad,
    loaded,
    passing,
    policy,
    reference,
    sheet,
    variant,
)
from quantgate.errors import MeasureError
from quantgate.records import (
    BatchPlan,
    CheckRule,
    Decision,
    Evidence,
    ItemEvidence,
    KLStatistics,
    Outcome,
    Policy,
    ScoreSheet,
    Verdict,
)
from quantgate.stages.gate import EXIT_CODES, worst

GOOD_SHEET = candidate().sheets[0]


def _verdict(decision: Decision, name: str = "int8") -> Verdict:
    return next(one for one in decision.verdicts if one.variant == name)


def test_the_evidence_that_the_table_breaks_does_pass() -> None:
    """Unbroken, the run of these tests passes: what the table below shows is due to what it breaks."""
    decision = decided(passing())
    assert (decision.outcome, decision.chosen, _verdict(decision, "int2").control_ok) == ("pass", "int8", True)
    assert decision.because == "int8 passes and goes forward"


# ---------------------------------------------------------------------------------------------- fails closed


def _with_sheet(found: ScoreSheet | None, name: str = "int8", *more: ScoreSheet) -> Evidence:
    return changed(passing(), name, sheets=() if found is None else (found, *more))


def _odd_item(name: str, **fields: Any) -> Evidence:
    found = next(one for one in passing().variants if one.variant.name == name).sheets[0]
    return _with_sheet(replace(found, items=(replace(found.items[0], **fields), *found.items[1:])), name)


def _conditions(**fields: Any) -> Evidence:
    return _with_sheet(replace(GOOD_SHEET, conditions={**CONDITIONS, **fields}))


def _without(variant_name: str) -> Evidence:
    found = passing()
    return replace(found, variants=tuple(one for one in found.variants if one.variant.name != variant_name))


def _loaded(name: str = "int8", **fields: Any) -> Evidence:
    one = next(each for each in passing().variants if each.variant.name == name)
    assert one.loaded is not None
    return changed(passing(), name, loaded=replace(one.loaded, **fields))


def _kl(mean: float, positions: int = 500) -> Evidence:
    return _with_sheet(
        replace(
            GOOD_SHEET, kl=KLStatistics(positions=positions, mean=mean, median=0, p99=0, maximum=0, top1_agreement=1)
        )
    )


KL = policy(QUALITY, CheckRule(kind="kl_mean", maximum=0.05))
NAN = float("nan")
BY = policy()
UNKNOWN: Outcome = "not_measured"
FAIL_CLOSED: dict[str, tuple[Callable[[], Evidence], Policy, Outcome, str]] = {
    # -- items and sheets
    "a set without items": (lambda: evidence(reference(), candidate(), known_bad(), golden_sets=[golden(items=0)]), BY, UNKNOWN, ""),
    "no golden set at all": (lambda: replace(passing(), golden_sets=()), BY, UNKNOWN, "the run has no golden set"),
    "the candidate was not scored": (lambda: _with_sheet(None), BY, UNKNOWN, "was not scored on it"),
    "the reference was not scored": (lambda: _with_sheet(None, "float32"), BY, UNKNOWN, "the reference"),
    "the candidate answered nothing": (lambda: _with_sheet(sheet((), absent=range(ITEMS))), BY, UNKNOWN, "answered no item"),
    "a sheet without items": (lambda: _with_sheet(replace(GOOD_SHEET, items=())), BY, UNKNOWN, "answered no item"),
    "the candidate crashed on 30 items": (
        lambda: _with_sheet(sheet(range(RIGHT), absent=range(30))), BY, "fail", "30 items without an answer count as lost",
    ),
    "it crashed where the reference is wrong too": (
        lambda: _with_sheet(sheet(range(RIGHT), absent=range(RIGHT, ITEMS))), BY, "fail", "count as lost",
    ),
    "items left out of the sheet": (lambda: _with_sheet(replace(GOOD_SHEET, items=GOOD_SHEET.items[40:])), BY, "fail", "count as lost"),
    "3 of 200 absent in the reference": (
        lambda: _with_sheet(sheet(range(RIGHT), of="float32", absent=range(3)), "float32"), BY, UNKNOWN, "at most 1 % may be missing",
    ),
    "a duplicate id": (
        lambda: _with_sheet(replace(GOOD_SHEET, items=(*GOOD_SHEET.items, GOOD_SHEET.items[0]))), BY, UNKNOWN, "more than once",
    ),
    "an unknown id": (lambda: _odd_item("int8", item_id="who"), BY, UNKNOWN, "which the golden set does not have"),
    "an id twice in the set": (
        lambda: replace(passing(), golden_sets=(replace(golden(), item_ids=(*golden().item_ids, item_id(0))),)),
        BY, UNKNOWN, "same id",
    ),
    "two sheets for one set": (lambda: _with_sheet(GOOD_SHEET, "int8", GOOD_SHEET), BY, UNKNOWN, "two score sheets"),
    "the sheet of another variant": (lambda: _with_sheet(replace(GOOD_SHEET, variant="int4")), BY, UNKNOWN, "a cache was reused"),
    "another version of the set": (lambda: _with_sheet(replace(GOOD_SHEET, golden_sha256="00" * 32)), BY, UNKNOWN, "not scored on it"),
    "a score of NaN": (lambda: _odd_item("int8", value=NAN), BY, UNKNOWN, "has the score nan"),
    "a score of 2": (lambda: _odd_item("int8", value=2.0), BY, UNKNOWN, "has the score 2.0"),
    "a score of 0.5": (lambda: _odd_item("int8", value=0.5), BY, UNKNOWN, "has the score 0.5"),
    # -- numbers
    "NaN in the candidate": (lambda: _with_sheet(sheet(range(RIGHT), nonfinite=[7])), BY, "fail", "numerically invalid: 1 item gave"),
    "NaN in every item": (lambda: _with_sheet(sheet((), nonfinite=range(ITEMS))), BY, "fail", "numerically invalid: 200 items gave"),
    "NaN while it was scored": (
        lambda: changed(passing(), "int8", sheets=(), failures=(failure("int8", "score everyday", numerical=True),)),
        BY, "fail", "is numerically invalid on everyday: it broke",
    ),
    "NaN in the reference": (
        lambda: _with_sheet(sheet(range(RIGHT), of="float32", nonfinite=[7]), "float32"), BY, UNKNOWN, "the reference",
    ),
    "NaN that no session reported": (
        lambda: _odd_item("int8", evidence=ItemEvidence(item_id=item_id(0), loglikelihoods=(NAN, -1.0))), BY, UNKNOWN, "did not report",
    ),
    # -- comparable
    "another device": (lambda: _conditions(device="other"), BY, UNKNOWN, "not comparable: device is 'fake device'"),
    "other threads": (lambda: _conditions(threads=4), BY, UNKNOWN, "threads is 1 for the reference and 4 for the variant"),
    "another BOS": (lambda: _conditions(bos=None), BY, UNKNOWN, "not comparable: bos"),
    "another tokenizer or template": (lambda: _conditions(tokenizer="x"), BY, UNKNOWN, "not comparable: tokenizer"),
    "a condition one side has": (lambda: _conditions(budget=1), BY, UNKNOWN, "budget is not known for the reference"),
    "no conditions": (lambda: _with_sheet(replace(GOOD_SHEET, conditions={})), BY, UNKNOWN, "bos is not known for the variant"),
    "other batches": (
        lambda: _with_sheet(replace(GOOD_SHEET, batch_plan=BatchPlan(max_rows=1))), BY, UNKNOWN, "the batch plan is 16 rows",
    ),
    "another prompt text": (lambda: _with_sheet(replace(GOOD_SHEET, first_prompt="?")), BY, UNKNOWN, "the prompt template differs"),
    # -- the set can not show a loss
    "a reference that can not do the set": (
        lambda: evidence(reference(sheet(range(60), of="float32")), variant("int8", sheet(range(60))), known_bad(())),
        BY, UNKNOWN, "could not be seen",
    ),
    "it can not, and the candidate is absent": (
        lambda: evidence(
            reference(sheet(range(60), of="float32")), variant("int8", sheet((), absent=range(150))), known_bad(())
        ),
        BY, UNKNOWN, "could not be seen",
    ),
    "fewer items than the policy asks for": (passing, policy(minimum_items=201), UNKNOWN, "it has 200 items and the policy asks for"),
    "a chance level of NaN": (
        lambda: replace(passing(), golden_sets=(golden(chance=NAN),)), BY, UNKNOWN, "its chance level is nan",
    ),
    "nine sources": (
        lambda: evidence(
            reference(sheet(range(RIGHT), of="float32", clusters=9)), variant("int8", sheet(range(RIGHT), clusters=9)),
            known_bad(()),
        ),
        policy(require_controls=False), UNKNOWN, "effective clusters",
    ),
    # -- the variant is what it says it is
    "the reference's weights": (
        lambda: _loaded(weights_sha256=loaded("float32", weight_bytes=1, quantized=0).weights_sha256), BY, UNKNOWN, "bit-equal",
    ),
    "the control's weights": (
        lambda: _loaded(weights_sha256=loaded("int2", weight_bytes=1, quantized=0).weights_sha256), BY, UNKNOWN, "those of int2",
    ),
    "no digest of the weights": (lambda: _loaded(weights_sha256=""), BY, UNKNOWN, "no digest of its weights"),
    "the reference's log-likelihoods": (
        lambda: _with_sheet(replace(sheet(range(RIGHT), of="float32"), variant="int8")), BY, UNKNOWN, "a cache was reused",
    ),
    "a crash while it was timed": (
        lambda: changed(passing(), "int8", failures=(failure("int8", "time"),)), BY, UNKNOWN, "time did not finish (EngineError)",
    ),
    "never loaded": (lambda: changed(passing(), "int8", loaded=None), BY, UNKNOWN, "never built and loaded"),
    "never built": (lambda: changed(passing(), "int8", artifact=None), BY, UNKNOWN, "never built and loaded"),
    # -- the reference
    "a reference that is quantized": (lambda: _loaded("float32", quantized_parameters=9), BY, UNKNOWN, "is itself quantized"),
    "a reference that crashed": (
        lambda: changed(passing(), "float32", failures=(failure("float32", "time"),)), BY, UNKNOWN, "the reference could not be measured",
    ),
    # -- controls
    "no control": (lambda: _without("int2"), BY, UNKNOWN, "the run has none"),
    "a control that passes": (lambda: evidence(reference(), candidate(), known_bad(range(RIGHT))), BY, UNKNOWN, "and came out as pass"),
    "a control that is inconclusive": (
        lambda: evidence(reference(), candidate(), known_bad(range(8, RIGHT))), BY, UNKNOWN, "came out as inconclusive",
    ),
    "a control that was not scored": (lambda: _with_sheet(None, "int2"), BY, UNKNOWN, "came out as not measured"),
    "a control that only crashed": (
        lambda: _with_sheet(sheet(range(RIGHT), of="int2", absent=range(60)), "int2"), BY, UNKNOWN, "not answered by the variant",
    ),
    "a control with one NaN that passes": (
        lambda: _with_sheet(sheet(range(RIGHT), of="int2", nonfinite=[0]), "int2"), BY, UNKNOWN, "and does not: it loses",
    ),
    "an identity that loses": (
        lambda: evidence(reference(), candidate(), known_bad(), identity(range(40, RIGHT))), BY, UNKNOWN, "again is a control",
    ),
    "an identity of other weights": (
        lambda: evidence(reference(), candidate(), known_bad(), replace(identity(), loaded=candidate().loaded)),
        BY, UNKNOWN, "is not the reference again",
    ),
    "no candidate": (lambda: _without("int8"), BY, UNKNOWN, "the run has no candidate"),
    # -- the policy
    "no check": (passing, replace(policy(), checks=()), UNKNOWN, ""),
    "only advisory checks": (
        passing, policy(replace(QUALITY, tier="advisory"), require_controls=False), UNKNOWN, "",
    ),
    "a set the run does not have": (passing, policy(QUALITY, replace(QUALITY, golden_set="law")), UNKNOWN, "no golden set named law"),
    "KL on a set the run does not have": (
        passing, policy(QUALITY, CheckRule(kind="kl_mean", maximum=1.0, golden_set="law")), UNKNOWN, "no golden set named law",
    ),
    "lengths of a set the run does not have": (
        passing, policy(QUALITY, CheckRule(kind="output_length", minimum=0.9, maximum=1.1, golden_set="law")),
        UNKNOWN, "no golden set named law",
    ),
    "a kind nobody knows": (passing, policy(QUALITY, CheckRule(kind="toxicity", maximum=1.0)), UNKNOWN, "asks for 'toxicity'"),
    "a margin that is missing": (passing, policy(CheckRule(kind="quality")), UNKNOWN, "gives no margin"),
    "a margin of NaN": (passing, policy(CheckRule(kind="quality", margin=NAN)), UNKNOWN, "margin is nan"),
    "a margin of 1": (passing, policy(CheckRule(kind="quality", margin=1.0)), UNKNOWN, "margin is 1.0"),
    "a limit that is missing": (passing, policy(QUALITY, CheckRule(kind="freed_share")), UNKNOWN, "gives no limit"),
    "a limit of NaN": (passing, policy(QUALITY, CheckRule(kind="freed_share", minimum=NAN)), UNKNOWN, "gives no limit"),
    # -- plain figures
    "weights of zero bytes": (lambda: _loaded(weight_bytes=0), BY, UNKNOWN, "its weights were not measured"),
    "a reference of zero bytes": (lambda: _loaded("float32", weight_bytes=0), BY, UNKNOWN, "the reference's weights"),
    "half the weights counted": (lambda: _loaded(logical_parameters=500, quantized_parameters=400), BY, UNKNOWN, "number of weights"),
    "nothing freed": (lambda: _loaded(weight_bytes=4000), BY, "fail", "frees 0.0 % of the weight memory; at least 25 % is asked for"),
    "a simulated artifact": (
        lambda: changed(passing(), "int8", artifact=replace(candidate().artifact, simulated=True)),  # type: ignore[type-var]
        BY, UNKNOWN, "frees nothing",
    ),
    "more quantized than there is": (
        lambda: _loaded(quantized_parameters=2000), policy(QUALITY, CheckRule(kind="share_quantized", minimum=0.5)),
        UNKNOWN, "is not known",
    ),
    "KL that was not measured": (passing, KL, UNKNOWN, "divergence from the reference on everyday is not known"),
    "KL of NaN": (lambda: _kl(NAN), KL, UNKNOWN, "nan nats is not possible"),
    "KL below zero": (lambda: _kl(-0.5), KL, UNKNOWN, "not possible"),
    "KL of 99 tokens": (lambda: _kl(0.001, 99), KL, UNKNOWN, "no statistic"),
    "KL above its limit": (
        lambda: _kl(0.0513), KL, "fail", "differs from the reference by 0.0513 nats a token; at most 0.05 nats is allowed",
    ),
    "KL of infinity": (lambda: _kl(float("inf")), KL, UNKNOWN, "its figure is not a number"),
    "KL and nothing else": (
        lambda: _kl(0.001), policy(CheckRule(kind="kl_mean", maximum=0.05), require_controls=False),
        UNKNOWN, "control",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("case", "require"), [(case, ("any", "all")[place % 4 == 0]) for place, case in enumerate(FAIL_CLOSED)]
)
def test_fails_closed(case: str, require: Any) -> None:
    """Evidence or a policy that is missing, broken or odd ends in the outcome that GATE.md gives, says why, and never in a pass."""
    make, by, outcome, words = FAIL_CLOSED[case]
    decision = decided(make(), replace(by, require=require))
    assert (decision.outcome, decision.chosen) == (outcome, None)
    assert EXIT_CODES[decision.outcome] in (1, 3, 4)
    assert words in " ".join([decision.because, *(one.because for one in decision.verdicts)])
    assert not any(mark in decision.because for mark in ("..", "  ", ". ."))


@pytest.mark.parametrize("broken", ["no reference", "two references", "one name twice"])
def test_evidence_of_which_nothing_can_be_said_is_refused_with_exit_4(broken: str) -> None:
    """Without one reference, or with two variants of one name, there is no verdict at all: an error whose exit code is 4."""
    variants = {
        "no reference": (candidate(), known_bad()),
        "two references": (
            reference(),
            replace(reference(), variant=replace(reference().variant, name="x")),
            candidate(),
        ),
        "one name twice": (reference(), candidate(), candidate(b=0), known_bad()),
    }[broken]
    with pytest.raises(MeasureError) as found:
        decided(evidence(*variants))
    assert found.value.exit_code == 4


# ---------------------------------------------------------------------------------------------- order of outcomes


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([], "not_measured"),
        (["pass"], "pass"),
        (["pass", "inconclusive"], "inconclusive"),
        (["inconclusive", "fail", "pass"], "fail"),
        (["pass", "fail", "not_measured"], "not_measured"),
    ],
)
def test_the_worst_outcome_counts(outcomes: list[Outcome], expected: Outcome) -> None:
    """Not measured, fail, inconclusive, pass, in this order; nothing at all is not measured."""
    assert worst(outcomes) == expected


def test_a_fail_that_was_shown_is_said_beside_what_was_not_measured() -> None:
    """A candidate that crashed while it was timed and loses too much is not measured, and the loss is still told."""
    lost = candidate(b=40, c=0, failures=(failure("int8", "time"),))
    verdict = _verdict(decided(evidence(reference(), lost, known_bad())))
    assert verdict.outcome == "not_measured"
    assert verdict.because.startswith(
        "could not be measured: time did not finish (EngineError): it broke. It loses 20.0 points, at least"
    )


@pytest.mark.parametrize(("require", "outcome", "code"), [("all", "fail", 1), ("any", "pass", 0)])
def test_one_loser_beside_one_winner(require: Any, outcome: Outcome, code: int) -> None:
    """Under all a loser blocks; under any the winner goes forward."""
    decision = decided(
        evidence(reference(), candidate(), candidate("int3", b=40, c=0), known_bad()), policy(require=require)
    )
    assert (decision.outcome, EXIT_CODES[decision.outcome]) == (outcome, code)
    assert decision.chosen == ("int8" if outcome == "pass" else None)


def test_without_a_winner_any_gives_the_worst() -> None:
    """No candidate passes: an unmeasured one outranks the one that fails."""
    found = evidence(
        reference(), candidate("int3", b=40, c=0), candidate(failures=(failure("int8", "load"),)), known_bad()
    )
    decision = decided(found, policy(require="any"))
    assert decision.outcome == "not_measured"
    assert decision.because == "Promotion is blocked: no candidate passes (int3 fail, int8 not measured)"


def test_an_advisory_check_never_decides() -> None:
    """A failing advisory check leaves a pass a pass, and an advisory pass saves nothing."""
    advisory = replace(FREED, tier="advisory", minimum=0.99)
    decision = decided(passing(), policy(QUALITY, advisory))
    assert decision.outcome == "pass"
    assert [one.outcome for one in _verdict(decision).checks if one.tier == "advisory"] == ["fail"]
    lost = evidence(reference(), candidate(b=40, c=0), known_bad())
    assert decided(lost, policy(QUALITY, replace(QUALITY, tier="advisory", margin=0.5))).outcome == "fail"


def test_a_policy_of_memory_alone_is_a_policy() -> None:
    """Required checks on plain figures alone can pass; what they need must be there."""
    by = policy(FREED, CheckRule(kind="ceiling_ratio", minimum=1.5), require="any", require_controls=False)
    found = evidence(reference(), candidate(b=40, c=0))
    assert decided(found, by).outcome == "pass"
    assert decided(changed(found, "int8", capacity=None), by).outcome == "not_measured"


def test_a_divergence_alone_passes_nothing() -> None:
    """KL may block and never passes anything alone: within its limit the candidate is inconclusive, above it a fail."""
    only = policy(CheckRule(kind="kl_mean", maximum=0.05), require_controls=False)

    def outcome(mean: float) -> Outcome:
        found = _kl(mean)
        return decided(replace(found, variants=found.variants[:2]), only).outcome

    assert (outcome(0.001), outcome(0.2)) == ("inconclusive", "fail")


# ---------------------------------------------------------------------------------------------- several candidates


def test_holm_tests_each_at_its_own_level_and_stores_the_bound_at_it() -> None:
    """Two candidates: the better is tested at alpha / 2, the next at alpha; the bound says so."""
    decision = decided(
        evidence(reference(), candidate(b=1, c=2), candidate("int4", b=3, c=2), known_bad()), policy(require="any")
    )
    levels = {name: _verdict(decision, name).checks[3].level for name in ("int8", "int4")}
    levels["int2"] = _verdict(decision, "int2").checks[2].level
    assert levels == {"int8": 0.975, "int4": 0.95, "int2": 0.95}


def test_all_needs_no_correction() -> None:
    """Under all every candidate is tested at alpha."""
    decision = decided(evidence(reference(), candidate(), candidate("int4"), known_bad()))
    assert {_verdict(decision, name).checks[3].level for name in ("int8", "int4")} == {0.95}


def test_an_unmeasured_candidate_still_takes_its_chance() -> None:
    """K is the number of candidates of the run, measured or not; controls are not among them."""
    broken = candidate("int4", failures=(failure("int4", "load"),))
    decision = decided(evidence(reference(), candidate(), broken, known_bad(), identity()), policy(require="any"))
    assert _verdict(decision).checks[3].level == 0.975


def test_a_candidate_that_passes_alone_need_not_pass_among_others() -> None:
    """B = 4, c = 0 of 200 at 5 points passes at 0.05 and not at 0.05 / 3: trying more candidates makes each harder."""
    alone = decided(evidence(reference(), candidate(b=4, c=0), known_bad()), policy(require="any"))
    broken = [candidate(name, loaded=None) for name in ("x", "y")]
    among = decided(evidence(reference(), candidate(b=4, c=0), *broken, known_bad()), policy(require="any"))
    p_value = _verdict(alone).checks[3].p_value
    assert p_value is not None and 0.05 / 3 < p_value <= 0.05
    assert (alone.outcome, _verdict(among).outcome) == ("pass", "inconclusive")
    check = _verdict(among).checks[3]
    assert check.bound is not None and check.bound > 0.05 and check.level == pytest.approx(1 - 0.05 / 3)


def test_a_candidate_kept_out_by_a_plain_check_leaves_the_others_their_level() -> None:
    """A candidate that frees nothing counts with p = 1: it comes last, however good its answers are."""
    heavy = candidate("a", b=0, c=5, loaded=loaded("a", weight_bytes=4000, quantized=800))
    decision = decided(evidence(reference(), heavy, candidate(), known_bad()), policy(require="any"))
    assert (_verdict(decision).checks[3].level, decision.chosen) == (0.975, "int8")


def test_every_golden_set_must_pass_without_correction() -> None:
    """Two sets: one that passes does not save the other; each is tested at alpha; sentences name the set."""
    law = golden("law")
    sets = (golden(), law)

    def both(name: str, first: range, second: range, **fields: Any) -> Any:
        return variant(name, sheet(first, of=name), sheet(second, of=name, on=law), **fields)

    base = both("float32", range(RIGHT), range(RIGHT), role="reference", weight_bytes=4000)
    bad = both("int2", range(40), range(40), role="known_bad")
    mixed = evidence(base, both("int8", range(RIGHT), range(40, RIGHT)), bad, golden_sets=sets)
    verdict = _verdict(decided(mixed))
    assert verdict.outcome == "fail"
    assert verdict.because.startswith("loses 20.0 points on law, at least ")
    half = evidence(
        base,
        both("int8", range(RIGHT), range(RIGHT)),
        both("int2", range(40), range(RIGHT), role="known_bad"),
        golden_sets=sets,
    )
    assert decided(half).outcome == "not_measured"
    assert (
        "must fail on every required golden set and does not: it loses nothing that can be seen on law"
        in decided(half).because
    )


def test_the_objective_chooses_among_those_that_pass() -> None:
    """The largest of the objective's figure among passing candidates; a missing figure comes last; ties go by order."""
    light = candidate("int4", b=4, c=3, loaded=loaded("int4", weight_bytes=500, quantized=800), capacity=None)
    found = evidence(reference(), candidate(b=1, c=2), light, known_bad())

    def chosen(objective: Any) -> str | None:
        return decided(found, policy(objective=objective)).chosen

    assert chosen("freed_bytes") == "int4"
    assert chosen("ceiling") == "int8"
    assert chosen("smallest_loss") == "int8"
    assert chosen("tokens_per_s_at_ceiling") == "int8"


def test_the_smallest_loss_is_that_of_the_required_sets() -> None:
    """An advisory set has no say in which candidate goes forward."""
    law = golden("law")
    base = variant(
        "float32",
        sheet(range(RIGHT), of="float32"),
        sheet(range(RIGHT), of="float32", on=law),
        role="reference",
        weight_bytes=4000,
    )
    first = variant("int8", sheet(range(2, RIGHT)), sheet(range(RIGHT), on=law))
    second = variant("int4", sheet(range(RIGHT), of="int4"), sheet(range(40, RIGHT), of="int4", on=law))
    by = policy(
        replace(QUALITY, golden_set="everyday"), CheckRule(kind="quality", margin=0.05, golden_set="law", tier="advisory"),
        require_controls=False, objective="smallest_loss",
    )  # fmt: skip
    assert decided(evidence(base, first, second, golden_sets=(golden(), law)), by).chosen == "int4"


# ---------------------------------------------------------------------------------------------- same weights, exemptions


def test_equal_answers_alone_are_no_reason_to_refuse() -> None:
    """B = c = 0 is legitimate where weights and log-likelihoods differ, and so is a sheet without log-likelihoods."""
    assert decided(evidence(reference(), candidate(b=0, c=0), known_bad())).outcome == "pass"

    def bare(found: ScoreSheet) -> ScoreSheet:
        return replace(
            found,
            items=tuple(replace(one, evidence=ItemEvidence(item_id=one.item_id, text="x")) for one in found.items),
        )

    base, same = reference(), candidate(b=0, c=0)
    found = evidence(
        replace(base, sheets=(bare(base.sheets[0]),)), replace(same, sheets=(bare(same.sheets[0]),)), known_bad()
    )
    assert decided(found).outcome == "pass"


def test_one_set_served_from_a_cache_is_enough_to_refuse() -> None:
    """A variant whose log-likelihoods on one of two sets are the reference's to the bit is refused."""
    law = golden("law")
    base_law = sheet(range(RIGHT), of="float32", on=law)
    base = variant("float32", sheet(range(RIGHT), of="float32"), base_law, role="reference", weight_bytes=4000)
    cached = variant("int8", sheet(range(RIGHT)), replace(base_law, variant="int8"))
    verdict = _verdict(decided(evidence(base, cached, golden_sets=(golden(), law)), policy(require_controls=False)))
    assert verdict.outcome == "not_measured"
    assert (
        "is refused: all its raw log-likelihoods on a golden set are bit-equal with those of float32" in verdict.because
    )


def test_two_candidates_of_the_same_weights_are_both_refused() -> None:
    """Bit-equal candidates are one candidate under two names; neither passes."""
    twin = candidate("int8b", loaded=candidate().loaded)
    decision = decided(evidence(reference(), candidate(), twin, known_bad()), policy(require="any"))
    assert [_verdict(decision, name).outcome for name in ("int8", "int8b")] == ["not_measured"] * 2


def test_the_identity_control_is_exempt_and_passes() -> None:
    """The reference again has the reference's weights, may have other batches, and must pass."""
    decision = decided(evidence(reference(), candidate(), known_bad(), identity()))
    verdict = _verdict(decision, "again")
    assert (decision.outcome, verdict.outcome, verdict.control_ok) == ("pass", "pass", True)
    assert verdict.because.startswith("is a control and came out as it must: it loses nothing that can be seen")


# ---------------------------------------------------------------------------------------------- sentences and figures


def test_sentences_read_aloud_after_the_name() -> None:
    """What was found, how much at most or at least with which confidence, what was allowed, and what would help."""
    said = {
        (b, c): _verdict(decided(evidence(reference(), candidate(b=b, c=c), known_bad()))).because
        for b, c in ((3, 1), (2, 2), (40, 0), (8, 2), (0, 20))
    }
    assert said[3, 1] == "loses 1.0 points, at most 3.3 with 95 % confidence; allowed 5.0"
    assert said[2, 2].startswith("loses nothing that can be seen: at most ")
    assert said[40, 0].startswith("loses 20.0 points, at least 15.4 with 95 % confidence; allowed 5.0")
    assert said[8, 2].startswith(
        "loses 3.0 points, at most 6.1 with 95 % confidence; allowed 5.0. The loss seen would need about "
    )
    assert said[0, 20].startswith("gains 10.0 points, at least ")


def test_a_pass_that_loses_for_certain_says_so() -> None:
    """A lower bound above zero within the margin: loses, shown, within the margin."""
    by = policy(replace(QUALITY, margin=0.2), require_controls=False)
    verdict = _verdict(decided(evidence(reference(), candidate(b=12, c=0)), by))
    assert (verdict.outcome, verdict.because[-35:]) == ("pass", "; the loss is shown, within the margin"[-35:])


def test_a_bound_is_printed_with_the_margins_digits_so_that_it_never_contradicts_it() -> None:
    """Margin 4.95 points: the bound 4.9x is not rounded up to 5.0."""
    by = policy(replace(QUALITY, margin=0.0495))
    verdict = _verdict(decided(evidence(reference(), candidate(b=4, c=0), known_bad()), by))
    check = verdict.checks[3]
    assert check.bound is not None and check.outcome == "pass" and check.bound <= 0.0495
    printed = float(verdict.because.split("at most ")[1].split()[0])
    assert check.bound <= printed / 100 <= 0.0495


def test_the_level_has_no_float_noise() -> None:
    """Alpha 0.07 is printed as 93 %, although 1 - 0.07 is a little less in floating point."""
    check = _verdict(decided(passing(), policy(alpha=0.07))).checks[3]
    assert check.level == 0.93
    assert "with 93 % confidence" in check.because


def test_the_margin_is_exact() -> None:
    """10 of 200 lost at 5 points is a loss at the margin: never a pass, whatever floats make of 0.05 and the level."""
    found = evidence(reference(), candidate(b=10, c=0), known_bad())
    check = _verdict(decided(found, policy(alpha=0.5))).checks[3]
    assert (check.estimate, check.p_value, check.outcome) == (0.05, 1.0, "inconclusive")


@pytest.mark.parametrize(("weight_bytes", "outcome"), [(3000, "pass"), (3001, "fail")])
def test_limits_on_plain_figures_are_inclusive(weight_bytes: int, outcome: Outcome) -> None:
    """A quarter freed meets a quarter; one byte less does not, and is not printed as if it did."""
    check = _verdict(decided(_loaded(weight_bytes=weight_bytes))).checks[-1]
    assert check.outcome == outcome
    assert ("25.0 %" in check.because) == (outcome == "pass")


# ---------------------------------------------------------------------------------------------- properties


def test_the_same_evidence_gives_the_same_decision() -> None:
    """Judged twice, and with the sheets' items in another order, the decision is the same."""
    found = evidence(reference(), candidate(), candidate("int4", b=9), known_bad(), identity())
    by = policy(require="any")
    assert decided(found, by) == decided(found, by)
    turned = changed(
        found, "int8", sheets=tuple(replace(one, items=one.items[::-1]) for one in found.variants[1].sheets)
    )
    assert decided(turned, by) == decided(found, by)


def _corruptions() -> st.SearchStrategy[Callable[[ScoreSheet], ScoreSheet]]:
    places = st.integers(0, ITEMS - 1)

    def item(place: int, **fields: Any) -> Callable[[ScoreSheet], ScoreSheet]:
        def change(one: ScoreSheet) -> ScoreSheet:
            at = place % len(one.items)
            return replace(one, items=(*one.items[:at], replace(one.items[at], **fields), *one.items[at + 1 :]))

        return change

    values = st.sampled_from([None, 0.0, 0.5, -1.0, 7.0, NAN, float("inf")])
    fields = st.sampled_from(sorted(CONDITIONS))
    return st.one_of(
        st.builds(lambda place, value: item(place, value=value), places, values),
        st.builds(lambda place: item(place, item_id="odd"), places),
        st.builds(lambda place: item(place, item_id=item_id(0)), places),
        st.builds(lambda place: item(place, evidence=ItemEvidence(item_id="x", nonfinite=True)), places),
        st.builds(lambda keep: lambda one: replace(one, items=one.items[: max(1, keep)]), places),
        st.builds(lambda field: lambda one: replace(one, conditions={**one.conditions, field: "odd"}), fields),
        st.builds(
            lambda field: lambda one: replace(one, conditions={k: v for k, v in one.conditions.items() if k != field}),
            fields,
        ),
        st.just(lambda one: replace(one, golden_sha256="ff" * 32)),
        st.just(lambda one: replace(one, batch_plan=BatchPlan(max_rows=3))),
    )


@settings(max_examples=25, deadline=None)
@given(changes=st.lists(_corruptions(), min_size=1, max_size=4), flips=st.sampled_from([(2, 2), (8, 0)]))
def test_corrupted_evidence_of_a_candidate_never_passes_where_whole_evidence_would_not(
    changes: list[Callable[[ScoreSheet], ScoreSheet]], flips: tuple[int, int]
) -> None:
    """Whatever is taken away from or broken in a candidate's sheet, its estimate is no better and a pass needs a pass before."""
    by = policy(QUALITY, require_controls=False)
    whole = candidate(b=flips[0], c=flips[1])
    broken = whole.sheets[0]
    for change in changes:
        broken = change(broken)
    before = _verdict(decided(evidence(reference(), whole), by))
    after = _verdict(decided(evidence(reference(), replace(whole, sheets=(broken,))), by))
    assert after.outcome != "pass" or before.outcome == "pass"
    loss_before, loss_after = before.checks[3].estimate, after.checks[3].estimate
    assert loss_after is None or (loss_before is not None and loss_after >= loss_before)
