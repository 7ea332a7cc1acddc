"""The KV arithmetic: what it accepts it gets right, what it does not know it refuses by name."""

from __future__ import annotations

from typing import Any

import pytest

from quantgate.errors import ConfigError
from quantgate.kvcache import bytes_per_element, kv_bytes_per_row, kv_bytes_per_token, layers_of_config, shape_of_config
from quantgate.records import LayerShape, ModelShape

LLAMA = {"num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100}


def windows(**fields: Any) -> list[int | None]:
    return [layer.window for layer in layers_of_config({**LLAMA, **fields})]


def test_textbook_case() -> None:
    """An 8B model with full multi-head KV in fp16 costs 1.07 GB at 2,048 tokens: 7 requests in 8 GB, 3 at 4,096, 4 times that with GQA."""
    config = {"num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "vocab_size": 32000}
    shape = shape_of_config(config)
    row = kv_bytes_per_row(shape, 2048, 2)
    assert row == 1_073_741_824
    assert 8_000_000_000 // row == 7
    assert 8_000_000_000 // kv_bytes_per_row(shape, 4096, 2) == 3
    grouped = shape_of_config({**config, "num_key_value_heads": 8})
    assert row == 4 * kv_bytes_per_row(grouped, 2048, 2)


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
        ({"num_key_value_heads": [1, 2, 4, 4]}, "num_key_value_heads"),
        ({"kv_lora_rank": 512}, "kv_lora_rank"),
        ({"mamba_d_state": 16}, "mamba_d_state"),
        ({"num_kv_shared_layers": 2}, "num_kv_shared_layers"),
        ({"layer_types": ["linear_attention"] * 4}, "layer_types"),
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


def test_unknown_layer_kind_has_no_bytes() -> None:
    """A latent or state layer, which comes later, is refused by the byte count too."""
    shape = ModelShape(layers=(LayerShape(kind="latent", key_width=576),), hidden=1, vocabulary=1, tied=False)
    with pytest.raises(ConfigError, match="latent"):
        kv_bytes_per_token(shape, 2)


def test_tied_by_family_where_the_config_is_silent() -> None:
    """GPT-2 ties its head without saying so; Llama does not."""
    assert shape_of_config({**LLAMA, "model_type": "gpt2"}).tied
    assert not shape_of_config({**LLAMA, "model_type": "llama"}).tied
    assert shape_of_config({**LLAMA, "model_type": "llama", "tie_word_embeddings": True}).tied


def test_bytes_per_element() -> None:
    """Float types have their width; a name that is not known is an error."""
    assert [bytes_per_element(name) for name in ("float32", "bfloat16", "fp8_e4m3")] == [4, 2, 1]


@pytest.mark.parametrize(("key", "value", "context"), [("max_position_embeddings", 512, 512), ("n_ctx", 1024, 1024), ("other", 1, None)])
def test_the_longest_sequence_is_that_of_the_config(key: str, value: int, context: int | None) -> None:
    """Where a config says how long a sequence may be, a longer prompt can be refused; where it does not, nothing is guessed."""
    config = {"model_type": "llama", "vocab_size": 10, "num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 8}
    assert shape_of_config({**config, key: value}).context_tokens == context
