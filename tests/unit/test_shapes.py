"""config.json -> layers: what is known is read right, what is not is refused by name, never a number."""

from __future__ import annotations

from typing import Any

import pytest

from quantgate.errors import ConfigError
from quantgate.shapes import by_hand, layers_of_config, shape_of_config

LLAMA = {"num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100}


def windows(**fields: Any) -> list[int | None]:
    return [layer.window for layer in layers_of_config({**LLAMA, **fields})]


def kinds(**fields: Any) -> list[str]:
    return [layer.kind for layer in layers_of_config({**LLAMA, **fields})]


def test_null_kv_heads_mean_heads() -> None:
    """``num_key_value_heads: null`` is multi-head attention."""
    assert layers_of_config({**LLAMA, "num_key_value_heads": None})[0].kv_heads == 4


def test_nested_text_config() -> None:
    """A multimodal config keeps its language model under ``text_config``."""
    shape = shape_of_config({"vision_config": {}, "text_config": {**LLAMA, "num_key_value_heads": 2}})
    assert (len(shape.layers), shape.layers[0].kv_heads, shape.vocabulary) == (4, 2, 100)


@pytest.mark.parametrize(
    "fields",
    [
        {"sliding_window": None},
        {"sliding_window": 0},
        {"sliding_window": -1},
        {"sliding_window": 8, "use_sliding_window": False},
        {"sliding_window": 8, "use_sliding_window": False, "layer_types": ["sliding_attention"] * 4},
    ],
)
def test_window_switched_off(fields: dict[str, Any]) -> None:
    """A window is off by flag, by -1, 0 or null: every layer is full."""
    assert windows(**fields) == [None] * 4


def test_layer_types_say_which_layers_slide() -> None:
    """``layer_types`` decides for each layer."""
    kinds = ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]
    assert windows(sliding_window=8, layer_types=kinds) == [8, None, 8, None]


def test_families_without_layer_types() -> None:
    """Older configs leave it to their family: all layers slide, every n-th is full, or the first ones are."""
    assert windows(model_type="mistral", num_key_value_heads=2, sliding_window=8) == [8] * 4
    assert windows(model_type="gemma2", num_key_value_heads=2, sliding_window=8) == [8, None, 8, None]
    assert windows(model_type="qwen2", sliding_window=8, use_sliding_window=True, max_window_layers=3) == [None] * 3 + [
        8
    ]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"num_hidden_layers": None}, "num_hidden_layers"),
        ({"num_attention_heads": None}, "num_attention_heads"),
        ({"hidden_size": None}, "hidden_size"),
        ({"vocab_size": None}, "vocab_size"),
        ({"num_attention_heads": 5}, "head_dim"),
        ({"num_key_value_heads": [1, 2, 4]}, "num_key_value_heads"),
        ({"kv_lora_rank": 512}, "qk_rope_head_dim"),
        ({"index_topk": 64}, "index_topk"),
        ({"model_type": "rwkv"}, "rwkv"),
        ({"model_type": "bamba", "mamba_d_state": 8}, "layer_types"),
        ({"hybrid_override_pattern": "M-X*"}, "hybrid_override_pattern"),
        ({"hybrid_override_pattern": "M-*"}, "hybrid_override_pattern"),
        ({"attn_layer_indices": [9], "mamba_d_state": 8}, "attn_layer_indices"),
        ({"attention_chunk_size": 8, "no_rope_layers": [1]}, "no_rope_layers"),
        ({"block_configs": [{"attention": {}}] * 4}, "n_heads_in_group"),
        ({"text_config": 3}, "text_config"),
        ({"num_hidden_layers": 10**6}, "num_hidden_layers"),
        ({"mamba_d_state": 16}, "mamba_d_state"),
        ({"num_kv_shared_layers": 4}, "num_kv_shared_layers"),
        ({"layer_types": ["fourier"] * 4}, "layer_types"),
        ({"layer_types": ["linear_attention"] * 4}, "mamba_d_state"),
        ({"layer_types": ["full_attention"]}, "layer_types"),
        ({"layer_types": ["sliding_attention"] * 4}, "sliding_window"),
        ({"sliding_window": 8}, "layer_types"),
        ({"is_encoder_decoder": True}, "is_encoder_decoder"),
        ({"model_type": "mistral"}, "num_key_value_heads"),
    ],
)
def test_unknown_is_an_error_naming_the_field(fields: dict[str, Any], named: str) -> None:
    """A missing field or an unknown layout is an error that names it, never a number."""
    with pytest.raises(ConfigError, match=named):
        shape_of_config({**LLAMA, **fields})


def test_tied_by_family_where_the_config_is_silent() -> None:
    """GPT-2 ties its head without saying so; Llama does not."""
    assert shape_of_config({**LLAMA, "model_type": "gpt2"}).tied
    assert not shape_of_config({**LLAMA, "model_type": "llama"}).tied
    assert shape_of_config({**LLAMA, "model_type": "llama", "tie_word_embeddings": True}).tied


