"""Whether a variant's weights alone fit its device, told from the model's shapes before anything is built or loaded.

The bytes are the least that such weights can take, without scales, so a refusal is never wrong; whether requests fit beside them is what
fills show. Of a ready checkpoint nothing is said: its embedding may be in fewer bits too. On a GPU the allocator is held to the memory
budget, so it binds every variant. On a CPU it binds what is filled: the reference and what is only scored may take more, up to what the
machine has.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from quantgate import modelconfig
from quantgate.errors import UsageError
from quantgate.modelconfig import Described
from quantgate.parameters import Matrices
from quantgate.records import DeviceConfig, ModelSource, Variant
from quantgate.render.quantities import decimal_bytes
from quantgate.shapes import Config
from quantgate.weightbytes import FEWEST_BITS, MOST_BITS, is_filled, is_ready, packing_of, usual_packing, weight_bytes


def refusal(variant: Variant, model: ModelSource, device: DeviceConfig, total_bytes: int | None) -> str | None:
    """Why the variant cannot run on the device, in one sentence; None where it may, and where its size or the device's is not known.

    ``total_bytes`` is the device's own memory, None while nobody has asked it.
    """
    budget, described = budget_bytes(variant, device), _described(model)
    limit = total_bytes if budget is None else budget
    if limit is None or described is None or described.matrices is None or is_ready(variant):
        return None
    why = too_large(variant, described.matrices, limit, float_bytes(described.config, device))
    if why is None:
        return None
    return f"{why}; the device has no more" if budget is None else f"{why}; or raise device.memory_budget"


def budget_bytes(variant: Variant, device: DeviceConfig) -> int | None:
    """The budget that the variant's weights must stay under; None where the device alone is the limit."""
    bound = device.kind == "cuda" or (is_filled(variant) and variant.role != "reference")
    return device.memory_budget_bytes if bound else None


def too_large(variant: Variant, matrices: tuple[Matrices, ...], limit: int, element_bytes: int) -> str | None:
    """The sentence, with the largest width that would fit. ``element_bytes``: of a weight that stays in float."""
    least = weight_bytes(matrices, replace(packing_of(variant, element_bytes), scale_bytes=0, experts=True))
    if least < limit:
        return None
    bits = variant.weight_bits or 8 * element_bytes
    wider = [
        width
        for width in range(min(bits - 1, MOST_BITS), FEWEST_BITS - 1, -1)
        if weight_bytes(matrices, replace(usual_packing(width), float_bytes=element_bytes)) < limit
    ]
    fits = f"the largest width whose weights fit is {wider[0]} bits" if wider else f"not even {FEWEST_BITS}-bit weights fit"
    return f"its weights alone take at least {decimal_bytes(least)} at {bits} bits, and there are {decimal_bytes(limit)}: {fits}"


def float_bytes(config: Config, device: DeviceConfig) -> int:
    """Bytes of a float weight as the engine holds it: the type asked for, else the model's own on a GPU and float32 on a CPU."""
    stated = config.get("dtype") or config.get("torch_dtype") if device.kind == "cuda" else None
    return 2 if str(device.dtype or stated or "float32") in ("float16", "bfloat16") else 4


@lru_cache(maxsize=8)
def _described(model: ModelSource) -> Described | None:
    """The model's shapes; None where they cannot be read, which whoever loads it will say better."""
    try:
        return modelconfig.describe_source(model)
    except UsageError:
        return None
