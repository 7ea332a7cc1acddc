"""Where a falling function crosses zero, in few evaluations and without assuming that it is smooth."""

from collections.abc import Callable
from math import ceil, log2

Function = Callable[[float], float]


def falling_root(f: Function, low: float, high: float, start: float, tolerance: float) -> float:
    """Return the upper end of a bracket no wider than `tolerance` around the sign change; there f <= 0.

    f should be positive at `low` and not positive at `high`; the ends are evaluated only if the search gets so far, and
    without a sign change between them the answer is the upper end. The search steps out from `start`, then closes in;
    where f jumps or wobbles it finds one of its sign changes.
    """
    low, high = _step_out(f, low, high, min(max(start, low), high))
    return _close_in(f, low, high, tolerance)


def _step_out(f: Function, low: float, high: float, start: float) -> tuple[float, float]:
    """Find a bracket near `start`, grown threefold a step from 4 % of the distance to `low`."""
    step = max(0.04 * (start - low), 1e-3 * (high - low))
    if f(start) > 0:
        while start + step < high and f(start + step) > 0:
            start, step = start + step, 3 * step
        return start, min(start + step, high)
    while start - step > low and f(start - step) <= 0:
        start, step = start - step, 3 * step
    return max(start - step, low), start


def _close_in(f: Function, low: float, high: float, tolerance: float) -> float:
    """ITP: false position, kept so close to the middle that it never needs more than one step over bisection.

    Source: Oliveira and Takahashi, ACM Transactions on Mathematical Software 47 (2020), with k1 = 0.2 / width, k2 = 2.
    """
    width = high - low
    f_low, f_high = f(low), f(high)
    if not f_low > 0 >= f_high:
        return high
    spare = tolerance / 2 * 2.0 ** (max(0, ceil(log2(max(width / tolerance, 1.0)))) + 1)
    while high - low > tolerance:
        middle, reach = (low + high) / 2, spare - (high - low) / 2
        secant = (f_high * low - f_low * high) / (f_high - f_low)
        side = 1.0 if middle >= secant else -1.0
        nudge = min(0.2 / width * (high - low) ** 2, abs(middle - secant))
        x = secant + side * nudge
        x = x if abs(x - middle) <= reach else middle - side * reach
        f_x = f(x)
        low, f_low, high, f_high = (x, f_x, high, f_high) if f_x > 0 else (low, f_low, x, f_x)
        spare /= 2
    return high
