"""Perplexity: totals over totals, and what is left out."""

import math

import pytest

from grading import item
from quantgate.metrics.perplexity import Perplexity
from quantgate.records import ItemEvidence, ItemScore

METRIC = Perplexity()


def text(total: float | None, tokens: int, *, nonfinite: bool = False) -> ItemScore:
    """Score a text of so many tokens with this log-likelihood."""
    evidence = ItemEvidence(item_id="a", loglikelihoods=(total,), scored_tokens=tokens, nonfinite=nonfinite)
    return METRIC.score(item("perplexity"), evidence)


def test_an_item_is_its_mean_log_likelihood_and_larger_is_better() -> None:
    """A likelier text has the larger value; nats and tokens stay beside it."""
    assert text(-2.0, 2).value == -1.0
    assert text(-2.0, 2).parts == (2.0, 2.0)
    better, worse = text(-1.0, 2).value, text(-3.0, 2).value
    assert better is not None and worse is not None and better > worse


def test_the_set_is_totals_over_totals() -> None:
    """exp(6 / 10), not the mean of e^1 and e^0.5."""
    assert METRIC.combine([text(-2.0, 2), text(-4.0, 8)]) == pytest.approx(math.exp(0.6))


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (text(0.0, 0), "no token to score"),
        (text(None, 3), "not finite"),
        (text(None, 3, nonfinite=True), "non-finite logits"),
        (METRIC.score(item("perplexity"), ItemEvidence(item_id="a")), "0 log-likelihoods"),
    ],
)
def test_what_has_no_score(found: ItemScore, why: str) -> None:
    """No token, no number, no answer: no score, with the reason, and no part of the figure."""
    assert found.value is None and why in str(found.why_unscored)
    assert METRIC.combine([found, text(-4.0, 8)]) == pytest.approx(math.exp(0.5))
    assert METRIC.combine([found]) is None


def test_a_perplexity_beyond_all_measure_is_no_figure() -> None:
    """Infinity is never stored; the value in nats is there all the same."""
    found = text(-8000.0, 2)
    assert (found.value, METRIC.combine([found])) == (-4000.0, None)
    assert "too large" in found.answered


def test_its_scale_and_direction_are_declared() -> None:
    """Unbounded; larger is better for an item's score, and lower for the figure of a set."""
    assert (METRIC.info.scale, METRIC.info.higher_is_better, METRIC.info.needs) == ("unbounded", True, "tokens")
    assert METRIC.info.figure_lower_is_better
