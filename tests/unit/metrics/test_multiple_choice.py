"""Multiple choice by summed log-likelihood."""

import dataclasses
import math

import pytest

from quantgate.metrics.multiple_choice import MultipleChoice
from quantgate.ports import Metric
from quantgate.records import GoldenItem, ItemEvidence

ITEM = GoldenItem(
    item_id="a",
    slice="s",
    prompt="p",
    metric="multiple_choice",
    cluster="k",
    choices=("red", "green", "blue"),
    answer=1,
)


def evidence(*values: float | None, nonfinite: bool = False) -> ItemEvidence:
    """Give the log-likelihoods of the choices."""
    return ItemEvidence(item_id="a", loglikelihoods=values, nonfinite=nonfinite)


@pytest.mark.parametrize(
    ("values", "answered", "value"),
    [
        ((-3.0, -1.0, -2.0), "green", 1.0),
        ((-1.0, -3.0, -2.0), "red", 0.0),
        ((-1.0, -1.0, -2.0), "red", 0.0),
        ((-2.0, -1.0, -1.0), "green", 1.0),
        ((0.0, -1.0, -1e300), "red", 0.0),
    ],
)
def test_the_likeliest_choice_is_the_answer(values: tuple[float, ...], answered: str, value: float) -> None:
    """The largest sum is the answer; a tie goes to the lowest index."""
    found = evidence(*values)
    score = MultipleChoice().score(ITEM, found)
    assert (score.answered, score.expected, score.value, score.why_unscored) == (answered, "green", value, None)
    assert (score.item_id, score.slice, score.cluster) == ("a", "s", "k")
    assert score.evidence is found


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (evidence(-1.0, None, -2.0), "choice 1 is not finite"),
        (evidence(-1.0, -2.0, math.nan), "choice 2 is not finite"),
        (evidence(-math.inf, -2.0, -3.0), "choice 0 is not finite"),
        (evidence(-2.0, -1.0, -3.0, nonfinite=True), "non-finite logits"),
        (evidence(-2.0, -1.0), "2 log-likelihoods for 3 choices"),
        (evidence(), "0 log-likelihoods for 3 choices"),
        (evidence(-2.0, -1.0, -3.0, -4.0), "4 log-likelihoods for 3 choices"),
    ],
)
def test_incomplete_evidence_is_no_score(found: ItemEvidence, reason: str) -> None:
    """A missing or non-finite log-likelihood gives None with the reason, even where the right one leads."""
    score = MultipleChoice().score(ITEM, found)
    assert score.value is None
    assert score.answered == ""
    assert reason in str(score.why_unscored)


def test_evidence_of_another_item_is_refused() -> None:
    """Evidence is joined to its own item only, and an item without a right choice cannot be scored."""
    with pytest.raises(ValueError, match="was given for item"):
        MultipleChoice().score(ITEM, ItemEvidence(item_id="b", loglikelihoods=(-1.0, -2.0, -3.0)))
    with pytest.raises(ValueError, match="no right one"):
        MultipleChoice().score(dataclasses.replace(ITEM, answer=None), evidence(-1.0, -2.0, -3.0))


def test_the_metric_fits_its_port() -> None:
    """It states its direction, what it needs and how ties end."""
    metric: Metric = MultipleChoice()
    assert (metric.info.name, metric.info.needs) == ("multiple_choice", "loglikelihoods")
    assert metric.info.higher_is_better
    assert "tie" in metric.info.definition
