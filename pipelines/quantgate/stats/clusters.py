"""Paired losses that come in clusters: items that share a source count for less than their number.

The counts are divided by a design effect (how much more the mean varies than with independent items), and Tango's bound
is taken on what is left, with a t quantile. Fewer than ten effective clusters show nothing. A plain t interval over
cluster means is anti-conservative here and can have width zero.

Sources: Kish, Survey Sampling (1965), design effect; delete-one-cluster jackknife; Rao and Scott, Biometrics 48 (1992),
counts divided by the design effect.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special  # type: ignore[import-untyped, unused-ignore]

from quantgate.stats.inputs import Number, checked_margin, checked_share
from quantgate.stats.proportions import Interval
from quantgate.stats.tango import tango_bounds, tango_statistic

ENOUGH = 10
"""Clusters with a flip from which their variance is estimated; effective clusters below which nothing is shown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusteredLoss:
    """What clustered paired losses amount to."""

    n: int
    b: float
    """Sum of the losses (number of regressions)."""
    c: float
    """Sum of the gains (number of recoveries)."""
    clusters: int
    clusters_with_flip: int
    effective_clusters: float
    """G_eff = n^2 / sum of squared sizes."""
    design_effect: float
    """At least 1."""
    degrees_of_freedom: float
    """Of the t quantile; below 9 only where `enough` is false."""
    enough: bool
    """At least ten effective clusters; otherwise every question is inconclusive."""

    @property
    def estimate(self) -> float:
        """Mean loss per item, in [-1, 1]."""
        return (self.b - self.c) / self.n

    def bounds(self, alpha: float) -> Interval:
        """Both one-sided (1 - alpha) bounds of the loss; [-1, 1] where the clusters are not enough."""
        level = checked_share(alpha, "alpha")
        if not self.enough:
            return Interval(lower=-1.0, upper=1.0)
        critical = max(0.0, -float(special.stdtrit(self.degrees_of_freedom, level)))
        return tango_bounds(b=self._shrunk(self.b), c=self._shrunk(self.c), n=self._shrunk(self.n), critical=critical)

    def p_at_least(self, margin: Number) -> float:
        """P-value of "the loss is at least the margin"; 1.0 if not enough, or the estimate is at or above it."""
        limit = checked_margin(margin)
        return self._tail(limit, sign=1) if self._gap(limit) < 0 else 1.0

    def p_at_most(self, margin: Number) -> float:
        """P-value of "the loss is at most the margin"; 1.0 if not enough, or the estimate is at or below it."""
        limit = checked_margin(margin)
        return self._tail(limit, sign=-1) if self._gap(limit) > 0 else 1.0

    def _gap(self, margin: Fraction) -> Fraction:
        return Fraction(self.b) - Fraction(self.c) - margin * self.n

    def _tail(self, margin: Fraction, sign: int) -> float:
        if not self.enough:
            return 1.0
        statistic = tango_statistic(self._shrunk(self.b), self._shrunk(self.c), self._shrunk(self.n), float(margin))
        return float(special.stdtr(self.degrees_of_freedom, sign * float(statistic)))

    def _shrunk(self, amount: float) -> float:
        return amount / self.design_effect


def clustered_loss(losses: ArrayLike, clusters: Sequence[Hashable] | NDArray[Any]) -> ClusteredLoss:
    """Reduce paired losses to counts, a design effect and degrees of freedom.

    Args:
        losses: shape (n,), +1 lost, 0 no change, -1 gained; anything between for graded scores.
        clusters: shape (n,), the source of each item; equal means the same.

    With ten or more clusters that contain a flip the design effect is the jackknife variance of the mean over clusters
    divided by its variance over items; with fewer it is the largest that sizes alone allow, sum of squares / n.

    A known limit: where nearly every flip is a loss, and few large clusters are lost together, a sample that holds none
    of these looks independent; up to a fifth then pass at the margin (tests/statistical/test_cluster_error.py).

    Raises:
        ValueError: no items, lengths that differ, a loss outside [-1, 1] or not finite.
    """
    x = np.asarray(losses, dtype=float)
    sizes, sums, flips = _per_cluster(x, clusters)
    n, square = x.size, int(sizes @ sizes)
    effective, with_flip = n * n / square, int(np.count_nonzero(flips))
    estimated = with_flip >= ENOUGH
    return ClusteredLoss(
        n=n,
        b=float(x[x > 0].sum()),
        c=float(-x[x < 0].sum()),
        clusters=sizes.size,
        clusters_with_flip=with_flip,
        effective_clusters=effective,
        design_effect=_design_effect(x, sizes, sums) if estimated else square / n,
        degrees_of_freedom=(min(effective, float(with_flip)) if estimated else effective) - 1,
        enough=n * n >= ENOUGH * square,
    )


def membership(clusters: Sequence[Hashable] | NDArray[Any], n: int) -> NDArray[np.int64]:
    """Number the cluster of each of n items, from 0 in order of appearance; equal means the same.

    Raises:
        ValueError: not one cluster per item, no item, or a cluster that is None or NaN.
    """
    if n == 0 or n != len(clusters):
        raise ValueError(f"expected one cluster per item and at least one item, found {n} and {len(clusters)}")
    if any(cluster is None or cluster != cluster for cluster in clusters):
        raise ValueError("every item needs a cluster, found None or NaN")
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(cluster, len(numbers)) for cluster in clusters], dtype=np.int64)


def _per_cluster(x: NDArray[np.float64], clusters: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Sizes, sums and numbers of flips, one entry per cluster."""
    if x.ndim != 1:
        raise ValueError(f"losses are one row of numbers, found shape {x.shape}")
    member = membership(clusters, x.size)
    if not np.all(np.abs(x) <= 1):
        raise ValueError("every loss must lie between -1 and 1 and be finite")
    return np.bincount(member), np.bincount(member, weights=x), np.bincount(member, weights=(x != 0).astype(float))


def _design_effect(x: NDArray[np.float64], sizes: NDArray[Any], sums: NDArray[Any]) -> float:
    """Jackknife variance of the mean over clusters / variance of the mean over items, at least 1."""
    left_out = (x.sum() - sums) / (x.size - sizes)
    over_clusters = (sizes.size - 1) / sizes.size * np.sum((left_out - left_out.mean()) ** 2)
    over_items = x.var(ddof=1) / x.size
    return max(1.0, float(over_clusters / over_items)) if over_items > 0 else 1.0
