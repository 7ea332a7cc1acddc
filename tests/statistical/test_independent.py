"""The same pairs through other people's code: scipy.stats in the quick suite, statsmodels where it is installed.

statsmodels 0.15 has no interval and no test of a margin for paired proportions (its score intervals are for independent
samples), so Tango's statistic meets it at a hypothesised loss of 0, where it is the root of McNemar's chi-squared, and at
other losses is checked against a restricted fit by scipy's own optimiser.
"""

import importlib.util

import numpy as np
import pytest
from scipy import optimize, stats

from quantgate.stats.clusters import clustered_loss
from quantgate.stats.graded import decide_scores
from quantgate.stats.multiplicity import holm
from quantgate.stats.proportions import clopper_pearson, mcnemar_exact
from quantgate.stats.ratios import perplexity_ratio
from quantgate.stats.studentised import Studentised, pseudo_values
from quantgate.stats.tango import tango_statistic

PAIRS = [(10, 5, 100), (9, 0, 60), (0, 0, 50), (3, 11, 400), (140, 90, 2_000), (1, 0, 12)]
needs_statsmodels = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("statsmodels") is None, reason="statsmodels is not installed"),
]


@pytest.mark.parametrize(("b", "c", "n"), PAIRS)
def test_mcnemar_is_the_binomial_test(b: int, c: int, n: int) -> None:
    """scipy.stats.binomtest of b among b + c at one half."""
    found = mcnemar_exact(b=b, c=c)
    if b + c == 0:
        assert (found.one_sided, found.two_sided) == (1.0, 1.0)
        return
    assert found.two_sided == pytest.approx(stats.binomtest(b, b + c).pvalue)
    assert found.one_sided == pytest.approx(stats.binomtest(b, b + c, alternative="greater").pvalue)


@pytest.mark.parametrize(("k", "n"), [(0, 10), (10, 10), (26, 1_319), (700, 1_000)])
@pytest.mark.parametrize("alpha", [0.10, 1e-4])
def test_clopper_pearson_is_scipys(k: int, n: int, alpha: float) -> None:
    """The exact interval of scipy.stats.binomtest."""
    theirs = stats.binomtest(k, n).proportion_ci(confidence_level=1 - alpha, method="exact")
    found = clopper_pearson(k=k, n=n, alpha=alpha)
    assert (found.lower, found.upper) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


@pytest.mark.parametrize(("b", "c", "n"), PAIRS)
@pytest.mark.parametrize("loss", [0.01, 0.03, 0.2, -0.05])
def test_tango_is_the_score_test_of_a_restricted_fit(b: int, c: int, n: int, loss: float) -> None:
    """The recovery rate that fits best, found by a general optimiser instead of the formula."""

    def misfit(q: float) -> float:
        chances = np.array([q + loss, q, 1 - 2 * q - loss])
        return -float(
            np.sum(
                np.where(np.array([b, c, n - b - c]) > 0, np.log(np.maximum(chances, 1e-300)), 0.0) * [b, c, n - b - c]
            )
        )

    low, high = max(0.0, -loss), (1 - loss) / 2
    q = optimize.minimize_scalar(misfit, bounds=(low, high), method="bounded", options={"xatol": 1e-12}).x
    expected = (b - c - n * loss) / np.sqrt(n * (2 * q + loss * (1 - loss)))
    assert tango_statistic(b, c, n, loss) == pytest.approx(expected, abs=2e-3)


def test_skewness_is_scipys() -> None:
    """scipy.stats.skew, and scipy's one-sided t test where there is none."""
    x = np.random.default_rng(1).lognormal(-3, 1, 80)
    found = Studentised.of(x, mean=float(x.mean()), degrees_of_freedom=79)
    assert found.skewness == pytest.approx(stats.skew(x))
    even = np.concatenate([x, -x])
    test = stats.ttest_1samp(even, 0.01, alternative="less")
    assert Studentised.of(even, mean=0.0, degrees_of_freedom=159).p_at_least(0.01) == pytest.approx(test.pvalue)


