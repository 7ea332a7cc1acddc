"""What a policy asks of golden sets and candidates before anything is measured, and whether it can be answered. Pure.

Each quality rule becomes one question a golden set or slice, with the first level that applies to it: alpha, alpha over the size of
Holm's family, or alpha over the number of advisory slices. What the question can resolve is enumerated from the exact rule that decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from math import inf, isfinite
from statistics import median

import numpy as np

from quantgate.records import CheckRule, GoldenReference, Policy, Role
from quantgate.render.policy import Paragraph, paragraphs
from quantgate.render.quantities import UNKNOWN, count, fixed, margin_points, percent, points
from quantgate.stages.checks import OF_DISTRIBUTIONS
from quantgate.stages.early import large_enough, look_sizes
from quantgate.stages.lever_checks import SPECULATION
from quantgate.stages.quadruples import KINDS, check_name as speed_check_name
from quantgate.stages.quality import part_of, slice_names
from quantgate.stages.speed import speed_needs
from quantgate.stats.power import items_needed, items_without_a_flip, largest_flip_rate, power, smallest_margin
from quantgate.stats.sequential import planned_looks, simulated_stops

Where = tuple[str | int, ...]
LEAST_NOISE = 0.99
"""Chance below which a gate would block the reference itself too often."""
_RUNS, _SEED = 2_000, 0
"""Simulated variants in the anytime-valid mode."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A quality rule on one golden set or slice, before it is measured."""

    check: str
    """Name of the check it will be, for example ``quality/everyday``."""
    golden: str
    """``everyday v1``, or ``arithmetic of everyday v1``."""
    rule: CheckRule
    items: int
    margin: float
    level: float
    """The first one-sided level that it may be decided at."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Resolution:
    """What a question can resolve; None where no number of items, margin or flip rate would do."""

    power: float
    """Chance that a variant without a loss passes, at the policy's planning flip rate."""
    noise: float
    """Chance that the reference itself passes, at the policy's noise flip rate."""
    smallest_margin: float | None
    largest_flip_rate: float | None
    items_needed: int | None
    items_without_a_flip: int | None
    half_stop_by: int | None = None
    """In the anytime-valid mode: items after which half of such variants have passed; None where half never do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """A part of the policy that cannot be met by this run, with the place of its key in the policy."""

    where: Where
    what: str


def first_level(policy: Policy, candidates: int) -> float:
    """The level that the best of several candidates is tested at."""
    holm = policy.require == "any" and policy.correction == "holm"
    return policy.alpha / policy.family(candidates) if holm else policy.alpha


def questions(policy: Policy, golden_sets: Sequence[GoldenReference], candidates: int) -> tuple[Question, ...]:
    """Every quality question, in the order of the policy; what the golden sets do not have is left out and named by ``fault``.

    Graded scores are planned for as if right or wrong, which vary most. Of unbounded ones nothing is known beforehand: left out.
    """
    required, looked_at = first_level(policy, candidates), len(_advisory_slices(policy, golden_sets))
    found = []
    for rule, golden, name in _targets(policy, golden_sets):
        target = golden if name is None else part_of(golden, name)
        if target is None or rule.margin is None or rule.scale == "unbounded":
            continue
        advisory = policy.alpha / (looked_at if name is not None and looked_at else 1)
        label = f"{golden.name} {golden.version}"
        found.append(
            Question(
                check=_check_name(golden, name),
                golden=label if name is None else f"{name} of {label}",
                rule=rule,
                items=len(target.item_ids),
                margin=rule.margin,
                level=advisory if rule.tier == "advisory" else required,
            )
        )
    return tuple(found)


def resolution(question: Question, policy: Policy) -> Resolution:
    """What the question can resolve, for a variant that loses nothing. Of planned looks only the last is counted."""
    n, margin, rate = question.items, question.margin, policy.planning_flip_rate
    level, stops = _last_level(question, policy, question.level), _half_stop_by(question, policy)
    return Resolution(
        half_stop_by=stops,
        power=chance(question, policy, rate, question.level),
        noise=chance(question, policy, policy.noise_flip_rate, policy.alpha),
        smallest_margin=smallest_margin(n=n, flip_rate=rate, alpha=level, power=policy.power),
        largest_flip_rate=largest_flip_rate(n=n, margin=margin, alpha=level, power=policy.power),
        items_needed=items_needed(flip_rate=rate, margin=margin, alpha=level, power=policy.power),
        items_without_a_flip=items_without_a_flip(margin=margin, alpha=level),
    )


def chance(question: Question, policy: Policy, flip_rate: float, alpha: float) -> float:
    """Chance that a variant that loses nothing and flips that share of the items passes the question."""
    n, margin = question.items, question.margin
    if policy.sequential is not None:
        return sum(stop <= n for stop in _stops(question, policy, flip_rate, alpha)) / _RUNS
    return power(n=n, flip_rate=flip_rate, margin=margin, alpha=_last_level(question, policy, alpha))


def why_noisy(question: Question, policy: Policy) -> str | None:
    """Why the reference itself might not pass here: a gate that blocks the unquantized model blocks on noise. None where it passes."""
    passes = chance(question, policy, policy.noise_flip_rate, policy.alpha)
    if passes >= LEAST_NOISE:
        return None
    return (
        f"golden set {question.golden} has {count(question.items)} items: the reference itself, asked again under other batches, "
        f"would pass a margin of {margin_points(question.margin)} points with probability {fixed(passes, 3, towards='down')} only "
        f"(noise flip rate {percent(policy.noise_flip_rate, digits=1)}, at least {LEAST_NOISE:g} is asked for); more items are needed, "
        "or a wider margin, or --allow-underpowered"
    )


def _last_level(question: Question, policy: Policy, alpha: float) -> float:
    """The level of the last planned look, which keeps nearly all of alpha; alpha where there is one look."""
    if policy.looks is None:
        return alpha
    return planned_looks(_looks(question, policy), alpha=alpha)[-1].level


def _fewest(question: Question, policy: Policy) -> int:
    return question.rule.minimum_items or policy.minimum_items


def _looks(question: Question, policy: Policy) -> tuple[int, ...]:
    """Items at each planned look that has enough of them; of a slice, as if it were spread evenly."""
    planned = look_sizes(question.items, policy.looks or 1)
    return large_enough(planned, _fewest(question, policy)) or (question.items,)


def _looks_line(question: Question, policy: Policy) -> list[str]:
    """Which looks there are, where the policy plans some."""
    if policy.looks is None:
        return []
    there, planned = _looks(question, policy), look_sizes(question.items, policy.looks)
    gone = [count(size) for size in planned if size not in there]
    why = f"; left out with fewer than {count(_fewest(question, policy))} items: {', '.join(gone)}" if gone else ""
    return [f"looks at {', '.join(map(count, there))} items{why}"]


def _stops(question: Question, policy: Policy, flip_rate: float, alpha: float) -> list[float]:
    """Items at which simulated variants pass in the anytime-valid mode, always the same ones."""
    if policy.sequential is None:
        return []
    stops = simulated_stops(
        flip_rate=flip_rate, margin=question.margin, alpha=alpha, bet=policy.sequential.bet, rng=np.random.default_rng(_SEED),
        runs=_RUNS, cap=question.items,
    )  # fmt: skip
    return [max(float(one), float(_fewest(question, policy))) for one in stops]


def _half_stop_by(question: Question, policy: Policy) -> int | None:
    stops = _stops(question, policy, policy.planning_flip_rate, question.level)
    middle = median(stops) if stops else inf
    return int(middle) if isfinite(middle) else None


def explain(policy: Policy, golden_sets: Sequence[GoldenReference], candidates: int) -> tuple[Paragraph, ...]:
    """The policy in plain sentences, and what the golden sets can resolve under it."""
    asked = questions(policy, golden_sets, candidates)
    shares = Paragraph(sentence="Of this, the golden sets can resolve, for a variant that loses nothing:")
    return (
        *paragraphs(policy, candidates),
        *([shares] if asked else []),
        *(_resolved(question, resolution(question, policy), policy) for question in asked),
        *speed_needs(policy),
    )


def _resolved(question: Question, found: Resolution, policy: Policy) -> Paragraph:
    advisory = ", advisory" if question.rule.tier == "advisory" else ""
    margin, rate = margin_points(question.margin), percent(policy.planning_flip_rate, digits=1)
    head = (
        f"{question.check}{advisory}: {question.golden}, {count(question.items)} items, margin {margin} points, "
        f"level {question.level:.3g}"
    )
    fewest = found.items_without_a_flip
    never = f"; these {count(question.items)} never do" if fewest is not None and question.items < fewest else ""
    noise = percent(policy.noise_flip_rate, digits=1)
    again = (
        f"the reference itself, with {noise} flipped by other batches, passes with probability {fixed(found.noise, 3, towards='down')}; "
        f"{LEAST_NOISE:g} is asked for"
    )
    passes = (
        f"with {rate} of the answers flipped it passes with probability {fixed(found.power, 2, towards='down')}; "
        f"{policy.power:g} is asked for"
    )
    if policy.sequential is not None:
        half = "fewer than half pass at all" if found.half_stop_by is None else f"half have passed after {count(found.half_stop_by)} items"
        return Paragraph(sentence=f"{head}:", lines=(f"{passes}; {half}", again))
    lines = (
        *_looks_line(question, policy),
        passes,
        again,
        f"the smallest margin it resolves at that flip rate: {_or_none(points(found.smallest_margin, towards='up', digits=2), 'points')}",
        f"the largest flip rate it carries at its margin: {_or_none(percent(found.largest_flip_rate, digits=1, towards='down'))}",
        f"items needed at that flip rate and margin: {_or_none(count(found.items_needed))}",
        f"without a single flip at least {_or_none(count(fewest), 'items')} pass{never}",
    )
    return Paragraph(sentence=f"{head}:", lines=lines)


def _or_none(figure: str, unit: str = "") -> str:
    return "none" if figure == UNKNOWN else f"{figure} {unit}".rstrip()


def fault(policy: Policy, golden_sets: Sequence[GoldenReference], texts: str | None = None) -> Fault | None:
    """The first thing that the policy asks for and these golden sets, or the run's texts, do not have."""
    return next(_faults(policy, golden_sets, texts), None)


