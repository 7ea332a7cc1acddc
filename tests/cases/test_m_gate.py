"""Public bug reports, part M (gate, CI, baseline), and B97, B98."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from evidence import (
    FREED,
    ITEMS,
    QUALITY,
    candidate,
    changed,
    decided,
    evidence,
    failure,
    golden,
    known_bad,
    passing,
    policy,
    reference,
    sheet,
    variant,
)
from quantgate.records import CheckRule, Evidence, KLStatistics, ModelSource, Outcome, Report, SpeedRun
from quantgate.stages import report
from quantgate.stages.gate import EXIT_CODES
from quantgate.stats.power import items_needed, power
from quantgate.stats.proportions import mcnemar_exact

NAN = float("nan")


def _report(found: Evidence) -> Report:
    context = report.Context(
        run_id="x",
        created_at="",
        model=ModelSource(name="m", path="/m"),
        golden_sets=(),
        policy=policy(),
        commands=(),
        seconds=0.0,
    )
    return report.build(context, found, decided(found), None)


@pytest.mark.parametrize(
    "found",
    [
        evidence(reference(), candidate(), known_bad(), golden_sets=[golden(items=0)]),
        changed(passing(), "int8", sheets=(sheet((), absent=range(ITEMS)),)),
        changed(passing(), "int8", sheets=(replace(sheet(()), items=()),)),
        changed(passing(), "int8", sheets=(sheet((), of="int8", absent=range(ITEMS - 1)),)),
    ],
    ids=["0 items", "all errored", "an empty result", "all but one errored"],
)
def test_b109_nothing_measured_never_passes(found: Evidence) -> None:
    """No items, no answers, NaN: a non-zero exit, and the report can be built and says how many were scored."""
    built = _report(found)
    assert built.exit_code in (1, 4) and built.chosen is None
    assert all(row.scored <= row.items for row in built.quality)


def test_b109_a_metric_of_nan_never_passes() -> None:
    """Every comparison with NaN is false, "above the limit" too: it is not measured and not a pass."""
    nothing = KLStatistics(positions=500, mean=NAN, median=NAN, p99=NAN, maximum=NAN, top1_agreement=NAN)
    found = changed(passing(), "int8", sheets=(replace(candidate().sheets[0], kl=nothing),))
    assert decided(found, policy(QUALITY, CheckRule(kind="kl_mean", maximum=0.5))).outcome == "not_measured"


@pytest.mark.parametrize(
    ("one", "code"),
    [
        (candidate(), 0),
        (candidate(b=40, c=0), 1),
        (candidate(b=8, c=2), 3),
        (candidate(failures=(failure("int8", "load"),)), 4),
        (candidate(b=40, c=0, failures=(failure("int8", "time"),)), 4),
    ],
    ids=["pass", "regress", "unclear", "crash", "crash and regress"],
)
def test_b110_the_exit_code_follows_the_verdict(one: object, code: int) -> None:
    """Pass 0, regression 1, unclear 3, crash 4, and a crash outranks a regression; report and verdict say the same."""
    built = _report(evidence(reference(), one, known_bad()))  # type: ignore[arg-type]
    assert built.exit_code == code == EXIT_CODES[built.outcome]
    assert next(row for row in built.verdicts if row.role == "candidate").outcome == built.outcome


@pytest.mark.parametrize(("b", "c", "p"), [(10, 5, 0.1509), (9, 0, 0.00195)])
def test_b112_the_sign_test_of_the_report(b: int, c: int, p: float) -> None:
    """10 against 5 is no regression at 5 %, 9 against 0 is one: exact, one-sided, on the items that flipped."""
    assert mcnemar_exact(b=b, c=c).one_sided == pytest.approx(p, abs=5e-5)


@pytest.mark.parametrize(
    ("b", "c", "margin", "outcome"),
    [
        (10, 5, 0.02, "inconclusive"),
        (10, 5, 0.1, "pass"),
        (9, 0, 0.01, "fail"),
        (9, 0, 0.03, "inconclusive"),
        (9, 0, 0.1, "pass"),
    ],
)
def test_b112_the_margin_decides_and_not_a_test_of_no_difference(
    b: int, c: int, margin: float, outcome: Outcome
) -> None:
    """200 items: what is not significant is no pass, and what is significant is no fail within the margin."""
    decision = decided(
        evidence(reference(), candidate(b=b, c=c), known_bad()), policy(replace(QUALITY, margin=margin), FREED)
    )
    assert decision.outcome == outcome
    shown = next(
        row for row in _report(evidence(reference(), candidate(b=b, c=c), known_bad())).quality if row.variant == "int8"
    )
    assert shown.mcnemar_p == pytest.approx(mcnemar_exact(b=b, c=c).two_sided)


def test_b112_fifty_items_cannot_show_two_points() -> None:
    """Standard errors at 0.45: 0.0711 of 50 items, 0.0137 of 1,319; 2 points need hundreds and 50 have hardly any power."""
    assert math.sqrt(0.45 * 0.55 / 49) == pytest.approx(0.0711, abs=5e-5)
    assert math.sqrt(0.45 * 0.55 / 1318) == pytest.approx(0.0137, abs=5e-5)
    assert power(n=50, flip_rate=0.05, margin=0.02) < 0.2
    assert power(n=1319, flip_rate=0.05, margin=0.02) > 0.9
    assert items_needed(flip_rate=0.05, margin=0.02) == pytest.approx(819, rel=0.005)


def test_b114_speed_is_not_gated_and_so_cannot_flap() -> None:
    """Identical code and a machine of another speed give the same verdict: no check of a policy looks at time."""
    assert "speed" not in {one.name.split("/")[0] for verdict in decided(passing()).verdicts for one in verdict.checks}
    with_speed = changed(passing(), "int8", speed=SpeedRun(variant="int8", generations=()))
    assert decided(with_speed) == decided(passing())


@pytest.mark.parametrize("how", ["config", "as loaded", "simulated"])
def test_b118_a_reference_that_is_quantized_is_refused(how: str) -> None:
    """Bits in its config, quantized modules as loaded, or rounded weights: nothing is measured against it."""
    base = reference()
    assert base.loaded is not None and base.artifact is not None
    quantized = {
        "config": replace(base, variant=replace(base.variant, weight_bits=4)),
        "as loaded": replace(base, loaded=replace(base.loaded, quantized_parameters=800)),
        "simulated": replace(base, artifact=replace(base.artifact, simulated=True)),
    }[how]
    decision = decided(evidence(quantized, candidate(), known_bad()))
    assert decision.outcome == "not_measured"
    assert decision.because.startswith("Promotion is blocked: the reference is itself quantized")


def test_b118_a_reference_of_another_prompt_is_refused() -> None:
    """Another template, prompt, or harness of the reference is "not comparable", naming the field, and no regression."""
    for fields, word in (
        ({"first_prompt": "other"}, "prompt template"),
        ({"conditions": {**sheet(()).conditions, "tokenizer": "x"}}, "tokenizer"),
    ):
        other = reference(sheet(range(160), of="float32", **fields))
        decision = decided(evidence(other, candidate(b=40, c=0)), policy(require_controls=False))
        assert decision.outcome == "not_measured"
        assert f"not comparable: {'the ' if word[0] == 'p' else ''}{word}" in decision.verdicts[1].because


@pytest.mark.parametrize(("baseline", "found", "outcome"), [(0.010, 0.0137, "fail"), (0.010, 0.009, "pass")])
def test_b97_a_divergence_is_worse_when_it_is_larger(baseline: float, found: float, outcome: Outcome) -> None:
    """kl_mean has a maximum and no guessed direction: 37 % more than the limit fails."""
    kl = KLStatistics(positions=500, mean=found, median=0, p99=0, maximum=0, top1_agreement=1)
    one = changed(passing(), "int8", sheets=(replace(candidate().sheets[0], kl=kl),))
    assert decided(one, policy(QUALITY, CheckRule(kind="kl_mean", maximum=baseline))).outcome == outcome


def test_b97_a_metric_nobody_knows_is_not_skipped() -> None:
    """A demand of an unknown kind makes the candidate not measured."""
    assert decided(passing(), policy(QUALITY, CheckRule(kind="mean_rmsd", maximum=1.0))).outcome == "not_measured"


def test_b98_a_response_cache_is_found_out() -> None:
    """Scores of the reference served as the variant's are refused, under the reference's name and under its own."""
    base = sheet(range(160), of="float32")
    for served in (base, replace(base, variant="int8")):
        decision = decided(evidence(reference(), variant("int8", served), known_bad()))
        assert decision.outcome == "not_measured"
        assert "a cache was reused" in decision.verdicts[1].because
