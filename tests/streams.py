"""Requests, streams and runs of the batching lever by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from quantgate.devices.fake import FakeDevice
from quantgate.levers.fake import FakeStream
from quantgate.records import (
    Arrivals,
    BatchingMode,
    BatchingRun,
    FirstDifference,
    Request,
    ServedRequest,
    ServingSettings,
    Step,
)
from quantgate.stages.batching import Job


def request(index: int, output: int, prompt: int = 4) -> Request:
    """One of so many tokens, whose ends of sequence are suppressed."""
    return Request(request_id=f"r{index + 1}", tokens=tuple(range(10, 10 + prompt)), max_new_tokens=output, min_new_tokens=output)


def job(outputs: Sequence[int], *, rows: int, mode: BatchingMode = "static", **changes: Any) -> Job:
    """A run of requests with these output lengths, all at once unless told otherwise."""
    requests = tuple(request(index, output) for index, output in enumerate(outputs))
    values: dict[str, Any] = {
        "variant": "float32",
        "engine": "fake",
        "mode": mode,
        "arrivals": Arrivals(),
        "arrives_s": (0.0,) * len(outputs),
        "requests": requests,
        "rows": rows,
        "time_cap_s": 1000.0,
    }
    return Job(**{**values, **changes})


def stream(device: FakeDevice, *, rows: int, **script: Any) -> FakeStream:
    """A scripted engine whose step takes a second, and as much more as rows run."""
    settings = ServingSettings(rows=rows, context_tokens=64, prompt_tokens=8)
    return FakeStream({"step_s": 1.0, "fault": "none", "fault_while": None, **script}, settings, device)


def generation(device: FakeDevice, *, step_s: float = 1.0, stop_at: int | None = None) -> Any:
    """Rows that end at their own length, a step a second; ``stop_at``: rows end after so many tokens, whatever was asked."""

    def generate(requests: Sequence[Request]) -> Iterator[Step]:
        lengths = {one.request_id: min(one.max_new_tokens, stop_at or one.max_new_tokens) for one in requests}
        for index in range(max(lengths.values())):
            device.advance(step_s)
            yield Step(ids={name: 7 for name, length in lengths.items() if index < length})

    return generate


def run(
    mode: BatchingMode = "continuous",
    *,
    engine: str = "fake",
    token_s: Sequence[Sequence[float]] = ((1.0, 2.0), (1.0, 2.0, 3.0)),
    **changes: Any,
) -> BatchingRun:
    """A run whose requests got a token at each of these times, as many as they asked for, compared and alike."""
    requests = tuple(
        ServedRequest(
            request_id=f"r{index + 1}",
            prompt_tokens=4,
            requested_tokens=len(times),
            arrived_s=0.0,
            started_s=times[0] - 1.0 if times else None,
            ids=(7,) * len(times),
            token_s=tuple(times),
        )
        for index, times in enumerate(token_s)
    )
    values: dict[str, Any] = {
        "variant": "float32",
        "engine": engine,
        "mode": mode,
        "arrivals": Arrivals(),
        "rows": 2,
        "requests": requests,
        "steps": 3,
        "wall_s": max(one[-1] for one in token_s),
        "preemptions": 0,
        "recomputed_tokens": 0,
        "dtype": "float32",
        "library": engine,
        "compared": True,
    }
    return BatchingRun(**{**values, **changes})


def difference(margin_nats: float | None, *, request_id: str = "r1", token: int = 2) -> FirstDifference:
    """A first other id, and how sure alone was of its own."""
    return FirstDifference(request_id=request_id, token=token, margin_nats=margin_nats)
