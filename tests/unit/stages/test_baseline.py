"""Today's reference beside the pinned one: what counts as moved, what cannot be compared, and what the gate makes of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from evidence import CONDITIONS, ITEMS, RIGHT, candidate, decided, evidence, golden, known_bad, reference, sheet
from quantgate.records import (
    Baseline,
    BaselineEvidence,
    BaselineLimits,
    BaselineReport,
    BaselineRow,
    BatchPlan,
    Evidence,
    GoldenReference,
    ScoreSheet,
)
from quantgate.stages import baseline, marks

MODEL = "cd" * 32


def pinned(sheet_then: ScoreSheet, *, on: GoldenReference | None = None, **fields: Any) -> Baseline:
    """A baseline with one golden set, made of a sheet."""
    base = evidence(reference())
    made = Baseline(
        run_id="night-1",
        created_at="2026-11-01T02:00:00+00:00",
        accepted_at="2026-11-01T09:00:00+00:00",
        accepted_by="Ada",
        reason="first night",
        model="m",
        model_sha256=MODEL,
        reference="float32",
        weights_sha256=None,
        dtype="float32",
        policy="p",
        policy_sha256="",
        evidence_sha256="",
        environment=replace(base.fingerprint, model_sha256=MODEL),
        golden_sets=(marks.packed(on or golden(), sheet_then),),
    )
    return replace(made, **fields)


def tonight(
    then: Baseline | None, *limits: BaselineLimits, now: Iterable[int] = range(RIGHT), why_not: str = "", **fields: Any
) -> Evidence:
    """A run whose reference is right on ``now``, with a candidate that loses nothing and a control."""
    found = evidence(reference(sheet(now, of="float32", **fields)), candidate(), known_bad())
    held = BaselineEvidence(file="b.json", limits=limits or (BaselineLimits(),), pinned=then, why_not=why_not)
    return replace(found, fingerprint=replace(found.fingerprint, model_sha256=MODEL), baseline=held)


def row(found: Evidence) -> BaselineRow:
    """The one golden set's row."""
    return report(found).rows[0]


def report(found: Evidence) -> BaselineReport:
    """What became of the baseline."""
    made = baseline.compared(found)
    assert made is not None
    return made


THEN = sheet(range(RIGHT), of="float32")


# ---------------------------------------------------------------------------------------------- what is kept


@pytest.mark.parametrize(
    ("values", "form"),
    [([1.0, 0.0, None, 1.0], "marks"), ([0.5, 0.123456789123, None, 1.0], "numbers"), ([-3.25, 1e-12, None, 40.0], "numbers")],
)
def test_scores_come_back(values: list[float | None], form: str) -> None:
    """What is packed is read back: marks exactly, numbers with nine digits, an absent answer as none."""
    where = golden(items=4)
    items = tuple(replace(item, value=value) for item, value in zip(sheet(range(4), on=where).items, values, strict=True))
    kept = marks.packed(where, replace(sheet(range(4), on=where), items=items, scale="unbounded" if form == "numbers" else "binary"))
    assert kept.form == form
    assert marks.scores(kept) == [None if one is None else pytest.approx(one, rel=1e-8) for one in values]


def test_thousands_of_items_stay_readable() -> None:
    """3,000 items are 38 lines of 80 marks; a mark that is none, or one too few, is refused."""
    where = golden(items=3000)
    kept = marks.packed(where, sheet(range(2000), on=where))
    assert (len(kept.scores), max(map(len, kept.scores))) == (38, 80)
    with pytest.raises(ValueError, match="other marks"):
        marks.scores(replace(kept, scores=("2" + kept.scores[0][1:], *kept.scores[1:])))
    with pytest.raises(ValueError, match="no finite number"):
        marks.scores(replace(kept, form="numbers", items=1, scores=("nan",)))
    with pytest.raises(ValueError, match="2,999 scores"):
        marks.scores(replace(kept, scores=(kept.scores[0][1:], *kept.scores[1:])))


@pytest.mark.parametrize(("value", "scale", "what"), [(float("nan"), "unit", "no finite"), (3.0, None, "nothing states the scale")])
def test_a_score_that_cannot_be_compared_is_not_pinned(value: float, scale: Any, what: str) -> None:
    """NaN, and a score beyond 0 to 1 on a scale that nobody states."""
    items = (replace(THEN.items[0], value=value), *THEN.items[1:])
    with pytest.raises(ValueError, match=what):
        marks.packed(golden(), replace(THEN, items=items, scale=scale))


# ---------------------------------------------------------------------------------------------- moved or not


