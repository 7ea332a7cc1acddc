"""Evidence -> which limit binds -> which lever fits. Pure; it abstains rather than guess.

There is a memory limit, a utilisation limit, a decode-step limit and an arithmetic limit, and a lever for three of them.

- memory-bound: memory ran out, and compute has room.
- utilisation-bound: row steps or time are wasted, and requests wait.
- decode-step-bound: few rows run, no more are to come, and a step takes about one read of the weights.
- compute-bound: arithmetic is near its peak.

Several may hold at once. The one that hides the others goes first: wasted rows hold memory and arithmetic that nobody
needs, arithmetic at its peak leaves nothing to gain from room, and a single stream gains nothing from room either.
Contradicting evidence, or none for any limit, is an abstention with the measurement that would decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from quantgate import limits, thresholds
from quantgate.advice import Case, advise
from quantgate.contradictions import contradictions
from quantgate.render import quantities as q
from quantgate.symptoms import Advice, Contradiction, Diagnosis, Limit, Rule, State, Symptoms, Trial, refuse

ORDER: tuple[Limit, ...] = ("utilisation-bound", "compute-bound", "decode-step-bound", "memory-bound")
"""Which goes first where several bind."""
WASTES = ("row steps are wasted", "the device idles")
"""Rules of which one is enough."""
_VERBS = {"quantization": "quantizing", "continuous batching": "continuous batching", "speculative decoding": "speculative decoding"}


def diagnose(seen: Symptoms, trials: Sequence[Trial] = (), notes: Sequence[str] = ()) -> Diagnosis:
    """The diagnosis of what was seen; ``trials``: levers that were measured. Raises ``UsageError`` for a value that nothing can have."""
    refuse(seen)
    rules = tuple(rule(seen) for rule in limits.RULES)
    against = tuple(contradictions(seen))
    found = _found({rule.name: rule.state for rule in rules})
    shown = () if against else tuple(one for one in ORDER if found[one] == "fired")
    limit: Limit = shown[0] if shown else "abstain"
    states = {rule.name: rule.state for rule in rules}
    levers = advise(Case(seen=seen, limit=limit, also=shown[1:], states=states, trials=tuple(trials)))
    wanted = () if shown else tuple(dict.fromkeys(_wanted(seen, rules, found, against)))
    said = {rule.name: rule.because for rule in rules}
    why = _why_not(seen, rules, found, against)
    return Diagnosis(
        limit=limit,
        sentence=f"Which limit binds cannot be told: {why}. Measure {wanted[0]}." if not shown else _sentence(limit, said, states),
        line=f"not told, as {why}; measure {wanted[0]}." if not shown else _line(seen, limit, levers),
        also=shown[1:],
        symptoms=seen,
        rules=rules,
        contradictions=against,
        wanted=wanted,
        levers=levers,
        thresholds=thresholds.ALL,
        notes=tuple(notes),
    )


# ---------------------------------------------------------------------------------------------- which limit


def _found(states: Mapping[str, State]) -> dict[Limit, State]:
    """The state of each limit, from those of its rules."""
    wasted = _any(*(states[name] for name in WASTES))
    return {
        "memory-bound": _all(states["memory ran out"], states["compute has room"]),
        "utilisation-bound": _all(wasted, states["requests wait"]),
        "decode-step-bound": _all(states["few rows, and no more to come"], states["a step is near the weight-read floor"]),
        "compute-bound": states["compute is near its peak"],
    }


def _all(*states: State) -> State:
    return "not fired" if "not fired" in states else "not known" if "not known" in states else "fired"


def _any(*states: State) -> State:
    return "fired" if "fired" in states else "not known" if "not known" in states else "not fired"


def _why_not(seen: Symptoms, rules: Sequence[Rule], found: Mapping[Limit, State], against: Sequence[Contradiction]) -> str:
    """Why it abstains."""
    if against:
        return f"the evidence contradicts itself ({against[0].because})"
    closest = next(iter(_open(seen, rules, found)), None)
    return "none of the limits shows" if closest is None else closest.because


def _open(seen: Symptoms, rules: Sequence[Rule], found: Mapping[Limit, State]) -> list[Rule]:
    """Rules that might still show a limit, those of the limit with the most shown already first.

    A counter near its peak shows arithmetic or waiting for memory: one figure tells which, so it goes before what needs several.
    """
    busy = (seen.compute_utilisation_share or 0) >= thresholds.PEAK_UTILISATION.value
    undecided = [one for one in reversed(ORDER) if found[one] == "not known"]
    shown = {one: sum(rule.state == "fired" for rule in rules if rule.limit == one) for one in undecided}
    undecided.sort(key=lambda one: (-shown[one], not (busy and one == "compute-bound")))
    fired = {rule.name for rule in rules if rule.state == "fired"}
    spared = {other for one, other in (WASTES, WASTES[::-1]) if one in fired}
    return [rule for one in undecided for rule in rules if rule.limit == one and rule.state == "not known" and rule.name not in spared]


def _wanted(seen: Symptoms, rules: Sequence[Rule], found: Mapping[Limit, State], against: Sequence[Contradiction]) -> Iterator[str]:
    """Measurements that would decide, the most telling first."""
    if against:
        yield from (one.wanted for one in against)
        return
    undecided = _open(seen, rules, found)
    yield from (rule.wanted for rule in undecided)
    if not undecided:
        yield from _elsewhere(seen, {rule.name: rule.state for rule in rules})


def _elsewhere(seen: Symptoms, states: Mapping[str, State]) -> Iterator[str]:
    """Where to look when no limit shows."""
    if states["requests wait"] == "fired" and states["memory ran out"] == "not fired":
        yield "again with a higher cap on running requests: they wait although memory has room, so a setting holds them up"
    if states["few rows, and no more to come"] == "fired":
        yield "a profile of one step: what takes the time beyond reading the weights (launches, the host, dequantization)"
    if states["memory ran out"] == "fired":
        yield "MFU and MBU at the largest batch: whether arithmetic or reading the caches fills the step"
    yield "at a higher load, until requests wait or a batch does not fit"


# ---------------------------------------------------------------------------------------------- in words


def _sentence(limit: Limit, said: Mapping[str, str], states: Mapping[str, State]) -> str:
    match limit:
        case "memory-bound":
            why = f"{said['memory ran out']}, while {said['compute has room']}"
            return f"We are memory-bound, not compute-bound, so quantize to free KV room before adding GPUs: {why}."
        case "utilisation-bound":
            shown = [said[name] for name in WASTES if states[name] == "fired"]
            why = f"{' and '.join(shown)}, while {said['requests wait']}"
            return f"We are utilisation-bound, so batch continuously before adding GPUs: {why}."
        case "decode-step-bound":
            why = f"{said['few rows, and no more to come']}, and {said['a step is near the weight-read floor']}"
            return f"We are bound by the decode step, so draft tokens and let one read of the weights check several: {why}."
        case _:
            why = said["compute is near its peak"]
            instead = "a smaller or sparser model does, or more devices"
            return f"We are compute-bound, and none of the three levers lifts that; {instead}: {why}."


def _line(seen: Symptoms, limit: Limit, levers: Sequence[Advice]) -> str:
    batch = limits.fits(seen)
    where = "" if batch is None or limit == "decode-step-bound" else f" at batch {q.count(batch)}"
    room = " with compute to spare" if limit == "memory-bound" else ""
    fitting = [f"{_VERBS[one.lever]} fits{f' ({one.short})' if one.short else ''}" for one in levers if one.fit == "fits"]
    others = [f"{_VERBS[one.lever]} does not ({one.short})" for one in levers if one.fit == "does not fit"]
    if limit == "compute-bound":
        return f"compute-bound{where}; no lever fits, a smaller or sparser model or more devices do."
    return f"{limit}{where}{room}; {', '.join([*fitting, *others])}."