class TestStatsmodels:
    """Slow only because it is imported; skipped without it."""

    pytestmark = needs_statsmodels

    @pytest.mark.parametrize(("b", "c", "n"), [pair for pair in PAIRS if pair[0] + pair[1] > 0])
    def test_paired_tables(self, b: int, c: int, n: int) -> None:
        """`mcnemar` exact and chi-squared, and the difference of `SquareTable`'s marginal probabilities."""
        from statsmodels.stats.contingency_tables import SquareTable, mcnemar

        both = (n - b - c) // 2
        table = np.array([[both, b], [c, n - b - c - both]])
        assert mcnemar_exact(b=b, c=c).two_sided == pytest.approx(mcnemar(table, exact=True).pvalue)
        chi_squared = mcnemar(table, exact=False, correction=False)
        statistic = float(tango_statistic(b, c, n, 0.0))
        assert statistic**2 == pytest.approx(chi_squared.statistic)
        assert 2 * stats.norm.sf(abs(statistic)) == pytest.approx(chi_squared.pvalue)
        rows, columns = SquareTable(table, shift_zeros=False).marginal_probabilities
        losses = np.repeat([1.0, -1.0, 0.0], [b, c, n - b - c])
        estimate = decide_scores(losses=losses, margin=0.03, alpha=0.05).decision.estimate
        assert estimate == pytest.approx(rows[0] - columns[0])

    @pytest.mark.parametrize(("k", "n"), [(1, 10), (26, 1_319), (700, 1_000)])
    def test_single_proportions(self, k: int, n: int) -> None:
        """`proportion_confint(method="beta")`."""
        from statsmodels.stats.proportion import proportion_confint

        found = clopper_pearson(k=k, n=n, alpha=0.1)
        assert (found.lower, found.upper) == pytest.approx(proportion_confint(k, n, alpha=0.1, method="beta"))

    def test_holm(self) -> None:
        """`multipletests(method="holm")` rejects the same ones, on 200 seeded families."""
        from statsmodels.stats.multitest import multipletests

        for row in np.random.default_rng(1).beta(0.3, 3, (200, 6)):
            steps = holm(dict(zip("abcdef", row, strict=True)), alpha=0.05, k=6)
            rejected = {step.name for step in steps if step.rejected}
            theirs = multipletests(row, alpha=0.05, method="holm")[0]
            assert rejected == {name for name, one in zip("abcdef", theirs, strict=True) if one}

    def test_a_mean_without_skewness(self) -> None:
        """`DescrStatsW.ttest_mean`, one-sided, and its interval."""
        from statsmodels.stats.weightstats import DescrStatsW

        x = np.random.default_rng(3).normal(0, 0.1, 50)
        x = np.concatenate([x, -x]) + 0.01
        found, theirs = Studentised.of(x, mean=float(x.mean()), degrees_of_freedom=99), DescrStatsW(x)
        assert found.p_at_least(0.03) == pytest.approx(theirs.ttest_mean(0.03, alternative="smaller")[1])
        bounds = found.bounds(0.05)
        assert (bounds.lower, bounds.upper) == pytest.approx(theirs.tconfint_mean(alpha=0.10))

    def test_the_ratio_of_perplexities(self) -> None:
        """`WLS` of the change per token, HC3 errors: the jackknife of the ratio, but for the factor (n - 1) / n."""
        import statsmodels.api as sm

        rng = np.random.default_rng(4)
        tokens = np.ceil(rng.lognormal(6, 0.6, 60))
        change = rng.normal(0.01, 0.02, 60)
        found = perplexity_ratio(reference_nats=2 * tokens, variant_nats=(2 + change) * tokens, tokens=tokens)
        fit = sm.WLS(change, np.ones(60), weights=tokens).fit(cov_type="HC3")
        assert found.log_ratio == pytest.approx(fit.params[0])
        assert found.standard_error == pytest.approx(fit.bse[0] * (59 / 60) ** 0.5, rel=0.002)

    def test_clusters(self) -> None:
        """`OLS` with cluster-robust errors: the variance behind the design effect, and that of graded clusters."""
        import statsmodels.api as sm

        rng = np.random.default_rng(5)
        ids = np.repeat(np.arange(80), 6)
        losses = np.where(rng.random(480) < 0.6, rng.choice([1.0, -1.0, 0.0], p=[0.2, 0.15, 0.65], size=80)[ids], 0.0)
        fit = sm.OLS(losses, np.ones(480)).fit(cov_type="cluster", cov_kwds={"groups": ids})
        sums, sizes = np.bincount(ids, weights=losses), np.bincount(ids)
        units = Studentised.of(
            pseudo_values(sums, sizes, losses.mean()), mean=float(losses.mean()), degrees_of_freedom=79
        )
        assert units.deviation / 80**0.5 == pytest.approx(fit.bse[0], rel=0.002)
        over_items = losses.var(ddof=1) / 480
        assert clustered_loss(losses, ids).design_effect == pytest.approx(fit.bse[0] ** 2 / over_items, rel=0.004)
