from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from evidence import (
    CONDITIONS,
    ITEMS,
    RIGHT,
    candidate,
    changed,
    decided,
    evidence,
    failure,
    golden,
    item_id,
    known_bad,
    loaded,
    passing,
    policy,
    reference,
    sheet,
)
from quantgate.records import (
    CheckRule,
    Evidence,
    GoldenItem,
    GoldenSet,
    ItemEvidence,
    ItemScore,
    ModelSource,
    Policy,
    Report,
    TextReading,
)
from quantgate.rundir import encode
from quantgate.stages import report

QUESTIONS = GoldenSet(
    name="everyday",
    version="1",
    sha256=golden().sha256,
    path="",
    items=tuple(
        GoldenItem(
            item_id=item_id(n),
            slice="even" if n % 2 == 0 else "odd",
            prompt=f"q{n}",
            metric="multiple_choice",
            few_shot="shot ",
        )
        for n in range(ITEMS)
    ),
)


def built(found: Evidence, by: Policy | None = None, **fields: Any) -> Report:
    context = report.Context(
        run_id="x",
        created_at="2026-01-01T00:00:00+00:00",
        model=ModelSource(name="m", path="/m"),
        golden_sets=(QUESTIONS,),
        policy=by or policy(),
        commands=(),
        seconds=1.0,
    )
    return report.build(replace(context, **fields), found, decided(found, by), None)


def test_a_report_says_what_was_decided() -> None:
    """Outcome, exit code, headline and chosen variant are the decision's; every sentence has one full stop."""
    made = built(passing())
    assert (made.outcome, made.exit_code, made.chosen, made.headline) == (
        "pass",
        0,
        "int8",
        "int8 passes and goes forward.",
    )
    assert [one.split()[0] for one in made.sentences] == ["int8", "int2"]
    for one in made.sentences:
        assert one.endswith(".") and ".." not in one


def test_freed_memory_is_against_the_reference() -> None:
    """3,000 of 4,000 bytes; None for the reference itself; arithmetic for a simulated artifact."""
    rows = built(passing()).measurements
    assert [(one.freed_bytes, one.freed_share) for one in rows] == [(None, None), (3000, 0.75), (3500, 0.875)]
    one = candidate()
    assert one.artifact is not None
    simulated = changed(passing(), "int8", artifact=replace(one.artifact, simulated=True, simulated_weight_bytes=500))
    row = built(simulated).measurements[1]
    assert (row.weight_bytes, row.freed_bytes, row.freed_simulated) == (500, 3500, True)


def test_slices_count_missing_answers_as_the_gate_does() -> None:
    """Items that vanished from the sheet are lost in their slice; levels are alpha over the slices looked at."""
    gone = sheet(range(RIGHT))
    gone = replace(gone, items=gone.items[10:])
    made = next(one for one in built(changed(passing(), "int8", sheets=(gone,))).quality if one.variant == "int8")
    assert (made.items, made.scored, made.unscored) == (190, 190, 0)
    assert [(one.slice, one.n, one.b, one.c, one.level) for one in made.slices] == [
        ("even", 100, 5, 0, 0.975),
        ("odd", 100, 5, 0, 0.975),
    ]
    assert sum(one.b for one in made.slices) == next(
        one.b for one in decided(changed(passing(), "int8", sheets=(gone,))).verdicts[1].checks if one.b
    )


def test_an_empty_sheet_is_reported_and_is_no_crash() -> None:
    """N = 0 stands in the report."""
    made = built(changed(passing(), "int8", sheets=(replace(sheet(()), items=()),)))
    row = next(one for one in made.quality if one.variant == "int8")
    assert (row.items, row.scored, row.accuracy, made.exit_code) == (0, 0, None, 4)
    assert encode(made)


def test_flips_are_listed_regressions_first_and_strongest_first() -> None:
    """Each flip with both answers, the question, and how far the preference moved."""
    rows = [
        one for one in built(evidence(reference(), candidate(b=3, c=2), known_bad())).flips if one.variant == "int8"
    ]
    assert [one.direction for one in rows] == ["regression"] * 3 + ["recovery"] * 2
    assert [one.item_id for one in rows[:3]] == [item_id(n) for n in (2, 1, 0)] or len(
        {one.severity for one in rows[:3]}
    ) < 3
    assert rows[0].prompt.startswith("shot q")


def test_of_very_many_flips_the_worst_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list has an end and the counts say what is behind it; nothing is counted where nothing is left out."""
    found = evidence(reference(), candidate(b=30, c=2), candidate("int4", b=2, c=1), known_bad())
    whole = built(found)
    assert whole.flip_counts == () and report.MOST_FLIPS == 1000
    monkeypatch.setattr(report, "MOST_FLIPS", 20)
    made = built(found)
    counts = {one.variant: (one.regressions, one.recoveries, one.listed) for one in made.flip_counts}
    assert counts["int8"] == (30, 2, 20) and set(counts) == {"int8", "int2"}
    for name, listed in (("int8", 20), ("int4", 3), ("int2", 20)):
        rows = [one for one in made.flips if one.variant == name]
        assert rows == [one for one in whole.flips if one.variant == name][:listed]
    assert [one.checks for one in made.verdicts] == [one.checks for one in whole.verdicts]


def test_an_advisory_check_that_fails_is_told_as_what_it_is() -> None:
    """It decides nothing, and it is not hidden."""
    by = policy(CheckRule(kind="quality", margin=0.05), CheckRule(kind="freed_share", minimum=0.9, tier="advisory"))
    made = built(passing(), by)
    assert made.outcome == "pass"
    assert (
        "int8 frees 75.0 % of the weight memory; at least 90 % is asked for. This is advisory and decides nothing."
        in made.sentences
    )


def test_what_did_not_finish_is_told_once() -> None:
    """The failure that decided stands in the verdict's sentence; others get one of their own."""
    broken = candidate(failures=(failure("int8", "capacity"), failure("int8", "time", message="another one.\n")))
    made = built(evidence(reference(), broken, known_bad()))
    told = " ".join(made.sentences)
    assert told.count("it broke") == 1
    assert "int8: time did not finish (EngineError): another one." in made.sentences
    assert made.exit_code == 4


