"""Two runs side by side: what is paired, what is refused and for which field."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from evidence import (
    CONDITIONS,
    ITEMS,
    RIGHT,
    candidate,
    capacity,
    changed,
    evidence,
    golden,
    identity,
    known_bad,
    passing,
    reference,
    sheet,
)
from quantgate.records import (
    Artifact,
    BatchPlan,
    Capacity,
    Comparison,
    Evidence,
    Generation,
    KLStatistics,
    KVCache,
    Proof,
    SpeedRun,
    VariantChange,
)
from quantgate.render import comparison
from quantgate.stages.compare import ALPHA, Side, compare
from quantgate.stats.paired import loss_lower, loss_upper
from quantgate.stats.proportions import mcnemar_exact
from racing import speed_run


def side(found: Evidence, run_id: str = "monday", day: str = "2026-11-23T01:00:00+00:00") -> Side:
    return Side(run_id=run_id, created_at=day, evidence=found)


def compared(before: Evidence, after: Evidence) -> Comparison:
    return compare(side(before), side(after, "tuesday", "2026-11-24T01:00:00+00:00"))


def of(found: Comparison, name: str = "int8") -> VariantChange:
    return next(one for one in found.variants if one.variant == name)


def kl(mean: float) -> KLStatistics:
    return KLStatistics(positions=200, mean=mean, median=0, p99=0, maximum=0, top1_agreement=1)


def speed(rate: float) -> SpeedRun:
    """Nine decode steps of four rows at this rate."""
    steps = tuple(1 + 4 * step / rate for step in range(10))
    one = Generation(batch_size=4, prompt_tokens=8, output_tokens=10, produced_tokens=40, step_s=steps)
    return SpeedRun(variant="int8", generations=(one,))


def test_answers_are_paired_by_item_between_the_runs() -> None:
    """Three items that were right are wrong, one that was wrong is right: counts, exact McNemar, loss with its exact interval."""
    old = sheet(range(RIGHT), kl=kl(0.02))
    new = sheet([*range(3, RIGHT), RIGHT], kl=kl(0.03))
    found = of(compared(changed(passing(), "int8", sheets=(old,)), changed(passing(), "int8", sheets=(new,))))
    one = found.golden_sets[0]
    assert (one.golden_set, one.n, one.b, one.c, one.loss) == ("everyday", ITEMS, 3, 1, 0.01)
    assert one.mcnemar_p == mcnemar_exact(b=3, c=1).two_sided
    assert one.lower == loss_lower(b=3, c=1, n=ITEMS, alpha=ALPHA)
    assert one.upper == loss_upper(b=3, c=1, n=ITEMS, alpha=ALPHA)
    assert (one.kl_before, one.kl_after, one.level) == (0.02, 0.03, 0.95)
    assert (one.accuracy_before, one.accuracy_after) == (160 / 200, 158 / 200)


def test_items_are_paired_by_id_and_a_missing_answer_counts_against_the_later_run() -> None:
    """The order of a sheet says nothing; an item that vanished was right before and is wrong now."""
    old = sheet(range(RIGHT))
    new = replace(old, items=tuple(reversed(old.items[5:])))
    one = of(compared(changed(passing(), "int8", sheets=(old,)), changed(passing(), "int8", sheets=(new,)))).golden_sets[0]
    assert (one.b, one.c) == (5, 0)


def test_figures_of_both_runs() -> None:
    """Weights, what they free in their own run, the ceiling and the decode speed at each batch size of both runs."""
    before = changed(passing(), "int8", speed=speed(100.0))
    after = changed(passing(), "int8", speed=speed(80.0), capacity=capacity(18))
    figures = {one.name: (one.before, one.after) for one in of(compared(before, after)).figures}
    assert figures["weights"] == (1000, 1000)
    assert figures["freed"] == (3000, 3000)
    assert figures["batch ceiling"] == (20, 18)
    assert figures["tokens/s at batch 4"] == (pytest.approx(100.0), pytest.approx(80.0))


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        (capacity(16), capacity(24), "16 requests -> 24 requests (1.50x)"),
        (capacity(16), capacity(64, limited_by="search cap"), "16 requests -> >= 64 requests"),
        (capacity(64, limited_by="search cap"), capacity(64), ">= 64 requests -> 64 requests"),
        (capacity(64, limited_by="time"), capacity(64, limited_by="search cap"), ">= 64 requests in both"),
        (capacity(None, limited_by="time"), capacity(64), "- -> 64 requests"),
    ],
)
def test_a_ceiling_that_the_search_never_reached_is_no_maximum(before: Capacity, after: Capacity, line: str) -> None:
    """``>=`` stands there, and no ratio is told of it."""
    found = compared(changed(passing(), "int8", capacity=before), changed(passing(), "int8", capacity=after))
    assert f"  batch ceiling: {line}\n" in comparison.text(found)


def test_what_was_not_measured_is_none_and_not_zero() -> None:
    """A variant that was not loaded tonight has no weights there."""
    found = of(compared(passing(), changed(passing(), "int8", loaded=None, speed=None, capacity=None)))
    assert {one.name: one.after for one in found.figures} == {"weights": None, "freed": None, "batch ceiling": None}
    assert "1.00 kB -> -" in comparison.text(compared(passing(), changed(passing(), "int8", loaded=None)))


def _sheet(**fields: Any) -> Evidence:
    return changed(passing(), "int8", sheets=(replace(candidate().sheets[0], **fields),))


def _fingerprint(**fields: Any) -> Evidence:
    return replace(passing(), fingerprint=replace(passing().fingerprint, **fields))


@pytest.mark.parametrize(
    ("after", "field"),
    [
        (_fingerprint(libraries={"torch": "2"}), "torch is None in the first run and '2' in the second"),
        (_fingerprint(model_sha256="ab"), "the model's digest is None in the first run and 'ab' in the second"),
    ],
)
def test_a_run_with_another_model_or_library_is_not_comparable_at_all(after: Evidence, field: str) -> None:
    """The field is named and no variant is compared."""
    found = compared(passing(), after)
    assert found.why_not == f"not comparable: {field}"
    assert (found.variants, found.compared) == ((), False)
    assert field in comparison.text(found)


@pytest.mark.parametrize(
    ("after", "field"),
    [
        (_sheet(batch_plan=BatchPlan(max_rows=1)), "max rows is 16 in the first run and 1 in the second"),
        (_sheet(conditions={**CONDITIONS, "threads": 4}), "threads is 1 in the first run and 4 in the second"),
        (_sheet(conditions={**CONDITIONS, "budget": 4}), "budget is None in the first run and 4 in the second"),
        (_sheet(first_prompt="?"), "the prompt template differs"),
        (replace(passing(), golden_sets=(replace(golden(), sha256="00" * 32),)), "the golden set's digest is"),
        (changed(passing(), "int8", sheets=()), "it was not scored in the second run"),
    ],
)
def test_sheets_that_are_not_comparable_name_the_field(after: Evidence, field: str) -> None:
    """Digest, batch plan and conditions must be equal between the runs; the answers are not counted, other figures are shown."""
    found = of(compared(passing(), after))
    assert field in str(found.golden_sets[0].why_not)
    assert found.golden_sets[0].b is None
    assert found.figures[0].after == 1000


def test_graded_scores_are_not_counted_as_right_or_wrong() -> None:
    """A score between 0 and 1 is refused by name."""
    half = candidate().sheets[0]
    after = _sheet(items=(replace(half.items[0], value=0.5), *half.items[1:]))
    assert "has the score 0.5; only right (1) and wrong (0)" in str(of(compared(passing(), after)).golden_sets[0].why_not)


def test_a_variant_that_is_defined_otherwise_is_not_comparable() -> None:
    """The same name with other bits or options is another variant."""
    one = candidate()
    for fields, words in (
        ({"weight_bits": 4}, "weight bits is 8 in the first run and 4 in the second"),
        ({"options": {"seed": 1}}, "seed is None in the first run and 1 in the second"),
        ({"kv_cache": KVCache(bits=4)}, f"kv cache is None in the first run and {KVCache(bits=4)!r} in the second"),
    ):
        found = of(compared(passing(), changed(passing(), "int8", variant=replace(one.variant, **fields))))
        assert (found.why_not, found.golden_sets, found.figures) == (f"not comparable: {words}", (), ())


def test_a_variant_that_learned_from_other_texts_is_not_comparable() -> None:
    """The calibration set's digest is part of what a variant is; where a ready checkpoint lies is not."""

    def learned(sha256: str) -> Evidence:
        proof = Proof(
            library="x 1", modules_replaced=1, modules_left=(), quantized_parameters=1, logical_parameters=1, stored_bits_per_weight=4.0,
            tensors_checked=1, tied_before=False, tied_after=False, reload_difference=0.0, calibration_sha256=sha256,
        )  # fmt: skip
        built = Artifact(variant="int8", path="", format="", stored_bytes=1, sha256="", proof=proof)
        return changed(passing(), "int8", artifact=built, variant=replace(candidate().variant, options={"path": sha256}))

    assert "the calibration set's digest is 'aa' in the first run and 'bb'" in str(of(compared(learned("aa"), learned("bb"))).why_not)
    moved = changed(learned("aa"), "int8", variant=replace(candidate().variant, options={"path": "elsewhere"}))
    assert of(compared(learned("aa"), moved)).why_not is None


