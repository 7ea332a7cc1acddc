"""Graded scores (F1, ROUGE, a mean over repeats, log-likelihood): the decision on paired differences.

Few units that lose say little about how large the losses are that were not seen. Under twenty of them the sums of losses
and of gains go into Tango's formula, which takes the largest variance that such sums allow. From twenty on the mean is
studentised, with Hall's correction of the skewness: a plain t interval is too short just where rare large losses are.

Many small losses hide a rare large one as well as none do. So with scores in [0, 1] no p-value is smaller than the
chance that no such loss was seen: n items cannot rule out a loss of 1 that befalls fewer than 1 - alpha^(1/n) of all.

Sources: Tango (1998); Hall (1992), see `studentised`; Efron, JASA 82 (1987), BCa.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor, fsum, inf, isfinite, sqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special  # type: ignore[import-untyped, unused-ignore]

from quantgate.stats.clusters import ENOUGH, clustered_loss, membership
from quantgate.stats.inputs import Number, checked_count, checked_margin, checked_share, exact
from quantgate.stats.noninferiority import Decision, decide_clustered, decide_graded, decide_paired
from quantgate.stats.paired import loss_lower, p_loss_at_most
from quantgate.stats.proportions import Interval
from quantgate.stats.studentised import Studentised, pseudo_values

Floats = NDArray[np.float64]
Method = Literal["exact", "tango", "hall", "none"]

FEW = 20
"""Units that lose (unbounded scores: that changed), below which no t statistic is trusted."""
_CHUNK = 4_000_000
"""Numbers drawn at a time for the bootstrap."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GradedDecision:
    """A decision on graded scores, and how it was reached."""

    decision: Decision
    """In the unit of the scores; its bounds agree with its outcome."""
    method: Method
    """`exact` where every difference is whole; `none` where nothing can be shown, and `decision.reason` says why."""
    units: int
    """Items, or clusters where the items share sources."""
    losing: int
    """Units whose scores fell on the whole."""
    skewness: float
    """Of the units' losses; 0 where they do not vary."""
    second_opinion: Interval | None
    """BCa bootstrap bounds at the same level; decide nothing. None without a generator or where nothing varies."""


def decide_scores(
    *,
    losses: ArrayLike,
    margin: Number,
    alpha: float,
    clusters: Sequence[Hashable] | NDArray[Any] | None = None,
    bounded: bool = True,
    rng: np.random.Generator | None = None,
) -> GradedDecision:
    """Decision on graded losses, shape (n,): reference score minus variant score, one per item.

    Args:
        losses: each in [-1, 1] where `bounded`, else any finite number.
        margin: the largest mean loss allowed, in (0, 1) where `bounded`, else above 0.
        alpha: one-sided level.
        clusters: shape (n,), the source of each item, which is then the unit; without it each item is. Several answers
            to one prompt are no items of their own: pass their mean (`mean_over_repeats`).
        bounded: whether scores lie in [0, 1].
        rng: draws the bootstrap of the second opinion.

    Inconclusive, with a reason: under ten effective clusters; scores without bounds of which under twenty units changed,
    or which all changed by the same.

    Raises:
        ValueError: no items (not measured), a loss outside its range or not finite, lengths that differ, a margin or
            alpha out of range.
    """
    x, limit, level = _checked_losses(losses, bounded), _checked_limit(margin, bounded), checked_share(alpha, "alpha")
    scores = _Scores.of(x, clusters, bounded)
    return GradedDecision(
        decision=_decide(scores, limit, level),
        method=scores.method,
        units=scores.values.size,
        losing=scores.losing,
        skewness=scores.studentised.skewness,
        second_opinion=None if rng is None else bca_bounds(scores.values, alpha=level, rng=rng),
    )


def scores_needed(
    *,
    losses: ArrayLike,
    margin: Number,
    alpha: float,
    power: float,
    clusters: Sequence[Hashable] | NDArray[Any] | None = None,
    true_loss: Number = 0,
) -> int | None:
    """Items for this power at a true loss, if they vary as those seen do; a first guess from the normal distribution.

    None where the true loss is within a fifth of the margin of it, or where nothing varied.

    Raises:
        ValueError: as `decide_scores`.
    """
    x, room = _checked_losses(losses, bounded=False), float(exact(margin) - exact(true_loss))
    level, wanted = checked_share(alpha, "alpha"), checked_share(power, "power")
    scores = _Scores.of(x, clusters, bounded=False)
    if room <= 0.2 * float(exact(margin)) or scores.studentised.deviation == 0:
        return None
    units = (float(special.ndtri(1 - level) + special.ndtri(wanted)) * scores.studentised.deviation / room) ** 2
    return ceil(units * x.size / scores.values.size)


