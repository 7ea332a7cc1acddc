"""Checkpoints as other programs leave them, written here by hand: AWQ in the gemm layout, two formats of compressed-tensors, and GGUF.

Each writer returns what its weights stand for, so that a test knows the answer without the library that reads them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import gguf
import numpy as np
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


_GGUF_NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}  # fmt: skip


def llama_gguf(base: Path, file: Path, kind: Callable[[str], str], *, without: Collection[str] = ()) -> Path:
    """A Llama as a GGUF file. ``kind``: name of a matrix in the file -> its type, for example ``Q8_0``; vectors are ``F32``."""
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    writer = gguf.GGUFWriter(str(file), "llama")
    _gguf_settings(writer, model.config, json.loads((base / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"])
    heads = {"attn_q": model.config.num_attention_heads, "attn_k": model.config.num_key_value_heads}
    for name, weight in model.named_parameters():
        theirs = _gguf_name(name)
        array = weight.detach().numpy()
        if (count := heads.get(theirs.split(".")[-2])) is not None:  # llama.cpp turns halves of a head, transformers pairs
            array = array.reshape(count, 2, -1, array.shape[1]).swapaxes(1, 2).reshape(array.shape)
        if theirs not in without:
            type_ = gguf.GGMLQuantizationType["F32" if array.ndim == 1 else kind(theirs)]
            writer.add_tensor(theirs, gguf.quants.quantize(np.ascontiguousarray(array), type_), raw_dtype=type_)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def _gguf_name(name: str) -> str:
    if name in (whole := {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}):
        return whole[name]
    if name == "lm_head.weight":
        return "output.weight"
    _, _, block, *module, _ = name.split(".")
    return f"blk.{block}.{_GGUF_NAMES['.'.join(module)]}.weight"


def _gguf_settings(writer: Any, config: Any, vocabulary: dict[str, int]) -> None:
    writer.add_block_count(config.num_hidden_layers)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    names = sorted(vocabulary, key=vocabulary.__getitem__)
    names[-1] = "Ġa"  # the reader wants at least one merge
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(names)
    writer.add_token_types([3] * 3 + [1] * (len(names) - 3))
    writer.add_token_merges(["Ġ a"])
    writer.add_bos_token_id(config.bos_token_id)
    writer.add_eos_token_id(config.eos_token_id)


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
