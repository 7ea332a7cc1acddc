"""The figure of each metric over a golden set: its items together, combined as the metric is. Shown, and no part of any decision.

Items of one metric with other options, such as another kind of ROUGE, are another figure. Weights are the shown mean's
alone: the paired rules count items, so a set whose weights differ is not decided on as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from quantgate.ports import Metric
from quantgate.records import GoldenItem, GoldenSet, ItemScore, MetricFigure, MetricInfo, Policy, ScoreSheet


def figures(
    golden: Sequence[GoldenItem], scores: Sequence[ItemScore], metrics: Mapping[str, Metric]
) -> tuple[MetricFigure, ...]:
    """One figure a metric, in the order in which the set first uses it."""
    by_info: dict[MetricInfo, tuple[Metric, list[ItemScore]]] = {}
    for item, score in zip(golden, scores, strict=True):
        metric = metrics[item.metric]
        by_info.setdefault(metric.info_of(item), (metric, []))[1].append(score)
    return tuple(
        MetricFigure(
            metric=info,
            value=metric.combine(found),
            items=len(found),
            scored=sum(one.value is not None for one in found),
            equal_weights=len({one.weight for one in found}) < 2,
        )
        for info, (metric, found) in by_info.items()
    )


def worth_showing(found: Sequence[MetricFigure]) -> bool:
    """Whether the figures say more than the share of right answers does."""
    return any(one.metric.scale != "binary" or not one.equal_weights for one in found)


def why_weighted(sheet: ScoreSheet, ids: Iterable[str]) -> str | None:
    """Why the paired rules cannot decide on these items: their weights differ. None where they are equal."""
    wanted = set(ids)
    return _unequal(item.weight for item in sheet.items if item.item_id in wanted)


def weight_fault(policy: Policy, goldens: Sequence[GoldenSet]) -> str | None:
    """A required quality check over items of unequal weight, told before anything is measured."""
    for rule in (one for one in policy.checks if one.kind == "quality" and one.tier == "required"):
        for golden in (one for one in goldens if rule.golden_set in ("*", one.name)):
            named = (golden.slices if name == "*" else (name,) for name in rule.slices)
            parts: list[str | None] = [one for names in named for one in names]
            for part in parts or [None]:
                reason = _unequal(item.weight for item in golden.items if part in (None, item.slice))
                if reason is not None:
                    return f"golden set {golden.name}{'' if part is None else f', slice {part}'}: {reason}"
    return None


def _unequal(weights: Iterable[float]) -> str | None:
    found = sorted(set(weights))
    if len(found) < 2:
        return None
    return (
        f"its items have weights from {found[0]:g} to {found[-1]:g}, and the paired rules count items; "
        "decide on slices of one weight each, or give all items the same"
    )
