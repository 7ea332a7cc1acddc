"""Whatever is seen: a diagnosis is made or withheld, and one that is withheld recommends nothing and wants something."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings, strategies as st

from quantgate.diagnosis import diagnose
from quantgate.render.diagnosis import text
from quantgate.rundir import encode
from quantgate.symptoms import FIELDS, Symptoms, Timing

STRATEGIES = {
    "bytes": st.integers(1, 10**12),
    "rate": st.floats(1e-3, 1e15),
    "share": st.one_of(st.floats(0, 1), st.sampled_from((0.0, 0.3, 0.5, 0.6, 0.7, 0.85, 0.9, 1.0))),
    "count": st.integers(0, 10**9),
    "rows": st.integers(1, 10**6),
    "seconds": st.floats(1e-9, 1e6),
    "ratio": st.floats(0, 1e3),
    "cost": st.floats(1e-3, 1e3),
    "flag": st.booleans(),
}


@st.composite
def symptoms(draw: st.DrawFn) -> Symptoms:
    """Any that are not refused: parts no larger than their wholes."""
    found = {one.attribute: draw(st.none() | STRATEGIES[one.kind]) for one in FIELDS}
    for part, whole in (("memory_used_bytes", "memory_total_bytes"), ("useful_tokens", "row_steps"), ("accepted_tokens", "drafted_tokens")):
        if found[part] is not None and found[whole] is not None:
            found[part] = min(found[part], found[whole])
    batches = sorted(draw(st.sets(st.integers(1, 1000), max_size=4)))
    return Symptoms(**found, timings=tuple(Timing(batch=batch, step_s=draw(STRATEGIES["seconds"])) for batch in batches))


@settings(max_examples=120, deadline=None)
@given(symptoms())
def test_it_never_breaks_and_never_guesses(seen: Symptoms) -> None:
    """An abstention wants a measurement and recommends nothing; a limit wants none, rests on a fired rule, and nothing contradicts it."""
    found = diagnose(seen)
    assert text(found) and encode(found)  # which takes no infinity
    if found.limit == "abstain":
        assert found.wanted and not found.also and {one.fit for one in found.levers} == {"not known"}
    else:
        assert not found.wanted and not found.contradictions
        assert any(one.state == "fired" for one in found.rules if one.limit == found.limit)
        assert {one.fit for one in found.levers} <= {"fits", "does not fit", "not known"}


@settings(max_examples=60, deadline=None)
@given(symptoms(), st.integers(2, 1000))
def test_the_size_of_the_device_does_not_matter(seen: Symptoms, times: int) -> None:
    """Every byte, and the bandwidth, so many times over: the same limit."""
    scaled = {one.attribute: value * times for one in FIELDS if one.kind in ("bytes", "rate") and (value := getattr(seen, one.attribute))}
    assert diagnose(replace(seen, **scaled)).limit == diagnose(seen).limit