def _faults(policy: Policy, golden_sets: Sequence[GoldenReference], texts: str | None) -> Iterator[Fault]:
    names = [one.name for one in golden_sets]
    for index, rule in enumerate(policy.checks):
        divergence = rule.kind in OF_DISTRIBUTIONS and texts is not None
        has = [texts] if divergence and texts is not None else names
        if rule.kind == "perplexity_ratio" and texts is not None:
            has = [*names, texts]
        if rule.golden_set not in ("*", *has):
            where = f"; divergence is taken over the texts {texts}" if divergence else ""
            found = ", ".join(names if divergence else has)
            what = f"a check of kind {rule.kind} is for golden set '{rule.golden_set}', and the run has {found}{where}"
            yield Fault(where=("checks", index, "golden_set"), what=what)
        for golden in (one for one in golden_sets if rule.golden_set in ("*", one.name)):
            yield from _slice_faults(policy, rule, golden, index)
    yield from _twice(policy, golden_sets, texts)
    yield from _waiver_faults(policy, golden_sets, texts)


def _twice(policy: Policy, golden_sets: Sequence[GoldenReference], texts: str | None) -> Iterator[Fault]:
    """Two rules of one tier that become the same check: which of the two a report or a waiver means could not be told."""
    seen: dict[tuple[str, str], int] = {}
    for index, rule in enumerate(policy.checks):
        for name in check_names(rule, golden_sets, texts):
            first = seen.setdefault((rule.tier, name), index)
            if first != index:
                what = (
                    f"the {rule.tier} check {name} stands twice, as checks[{first}] and as checks[{index}]: keep one of the two, or name "
                    "golden sets, slices or batches so that they differ"
                )
                yield Fault(where=("checks", index), what=what)


