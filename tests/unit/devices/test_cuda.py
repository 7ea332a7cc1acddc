"""The CUDA device on a scripted torch: which device is meant, what is reserved, who else is there. The real one is in tests/gpu."""

from __future__ import annotations

import os

import pytest

from quantgate.devices import nvml
from quantgate.devices.cuda import CudaDevice, allocator_note
from quantgate.errors import ConfigError, EngineError
from quantgate.records import DeviceConfig
from stub_cuda import MIB, UUIDS, StubCuda, StubNvml


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> StubCuda:
    monkeypatch.setattr(nvml, "bindings", lambda: StubNvml({os.getpid(): 100 * MIB, 7: 40 * MIB, 8: 2 * MIB}))
    return StubCuda().install(monkeypatch)


def test_reserved_and_device_figures_stand_beside_the_peak(stub: StubCuda) -> None:
    """Allocated, reserved and the whole device are three numbers."""
    device = CudaDevice(DeviceConfig(kind="cuda"))
    with device.watch_memory() as watch:
        stub.allocate(3 * MIB)
    assert (watch.peak.peak_bytes, watch.peak.reserved_bytes, watch.peak.device_bytes) == (3 * MIB, 4 * MIB, 300 * MIB)
    assert watch.peak.source == "allocator"


def test_segments_kept_by_the_allocator_are_reserved_until_released(stub: StubCuda) -> None:
    """After a free the allocator keeps its segments; release gives them back."""
    device = CudaDevice(DeviceConfig(kind="cuda"))
    stub.allocate(8 * MIB)
    stub.free(8 * MIB)
    with device.watch_memory() as watch:
        pass
    assert (watch.peak.peak_bytes, watch.peak.reserved_bytes) == (0, 8 * MIB)
    device.release()
    with device.watch_memory() as watch:
        pass
    assert watch.peak.reserved_bytes == 0


def test_others_on_the_device_are_told(stub: StubCuda) -> None:
    """Two other processes with 42 MiB, this one left out; the driver and the device's use."""
    info = CudaDevice(DeviceConfig(kind="cuda")).info
    assert (info.other_processes, info.other_bytes, info.used_bytes, info.driver) == (2, 42 * MIB, 300 * MIB, "570.1")


def test_without_nvml_nothing_is_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No bindings: the figures are not known, and everything else works."""
    monkeypatch.setattr(nvml, "bindings", lambda: None)
    StubCuda().install(monkeypatch)
    info = CudaDevice(DeviceConfig(kind="cuda")).info
    assert (info.other_processes, info.other_bytes, info.used_bytes, info.driver) == (None, None, None, None)
    assert info.name == "stub 0"


def test_a_device_by_index(stub: StubCuda) -> None:
    """The index is the current device of the process; one that is not there is refused."""
    assert CudaDevice(DeviceConfig(kind="cuda", index=1)).info.name == "stub 1"
    assert stub.current == 1
    with pytest.raises(ConfigError, match=r"device\.index is 2"):
        CudaDevice(DeviceConfig(kind="cuda", index=2))


def test_a_device_by_uuid_once_cuda_runs(stub: StubCuda) -> None:
    """The second device by its UUID; one that is not there is refused by name."""
    assert CudaDevice(DeviceConfig(kind="cuda", uuid=f"GPU-{UUIDS[1]}")).info.name == "stub 1"
    with pytest.raises(ConfigError, match="GPU-nobody"):
        CudaDevice(DeviceConfig(kind="cuda", uuid="GPU-nobody"))


@pytest.mark.parametrize("uuid", [f"GPU-{UUIDS[1]}", "MIG-33333333-aaaa-bbbb-cccc-000000000003"])
def test_a_uuid_before_cuda_starts_is_all_that_the_process_sees(monkeypatch: pytest.MonkeyPatch, uuid: str) -> None:
    """A MIG slice has no index: the process is made to see it alone."""
    monkeypatch.setattr(nvml, "bindings", lambda: None)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    StubCuda(devices=1, initialized=False).install(monkeypatch)
    assert CudaDevice(DeviceConfig(kind="cuda", uuid=uuid)).info.uuid == uuid
    assert os.environ["CUDA_VISIBLE_DEVICES"] == uuid


def test_a_budget_is_the_allocator_s_own_limit(stub: StubCuda) -> None:
    """Half of the device is a fraction of one half; more than the device is refused."""
    CudaDevice(DeviceConfig(kind="cuda", memory_budget_bytes=512 * MIB))
    assert stub.fraction == 0.5
    with pytest.raises(ConfigError, match="memory_budget_bytes"):
        CudaDevice(DeviceConfig(kind="cuda", memory_budget_bytes=2048 * MIB))


def test_no_device_says_what_to_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """No visible GPU: an error that names driver, UUID and the CPU."""
    StubCuda(devices=0).install(monkeypatch)
    with pytest.raises(EngineError, match="nvidia-smi"):
        CudaDevice(DeviceConfig(kind="cuda"))


def test_the_barrier_stands_around_a_watched_block(stub: StubCuda) -> None:
    """Work that is still queued would take memory after the peak was read."""
    with CudaDevice(DeviceConfig(kind="cuda")).watch_memory():
        stub.calls.append("block")
    assert stub.calls == ["synchronize", "block", "synchronize"]


def test_allocator_settings_are_noted() -> None:
    """expandable_segments changes what fragments, so it stands beside the device."""
    assert allocator_note({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}) == "expandable_segments:True"
    assert allocator_note({"PYTORCH_CUDA_ALLOC_CONF": ""}) is None
    assert allocator_note({}) is None


# ---------------------------------------------------------------------------------------------- NVML


def test_a_container_that_hides_sizes() -> None:
    """One process without a size: how many is known, how much is not."""
    seen = nvml.look(StubNvml({7: None, 8: 5}), [UUIDS[0]], own_pid=1)
    assert (seen.other_processes, seen.other_bytes) == (2, None)


def test_a_uuid_that_nvml_does_not_know() -> None:
    """The driver is told all the same."""
    seen = nvml.look(StubNvml(knows=()), ["GPU-x"], own_pid=1)
    assert (seen.used_bytes, seen.driver) == (None, "570.1")


def test_no_bindings_give_nothing() -> None:
    """None in, nothing out."""
    assert nvml.look(None, ["GPU-x"], own_pid=1) == nvml.NOTHING
