"""What of a loaded model's weights a decode step uses: its bytes and its multiplications. Knows torch modules, times nothing.

An embedding table gives a row to each row of the batch, unless its storage is the head's too: then a step reads it whole. Of experts a
token takes a few; the least a step can do with are those of one token.
"""

from __future__ import annotations

from typing import Any

import torch

from quantgate.engines import transformers_weights as weights
from quantgate.quantizers.gptq_library import is_packed
from quantgate.records import WeightsUsed

_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
_TAKEN = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k")


def used(model: Any, weight_bytes: int) -> WeightsUsed | None:
    """Of a model that holds ``weight_bytes``. None where it has experts and does not say how many a token takes."""
    head = model.get_output_embeddings()
    tables = _lookup_tables(model, head)
    linear = {name: module for name, module in weights.linear_like(model).items() if module is not head}
    experts = {name: module for name, module in linear.items() if "experts" in name and "shared_expert" not in name}
    left_out = _share_left_out(model.config) if experts else 0.0
    if left_out is None:
        return None
    idle_bytes = int(left_out * sum(map(_bytes, experts.values())))
    idle = int(left_out * sum(map(_matrix_weights, experts.values())))
    return WeightsUsed(
        read_bytes=weight_bytes - sum(_bytes(one) for one in tables) - idle_bytes,
        row_bytes=sum(one.weight.shape[1] * one.weight.element_size() for one in tables),
        body_parameters=sum(map(_matrix_weights, linear.values())) - idle,
        head_parameters=0 if head is None else _matrix_weights(head),
    )


def _lookup_tables(model: Any, head: Any) -> list[Any]:
    """Embeddings of which only rows are read: each storage once, that of a tied head left out."""
    taken = None if head is None else getattr(head, "weight", None)
    seen = set() if not isinstance(taken, torch.Tensor) else {taken.data_ptr()}
    found = []
    for module in model.modules():
        if isinstance(module, torch.nn.Embedding) and module.weight.data_ptr() not in seen:
            seen.add(module.weight.data_ptr())
            found.append(module)
    return found


def _bytes(module: Any) -> int:
    """Bytes of the module's own storages, quantizer state included."""
    return weights.weight_bytes(module)


def _matrix_weights(module: Any) -> int:
    """Weights that a token is multiplied by; biases left out."""
    if is_packed(module):
        return int(module.in_features * module.out_features)
    return sum(weights.logical_count(one) for one in module.parameters(recurse=False) if one.dim() >= 2)


def _share_left_out(config: Any) -> float | None:
    """Share of the experts that one token leaves out; None where the config does not say it."""
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    every = next((value for key in _EXPERTS if (value := getattr(text, key, None))), None)
    taken = next((value for key in _TAKEN if (value := getattr(text, key, None))), None)
    return 1.0 - taken / every if every and taken and taken <= every else None