def names_fault(
    policy: Policy, roles: Mapping[str, Role], golden_sets: Sequence[GoldenReference], texts: str | None = None
) -> Fault | None:
    """The first candidate or check that the policy names by itself, in its order or a waiver, and evidence does not have."""
    return next(_names_faults(policy, roles, golden_sets, texts), None)


def _names_faults(
    policy: Policy, roles: Mapping[str, Role], golden_sets: Sequence[GoldenReference], texts: str | None
) -> Iterator[Fault]:
    candidates = [name for name, role in roles.items() if role == "candidate"]
    for index, name in enumerate(policy.order):
        if name not in candidates:
            yield Fault(where=("order", index), what=f"'{name}' is no candidate here: {_nearest(name, candidates)}")
    for index, waiver in enumerate(policy.waivers):
        if waiver.variant not in candidates:
            what = f"a waiver is for '{waiver.variant}', which is no candidate here: {_nearest(waiver.variant, candidates)}"
            yield Fault(where=("waivers", index, "variant"), what=what)
    yield from _waiver_faults(policy, golden_sets, texts)


def _waiver_faults(policy: Policy, golden_sets: Sequence[GoldenReference], texts: str | None) -> Iterator[Fault]:
    known = [name for rule in policy.checks if rule.tier == "required" for name in check_names(rule, golden_sets, texts)]
    levers = {rule.kind for rule in policy.checks if rule.tier == "required" and rule.kind in SPECULATION}
    for index, waiver in enumerate(policy.waivers):
        if waiver.check not in known and waiver.check.partition("/")[0] not in levers:  # which drafters there are is the run's affair
            what = f"the policy has no required check '{waiver.check}': {_nearest(waiver.check, known)}"
            yield Fault(where=("waivers", index, "check"), what=what)


