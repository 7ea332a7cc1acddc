"""Reading counts, levels and margins; whatever cannot be read exactly is refused.

Everything here fails closed: a value that makes no sense raises `ValueError` with what was found and what is allowed,
so that no decision is ever taken on it.
"""

import math
import operator
from decimal import Decimal
from fractions import Fraction

Number = Fraction | Decimal | float
"""A figure a person wrote: 0.02 means 2/100, not the nearest binary fraction."""


def exact(value: Number) -> Fraction:
    """Read a figure as the decimal a person sees: `exact(0.02) == Fraction(1, 50)`.

    Raises:
        ValueError: not a number, infinite, or NaN.
    """
    if isinstance(value, Fraction):
        return value
    try:
        return Fraction(str(value))
    except ValueError:
        raise ValueError(f"expected a finite number, found {value!r}") from None


def checked_margin(margin: Number) -> Fraction:
    """Return the margin as an exact fraction; raises `ValueError` outside the open interval (0, 1)."""
    found = exact(margin)
    if not 0 < found < 1:
        raise ValueError(f"margin must lie strictly between 0 and 1 (0.02 is 2 points), found {margin}")
    return found


def checked_share(value: float, name: str) -> float:
    """Return a level, rate or probability as a float; raises `ValueError` outside the open interval (0, 1)."""
    found = _as_float(value, name)
    if not 0.0 < found < 1.0:
        raise ValueError(f"{name} must lie strictly between 0 and 1, found {value!r}")
    return found


def checked_count(value: int, name: str, at_least: int = 0) -> int:
    """Return a whole number of at least `at_least`; raises `ValueError` otherwise (a bool is no count)."""
    try:
        found = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be a whole number, found {value!r}") from None
    if isinstance(value, bool) or found < at_least:
        raise ValueError(f"{name} must be a whole number of at least {at_least}, found {value!r}")
    return found


def checked_counts(b: int, c: int, n: int) -> tuple[int, int, int]:
    """Return whole counts of regressions, recoveries and items; raises `ValueError` if n < 1 or b + c > n."""
    counts = checked_count(b, "b"), checked_count(c, "c"), checked_count(n, "n", at_least=1)
    if counts[0] + counts[1] > counts[2]:
        raise ValueError(f"b + c must not exceed n, found b = {b}, c = {c}, n = {n}")
    return counts


def checked_amounts(b: float, c: float, n: float) -> tuple[float, float, float]:
    """Return sums of losses and of gains over n items, fractions allowed.

    A relative 1e-9 of slack on b + c <= n absorbs the rounding of long sums.

    Raises:
        ValueError: not finite, negative, n not above 0, or b + c above n.
    """
    found = _as_float(b, "b"), _as_float(c, "c"), _as_float(n, "n")
    if not all(map(math.isfinite, found)) or min(found) < 0 or found[2] <= 0:
        raise ValueError(f"b, c must be finite and not negative and n above 0, found b = {b}, c = {c}, n = {n}")
    if found[0] + found[1] > found[2] * (1 + 1e-9):
        raise ValueError(f"b + c must not exceed n, found b = {b}, c = {c}, n = {n}")
    return found


def _as_float(value: float, name: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number, found {value!r}") from None
