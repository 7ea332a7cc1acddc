"""The facts of a loaded model's weights: bytes, counts, kernels, digest. Knows torch modules, refuses to guess from dtypes or file sizes.

Bytes are those of distinct storages: a tied head counts once, packed weights count as packed, and quantizer state that lives outside
parameters and buffers is found too (bitsandbytes keeps NF4's absmax on the parameter and int8's row scales on the module).
"""

from __future__ import annotations

import ctypes
import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers.integrations.bitsandbytes import dequantize_bnb_weight
from transformers.pytorch_utils import Conv1D

from quantgate.errors import NumericallyInvalid
from quantgate.quantizers.gptq_library import is_packed, unpacked, unpacks

_MADV_DONTNEED = 4  # madvise(2)
_PACKED_KINDS = ("Params4bit", "Int8Params")
_GPTQ_WAYS = {
    "TorchAtenLinear": " (int4pack, bfloat16)",
    "TorchAtenAwqLinear": " (int4pack, bfloat16)",
    "AwqTorchLinear": " (float16)",
}
"""What a class name of GPTQModel's does not say: that scales, inputs and outputs of these layers are rounded to another type."""
UNPACKED_ONCE = " (unpacked once, for scoring)"


# ---------------------------------------------------------------------------------------------- every tensor, once


def tensors(model: Any) -> Iterator[torch.Tensor]:
    """Every tensor object the model holds: parameters, buffers, and quantizer state outside them. Shared storages repeat."""
    yield from model.parameters()
    yield from model.buffers()
    for module in model.modules():
        yield from _hidden_state(module, depth=2)
        for parameter in module.parameters(recurse=False):
            yield from _hidden_state(parameter, depth=2)


def _hidden_state(owner: object, depth: int) -> Iterator[torch.Tensor]:
    """Tensors among the plain attributes of ``owner`` and of the library's state objects there (QuantState, its nested state)."""
    for value in list(vars(owner).values()):
        if isinstance(value, torch.nn.Module):
            continue
        if isinstance(value, torch.Tensor):
            yield value
        elif depth and type(value).__module__.startswith("bitsandbytes"):
            yield from _hidden_state(value, depth - 1)


def weight_bytes(model: Any) -> int:
    """Bytes of distinct storages that hold the model."""
    storages = {
        (tensor.device, tensor.untyped_storage().data_ptr()): tensor.untyped_storage().nbytes()
        for tensor in tensors(model)
    }
    return sum(storages.values())


def own_memory(model: Any) -> None:
    """Copy every tensor off the checkpoint's mapped pages, one at a time; shared storages stay shared.

    A safetensors file is mapped, not read: its pages become resident with the first forward, belong to the file cache, and each tensor
    would drag the whole file's storage into the count. Copies are anonymous memory, as a server holds them.
    """
    copies: dict[tuple[int, int, torch.Size, tuple[int, ...], torch.dtype], torch.Tensor] = {}
    # Each object once: a copy may lie where an earlier original was, and looked at again it would be taken for that original.
    for tensor in {id(one): one for one in tensors(model)}.values():
        key = (tensor.data_ptr(), tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype)
        if tensor.numel() == 0 or tensor.device.type != "cpu":
            continue
        if key not in copies:
            copies[key] = tensor.data.clone()
        tensor.data = copies[key]  # `.data` keeps the tensor object: whoever else refers to it sees the copy too


def drop_mapped_pages(folder: Path) -> None:
    """Tell the kernel that the checkpoint's mapped pages are not needed. Does nothing outside Linux.

    After ``own_memory`` nothing of the model lies in them, but the loading of packed checkpoints leaves the mapping alive, and its pages
    would count as resident. They are private and unchanged, so a page that is read again comes back from the file.
    """
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
        madvise = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for line in lines:
        span, *_, name = line.split(maxsplit=5)
        if name.endswith(".safetensors") and name.startswith(f"{folder.resolve()}/"):
            start, end = (int(part, 16) for part in span.split("-"))
            madvise(start, end - start, _MADV_DONTNEED)


# ---------------------------------------------------------------------------------------------- modules


def linear_like(model: Any) -> dict[str, Any]:
    """Modules that multiply by a weight matrix: linear layers of any library, Conv1D, fused experts. Embeddings are not among them."""
    found = {}
    for name, module in model.named_modules():
        matrices = [p for p in module.parameters(recurse=False) if p.dim() >= 2]
        packed = hasattr(module, "qweight")
        if (
            isinstance(module, (torch.nn.Linear, Conv1D))
            or packed
            or (matrices and not isinstance(module, torch.nn.Embedding))
        ):
            found[name] = module
    return found


def is_quantized(module: Any) -> bool:
    """The module stores its weight in a packed or integer form."""
    weight = getattr(module, "weight", None)
    if type(weight).__name__ in _PACKED_KINDS or hasattr(module, "qweight"):
        return True
    return isinstance(weight, torch.Tensor) and not weight.is_floating_point()


