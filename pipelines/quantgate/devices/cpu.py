"""The CPU as a device: its memory is the resident set of this process, its peak what the kernel saw, its clock ``perf_counter``.

The peak is the kernel's own high-water mark where it may be reset (``/proc/self/clear_refs``), else a thread samples the resident set.
The C library keeps freed blocks below its mapping threshold, so a peak would grow with what was freed before; while a block is watched,
every tensor of 64 KiB or more is its own mapping and returns to the system when freed. For timing the threshold is large again, because
a mapping costs a page fault for every 4 KiB. Intel's math library, which multiplies matrices on x86, keeps its buffers from call to call
too, some MiB more after each new size: they are given back before a block is watched, so that a peak does not depend on earlier blocks.
"""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch

from quantgate.devices import exercises, sysfs
from quantgate.errors import EngineError
from quantgate.ports import Exercise
from quantgate.records import DeviceConfig, DeviceInfo, DeviceState, PeakMemory

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_SAMPLE_S = 0.005
_RESET_PEAK = "5"  # what clear_refs takes to set VmHWM back to the live amount, proc(5)
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h of glibc
_WATCHED_THRESHOLD_BYTES = 64 * 1024
_TIMED_THRESHOLD_BYTES = 32 * 1024 * 1024  # the largest that glibc takes, and what its own adaptation ends at
_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")


class CpuDevice:
    """``memory_budget_bytes`` of the config is enforced by the caller: on a CPU "fits" means measured peak <= budget."""

    def __init__(self, config: DeviceConfig) -> None:
        if config.threads is not None:
            torch.set_num_threads(config.threads)
        self._heap = _Heap()
        self._free_buffers = _math_buffers()
        self.info = DeviceInfo(
            kind="cpu",
            name=_cpu_name(),
            total_bytes=_total_bytes(),
            threads=torch.get_num_threads(),
            driver=None,
            cache_bytes=sysfs.last_level_cache_bytes(),
        )

    def synchronize(self) -> None:
        """Nothing is queued on a CPU."""

    def now_s(self) -> float:
        return time.perf_counter()

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def live_bytes(self) -> int:
        """Resident bytes of the process now. Where the system tells only its peak so far (macOS), that."""
        return _resident_bytes()

    @contextmanager
    def watch_memory(self) -> Iterator[CpuWatch]:
        gc.collect()
        self._free_buffers()
        self._heap.return_freed_blocks()
        watch = CpuWatch()
        watch.start()
        try:
            yield watch
        finally:
            watch.stop()
            self._heap.keep_freed_blocks()

    def release(self) -> None:
        gc.collect()
        self._free_buffers()
        self._heap.trim()

    def reading(self, size_bytes: int) -> list[Exercise]:
        return exercises.reading("cpu", size_bytes)

    def multiplying(self, side: int, dtype: str) -> Exercise:
        return exercises.multiplying("cpu", side, dtype)

    def state(self) -> DeviceState:
        return sysfs.state()


class CpuWatch:
    """The resident set from ``start`` to ``stop``. ``peak`` may be read after ``stop``."""

    def __init__(self) -> None:
        self._before = 0
        self._peak: PeakMemory | None = None
        self._sampler: _Sampler | None = None

    @property
    def peak(self) -> PeakMemory:
        if self._peak is None:
            raise EngineError("the peak was read before its block ended")
        return self._peak

    def start(self) -> None:
        if not _reset_kernel_peak():
            self._sampler = _Sampler()
            self._sampler.start()
        self._before = _resident_bytes()

    def stop(self) -> None:
        seen = self._sampler.stop() if self._sampler else _kernel_peak_bytes()
        peak = max(self._before, seen, _resident_bytes())
        self._peak = PeakMemory(before_bytes=self._before, peak_bytes=peak, source="process")


class _Sampler(threading.Thread):
    """Reads the resident set every 5 ms; a peak shorter than that can be missed."""

    def __init__(self) -> None:
        super().__init__(daemon=True, name="quantgate-memory")
        self._done = threading.Event()
        self._peak = _resident_bytes()

    def run(self) -> None:
        while not self._done.wait(_SAMPLE_S):
            self._peak = max(self._peak, _resident_bytes())

    def stop(self) -> int:
        self._done.set()
        self.join()
        return max(self._peak, _resident_bytes())


