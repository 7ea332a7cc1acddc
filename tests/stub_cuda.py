"""torch.cuda by script: an allocator that reserves more than it hands out, two devices, no GPU. The real one is tested in tests/gpu."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

MIB = 2**20
UUIDS = ("11111111-aaaa-bbbb-cccc-000000000001", "22222222-aaaa-bbbb-cccc-000000000002")


class StubCuda:
    """The allocator's four counters, in segments of 2 MiB as the real one has them."""

    SEGMENT = 2 * MIB

    def __init__(self, *, devices: int = 2, initialized: bool = True) -> None:
        self.devices, self.initialized = devices, initialized
        self.live = self.reserved = self.peak = self.peak_reserved = 0
        self.current = 0
        self.fraction: float | None = None
        self.calls: list[str] = []

    def allocate(self, size: int) -> None:
        self.live += size
        self.reserved = max(self.reserved, -(-self.live // self.SEGMENT) * self.SEGMENT)
        self.peak, self.peak_reserved = max(self.peak, self.live), max(self.peak_reserved, self.reserved)

    def free(self, size: int) -> None:
        """Back to the allocator, which keeps the segment."""
        self.live -= size

    def install(self, patch: pytest.MonkeyPatch) -> StubCuda:
        patch.setattr(torch.backends.cuda, "is_built", lambda: True)
        for name in (
            "is_available", "is_initialized", "device_count", "set_device", "current_device", "get_device_properties", "synchronize",
            "memory_allocated", "max_memory_allocated", "max_memory_reserved", "reset_peak_memory_stats", "empty_cache",
            "set_per_process_memory_fraction",
        ):  # fmt: skip
            patch.setattr(torch.cuda, name, getattr(self, name))
        return self

    # what torch.cuda offers

    def is_available(self) -> bool:
        return self.devices > 0

    def is_initialized(self) -> bool:
        return self.initialized

    def device_count(self) -> int:
        return self.devices

    def set_device(self, index: int) -> None:
        self.current = index

    def current_device(self) -> int:
        return self.current

    def get_device_properties(self, index: int) -> Any:
        return SimpleNamespace(name=f"stub {index}", total_memory=1024 * MIB, uuid=UUIDS[index])

    def synchronize(self, index: int) -> None:
        self.calls.append("synchronize")

    def memory_allocated(self, index: int) -> int:
        return self.live

    def max_memory_allocated(self, index: int) -> int:
        return self.peak

    def max_memory_reserved(self, index: int) -> int:
        return self.peak_reserved

    def reset_peak_memory_stats(self, index: int) -> None:
        self.peak, self.peak_reserved = self.live, self.reserved

    def empty_cache(self) -> None:
        self.reserved = -(-self.live // self.SEGMENT) * self.SEGMENT

    def set_per_process_memory_fraction(self, fraction: float, index: int) -> None:
        self.fraction = fraction


class StubNvml:
    """The management library by script: who is on which device."""

    def __init__(self, processes: dict[int, int | None] | None = None, *, used: int = 300 * MIB, knows: tuple[str, ...] = UUIDS) -> None:
        self.processes, self.used, self.knows = processes or {}, used, knows

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        if not any(uuid == f"GPU-{one}" or uuid == one for one in self.knows):
            raise RuntimeError("not found")
        return uuid

    def nvmlSystemGetDriverVersion(self) -> bytes:
        return b"570.1"

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> Any:
        return SimpleNamespace(used=self.used, total=1024 * MIB)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[Any]:
        return [SimpleNamespace(pid=pid, usedGpuMemory=size) for pid, size in self.processes.items()]
