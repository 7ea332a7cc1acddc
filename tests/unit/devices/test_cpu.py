"""The CPU device: resident set, its peak, and the limits of the machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from quantgate.devices import cpu
from quantgate.devices.cpu import CpuDevice
from quantgate.devices.cuda import CudaDevice
from quantgate.errors import EngineError
from quantgate.records import DeviceConfig

MIB = 2**20


@pytest.fixture
def device() -> CpuDevice:
    return CpuDevice(DeviceConfig(threads=1))


def test_info(device: CpuDevice) -> None:
    """Name, size and threads are the machine's own."""
    assert device.info.kind == "cpu"
    assert device.info.name
    assert device.info.total_bytes > 2**28
    assert device.info.threads == 1


@pytest.mark.parametrize("kernel", [True, False])
def test_peak_of_a_freed_block(device: CpuDevice, kernel: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block that takes 64 MiB and frees them shows them in its peak, by the kernel's mark and by sampling, and ends where it began."""
    if not kernel:
        monkeypatch.setattr(cpu, "_reset_kernel_peak", lambda: False)
    with device.watch_memory() as watch:
        for _ in range(1 if kernel else 20):
            block = torch.ones(64 * MIB, dtype=torch.uint8)
            block.add_(1)
            del block
    assert watch.peak.source == "process"
    assert 60 * MIB < watch.peak.added_bytes < 80 * MIB
    assert device.live_bytes() - watch.peak.before_bytes < 16 * MIB


def test_many_small_tensors_return_to_the_system(device: CpuDevice) -> None:
    """Freed tensors of 128 KiB do not stay in the heap while a block is watched: a second block sees the same peak as the first."""

    def added() -> int:
        with device.watch_memory() as watch:
            parts = [torch.ones(128 * 1024, dtype=torch.uint8) for _ in range(256)]
            del parts
        return watch.peak.added_bytes

    first, second = added(), added()
    assert 30 * MIB < first < 44 * MIB
    assert abs(first - second) < 4 * MIB


@pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="torch multiplies without MKL here")
def test_buffers_of_the_math_library_are_not_carried_over(device: CpuDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block starts without what matrix products before it left behind: 4.7 MiB after this one, up to 14 after a fill of SmolLM2."""

    def left_behind() -> int:
        with device.watch_memory() as before:
            torch.nn.functional.linear(torch.ones(4, 576), torch.ones(8000, 576))
        with device.watch_memory() as after:
            pass
        return after.peak.before_bytes - before.peak.before_bytes

    left_behind()  # first calls
    freed = left_behind()
    with monkeypatch.context() as patch:
        patch.setattr(device, "_free_buffers", lambda: None)
        kept = left_behind()
    if kept < 2 * MIB:
        pytest.skip("MKL keeps no buffers of this product on this CPU")
    assert freed < MIB


def test_an_earlier_peak_is_forgotten(device: CpuDevice) -> None:
    """The peak of a watched block holds nothing of what was freed before it."""
    torch.ones(128 * MIB, dtype=torch.uint8)
    with device.watch_memory() as watch:
        pass
    assert watch.peak.added_bytes < 8 * MIB


def test_peak_before_the_end_is_an_error(device: CpuDevice) -> None:
    """A peak that is not known yet is an error, not 0."""
    with device.watch_memory() as watch, pytest.raises(EngineError, match="before its block ended"):
        _ = watch.peak


def test_an_error_in_the_block_still_gives_a_peak(device: CpuDevice) -> None:
    """A block that fails has a peak, and the error goes on."""
    with pytest.raises(ValueError, match="inside"), device.watch_memory() as watch:
        raise ValueError("inside")
    assert watch.peak.peak_bytes >= watch.peak.before_bytes > 0


def test_control_group_limits(tmp_path: Path) -> None:
    """The smallest limit of the process's groups and those above counts; ``max`` is none; version 1 is read too."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "memory.max").write_text("1000\n")
    (tmp_path / "a" / "b" / "memory.max").write_text("max\n")
    (tmp_path / "memory" / "c").mkdir(parents=True)
    (tmp_path / "memory" / "c" / "memory.limit_in_bytes").write_text("2000\n")
    membership = tmp_path / "cgroup"
    membership.write_text("0::/a/b\n5:cpu,memory:/c\n")
    assert sorted(cpu._control_group_limits(membership, tmp_path)) == [1000, 2000]
    assert cpu._control_group_limits(tmp_path / "missing", tmp_path) == []


def test_without_proc_the_peak_so_far_is_used(
    device: CpuDevice, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where there is no /proc, as on macOS, watching works on the process's peak and does not fail."""
    monkeypatch.setattr(cpu, "_STATUS", tmp_path / "none")
    monkeypatch.setattr(cpu, "_CLEAR_REFS", tmp_path / "none" / "none")
    with device.watch_memory() as watch:
        pass
    assert watch.peak.peak_bytes >= watch.peak.before_bytes > MIB


def test_oom_module_needs_no_torch() -> None:
    """Recognising out-of-memory imports no framework."""
    code = "import sys, quantgate.devices.oom; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": "pipelines"}, check=False).returncode == 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_cuda_device_without_cuda_says_so() -> None:
    """Asking for CUDA where there is none is an error that says what to do."""
    with pytest.raises(EngineError, match="device cuda"):
        CudaDevice(DeviceConfig(kind="cuda"))
