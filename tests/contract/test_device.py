"""What every device keeps to: one clock, a peak that starts at the live amount, memory that is given back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from quantgate.devices.cpu import CpuDevice
from quantgate.devices.cuda import CudaDevice
from quantgate.devices.fake import FakeDevice
from quantgate.errors import EngineError
from quantgate.ports import Device
from quantgate.records import DeviceConfig
from stub_cuda import StubCuda

MIB = 2**20
SLACK = 12 * MIB
"""What a process's own bookkeeping may move meanwhile."""


@dataclass
class Case:
    """A device, and how memory is taken on it. ``take`` gives a function that gives it back."""

    device: Device
    take: Callable[[int], Callable[[], None]]
    slack: int = 0
    extra: dict[str, Any] = field(default_factory=dict)


def _tensors(device: str) -> Callable[[int], Callable[[], None]]:
    def take(size: int) -> Callable[[], None]:
        kept = [torch.ones(size, dtype=torch.uint8, device=device)]
        return kept.clear

    return take


def _counted(counter: Any) -> Callable[[int], Callable[[], None]]:
    def take(size: int) -> Callable[[], None]:
        counter.allocate(size)
        return lambda: counter.free(size)

    return take


NEEDS_GPU = (pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device"))


@pytest.fixture(params=["cpu", "fake", "cuda by script", pytest.param("cuda", marks=NEEDS_GPU)])
def case(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Case]:
    match request.param:
        case "cpu":
            yield Case(CpuDevice(DeviceConfig(threads=1)), _tensors("cpu"), SLACK)
        case "fake":
            fake = FakeDevice(DeviceConfig(kind="fake"))
            yield Case(fake, _counted(fake))
        case "cuda by script":
            stub = StubCuda().install(monkeypatch)
            yield Case(CudaDevice(DeviceConfig(kind="cuda")), _counted(stub))
        case _:
            yield Case(CudaDevice(DeviceConfig(kind="cuda")), _tensors("cuda"), MIB)


def test_a_device_says_what_it_is(case: Case) -> None:
    """Kind, name and size are there, the size a positive number of bytes."""
    info = case.device.info
    assert info.kind and info.name
    assert info.total_bytes > 0


def test_the_clock_never_goes_back(case: Case) -> None:
    """Two readings are in order, with the barrier between them."""
    first = case.device.now_s()
    case.device.synchronize()
    assert case.device.now_s() >= first


def test_a_block_that_takes_and_gives_back_shows_in_its_peak(case: Case) -> None:
    """64 MiB taken and freed inside are the peak's, and not live afterwards."""
    before = case.device.live_bytes()
    with case.device.watch_memory() as watch:
        case.take(64 * MIB)()
    assert abs(watch.peak.added_bytes - 64 * MIB) <= case.slack
    assert abs(case.device.live_bytes() - before) <= case.slack


def test_a_peak_starts_at_the_live_amount(case: Case) -> None:
    """What was live before is part of the peak; what came and went before is not."""
    give_back = case.take(32 * MIB)
    case.take(128 * MIB)()
    with case.device.watch_memory() as watch:
        pass
    assert watch.peak.added_bytes <= case.slack
    assert watch.peak.before_bytes >= 32 * MIB - case.slack
    assert watch.peak.peak_bytes >= watch.peak.before_bytes
    give_back()


def test_blocks_one_after_the_other_are_apart(case: Case) -> None:
    """A small block after a large one shows the small one's peak."""
    with case.device.watch_memory():
        case.take(128 * MIB)()
    with case.device.watch_memory() as watch:
        case.take(16 * MIB)()
    assert abs(watch.peak.added_bytes - 16 * MIB) <= case.slack


def test_a_peak_before_its_end_is_an_error(case: Case) -> None:
    """Not known yet is an error, not 0."""
    with case.device.watch_memory() as watch, pytest.raises(EngineError, match="before its block ended"):
        _ = watch.peak


def test_an_error_inside_goes_on_and_leaves_a_peak(case: Case) -> None:
    """A block that fails has a peak; the error reaches the caller as it was."""
    with pytest.raises(ValueError, match="inside"), case.device.watch_memory() as watch:
        case.take(16 * MIB)()
        raise ValueError("inside")
    assert abs(watch.peak.added_bytes - 16 * MIB) <= case.slack


def test_reserved_is_at_least_what_is_live(case: Case) -> None:
    """A device that tells what its allocator holds never tells less than it handed out."""
    with case.device.watch_memory() as watch:
        case.take(3 * MIB + 5)()
    reserved = watch.peak.reserved_bytes
    assert reserved is None or reserved >= watch.peak.peak_bytes


def test_release_can_be_called_at_any_time(case: Case) -> None:
    """Twice, and with nothing to give back."""
    case.device.release()
    before = case.device.live_bytes()
    case.device.release()
    assert abs(case.device.live_bytes() - before) <= case.slack


def test_its_roofs_can_be_measured(case: Case, request: pytest.FixtureRequest) -> None:
    """Work of a stated amount can be done again and again, and what is not told of clocks and heat is named."""
    if request.node.callspec.params["case"] == "cuda by script":
        pytest.skip("a scripted GPU has no memory to read")
    for one in [*case.device.reading(1 << 20), case.device.multiplying(64, "float32")]:
        before_s = case.device.now_s()
        one.run()
        one.run()
        case.device.synchronize()
        assert one.amount > 0 and one.way
        assert case.device.now_s() > before_s
    found = case.device.state()
    assert found.unknown or None not in (found.clock_hz, found.temperature_c)