def test_ceiling_and_speed_need_the_same_device_and_lengths() -> None:
    """Weights are compared on any device; a ceiling at other lengths, or on another device, is not."""
    longer = changed(passing(), "int8", capacity=capacity(10, prompt_tokens=128))
    figures = {one.name: one.why_not for one in of(compared(passing(), longer)).figures}
    assert figures == {
        "weights": None, "freed": None, "batch ceiling": "not comparable: prompt tokens is 64 in the first run and 128 in the second",
    }  # fmt: skip
    unknown = of(compared(passing(), changed(passing(), "int8", device=None))).figures[2]
    assert unknown.why_not == "not comparable: the device is not known in the second run"


def test_variants_of_one_run_only_are_named() -> None:
    """They are told apart by run; runs that share none are not compared."""
    found = compared(evidence(reference(), candidate("int8"), known_bad()), evidence(reference(), candidate("int4"), identity()))
    assert (found.only_first, found.only_second) == (("int8", "int2"), ("int4", "again"))
    assert [one.variant for one in found.variants] == ["float32"]
    nothing = compared(evidence(candidate("int8")), evidence(candidate("int4")))
    assert (nothing.why_not, nothing.compared) == ("the runs have no variant of the same name", False)


def test_the_order_of_the_runs_and_their_code_are_said() -> None:
    """The same run twice, the later one first, and other measuring code are notes, and no reason to refuse."""
    monday, tuesday = side(passing()), side(passing(), "tuesday", "2026-11-24T01:00:00+00:00")
    assert compare(monday, monday).notes == ("Both are the same run: nothing can have moved.",)
    assert compare(tuesday, monday).notes[0].startswith("tuesday is the later run")
    assert compare(monday, tuesday).notes == ()
    assert "quantgate that measure are not the same" in compare(monday, side(_fingerprint(source_sha256="1"), "b", "c")).notes[0]