# ---------------------------------------------------------------------------------------------- the C library's heap


class _Heap:
    """glibc's malloc where this process runs on it; every method does nothing elsewhere."""

    def __init__(self) -> None:
        self._libc: ctypes.CDLL | None = None
        if sys.platform == "linux" and platform.libc_ver()[0] == "glibc":
            with suppress(OSError, AttributeError):
                library = ctypes.CDLL(None)
                library.malloc_trim.argtypes = [ctypes.c_size_t]
                library.mallopt.argtypes = [ctypes.c_int, ctypes.c_int]
                self._libc = library

    def return_freed_blocks(self) -> None:
        """From now on freed tensors go back to the system at once."""
        self._set(_WATCHED_THRESHOLD_BYTES, _WATCHED_THRESHOLD_BYTES)
        self.trim()

    def keep_freed_blocks(self) -> None:
        """From now on freed memory is reused without page faults."""
        self._set(_TIMED_THRESHOLD_BYTES, 2 * _TIMED_THRESHOLD_BYTES)

    def trim(self) -> None:
        if self._libc is not None:
            self._libc.malloc_trim(0)

    def _set(self, mapping_bytes: int, trim_bytes: int) -> None:
        if self._libc is not None:
            self._libc.mallopt(_M_MMAP_THRESHOLD, mapping_bytes)
            self._libc.mallopt(_M_TRIM_THRESHOLD, trim_bytes)


def _math_buffers() -> Callable[[], object]:
    """What gives back the buffers that MKL keeps, as it is linked into torch; nothing where torch multiplies with something else."""
    for library in Path(torch.__file__).parent.glob("lib/*torch_cpu.*"):
        with suppress(OSError, AttributeError):
            free: Callable[[], object] = ctypes.CDLL(str(library)).mkl_serv_free_buffers
            return free
    return lambda: None


# ---------------------------------------------------------------------------------------------- what the system says


def _status_bytes(field: str) -> int | None:
    try:
        text = _STATUS.read_text(encoding="ascii")
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return None


def _resident_bytes() -> int:
    if (resident := _status_bytes("VmRSS")) is not None:
        return resident
    if resource is None:
        raise EngineError(
            "this system tells neither the resident set nor the peak of a process: memory cannot be measured here"
        )
    # Only the peak so far is known: a block that stays below an earlier peak shows as adding nothing.
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _kernel_peak_bytes() -> int:
    return _status_bytes("VmHWM") or 0


def _reset_kernel_peak() -> bool:
    """Set the kernel's high-water mark to the live amount. False where that is not allowed or has no effect."""
    try:
        _CLEAR_REFS.write_text(_RESET_PEAK, encoding="ascii")
    except OSError:
        return False
    peak, resident = _status_bytes("VmHWM"), _status_bytes("VmRSS")
    # Sandboxed kernels accept the write and ignore it.
    return peak is not None and resident is not None and peak - resident < 16 * 1024 * 1024


def _cpu_name() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.lower().startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine() or "unknown CPU"


def _total_bytes() -> int:
    """Physical memory, or the control group's limit where that is smaller."""
    try:
        physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        raise EngineError(
            "this system does not tell its physical memory: set device.memory_budget_bytes on a system that does"
        ) from None
    return min([physical, *_control_group_limits(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))])


def _control_group_limits(membership: Path, root: Path) -> list[int]:
    """Memory limits of this process's control groups and of every group above them; version 2 and 1. ``max`` is no limit."""
    limits = []
    with suppress(OSError, ValueError):
        for line in membership.read_text(encoding="ascii").splitlines():
            number, controllers, path = line.split(":", 2)
            if number == "0":
                limits += _limits_upwards(root, path, "memory.max")
            elif "memory" in controllers.split(","):
                limits += _limits_upwards(root / "memory", path, "memory.limit_in_bytes")
    return limits


def _limits_upwards(root: Path, path: str, name: str) -> list[int]:
    limits = []
    group = root / path.lstrip("/")
    while group.is_relative_to(root):
        with suppress(OSError, ValueError):
            limits.append(int((group / name).read_text(encoding="ascii")))
        if group == root:
            break
        group = group.parent
    return limits