def _slice_faults(policy: Policy, rule: CheckRule, golden: GoldenReference, index: int) -> Iterator[Fault]:
    for name in slice_names(rule, golden):
        part = part_of(golden, name)
        fewest = rule.minimum_items or policy.minimum_items
        if part is None:
            what = f"golden set {golden.name} has no slice '{name}': {_nearest(name, [one.name for one in golden.parts])}"
            yield Fault(where=("checks", index, "slice"), what=what)
        elif rule.tier == "required" and len(part.item_ids) < fewest:
            what = (
                f"slice '{name}' of {golden.name} has {len(part.item_ids)} items and the policy asks for at least {fewest}: give the check "
                "a 'minimum_items' of its own, or the slice more items"
            )
            yield Fault(where=("checks", index), what=what)


def check_names(rule: CheckRule, golden_sets: Sequence[GoldenReference], texts: str | None = None) -> list[str]:
    """Names of the checks that a rule becomes."""
    chosen = [one for one in golden_sets if rule.golden_set in ("*", one.name)]
    match rule.kind:
        case "quality":
            return [_check_name(golden, name) for golden in chosen for name in slice_names(rule, golden) or (None,)]
        case "perplexity_ratio" if rule.golden_set == "*":
            over = "*" if texts is None else texts
            return [f"perplexity_ratio/{golden.name}" for golden in chosen] + [f"perplexity_ratio/{over}"]
        case "perplexity_ratio" if rule.golden_set == texts:
            return [f"perplexity_ratio/{texts}"]
        case "freed_share" | "share_quantized":
            return [f"memory/{rule.kind}"]
        case "ceiling_ratio":
            return ["ceiling/ratio"]
        case kind if kind in KINDS:
            return [speed_check_name(rule)]
        case "batching_utilisation_gain" | "batching_itl_p99_ratio":  # without an engine the names depend on what ran, so none is known
            return [] if rule.engine is None else [f"lever/{rule.kind}/{rule.engine}"]
        case kind if kind in SPECULATION:
            return [f"{kind}/*"]
        case "cost_ratio" | "cost_per_million_tokens":
            return [f"cost/{rule.kind.removeprefix('cost_')}"]
        case kind if kind in OF_DISTRIBUTIONS and texts is not None:
            return [f"{kind}/{texts}"]
        case _:
            return [f"{rule.kind}/{golden.name}" for golden in chosen]


def _targets(
    policy: Policy, golden_sets: Sequence[GoldenReference]
) -> Iterator[tuple[CheckRule, GoldenReference, str | None]]:
    for rule in (one for one in policy.checks if one.kind == "quality"):
        for golden in (one for one in golden_sets if rule.golden_set in ("*", one.name)):
            for name in slice_names(rule, golden) or (None,):
                yield rule, golden, name


def _advisory_slices(policy: Policy, golden_sets: Sequence[GoldenReference]) -> list[str]:
    return [name for rule, _, name in _targets(policy, golden_sets) if rule.tier == "advisory" and name is not None]


def _check_name(golden: GoldenReference, name: str | None) -> str:
    return f"quality/{golden.name}" if name is None else f"quality/{golden.name}/{name}"


def _nearest(name: str, known: Sequence[str]) -> str:
    nearest = get_close_matches(name, known, n=1)
    hint = f"did you mean '{nearest[0]}'? " if nearest else ""
    return f"{hint}known are {', '.join(dict.fromkeys(known))}"
