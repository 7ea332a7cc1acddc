"""Shows that an artifact is what it says: the files hold every quantized tensor, finite and not all zero, and give the model's own logits.

A quantizer asks for logits before it saves and hands the folder over; what is read back is compared with them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from quantgate.errors import EngineError, NumericallyInvalid

PROBE_IDS = 24
TOLERANCE = 0.01
"""Share of the largest logit that a kernel's rounding may move one by; the built-in quantizers come out at 0."""


def probe(vocabulary: int) -> torch.Tensor:
    """Fixed ids [1, 24], spread over the vocabulary."""
    return torch.tensor([[(7 + 13 * place * place) % vocabulary for place in range(PROBE_IDS)]])


def logits(model: Any) -> torch.Tensor:
    """Float32 logits [24, vocabulary] of the probe. Raises ``NumericallyInvalid`` where one is not finite."""
    ids = probe(model.get_input_embeddings().num_embeddings).to(next(model.parameters()).device)
    with torch.inference_mode():
        found: torch.Tensor = model.eval()(input_ids=ids).logits[0].float().cpu()
    if not torch.isfinite(found).all():
        raise NumericallyInvalid("the quantized model's logits are not finite everywhere")
    return found


def difference(before: torch.Tensor, after: torch.Tensor) -> float:
    """Largest absolute difference. Raises ``EngineError`` where it is more than rounding: the files hold another model."""
    found, most = float((before - after).abs().max()), TOLERANCE * max(1.0, float(before.abs().max()))
    if found > most:
        raise EngineError(
            f"read back from its files, the model's logits differ from those in memory by {found:.3g}; at most {most:.3g} is rounding"
        )
    return found


def library(name: str) -> str:
    """Name and installed version."""
    return f"{name} {version(name)}"


class Stored:
    """The tensors of a folder's safetensors files, by name. Raises ``EngineError`` for a file that is cut off or none."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._shards: dict[str, str] = {}
        for file in sorted(folder.glob("*.safetensors")):
            try:
                with safe_open(str(file), framework="pt") as opened:
                    self._shards |= dict.fromkeys(opened.keys(), str(file))
            except SafetensorError as error:
                raise EngineError(f"{file} cannot be read ({error}): fetch or save it again, whole") from None

    def names(self) -> tuple[str, ...]:
        """Every stored tensor."""
        return tuple(self._shards)

    def total_bytes(self) -> int:
        """Bytes of all tensors of the files, headers left out."""
        total = 0
        for shard in sorted(set(self._shards.values())):
            with safe_open(shard, framework="pt") as opened:
                for name in opened.keys():  # noqa: SIM118 - the handle is no mapping
                    tensor = opened.get_tensor(name)
                    total += tensor.numel() * tensor.element_size()
        return total

    def check(self, wanted: Iterable[str]) -> int:
        """How many tensors were wanted and are sound. Raises ``EngineError`` or ``NumericallyInvalid`` with the first that is not."""
        names = list(wanted)
        if missing := [name for name in names if name not in self._shards]:
            raise EngineError(
                f"{len(missing)} of {len(names)} quantized tensors are not in the files of {self._folder}, first {missing[0]}"
            )
        for shard in sorted({self._shards[name] for name in names}):
            with safe_open(shard, framework="pt") as opened:
                for name in (one for one in names if self._shards[one] == shard):
                    _check(name, opened.get_tensor(name))
        return len(names)

    def bits_per_weight(self, modules: Mapping[str, int]) -> float:
        """Bits that a weight of the given modules takes in the files, everything but biases counted. Values: weights of each module."""
        total = 0
        for shard in sorted(set(self._shards.values())):
            with safe_open(shard, framework="pt") as opened:
                for name in opened.keys():  # noqa: SIM118 - the handle is no mapping
                    owner = _owner(name, modules)
                    if owner is not None and name != f"{owner}.bias":
                        tensor = opened.get_tensor(name)
                        total += tensor.numel() * tensor.element_size()
        weights = sum(modules.values())
        return total * 8 / weights if weights else math.nan


def _owner(name: str, modules: Mapping[str, int]) -> str | None:
    """The module that a tensor belongs to: the longest one whose name the tensor's begins with."""
    parts = name.split(".")
    return next((own for cut in range(len(parts) - 1, 0, -1) if (own := ".".join(parts[:cut])) in modules), None)


def _check(name: str, tensor: torch.Tensor) -> None:
    if tensor.is_floating_point() and tensor.element_size() == 1:
        tensor = tensor.float()  # neither question is answered in 8 bits
    if tensor.is_floating_point() and not torch.isfinite(tensor).all():
        raise NumericallyInvalid(f"the stored tensor {name} is not finite everywhere")
    if not tensor.any():
        raise EngineError(f"the stored tensor {name} is all zeros")
