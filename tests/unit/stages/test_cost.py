"""What output tokens cost: the best batch at or under the ceiling, prompts paid for, and nothing where price or speed is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evidence import candidate, evidence, known_bad, policy, reference
from quantgate.records import Budget, CheckRule, Decision, Evidence, Price, VariantEvidence
from quantgate.stages.cost import cost, cost_per_million
from quantgate.stages.gate import judge
from speeds import OUTPUT, PRICE, ROOFS, generation, loaded, timed

RATIO = CheckRule(kind="cost_ratio", maximum=1.2)
PER_MILLION = CheckRule(kind="cost_per_million_tokens", maximum=1.5)


def _tokens_per_s(batch: int, step_s: float) -> float:
    return batch * OUTPUT / (0.1 + 0.12 * batch + (OUTPUT - 1) * step_s)


def test_a_price_and_a_rate_make_a_cost() -> None:
    """3.60 an hour at 100 tokens/s: 360,000 tokens, 10 for a million."""
    assert cost_per_million(3.6, 100.0) == pytest.approx(10.0)


def test_the_batch_with_the_most_tokens_counts_and_prompts_are_paid_for() -> None:
    """Float32 is best at batch 11, with the time of its prompts in the rate; 0.40 EUR an hour over it."""
    found = cost(timed("float32"), timed("float32"), PRICE)
    rate = _tokens_per_s(11, 0.112)
    assert found is not None and found.batch_size == 11
    assert found.output_tokens_per_s == pytest.approx(rate)
    assert found.per_million_tokens == pytest.approx(0.4 / (rate * 3600) * 1e6)
    assert found.tokens_per_unit == pytest.approx(rate * 3600 / 0.4)
    assert found.currency == "EUR"


def test_a_smaller_batch_may_be_the_best() -> None:
    """A step of 1 s at batch 8 makes batch 4 the better one, though 8 fits."""
    found = cost(timed("int8", {4: 0.062, 8: 1.0}), timed("float32"), PRICE)
    assert found is not None and found.batch_size == 4


def test_batches_above_the_ceiling_cost_nothing_that_counts() -> None:
    """The ceiling is 2: what was timed at 8 is left out."""
    found = cost(timed("int8", {1: 0.03, 8: 0.04}, ceiling=2), timed("float32"), PRICE)
    assert found is not None and found.batch_size == 1


def test_other_workloads_do_not_make_tokens_cheaper() -> None:
    """A short workload at batch 8, twice as fast, and a batch that stopped early: the cost stays that of the run's own lengths."""
    one = timed("int8", {8: 0.110})
    assert one.speed is not None
    quick = replace(generation(8, 0.055, ttft_s=0.01), workload="short", prompt_tokens=8)
    early = generation(8, 0.001, produced=8)
    mixed = replace(one, speed=replace(one.speed, generations=(*one.speed.generations, quick, quick, early)))
    assert cost(mixed, timed("float32"), PRICE) == cost(one, timed("float32"), PRICE)


def test_the_ratio_is_over_the_references_own_best_batch() -> None:
    """Int8 at 21 against float32 at 11; the reference has no ratio to itself."""
    base = timed("float32")
    found, own = cost(timed("int8"), base, PRICE), cost(base, base, PRICE)
    assert found is not None and own is not None
    assert found.ratio_to_reference == pytest.approx(_tokens_per_s(11, 0.112) / _tokens_per_s(21, 0.250))
    assert own.ratio_to_reference is None


def test_without_price_or_speed_there_is_no_cost() -> None:
    """No price: no row at all. No ceiling or no timing: a row with the reason."""
    one = timed("int8")
    assert cost(one, one, None) is None
    for broken, why in ((replace(one, capacity=None), "ceiling"), (replace(one, speed=None), "no batch")):
        found = cost(broken, timed("float32"), PRICE)
        assert found is not None and found.per_million_tokens is None and why in (found.why_not or "")


# ---------------------------------------------------------------------------------------------- checks


def _with_speed(one: VariantEvidence, name: str) -> VariantEvidence:
    made = timed(name)
    return replace(one, capacity=made.capacity, speed=made.speed)


def _evidence(price: Price | None, budget: Budget | None = None) -> Evidence:
    found = evidence(_with_speed(reference(), "float32"), _with_speed(candidate(), "int8"), known_bad())
    return replace(found, price=price, budget=budget)


def _decided(found: Evidence, *rules: CheckRule) -> Decision:
    return judge(found, policy(CheckRule(kind="quality", margin=0.05), *rules), policy_sha256="p", evidence_sha256="e")


def _check(decision: Decision, name: str):  # type: ignore[no-untyped-def]
    return next(one for verdict in decision.verdicts for one in verdict.checks if one.name == name)


