"""Checkpoints as other programs leave them, written here by hand: AWQ in the gemm layout, and two formats of compressed-tensors.

Each writer returns what its weights stand for, so that a test knows the answer without the library that reads them.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from quantgate.quantizers import layers

Weights = dict[str, torch.Tensor]
AWQ_LANES = (0, 2, 4, 6, 1, 3, 5, 7)
"""Which of eight neighbouring outputs lies in each four bits of a word, the lowest first."""


def awq(base: Path, into: Path, *, group: int = 32, **said: Any) -> Weights:
    """4 bits with a zero point a group."""
    tensors, linear = _start(base, into)
    truth = {}
    for name, weight in linear.items():
        codes, scales, zeros = _asymmetric(weight, group)
        truth[name] = ((codes.view(len(codes), -1, group) - zeros[..., None]) * scales.float()[..., None]).view(weight.shape)
        tensors[f"{name}.qweight"] = _words(codes.T, 4, AWQ_LANES)
        tensors[f"{name}.qzeros"] = _words(zeros.T, 4, AWQ_LANES)
        tensors[f"{name}.scales"] = scales.T.contiguous()
    config = {"quant_method": "awq", "bits": 4, "group_size": group, "zero_point": True, "version": "gemm"}
    _finish(into, tensors, {**config, **said})
    return truth


def packed_integers(base: Path, into: Path, *, group: int = 32) -> Weights:
    """compressed-tensors, format pack-quantized: 4 bits, symmetric, a float16 scale a group."""
    tensors, linear = _start(base, into)
    truth = {}
    for name, weight in linear.items():
        codes, scales = _symmetric(weight, group, 4)
        truth[name] = (codes.view(len(codes), -1, group) * scales.float()[..., None]).view(weight.shape)
        tensors[f"{name}.weight_packed"] = _words(codes + 8, 4, tuple(range(8)))
        tensors[f"{name}.weight_scale"] = scales
        tensors[f"{name}.weight_shape"] = torch.tensor(weight.shape)
    _finish(into, tensors, compressed("pack-quantized", num_bits=4, strategy="group", group_size=group))
    return truth


def plain_integers(base: Path, into: Path) -> Weights:
    """compressed-tensors, format int-quantized: 8 bits, symmetric, a float32 scale a row."""
    tensors, linear = _start(base, into)
    truth = {}
    for name, weight in linear.items():
        codes, scales = _symmetric(weight, weight.shape[1], 8)
        truth[name] = codes * scales.float()
        tensors[f"{name}.weight"] = codes.to(torch.int8)
        tensors[f"{name}.weight_scale"] = scales.float()
    _finish(into, tensors, compressed("int-quantized", num_bits=8, strategy="channel", group_size=None))
    return truth


def compressed(format_: str, *, input_activations: Any = None, **weights: Any) -> dict[str, Any]:
    """The config of a compressed-tensors checkpoint with one scheme for all layers but the head."""
    scheme = {
        "targets": ["Linear"], "weights": {"type": "int", "symmetric": True, **weights}, "input_activations": input_activations,
        "format": format_,
    }  # fmt: skip
    return {
        "quant_method": "compressed-tensors", "format": format_, "quantization_status": "compressed", "ignore": ["lm_head"],
        "config_groups": {"group_0": scheme},
    }  # fmt: skip


def _start(base: Path, into: Path) -> tuple[Weights, Weights]:
    """A copy of the model, its tensors without those of the linear layers, and these."""
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    linear = {name: layers.rows(module).clone() for name, module in layers.linear_layers(model)}
    shutil.copytree(base, into)
    tensors = load_file(into / "model.safetensors")
    return {name: one for name, one in tensors.items() if name.removesuffix(".weight") not in linear}, linear


def _finish(into: Path, tensors: Weights, said: dict[str, Any]) -> None:
    save_file(tensors, into / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((into / "config.json").read_text(encoding="utf-8"))
    (into / "config.json").write_text(json.dumps({**config, "quantization_config": said}), encoding="utf-8")


def _symmetric(weight: torch.Tensor, group: int, bits: int) -> tuple[torch.Tensor, torch.Tensor]:
    groups, most = weight.view(len(weight), -1, group), 2 ** (bits - 1) - 1
    scales = (groups.abs().amax(-1) / most).half()
    codes = (groups / scales.float()[..., None]).round().clamp(-most - 1, most)
    return codes.view(weight.shape).int(), scales


def _asymmetric(weight: torch.Tensor, group: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    groups = weight.view(len(weight), -1, group)
    low, high = groups.amin(-1).clamp(max=0), groups.amax(-1).clamp(min=0)
    scales = ((high - low) / 15).half()
    zeros = (-low / scales.float()).round().clamp(0, 15)
    codes = (groups / scales.float()[..., None] + zeros[..., None]).round().clamp(0, 15)
    return codes.view(weight.shape).int(), scales, zeros.int()


def _words(codes: torch.Tensor, bits: int, lanes: tuple[int, ...]) -> torch.Tensor:
    """Codes of at least 0 packed into 32-bit words along the last dimension."""
    parts = codes.contiguous().view(codes.shape[0], -1, len(lanes)).long()
    word = sum((parts[..., lane] << (bits * place) for place, lane in enumerate(lanes)), torch.zeros((), dtype=torch.long))
    return word.where(word < 2**31, word - 2**32).int()
