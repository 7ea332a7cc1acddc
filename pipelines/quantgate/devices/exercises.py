"""What a device is made to do so that its roofs can be timed: read memory in several ways, multiply matrices. Times nothing itself.

The fastest way is the roof: a sum, a product with a vector, and a largest element are each the best on some device. All read the same
buffer, filled beforehand, so that no page is touched for the first time while somebody holds the watch.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from quantgate.devices.oom import is_out_of_memory
from quantgate.errors import EngineError, OutOfMemory
from quantgate.ports import Exercise

_COLUMNS = 4096
_INTEGERS = ("int8",)


def reading(device: str, size_bytes: int) -> list[Exercise]:
    """Ways of reading one buffer of about ``size_bytes`` in float32, as rows of 4,096 or one short row."""
    columns = min(_COLUMNS, max(1, size_bytes // 4))
    rows = max(1, size_bytes // (4 * columns))
    with torch.inference_mode():
        buffer = _made(f"a buffer of {size_bytes:,} bytes", partial(torch.ones, rows, columns, device=device))
        vector = torch.ones(columns, device=device)
    amount = float(buffer.numel() * buffer.element_size())
    ways = {"sum": buffer.sum, "product with a vector": partial(torch.mv, buffer, vector), "largest element": buffer.amax}
    return [Exercise(way=way, amount=amount, run=torch.inference_mode()(run)) for way, run in ways.items()]


def multiplying(device: str, side: int, dtype: str) -> Exercise:
    """The product of two square matrices, of whole numbers into 32 bits."""
    kind: Any = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype):
        raise EngineError(f"torch has no type {dtype}")
    with torch.inference_mode():
        left = _made(f"a matrix of {side:,} x {side:,}", partial(torch.ones, side, side, dtype=kind, device=device))
        multiply = torch._int_mm if dtype in _INTEGERS else torch.mm
        run = torch.inference_mode()(partial(multiply, left, left.clone()))
        try:
            run()
        except RuntimeError as error:
            raise EngineError(f"torch does not multiply {dtype} on {device}: {str(error).splitlines()[0]}") from None
    return Exercise(way=f"product of {side:,} x {side:,}", amount=2.0 * side**3, run=run)


def _made(what: str, make: Any) -> torch.Tensor:
    try:
        made: torch.Tensor = make()
    except Exception as error:
        if is_out_of_memory(error):
            raise OutOfMemory(f"no memory for {what}") from None
        raise EngineError(f"{what} could not be made: {error}") from None
    return made
