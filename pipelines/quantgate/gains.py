"""What each lever can gain, before it is tried: arithmetic on plain numbers.

Knows the formulas. Refuses to know which lever fits, and what is worth it.

Every function returns ``None`` where its figures decide nothing: no room, nothing useful, a cost of everything.
"""

from __future__ import annotations

from math import log

_STEPS = 60
"""Halvings of a bisection on [0, 1]: beyond the last digit of a float."""


# ---------------------------------------------------------------------------------------------- room for more requests


def room_ratio(memory_bytes: int, weights_now_bytes: int, weights_then_bytes: int) -> float | None:
    """Requests that fit beside smaller weights, over those that fit now: (memory - then) / (memory - now).

    What a request takes cancels out, so it need not be known. Activations and scales are left out: an upper bound.
    None where the weights fill the memory already.
    """
    room_bytes = memory_bytes - weights_now_bytes
    return (memory_bytes - weights_then_bytes) / room_bytes if room_bytes > 0 else None


def growth(small: tuple[int, float], large: tuple[int, float]) -> float | None:
    """Exponent e of step time ~ batch ** e between two (batch, seconds): 0 where rows are free, 1 where each costs the same again."""
    (batch, step_s), (batch_then, step_then_s) = small, large
    if batch_then <= batch or step_s <= 0 or step_then_s <= 0:
        return None
    return log(step_then_s / step_s) / log(batch_then / batch)


def throughput_ratio(batch_ratio: float, exponent: float) -> float:
    """Tokens per second at a batch that many times as large, where step time goes on growing as batch ** exponent."""
    return float(batch_ratio ** (1 - min(1.0, max(0.0, exponent))))


# ---------------------------------------------------------------------------------------------- rows and time not wasted


def utilisation_bound(useful_share: float | None, idle_share: float | None) -> float | None:
    """The most that never wasting a row or a moment could give: 1 / (useful x (1 - idle)); what is not known counts as not wasted."""
    used = (1.0 if useful_share is None else useful_share) * (1 - (idle_share or 0.0))
    if (useful_share is None and idle_share is None) or used <= 0:
        return None
    return 1 / used


# ---------------------------------------------------------------------------------------------- drafted tokens


def tokens_per_step(acceptance: float, drafted: int) -> float:
    """Expected tokens of a verifying step: 1 + a + ... + a^k = (1 - a^(k+1)) / (1 - a).

    A drafted token is accepted with probability ``a`` if those before it were; acceptances taken as independent and alike, as
    in Leviathan et al. 2023, equation 1. The last term is the token that the target gives itself.
    """
    return float(drafted + 1) if acceptance == 1 else (1 - acceptance ** (drafted + 1)) / (1 - acceptance)


def speculation_ratio(acceptance: float, drafted: int, draft_cost: float, verify_cost: float = 1.0) -> float:
    """Tokens per second over plain decoding: tokens a step / (k x draft cost + verify cost), costs in plain steps."""
    return tokens_per_step(acceptance, drafted) / (drafted * draft_cost + verify_cost)


def break_even(drafted: int, draft_cost: float, verify_cost: float = 1.0) -> float | None:
    """The acceptance at which speculation neither gains nor loses; None where not even accepting everything would do."""
    needed = drafted * draft_cost + verify_cost
    return None if needed > drafted + 1 else _solve(drafted, max(1.0, needed))


def acceptance_of(accepted: int, drafted: int, steps: int) -> float | None:
    """The acceptance that explains what was counted: 1 + accepted / steps tokens a step at drafted / steps tokens each."""
    if steps <= 0 or drafted < steps or accepted > drafted:
        return None
    return _solve(max(1, round(drafted / steps)), 1 + accepted / steps)


def _solve(drafted: int, tokens: float) -> float:
    """The acceptance at which a step makes so many tokens; ``tokens_per_step`` rises with it."""
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if tokens_per_step(middle, drafted) < tokens else (low, middle)
    return (low + high) / 2