@pytest.mark.parametrize("missing", ["artifact", "loaded", "capacity", "speed", "device"])
def test_what_is_missing_is_null(missing: str) -> None:
    """A variant without a piece of evidence is reported without it, never with zeros, and never crashes the report."""
    made = built(changed(passing(), "int8", **{missing: None}))
    assert encode(made)
    row = made.measurements[1]
    if missing == "loaded":
        assert (row.weight_bytes, row.freed_bytes, row.share_quantized) == (None, None, None)


def test_severity_is_the_largest_move_of_one_choice_against_the_rest() -> None:
    """-1 and -2 become -1.5 and -1.5: one choice moved by 0.5 against a mean of 0, the other by as much the other way."""
    base, other = reference(), candidate(b=0, c=0)

    def with_first(one: Any, value: float, logs: tuple[float, ...]) -> Any:
        found = one.sheets[0]
        first = replace(found.items[0], value=value, evidence=ItemEvidence(item_id=item_id(0), loglikelihoods=logs))
        return replace(one, sheets=(replace(found, items=(first, *found.items[1:])),))

    found = evidence(with_first(base, 1.0, (-1.0, -2.0)), with_first(other, 0.0, (-1.5, -1.5)), known_bad())
    row = next(one for one in built(found).flips if one.variant == "int8")
    assert (row.direction, row.severity) == ("regression", 0.5)
    assert loaded("x", weight_bytes=1, quantized=0).weight_bytes == 1 and CONDITIONS


@pytest.mark.parametrize(
    ("before", "after", "moved"),
    [
        ((-1.0, -3.0, -4.0), (-3.0, -2.5, -9.0), 2.5),  # led by 2, now behind by 0.5; the third choice's fall changes nothing
        ((-1.0, -3.0, -4.0), (-2.0, -4.0, -5.0), 0.0),  # all fell alike: nothing moved
        ((-3.0, -1.0), (-1.0, -3.0), 4.0),
    ],
)
def test_a_flip_moves_as_far_as_the_lead_of_the_right_choice(
    before: tuple[float, ...], after: tuple[float, ...], moved: float
) -> None:
    """Where the right choice is known, its lead over the best wrong one is what moved."""
    item = GoldenItem(item_id="i", slice="s", prompt="p", metric="multiple_choice", choices=("a",) * len(before), answer=0)
    left, right = (
        ItemScore(item_id="i", slice="s", cluster=None, value=1.0, evidence=ItemEvidence(item_id="i", loglikelihoods=one))
        for one in (before, after)
    )
    assert report._severity(left, right, item) == pytest.approx(moved)
    wordless = replace(right, evidence=ItemEvidence(item_id="i", text="yes"))
    assert report._severity(left, wordless, item) == 0.0


def test_answers_that_say_nothing_are_counted_on_both_sides() -> None:
    """Of answers in words: how many are empty and how many read like a refusal; of choices none, and not zero of some."""

    def saying(one: Any, *texts: str) -> Any:
        found = one.sheets[0]
        said = [replace(item, evidence=replace(item.evidence, text=text)) for item, text in zip(found.items, texts, strict=False)]
        return replace(one, sheets=(replace(found, items=(*said, *found.items[len(said) :])),))

    base = saying(reference(), "Paris", " ")
    other = saying(candidate(), "", "I cannot help with that.", "\u200b", "As an AI language model, I", "42")
    rows = {row.variant: row for row in built(evidence(base, other, known_bad())).quality}
    assert (rows["float32"].empty, rows["float32"].refusals) == (1, 0)
    assert (rows["int8"].empty, rows["int8"].refusals) == (2, 2)


def test_readings_stand_beside_the_reference() -> None:
    """Perplexity of each, its ratio over the same tokens, and no ratio where the tokens differ."""

    def read(nats: float, tokens: int = 50) -> TextReading:
        items = (ItemEvidence(item_id="t", loglikelihoods=(-nats,), scored_tokens=tokens),)
        return TextReading(texts="books", sha256="ab" * 32, items=items, slices=("all",), cut=1, tokens_per_text=64)

    found = changed(changed(passing(), "float32", reading=read(100.0)), "int8", reading=read(110.0))
    base, row = built(found).readings
    assert (base.variant, base.ratio_to_reference) == ("float32", None)
    assert row.perplexity == pytest.approx(math.exp(2.2))
    assert row.ratio_to_reference == pytest.approx(math.exp(0.2))
    assert (row.count, row.tokens, row.cut) == (1, 50, 1)
    assert built(changed(found, "int8", reading=read(110.0, 51))).readings[1].ratio_to_reference is None
    assert built(changed(found, "int8", reading=read(1e6))).readings[1].ratio_to_reference is None
