"""What the metrics of a golden set say of its scores together: their scale, and which way they go."""

from __future__ import annotations

from collections.abc import Iterable

from quantgate.errors import EngineError
from quantgate.records import Better, MetricInfo, Scale


def stated(metrics: Iterable[MetricInfo]) -> tuple[Scale, Better]:
    """The scale and direction of a sheet whose items have these metrics; right or wrong beside graded scores is graded.

    Raises ``EngineError`` where they go both ways, or where only some have bounds: no mean of such scores says anything.
    """
    infos = list(metrics)
    ways: set[Better] = {"higher" if one.higher_is_better else "lower" for one in infos}
    scales: set[Scale] = {one.scale for one in infos}
    if len(ways) > 1 or ("unbounded" in scales and len(scales) > 1):
        kinds = (f"{one.name} ({one.scale}, {'higher' if one.higher_is_better else 'lower'} is better)" for one in infos)
        said = ", ".join(dict.fromkeys(kinds))
        raise EngineError(f"the golden set has metrics that cannot be judged together: {said}; give each kind a golden set of its own")
    scale: Scale = "unbounded" if "unbounded" in scales else "unit" if "unit" in scales else "binary"
    return scale, next(iter(ways), "higher")
