"""What every metric must do, run over all of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from quantgate import plugins
from quantgate.ports import Metric
from quantgate.records import GoldenItem, ItemEvidence


@dataclass(frozen=True, kw_only=True)
class Case:
    """An item of a metric, with evidence of a good and of a bad answer."""

    good: ItemEvidence
    bad: ItemEvidence
    fields: Mapping[str, Any] = field(default_factory=dict)


def text(good: str, bad: str, **fields: Any) -> Case:
    """A metric of generated text."""
    return Case(good=ItemEvidence(item_id="a", text=good), bad=ItemEvidence(item_id="a", text=bad), fields=fields)


def totals(good: tuple[float, ...], bad: tuple[float, ...], tokens: int = 0, **fields: Any) -> Case:
    """A metric of log-likelihoods."""
    evidence = [ItemEvidence(item_id="a", loglikelihoods=one, scored_tokens=tokens) for one in (good, bad)]
    return Case(good=evidence[0], bad=evidence[1], fields=fields)


CHOICES: dict[str, Any] = {"choices": ("ab", "cd"), "answer": 0}
CASES: dict[str, Case] = {
    "multiple_choice": totals((-1.0, -2.0), (-2.0, -1.0), **CHOICES),
    "multiple_choice_norm": totals((-1.0, -2.0), (-2.0, -1.0), **CHOICES),
    "multiple_choice_norm_bytes": totals((-1.0, -2.0), (-2.0, -1.0), **CHOICES),
    "exact_match": text("yes", "no", answers=("yes",)),
    "numeric_match": text("it is 4", "it is 5", answers=("4",)),
    "regex": text("abc", "xyz", options={"pattern": "b"}),
    "f1": text("blue sky", "green", references=("blue sky",)),
    "rouge": text("blue sky", "green", references=("blue sky",)),
    "bleu": text("the sky is blue", "grass", references=("the sky is blue",)),
    "json_schema": text("{}", "[]", options={"schema": json.dumps({"type": "object"})}),
    "instructions": text("short", "far too long", options={"max_words": 1}),
    "perplexity": totals((-1.0,), (-9.0,), tokens=2),
}
"""``library`` has a suite of its own: what it does is up to somebody else's script."""


@pytest.fixture(params=CASES)
def name(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def metric(name: str) -> Metric:
    found: Metric = plugins.load("metric", name)()
    return found


@pytest.fixture
def item(name: str) -> GoldenItem:
    return GoldenItem(
        item_id="a", slice="s", prompt="p", metric=name, cluster="k", weight=2.0, **CASES[name].fields
    )


def test_every_metric_is_held_to_this() -> None:
    """No metric that comes with the program is left out."""
    assert {*CASES, "library"} == set(plugins.BUILT_IN["metric"])


def test_larger_is_better(name: str, metric: Metric, item: GoldenItem) -> None:
    """The good answer has the larger value, as the metric says, both within the scale that it declares."""
    assert metric.info_of(item).higher_is_better
    good, bad = metric.score(item, CASES[name].good), metric.score(item, CASES[name].bad)
    assert good.value is not None and bad.value is not None and good.value > bad.value
    match metric.info_of(item).scale:
        case "binary":
            assert (good.value, bad.value) == (1.0, 0.0)
        case "unit":
            assert 0 <= bad.value < good.value <= 1


def test_the_figure_is_in_the_metrics_own_direction(name: str, metric: Metric, item: GoldenItem) -> None:
    """Combined over one item, the better answer has the better figure."""
    good, bad = (metric.combine([metric.score(item, one)]) for one in (CASES[name].good, CASES[name].bad))
    assert good is not None and bad is not None
    assert (good < bad) is metric.info_of(item).figure_lower_is_better


def test_what_was_not_produced_has_no_score(metric: Metric, item: GoldenItem) -> None:
    """Absent or non-finite: no value, a reason, and no figure; never 0."""
    for evidence in (ItemEvidence(item_id="a"), ItemEvidence(item_id="a", text="x", loglikelihoods=(None,), nonfinite=True)):
        found = metric.score(item, evidence)
        assert found.value is None and found.why_unscored
        assert metric.combine([found]) is None
    assert metric.combine([]) is None


def test_an_unscored_item_does_not_move_the_figure(name: str, metric: Metric, item: GoldenItem) -> None:
    """The figure is over those that were scored."""
    good, absent = metric.score(item, CASES[name].good), metric.score(item, ItemEvidence(item_id="a"))
    assert metric.combine([good, absent]) == metric.combine([good])


def test_another_items_evidence_is_refused(name: str, metric: Metric, item: GoldenItem) -> None:
    """A mix-up is an error, not a score."""
    with pytest.raises(ValueError, match="evidence of item 'b' was given for item 'a'"):
        metric.score(item, replace(CASES[name].good, item_id="b"))


def test_what_stands_beside_a_score(name: str, metric: Metric, item: GoldenItem) -> None:
    """Id, slice, cluster and weight of the item, and the evidence itself."""
    found = metric.score(item, CASES[name].good)
    assert (found.item_id, found.slice, found.cluster, found.weight) == ("a", "s", "k", 2.0)
    assert found.evidence is CASES[name].good


def test_it_says_what_it_is(metric: Metric, item: GoldenItem) -> None:
    """Name, unit and definition are there; a fit item is fit."""
    info = metric.info_of(item)
    assert info.name and info.unit and len(info.definition) > 40
    assert metric.why_unfit(item) is None