def test_the_ratio_of_costs_may_block() -> None:
    """Int8 costs 1.14 times as much: allowed up to 1.2, refused from 1.1 on."""
    assert _check(_decided(_evidence(PRICE), RATIO), "cost/ratio").outcome == "pass"
    found = _check(_decided(_evidence(PRICE), replace(RATIO, maximum=1.1)), "cost/ratio")
    assert found.outcome == "fail"
    assert found.because == "costs 1.14 times what the reference does for an output token, each at its best batch; at most 1.1x is allowed"


def test_the_cost_of_a_million_tokens_may_block() -> None:
    """1.52 EUR over an allowed 1.5: rounded up, so that it never seems to meet the limit."""
    found = _check(_decided(_evidence(PRICE), PER_MILLION), "cost/per_million_tokens")
    assert found.outcome == "fail"
    assert found.because == "costs 1.52 EUR for a million output tokens at batch 21; at most 1.5 is allowed"
    assert _check(_decided(_evidence(PRICE), replace(PER_MILLION, maximum=1.6)), "cost/per_million_tokens").outcome == "pass"


@pytest.mark.parametrize("rule", [RATIO, PER_MILLION])
def test_a_demand_on_cost_without_a_price_is_not_measured(rule: CheckRule) -> None:
    """What the policy asks for and the run does not know never passes."""
    decided = _decided(_evidence(None), rule)
    assert decided.outcome == "not_measured"
    assert "price_per_hour" in decided.verdicts[1].because


def test_a_reference_that_was_not_timed_has_no_ratio() -> None:
    """Nor is a cost compared over other lengths or another device."""
    found = _evidence(PRICE)
    base, one, *_ = found.variants
    untimed = replace(found, variants=(replace(base, speed=None), one))
    assert _check(_decided(untimed, RATIO), "cost/ratio").outcome == "not_measured"
    assert one.capacity is not None
    other = replace(found, variants=(base, replace(one, capacity=replace(one.capacity, output_tokens=7))))
    assert "not comparable" in _check(_decided(other, RATIO), "cost/ratio").because


def test_a_budget_is_tracked_with_its_owner_and_decides_nothing() -> None:
    """Over budget: an advisory fail that names who owns it, and the candidate passes all the same."""
    budget = Budget(owner="A. Berg", max_cost_per_million_tokens=1.2)
    decided = _decided(_evidence(PRICE, budget))
    found = _check(decided, "cost/budget")
    assert (found.tier, found.outcome) == ("advisory", "fail")
    assert found.because == "costs 1.52 EUR for a million output tokens; the budget of A. Berg allows 1.2 EUR"
    assert decided.outcome == "pass"
    kept = _check(_decided(_evidence(PRICE, replace(budget, max_cost_per_million_tokens=2.0))), "cost/budget")
    assert kept.outcome == "pass"


def test_a_budget_over_an_unknown_cost_is_not_measured() -> None:
    """And says so beside its owner's name."""
    budget = Budget(owner="A. Berg", max_cost_per_million_tokens=1.2)
    found = _evidence(PRICE, budget)
    untimed = replace(found, variants=(found.variants[0], replace(found.variants[1], speed=None)))
    check = _check(_decided(untimed), "cost/budget")
    assert check.outcome == "not_measured" and "A. Berg" in check.because


def test_generations_without_tokens_or_time_are_left_out() -> None:
    """No rate of zero and no division by it."""
    one = timed("int8", {1: 0.03})
    assert one.speed is not None
    empty = replace(generation(1, 0.03), produced_tokens=0)
    found = cost(replace(one, speed=replace(one.speed, generations=(empty,))), one, PRICE)
    assert found is not None and found.per_million_tokens is None


def test_a_speed_above_the_roof_makes_no_token_cheap() -> None:
    """A stored batch 21 in a step of a millisecond cannot be: the cost is that of the best batch that can."""
    found = _evidence(PRICE)
    base, one, *_ = found.variants
    assert one.speed is not None
    wrong = tuple(each if each.batch_size != 21 else generation(21, 0.001) for each in one.speed.generations)
    facts = replace(loaded("int8"), weights_sha256="ab" * 32)
    fast = replace(found, roofs=ROOFS, variants=(base, replace(one, loaded=facts, speed=replace(one.speed, generations=wrong))))
    left = tuple(each for each in one.speed.generations if each.batch_size != 21)
    best = cost(replace(one, speed=replace(one.speed, generations=left)), base, PRICE)
    assert best is not None
    assert _check(_decided(fast, PER_MILLION), "cost/per_million_tokens").estimate == best.per_million_tokens
