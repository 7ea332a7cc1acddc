"""The serving levers that a config asks for beside quantization."""

from __future__ import annotations

from dataclasses import dataclass

from quantgate.records.batching import BatchingConfig
from quantgate.records.speculation import SpeculationConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class Levers:
    """What a run tries besides quantization; None: not tried."""

    batching: BatchingConfig | None = None
    speculation: SpeculationConfig | None = None
