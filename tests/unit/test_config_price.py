"""Price, currency and budget of a config, and the limits on cost of a policy."""

from __future__ import annotations

from typing import Any

import pytest

from chain import Chain, policy
from quantgate.config import load_policy, load_run
from quantgate.errors import ConfigError
from quantgate.records import Budget, CheckRule, DeviceConfig, Price

DEVICE = {"kind": "fake", "threads": 1, "memory_budget": "450MB"}
BUDGET = {"owner": "A. Berg", "max_cost_per_million_tokens": 1.5}


def test_a_price_and_a_budget_are_read(chain: Chain) -> None:
    """A whole number is a price too; the device's own settings, which results are kept under, stay as they were."""
    plain = load_run(chain.config()).device
    found = load_run(chain.config(device={**DEVICE, "price_per_hour": 2, "currency": "EUR"}, budget=BUDGET))
    assert found.price == Price(per_hour=2.0, currency="EUR")
    assert found.budget == Budget(owner="A. Berg", max_cost_per_million_tokens=1.5)
    assert found.device == plain == DeviceConfig(kind="fake", threads=1, memory_budget_bytes=450_000_000)
    assert load_run(chain.config(device={**DEVICE, "price_per_hour": 2.49})).price == Price(per_hour=2.49, currency="USD")
    assert load_run(chain.config()).price is None


@pytest.mark.parametrize(
    ("device", "budget", "said"),
    [
        ({"price_per_hour": 0}, None, "device.price_per_hour: must be greater than 0; found 0"),
        ({"price_per_hour": "2.49 USD"}, None, "device.price_per_hour: expected a number; found '2.49 USD'"),
        ({"price_per_hour": 2.49, "currency": "euro"}, None, "a currency is its three capital letters, for example EUR; found 'euro'"),
        ({"currency": "EUR"}, None, "'currency' is for 'price_per_hour'; add the price, or leave the currency out"),
        ({"price_per_hours": 2.49}, None, "unknown key 'price_per_hours': did you mean 'price_per_hour'?"),
        ({}, BUDGET, "a budget needs the device's price: add 'price_per_hour' under 'device', for example price_per_hour: 2.49"),
        ({"price_per_hour": 1}, {**BUDGET, "owner": " "}, "budget.owner: must not be empty"),
        ({"price_per_hour": 1}, {"owner": "A. Berg"}, "key 'budget.max_cost_per_million_tokens' is missing"),
        ({"price_per_hour": 1}, {**BUDGET, "max_cost_per_million_tokens": -1}, "must be greater than 0; found -1"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(chain: Chain, device: dict[str, Any], budget: dict[str, Any] | None, said: str) -> None:
    """File, line, what was found and what is allowed."""
    given = {"device": {**DEVICE, **device}} | ({} if budget is None else {"budget": budget})
    with pytest.raises(ConfigError) as error:
        load_run(chain.config(**given))
    assert said in str(error.value) and ":" in str(error.value) and "\n" not in str(error.value)


def _policy(chain: Chain, **check: Any) -> Any:
    return load_policy(chain.policy("cost.yaml", checks=[*policy()["checks"], check]))


@pytest.mark.parametrize("kind", ["cost_ratio", "cost_per_million_tokens"])
def test_a_limit_on_cost_is_a_maximum(chain: Chain, kind: str) -> None:
    """Both kinds take ``maximum`` and nothing else; without a required quality check neither is a policy."""
    assert _policy(chain, kind=kind, maximum=1.25).checks[-1] == CheckRule(kind=kind, maximum=1.25)
    both: dict[str, float] = {"maximum": 1, "minimum": 0.1}
    for wrong, said in (({}, f"a check of kind {kind} needs 'maximum'"), (both, f"a check of kind {kind} has no 'minimum'")):
        with pytest.raises(ConfigError, match=said):
            _policy(chain, kind=kind, **wrong)
    with pytest.raises(ConfigError, match="a cost is greater than 0, so nothing could pass; found 0"):
        _policy(chain, kind=kind, maximum=0)
    with pytest.raises(ConfigError, match="none can pass one alone"):
        load_policy(chain.policy("cost.yaml", checks=[{"kind": kind, "maximum": 1}]))


def test_a_required_check_on_cost_needs_a_price(chain: Chain) -> None:
    """Without one the run could only end as not measured: the policy's line is named. An advisory check is shown as not measured."""
    for tier in ("required", "advisory"):
        chain.policy(checks=[*policy()["checks"], {"kind": "cost_ratio", "maximum": 1.0, "tier": tier}])
        assert load_run(chain.config(device={**DEVICE, "price_per_hour": 2})).price is not None
        if tier == "advisory":
            assert load_run(chain.config()).price is None
            continue
        with pytest.raises(ConfigError, match=r"policy\.yaml:\d+: cost_ratio needs the device's price: give the config 'price_per_hour'"):
            load_run(chain.config())
