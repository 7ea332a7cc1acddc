"""Graded scores: which rule decides, that bounds agree with it, and when nothing is shown."""

import numpy as np
import pytest
from scipy import stats

from quantgate.stats.graded import bca_bounds, decide_scores, mean_over_repeats, scores_needed
from quantgate.stats.noninferiority import decide_clustered, decide_graded, decide_paired


def f1_like(n: int, seed: int, shift: float = 0.0) -> np.ndarray:
    """A third of the items change, by anything."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(n) < 0.33, rng.uniform(-0.5 + shift, 0.5 + shift, n), 0.0)


def test_whole_differences_go_to_the_exact_rule() -> None:
    """Exact match is not graded, however it is handed in."""
    losses = np.array([1.0] * 4 + [-1.0] * 3 + [0.0] * 393)
    found = decide_scores(losses=losses, margin=0.03, alpha=0.05)
    assert found.method == "exact"
    assert found.decision == decide_paired(b=4, c=3, n=400, margin=0.03, alpha=0.05)


def test_few_losing_items_go_to_tango() -> None:
    """19 items lose: the sums of losses and gains in Tango's formula."""
    losses = np.array([0.5] * 7 + [-0.25] * 10 + [0.0] * 383)
    found, tango = (
        decide_scores(losses=losses, margin=0.03, alpha=0.05),
        decide_graded(b=3.5, c=2.5, n=400, margin=0.03, alpha=0.05),
    )
    assert (found.method, found.losing, found.units) == ("tango", 7, 400)
    assert found.decision == tango


def test_twenty_losing_items_go_to_hall() -> None:
    """The limit is inclusive."""
    losses = np.concatenate([np.linspace(0.1, 0.6, 20), np.zeros(980)])
    assert decide_scores(losses=losses, margin=0.03, alpha=0.05).method == "hall"
    assert decide_scores(losses=losses[1:], margin=0.03, alpha=0.05).method == "tango"


@pytest.mark.parametrize("margin", [0.001, 0.01, 0.02, 0.05, 0.2])
@pytest.mark.parametrize(("seed", "shift"), [(1, 0.0), (2, 0.1), (3, -0.1)])
def test_bounds_agree_with_the_outcome(margin: float, seed: int, shift: float) -> None:
    """Both one-sided p-values and both bounds say what the outcome says."""
    found = decide_scores(losses=f1_like(500, seed, shift), margin=margin, alpha=0.05).decision
    assert (found.outcome == "pass") == (found.upper <= margin) == (found.p_pass <= 0.05)
    assert (found.outcome == "fail") == (found.lower >= margin) == (found.p_fail <= 0.05)
    assert found.lower < found.estimate < found.upper


def test_a_fail_of_few_items_has_to_be_shown_exactly_too() -> None:
    """6 of 156 lost almost whole: Tango's normal quantile would fail it at 2 points, and errs 10 % of the time there."""
    losses = np.concatenate([np.full(6, 0.99), np.zeros(150)])
    assert decide_graded(b=5.94, c=0, n=156, margin=0.02, alpha=0.05).outcome == "inconclusive"
    losses[:7] = 0.97
    assert decide_graded(b=6.79, c=0, n=156, margin=0.02, alpha=0.05).outcome == "fail"
    assert decide_scores(losses=losses, margin=0.02, alpha=0.05).decision.outcome == "inconclusive"
    losses[:12] = 0.97
    assert decide_scores(losses=losses, margin=0.02, alpha=0.05).decision.outcome == "fail"


def test_small_losses_cannot_rule_out_a_large_one() -> None:
    """100 items that lose a thousandth each are no evidence against 3 % of total losses; 200 are."""
    few = decide_scores(losses=np.linspace(0.0005, 0.0015, 90), margin=0.03, alpha=0.05)
    assert (few.method, few.decision.outcome) == ("hall", "inconclusive")
    assert few.decision.upper == pytest.approx(1 - (1 - 0.001) * 0.05 ** (1 / 90))
    assert decide_scores(losses=np.linspace(0.0005, 0.0015, 200), margin=0.03, alpha=0.05).decision.outcome == "pass"


def test_equal_losses_have_a_width_all_the_same() -> None:
    """Every item loses the same tenth: no interval of width zero."""
    found = decide_scores(losses=np.full(400, 0.1), margin=0.2, alpha=0.05, rng=np.random.default_rng(1))
    assert found.decision.lower < 0.1 - 0.005 < 0.1 + 0.005 < found.decision.upper < 0.2
    assert (found.decision.outcome, found.second_opinion) == ("pass", None)


def test_no_change_at_all_is_as_wide_as_the_exact_rule() -> None:
    """300 ties: 0.99 points."""
    assert decide_scores(losses=np.zeros(300), margin=0.01, alpha=0.05).decision.upper == pytest.approx(
        0.0099, abs=1e-4
    )


def test_an_estimate_at_the_margin_shows_nothing() -> None:
    """The sum is compared as an exact decimal."""
    losses = np.array([0.25, 0.15] * 20 + [0.0] * 360)
    found = decide_scores(losses=losses, margin=0.02, alpha=0.05).decision
    assert (found.p_pass, found.p_fail, found.outcome) == (1.0, 1.0, "inconclusive")


def test_unbounded_scores_need_twenty_changed_items() -> None:
    """19 changed log-likelihoods show nothing, 20 may."""
    losses = np.concatenate([np.random.default_rng(1).normal(0, 0.01, 19), np.zeros(400)])
    few = decide_scores(losses=losses, margin=5, alpha=0.05, bounded=False)
    assert (few.method, few.decision.outcome) == ("none", "inconclusive")
    assert few.decision.reason == "19 units changed, at least 20 are needed where scores have no bounds"
    assert few.decision.upper == np.inf
    enough = decide_scores(losses=np.append(losses, 0.01), margin=5, alpha=0.05, bounded=False)
    assert (enough.method, enough.decision.outcome) == ("hall", "pass")


