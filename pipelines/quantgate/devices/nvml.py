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
    handle = next((found for uuid in uuids if (found := _asked(partial(library.nvmlDeviceGetHandleByUUID, uuid))) is not None), None)
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


def _asked(question: Callable[[], Any]) -> Any | None:
    with suppress(Exception):  # a question that this driver, device or container does not answer
        return question()
    return None
