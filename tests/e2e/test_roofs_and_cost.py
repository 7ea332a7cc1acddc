"""Roofs, costs and budgets through the whole chain on fakes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from chain import CONTROL, REFERENCE, Chain, candidate, policy, report_of, verdicts_of
from quantgate.records import Roofs
from quantgate.stages import roof

PRICED = {"kind": "fake", "threads": 1, "memory_budget": "450MB", "price_per_hour": 2.5, "currency": "EUR"}
BUDGET = {"owner": "A. Berg", "max_cost_per_million_tokens": 0.001}


def _row(chain: Chain, variant: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in report_of(chain.last)["measurements"] if one["variant"] == variant)
    return found


def test_a_run_measures_roofs_once_and_compares_every_batch(chain: Chain) -> None:
    """Evidence holds the device's rates; each timed batch of both variants has its share of the scripted 50 GB/s; a price makes costs."""
    done = chain.run(device=PRICED, budget=BUDGET)
    assert done.code == 0, done.err
    evidence = json.loads((chain.last / "evidence.json").read_text(encoding="utf-8"))["body"]
    assert [round(one["per_s"][0] / 1e9) for one in evidence["roofs"]["reads"]] == [50]
    assert evidence["price"] == {"per_hour": 2.5, "currency": "EUR"}
    for name in ("float32", "int8"):
        rows = _row(chain, name)["roofline"]
        assert [one["batch_size"] for one in rows] == [one["batch_size"] for one in _row(chain, name)["speed"]]
        assert all(0 < one["mbu"] < 1 and one["fault"] is None for one in rows)
    assert _row(chain, "int8")["cost"]["currency"] == "EUR" and _row(chain, "int2")["cost"]["why_not"]
    assert "EUR per M tokens" in done.out
    assert "the budget of A. Berg allows 0.001 EUR" in done.out
    again = chain.cli("judge", chain.last.name, "--policy", chain.root / "policy.yaml", "--reports", chain.reports)
    assert again.code == 0, again.err


def test_a_price_measures_nothing_again(chain: Chain) -> None:
    """Only speed, which is never used again, is measured anew when the price changes."""
    assert chain.run().code == 0
    assert chain.run(device=PRICED).code == 0
    assert {"load", "capacity", "score sums"} <= set(_row(chain, "int8")["reused"])


def test_a_speed_above_the_roof_is_refused(chain: Chain) -> None:
    """130 MB a step in a tenth of a millisecond is no speed of this device: the variant is not measured, with the reason."""
    fast = candidate(step_s=0.0001)
    done = chain.run(variants=[REFERENCE, fast, CONTROL])
    assert done.code == 4
    assert verdicts_of(chain.last)["int8"] == "not_measured"
    failure = _row(chain, "int8")["failures"][0]
    assert failure["kind"] == "OverRoof" and failure["stage"] == "time"
    assert "times the measured roof" in failure["message"] and "a measuring fault" in failure["message"]
    assert _row(chain, "int8")["speed"] == [] and _row(chain, "int8")["tokens_per_s_at_ceiling"] is None


def test_a_machine_that_was_busy_is_measured_again(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """Roofs that come out a thousand times too low at first are measured again before a speed is refused."""
    measured, calls = roof.measure, []

    def busy_at_first(*asked: Any) -> Roofs:
        calls.append(asked)
        found = measured(*asked)
        slow = tuple(replace(one, per_s=tuple(rate / 1000 for rate in one.per_s)) for one in found.reads)
        return replace(found, reads=slow) if len(calls) == 1 else found

    monkeypatch.setattr(roof, "measure", busy_at_first)
    done = chain.run()
    assert done.code == 0, done.err
    assert len(calls) == 2
    assert "measured again, in case the machine was busy" in done.err
    assert all(one["fault"] is None and one["mbu"] < 1 for one in _row(chain, "int8")["roofline"])


def test_a_policy_may_ask_for_costs(chain: Chain) -> None:
    """Half the reference's cost is more than this variant saves; without a price the demand is refused before anything is measured."""
    checks = [*policy()["checks"], {"kind": "cost_ratio", "maximum": 0.5}]
    chain.policy(checks=checks)
    assert chain.run(device=PRICED).code == 1
    refused = chain.run()
    assert refused.code == 2 and "cost_ratio needs the device's price" in refused.err


def test_a_budget_without_a_price_is_a_mistake_of_the_config(chain: Chain) -> None:
    """One line with file, line and what to do; nothing is measured."""
    done = chain.run(budget=BUDGET)
    assert done.code == 2
    assert "a budget needs the device's price: add 'price_per_hour' under 'device'" in done.err
    assert not chain.runs