def mean_over_repeats(losses: ArrayLike, items: Sequence[Hashable] | NDArray[Any]) -> Floats:
    """One loss per item, the mean over its repeats, in order of first appearance; shapes (rows,) to (items,).

    Raises:
        ValueError: no rows, not one item per row, or an item that is None or NaN.
    """
    x = np.asarray(losses, dtype=float)
    member = membership(items, x.size)
    means: Floats = np.bincount(member, weights=x) / np.bincount(member)
    return means


def bca_bounds(values: ArrayLike, *, alpha: float, rng: np.random.Generator, resamples: int = 4_000) -> Interval | None:
    """Bias-corrected and accelerated bootstrap bounds of a mean, each one-sided at (1 - alpha); None if all are equal.

    Not for decisions: with few large losses in the sample it is too short, as any resampling is.

    Raises:
        ValueError: no values or not finite; alpha outside (0, 1); under 100 resamples.
    """
    x, level = _checked_losses(values, bounded=False), checked_share(alpha, "alpha")
    draws = checked_count(resamples, "resamples", at_least=100)
    found = Studentised.of(x, mean=float(x.mean()), degrees_of_freedom=x.size - 1)
    if found.deviation == 0:
        return None
    means = _resampled_means(x, rng, draws)
    below = (np.count_nonzero(means < found.mean) + np.count_nonzero(means <= found.mean)) / 2
    bias = float(special.ndtri(min(max(below, 0.5), draws - 0.5) / draws))
    acceleration = found.skewness / (6 * sqrt(x.size))
    ends = [_bca_quantile(float(special.ndtri(share)), bias, acceleration) for share in (level, 1 - level)]
    lower, upper = np.quantile(means, ends)
    return Interval(lower=float(lower), upper=float(upper))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Scores:
    """Losses, and what they amount to in independent units."""

    losses: Floats
    clusters: Any
    bounded: bool
    values: Floats
    """One per unit, see `pseudo_values`."""
    studentised: Studentised
    total: Fraction
    effective: float
    """Units, counted by size: n^2 / sum of squared sizes."""
    losing: int
    changed: int

    @classmethod
    def of(cls, x: Floats, clusters: Any, bounded: bool) -> "_Scores":
        """Reduce the losses to one value a unit."""
        member = np.arange(x.size) if clusters is None else membership(clusters, x.size)
        sizes, sums = np.bincount(member), np.bincount(member, weights=x)
        total, effective = Fraction(fsum(x)), x.size**2 / int(sizes @ sizes)
        mean = float(total) / x.size
        values = pseudo_values(sums, sizes, mean)
        return cls(
            losses=x,
            clusters=clusters,
            bounded=bounded,
            values=values,
            studentised=Studentised.of(values, mean=mean, degrees_of_freedom=effective - 1),
            total=total,
            effective=effective,
            losing=int(np.count_nonzero(sums > 0)),
            changed=int(np.count_nonzero(np.bincount(member, weights=(x != 0).astype(float)))),
        )

    @property
    def independent(self) -> float:
        """How many independent items these are worth: their number, divided by the design effect of the cluster rule."""
        shared = self.clusters is not None
        return self.losses.size / (clustered_loss(self.losses, self.clusters).design_effect if shared else 1.0)

    @property
    def why_nothing(self) -> str | None:
        if self.clusters is not None and self.effective < ENOUGH:
            return f"{self.effective:.1f} effective clusters, at least {ENOUGH} are needed"
        if not self.bounded and self.changed < FEW:
            return f"{self.changed} unit{'' if self.changed == 1 else 's'} changed, at least {FEW} are needed where scores have no bounds"
        if not self.bounded and self.studentised.deviation == 0:
            return "every unit changed by the same, which says nothing about others"
        return None

    @property
    def method(self) -> Method:
        if self.why_nothing is not None:
            return "none"
        if self.bounded and self.clusters is None and not np.any(self.losses % 1):
            return "exact"
        return "tango" if self.bounded and self.losing < FEW else "hall"


def _decide(scores: _Scores, limit: Fraction, alpha: float) -> Decision:
    if scores.method == "none":
        return _nothing(scores, alpha)
    if scores.method == "exact":
        return _exactly(scores.losses, limit, alpha)
    found = (_by_tango if scores.method == "tango" else _by_hall)(scores, limit, alpha)
    return _settled(_with_what_is_unseen(found, scores, float(limit)) if scores.bounded else found, float(limit))


def _exactly(x: Floats, margin: Fraction, alpha: float) -> Decision:
    b, c = int(np.count_nonzero(x > 0)), int(np.count_nonzero(x < 0))
    return decide_paired(b=b, c=c, n=x.size, margin=margin, alpha=alpha)


