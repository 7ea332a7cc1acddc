"""Clocks and heat of a GPU through NVML's bindings by script."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from quantgate.devices import nvml


def _library(**changes: Any) -> Any:
    """Bindings of a warm GPU whose power is capped; a question that is not answered raises."""
    answers = {
        "nvmlDeviceGetHandleByUUID": lambda uuid: "handle",
        "nvmlDeviceGetClockInfo": lambda handle, kind: {1: 1980, 2: 3201}[kind],
        "nvmlDeviceGetCurrentClocksThrottleReasons": lambda handle: 0x4 | 0x1,
        "nvmlDeviceGetTemperature": lambda handle, sensor: 66,
    }
    return SimpleNamespace(**{**answers, **changes})


def _refuse(*asked: object) -> None:
    raise RuntimeError("Not Supported")


def test_a_gpu_tells_clocks_heat_and_what_holds_it_down() -> None:
    """Idling is no reason that counts; a power cap is."""
    found = nvml.state(_library(), ["GPU-1"])
    assert (found.clock_hz, found.memory_clock_hz, found.temperature_c) == (1.98e9, 3.201e9, 66.0)
    assert found.throttled == ("software power cap",)
    assert found.unknown == ()


def test_what_is_not_answered_is_named() -> None:
    """A container without some questions, a device that NVML does not know, no bindings at all."""
    found = nvml.state(_library(nvmlDeviceGetCurrentClocksThrottleReasons=_refuse, nvmlDeviceGetTemperature=_refuse), ["GPU-1"])
    assert found.throttled is None and found.temperature_c is None and len(found.unknown) == 2
    for library in (None, _library(nvmlDeviceGetHandleByUUID=_refuse)):
        assert "do not answer" in nvml.state(library, ["GPU-1"]).unknown[0]
