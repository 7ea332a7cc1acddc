"""Looking more than once: planned looks, and tests that stay valid at every item.

A verdict taken again and again until it passes is worth nothing: at the margin five nights let 23 % through. Two ways
are valid. Planned looks (O'Brien and Fleming): sizes fixed before measuring, early looks at levels so strict that the
last keeps almost all of alpha. Anytime-valid: every item multiplies a bet against "the loss is at least the margin"; if
that holds, the product E grows past 1 / alpha with probability at most alpha, ever, whenever one looks or stops.

Sources: O'Brien and Fleming, Biometrics 35 (1979); Armitage, McPherson and Rowe, JRSS A 132 (1969), recursive
quadrature; Ville (1939); Waudby-Smith and Ramdas, JRSS B 86 (2024), betting.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import exp, inf, log, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special  # type: ignore[import-untyped, unused-ignore]

from quantgate.stats.inputs import Number, checked_count, checked_margin, checked_share, exact
from quantgate.stats.noninferiority import Outcome
from quantgate.stats.rootfinding import falling_root

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_NODES, _REACH = 160, 9.0
"""Points of the quadrature between two looks, over this many standard deviations."""
_TOLERANCE = 1e-9
_SAFE = 0.9
"""Share of its limit that the bet on "more is lost" never exceeds."""
_AT_ONCE = 512
"""Items simulated at a time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedLook:
    """One look of a plan that was fixed before measuring."""

    number: int
    """From 1."""
    items: int
    """Items seen at this look, those of earlier looks included."""
    z: float
    """The normal quantile that has to be reached."""
    level: float
    """The one-sided level to decide at; under 1e-4 the exact rule shows nothing at this look."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AnytimeResult:
    """What the items so far show, at a level that holds at every item at once."""

    outcome: Outcome
    estimate: float
    """Mean loss of the items seen up to the stop."""
    stopped_at: int | None
    """Items seen when the outcome was first shown; None while it is inconclusive."""
    items: int
    """Items that count: up to the stop, or all."""
    e_value: float
    """E against "the loss is at least the margin" after those items."""
    running: Floats
    """E after each of those items."""
    lower: float
    """Anytime lower bound of the loss; at or above the margin exactly when the outcome is fail."""
    upper: float
    """Anytime upper bound of the loss; at or below the margin exactly when the outcome is pass."""
    level: float


def planned_looks(sizes: Sequence[int], *, alpha: float) -> tuple[PlannedLook, ...]:
    """O'Brien-Fleming looks at these numbers of items: at look k z is the last look's times sqrt(last / size k).

    Together they err with probability alpha, one-sided. At alpha 0.05 the last z is 1.68 / 1.71 / 1.75 for 2 / 3 / 5
    looks at equal distances; one look has z_(1-alpha).

    Raises:
        ValueError: no sizes, sizes that do not rise, a size under 1; alpha outside (0, 0.5].
    """
    level = checked_share(alpha, "alpha")
    counts = [checked_count(size, "a look's number of items", at_least=1) for size in sizes]
    if not counts or any(after <= before for before, after in pairwise(counts)):
        raise ValueError(f"looks need rising numbers of items, found {list(sizes)}")
    if level > 0.5:
        raise ValueError(f"alpha must lie between 0 and 0.5, found {alpha}")
    shares = [count / counts[-1] for count in counts]
    last = _last_z(shares, level)
    zs = [last / sqrt(share) for share in shares]
    return tuple(
        PlannedLook(number=number, items=count, z=z, level=float(special.ndtr(-z)))
        for number, (count, z) in enumerate(zip(counts, zs, strict=True), start=1)
    )


def planned_p(p_values: Sequence[float], *, sizes: Sequence[int]) -> float:
    """P-value over all looks together: the smallest alpha under which a plan at these sizes has passed by now.

    Args:
        p_values: of "the loss is at least the margin" at each look so far, from the first.
        sizes: items at every planned look, also those to come.

    Raises:
        ValueError: no p-value, more of them than sizes, one outside [0, 1]; sizes that do not rise.
    """
    planned_looks(sizes, alpha=0.5)
    if not 0 < len(p_values) <= len(sizes) or not all(0 <= one <= 1 for one in p_values):
        raise ValueError(f"expected 1 to {len(sizes)} p-values between 0 and 1, found {list(p_values)}")
    shares = [size / sizes[-1] for size in sizes]
    reached = [-float(special.ndtri(max(one, 1e-300))) * sqrt(share) for one, share in zip(p_values, shares, strict=False)]
    if max(reached) <= 0:
        return 1.0
    return crossing_probability(shares, [max(reached) / sqrt(share) for share in shares])


def crossing_probability(shares: Sequence[float], bounds: Sequence[float]) -> float:
    """Probability that a standard normal statistic reaches its bound at any look.

    Args:
        shares: rising shares of the information at each look, the last 1.
        bounds: the normal quantiles to reach, one per look.

    By recursion from look to look over the part of the density that has not crossed.
    """
    points, weights = _quadrature()
    crossed, before = 0.0, 0.0
    x: Floats = np.zeros(1)
    density: Floats = np.ones(1)
    for share, bound in zip(shares, bounds, strict=True):
        step, end = sqrt(share - before), bound * sqrt(share)
        crossed += float(density @ special.ndtr((x - end) / step))
        low = -_REACH * sqrt(share)
        half = (min(end, -low) - low) / 2
        y = low + half * (points + 1)
        arrived = np.exp(-(((y[:, None] - x) / step) ** 2) / 2) @ density / (step * sqrt(2 * np.pi))
        x, density, before = y, arrived * weights * half, share
    return crossed


def anytime(losses: ArrayLike, *, margin: Number, alpha: float, bet: float, fewest: int = 1) -> AnytimeResult:
    """Decide at the first item at which anything is shown: E = product of (1 + bet (margin - x)) >= 1 / alpha passes.

    Args:
        losses: +1 lost, 0 no change, -1 gained, anything between for graded scores, shape (n,), in the seeded random
            order (`random_order`). Items added later come after those already seen.
        margin: the largest loss allowed.
        alpha: one-sided level.
        bet: lambda, fixed by the policy before measuring, in (0, 1 / (1 - margin)); see `growth_bet`.
        fewest: items before which nothing is declared; E counts from the first item all the same.

    Fail by the mirror: the product of (1 + bet (x - margin)), its bet held under 0.9 / (1 + margin). Items after the stop
    count for nothing.

    Raises:
        ValueError: no items, a loss outside [-1, 1] or not finite; margin, alpha or bet out of range.
    """
    x, limit, level = _checked_losses(losses), float(checked_margin(margin)), checked_share(alpha, "alpha")
    bets = _checked_bet(bet, limit), min(bet, _SAFE / (1 + limit))
    against = [np.cumsum(np.log1p(stake * sign * (limit - x))) for stake, sign in zip(bets, (1, -1), strict=True)]
    firsts = [_first(_reached(path, level, fewest)) for path in against]
    seen = min(*firsts, x.size)
    outcome: Outcome = "inconclusive"
    if min(firsts) <= x.size:
        outcome = "pass" if firsts[0] < firsts[1] else "fail"
    x, running = x[:seen], np.exp(np.minimum(against[0][:seen], 700.0))
    return AnytimeResult(
        outcome=outcome,
        estimate=float(x.mean()),
        stopped_at=None if outcome == "inconclusive" else seen,
        items=seen,
        e_value=float(running[-1]),
        running=running,
        lower=-_anytime_upper(-x, bets[1], -limit, level, outcome == "fail"),
        upper=_anytime_upper(x, bets[0], limit, level, outcome == "pass"),
        level=level,
    )


def anytime_bounds(losses: ArrayLike, *, margin: Number, alpha: float, bet: float) -> tuple[float, float]:
    """Anytime lower and upper bound of the loss after all of these items, wherever one could have stopped.

    Raises:
        ValueError: as `anytime`.
    """
    found = anytime(losses, margin=margin, alpha=alpha, bet=bet, fewest=np.size(losses))
    return found.lower, found.upper


def anytime_p(losses: ArrayLike, *, margin: Number, bet: float, fewest: int = 1) -> float:
    """P-value of "the loss is at least the margin" that holds whenever one stops: 1 over the largest E so far, at most 1.

    Only E after `fewest` items and later counts; with fewer items than that it is 1.

    Raises:
        ValueError: as `anytime`.
    """
    x, limit = _checked_losses(losses), float(checked_margin(margin))
    path = np.cumsum(np.log1p(_checked_bet(bet, limit) * (limit - x)))[max(fewest, 1) - 1 :]
    highest = float(np.max(path, initial=0.0))
    return exp(-max(highest, 0.0))


def random_order(n: int, rng: np.random.Generator) -> Ints:
    """Order of n items, drawn before anything is measured: indices, shape (n,)."""
    return rng.permutation(checked_count(n, "n", at_least=1)).astype(np.int64)


def growth_bet(*, flip_rate: Number, margin: Number, true_loss: Number = 0) -> float:
    """Find the bet under which E grows fastest, on average of its logarithm, at this flip rate and true loss.

    Source: Kelly, Bell System Technical Journal 35 (1956).

    Raises:
        ValueError: margin outside (0, 1); true loss at or above it; flip rate not above 0, or outside [|true_loss|, 1].
    """
    rate, limit, loss = float(exact(flip_rate)), float(checked_margin(margin)), float(exact(true_loss))
    if loss >= limit or not max(abs(loss), 1e-9) <= rate <= 1:
        raise ValueError(f"expected |true_loss| <= flip_rate, true_loss < margin, found {flip_rate}, {true_loss}")
    outcomes = limit - np.array([1.0, -1.0, 0.0])
    chances = np.array([(rate + loss) / 2, (rate - loss) / 2, 1 - rate])

    def growth_rate(bet: float) -> float:
        return float(chances @ (outcomes / (1 + bet * outcomes)))

    most = (1 - 1e-9) / (1 - limit)
    start = (limit - loss) / (rate + limit**2)
    return falling_root(growth_rate, 0.0, most, min(start, _SAFE * most), _TOLERANCE)


def simulated_stops(
    *,
    flip_rate: Number,
    margin: Number,
    alpha: float,
    bet: float,
    rng: np.random.Generator,
    true_loss: Number = 0,
    runs: int = 2_000,
    cap: int = 20_000,
) -> Floats:
    """Items at which simulated runs pass, shape (runs,); infinite for those that have not by `cap` items.

    Their median says what to plan for; with `true_loss` at the margin the finite share is the type-I error by `cap`.

    Raises:
        ValueError: flip rate outside [|true_loss|, 1]; margin, alpha or bet out of range; runs or cap under 1.
    """
    rate, loss, limit = float(exact(flip_rate)), float(exact(true_loss)), float(checked_margin(margin))
    if not abs(loss) <= rate <= 1:
        raise ValueError(f"flip_rate must lie between |true_loss| and 1, found {flip_rate} and {true_loss}")
    gains = np.log1p(_checked_bet(bet, limit) * (limit - np.array([1.0, -1.0, 0.0])))
    target, end = -log(checked_share(alpha, "alpha")), checked_count(cap, "cap", at_least=1)
    edges = [(rate + loss) / 2, rate]
    stops = np.full(checked_count(runs, "runs", at_least=1), inf)
    open_, height = np.arange(stops.size), np.zeros(stops.size)
    for seen in range(0, end, _AT_ONCE):
        drawn = np.searchsorted(edges, rng.random((open_.size, min(_AT_ONCE, end - seen))), side="right")
        paths = height[:, None] + np.cumsum(gains[drawn], axis=1)
        passed = paths >= target
        done = passed.any(axis=1)
        stops[open_[done]] = seen + 1 + passed[done].argmax(axis=1)
        open_, height = open_[~done], paths[~done, -1]
    return stops


@cache
def _quadrature() -> tuple[Floats, Floats]:
    """Points and weights of Gauss and Legendre on [-1, 1]."""
    points, weights = np.polynomial.legendre.leggauss(_NODES)
    return points, weights


def _last_z(shares: list[float], alpha: float) -> float:
    """Find the last look's quantile; looks before it have that over the root of their share."""

    def too_likely(z: float) -> float:
        return crossing_probability(shares, [z / sqrt(share) for share in shares]) - alpha

    single = -float(special.ndtri(alpha))
    if len(shares) == 1:
        return single
    all_equal = -float(special.ndtri(alpha / len(shares)))
    return falling_root(too_likely, single - 1e-6, all_equal, single + 0.05, _TOLERANCE)


