"""One NVIDIA (or ROCm) GPU through torch: memory is what torch's allocator handed out, its peak what the allocator remembers.

Allocated, reserved and what the whole device shows are three figures and each is named: reserved holds free blocks, the device shows the
context, libraries and other processes too. A configured budget is made real: the allocator refuses to go beyond it, so an out-of-memory is
one. Several GPUs are told apart by index, or by UUID as ``nvidia-smi -L`` prints it; a MIG slice has a UUID only.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

import torch

from quantgate.devices import datasheet, exercises, nvml
from quantgate.errors import ConfigError, EngineError
from quantgate.ports import Exercise
from quantgate.records import DeviceConfig, DeviceInfo, DeviceState, PeakMemory

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_ALLOCATOR_SETTINGS = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")


class CudaDevice:
    """The device of a config. Raises ``EngineError`` where there is none, ``ConfigError`` for an index, UUID or budget that cannot be."""

    def __init__(self, config: DeviceConfig) -> None:
        index = config.index if config.uuid is None else _by_uuid(config.uuid)
        _check_available(index)
        self._index = index
        # Models and batches go to "the current device", so this process's current device must be the configured one.
        torch.cuda.set_device(index)
        properties = torch.cuda.get_device_properties(index)
        total = int(properties.total_memory)
        _limit(config.memory_budget_bytes, total, index)
        if config.threads is not None:
            torch.set_num_threads(config.threads)
        found = str(getattr(properties, "uuid", ""))
        self._uuids = [one for one in (config.uuid, f"GPU-{found}", f"MIG-{found}") if one]
        seen = self._seen()
        sheet = None if (config.uuid or "").startswith("MIG-") else datasheet.find(str(properties.name))
        cache = getattr(properties, "L2_cache_size", None)
        self.info = DeviceInfo(
            kind="cuda",
            name=str(properties.name),
            total_bytes=total,
            threads=torch.get_num_threads(),
            driver=seen.driver,
            other_processes=seen.other_processes,
            other_bytes=seen.other_bytes,
            used_bytes=seen.used_bytes,
            uuid=config.uuid or (f"GPU-{found}" if found else None),
            allocator=allocator_note(os.environ),
            cache_bytes=int(cache) if cache else None,
            peak_bytes_per_s=None if sheet is None else sheet.bytes_per_s,
            peak_flops_per_s=None if sheet is None else sheet.flops_per_s,
            peak_source=None if sheet is None else sheet.source,
        )

    def synchronize(self) -> None:
        torch.cuda.synchronize(self._index)

    def now_s(self) -> float:
        return time.perf_counter()

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def live_bytes(self) -> int:
        return int(torch.cuda.memory_allocated(self._index))

    @contextmanager
    def watch_memory(self) -> Iterator[CudaWatch]:
        self.synchronize()
        # Sets both peaks to the live amounts, not to zero: what is live at the start is part of every peak.
        torch.cuda.reset_peak_memory_stats(self._index)
        watch = CudaWatch(self.live_bytes())
        try:
            yield watch
        finally:
            # After an asynchronous error the barrier raises again; the peaks are the allocator's own count and need none.
            with suppress(RuntimeError):
                self.synchronize()
            watch.end(
                int(torch.cuda.max_memory_allocated(self._index)),
                int(torch.cuda.max_memory_reserved(self._index)),
                self._seen().used_bytes,
            )

    def release(self) -> None:
        gc.collect()
        torch.cuda.empty_cache()

    def reading(self, size_bytes: int) -> list[Exercise]:
        return exercises.reading(f"cuda:{self._index}", size_bytes)

    def multiplying(self, side: int, dtype: str) -> Exercise:
        return exercises.multiplying(f"cuda:{self._index}", side, dtype)

    def state(self) -> DeviceState:
        return nvml.state(nvml.bindings(), self._uuids)

    def _seen(self) -> nvml.Seen:
        return nvml.look(nvml.bindings(), self._uuids, os.getpid())


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

    def end(self, peak_bytes: int, reserved_bytes: int, device_bytes: int | None) -> None:
        self._peak = PeakMemory(
            before_bytes=self._before,
            peak_bytes=peak_bytes,
            source="allocator",
            reserved_bytes=reserved_bytes,
            device_bytes=device_bytes,
        )


def allocator_note(environment: Mapping[str, str]) -> str | None:
    """The allocator's settings as the environment has them, None without any: ``expandable_segments:True`` changes what fragments."""
    return next((environment[name] for name in _ALLOCATOR_SETTINGS if environment.get(name)), None)


def _by_uuid(uuid: str) -> int:
    """The index of a device by UUID. Before CUDA starts, this process is made to see that device alone: a MIG slice has no other name."""
    if not torch.cuda.is_initialized():
        os.environ[_VISIBLE] = uuid
        return 0
    for index in range(torch.cuda.device_count()):
        found = str(getattr(torch.cuda.get_device_properties(index), "uuid", ""))
        if found and found in uuid:
            return index
    raise ConfigError(f"device.uuid is {uuid}; torch sees no such device: nvidia-smi -L prints the UUIDs of this machine")


def _check_available(index: int) -> None:
    if not torch.backends.cuda.is_built():
        raise EngineError(
            f"device cuda needs a torch built for CUDA, found torch {torch.__version__}: install one from https://pytorch.org or set "
            "device.kind to cpu"
        )
    if not torch.cuda.is_available():
        raise EngineError(
            "device cuda: torch sees no GPU on this machine; check the driver (nvidia-smi) and device.uuid, or set device.kind to cpu"
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
