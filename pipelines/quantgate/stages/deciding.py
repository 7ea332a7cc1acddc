"""Which statistical rule decides on a set of pairs: exact for right or wrong, clustered, graded; looked at once or early. Pure.

Rules that rest on an approximation are not asked for more confidence than they were checked at: of planned looks they use those at a level
of 0.005 or above, and the last one. Leaving a look out is one chance less to pass.

Evidence often holds more items than were needed, as finished files do. What was shown early then stands only if the estimate over all the
items agrees: at or above the margin nothing passes, and at or below it nothing fails. The figures are those over all the items.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, isfinite

from quantgate.render.quantities import count
from quantgate.stages.early import Early
from quantgate.stages.pairing import Pairs
from quantgate.stats.clusters import clustered_loss
from quantgate.stats.graded import decide_scores
from quantgate.stats.noninferiority import Decision, decide_clustered, decide_paired
from quantgate.stats.paired import p_loss_at_least
from quantgate.stats.sequential import anytime, anytime_bounds, anytime_p, planned_looks, planned_p

SMALLEST_LEVEL = 0.005
"""Of a planned look, for rules that are approximations."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Decided:
    """A decision, and after how many items it was reached."""

    decision: Decision
    items: int
    look: int | None = None
    """From 1; None where there are no planned looks."""


def why_never(pairs: Pairs, early: Early | None) -> str | None:
    """Why pairs of this kind cannot be looked at in the way the policy asks for."""
    if early is None or early.bet is None:
        return None
    if pairs.scale == "unbounded":
        return "looking at every item needs scores in 0 to 1; use 'looks', or neither"
    if pairs.clusters is not None:
        return "looking at every item needs independent items, and some of these share a source; use 'looks', or neither"
    return None


def decide(pairs: Pairs, margin: float, alpha: float, early: Early | None = None) -> Decided:
    """The decision at one-sided level ``alpha`` over all looks together."""
    if early is None:
        return Decided(decision=_once(pairs, margin, alpha), items=pairs.n)
    found = _planned(pairs, margin, alpha, early) if early.bet is None else _anytime(pairs, margin, alpha, early)
    return found if found.items == pairs.n else _over_all(found, pairs, margin, early)


def _over_all(found: Decided, pairs: Pairs, margin: float, early: Early) -> Decided:
    """What was shown early, with the estimate over all items: it stands where that agrees."""
    decision, estimate = found.decision, pairs.estimate
    lower, upper = decision.lower, decision.upper
    if early.bet is not None:
        ends = anytime_bounds(pairs.losses, margin=margin, alpha=decision.level, bet=early.bet)
        lower, upper = max(lower, ends[0]), min(upper, ends[1])
    if (decision.outcome == "pass" and estimate >= margin) or (decision.outcome == "fail" and estimate <= margin):
        side, shown = ("at or above", "pass") if decision.outcome == "pass" else ("at or below", "fail")
        reason = f"a {shown} was shown after {count(found.items)} items, and over all {count(pairs.n)} the loss is {side} the margin"
        lower, upper = ends if early.bet is not None else (-inf, inf)
        p_value = 1.0 if shown == "pass" else decision.p_pass
        decision = replace(decision, outcome="inconclusive", p_pass=p_value, p_fail=1.0, reason=reason)
    return replace(found, decision=replace(decision, estimate=estimate, lower=min(lower, estimate), upper=max(upper, estimate)))


def p_pass(pairs: Pairs, margin: float, early: Early | None = None) -> float:
    """P-value of "the loss is at least the margin" over all looks together."""
    if early is None:
        return _p_once(pairs, margin)
    if pairs.estimate >= margin:
        return 1.0
    if early.bet is not None:
        return anytime_p(pairs.losses, margin=margin, bet=early.bet, fewest=early.fewest)
    seen = [size for size in early.sizes if size <= pairs.n]
    floor = SMALLEST_LEVEL if _approximate(pairs) else 0.0
    p_values = [_p_once(pairs.first(size), margin) for size in seen]
    floored = [one if size == early.sizes[-1] else max(one, floor) for one, size in zip(p_values, seen, strict=True)]
    return planned_p(floored, sizes=early.sizes) if floored else 1.0


def _approximate(pairs: Pairs) -> bool:
    return pairs.scale != "binary" or pairs.clusters is not None


def _once(pairs: Pairs, margin: float, alpha: float) -> Decision:
    if pairs.scale != "binary":
        bounded = pairs.scale == "unit"
        found = decide_scores(losses=pairs.losses, margin=margin, alpha=alpha, clusters=pairs.clusters, bounded=bounded)
        return found.decision
    if pairs.clusters is not None:
        return decide_clustered(losses=pairs.losses, clusters=pairs.clusters, margin=margin, alpha=alpha)
    return decide_paired(b=pairs.b, c=pairs.c, n=pairs.n, margin=margin, alpha=alpha)


def _p_once(pairs: Pairs, margin: float) -> float:
    if pairs.scale != "binary":
        return _once(pairs, margin, 0.05).p_pass
    if pairs.clusters is not None:
        return clustered_loss(pairs.losses, pairs.clusters).p_at_least(margin)
    return p_loss_at_least(b=pairs.b, c=pairs.c, n=pairs.n, margin=margin)


def _planned(pairs: Pairs, margin: float, alpha: float, early: Early) -> Decided:
    """The first look at which anything is shown, as it would have been had one stopped there."""
    looks = [one for one in planned_looks(early.sizes, alpha=alpha) if one.items <= pairs.n]
    floor = SMALLEST_LEVEL if _approximate(pairs) else 0.0
    usable = [one for one in looks if one.level >= floor or one.items == early.sizes[-1]]
    for look in usable:
        found = Decided(decision=_once(pairs.first(look.items), margin, look.level), items=look.items, look=look.number)
        if found.decision.outcome != "inconclusive" or look is usable[-1]:
            return found
    waiting = replace(_once(pairs, margin, SMALLEST_LEVEL), outcome="inconclusive", p_pass=1.0, p_fail=1.0)
    return Decided(decision=replace(waiting, reason="none of its planned looks was reached"), items=pairs.n)


def _anytime(pairs: Pairs, margin: float, alpha: float, early: Early) -> Decided:
    bet = early.bet or 0.0
    found = anytime(pairs.losses, margin=margin, alpha=alpha, bet=bet, fewest=early.fewest)
    p_value = anytime_p(pairs.losses, margin=margin, bet=bet, fewest=early.fewest)
    decision = Decision(
        outcome=found.outcome,
        estimate=found.estimate,
        lower=found.lower,
        upper=found.upper,
        p_pass=p_value,
        p_fail=alpha if found.outcome == "fail" else 1.0,
        level=alpha,
    )
    return Decided(decision=decision, items=found.items)


def known(bound: float) -> float | None:
    """A bound as a record holds it: None where there is none."""
    return bound if isfinite(bound) else None
