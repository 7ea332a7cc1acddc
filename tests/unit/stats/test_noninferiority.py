"""The decision about one check, and whether a set can show a loss at all."""

from decimal import Decimal

import numpy as np
import pytest

from quantgate.stats.noninferiority import (
    assay_sensitive,
    assay_sensitive_scores,
    decide_clustered,
    decide_graded,
    decide_paired,
)


@pytest.mark.parametrize(
    ("b", "c", "n", "outcome"),
    [
        (0, 0, 149, "pass"),
        (0, 0, 148, "inconclusive"),
        (4, 0, 200, "inconclusive"),
        (30, 2, 200, "fail"),
        (9, 9, 9_000, "pass"),
    ],
)
def test_outcomes_at_two_points(b: int, c: int, n: int, outcome: str) -> None:
    """Pass, fail and inconclusive at a margin of 2 points."""
    assert decide_paired(b=b, c=c, n=n, margin=0.02, alpha=0.05).outcome == outcome


def test_no_significant_difference_is_not_a_pass() -> None:
    """A small set without a difference stays inconclusive."""
    found = decide_paired(b=1, c=1, n=40, margin=0.03, alpha=0.05)
    assert found.outcome == "inconclusive"
    assert found.lower < 0 < 0.03 < found.upper


def test_a_loss_shown_within_the_margin_is_a_pass_that_says_so() -> None:
    """A pass whose lower bound is above 0 says that a loss is shown."""
    found = decide_paired(b=30, c=5, n=5_000, margin=0.02, alpha=0.05)
    assert (found.outcome, found.loss_shown) == ("pass", True)


def test_pass_and_fail_are_never_both_shown() -> None:
    """One of the two p-values is always 1."""
    for b in range(0, 30, 3):
        found = decide_paired(b=b, c=5, n=120, margin=Decimal("0.05"), alpha=0.05)
        assert max(found.p_pass, found.p_fail) == 1.0


def test_a_stricter_level_only_takes_verdicts_away() -> None:
    """What is shown at 0.01 is shown at 0.05."""
    for b, c, n in ((0, 0, 500), (40, 1, 300), (6, 4, 400)):
        strict = decide_paired(b=b, c=c, n=n, margin=0.03, alpha=0.01)
        assert strict.outcome in {"inconclusive", decide_paired(b=b, c=c, n=n, margin=0.03, alpha=0.05).outcome}
        assert strict.level == 0.01


def test_no_items_raise() -> None:
    """No item is not measured, which is not for this module to decide."""
    with pytest.raises(ValueError, match="n must"):
        decide_paired(b=0, c=0, n=0, margin=0.02, alpha=0.05)
    with pytest.raises(ValueError, match="found"):
        decide_graded(b=0, c=0, n=0, margin=0.02, alpha=0.05)
    with pytest.raises(ValueError, match="at least one item"):
        decide_clustered(losses=[], clusters=[], margin=0.02, alpha=0.05)


def test_graded_scores_take_fractions() -> None:
    """Sums of partial losses are decided near the whole counts of the same size."""
    graded = decide_graded(b=3.5, c=2.5, n=400, margin=0.03, alpha=0.05)
    whole = decide_paired(b=4, c=3, n=400, margin=0.03, alpha=0.05)
    assert graded.outcome == whole.outcome == "pass"
    assert graded.upper == pytest.approx(whole.upper, abs=0.004)


@pytest.mark.parametrize("margin", [0.005, 0.012, 0.02, 0.1])
def test_graded_bounds_agree_with_the_outcome(margin: float) -> None:
    """Bounds lie on the side of the margin that the outcome names."""
    found = decide_graded(b=9.25, c=1.5, n=400, margin=margin, alpha=0.05)
    assert (found.outcome == "pass") == (found.upper <= margin)
    assert (found.outcome == "fail") == (found.lower >= margin)


def test_clusters_widen_the_bounds() -> None:
    """The same losses, copied within clusters, show less than independent ones."""
    losses = np.repeat(np.array([1.0] * 12 + [-1.0] * 8 + [0.0] * 180), 4)
    together = decide_clustered(losses=losses, clusters=np.repeat(np.arange(200), 4), margin=0.05, alpha=0.05)
    apart = decide_clustered(losses=losses, clusters=np.arange(800), margin=0.05, alpha=0.05)
    assert together.lower < apart.lower < apart.upper < together.upper
    assert (together.outcome, apart.outcome) == ("inconclusive", "pass")


def test_too_few_clusters_are_inconclusive_and_say_why() -> None:
    """Even a set where everything is lost shows nothing from three sources."""
    found = decide_clustered(losses=np.ones(300), clusters=np.repeat(np.arange(3), 100), margin=0.02, alpha=0.05)
    assert found.outcome == "inconclusive"
    assert found.reason == "3.0 effective clusters, at least 10 are needed"


def test_a_set_on_which_the_reference_barely_works_is_not_sensitive() -> None:
    """26 right of 1,319 carry no margin of 3 points; 1,000 right do."""
    assert not assay_sensitive(right=26, n=1_319, chance=0, margin=0.03).sensitive
    assert assay_sensitive(right=1_000, n=1_319, chance=0, margin=0.03).sensitive


def test_chance_level_counts_against_the_reference() -> None:
    """At chance level nothing can be shown, and the largest margin is not above 0."""
    found = assay_sensitive(right=50, n=200, chance=0.25, margin=0.01)
    assert not found.sensitive
    assert found.largest_margin < 0
    assert found.accuracy == 0.25


def test_assay_refuses_what_cannot_be() -> None:
    """A chance level of 1, and more right than items, raise."""
    with pytest.raises(ValueError, match="chance"):
        assay_sensitive(right=5, n=10, chance=1, margin=0.01)
    with pytest.raises(ValueError, match="k = 11"):
        assay_sensitive(right=11, n=10, chance=0, margin=0.01)


def test_assay_of_scores_is_that_of_counts_where_sums_are_whole() -> None:
    """140 right of 200 and 200 scores of 0.7 have the same bound; what is not among the scores counts as nothing."""
    whole = assay_sensitive(right=140, n=200, chance=0.25, margin=0.05)
    graded = assay_sensitive_scores(scores=[0.7] * 200, n=200, chance=0.25, margin=0.05)
    assert graded.lower == pytest.approx(whole.lower, abs=1e-9)
    assert assay_sensitive_scores(scores=[0.7] * 100, n=200, chance=0.0, margin=0.05).accuracy == pytest.approx(0.35)
    assert not assay_sensitive_scores(scores=[], n=200, chance=0.0, margin=0.05).sensitive
    for odd in ([1.2], [float("nan")], [0.5] * 201):
        with pytest.raises(ValueError, match="scores between 0 and 1"):
            assay_sensitive_scores(scores=odd, n=200, chance=0.0, margin=0.05)
