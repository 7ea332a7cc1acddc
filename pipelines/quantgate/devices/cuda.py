"""One NVIDIA (or ROCm) GPU through torch: memory is what torch's allocator handed out, its peak what the allocator remembers.

Allocated is not reserved and not what the whole device shows: the context, libraries and other processes stand outside it. A configured
budget is made real: the allocator refuses to go beyond it, so an out-of-memory is one.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

import torch

from quantgate.errors import ConfigError, EngineError
from quantgate.records import DeviceConfig, DeviceInfo, PeakMemory


class CudaDevice:
    """Device ``config.index``. Raises ``EngineError`` where there is none, ``ConfigError`` for an index or a budget that cannot be."""

    def __init__(self, config: DeviceConfig) -> None:
        _check_available(config.index)
        self._index = config.index
        # Models and batches go to "the current device", so this process's current device must be the configured one.
        torch.cuda.set_device(config.index)
        properties = torch.cuda.get_device_properties(config.index)
        total = int(properties.total_memory)
        _limit(config.memory_budget_bytes, total, config.index)
        if config.threads is not None:
            torch.set_num_threads(config.threads)
        self.info = DeviceInfo(
            kind="cuda",
            name=str(properties.name),
            total_bytes=total,
            threads=torch.get_num_threads(),
            driver=_driver_version(),
            other_processes=_other_processes(config.index),
        )

    def synchronize(self) -> None:
        torch.cuda.synchronize(self._index)

    def now_s(self) -> float:
        return time.perf_counter()

    def live_bytes(self) -> int:
        return int(torch.cuda.memory_allocated(self._index))

    @contextmanager
    def watch_memory(self) -> Iterator[CudaWatch]:
        self.synchronize()
        # Sets the peak to the live amount, not to zero: what is live at the start is part of every peak.
        torch.cuda.reset_peak_memory_stats(self._index)
        watch = CudaWatch(self.live_bytes())
        try:
            yield watch
        finally:
            # After an asynchronous error the barrier raises again; the peak is the allocator's own count and needs none.
            with suppress(RuntimeError):
                self.synchronize()
            watch.end(int(torch.cuda.max_memory_allocated(self._index)))

    def release(self) -> None:
        gc.collect()
        torch.cuda.empty_cache()


class CudaWatch:
    """Allocated bytes before a block and at its peak. ``peak`` may be read after the block."""

    def __init__(self, before_bytes: int) -> None:
        self._before = before_bytes
        self._peak: PeakMemory | None = None

    @property
    def peak(self) -> PeakMemory:
        if self._peak is None:
            raise EngineError("the peak was read before its block ended")
        return self._peak

    def end(self, peak_bytes: int) -> None:
        self._peak = PeakMemory(before_bytes=self._before, peak_bytes=peak_bytes, source="allocator")


def _check_available(index: int) -> None:
    if not torch.backends.cuda.is_built():
        raise EngineError(
            f"device cuda needs a torch built for CUDA, found torch {torch.__version__}: install one from https://pytorch.org or set "
            "device.kind to cpu"
        )
    if not torch.cuda.is_available():
        raise EngineError(
            "device cuda: torch sees no GPU on this machine; check the driver (nvidia-smi) or set device.kind to cpu"
        )
    if not 0 <= index < torch.cuda.device_count():
        raise ConfigError(f"device.index is {index}; this machine has devices 0 to {torch.cuda.device_count() - 1}")


def _limit(budget_bytes: int | None, total_bytes: int, index: int) -> None:
    """Make the budget the allocator's own limit. It counts reserved blocks, which are at least the allocated ones."""
    if budget_bytes is None:
        return
    if not 0 < budget_bytes <= total_bytes:
        raise ConfigError(f"device.memory_budget_bytes is {budget_bytes}; the device has {total_bytes}")
    torch.cuda.set_per_process_memory_fraction(budget_bytes / total_bytes, index)


def _nvml() -> Any | None:
    """The NVML bindings where they are installed and answer; they are no requirement."""
    try:
        library = import_module("pynvml")
        library.nvmlInit()
    except Exception:  # not installed, no driver, a container without the device files: the figure stays unknown
        return None
    return library


def _driver_version() -> str | None:
    if (library := _nvml()) is None:
        return None
    with suppress(Exception):
        version = library.nvmlSystemGetDriverVersion()
        return version.decode() if isinstance(version, bytes) else str(version)
    return None


def _other_processes(index: int) -> int | None:
    """Compute processes on the device besides this one; None where that cannot be asked. Ids of a container may not match ours."""
    if (library := _nvml()) is None:
        return None
    with suppress(Exception):
        # By UUID: NVML counts all devices, torch only those that CUDA_VISIBLE_DEVICES leaves.
        uuid = f"GPU-{torch.cuda.get_device_properties(index).uuid}"
        handle = library.nvmlDeviceGetHandleByUUID(uuid)
        running = library.nvmlDeviceGetComputeRunningProcesses(handle)
        return len([process for process in running if process.pid != os.getpid()])
    return None
