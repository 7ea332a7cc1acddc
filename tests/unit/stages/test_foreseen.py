"""What cannot pass is said before anything is measured, with the demand that it cannot meet, and nothing else is."""

from __future__ import annotations

from dataclasses import replace

from quantgate.forecasts import VariantForecast
from quantgate.records import CheckRule, Policy, Variant
from quantgate.stages.foreseen import Plan, notes

REFERENCE = Variant(name="float32", quantizer="reference", role="reference")
INT8 = Variant(name="int8", quantizer="bitsandbytes", weight_bits=8)
RTN4 = Variant(name="rtn4", quantizer="rtn", weight_bits=4)
QUALITY = CheckRule(kind="quality", margin=0.03)
FREED = CheckRule(kind="freed_share", minimum=0.25)
CEILING = CheckRule(kind="ceiling_ratio", minimum=1.5)
SPEED = CheckRule(kind="min_speed_ratio", minimum=1.0)


def policy(*checks: CheckRule, **fields: object) -> Policy:
    return replace(Policy(name="p", why="w", checks=(QUALITY, *checks), require="any"), **fields)  # type: ignore[arg-type]


def plan(*variants: Variant, most: int | None = None, why_not: str | None = None) -> Plan:
    """The reference takes 1,000 bytes and 10 a request, of 1,500; ``most`` is what was forecast of it, ``why_not`` of the others."""
    blank = VariantForecast(
        variant="", role="candidate", scheme="", why_not=why_not, weight_bytes=None, stored_bytes=None, kv_bytes_per_request=None,
        most_requests=None, stages=(),
    )  # fmt: skip
    reference = replace(
        blank, variant="float32", role="reference", why_not=None, weight_bytes=1000, most_requests=most, least_budget_bytes=1010
    )
    others = tuple((one, replace(blank, variant=one.name)) for one in variants)
    return Plan(variants=((REFERENCE, reference), *others), simulated={"rtn4"}, budget_bytes=1500, max_batch=16)


def said(found: Plan, asked: Policy) -> list[str]:
    return list(notes(found, asked))


def test_a_simulated_candidate_that_must_free_memory() -> None:
    """Named with each required demand that it never has a figure for; a control, an advisory demand and a variant not run are left out."""
    (one,) = said(plan(INT8, RTN4), policy(FREED, SPEED))
    assert one == (
        "rtn4: simulated, its rounded weights stay in float, so the required freed_share and min_speed_ratio are not measured: it cannot "
        "pass, and is scored as a floor for the others"
    )
    assert said(plan(INT8, RTN4), policy()) == []
    assert said(plan(INT8, RTN4), policy(replace(FREED, tier="advisory"))) == []
    assert said(plan(INT8, replace(RTN4, role="known_bad")), policy(FREED)) == []
    assert said(plan(INT8, RTN4, why_not="no"), policy(FREED)) == []


def test_what_is_only_scored_has_no_ceiling() -> None:
    """A packed variant of which only quality is asked frees memory, and has neither ceiling nor speed."""
    scored = replace(INT8, measure="quality")
    assert said(plan(RTN4, scored), policy(CEILING))[1].startswith("int8: only its quality is measured, so the required ceiling_ratio is")
    assert said(plan(scored), policy(FREED)) == []


def test_what_comes_of_it_for_the_others() -> None:
    """Where all must pass nothing goes out; a sequence stops there; where no candidate is left that is said."""
    assert "so nothing goes out" in said(plan(INT8, RTN4), policy(FREED, require="all"))[0]
    ordered = policy(FREED, correction="fixed_sequence", order=("rtn4", "int8"))
    assert said(plan(INT8, RTN4), ordered)[0].endswith("; the sequence stops there, before int8")
    assert said(plan(RTN4), policy(FREED))[-1] == "no candidate of this run can pass"


def test_a_reference_without_the_ceiling_that_is_asked_for() -> None:
    """At the search cap its ceiling is only a lower bound, and without room for a request there is none: no ratio can be taken."""
    (one,) = said(plan(INT8, most=16), policy(CEILING))
    assert "by arithmetic the reference holds 50 requests, and the search ends at 16" in one
    assert "its ceiling is >= 16, so the required ceiling_ratio is not measured: set workload.max_batch above 50" in one
    assert said(plan(INT8, most=15), policy(CEILING)) == said(plan(INT8, most=None), policy(CEILING)) == []
    assert said(plan(INT8, most=16), policy(SPEED, FREED)) == []
    (none,) = said(plan(INT8, most=0), policy(CEILING, SPEED))
    assert "the required ceiling_ratio and min_speed_ratio are not measured, and no candidate can pass" in none
