"""Cases of the KV-cache arithmetic taken from public bug reports."""

from __future__ import annotations

from typing import Any

import pytest

from quantgate.errors import ConfigError
from quantgate.kvcache import (
    Layout,
    bytes_per_element,
    cache_type,
    kv_bytes_per_row,
    kv_bytes_per_token,
    quantized_bytes,
    request_bytes,
    split,
)
from quantgate.records import KVCache, ModelShape
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


DEEPSEEK = {
    "num_hidden_layers": 61,
    "hidden_size": 7168,
    "num_attention_heads": 128,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
}


def test_b21_latent_attention_is_stored_once() -> None:
    """B21: 61 layers x (512 + 64) x 2 bytes = 70,272 a token, neither doubled nor without the rotary part nor a pair a head."""
    assert kv_bytes_per_token(shape(**DEEPSEEK), 2) == 70_272


def test_b21_four_bit_latent_has_its_layer_factor() -> None:
    """B21: at 4 bits 65,536 tokens take 18,874,368 bytes a layer and 1,151,336,448 in 61."""
    layout = Layout(kv=cache_type("int4"))
    one = request_bytes(shape(**{**DEEPSEEK, "num_hidden_layers": 1}), 65_536, layout).cache_bytes
    assert (one, request_bytes(shape(**DEEPSEEK), 65_536, layout).cache_bytes) == (18_874_368, 1_151_336_448)


def test_b24_both_bounds_where_an_engine_may_reserve_full_pages() -> None:
    """B24: 12 full and 12 sliding layers: 6.09375 GiB as the architecture keeps it, 12 GiB as vllm may reserve it; the larger decides."""
    found = shape(
        num_hidden_layers=24, hidden_size=2880, num_attention_heads=64, num_key_value_heads=8, head_dim=64,
        sliding_window=128, layer_types=["sliding_attention", "full_attention"] * 12,
    )  # fmt: skip
    one = request_bytes(found, 8192, Layout(kv=cache_type("bf16"), engine="vllm", block_tokens=16))
    assert 32 * one.lower_bytes == 6.09375 * 2**30
    assert 32 * one.cache_bytes == 12 * 2**30
    assert one.total_bytes == one.cache_bytes


def test_b26_a_hybrid_keeps_a_constant_and_few_layers() -> None:
    """B26: 4 attention layers of 32 are 16,384 bytes a token; 28 states are 9,175,040 bytes a sequence; together 76,283,904 at 4,096."""
    found = shape(
        model_type="jamba", num_hidden_layers=32, hidden_size=4096, num_attention_heads=32, num_key_value_heads=8, head_dim=128,
        attn_layer_period=8, attn_layer_offset=4, mamba_expand=2, mamba_d_state=16, mamba_d_conv=4,
    )  # fmt: skip
    one = request_bytes(found, 4096, Layout(kv=cache_type("bf16")))
    assert (one.per_token_bytes, one.state_bytes, one.total_bytes) == (16_384, 9_175_040, 76_283_904)
    assert kv_bytes_per_row(found, 4096, 2) == 76_283_904


def test_b26_a_pattern_of_layers() -> None:
    """B26: M-M-M-MM-M-M-M*- is 8 states, 1 attention, 7 feed-forwards: a cache for one layer only."""
    pattern = "M-M-M-MM-M-M-M*-"
    found = shape(
        model_type="nemotron_h", num_hidden_layers=16, hidden_size=4096, num_attention_heads=32, num_key_value_heads=8, head_dim=128,
        hybrid_override_pattern=pattern, mamba_num_heads=128, mamba_head_dim=64, ssm_state_size=128, conv_kernel=4, n_groups=8,
    )  # fmt: skip
    kinds = [layer.kind for layer in found.layers]
    assert [kinds.count(kind) for kind in ("state", "full", "none")] == [8, 1, 7]
    assert kv_bytes_per_token(found, 2) == 2 * 8 * 128 * 2


@pytest.mark.parametrize(("kv", "expected"), [("fp16", 131_072), ("q8_0", 69_632), ("q4_0", 36_864), ("fp8", 65_536)])
def test_b29_block_bytes_are_of_a_block(kv: str, expected: int) -> None:
    """B29: 34 bytes are 32 elements: q8_0 takes 69,632 bytes a token, 46.9 % less than fp16, and not 2,228,224."""
    found = shape(num_hidden_layers=32, hidden_size=4096, num_attention_heads=32, num_key_value_heads=8, head_dim=128)
    assert request_bytes(found, 1, Layout(kv=cache_type(kv))).per_token_bytes == expected


def test_b30_a_packed_layout_has_its_own_bytes() -> None:
    """B30: 656 bytes a layer and token over 43 layers are 28,208; the generic formula with one head of 512 gives 88,064."""
    layout = Layout(kv=cache_type("fp8_ds_mla"))
    assert request_bytes(shape(**{**DEEPSEEK, "num_hidden_layers": 43}), 1, layout).per_token_bytes == 28_208


def test_b32_groups_are_kv_heads_and_are_repeated_over_devices() -> None:
    """B32: 8 "kv groups" are 8 KV heads; over 32 devices each keeps 1, repeated, and not 0."""
    found = shape(num_hidden_layers=32, hidden_size=4096, num_attention_heads=32, n_kv_groups=8)
    assert found.layers[0].kv_heads == 8
    assert {layer.kv_heads for layer in split(found, 32).layers} == {1}


@pytest.mark.parametrize(("bits", "bytes_per_token"), [(8, 69_632), (4, 36_864), (2, 20_480)])
def test_b29_a_cache_in_fewer_bits_counts_whole_groups(bits: int, bytes_per_token: int) -> None:
    """B29: 65,536 elements a token in groups of 64, each with a scale and an offset in 16 bit: 68, 36 and 20 bytes a group."""
    found = shape(num_hidden_layers=32, hidden_size=4096, num_attention_heads=32, num_key_value_heads=8)
    kv = KVCache(bits=bits)
    assert quantized_bytes(found, (1000, 0), 2, kv) == 1000 * bytes_per_token
    assert quantized_bytes(found, (1000, 100), 2, kv) == 1000 * bytes_per_token + 100 * 131_072
    assert quantized_bytes(found, (1000, 128), 2, kv) == 1128 * bytes_per_token
