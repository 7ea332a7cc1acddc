"""What metrics say together of a sheet's scores."""

from __future__ import annotations

from typing import Any

import pytest

from quantgate.errors import EngineError
from quantgate.records import MetricInfo
from quantgate.stages.scales import stated


def metric(name: str = "m", **fields: Any) -> MetricInfo:
    known: dict[str, Any] = {"unit": "", "higher_is_better": True, "needs": "text", "definition": ""}
    return MetricInfo(name=name, **{**known, **fields})


@pytest.mark.parametrize(
    ("metrics", "found"),
    [
        ([metric()], ("binary", "higher")),
        ([metric(), metric(scale="unit")], ("unit", "higher")),
        ([metric(scale="unbounded", higher_is_better=False)], ("unbounded", "lower")),
        ([], ("binary", "higher")),
    ],
)
def test_metrics_of_one_kind_have_one_scale_and_direction(metrics: list[MetricInfo], found: tuple[str, str]) -> None:
    """Right or wrong beside graded is graded."""
    assert stated(metrics) == found


@pytest.mark.parametrize("other", [{"higher_is_better": False}, {"scale": "unbounded"}])
def test_metrics_that_cannot_be_judged_together(other: dict[str, Any]) -> None:
    """Two directions, or bounds for some only, are refused before anything is scored, with their names."""
    with pytest.raises(EngineError, match=r"cannot be judged together: one .* two"):
        stated([metric("one"), metric("two", **other)])


def test_each_kind_is_named_once() -> None:
    """A set of many items says its two kinds, not all its items."""
    with pytest.raises(EngineError) as caught:
        stated([metric("one")] * 30 + [metric("two", scale="unbounded")] * 30)
    assert str(caught.value).count("one (") == str(caught.value).count("two (") == 1
