"""Is this exception an out-of-memory? Knows every backend's wording, imports none of them.

String matching on one sentence is what makes probers report "max batch 0" on another backend, so types are matched by name and messages
by the few phrases that only running out of memory produces. Anything else is a fault of its own and must propagate.
"""

from __future__ import annotations

import errno

from quantgate.errors import OutOfMemory

_TYPE_NAMES = frozenset({"OutOfMemoryError", "CUDAOutOfMemoryError", "HIPOutOfMemoryError", "XlaOutOfMemoryError"})

_PHRASES = (
    "out of memory",  # CUDA, HIP, MPS, XPU
    "can't allocate memory",  # DefaultCPUAllocator, POSIX
    "cannot allocate memory",
    "failed to allocate memory",
    "not enough memory",  # DefaultCPUAllocator on Windows
    "std::bad_alloc",
    "outofmemory",  # hipErrorOutOfMemory
    "out_of_memory",
    "out_of_device_memory",  # Level Zero: UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY
    "out_of_host_memory",
    "alloc_failed",  # CUBLAS_STATUS_ALLOC_FAILED, CUSPARSE, CUDNN
    "resource_exhausted",  # XLA
)


def is_out_of_memory(error: BaseException) -> bool:
    """True where a smaller batch may help; False for every other error, which must propagate at once."""
    if isinstance(error, (MemoryError, OutOfMemory)):
        return True
    if any(kind.__name__ in _TYPE_NAMES for kind in type(error).__mro__):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    # Backends word it on RuntimeError; a ValueError that mentions memory is somebody's input check.
    return isinstance(error, RuntimeError) and any(phrase in str(error).lower() for phrase in _PHRASES)
