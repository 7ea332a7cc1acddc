"""Tiny random models of many architectures, built offline: hidden 64, 2 layers, every projection a multiple of 32 wide."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import transformers as t

import tiny

_SAME = {
    "vocab_size": tiny.VOCABULARY,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 256,
    "initializer_range": 0.15,
    "bos_token_id": tiny.BOS_ID,
    "eos_token_id": tiny.EOS_ID,
    "pad_token_id": None,
}
_GROUPED = {**_SAME, "intermediate_size": 128, "num_key_value_heads": 2}


def mixtral(*, experts: int = 4, each: int = 2) -> Any:
    """A Mixtral config whose router chooses some of its experts for a token."""
    return t.MixtralConfig(**_GROUPED, num_local_experts=experts, num_experts_per_tok=each, tie_word_embeddings=False)


CONFIGS: Mapping[str, Callable[[], Any]] = {
    "llama": lambda: t.LlamaConfig(**_GROUPED, tie_word_embeddings=True),
    "gpt2": lambda: t.GPT2Config(
        vocab_size=tiny.VOCABULARY, n_positions=256, n_embd=64, n_layer=2, n_head=4, initializer_range=0.15, bos_token_id=1, eos_token_id=2
    ),
    # GPTQModel gives a Qwen2 without a padding token the one of the real vocabulary, which this one lacks.
    "qwen2": lambda: t.Qwen2Config(**{**_GROUPED, "pad_token_id": 0}, tie_word_embeddings=True),
    "qwen3": lambda: t.Qwen3Config(**_GROUPED, head_dim=32, tie_word_embeddings=False),
    "gemma": lambda: t.GemmaConfig(**{**_GROUPED, "num_key_value_heads": 1}, head_dim=32),
    "mistral": lambda: t.MistralConfig(**_GROUPED, tie_word_embeddings=False, sliding_window=64),
    "phi": lambda: t.PhiConfig(**_SAME, intermediate_size=128, tie_word_embeddings=False),
    "gpt_neox": lambda: t.GPTNeoXConfig(**_SAME, intermediate_size=128),
    "opt": lambda: t.OPTConfig(
        vocab_size=tiny.VOCABULARY, hidden_size=64, num_hidden_layers=2, ffn_dim=128, num_attention_heads=4, max_position_embeddings=256,
        word_embed_proj_dim=64, init_std=0.15, bos_token_id=1, eos_token_id=2, pad_token_id=0,
    ),
    "falcon": lambda: t.FalconConfig(
        vocab_size=tiny.VOCABULARY, hidden_size=64, num_hidden_layers=2, num_attention_heads=2, multi_query=True,
        new_decoder_architecture=False, bias=False, initializer_range=0.15, bos_token_id=1, eos_token_id=2,
    ),
    "mixtral": mixtral,
}  # fmt: skip
"""A config of each family by its name."""


def build(family: str, folder: Path) -> Path:
    """Save a random model of the family, with the tiny tokenizer."""
    torch.manual_seed(3)
    config = CONFIGS[family]()
    return tiny.saved(t.AutoModelForCausalLM.from_config(config), folder)
