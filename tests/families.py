"""Tiny random models of many families, as transformers builds them: their config.json, their cache after a few tokens, their weights."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache

TOKENS = 21
ROWS = 2

_DECODER = {
    "vocab_size": 97, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 256, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
_OLD = {"vocab_size": 97, "n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 128, "pad_token_id": 0}
_MOE = {"num_experts_per_tok": 2, "moe_intermediate_size": 32}
_LATENT = {
    "num_key_value_heads": 4, "kv_lora_rank": 32, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "n_routed_experts": 4,
    "n_shared_experts": 1, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1, **_MOE,
}  # fmt: skip
_MAMBA = {
    "mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 8, "mamba_d_conv": 4, "mamba_expand": 2, "mamba_n_groups": 1,
    "mamba_chunk_size": 16,
}  # fmt: skip
_DELTA = {
    "head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
    "linear_conv_kernel_dim": 4,
}  # fmt: skip

COUNTED: Mapping[str, dict[str, Any]] = {
    "llama": {},
    "mistral sliding": {"sliding_window": 8, "head_dim": 16},
    "qwen2": {},
    "qwen2 sliding": {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 2},
    "qwen3": {"head_dim": 32},
    "gemma": {"head_dim": 32},
    "gemma2": {"head_dim": 32, "sliding_window": 8},
    "gemma3_text": {"head_dim": 32, "sliding_window": 8, "num_hidden_layers": 7},
    "phi": {},
    "phi3 sliding": {"sliding_window": 8},
    "phimoe": {"num_local_experts": 4},
    "gpt_neox": {},
    "gptj": {**_OLD, "rotary_dim": 8},
    "gpt2": _OLD,
    "gpt_bigcode multi-query": {**_OLD, "multi_query": True},
    "opt": {"ffn_dim": 96, "word_embed_proj_dim": 64},
    "opt projected": {
        "ffn_dim": 96, "word_embed_proj_dim": 32, "do_layer_norm_before": False, "enable_bias": False, "tie_word_embeddings": False,
    },
    "opt bare": {"ffn_dim": 96, "word_embed_proj_dim": 64, "layer_norm_elementwise_affine": False},
    "bloom": {"n_layer": 3, "n_head": 4},
    "falcon multi-query": {"multi_query": True, "new_decoder_architecture": False},
    "falcon new": {"multi_query": True, "new_decoder_architecture": True, "num_kv_heads": 2},
    "falcon multi-head": {"multi_query": False, "new_decoder_architecture": False, "alibi": True},
    "mpt": {"d_model": 64, "n_heads": 4, "n_layers": 3},
    "codegen": {**_OLD, "rotary_dim": 8},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "qwen2_moe": {"num_experts": 4, "shared_expert_intermediate_size": 48, **_MOE},
    "qwen3_moe": {"num_experts": 4, "head_dim": 16, **_MOE},
    "olmo": {},
    "olmo2": {},
    "olmo3 sliding": {"sliding_window": 8},
    "olmoe": {"num_experts": 4, "num_experts_per_tok": 2},
    "stablelm": {},
    "starcoder2 sliding": {"sliding_window": 8},
    "cohere": {},
    "cohere2": {"sliding_window": 8, "num_hidden_layers": 5},
    "granite": {},
    "granitemoe": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "glm": {"head_dim": 16},
    "glm4": {"head_dim": 16},
    "glm4_moe": {"head_dim": 16, "n_routed_experts": 4, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1, **_MOE},
    "smollm3": {},
    "exaone4": {"sliding_window": 8, "sliding_window_pattern": 4},
    "gpt_oss": {"sliding_window": 8, "head_dim": 16, "num_local_experts": 4, "num_experts_per_tok": 2},
    "deepseek_v2": {**_LATENT, "q_lora_rank": None, "v_head_dim": 16},
    "deepseek_v3": {**_LATENT, "q_lora_rank": 24, "v_head_dim": 12},
    "minicpm3": {**_LATENT, "q_lora_rank": 24, "v_head_dim": 16},
    "helium": {"head_dim": 16},
    "seed_oss": {"head_dim": 16},
    "ernie4_5": {"head_dim": 16},
    "hunyuan_v1_dense": {"head_dim": 16},
    "nemotron": {},
    "arcee": {},
}
"""Families whose parameters are counted too. The first word is transformers' model type."""