def _reached(path: Floats, level: float, fewest: int) -> NDArray[np.bool_]:
    """Where the logarithm of E is enough and at least `fewest` items were seen."""
    return (path >= -log(level)) & (np.arange(1, path.size + 1) >= fewest)


def _first(reached: NDArray[np.bool_]) -> int:
    """Count of items at the first true; one more than there are where none is."""
    return int(reached.argmax()) + 1 if reached.any() else reached.size + 1


def _anytime_upper(x: Floats, bet: float, limit: float, alpha: float, passed: bool) -> float:
    """Where the product against "the loss is at least D" reaches 1 / alpha; on the side of the limit that was decided."""

    def missing(loss: float) -> float:
        return -log(alpha) - float(np.log1p(bet * (loss - x)).sum())

    ruined = max(-1.0, float(x.max()) - 1 / bet + 1e-9)
    low, high = (min(ruined, limit), limit) if passed else (limit, 1.0)
    return falling_root(missing, low, high, (low + high) / 2, _TOLERANCE)


def _checked_losses(losses: ArrayLike) -> Floats:
    x = np.asarray(losses, dtype=float)
    if x.ndim != 1 or x.size == 0 or not np.all(np.abs(x) <= 1):
        raise ValueError(f"expected at least one loss, each between -1 and 1 and finite, found shape {x.shape}")
    return x


def _checked_bet(bet: float, margin: float) -> float:
    most = 1 / (1 - margin)
    if not 0 < float(bet) < most:
        raise ValueError(f"bet must lie strictly between 0 and 1 / (1 - margin) = {most:.6g}, found {bet}")
    return float(bet)
