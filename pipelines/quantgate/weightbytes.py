"""Bytes of a model's weights at a bit width: packed matrices with their scales, and what stays in float. Plain arithmetic.

Only linear layers and experts are quantized: embeddings, the head, norms, biases and routers stay as they are, which is why four bits do
not free three quarters. Where a folder holds safetensors files, their headers say every shape exactly; a header is read, no weight is.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from quantgate.errors import ConfigError
from quantgate.parameters import Matrices, Part
from quantgate.records import Variant

FLOAT_BITS = (16, 32)
FEWEST_BITS, MOST_BITS = 2, 8
ALLOWED_BITS = f"{FEWEST_BITS} to {MOST_BITS}, 16 and 32"
_LARGEST_HEADER_BYTES = 100 * 2**20
_FLOAT_IN_MEMORY = frozenset({"rtn"})
"""Quantizers whose variants keep their values in float: scored, never filled."""
_BLIND_TO_FUSED_EXPERTS = frozenset({"bitsandbytes"})
_FLOAT_TYPES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
_EMBEDDINGS = ("embed", "wte.", "wpe.", "tok_embeddings")
_HEADS = ("lm_head.", "embed_out.")
_ROUTERS = ("router", ".mlp.gate.", "shared_expert_gate", "block_sparse_moe.gate.")


@dataclass(frozen=True, kw_only=True, slots=True)
class Packing:
    """How weights are stored. ``group`` None: one scale for each output row."""

    bits: int
    group: int | None = None
    scale_bytes: int = 0
    float_bytes: int = 2
    """Bytes of an element of what is not quantized."""
    experts: bool = True
    """False: experts kept as one tensor a layer are not recognised and stay in float."""

    @property
    def label(self) -> str:
        """``16 bit``, or ``4 bit, a 4-byte scale for each 64 weights``."""
        if not self.scale_bytes:
            return f"{self.bits} bit"
        where = "output row" if self.group is None else f"{self.group} weights"
        return f"{self.bits} bit, a {self.scale_bytes}-byte scale for each {where}"


def usual_packing(bits: int) -> Packing:
    """The storage of common kernels at a bit width: 8 with a float32 scale a row, fewer with one for each 64 weights.

    Raises ``ConfigError`` for widths that nobody stores.
    """
    if bits in FLOAT_BITS:
        return Packing(bits=bits, float_bytes=bits // 8)
    if not FEWEST_BITS <= bits <= MOST_BITS:
        raise ConfigError(f"weights of {bits} bits are not known; allowed are {ALLOWED_BITS}")
    return Packing(bits=bits, group=None if bits == MOST_BITS else 64, scale_bytes=4)


def packing_of(variant: Variant, float_bytes: int) -> Packing:
    """How a variant's weights lie in memory: its own groups where it says so, the usual scales of its width; in float where simulated."""
    bits = variant.weight_bits
    if bits is None or bits > MOST_BITS or variant.quantizer in _FLOAT_IN_MEMORY:
        return Packing(bits=8 * float_bytes, float_bytes=float_bytes)
    usual = replace(usual_packing(bits), float_bytes=float_bytes, experts=variant.quantizer not in _BLIND_TO_FUSED_EXPERTS)
    kind, _, size = variant.granularity.partition(":")
    return replace(usual, group=int(size)) if kind == "group" else usual


def is_filled(variant: Variant) -> bool:
    """The variant's ceiling is looked for: no control, more than its quality asked, and packed in memory."""
    filled = variant.role in ("reference", "candidate") and variant.measure == "all"
    return filled and not is_simulated(variant)


def is_ready(variant: Variant) -> bool:
    """Somebody else quantized it, maybe its embedding and head too: what it takes at least does not follow from the model's shapes."""
    return variant.quantizer == "checkpoint"


def is_simulated(variant: Variant) -> bool:
    """Its quantizer rounds weights and keeps them in float: scored, and nothing is freed."""
    return variant.quantizer in _FLOAT_IN_MEMORY


