"""Any metric of the ``evaluate`` library, by local path or by name.

Nothing is guessed: which of its results counts (``key``), its direction and its scale stand in the item. A metric is
code that runs, so it is pinned: a script by its digest, which is verified when the golden set is read, a name by its
revision, which the library looks up on the hub.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from pathlib import Path
from typing import Any

import evaluate

from quantgate.golden_keys import BUILT_IN
from quantgate.metrics.scored import Grade
from quantgate.metrics.text import TextMetric, option
from quantgate.records import GoldenItem, ItemScore, MetricInfo


class Library(TextMetric):
    """The metric computed on one item at a time; over a set, the weighted mean of the items'.

    An item's score is turned where lower is better, so that larger is always better: 1 - x on the scales binary and unit, -x on unbounded.
    The figure of the set is in the metric's own direction.
    """

    info = MetricInfo(
        name="library",
        unit="the library's own",
        higher_is_better=True,
        needs="text",
        scale="unbounded",
        definition="a metric of the evaluate library, an item at a time, combined as a mean",
    )
    keys = BUILT_IN["library"]

    def __init__(self) -> None:
        self._loaded: dict[tuple[str, str], Any] = {}

    def info_of(self, item: GoldenItem) -> MetricInfo:
        """The metric that the item names, with the direction and the scale that it declares."""
        key, direction, scale = (str(item.options.get(one)) for one in ("key", "direction", "scale"))
        source = _source(item)
        return MetricInfo(
            name=f"library {Path(source).stem}: {key}",
            unit="the library's own",
            higher_is_better=True,
            needs="text",
            scale=_SCALES[scale],
            figure_lower_is_better=direction == "lower",
            definition=(
                f"{key} of the evaluate metric {Path(source).stem}, an item at a time; {direction} is better, scale {scale}; "
                "the set: weighted mean"
            ),
        )

    def why_unfit(self, item: GoldenItem) -> str | None:
        """Not exactly one of name and path, or a metric that cannot be loaded."""
        if ("name" in item.options) == ("path" in item.options):
            return "options: give one of name and path"
        if "name" in item.options and "revision" not in item.options:
            return "options.revision: missing; a metric by name is code from the hub and needs the commit it is taken at"
        try:
            self._metric(item)
        except Exception as error:  # a script of somebody else's: whatever it raises, the item cannot be scored
            first = (str(error).splitlines() or [""])[0]
            return f"options: the evaluate metric {_source(item)} cannot be loaded: {type(error).__name__}: {first}"
        return None

    def grade(self, item: GoldenItem, text: str) -> Grade:
        """Compute it. A result that is missing, not finite, or outside the declared scale raises ``ValueError``."""
        arguments: dict[str, Any] = {"predictions": [text]}
        if item.references:
            listed = option(item, "references_as") == "list"
            arguments["references"] = [list(item.references) if listed else item.references[0]]
        value = _number(item, self._metric(item).compute(**arguments))
        turned = value if item.options["direction"] == "higher" else -value if _unbounded(item) else 1 - value
        return Grade(value=turned, answered=text.strip(), expected=self.expected(item), parts=(value,))

    def combine(self, items: Sequence[ItemScore]) -> float | None:
        """Weighted mean, in the metric's own direction."""
        found = [item for item in items if item.value is not None]
        total = sum(item.weight for item in found)
        return sum(item.weight * item.parts[0] for item in found) / total if found else None

    def _metric(self, item: GoldenItem) -> Any:
        source, config = _source(item), str(item.options.get("config", ""))
        if (source, config) not in self._loaded:
            revision = item.options.get("revision")
            self._loaded[source, config] = evaluate.load(source, config or None, revision=revision)
        return self._loaded[source, config]


_SCALES: dict[str, Any] = {one: one for one in ("binary", "unit", "unbounded")}


def _source(item: GoldenItem) -> str:
    return str(item.options.get("path") or item.options.get("name"))


def _unbounded(item: GoldenItem) -> bool:
    return item.options["scale"] == "unbounded"


def _number(item: GoldenItem, results: Any) -> float:
    """The result that counts, checked against what the item declares."""
    key, what = str(item.options["key"]), f"item {item.item_id!r}: the evaluate metric {_source(item)}"
    if not isinstance(results, dict) or key not in results:
        known = ", ".join(map(str, results)) if isinstance(results, dict) else type(results).__name__
        raise ValueError(f"{what} has no result {key!r}; it has {known}")
    value = results[key]
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ValueError(f"{what} gave {value!r} for {key!r}, expected one finite number")
    found = float(value)
    scale = item.options["scale"]
    if (scale == "binary" and found not in (0.0, 1.0)) or (scale == "unit" and not 0 <= found <= 1):
        allowed = "0 or 1" if scale == "binary" else "0 to 1"
        raise ValueError(f"{what} gave {found!r} for {key!r}; its scale is declared as {scale}, which allows {allowed}")
    return found
