"""Single proportions, and the exact McNemar test of "no difference at all".

McNemar's test is informative only: it tests a loss of zero, never a margin, so it decides nothing here.
"""

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special  # type: ignore[import-untyped, unused-ignore]

from quantgate.stats.inputs import checked_count, checked_share


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """A closed interval, in the unit of what was estimated."""

    lower: float
    upper: float


@dataclass(frozen=True, kw_only=True, slots=True)
class McNemar:
    """P-values of "regressions and recoveries are equally likely"."""

    one_sided: float
    """Against "regressions are likelier"."""
    two_sided: float


def clopper_pearson_arrays(k: ArrayLike, n: ArrayLike, alpha: float) -> tuple[Any, Any]:
    """Both ends of the exact (1 - alpha) interval, alpha / 2 outside each; k and n broadcast.

    Source: Clopper and Pearson, Biometrika 26 (1934), as quantiles of the beta distribution.
    """
    k, n = np.asarray(k, dtype=float), np.asarray(n, dtype=float)
    lower = np.where(k > 0, special.betaincinv(np.maximum(k, 1), n - k + 1, alpha / 2), 0.0)
    upper = np.where(k < n, special.betainccinv(k + 1, np.maximum(n - k, 1), alpha / 2), 1.0)
    return lower, upper


def clopper_pearson(*, k: int, n: int, alpha: float) -> Interval:
    """Exact (1 - alpha) interval of a proportion, k of n; for a one-sided bound at level a pass alpha = 2 a.

    k = 0 has lower end 0, k = n upper end 1; never of zero width.

    Raises:
        ValueError: n < 1, k outside 0..n, or alpha outside (0, 1).
    """
    if checked_count(k, "k") > checked_count(n, "n", at_least=1):
        raise ValueError(f"k must not exceed n, found k = {k}, n = {n}")
    lower, upper = clopper_pearson_arrays(k, n, checked_share(alpha, "alpha"))
    return Interval(lower=float(lower), upper=float(upper))


def wilson(*, k: int, n: int, alpha: float) -> Interval:
    """Score interval (1 - alpha) of a proportion, k of n; never of zero width, for display beside a share.

    Source: Wilson, Journal of the American Statistical Association 22 (1927).

    Raises:
        ValueError: n < 1, k outside 0..n, or alpha outside (0, 1).
    """
    if checked_count(k, "k") > checked_count(n, "n", at_least=1):
        raise ValueError(f"k must not exceed n, found k = {k}, n = {n}")
    z = -float(special.ndtri(checked_share(alpha, "alpha") / 2))
    share, weight = k / n, z * z / n
    centre, half = share + weight / 2, z * sqrt(share * (1 - share) / n + weight / (4 * n))
    lower = 0.0 if k == 0 else (centre - half) / (1 + weight)
    upper = 1.0 if k == n else (centre + half) / (1 + weight)
    return Interval(lower=lower, upper=upper)


def standard_error(*, k: int, n: int) -> float | None:
    """Standard error of a proportion, k of n, from the sample variance; None where one item or none has no variance.

    Raises:
        ValueError: k outside 0..n.
    """
    if checked_count(k, "k") > checked_count(n, "n"):
        raise ValueError(f"k must not exceed n, found k = {k}, n = {n}")
    return None if n < 2 else sqrt(k / n * (1 - k / n) / (n - 1))


def mcnemar_exact(*, b: int, c: int) -> McNemar:
    """Exact sign test on b regressions against c recoveries; 1.0 when nothing flipped.

    Source: under "no difference" b is Binomial(b + c, 1/2); two-sided doubles the smaller tail, at most 1.

    Raises:
        ValueError: b or c is negative or not whole.
    """
    t = checked_count(b, "b") + checked_count(c, "c")
    at_least_b = float(special.bdtrc(b - 1, t, 0.5)) if b > 0 else 1.0
    at_most_b = float(special.bdtr(b, t, 0.5))
    return McNemar(one_sided=at_least_b, two_sided=min(1.0, 2 * min(at_least_b, at_most_b)))