def test_the_comparison_reads_well() -> None:
    """Every line has its unit, the loss its interval and level, the control its role."""
    text = comparison.text(compared(passing(), changed(passing(), "int8", sheets=(sheet(range(3, RIGHT)),))))
    assert "monday -> tuesday: what moved; loss is positive where the second run is worse" in text
    assert "int2 (known-bad)" in text
    assert "3 got worse, 0 got better, McNemar p 0.25; loss 1.5 points [" in text
    assert "at 95 % each side" in text
    assert "weights: 1.00 kB, unchanged" in text
    assert all(len(line) < 240 for line in text.splitlines())


def test_speed_is_compared_beside_each_runs_own_reference() -> None:
    """The ratio with its interval from one night to the next: a night on which the whole machine was slow is no change."""
    before = evidence(reference(), candidate(speed=speed_run((0.9, 0.91, 0.89, 0.9))), known_bad())
    after = evidence(reference(), candidate(speed=speed_run((0.8, 0.8))), known_bad())
    figures = compare(side(before), side(after, "tuesday")).variants[1].figures
    found = next(one for one in figures if one.name == "speed beside the reference at batch 1")
    assert (found.before, found.after) == (pytest.approx(0.9, abs=1e-3), pytest.approx(0.8))
    assert found.before_bounds is not None and found.before_bounds[0] < 0.9 < found.before_bounds[1] and found.after_bounds is None
    text = comparison.text(compare(side(before), side(after, "tuesday")))
    assert "speed beside the reference at batch 1: 0.900x [0.8" in text and "] -> 0.800x (0.89x)" in text