CACHE_ONLY: Mapping[str, dict[str, Any]] = {
    "gemma3n_text": {
        "head_dim": 16, "sliding_window": 8, "num_hidden_layers": 8, "num_kv_shared_layers": 4, "vocab_size_per_layer_input": 97,
        "hidden_size_per_layer_input": 8, "laurel_rank": 8, "altup_num_inputs": 2, "activation_sparsity_pattern": None,
        "layer_types": ["sliding_attention", "full_attention"] * 4,
    },
    "gemma4_text": {
        "head_dim": 16, "global_head_dim": 32, "sliding_window": 8, "num_hidden_layers": 6, "num_kv_shared_layers": 2,
        "vocab_size_per_layer_input": 97, "hidden_size_per_layer_input": 8,
        "layer_types": ["sliding_attention", "full_attention"] * 3,
    },
    "llama4_text": {"head_dim": 16, "num_local_experts": 2, "attention_chunk_size": 8, "intermediate_size_mlp": 96},
    "bamba": {**_MAMBA, "attn_layer_indices": [1, 3]},
    "jamba": {
        "attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 1, "mamba_d_state": 8,
        "mamba_d_conv": 4, "mamba_expand": 2, "mamba_dt_rank": 8, "num_experts": 2, "num_experts_per_tok": 1, "use_mamba_kernels": False,
    },
    "falcon_h1": {**_MAMBA, "mamba_d_ssm": 128, "head_dim": 16},
    "granitemoehybrid": {
        **_MAMBA, "layer_types": ["mamba", "attention"] * 2, "num_local_experts": 2, "num_experts_per_tok": 1,
        "shared_intermediate_size": 48,
    },
    "zamba2": {
        "mamba_d_state": 8, "mamba_d_conv": 4, "mamba_expand": 2, "mamba_ngroups": 1, "n_mamba_heads": 8, "hybrid_layer_ids": [1, 3],
        "layers_block_type": ["mamba", "hybrid"] * 2, "chunk_size": 16, "num_mem_blocks": 1, "adapter_rank": 8,
    },
    "nemotron_h": {
        "hybrid_override_pattern": "M-M*M-", "num_hidden_layers": 6, "mamba_num_heads": 8, "mamba_head_dim": 16, "ssm_state_size": 8,
        "conv_kernel": 4, "n_groups": 1, "chunk_size": 16, "head_dim": 16,
    },
    "mamba": {"state_size": 8, "conv_kernel": 4, "expand": 2, "time_step_rank": 8},
    "mamba2": {"state_size": 8, "conv_kernel": 4, "expand": 2, "num_heads": 8, "head_dim": 16, "n_groups": 1, "chunk_size": 16},
    "qwen3_next": {**_DELTA, **_MOE, "num_experts": 4, "shared_expert_intermediate_size": 32},
    "lfm2": {"conv_L_cache": 3, "full_attn_idxs": [1, 3], "block_ff_dim": 96, "block_multiple_of": 8},
}  # fmt: skip


def build(name: str) -> tuple[Any, dict[str, Any]]:
    """A random model in float32 and its config.json."""
    fields = {**COUNTED, **CACHE_ONLY}[name]
    old = "n_embd" in fields or "d_model" in fields
    small = {"vocab_size": 97, "hidden_size": 64} if name == "bloom" else {"vocab_size": 97}
    plain = small if old or name == "bloom" else _DECODER
    config = AutoConfig.for_model(name.split(" ")[0], **{**plain, **fields})
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config).float().eval(), json.loads(config.to_json_string())


def filled_cache(model: Any) -> Any:
    """The model's cache after ``TOKENS`` tokens in each of ``ROWS`` rows, the last one a decode step."""
    cache = DynamicCache(config=model.config)
    accepts = inspect.signature(model.forward).parameters
    key = next(key for key in ("cache", "past_key_values", "cache_params") if key in accepts)
    ids = torch.arange(3, 3 + TOKENS).repeat(ROWS, 1)
    with torch.inference_mode():
        model(input_ids=ids[:, :-1], use_cache=True, **{key: cache})
        model(input_ids=ids[:, -1:], use_cache=True, **{key: cache})
    return cache


def cache_bytes(cache: Any) -> int:
    """Bytes of every tensor that the cache's layers keep."""
    kept: list[torch.Tensor] = []
    for layer in cache.layers:
        kept += [one for one in (getattr(layer, "keys", None), getattr(layer, "values", None)) if isinstance(one, torch.Tensor)]
        for states in (getattr(layer, "conv_states", None), getattr(layer, "recurrent_states", None)):
            kept += [one for one in (states or {}).values() if isinstance(one, torch.Tensor)]
    return sum(one.numel() * one.element_size() for one in kept)
