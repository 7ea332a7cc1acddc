"""The layers of a model that a quantizer may touch, by name and shape. Knows torch's layer classes; reads no weights for that.

A model is built on torch's meta device from its config alone, so that every layer a plan cannot work on is named before anything is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.pytorch_utils import Conv1D

from quantgate.errors import ConfigError
from quantgate.records import DeviceConfig, ModuleLeft

SHOWN = 200
"""Layers listed in one message."""


def float_type(device: DeviceConfig) -> torch.dtype | str:
    """What float weights are loaded in: as asked for, else ``auto``, the checkpoint's own type, on a GPU and float32 on a CPU."""
    if device.dtype is not None:
        found: torch.dtype = getattr(torch, device.dtype)
        return found
    return "auto" if device.kind == "cuda" else torch.float32


def empty_model(path: str) -> Any:
    """The model's modules without weights. Raises ``ConfigError`` where its config cannot be read."""
    try:
        config = AutoConfig.from_pretrained(path, local_files_only=True)
        with torch.device("meta"):
            return AutoModelForCausalLM.from_config(config)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read the model at {path}: {error}") from None


def made_up(told: Mapping[str, Any], place: object) -> str | None:
    """Why a model that was read is not the one in its files: the library fills tensors that they lack with values of its own, and goes on.

    ``told``: what ``from_pretrained`` answers with ``output_loading_info``.
    """
    absent = sorted(told["missing_keys"])
    if not absent:
        return None
    what = "1 tensor of the model is" if len(absent) == 1 else f"{len(absent)} tensors of the model are"
    return f"{what} not in the files of {place}, first {absent[0]}: values would be made up; fetch or save it again, whole"


def linear_layers(model: Any) -> Iterator[tuple[str, Any]]:
    """Linear and Conv1D modules except the head: a tied head is the embedding, and an untied one costs most quality per byte freed."""
    head = model.get_output_embeddings()
    for name, module in model.named_modules():
        if isinstance(module, (torch.nn.Linear, Conv1D)) and module is not head:
            yield name, module


def multiplied(model: Any) -> Iterator[tuple[str, Any]]:
    """Every linear and Conv1D module, the head too: what a checkpoint may have quantized."""
    for name, module in model.named_modules():
        if isinstance(module, (torch.nn.Linear, Conv1D)):
            yield name, module


def unlike(plain: Any, other: Any) -> str | None:
    """Why a checkpoint's model is not the reference's: a linear layer that one of them lacks, or of another shape; heads left out."""
    ours, theirs = ({name: tuple(rows(module).shape) for name, module in linear_layers(model)} for model in (plain, other))
    wrong = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    if not wrong:
        return None
    sides = " and ".join(f"{_shape(found.get(wrong[0]))} in {where}" for found, where in ((theirs, "it"), (ours, "the reference")))
    return f"{len(wrong)} of its layers are not the reference's, first {wrong[0]} ({sides}): it is another model"


def _shape(shape: tuple[int, ...] | None) -> str:
    return "none" if shape is None else " x ".join(str(size) for size in shape)


def rows(module: Any) -> torch.Tensor:
    """The weight as [out_features, in_features], a view; Conv1D stores it transposed."""
    weight: torch.Tensor = module.weight.data
    return weight.T if isinstance(module, Conv1D) else weight


def undivided_columns(layers: Iterable[tuple[str, Any]], size: int) -> list[str]:
    """Layers whose inputs a group size does not divide, each with its columns and the remainder."""
    return _remainders(layers, size, "columns", lambda shape: shape[1])


def undivided_rows(layers: Iterable[tuple[str, Any]], size: int) -> list[str]:
    """Layers whose outputs a packing does not divide, each with its rows and the remainder."""
    return _remainders(layers, size, "rows", lambda shape: shape[0])


def _remainders(layers: Iterable[tuple[str, Any]], size: int, what: str, width: Callable[[Any], int]) -> list[str]:
    found = [(name, width(rows(module).shape)) for name, module in layers]
    return [f"{name} ({number} {what}, remainder {number % size})" for name, number in found if number % size]


def listed(failing: list[str]) -> str:
    """All of them in one line; far more than anybody reads are counted."""
    rest = f" and {len(failing) - SHOWN} more" if len(failing) > SHOWN else ""
    return ", ".join(failing[:SHOWN]) + rest


# ---------------------------------------------------------------------------------------------- what stayed in float


def left(model: Any, replaced: Iterable[str]) -> tuple[ModuleLeft, ...]:
    """Every module with a weight matrix that was not quantized, with the reason; ``model`` as it was before."""
    done, head, embedding = set(replaced), model.get_output_embeddings(), model.get_input_embeddings()
    found = []
    for name, module in model.named_modules():
        matrices = {key: one for key, one in module.named_parameters(recurse=False) if one.dim() >= 2}
        if matrices and name not in done:
            size = sum(one.numel() for one in matrices.values())
            found.append(ModuleLeft(name=name, parameters=size, reason=_reason(module, head, embedding)))
    return tuple(found)


def _reason(module: Any, head: Any, embedding: Any) -> str:
    if module is head:
        tied = embedding is not None and module.weight is embedding.weight
        return "the head, tied to the embedding" if tied else "the head: costs most quality per byte freed"
    if isinstance(module, torch.nn.Embedding):
        return "an embedding: looked up, not multiplied"
    if isinstance(module, (torch.nn.Linear, Conv1D)):
        return "the quantizer leaves this layer of the architecture out"
    return f"the quantizer does not know weights of {type(module).__name__}"


def logical_parameters(model: Any) -> int:
    """Weights of the unquantized model, tied ones once."""
    return sum(one.numel() for one in model.parameters())


def tied(model: Any) -> bool:
    """The head is the embedding."""
    head, embedding = model.get_output_embeddings(), model.get_input_embeddings()
    return head is not None and embedding is not None and head.weight is embedding.weight
