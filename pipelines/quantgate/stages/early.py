"""Looking before all items are scored: in which order items are asked, where the looks are, and which early stop may be used. Pure.

The order is a digest of the policy's seed, the golden set and each item's id: fixed before anything is measured, the same on every machine,
and blind to every score. A sheet that ends early counts only for a policy that looks by the same rule: for any other one the stop would
have been a second chance to pass, so it is not measured there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from quantgate.records import EarlyStop, GoldenReference, Policy, ScoreSheet
from quantgate.render.quantities import count


@dataclass(frozen=True, kw_only=True, slots=True)
class Early:
    """How one question may be looked at before its last item."""

    sizes: tuple[int, ...] = ()
    """Planned looks: items of the question at each, rising, the last one all of them; empty in the anytime-valid mode."""
    left_out: int = 0
    """Planned looks that are none here: they hold fewer items than a look needs, or no more than the look before."""
    bet: float | None = None
    """The bet of the anytime-valid mode."""
    fewest: int = 1
    """Items before which the anytime-valid mode declares nothing; its evidence counts from the first item all the same."""


def looks_early(policy: Policy) -> bool:
    """Whether a policy looks before the last item."""
    return policy.sequential is not None or policy.looks is not None


def seed_of(policy: Policy) -> int:
    """What the order of the items follows from, besides the golden set."""
    return policy.looks_seed if policy.sequential is None else policy.sequential.seed


def order(golden: GoldenReference, seed: int) -> tuple[str, ...]:
    """The ids of a golden set in the order in which they are asked."""
    head = f"{seed}\0{golden.sha256}\0"
    return tuple(sorted(golden.item_ids, key=lambda one: hashlib.sha256(f"{head}{one}".encode("utf-8", "replace")).digest()))


def look_sizes(items: int, looks: int) -> tuple[int, ...]:
    """Items at each of that many looks at equal distances, the last one all; fewer looks where there are fewer items."""
    return tuple(dict.fromkeys(-(-items * number // looks) for number in range(1, looks + 1))) if items else ()


def early_of(policy: Policy, golden: GoldenReference, target: Sequence[str], fewest: int) -> Early | None:
    """How a question about the items ``target`` of a golden set is looked at; None where the policy looks once.

    A look at fewer than ``fewest`` items, or at no more than the look before it, is left out: that is one chance less to pass.
    """
    if policy.sequential is not None:
        return Early(bet=policy.sequential.bet, fewest=max(1, fewest))
    if policy.looks is None:
        return None
    chosen, asked = set(target), order(golden, seed_of(policy))
    seen = [sum(one in chosen for one in asked[:size]) for size in look_sizes(len(asked), policy.looks)]
    sizes = large_enough(seen, fewest) or (len(chosen),)
    return Early(sizes=sizes, left_out=policy.looks - len(sizes))


def large_enough(sizes: Sequence[int], fewest: int) -> tuple[int, ...]:
    """The looks that remain of those planned."""
    return tuple(dict.fromkeys(size for size in sizes if size >= fewest))


def stopped_by(policy: Policy, asked: int, items: int, because: str) -> EarlyStop:
    """The record of a stop under this policy."""
    bet = None if policy.sequential is None else policy.sequential.bet
    looks = None if policy.sequential is not None else policy.looks
    return EarlyStop(asked=asked, items=items, looks=looks, bet=bet, seed=seed_of(policy), because=because)


def why_not_stopped(sheet: ScoreSheet, golden: GoldenReference, policy: Policy) -> str | None:
    """Why a sheet that ends early cannot be used under a policy; None where it can, or does not end early."""
    stop = sheet.stopped
    if stop is None:
        return None
    said = f"its scoring stopped early, after {count(stop.asked)} of {count(stop.items)} items"
    if not looks_early(policy):
        return f"{said}, and this policy does not look early; score it in full"
    same = stopped_by(policy, stop.asked, stop.items, stop.because)
    if same != stop:
        return f"{said}, by another rule than this policy's ({_rule(stop)}, not {_rule(same)}); score it in full"
    if stop.items != len(golden.item_ids) or not 0 < stop.asked <= stop.items:
        return f"{said}, and the golden set has {count(len(golden.item_ids))} items"
    if policy.looks is not None and policy.sequential is None and stop.asked not in look_sizes(stop.items, policy.looks):
        return f"{said}, where no look was planned"
    first, found = set(order(golden, stop.seed)[: stop.asked]), {item.item_id for item in sheet.items}
    if found != first:
        return f"{said}, and these are not the first {count(stop.asked)} in the order that was fixed beforehand"
    return None


def _rule(stop: EarlyStop) -> str:
    how = f"{stop.looks} looks" if stop.bet is None else f"a bet of {stop.bet:g} at every item"
    return f"{how} with seed {stop.seed}"