def test_unbounded_scores_that_change_alike_show_nothing() -> None:
    """Without bounds and without spread there is nothing to judge by."""
    found = decide_scores(losses=np.full(50, 0.25), margin=0.5, alpha=0.05, bounded=False).decision
    assert (found.outcome, found.p_pass) == ("inconclusive", 1.0)
    assert "every unit changed by the same" in str(found.reason)


def test_repeats_are_not_items() -> None:
    """Eight answers to each of 60 prompts: the prompt is the unit, whether averaged or named."""
    rng = np.random.default_rng(4)
    losses = np.repeat(rng.uniform(-0.4, 0.5, 60), 8) + rng.uniform(-0.05, 0.05, 480)
    prompts = np.repeat(np.arange(60), 8)
    averaged = decide_scores(losses=mean_over_repeats(losses, prompts), margin=0.05, alpha=0.05)
    named = decide_scores(losses=losses, clusters=prompts, margin=0.05, alpha=0.05)
    rows = decide_scores(losses=losses, margin=0.05, alpha=0.05)
    assert averaged.units == named.units == 60
    assert named.decision.upper == pytest.approx(averaged.decision.upper)
    assert rows.decision.upper < averaged.decision.upper


def test_few_losing_clusters_go_to_the_cluster_rule() -> None:
    """Under twenty clusters that lose: Tango's formula divided by the design effect."""
    losses, ids = np.zeros(600), np.repeat(np.arange(150), 4)
    losses[:40:4], losses[100:160:4] = 0.5, -0.25
    found = decide_scores(losses=losses, clusters=ids, margin=0.03, alpha=0.05)
    assert (found.method, found.losing, found.units) == ("tango", 10, 150)
    assert found.decision.p_pass == decide_clustered(losses=losses, clusters=ids, margin=0.03, alpha=0.05).p_pass


def test_too_few_clusters_show_nothing() -> None:
    """Nine sources, whatever they hold."""
    found = decide_scores(losses=f1_like(900, 5), clusters=np.repeat(np.arange(9), 100), margin=0.2, alpha=0.05)
    assert (found.method, found.decision.outcome) == ("none", "inconclusive")
    assert found.decision.reason == "9.0 effective clusters, at least 10 are needed"
    assert (found.decision.lower, found.decision.upper) == (-1.0, 1.0)


def test_the_second_opinion_decides_nothing() -> None:
    """The same decision with and without it; it is reproducible from the generator."""
    losses = f1_like(300, 6)
    alone = decide_scores(losses=losses, margin=0.03, alpha=0.05)
    first, again = (
        decide_scores(losses=losses, margin=0.03, alpha=0.05, rng=np.random.default_rng(1)) for _ in range(2)
    )
    assert alone.second_opinion is None
    assert first == again
    assert first.decision == alone.decision
    assert first.second_opinion is not None
    assert first.second_opinion.upper == pytest.approx(alone.decision.upper, abs=0.005)


def test_bca_agrees_with_scipy() -> None:
    """The same bounds as scipy.stats.bootstrap, within the noise of the draws."""
    x = np.random.default_rng(3).lognormal(-2, 1, 150)
    ours = bca_bounds(x, alpha=0.05, rng=np.random.default_rng(1), resamples=20_000)
    theirs = stats.bootstrap(
        (x,), np.mean, confidence_level=0.9, n_resamples=20_000, method="BCa", rng=np.random.default_rng(2)
    ).confidence_interval
    assert ours is not None
    assert (ours.lower, ours.upper) == pytest.approx((theirs.low, theirs.high), abs=0.003)


def test_bca_of_a_large_set_is_drawn_in_chunks() -> None:
    """More numbers than are drawn at a time."""
    found = bca_bounds(f1_like(30_000, 7), alpha=0.05, rng=np.random.default_rng(1), resamples=200)
    assert found is not None
    assert found.lower < found.upper


@pytest.mark.parametrize(
    ("losses", "options", "message"),
    [
        ([], {}, "at least one loss"),
        ([[0.1]], {}, "one row"),
        ([float("nan")], {}, "finite"),
        ([1.5], {}, "between -1 and 1"),
        ([0.1], {"margin": 0}, "margin"),
        ([0.1], {"margin": 0, "bounded": False}, "above 0"),
        ([0.1], {"alpha": 1.0}, "alpha"),
        ([0.1], {"clusters": ["a", "b"]}, "one cluster per item"),
        ([0.1, 0.2], {"clusters": ["a", None]}, "None"),
    ],
)
def test_bad_input_is_refused(losses: list[float], options: dict[str, object], message: str) -> None:
    """Nothing, impossible losses and impossible limits raise."""
    with pytest.raises(ValueError, match=message):
        decide_scores(**{"losses": losses, "margin": 0.03, "alpha": 0.05, **options})  # type: ignore[arg-type]


def test_items_needed_follow_from_how_losses_vary() -> None:
    """(1.645 + 0.842)^2 times the variance over the squared margin; none near the margin, or where nothing varies."""
    x = np.random.default_rng(0).normal(0, 0.2, 500)
    wanted = (1.6449 + 0.8416) ** 2 * x.var(ddof=1) / 0.03**2
    assert scores_needed(losses=x, margin=0.03, alpha=0.05, power=0.8) == pytest.approx(wanted, rel=0.01)
    assert scores_needed(losses=x, margin=0.03, true_loss=0.025, alpha=0.05, power=0.8) is None
    assert scores_needed(losses=[0.1] * 30, margin=0.03, alpha=0.05, power=0.8) is None
