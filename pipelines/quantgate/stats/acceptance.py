"""The whole region of outcomes that pass: for each number of flips, the most regressions that still pass.

The same exact rule as `paired`, for all outcomes of one n at once. One walk over the lattice points near the boundary,
in the order of Tango's statistic, gives P(T <= s) for every s and flip rate; each flip count then looks up the smallest
s that its own interval of flip rates allows. `paired` decides one outcome and refines its maximum; the two agree except
where a p-value lies within about 5e-5 of the level. So this serves planning, and `paired` decides.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy import special  # type: ignore[import-untyped, unused-ignore]

from quantgate.stats.lattice import (
    TIE,
    Floats,
    Ints,
    flip_grid,
    flip_window,
    largest_regressions,
    region_probability,
)
from quantgate.stats.paired import GAMMA
from quantgate.stats.proportions import clopper_pearson_arrays
from quantgate.stats.tango import tango_statistic

_GRID, _ENDS = 65, 48
_BELOW_ZERO = -1e-8
"""An estimate at or above the margin (T >= 0) never passes."""


def most_regressions_that_pass(n: int, margin: float, alpha: float, flips: Ints) -> Ints:
    """For each flip count (ascending) the largest b that passes; -1 where not even b = 0 does.

    All -1 when alpha <= GAMMA. Inputs are taken as checked.
    """
    if alpha <= GAMMA:
        return np.full(flips.shape, -1, dtype=np.int64)
    low, high = clopper_pearson_arrays(flips, n, GAMMA)
    low = np.maximum(low, margin)
    rates = _rates(low, high, margin)
    critical = _critical_statistics(n, margin, alpha - GAMMA, rates)
    first = np.searchsorted(rates, low, side="right") - 1
    last = np.where(low > high, first, np.searchsorted(rates, high) + 1)
    allowed = [critical[i:j].min(initial=_BELOW_ZERO) for i, j in zip(first, last, strict=True)]
    return largest_regressions(n, margin, flips, np.array(allowed))


def _rates(low: Floats, high: Floats, margin: float) -> Floats:
    """Choose the flip rates to search: a grid over all intervals and the ends of each, thinned for long windows."""
    top = max(float(high[-1]), margin)
    step = -(-low.size // _ENDS)
    rates = np.concatenate([flip_grid(float(low[0]), top, _GRID), low[::step], high[::step]])
    kept: Floats = np.unique(rates[(rates >= margin) & (rates <= top)])
    return kept


def _critical_statistics(n: int, margin: float, level: float, rates: Floats) -> Floats:
    """For each flip rate the largest s < 0 with P(T <= s) <= level at the margin; the band widens until it holds s."""
    flips = flip_window(n, float(rates[0]), float(rates[-1]))
    middle, half_width = min(float(special.ndtri(level)), 0.0), min(0.15, 0.03 + 0.5 / sqrt(n * rates[0]))
    critical = np.full(rates.shape, np.nan)
    while np.isnan(critical).any():
        points = _Band.between(n, margin, flips, middle - half_width, min(middle + half_width, _BELOW_ZERO))
        critical = points.critical(level, rates)
        half_width *= 2
    return critical


@dataclass(frozen=True, kw_only=True, slots=True)
class _Band:
    """The lattice points with floor < T <= ceiling, ascending in T, and the region below them."""

    n: int
    margin: float
    flips: Ints
    below: Ints
    """Per flip count the largest b with T <= floor."""
    floor: float
    ceiling: float
    b: Ints
    t: Ints
    statistic: Floats

    @classmethod
    def between(cls, n: int, margin: float, flips: Ints, floor: float, ceiling: float) -> "_Band":
        below = largest_regressions(n, margin, flips, floor)
        counts = largest_regressions(n, margin, flips, ceiling) - below
        t = np.repeat(flips, counts)
        b = np.repeat(below + 1, counts) + np.arange(t.size) - np.repeat(np.cumsum(counts) - counts, counts)
        statistic = tango_statistic(b, t - b, n, margin)
        order = np.argsort(statistic, kind="stable")
        return cls(
            n=n, margin=margin, flips=flips, below=below, floor=floor, ceiling=ceiling,
            b=b[order], t=t[order], statistic=statistic[order],
        )  # fmt: skip

    def critical(self, level: float, rates: Floats) -> Floats:
        """Per flip rate the largest s in the band with P(T <= s) <= level; NaN where it lies outside the band."""
        base = region_probability(self.n, self.margin, rates, self.flips, self.below)
        ends = np.flatnonzero(np.diff(self.statistic, append=np.inf) > TIE)
        reached = base + np.cumsum(self._probability(rates), axis=0)[ends]
        allowed = (reached <= level).sum(axis=0)
        steps = np.concatenate([[self.floor], self.statistic[ends]])
        outside = (base > level) | ((allowed == ends.size) & (self.ceiling < _BELOW_ZERO))
        critical: Floats = np.where(outside, np.nan, steps[allowed])
        return critical

    def _probability(self, rates: Floats) -> Floats:
        """P(b, c) at each flip rate and loss = margin, shape (points, rates)."""
        b, c, kept = self.b, self.t - self.b, self.n - self.t
        ways = special.gammaln(self.n + 1) - sum(special.gammaln(k + 1) for k in (b, c, kept))
        chances = np.stack([(rates + self.margin) / 2, (rates - self.margin) / 2, 1 - rates])
        logs = np.stack([b, c, kept], axis=1) @ np.log(np.maximum(chances, 1e-300))
        probability: Floats = np.exp(ways[:, None] + logs)
        return probability