def test_a_reference_that_stays_holds_and_the_run_is_judged() -> None:
    """All items as they were: a pass, with a sentence on it; without a baseline there is none."""
    found = tonight(pinned(THEN))
    assert decided(found).outcome == "pass"
    assert report(found).holds
    assert next(baseline.sentence(report(found))).startswith("Baseline: the reference is where the baseline of run night-1 has it")
    assert baseline.compared(replace(found, baseline=None)) is None
    assert baseline.checks(replace(found, baseline=None)) == ()


@pytest.mark.parametrize(
    ("lost", "gained", "holds"),
    [(2, 0, True), (3, 0, False), (0, 2, True), (0, 3, False), (3, 3, True), (4, 3, False), (2, 4, True)],
)
def test_limits_are_counts(lost: int, gained: int, holds: bool) -> None:
    """200 items: 1 point is 2 items net, either way, exactly; 3 % is 6 items otherwise."""
    found = row(tonight(pinned(THEN), now=range(lost, RIGHT + gained)))
    assert (found.b, found.c, found.holds) == (lost, gained, holds)
    assert found.loss == pytest.approx((lost - gained) / ITEMS)


def test_a_moved_reference_is_not_a_regressed_variant() -> None:
    """Nothing is measured, no candidate is judged, and the headline says what moved, by how much, and what else is different."""
    then = pinned(THEN)
    then = replace(then, environment=replace(then.environment, libraries={"torch": "2.13"}))
    found = tonight(then, now=range(20, RIGHT))
    now = replace(found, fingerprint=replace(found.fingerprint, libraries={"torch": "2.14"}))
    decision = decided(now)
    assert (decision.outcome, decision.chosen) == ("not_measured", None)
    said = "Promotion is blocked: the baseline moved: the reference moved from the baseline of run night-1 on everyday"
    assert decision.because.startswith(said)
    for words in ("loses 10.0 points", "of 200 items 20 right then and wrong now", "a loss of 1.0 points", "torch 2.13 -> 2.14", "accept"):
        assert words in decision.because
    int8 = next(one for one in decision.verdicts if one.variant == "int8")
    assert int8.outcome == "not_measured"
    assert int8.because.startswith("is not judged: the reference moved from its baseline")
    assert next(one for one in decision.verdicts if one.role == "known_bad").control_ok


def test_a_reference_that_got_better_moved_too() -> None:
    """A gain beyond its limit moves what every variant is compared with."""
    decision = decided(tonight(pinned(THEN), BaselineLimits(max_gain=0.05), now=range(RIGHT + 20)))
    assert "it gains 10.0 points" in decision.because
    assert report(tonight(pinned(THEN), BaselineLimits(max_gain=0.1, max_flips=None), now=range(RIGHT + 20))).holds


def test_an_answer_that_is_missing_today_counts_as_wrong() -> None:
    """An absent item moves the reference as a wrong one does; absent on both sides it moved nothing."""
    absent = sheet(range(5, RIGHT), of="float32", absent=range(5))
    found = tonight(pinned(THEN))
    gone = replace(found, variants=(replace(found.variants[0], sheets=(absent,)), *found.variants[1:]))
    assert (row(gone).b, row(gone).holds) == (5, False)
    both = replace(gone, baseline=replace(gone.baseline, pinned=pinned(absent)) if gone.baseline else None)
    assert (row(both).b, row(both).c, row(both).holds) == (0, 0, True)


def test_a_set_may_have_limits_of_its_own() -> None:
    """Named limits go before those for every set."""
    own = (BaselineLimits(), BaselineLimits(golden_set="everyday", max_loss=0.0, max_gain=0.0, max_flips=0.0))
    assert not row(tonight(pinned(THEN), *own, now=range(1, RIGHT))).holds
    assert row(tonight(pinned(THEN), BaselineLimits(), now=range(1, RIGHT))).holds


def graded(sheet_now: ScoreSheet, by: float, scale: Any, better: Any = "higher") -> ScoreSheet:
    """Every score moved by so much."""
    items = tuple(replace(item, value=0.5 + by) for item in sheet_now.items)
    return replace(sheet_now, items=items, scale=scale, better=better)


@pytest.mark.parametrize(
    ("by", "better", "loss", "holds"), [(-0.02, "higher", 0.02, False), (0.02, "lower", 0.02, False), (-0.005, "higher", 0.005, True)]
)
def test_graded_scores(by: float, better: str, loss: float, holds: bool) -> None:
    """The mean change in the direction that the metric states."""
    limits = BaselineLimits(max_flips=None)
    then, now = (graded(THEN, each, "unit", better) for each in (0.0, by))
    found = row(tonight(pinned(then), limits, items=now.items, scale="unit", better=better))
    assert (found.loss, found.holds, found.scale) == (pytest.approx(loss), holds, "unit")


