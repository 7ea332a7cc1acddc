"""What NVIDIA's management library says of a whole device: bytes in use, other processes, driver. Optional, and never a reason to fail.

The allocator of this process knows its own blocks only; the context, libraries and everybody else's memory show here alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

from quantgate.records import DeviceState


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """A device as NVML sees it; None where it does not tell."""

    used_bytes: int | None = None
    total_bytes: int | None = None
    other_processes: int | None = None
    other_bytes: int | None = None
    """Memory of other processes; None where one of them does not tell, as in a container."""
    driver: str | None = None


NOTHING = Seen()


def bindings() -> Any | None:
    """The NVML bindings where they are installed and answer; they are no requirement."""
    try:
        library = import_module("pynvml")
        library.nvmlInit()
    except Exception:  # not installed, no driver, a container without the device files: the figures stay unknown
        return None
    return library


def look(library: Any | None, uuids: Sequence[str], own_pid: int) -> Seen:
    """The device of the first UUID that NVML knows. NVML counts all devices, torch only those it may see, so a number would not do."""
    if library is None:
        return NOTHING
    handle = _handle(library, uuids)
    driver = _asked(library.nvmlSystemGetDriverVersion)
    driver = driver.decode() if isinstance(driver, bytes) else driver
    if handle is None:
        return Seen(driver=driver)
    memory = _asked(partial(library.nvmlDeviceGetMemoryInfo, handle))
    running = _asked(partial(library.nvmlDeviceGetComputeRunningProcesses, handle))
    others = None if running is None else [one for one in running if one.pid != own_pid]
    sizes = [one.usedGpuMemory for one in others or ()]
    return Seen(
        used_bytes=None if memory is None else int(memory.used),
        total_bytes=None if memory is None else int(memory.total),
        other_processes=None if others is None else len(others),
        other_bytes=None if others is None or any(size is None for size in sizes) else sum(sizes),
        driver=driver,
    )


_HELD_DOWN = {
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
"""Bits of nvmlDeviceGetCurrentClocksEventReasons that mean less speed than the device has; the others are idling and settings."""


def state(library: Any | None, uuids: Sequence[str]) -> DeviceState:
    """Clocks and heat of the device; what NVML does not answer is named."""
    handle = None if library is None else _handle(library, uuids)
    if library is None or handle is None:
        return DeviceState(unknown=("clocks and heat of the GPU are not known: NVML's bindings (nvidia-ml-py) do not answer for it",))
    clock = _asked(partial(library.nvmlDeviceGetClockInfo, handle, 1))  # NVML_CLOCK_SM
    memory = _asked(partial(library.nvmlDeviceGetClockInfo, handle, 2))  # NVML_CLOCK_MEM
    reasons = _asked(lambda: library.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
    heat = _asked(partial(library.nvmlDeviceGetTemperature, handle, 0))  # NVML_TEMPERATURE_GPU
    asked = {"its clock": clock, "its memory's clock": memory, "why its clocks are held down": reasons, "its temperature": heat}
    return DeviceState(
        clock_hz=None if clock is None else clock * 1e6,
        memory_clock_hz=None if memory is None else memory * 1e6,
        throttled=None if reasons is None else tuple(words for bit, words in _HELD_DOWN.items() if reasons & bit),
        temperature_c=None if heat is None else float(heat),
        unknown=tuple(f"NVML does not tell {what} on this device" for what, found in asked.items() if found is None),
    )


def _handle(library: Any, uuids: Sequence[str]) -> Any | None:
    return next((found for uuid in uuids if (found := _asked(partial(library.nvmlDeviceGetHandleByUUID, uuid))) is not None), None)


def _asked(question: Callable[[], Any]) -> Any | None:
    with suppress(Exception):  # a question that this driver, device or container does not answer
        return question()
    return None
