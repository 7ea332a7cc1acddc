"""Levers for a limit that was found: which fits, which do not and why, what each costs, and what it would gain.

Knows the three levers: quantization, continuous batching, speculative decoding. Refuses to find the limit itself, which
``diagnosis`` does, and to recommend anything where none was found.

A lever named without its cost is a claim, so every one has its cost beside it: measured in this run, or said to be not
measured. The gain that arithmetic predicts stands beside the one that was measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from quantgate import gains
from quantgate.limits import fits, step_growth, useful_share
from quantgate.render import quantities as q
from quantgate.symptoms import Advice, Fit, Lever, Limit, State, Symptoms, Trial

COSTS: Mapping[Lever, str] = {
    "quantization": "quality (flips, KL divergence), dequantization at large batches, a kernel that the device has",
    "continuous batching": "the latency tail of single requests (time between tokens at the 99th percentile), preemptions, a server to run",
    "speculative decoding": "drafts that are rejected, the drafter's memory and KV cache, a loss at high load",
}
FASTER_ALONE = 1.05
"""A quantized variant is faster at batch 1 from here on: less is the scatter of a machine."""
WORTH = 1.10
"""Room that quantizing the weights must make, times over, to be the lever: else the caches are what fills the memory."""
EXAMPLE = (0.7, 4, 0.1)
"""Acceptance, drafted tokens and draft cost of the example that is given where none are known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """What was found of a deployment: the limit, those behind it, the state of each rule by its name, and what was tried."""

    seen: Symptoms
    limit: Limit
    also: tuple[Limit, ...]
    states: Mapping[str, State]
    trials: tuple[Trial, ...]

    def binds(self, limit: Limit) -> bool:
        """The limit, or one that stands behind it."""
        return limit == self.limit or limit in self.also

    def tried(self, lever: Lever) -> tuple[Trial, ...]:
        """What was measured of a lever: what no policy refuses first, then by the largest gain."""
        ours = [one for one in self.trials if one.lever == lever]
        return tuple(sorted(ours, key=lambda one: (one.refused, 0.0 if one.gain is None else -one.gain)))

    def best(self, lever: Lever) -> float | None:
        """The largest gain that was measured of a lever and that nothing refuses; None without one."""
        return max((one.gain for one in self.tried(lever) if one.gain is not None and not one.refused), default=None)


_Judged = tuple[Fit, str, str]
"""Whether it fits, why, and why in a few words."""
_NOT_TOLD: _Judged = ("not known", "which limit binds is not known", "")


def advise(case: Case) -> tuple[Advice, ...]:
    """Every lever, in a fixed order."""
    judged: tuple[tuple[Lever, _Judged, tuple[str, float | None]], ...] = (
        ("quantization", _quantization(case), _more_room(case)),
        ("continuous batching", _batching(case), _no_waste(case.seen)),
        ("speculative decoding", _speculation(case), _drafted(case.seen)),
    )
    return tuple(_advice(case, lever, _NOT_TOLD if case.limit == "abstain" else found, predicted) for lever, found, predicted in judged)


def _advice(case: Case, lever: Lever, judged: _Judged, predicted: tuple[str, float | None]) -> Advice:
    tried = case.tried(lever)
    best = next(iter(tried), None)
    fit, because, short = judged
    costs = [f"{one.name}: {one.cost}" for one in tried if one.cost]
    forecasts = [f"{one.name}: {one.predicted}" for one in tried if one.predicted]
    own = best is not None and best.predicted_gain is not None
    return Advice(
        lever=lever,
        fit=fit,
        because=because,
        short=short,
        cost=f"{COSTS[lever]}; {'measured in this run: ' + '; '.join(costs) if costs else 'not measured'}",
        predicted="; ".join(forecasts) or predicted[0],
        predicted_gain=best.predicted_gain if best is not None and own else predicted[1],
        measured="; ".join(f"{one.name}: {one.measured}" for one in tried) or "nothing",
        measured_gain=None if best is None else best.gain,
    )


# ---------------------------------------------------------------------------------------------- which fits


def _quantization(case: Case) -> _Judged:
    if case.binds("memory-bound"):
        because = "smaller weights leave room for more KV caches, so more requests run at once"
        if not _worth(case.seen) and not case.tried("quantization"):
            because = "of the KV cache rather than the weights, which hold little of the memory or are in few bits already"
        best = case.best("quantization")
        slower = best is not None and best < 1
        cost = f"; measured here it costs speed all the same, {q.ratio(best)} at best" if slower else ""
        order = "" if case.limit == "memory-bound" else ", once the rows that run are not wasted"
        return "fits", because + order + cost, "more requests, slower" if slower else ""
    match case.limit:
        case "utilisation-bound":
            return "does not fit", "memory is not what leaves rows empty", "memory is not short"
        case "compute-bound":
            because = "weights in fewer bits are multiplied all the same, and dequantizing is work on top"
            return "does not fit", because, "it adds arithmetic"
        case _:
            return _shorter_read(case)