def test_unbounded_scores_need_limits_of_their_own() -> None:
    """A share means nothing there: not compared until the set has limits in its own unit."""
    then, now = (graded(THEN, each, "unbounded") for each in (0.0, -3.0))
    fields = {"items": now.items, "scale": "unbounded", "better": "higher"}
    assert "limits of its own" in row(tonight(pinned(then), **fields)).why_not
    own = BaselineLimits(golden_set="everyday", max_loss=4.0, max_gain=4.0, max_flips=None)
    assert row(tonight(pinned(then), BaselineLimits(), own, **fields)).holds
    assert not row(tonight(pinned(then), replace(own, max_loss=2.0), **fields)).holds


# ---------------------------------------------------------------------------------------------- not comparable


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"first_prompt": "<|user|>one + one ="}, "the template"),
        ({"conditions": {**CONDITIONS, "tokenizer": "ef" * 32}}, "tokenizer is abababababab in the baseline and efefefefefef today"),
        ({"conditions": {**CONDITIONS, "template": "chat"}}, "template is not known in the baseline and chat today"),
        ({"batch_plan": BatchPlan(max_rows=4)}, "the batch plan is 16 rows"),
        ({"better": "lower"}, "which scores are better"),
        ({"golden_sha256": "0" * 64}, "the reference was not scored on it today"),
    ],
)
def test_what_was_asked_otherwise_is_not_compared(fields: dict[str, Any], what: str) -> None:
    """Another template, tokenizer, plan or direction: not measured, with the field, and never a drift."""
    found = tonight(pinned(THEN), **fields)
    decision = decided(found)
    assert decision.outcome == "not_measured"
    assert what in decision.because
    assert "moved" not in decision.because
    assert decision.because.startswith("Promotion is blocked: the baseline cannot be used: the reference")


@pytest.mark.parametrize(("field", "value"), [("device", "another device"), ("threads", 8), ("driver", "570")])
def test_what_it_ran_on_may_differ_and_is_named(field: str, value: Any) -> None:
    """Device, driver and threads are what a baseline watches over: compared, and told among what is different."""
    found = tonight(pinned(THEN), conditions={**CONDITIONS, field: value})
    assert report(found).holds
    assert f"{field} {CONDITIONS[field]} -> {value}" in report(found).different


def test_another_golden_set_or_model_is_not_compared() -> None:
    """Other digests are told before the run as well; a model that is not known is no known model."""
    other = replace(golden(), sha256="1" * 64)
    found = tonight(pinned(replace(THEN, golden_sha256=other.sha256), on=other))
    assert "the golden set's digest is 111111111111 in the baseline" in decided(found).because
    assert "it pins everyday 1 (111111111111)" in " ".join(baseline.foreseen(found.baseline, found.golden_sets, MODEL))  # type: ignore[arg-type]
    assert "it holds no golden set everyday" in decided(tonight(pinned(THEN, on=replace(golden(), name="other")))).because
    assert "another model" in decided(tonight(pinned(THEN, model_sha256="9" * 64))).because
    assert "not known in the baseline" in decided(tonight(pinned(THEN, model_sha256=None))).because


def test_a_baseline_that_could_not_be_read_is_not_measured() -> None:
    """Missing or altered: the reason stands in the headline, and a moved reference is not spoken of."""
    decision = decided(tonight(None, why_not="there is no file b.json yet; look at it"))
    assert decision.outcome == "not_measured"
    said = "the baseline cannot be used: the reference has no baseline to be compared with: there is no file b.json yet"
    assert decision.because.startswith(f"Promotion is blocked: {said}")
    assert list(baseline.foreseen(tonight(None, why_not="x").baseline, (), None)) == ["x"]  # type: ignore[arg-type]


def test_a_reference_that_did_not_run_is_said_first() -> None:
    """What keeps the reference itself from counting is the headline, not the baseline that it cannot be compared with."""
    found = tonight(pinned(THEN))
    gone = replace(found, variants=(replace(found.variants[0], sheets=(), loaded=None), *found.variants[1:]))
    assert "the baseline" not in decided(gone).because.split(".")[0]


def test_a_reused_score_is_said() -> None:
    """Scores of an earlier run with the same digest are no second look, and the sentence says so."""
    found = tonight(pinned(THEN))
    again = replace(found, variants=(replace(found.variants[0], reused=("load", "score everyday")), *found.variants[1:]))
    assert "not asked again" in next(baseline.sentence(report(again)))
