"""The CUDA device on a real one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import tiny
from quantgate.devices.cuda import CudaDevice
from quantgate.devices.oom import is_out_of_memory
from quantgate.engines.transformers import TransformersEngine
from quantgate.errors import ConfigError
from quantgate.records import DeviceConfig, EngineSettings, Workload
from quantgate.stages import capacity

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
    assert (watch.peak.reserved_bytes or 0) >= watch.peak.peak_bytes
    assert watch.peak.device_bytes is None or watch.peak.device_bytes >= watch.peak.peak_bytes


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


def test_the_device_by_its_own_uuid() -> None:
    """The UUID that the device tells leads back to it; one that is not there is refused."""
    first = CudaDevice(DeviceConfig(kind="cuda")).info
    if first.uuid is None:
        pytest.skip("this torch does not tell UUIDs")
    assert CudaDevice(DeviceConfig(kind="cuda", uuid=first.uuid)).info.name == first.name
    with pytest.raises(ConfigError, match=r"device\.uuid"):
        CudaDevice(DeviceConfig(kind="cuda", uuid="GPU-00000000-0000-0000-0000-000000000000"))


def test_memory_in_use_on_the_whole_device() -> None:
    """Where NVML answers, the device shows at least what this process took, and this process is not among the others."""
    kept = torch.zeros(256 * MIB, dtype=torch.uint8, device="cuda")
    info = CudaDevice(DeviceConfig(kind="cuda")).info
    if info.used_bytes is None:
        pytest.skip("NVML is not installed or does not answer")
    assert info.used_bytes >= kept.numel()
    assert info.used_bytes <= info.total_bytes * 1.1


def test_a_real_fill_on_a_budget(tmp_path: Path) -> None:
    """A random model whose cache weighs more than its weights: predicted within 10 % (or one row) of what fills hold, in 6 probes."""
    folder = tiny.fat_cache_llama(tmp_path / "model")
    device = CudaDevice(DeviceConfig(kind="cuda", memory_budget_bytes=512 * MIB))
    try:
        device.release()
        base = device.live_bytes()
        work = Workload(prompt_tokens=48, output_tokens=16, max_batch=512)
        with TransformersEngine().open(tiny.artifact(folder), EngineSettings(), device) as session:
            job = capacity.Job(workload=work, budget_bytes=512 * MIB, base_bytes=base, seed=1, scoring=True)
            found = capacity.find(session, device, job, lambda done, total, what: None)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, 0)
    assert found.limited_by == "memory", found
    assert found.confirmed is not None and found.predicted is not None
    assert abs(found.predicted - found.confirmed) <= max(1, 0.1 * found.confirmed)
    assert found.probe_count <= 6
    assert found.scoring is not None and found.scoring.confirmed
