"""The CUDA device on a real one."""

from __future__ import annotations

import pytest
import torch

from quantgate.devices.cuda import CudaDevice
from quantgate.devices.oom import is_out_of_memory
from quantgate.errors import ConfigError
from quantgate.records import DeviceConfig

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device")]

MIB = 2**20


def test_peak_starts_at_the_live_amount() -> None:
    """The peak of a watched block holds what was live before it, and nothing of an earlier block."""
    device = CudaDevice(DeviceConfig(kind="cuda"))
    kept = torch.zeros(8 * MIB, dtype=torch.uint8, device="cuda")
    del_me = torch.zeros(64 * MIB, dtype=torch.uint8, device="cuda")
    del del_me
    with device.watch_memory() as watch:
        inside = torch.zeros(16 * MIB, dtype=torch.uint8, device="cuda")
        del inside
    assert watch.peak.source == "allocator"
    assert 16 * MIB <= watch.peak.added_bytes < 17 * MIB
    assert watch.peak.before_bytes >= kept.numel()


def test_release_returns_the_cache() -> None:
    """After release the allocator reserves little more than what is live."""
    device = CudaDevice(DeviceConfig(kind="cuda"))
    big = torch.zeros(256 * MIB, dtype=torch.uint8, device="cuda")
    del big
    device.release()
    assert torch.cuda.memory_reserved() - torch.cuda.memory_allocated() < 64 * MIB


def test_the_budget_is_real() -> None:
    """An allocation beyond the configured budget is an out-of-memory, recognised as one."""
    total = torch.cuda.get_device_properties(0).total_memory
    CudaDevice(DeviceConfig(kind="cuda", memory_budget_bytes=512 * MIB))
    try:
        with pytest.raises(RuntimeError) as caught:
            torch.zeros(1024 * MIB, dtype=torch.uint8, device="cuda")
        assert is_out_of_memory(caught.value)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, 0)
    with pytest.raises(ConfigError, match="memory_budget_bytes"):
        CudaDevice(DeviceConfig(kind="cuda", memory_budget_bytes=2 * total))


def test_clock_waits_for_the_device() -> None:
    """A synchronised interval covers the work, an unsynchronised one only its submission."""
    device = CudaDevice(DeviceConfig(kind="cuda"))
    matrix = torch.randn(8192, 8192, device="cuda")
    device.synchronize()
    start = device.now_s()
    for _ in range(10):
        matrix @ matrix
    submitted = device.now_s() - start
    device.synchronize()
    assert device.now_s() - start > submitted


def test_info_names_the_device() -> None:
    """Name and size are the device's own; an index that is not there is refused."""
    info = CudaDevice(DeviceConfig(kind="cuda")).info
    assert info.kind == "cuda"
    assert info.total_bytes > 0
    assert info.name
    with pytest.raises(ConfigError, match="index"):
        CudaDevice(DeviceConfig(kind="cuda", index=999))
