"""Cases of recognising out-of-memory taken from public bug reports."""

from __future__ import annotations

import gc
import weakref

import pytest

from quantgate.devices.oom import is_out_of_memory
from quantgate.engines.transformers import _translated
from quantgate.errors import EngineError, OutOfMemory


class OutOfMemoryError(RuntimeError):
    """Named like torch's own."""


@pytest.mark.parametrize(
    "error",
    [
        OutOfMemoryError("any wording"),
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("MPS backend out of memory (MPS allocated: 17.93 GB, max allowed: 18.13 GB)"),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."
        ),
        MemoryError(),
        RuntimeError("HIP out of memory. Tried to allocate"),
        RuntimeError("Native API failed. Native API returns: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        OSError(12, "Cannot allocate memory"),
        OutOfMemory("ours"),
    ],
)
def test_b10_every_wording_is_recognised(error: BaseException) -> None:
    """B10: each backend's out-of-memory leads to a smaller batch."""
    assert is_out_of_memory(error)


@pytest.mark.parametrize(
    "error", [RuntimeError("shape mismatch"), ValueError("out of memory"), KeyError("memory"), OSError(2, "x")]
)
def test_b10_other_errors_propagate(error: BaseException) -> None:
    """B10: any other error is not an out-of-memory and must propagate at once."""
    assert not is_out_of_memory(error)


def test_b11_a_translated_error_keeps_no_tensor_alive() -> None:
    """B11: the failed attempt's objects are dead while its translated error is still held, without help from the collector."""

    class Attempt:
        pass

    seen: list[weakref.ref[Attempt]] = []

    def fail() -> None:
        attempt = Attempt()
        seen.append(weakref.ref(attempt))
        raise RuntimeError("CUDA out of memory.")

    gc.disable()
    try:
        with pytest.raises(OutOfMemory) as caught:
            _translated("a fill", fail)
        assert seen[0]() is None
        assert caught.value.__context__ is None
    finally:
        gc.enable()


def test_b10_the_engine_translates_once() -> None:
    """B10: what is no out-of-memory leaves the engine as an EngineError that says what was being done."""

    def fail() -> None:
        raise RuntimeError("shape mismatch")

    with pytest.raises(EngineError, match="a fill: RuntimeError: shape mismatch") as caught:
        _translated("a fill", fail)
    assert not isinstance(caught.value, OutOfMemory)
