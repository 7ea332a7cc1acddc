"""The decision about one paired check: shown within the margin, shown outside it, or neither.

Absence of evidence is *inconclusive*, never a pass. A check without items is not decided here: it raises, and the
caller says that it was not measured.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import fsum
from typing import Any, Literal

from numpy.typing import ArrayLike, NDArray
from scipy import special  # type: ignore[import-untyped, unused-ignore]

from quantgate.stats.clusters import ENOUGH, clustered_loss
from quantgate.stats.inputs import (
    Number,
    checked_amounts,
    checked_count,
    checked_counts,
    checked_margin,
    checked_share,
    exact,
)
from quantgate.stats.paired import loss_lower, loss_upper, p_loss_at_least, p_loss_at_most
from quantgate.stats.proportions import clopper_pearson
from quantgate.stats.tango import tango_bounds, tango_statistic

Outcome = Literal["pass", "fail", "inconclusive"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """Outcome of one check of a loss (a share of items, or in a score's own unit) or of a ratio; more is worse.

    The bounds agree with the outcome.
    """

    outcome: Outcome
    estimate: float
    lower: float
    """One-sided (1 - level) lower bound; at or above the margin exactly when the outcome is fail."""
    upper: float
    """One-sided (1 - level) upper bound; at or below the margin exactly when the outcome is pass."""
    p_pass: float
    """P-value of "the loss is at least the margin"."""
    p_fail: float
    """P-value of "the loss is at most the margin"."""
    level: float
    """The one-sided level that decided."""
    reason: str | None = None
    """Why nothing could be shown whatever the counts; None otherwise."""
    unchanged: float = 0.0
    """What no change is: 0 for a loss, 1 for a ratio."""

    @property
    def loss_shown(self) -> bool:
        """True where it is shown that something is lost, margin or not."""
        return self.lower > self.unchanged


@dataclass(frozen=True, kw_only=True, slots=True)
class AssaySensitivity:
    """Whether a reference works well enough on a set for a loss of the margin to be seen there."""

    sensitive: bool
    accuracy: float
    lower: float
    """95 % one-sided lower bound of the accuracy."""
    chance: float
    largest_margin: float
    """Half of what the lower bound lies above chance; not above 0 where even that is not shown."""


def decide_paired(*, b: int, c: int, n: int, margin: Number, alpha: float) -> Decision:
    """Exact decision on b regressions and c recoveries among n independent items.

    Raises:
        ValueError: n < 1 (not measured), counts negative, not whole or b + c > n; margin or alpha outside (0, 1).
    """
    b, c, n = checked_counts(b, c, n)
    p_pass, p_fail = p_loss_at_least(b=b, c=c, n=n, margin=margin), p_loss_at_most(b=b, c=c, n=n, margin=margin)
    return Decision(
        outcome=_outcome(p_pass, p_fail, checked_share(alpha, "alpha")),
        estimate=(b - c) / n,
        lower=loss_lower(b=b, c=c, n=n, alpha=alpha, margin=margin),
        upper=loss_upper(b=b, c=c, n=n, alpha=alpha, margin=margin),
        p_pass=p_pass,
        p_fail=p_fail,
        level=alpha,
    )


def decide_graded(*, b: float, c: float, n: int, margin: Number, alpha: float) -> Decision:
    """Asymptotic decision on graded losses: b = sum of losses, c = sum of gains, fractions allowed, independent items.

    Tango's score test with normal quantiles; meant for few items that lose, where a t interval is not to be trusted.

    Raises:
        ValueError: n < 1 (not measured), sums negative, not finite or b + c > n; margin or alpha outside (0, 1).
    """
    b, c, n = *checked_amounts(b, c, n)[:2], checked_count(n, "n", at_least=1)
    limit, alpha = checked_margin(margin), checked_share(alpha, "alpha")
    gap = Fraction(b) - Fraction(c) - limit * n
    statistic = float(tango_statistic(b, c, n, float(limit)))
    p_pass = float(special.ndtr(statistic)) if gap < 0 else 1.0
    p_fail = float(special.ndtr(-statistic)) if gap > 0 else 1.0
    bounds = tango_bounds(b=b, c=c, n=n, critical=max(0.0, -float(special.ndtri(alpha))))
    return Decision(
        outcome=_outcome(p_pass, p_fail, alpha),
        estimate=(b - c) / n,
        lower=bounds.lower,
        upper=bounds.upper,
        p_pass=p_pass,
        p_fail=p_fail,
        level=alpha,
    )


def decide_clustered(
    *, losses: ArrayLike, clusters: Sequence[Hashable] | NDArray[Any], margin: Number, alpha: float
) -> Decision:
    """Decision on clustered losses, shape (n,) each (see `clusters`); inconclusive under ten effective clusters.

    Raises:
        ValueError: no items (not measured), lengths that differ, a loss outside [-1, 1], margin or alpha not in (0, 1).
    """
    found = clustered_loss(losses, clusters)
    bounds = found.bounds(alpha)
    p_pass, p_fail = found.p_at_least(margin), found.p_at_most(margin)
    few = f"{found.effective_clusters:.1f} effective clusters, at least {ENOUGH} are needed"
    return Decision(
        outcome=_outcome(p_pass, p_fail, checked_share(alpha, "alpha")),
        estimate=found.estimate,
        lower=bounds.lower,
        upper=bounds.upper,
        p_pass=p_pass,
        p_fail=p_fail,
        level=alpha,
        reason=None if found.enough else few,
    )


def assay_sensitive(*, right: int, n: int, chance: Number, margin: Number) -> AssaySensitivity:
    """Whether margin <= (lower 95 % one-sided bound of right / n - chance) / 2.

    Below that a candidate could lose everything it has over chance and hardly show it: 26 right of 1,319 carry no
    margin of 3 points.

    Raises:
        ValueError: n < 1 (not measured), right outside 0..n, chance outside [0, 1), margin outside (0, 1).
    """
    limit, floor = checked_margin(margin), exact(chance)
    if not 0 <= floor < 1:
        raise ValueError(f"chance must lie in [0, 1), found {chance}")
    lower = clopper_pearson(k=right, n=n, alpha=0.10).lower
    largest = (lower - float(floor)) / 2
    return AssaySensitivity(
        sensitive=limit <= largest, accuracy=right / n, lower=lower, chance=float(floor), largest_margin=largest
    )


def assay_sensitive_scores(
    *, scores: Sequence[float], n: int, chance: Number, margin: Number
) -> AssaySensitivity:
    """The same question for graded scores in [0, 1] where 1 is best, over n items; those not among ``scores`` count as 0.

    The lower bound is Clopper and Pearson's with the sum of the scores for the number of right answers, which for whole
    sums it is: right or wrong is the most that scores of one mean can vary.

    Raises:
        ValueError: n < 1 (not measured), a score outside [0, 1] or more than n of them, chance or margin out of range.
    """
    limit, floor, count = checked_margin(margin), exact(chance), checked_count(n, "n", at_least=1)
    if not 0 <= floor < 1:
        raise ValueError(f"chance must lie in [0, 1), found {chance}")
    if len(scores) > count or not all(0 <= one <= 1 for one in scores):
        raise ValueError(f"expected at most {count} scores between 0 and 1")
    total = min(fsum(scores), float(count))
    lower = float(special.betaincinv(total, count - total + 1, 0.05)) if total > 0 else 0.0
    largest = (lower - float(floor)) / 2
    return AssaySensitivity(
        sensitive=limit <= largest, accuracy=total / count, lower=lower, chance=float(floor), largest_margin=largest
    )


def _outcome(p_pass: float, p_fail: float, alpha: float) -> Outcome:
    if p_pass <= alpha:
        return "pass"
    return "fail" if p_fail <= alpha else "inconclusive"