def kernels(model: Any) -> dict[str, int]:
    """Class name of each linear-like module and how many there are; a layout that the library chose at run time is named beside it."""
    return dict(sorted(Counter(_kernel_name(module) for module in linear_like(model).values()).items()))


def _kernel_name(module: Any) -> str:
    state = getattr(getattr(module, "weight", None), "quant_state", None)
    # bitsandbytes repacks 4-bit weights on CPUs with AVX512-BF16 and computes in bfloat16 there, whatever compute dtype was asked for.
    if getattr(state, "packing_format_for_cpu", False):
        return f"{type(module).__name__} (repacked, bfloat16)"
    return type(module).__name__ + _GPTQ_WAYS.get(type(module).__name__, "") + (UNPACKED_ONCE if keeps_unpacked(module) else "")


def keeps_unpacked(module: Any) -> bool:
    """A packed layer that was told to unpack its weights once and keep them."""
    return is_packed(module) and bool(getattr(module, "_cache_enabled", False))


# ---------------------------------------------------------------------------------------------- counts and digest


def logical_count(parameter: Any) -> int:
    """How many weights a parameter holds: two 4-bit weights share one stored byte."""
    state = getattr(parameter, "quant_state", None)
    shape = getattr(state, "shape", None)
    return math.prod(shape) if shape is not None else int(parameter.numel())


def logical_parameters(model: Any) -> int:
    """Weights of the model, tied ones once: the same number in every variant."""
    packed = [module for module in model.modules() if is_packed(module)]
    theirs = {id(one) for module in packed for one in module.parameters(recurse=False)}
    biases = sum(module.bias.numel() for module in packed if module.bias is not None)
    plain = sum(logical_count(parameter) for parameter in model.parameters() if id(parameter) not in theirs)
    return plain + int(biases) + quantized_parameters(packed)


def quantized_parameters(modules: list[Any]) -> int:
    """Weights in the quantized modules, biases left out."""
    return sum(int(one.in_features * one.out_features) if is_packed(one) else logical_count(one.weight) for one in modules)


def float_weight(module: Any, parameter: Any) -> torch.Tensor:
    """A parameter as float32, dequantized where it is packed."""
    if type(parameter).__name__ == "Int8Params":
        scales = parameter.SCB if parameter.SCB is not None else module.state.SCB
        return parameter.data.float() * (scales.float().view(-1, 1) / 127.0)
    if type(parameter).__name__ == "Params4bit":
        return dequantize_bnb_weight(parameter).float()
    return parameter.detach().float()


def digest(model: Any) -> str:
    """SHA-256 over the weights as float32, in name order, one at a time. Raises ``NumericallyInvalid`` at the first non-finite one.

    Where a kernel has laid packed weights out anew, over what it holds of them instead.
    """
    sha = hashlib.sha256()
    for name, value in sorted(_named_weights(model), key=lambda pair: pair[0]):
        weight = value().cpu().contiguous()
        if weight.is_floating_point() and not torch.isfinite(weight).all():
            raise NumericallyInvalid(f"the weight {name} is not finite everywhere")
        sha.update(f"{name} {tuple(weight.shape)}\n".encode())
        sha.update(memoryview(weight.view(-1).numpy()).cast("B"))
    return sha.hexdigest()


def _named_weights(model: Any) -> Iterator[tuple[str, Callable[[], torch.Tensor]]]:
    """Every weight, tied ones once, by the name it has in the unquantized model, with what makes it float32."""
    seen: set[int] = set()
    for name, module in model.named_modules():
        prefix = f"{name}." if name else ""
        if is_packed(module):
            yield from _packed_weights(prefix, module)
            continue
        for key, parameter in module.named_parameters(recurse=False):
            if id(parameter) not in seen:
                seen.add(id(parameter))
                yield f"{prefix}{key}", partial(float_weight, module, parameter)


def _packed_weights(prefix: str, module: Any) -> Iterator[tuple[str, Callable[[], torch.Tensor]]]:
    """A packed layer's weight and bias, which it may keep in buffers; or all that it holds, where nothing unpacks it."""
    held = dict(module.named_buffers(recurse=False)) | dict(module.named_parameters(recurse=False))
    if unpacks(module):
        held = {key: tensor for key, tensor in held.items() if key == "bias"}
        yield f"{prefix}weight", partial(_unpacked, module)
    for key, tensor in held.items():
        yield f"{prefix}{key}", tensor.detach().float if tensor.is_floating_point() else tensor.detach


def _unpacked(module: Any) -> torch.Tensor:
    """A packed layer's weight as float32 [out, in]."""
    with torch.inference_mode():
        weight: torch.Tensor = unpacked(module)
    return weight


def is_tied(model: Any) -> bool:
    """The head and the embedding share one storage."""
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    return head is not None and embedding.weight.data_ptr() == head.weight.data_ptr()