def weight_bytes(model: Iterable[Matrices], packing: Packing) -> int:
    """Bytes of the whole model."""
    return sum(_bytes(one, packing) for one in model)


def logical_parameters(model: Iterable[Matrices]) -> int:
    """Weights of the model, the same number at every bit width."""
    return sum(one.elements for one in model)


def share_quantized(model: Iterable[Matrices], packing: Packing) -> float:
    """Share of the weights that are stored in fewer bits; 0 for a float packing."""
    every = tuple(model)
    total = logical_parameters(every)
    return sum(one.elements for one in every if _is_packed(one, packing)) / total if total else 0.0


def _is_packed(one: Matrices, packing: Packing) -> bool:
    return packing.bits <= MOST_BITS and (one.part == "linear" or (one.part == "expert" and packing.experts))


def _bytes(one: Matrices, packing: Packing) -> int:
    if not _is_packed(one, packing):
        return one.elements * packing.float_bytes
    payload = -(-one.rows * one.columns * packing.bits // 8)
    scales = one.rows if packing.group is None else -(-one.rows * one.columns // packing.group)
    return one.count * (payload + scales * packing.scale_bytes)


def bytes_of_count(parameters: int, bits: int) -> int:
    """Bytes of a number of weights when nothing else is known of the model: no scales, nothing kept in float."""
    usual_packing(bits)
    return -(-parameters * bits // 8)


# ---------------------------------------------------------------------------------------------- safetensors headers


def matrices_of_folder(folder: Path, *, tied: bool) -> tuple[Matrices, ...] | None:
    """Every float tensor of a folder's safetensors files; None where there are none, or where they are packed already.

    Raises ``ConfigError`` for a file whose header cannot be read.
    """
    files = sorted(folder.glob("*.safetensors"))
    found: dict[str, tuple[int, ...]] = {}
    for file in files:
        for name, entry in _header(file).items():
            if entry["dtype"] not in _FLOAT_TYPES:
                return None
            found[name] = tuple(entry["shape"])
    if not found:
        return None
    return tuple(_matrices(name, shape) for name, shape in _once(found, tied))


def stored_bytes(folder: Path) -> int:
    """Bytes of the tensors in a folder's safetensors files, headers left out."""
    return sum(
        entry["data_offsets"][1] - entry["data_offsets"][0] for file in folder.glob("*.safetensors") for entry in _header(file).values()
    )


def _once(found: Mapping[str, tuple[int, ...]], tied: bool) -> Iterator[tuple[str, tuple[int, ...]]]:
    for name, shape in found.items():
        if not (tied and _part(name, shape) == "head"):
            yield name, shape


def _header(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as opened:
            (size,) = struct.unpack("<Q", opened.read(8))
            if size > _LARGEST_HEADER_BYTES:
                raise ValueError(f"a header of {size} bytes")
            found = json.loads(opened.read(size))
        found.pop("__metadata__", None)
        for entry in found.values():
            entry["dtype"], entry["shape"], entry["data_offsets"]
    except (OSError, ValueError, struct.error, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(f"not a safetensors file: {type(error).__name__}: {error}", file=str(file)) from None
    return dict(found)


def _matrices(name: str, shape: tuple[int, ...]) -> Matrices:
    part = _part(name, shape)
    if part == "expert" and len(shape) == 3:
        return Matrices(part=part, rows=shape[1], columns=shape[2], count=shape[0])
    columns = 1
    for size in shape[1:]:
        columns *= size
    return Matrices(part=part, rows=shape[0] if shape else 1, columns=columns)


def _part(name: str, shape: tuple[int, ...]) -> Part:
    if len(shape) < 2 or any(word in name for word in _ROUTERS):
        return "other"
    if any(word in name for word in _HEADS):
        return "head"
    if any(word in name for word in _EMBEDDINGS):
        return "embedding"
    if "experts" in name and "shared_experts" not in name:
        return "expert"
    return "linear" if len(shape) == 2 else "other"
