"""What Linux tells of its processors under /sys: clocks, governor, heat, last-level cache. Elsewhere everything is unknown, and says so.

A virtual machine usually shows a clock that never moves and no governor: then the host decides, and nobody in it can know.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from statistics import median

from quantgate.records import DeviceState

_CPUS = Path("/sys/devices/system/cpu")
_CPUINFO = Path("/proc/cpuinfo")
_THERMAL = Path("/sys/class/thermal")
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}
_CPU_ZONES = ("x86_pkg_temp", "cpu", "coretemp", "soc")


def last_level_cache_bytes(root: Path = _CPUS) -> int | None:
    """Bytes of the last cache before memory, as one processor sees it; None where the system does not tell."""
    found: dict[int, int] = {}
    for index in sorted(root.glob("cpu0/cache/index*")):
        level, size, kind = (_text(index / name) for name in ("level", "size", "type"))
        parts = re.fullmatch(r"(\d+)([KMG])", size or "")
        if level is not None and level.isdigit() and parts is not None and kind != "Instruction":
            found[int(level)] = int(parts[1]) * _UNITS[parts[2]]
    return found[max(found)] if found else None


def state(root: Path = _CPUS, cpuinfo: Path = _CPUINFO, thermal: Path = _THERMAL) -> DeviceState:
    """Governor, clock, slow-downs by heat so far, temperature."""
    governors = sorted({text for path in root.glob("cpu[0-9]*/cpufreq/scaling_governor") if (text := _text(path))})
    events = _throttle_events(root)
    clock, heat = _clock_hz(root, cpuinfo), _temperature_c(thermal)
    asked = {
        "the CPU's governor": governors or None,
        "the CPU's clock": clock,
        "whether heat slowed the CPU down": events,
        "the CPU's temperature": heat,
    }
    return DeviceState(
        governor=" and ".join(governors) or None,
        clock_hz=clock,
        throttle_events=events,
        temperature_c=heat,
        unknown=tuple(f"this system does not tell {what}" for what, found in asked.items() if found is None),
    )


def _clock_hz(root: Path, cpuinfo: Path) -> float | None:
    """The median over the cores."""
    clocks = [float(text) * 1e3 for path in root.glob("cpu[0-9]*/cpufreq/scaling_cur_freq") if (text := _number(path))]
    clocks = clocks or [one * 1e6 for one in _megahertz(cpuinfo)]
    return median(clocks) if clocks else None


def _megahertz(cpuinfo: Path) -> Iterator[float]:
    for line in (_text(cpuinfo) or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip().lower() == "cpu mhz":
            with suppress(ValueError):
                yield float(value)


def _throttle_events(root: Path) -> int | None:
    """The package's own count, which all its cores show; of several packages the sum."""
    found: dict[str, int] = {}
    for path in root.glob("cpu[0-9]*/thermal_throttle/package_throttle_count"):
        package = _text(path.parent.parent / "topology" / "physical_package_id") or ""
        if (count := _number(path)) is not None:
            found[package] = max(found.get(package, 0), int(count))
    return sum(found.values()) if found else None


def _temperature_c(thermal: Path) -> float | None:
    """The hottest zone that is the processor's."""
    zones = [zone for zone in thermal.glob("thermal_zone*") if (_text(zone / "type") or "").lower().startswith(_CPU_ZONES)]
    found = [int(number) / 1000 for zone in zones if (number := _number(zone / "temp")) is not None]
    return max(found, default=None)


def _number(path: Path) -> str | None:
    text = _text(path)
    return text if text is not None and text.isdigit() else None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