def _worth(seen: Symptoms) -> bool:
    """Smaller weights would make room worth having; where that cannot be told, they might."""
    if seen.memory_total_bytes is None or seen.weight_bytes is None:
        return seen.weight_bits is None or seen.weight_bits > 4
    ratios = [gains.room_ratio(seen.memory_total_bytes, seen.weight_bytes, round(seen.weight_bytes * share)) for share, _ in _widths(seen)]
    return any(ratio is None or ratio >= WORTH for ratio in ratios)


def _shorter_read(case: Case) -> _Judged:
    """At few rows: room is not short, but the read itself shrinks, unless the kernel loses it again."""
    alone = [(one.alone_gain, one.name) for one in case.tried("quantization") if one.alone_gain is not None and not one.refused]
    if not alone:
        because = "room is not short; a step would read fewer bytes, if its kernel does not lose that to dequantization: measure at batch 1"
        return "not known", because, ""
    gain, name = max(alone)
    if gain >= FASTER_ALONE:
        return "fits", f"a step reads fewer bytes: {name} makes {q.ratio(gain)} the tokens/s at batch 1", ""
    because = f"{name} makes {q.ratio(gain)} the tokens/s at batch 1: dequantization costs what the smaller read saves"
    return "does not fit", because, "dequantization eats the smaller read"


def _batching(case: Case) -> _Judged:
    wasted = {case.states["row steps are wasted"], case.states["the device idles"]}
    best = case.best("continuous batching")
    if case.limit == "utilisation-bound":
        if best is not None and best < 1:
            return "does not fit", f"measured a loss here, {q.ratio(best)}: this engine's steps cost more than it saves", "measured a loss"
        return "fits", "the place of a row that ends goes to the next request at once", ""
    if case.limit == "decode-step-bound":
        return "does not fit", "there is no second request to put beside the first", "there is nothing to batch"
    if case.limit == "compute-bound":
        return "does not fit", "fuller batches would find no free arithmetic", "fuller batches find no free arithmetic"
    if "fired" in wasted and case.states["requests wait"] == "not known":
        because = "rows or time are wasted, and whether requests wait for them is not known: measure requests waiting at that load"
        return "not known", because, ""
    if "fired" in wasted:
        return "does not fit", "rows or time are wasted, but nothing waits for them", "nothing waits"
    if "not known" in wasted:
        return "not known", "no wasted rows were shown: measure useful tokens / (rows x steps)", ""
    return "does not fit", "rows and time are not wasted", "no rows are wasted"


def _speculation(case: Case) -> _Judged:
    match case.limit:
        case "memory-bound":
            because = "it adds verifying to a full batch, and its drafter takes a second KV cache"
            return "does not fit", because, "it would add a second KV cache"
        case "utilisation-bound":
            return "does not fit", "finished rows would wait all the same, and verifying is work on top", "it adds work to rows that wait"
        case "compute-bound":
            return "does not fit", "verifying drafted tokens is arithmetic, which is what is short", "it adds arithmetic"
        case _:
            return _drafting(case)


def _drafting(case: Case) -> _Judged:
    best = case.best("speculative decoding")
    if best is not None and best <= 1:
        return "does not fit", f"measured no gain here, {q.ratio(best)} at best", "measured no gain"
    forecast = _drafted(case.seen)[1]
    if best is None and forecast is not None and forecast <= 1:
        because = f"drafting would cost more than it saves: {q.ratio(forecast)} at this acceptance"
        return "does not fit", because, "drafting costs more than it saves"
    because = "one read of the weights checks several drafted tokens"
    already = "; some are drafted already" if case.seen.drafts else ""
    return "fits", because + already + _beside(case), ""


def _beside(case: Case) -> str:
    """Whether memory holds a second model; empty where it may."""
    seen, instead = case.seen, "so draft from the prompt itself and not with a second model"
    if case.binds("memory-bound"):
        return f"; memory is full, {instead}"
    if seen.drafter_bytes is None or seen.memory_total_bytes is None or seen.memory_used_bytes is None:
        return ""
    free = seen.memory_total_bytes - seen.memory_used_bytes
    small = f"; {q.decimal_bytes(free)} are free and the drafter takes {q.decimal_bytes(seen.drafter_bytes)}, {instead}"
    return small if seen.drafter_bytes > free else ""


# ---------------------------------------------------------------------------------------------- what it would gain


def _more_room(case: Case) -> tuple[str, float | None]:
    seen = case.seen
    if seen.memory_total_bytes is None or seen.weight_bytes is None:
        return "not possible: memory and weights are not given", None
    parts: list[str] = []
    first: float | None = None
    rows = ""
    for share, name in _widths(seen):
        then = round(seen.weight_bytes * share)
        ratio = gains.room_ratio(seen.memory_total_bytes, seen.weight_bytes, then)
        if ratio is None:
            left = q.decimal_bytes(max(0, seen.memory_total_bytes - then))
            return f"{name} leave {left} for requests, where nothing is left now (arithmetic)", None
        if first is None:
            first, rows = ratio, _rows(seen, ratio, then)
        parts.append(f"{name} make {q.ratio(ratio)} the room for requests" if not parts else f"{name} {q.ratio(ratio)}")
    if first is None:
        return f"not possible: weights are in {seen.weight_bits} bits already", None
    exponent = step_growth(seen)
    return f"{' and '.join(parts)}{rows} (arithmetic, scales left out); {_tokens(first, exponent)}", _gain(first, exponent)