def test_context_of_the_config() -> None:
    """The longest sequence the model was made for, None where its config does not say."""
    assert shape_of_config({**LLAMA, "max_position_embeddings": 4096}).context_tokens == 4096
    assert shape_of_config({**LLAMA, "n_positions": 1024}).context_tokens == 1024
    assert shape_of_config(LLAMA).context_tokens is None


def test_layers_of_unlike_shape() -> None:
    """KV heads a layer, by list, by override, and with widths of their own for sliding or full layers."""
    assert [layer.kv_heads for layer in layers_of_config({**LLAMA, "num_key_value_heads": [1, 2, 4, 4]})] == [1, 2, 4, 4]
    override = {"per_layer_config": {"1": {"head_dim": 32}}}
    assert [layer.key_width for layer in layers_of_config({**LLAMA, **override})] == [16, 32, 16, 16]
    mixed = {"layer_types": ["sliding_attention", "full_attention"] * 2, "sliding_window": 8, "num_key_value_heads": 4, "head_dim": 16}
    wide = layers_of_config({**LLAMA, **mixed, "global_head_dim": 32, "num_global_key_value_heads": 1})
    assert [(layer.kv_heads, layer.key_width) for layer in wide[:2]] == [(4, 16), (1, 32)]
    sliding = layers_of_config({**LLAMA, **mixed, "swa_num_key_value_heads": 2, "swa_head_dim": 8})
    assert [(layer.kv_heads, layer.key_width) for layer in sliding[:2]] == [(2, 8), (4, 16)]


def test_searched_architectures() -> None:
    """A block's KV heads stand as query heads a group; a block without attention keeps nothing."""
    blocks = [{"attention": {"n_heads_in_group": 2}}, {"attention": {"no_op": True}}] * 2
    found = layers_of_config({**LLAMA, "block_configs": blocks})
    assert [(layer.kind, layer.kv_heads) for layer in found] == [("full", 2), ("none", 0)] * 2


def test_latent_attention_is_one_vector() -> None:
    """The compressed part and the rotary part, once a token, whatever the number of heads."""
    (layer, *_) = layers_of_config({**LLAMA, "kv_lora_rank": 512, "qk_rope_head_dim": 64})
    assert (layer.kind, layer.kv_heads, layer.key_width, layer.value_width) == ("latent", 1, 512, 64)


def test_shared_caches() -> None:
    """The last layers read a cache of an earlier one."""
    assert kinds(num_kv_shared_layers=3) == ["full", "shared", "shared", "shared"]


def test_chunks_bound_a_cache_as_windows_do() -> None:
    """Chunked layers keep a chunk; every fourth has full attention."""
    assert windows(attention_chunk_size=8) == [8, 8, 8, None]
    assert windows(attention_chunk_size=8, layer_types=["chunked_attention", "full_attention"] * 2) == [8, None, 8, None]


def test_hybrids_in_their_spellings() -> None:
    """By pattern, by period, by list of places, by list of kinds, by interval."""
    mamba = {"mamba_d_state": 8, "mamba_d_conv": 4}
    assert kinds(hybrid_override_pattern="M*-M", **mamba) == ["state", "full", "none", "state"]
    assert kinds(attn_layer_period=2, attn_layer_offset=1, **mamba) == ["state", "full"] * 2
    assert kinds(attn_layer_indices=[3], **mamba) == ["state"] * 3 + ["full"]
    assert kinds(layers_block_type=["mamba", "attention"] * 2, **mamba) == ["state", "full"] * 2
    delta = {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8}
    assert kinds(full_attention_interval=2, linear_conv_kernel_dim=4, **delta) == ["state", "full"] * 2


def test_a_hybrid_layer_has_both() -> None:
    """Attention and a state side by side in every layer."""
    fields = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 8, "mamba_d_conv": 4, "mamba_d_ssm": 128}
    (layer, *_) = layers_of_config({**LLAMA, "model_type": "falcon_h1", **fields})
    assert (layer.kind, layer.kv_heads, layer.state_elements, layer.recurrent_elements) == ("full", 4, 144 * 4 + 1024, 1024)


@pytest.mark.parametrize(
    ("numbers", "words"),
    [({"hidden": 65}, "4 heads do not divide a hidden size of 65"), ({"kv_heads": 3}, "4 query heads are no multiple of 3 KV heads")],
)
def test_numbers_by_hand_that_do_not_fit_name_no_file(numbers: dict[str, int], words: str) -> None:
    """There is no config.json to look into: the message names the numbers and the flag that would help."""
    with pytest.raises(ConfigError, match=words) as error:
        by_hand(**{"layers": 1, "hidden": 64, "heads": 4, **numbers})
    assert "config.json" not in str(error.value) and "--" in str(error.value)


def test_by_hand_is_a_plain_decoder() -> None:
    """Five numbers make full attention in every layer, with or without groups and a width of its own."""
    assert by_hand(layers=4, hidden=64, heads=4).layers == layers_of_config(LLAMA)
    (layer,) = by_hand(layers=1, hidden=64, heads=4, kv_heads=2, head_dim=32).layers
    assert (layer.kv_heads, layer.key_width) == (2, 32)
