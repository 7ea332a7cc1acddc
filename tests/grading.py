"""Items and answers for tests of metrics."""

from __future__ import annotations

from typing import Any

from quantgate.ports import Metric
from quantgate.records import GoldenItem, ItemEvidence, ItemScore


def item(metric: str, **fields: Any) -> GoldenItem:
    """An item of a metric."""
    return GoldenItem(item_id="a", slice="s", prompt="p", metric=metric, **fields)


def wrote(text: str | None) -> ItemEvidence:
    """What a model wrote for it."""
    return ItemEvidence(item_id="a", text=text)


def score(metric: Metric, one: GoldenItem, text: str | None) -> ItemScore:
    """The item's score for a text."""
    return metric.score(one, wrote(text))


def value(metric: Metric, one: GoldenItem, text: str | None) -> float | None:
    """The item's value for a text."""
    return score(metric, one, text).value
