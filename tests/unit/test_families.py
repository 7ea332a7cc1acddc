"""The arithmetic on config.json against what transformers really builds: cache tensors and parameters of tiny random models."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import torch
from transformers import OPTConfig, OPTForCausalLM

import families
from quantgate.kvcache import kept_by, kv_bytes_per_row
from quantgate.parameters import counted_families, matrices_of_config
from quantgate.shapes import shape_of_config
from quantgate.weightbytes import logical_parameters

QUICK = {
    "llama", "gpt2", "qwen2 sliding", "qwen3", "gemma2", "gemma3_text", "mistral sliding", "phi", "gpt_neox", "opt", "opt projected",
    "falcon multi-query", "falcon new", "mixtral", "gpt_oss", "deepseek_v3", "gemma3n_text", "jamba",
}  # fmt: skip
"""A family of each kind; the others are looked at by the slow suite."""


def marked(names: Iterable[str]) -> list[Any]:
    return [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in names]


@pytest.mark.parametrize("name", marked([*families.COUNTED, *families.CACHE_ONLY]))
def test_cache_bytes_are_those_of_the_tensors(name: str) -> None:
    """The transformers layout gives exactly the bytes of the cache after a prompt and a decode step: ratio 1, not about 1."""
    model, config = families.build(name)
    measured = families.cache_bytes(families.filled_cache(model))
    shape = kept_by(shape_of_config(config), "transformers")
    assert measured > 0
    assert families.ROWS * kv_bytes_per_row(shape, families.TOKENS, 4) == measured


@pytest.mark.parametrize("name", ["llama", "gemma2", "bamba", "jamba", "nemotron_h", "qwen3_next"])
def test_half_precision_halves_all_but_the_recurrences(name: str) -> None:
    """In bfloat16 the cache is counted with 2 bytes, and recurrences with the 4 that transformers keeps them in."""
    model, config = families.build(name)
    measured = families.cache_bytes(families.filled_cache(model.to(torch.bfloat16)))
    shape = kept_by(shape_of_config(config), "transformers")
    assert families.ROWS * kv_bytes_per_row(shape, families.TOKENS, 2) == measured


@pytest.mark.parametrize("name", marked(families.COUNTED))
def test_parameters_are_those_of_the_model(name: str) -> None:
    """Every weight is counted, tied ones once, from config.json alone."""
    model, config = families.build(name)
    assert logical_parameters(matrices_of_config(config)) == sum(one.numel() for one in model.parameters())


def test_opt_with_a_narrow_embedding() -> None:
    """The numbers of OPT-350M: 331,196,416 weights, by arithmetic and as transformers builds it."""
    fields = {
        "vocab_size": 50272, "hidden_size": 1024, "word_embed_proj_dim": 512, "num_hidden_layers": 24, "num_attention_heads": 16,
        "ffn_dim": 4096, "max_position_embeddings": 2048, "do_layer_norm_before": False,
    }  # fmt: skip
    with torch.device("meta"):
        model = OPTForCausalLM(OPTConfig(**fields))
    assert sum(one.numel() for one in model.parameters()) == 331_196_416
    assert logical_parameters(matrices_of_config({"model_type": "opt", **fields})) == 331_196_416


def test_every_counted_family_is_checked_here() -> None:
    """A family that is in the table without a model here would be a guess."""
    checked = {name.split(" ")[0] for name in families.COUNTED}
    same_code = {"ministral"}  # a Mistral with another name
    assert set(counted_families()) - checked == same_code