def _rows(seen: Symptoms, ratio: float, weights_then_bytes: int) -> str:
    """The batch that would fit: by what a request takes, else by the ratio of room; empty where neither is known."""
    batch = fits(seen)
    if seen.memory_total_bytes is not None and seen.request_bytes is not None:
        then = (seen.memory_total_bytes - weights_then_bytes) // seen.request_bytes
        return f", batch {q.count(batch)} -> {q.count(then)}" if batch is not None else f", {q.count(then)} requests"
    return "" if batch is None else f", batch {q.count(batch)} -> {q.count(int(batch * ratio))}"


def _widths(seen: Symptoms) -> list[tuple[float, str]]:
    """Shares of the bytes that weights would take, with a name for each."""
    if seen.weight_bits is None:
        return [(0.5, "half the weight bytes"), (0.25, "a quarter of them")]
    return [(bits / seen.weight_bits, f"{bits}-bit weights") for bits in (8, 4) if bits < seen.weight_bits]


def _gain(ratio: float, exponent: float | None) -> float:
    return ratio if exponent is None else gains.throughput_ratio(ratio, exponent)


def _tokens(ratio: float, exponent: float | None) -> str:
    """What that many times the batch means for tokens per second."""
    if exponent is None:
        return f"tokens/s at most {q.ratio(ratio)}, less as steps get longer"
    return f"tokens/s about {q.ratio(_gain(ratio, exponent))}, as steps have grown so far"


def _no_waste(seen: Symptoms) -> tuple[str, float | None]:
    share = useful_share(seen)
    bound = gains.utilisation_bound(share, seen.idle_share)
    if bound is None:
        return "not possible: useful tokens / (rows x steps) is not known", None
    parts = [] if share is None else [f"{q.percent(share)} of the row steps are useful"]
    parts += [] if seen.idle_share is None else [f"{q.percent(1 - seen.idle_share)} of the time is used"]
    return f"at most {q.ratio(bound)} tokens/s, as {' and '.join(parts)}", bound


def _drafted(seen: Symptoms) -> tuple[str, float | None]:
    acceptance, drafted, counted = _acceptance(seen)
    if acceptance is None or drafted is None:
        a, k, c = EXAMPLE
        example = f"{a} with {k} tokens at {c} of a step each would give {q.ratio(gains.speculation_ratio(a, k, c))} tokens/s"
        example += f", and {q.fixed(gains.break_even(k, c), 2)} would break even"
        return f"not possible: the acceptance or the number of drafted tokens is not known; for example {example}", None
    verify = 1.0 if seen.verify_cost_ratio is None else seen.verify_cost_ratio
    tokens = gains.tokens_per_step(acceptance, drafted)
    words = f"at an acceptance of {q.fixed(acceptance, 2)}{counted} {drafted} drafted tokens make {q.fixed(tokens, 2)} tokens a step"
    checked = "verifying taken for a plain step" if seen.verify_cost_ratio is None else f"verifying at {q.ratio(verify)} a plain step"
    if seen.draft_cost_ratio is None:
        bound = gains.speculation_ratio(acceptance, drafted, 0.0, verify)
        return f"{words}: at most {q.ratio(bound)} tokens/s, drafting not counted ({checked})", bound
    ratio = gains.speculation_ratio(acceptance, drafted, seen.draft_cost_ratio, verify)
    even = gains.break_even(drafted, seen.draft_cost_ratio, verify)
    edge = "no acceptance breaks even" if even is None else f"{q.fixed(even, 2)} breaks even"
    return f"{words}: {q.ratio(ratio)} tokens/s with a draft at {q.fixed(seen.draft_cost_ratio, 2)} of a step ({checked}; {edge})", ratio


def _acceptance(seen: Symptoms) -> tuple[float | None, int | None, str]:
    """The acceptance and the number of drafted tokens, as stated or as counters explain them."""
    if seen.acceptance_share is not None:
        return seen.acceptance_share, seen.draft_tokens, ""
    if seen.drafts and seen.drafted_tokens is not None and seen.accepted_tokens is not None:
        found = gains.acceptance_of(seen.accepted_tokens, seen.drafted_tokens, seen.drafts)
        if found is not None:
            said = f" ({q.count(seen.accepted_tokens)} of {q.count(seen.drafted_tokens)} drafted tokens were accepted)"
            return found, round(seen.drafted_tokens / seen.drafts), said
    return None, None, ""