def _by_tango(scores: _Scores, limit: Fraction, alpha: float) -> Decision:
    """Tango's formula on the sums, divided by the design effect where items share sources.

    The sum of a few losses that are nearly whole jumps like a count, so a fail also has to be shown by the exact rule,
    on the sums rounded towards no loss.
    """
    x, n = scores.losses, scores.losses.size
    if scores.clusters is not None:
        return decide_clustered(losses=x, clusters=scores.clusters, margin=limit, alpha=alpha)
    b, c = fsum(x[x > 0]), fsum(-x[x < 0])
    found = decide_graded(b=b, c=c, n=n, margin=limit, alpha=alpha)
    if found.outcome != "fail":
        return found
    p_fail = p_loss_at_most(b=floor(b), c=ceil(c), n=n, margin=limit)
    lower = loss_lower(b=floor(b), c=ceil(c), n=n, alpha=alpha, margin=limit)
    return replace(found, p_fail=max(found.p_fail, p_fail), lower=min(found.lower, lower))


def _by_hall(scores: _Scores, limit: Fraction, alpha: float) -> Decision:
    gap, found = scores.total - limit * scores.losses.size, scores.studentised
    bounds = found.bounds(alpha)
    return Decision(
        outcome="inconclusive",
        estimate=found.mean,
        lower=bounds.lower,
        upper=bounds.upper,
        p_pass=found.p_at_least(float(limit)) if gap < 0 else 1.0,
        p_fail=found.p_at_most(float(limit)) if gap > 0 else 1.0,
        level=alpha,
    )


def _with_what_is_unseen(found: Decision, scores: _Scores, limit: float) -> Decision:
    """Raise p-values to the chance that n items show no whole loss (or gain), where those make up what is missing.

    If all but a share r of the items lose what was seen on average, and the rest lose 1, the mean is at the limit for
    1 - r = (1 - limit) / (1 - mean), and no loss of 1 is among n items with probability (1 - r)^n.
    """
    mean, n, alpha = scores.studentised.mean, scores.independent, found.level
    p_pass = ((1 - limit) / (1 - mean)) ** n if mean < limit else 1.0
    p_fail = ((1 + limit) / (1 + mean)) ** n if mean > limit else 1.0
    return replace(
        found,
        p_pass=max(found.p_pass, p_pass),
        p_fail=max(found.p_fail, p_fail),
        lower=max(-1.0, min(found.lower, (1 + mean) * alpha ** (1 / n) - 1)),
        upper=min(1.0, max(found.upper, 1 - (1 - mean) * alpha ** (1 / n))),
    )


def _settled(found: Decision, limit: float) -> Decision:
    """Name the outcome, and undo rounding: a bound is on the side of the limit that the p-value says."""
    passed, failed = found.p_pass <= found.level, found.p_fail <= found.level
    return replace(
        found,
        outcome="pass" if passed else "fail" if failed else "inconclusive",
        lower=max(found.lower, limit) if failed else min(found.lower, float(np.nextafter(limit, -inf))),
        upper=min(found.upper, limit) if passed else max(found.upper, float(np.nextafter(limit, inf))),
    )


def _nothing(scores: _Scores, alpha: float) -> Decision:
    widest = 1.0 if scores.bounded else inf
    return Decision(
        outcome="inconclusive",
        estimate=scores.studentised.mean,
        lower=-widest,
        upper=widest,
        p_pass=1.0,
        p_fail=1.0,
        level=alpha,
        reason=scores.why_nothing,
    )


def _resampled_means(x: Floats, rng: np.random.Generator, resamples: int) -> Floats:
    """Means of samples with replacement, drawn in chunks."""
    rows = max(1, min(resamples, _CHUNK // x.size))
    chunks = [min(rows, resamples - first) for first in range(0, resamples, rows)]
    means: Floats = np.concatenate([x[rng.integers(x.size, size=(rows, x.size))].mean(axis=1) for rows in chunks])
    return means


def _bca_quantile(z: float, bias: float, acceleration: float) -> float:
    moved = bias + (bias + z) / max(1 - acceleration * (bias + z), 1e-6)
    return float(special.ndtr(moved))


def _checked_losses(losses: ArrayLike, bounded: bool) -> Floats:
    x = np.asarray(losses, dtype=float)
    if x.ndim != 1 or x.size == 0:
        raise ValueError(f"expected one row of at least one loss, found shape {x.shape}")
    if not np.all(np.isfinite(x)):
        raise ValueError("every loss must be finite")
    if bounded and float(np.abs(x).max()) > 1:
        raise ValueError(f"losses of scores in [0, 1] lie between -1 and 1, found {float(x[np.abs(x).argmax()])}")
    return x


def _checked_limit(margin: Number, bounded: bool) -> Fraction:
    if bounded:
        return checked_margin(margin)
    found = exact(margin)
    if found <= 0 or not isfinite(float(found)):
        raise ValueError(f"margin must lie above 0, found {margin}")
    return found
