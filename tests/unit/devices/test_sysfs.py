"""Clocks, governor, heat and cache as Linux tells them, and as it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from quantgate.devices import sysfs


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Two packages of two cores each, with clocks, governors, slow-downs and a temperature."""
    for core in range(4):
        cpu = tmp_path / "cpu" / f"cpu{core}"
        _write(cpu / "cpufreq" / "scaling_governor", "powersave" if core else "performance")
        _write(cpu / "cpufreq" / "scaling_cur_freq", str(2_000_000 + 100_000 * core))
        _write(cpu / "topology" / "physical_package_id", str(core // 2))
        _write(cpu / "thermal_throttle" / "package_throttle_count", str(5 if core < 2 else 2))
    caches = ((1, "Data", "32K"), (1, "Instruction", "32K"), (2, "Unified", "1024K"), (3, "Unified", "32M"))
    for index, (level, kind, size) in enumerate(caches):
        cache = tmp_path / "cpu" / "cpu0" / "cache" / f"index{index}"
        for name, text in (("level", str(level)), ("type", kind), ("size", size)):
            _write(cache / name, text)
    _write(tmp_path / "thermal" / "thermal_zone0" / "type", "acpitz")
    _write(tmp_path / "thermal" / "thermal_zone0" / "temp", "99000")
    _write(tmp_path / "thermal" / "thermal_zone1" / "type", "x86_pkg_temp")
    _write(tmp_path / "thermal" / "thermal_zone1" / "temp", "61500")
    return tmp_path


def test_a_machine_that_tells_everything(machine: Path) -> None:
    """The median clock, every governor, the slow-downs of both packages once each, the processor's own zone."""
    found = sysfs.state(machine / "cpu", machine / "cpuinfo", machine / "thermal")
    assert found.clock_hz == pytest.approx(2.15e9)
    assert found.governor == "performance and powersave"
    assert found.throttle_events == 7
    assert found.temperature_c == 61.5
    assert found.unknown == ()


def test_the_last_level_cache_is_the_highest_level_with_data(machine: Path) -> None:
    """32 MiB of level 3; nothing without a cache, and a size that is none is none."""
    assert sysfs.last_level_cache_bytes(machine / "cpu") == 32 * 2**20
    assert sysfs.last_level_cache_bytes(machine / "nowhere") is None
    _write(machine / "cpu" / "cpu0" / "cache" / "index3" / "size", "much")
    assert sysfs.last_level_cache_bytes(machine / "cpu") == 2**20


def test_a_virtual_machine_tells_a_clock_alone(tmp_path: Path) -> None:
    """The clock comes from /proc/cpuinfo; what is not told is named, never 0."""
    _write(tmp_path / "cpuinfo", "processor : 0\ncpu MHz\t\t: 2596.134\nprocessor : 1\ncpu MHz : none\n")
    found = sysfs.state(tmp_path / "cpu", tmp_path / "cpuinfo", tmp_path / "thermal")
    assert found.clock_hz == pytest.approx(2.596134e9)
    assert (found.governor, found.throttle_events, found.temperature_c) == (None, None, None)
    assert [one.removeprefix("this system does not tell ") for one in found.unknown] == [
        "the CPU's governor", "whether heat slowed the CPU down", "the CPU's temperature",
    ]  # fmt: skip


def test_this_machine_can_be_asked() -> None:
    """Whatever it is, nothing is raised, and what is missing has its sentence."""
    found = sysfs.state()
    missing = [one for one in (found.governor, found.clock_hz, found.throttle_events, found.temperature_c) if one is None]
    assert len(found.unknown) == len(missing)
