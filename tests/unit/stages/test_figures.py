"""Figures of a set: one a metric, combined as it is; and what unequal weights forbid."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evidence import QUALITY, candidate, decided, evidence, golden, known_bad, policy, reference
from quantgate.metrics.exact_match import ExactMatch
from quantgate.metrics.perplexity import Perplexity
from quantgate.metrics.rouge import Rouge
from quantgate.records import GoldenItem, GoldenSet, ItemEvidence, ItemScore, MetricFigure
from quantgate.stages.figures import figures, weight_fault, why_weighted, worth_showing

METRICS = {"exact_match": ExactMatch(), "rouge": Rouge(), "perplexity": Perplexity()}


def exact(n: int, *, weight: float = 1.0, slice: str = "s") -> GoldenItem:
    """An exact-match item."""
    return GoldenItem(item_id=f"e{n}", slice=slice, prompt="p", metric="exact_match", answers=("x",), weight=weight)


def answered(items: list[GoldenItem], texts: list[str]) -> tuple[MetricFigure, ...]:
    """Figures of a model that wrote these texts."""
    scores = [
        METRICS[item.metric].score(item, ItemEvidence(item_id=item.item_id, text=text))  # type: ignore[attr-defined]
        for item, text in zip(items, texts, strict=True)
    ]
    return figures(items, scores, METRICS)


def test_the_mean_that_is_shown_is_weighted() -> None:
    """Right at weight 3, wrong at weight 1: 0.75, said to be weighted."""
    (figure,) = answered([exact(0, weight=3.0), exact(1)], ["x", "y"])
    assert (figure.value, figure.items, figure.scored, figure.equal_weights) == (0.75, 2, 2, False)
    assert worth_showing([figure])
    (plain,) = answered([exact(0), exact(1)], ["x", "y"])
    assert (plain.value, plain.equal_weights, worth_showing([plain])) == (0.5, True, False)


def test_kinds_are_figures_of_their_own() -> None:
    """Exact match and two kinds of ROUGE in one set: three figures, in order of appearance."""
    rouge = [
        GoldenItem(item_id=kind, slice="s", prompt="p", metric="rouge", references=("a b",), options={"kind": kind})
        for kind in ("rouge1", "rouge2")
    ]
    found = answered([exact(0), *rouge], ["x", "b a", "b a"])
    assert [(one.metric.name, one.value) for one in found] == [("exact_match", 1.0), ("rouge1", 1.0), ("rouge2", 0.0)]
    assert worth_showing(found)


def score(n: int, *, weight: float = 1.0, value: float = 1.0) -> ItemScore:
    """A score."""
    return ItemScore(item_id=f"e{n}", slice="s", cluster=None, value=value, weight=weight, evidence=ItemEvidence(item_id=f"e{n}"))


def test_unequal_weights_are_no_ground_for_a_paired_decision() -> None:
    """Over the whole set no, over the items of one weight yes."""
    sheet = replace(reference().sheets[0], items=(score(0), score(1), score(2, weight=4.0)))
    assert "weights from 1 to 4" in str(why_weighted(sheet, ["e0", "e1", "e2"]))
    assert why_weighted(sheet, ["e0", "e1"]) is None


def test_the_gate_measures_nothing_on_unequal_weights() -> None:
    """A variant that loses nothing is not let through by a rule that would ignore the weights."""
    before = decided(evidence(reference(), candidate(), known_bad()))
    assert before.outcome == "pass"
    heavy = []
    for one in (reference(), candidate(), known_bad()):
        first, *rest = one.sheets[0].items
        heavy.append(replace(one, sheets=(replace(one.sheets[0], items=(replace(first, weight=2.0), *rest)),)))
    decision = decided(evidence(*heavy))
    assert decision.outcome == "not_measured"
    assert "weights from 1 to 2" in decision.because + decision.verdicts[1].because


def test_a_required_check_over_unequal_weights_is_told_before_a_run() -> None:
    """On the set, or on a slice whose own items differ; slices of one weight each may be decided."""
    items = (exact(0, slice="a"), exact(1, slice="a"), exact(2, slice="b", weight=2.0))
    mixed = GoldenSet(name=golden().name, version="1", sha256="0" * 64, items=items, path="")
    whole = policy(replace(QUALITY, golden_set="*"))
    assert "weights from 1 to 2" in str(weight_fault(whole, (mixed,)))
    assert weight_fault(policy(replace(QUALITY, golden_set="*", slices=("*",))), (mixed,)) is None
    assert weight_fault(policy(replace(QUALITY, golden_set="*", tier="advisory")), (mixed,)) is None
    within = replace(mixed, items=(*items, exact(3, slice="b")))
    assert "slice b" in str(weight_fault(policy(replace(QUALITY, golden_set="*", slices=("*",))), (within,)))


def test_scores_and_items_belong_together() -> None:
    """A list that lacks one is an error, not a shorter figure."""
    with pytest.raises(ValueError, match="zip"):
        figures([exact(0), exact(1)], [score(0)], METRICS)
