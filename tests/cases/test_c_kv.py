"""Cases of the KV-cache arithmetic taken from public bug reports."""

from __future__ import annotations

from typing import Any

import pytest

from quantgate.errors import ConfigError
from quantgate.kvcache import bytes_per_element, kv_bytes_per_row, kv_bytes_per_token
from quantgate.records import ModelShape
from quantgate.shapes import shape_of_config


def shape(**config: Any) -> ModelShape:
    return shape_of_config({"vocab_size": 32000, **config})


def test_b17_gqa_counts_kv_heads() -> None:
    """B17: 8 KV heads of 32 give 131,072 bytes a token, a quarter of multi-head."""
    fields = {"num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32}
    assert kv_bytes_per_token(shape(**fields, num_key_value_heads=8), 2) == 131_072
    assert kv_bytes_per_token(shape(**fields), 2) == 524_288


@pytest.mark.parametrize(
    ("layers", "hidden", "heads", "head_dim", "expected"),
    [(36, 2560, 32, 128, 147_456), (40, 5120, 32, 128, 163_840), (24, 2880, 64, 64, 49_152)],
)
def test_b18_explicit_head_dim(layers: int, hidden: int, heads: int, head_dim: int, expected: int) -> None:
    """B18: a stated head width wins over hidden / heads."""
    found = shape(
        num_hidden_layers=layers,
        hidden_size=hidden,
        num_attention_heads=heads,
        num_key_value_heads=8,
        head_dim=head_dim,
    )
    assert kv_bytes_per_token(found, 2) == expected


def test_b19_falcon_and_gpt2_key_names() -> None:
    """B19: multi-query, the new decoder architecture and GPT-2's names are read as the weights are laid out."""
    small = shape(
        model_type="falcon",
        hidden_size=4544,
        num_attention_heads=71,
        num_hidden_layers=32,
        multi_query=True,
        new_decoder_architecture=False,
    )
    large = shape(
        model_type="falcon",
        hidden_size=8192,
        num_attention_heads=128,
        num_hidden_layers=60,
        multi_query=True,
        new_decoder_architecture=True,
        num_kv_heads=8,
    )
    gpt2 = shape(model_type="gpt2", n_layer=12, n_head=12, n_embd=768)
    assert kv_bytes_per_token(small, 2) == 8_192
    assert kv_bytes_per_token(large, 2) == 122_880
    assert (kv_bytes_per_token(gpt2, 2), kv_bytes_per_token(gpt2, 4)) == (36_864, 73_728)


def test_b23_sliding_layers_keep_their_window_only() -> None:
    """B23: 22 of 26 layers keep 512 tokens of 8,192, and no more than the length when that is shorter."""
    gemma = shape(
        num_hidden_layers=26,
        hidden_size=1152,
        num_attention_heads=4,
        num_key_value_heads=1,
        head_dim=256,
        sliding_window=512,
        sliding_window_pattern=6,
    )
    assert sum(layer.window is None for layer in gemma.layers) == 4
    assert kv_bytes_per_row(gemma, 8192, 2) == 45_088_768
    assert kv_bytes_per_row(gemma, 128, 2) == 3_407_872


def test_b30_unknown_layout_is_an_error() -> None:
    """B30: an unknown cache type or a config without a head count names the field; it is never 0 bytes."""
    with pytest.raises(ConfigError, match="kv_cache_dtype 'nvfp4_something'"):
        bytes_per_element("nvfp4_something")
    with pytest.raises(ConfigError, match="num_attention_heads"):
        shape(num_hidden_layers=2, hidden_size=64)


def test_b34_published_examples() -> None:
    """B34: 70B-like with 8 KV heads is 10 GiB at 32,768 tokens and 80 GiB with 64; 32 heads at 10,000 tokens are 5,242,880,000 bytes."""
    fields = {"num_hidden_layers": 80, "hidden_size": 8192, "num_attention_heads": 64}
    grouped, full = shape(**fields, num_key_value_heads=8), shape(**fields, num_key_value_heads=64)
    assert kv_bytes_per_token(grouped, 2) == 327_680
    assert kv_bytes_per_row(grouped, 32_768, 2) == 10 * 2**30
    assert kv_bytes_per_row(full, 32_768, 2) == 80 * 2**30
    plain = shape(num_hidden_layers=32, hidden_size=4096, num_attention_heads=32)
    assert kv_bytes_per_row(plain, 10_000, 2) == 5_242_880_000
