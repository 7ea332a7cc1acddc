"""The KV arithmetic: bytes by element type, by request, by engine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quantgate.errors import ConfigError
from quantgate.kvcache import (
    CACHE_TYPES,
    Layout,
    bytes_per_element,
    cache_type,
    kept_by,
    kv_bytes_per_row,
    kv_bytes_per_token,
    request_bytes,
    split,
)
from quantgate.records import LayerShape, ModelShape
from quantgate.shapes import shape_of_config

FP16 = cache_type("fp16")


def model(*layers: LayerShape) -> ModelShape:
    return ModelShape(layers=layers, hidden=1, vocabulary=1, tied=False)


def full(heads: int = 2, width: int = 8) -> LayerShape:
    return LayerShape(kind="full", kv_heads=heads, key_width=width, value_width=width)


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


def test_bytes_per_element() -> None:
    """Float types have their width; a name that is not known is an error."""
    assert [bytes_per_element(name) for name in ("float32", "bfloat16", "fp8_e4m3")] == [4, 2, 1]


def test_types_in_blocks_have_no_bytes_of_one_element() -> None:
    """34 bytes are a block of 32: asked for one element, that is an error and not 34."""
    for name in ("q8_0", "q4_0", "int4", "fp8_ds_mla"):
        with pytest.raises(ConfigError, match=name):
            bytes_per_element(name)


@pytest.mark.parametrize("name", [name for name in CACHE_TYPES if name != "fp8_ds_mla"])
def test_every_type_has_bytes(name: str) -> None:
    """No known type is nothing, and none takes more than float32."""
    found = request_bytes(model(full(width=32)), 10, Layout(kv=cache_type(name)))
    assert 0 < found.cache_bytes <= 10 * 128 * 4


def test_a_window_keeps_no_more_than_the_length() -> None:
    """min(window, tokens) in the architecture, one less between the steps of transformers."""
    shape = model(full(), LayerShape(kind="window", kv_heads=2, key_width=8, value_width=8, window=10))
    assert kv_bytes_per_row(shape, 6, 1) == 12 * 32
    assert kv_bytes_per_row(shape, 100, 1) == 110 * 32
    assert kv_bytes_per_row(kept_by(shape, "transformers"), 100, 1) == 109 * 32
    assert kv_bytes_per_row(kept_by(shape, "vllm"), 100, 1) == 200 * 32


def test_a_model_that_slides_everywhere_keeps_its_window_in_vllm() -> None:
    """Full pages are reserved only where full layers stand beside sliding ones."""
    shape = model(LayerShape(kind="window", kv_heads=1, key_width=1, value_width=1, window=10))
    assert kept_by(shape, "vllm") == shape


def test_layers_without_a_cache_add_nothing() -> None:
    """A layer that reads another's cache, or has no attention, takes no bytes."""
    assert kv_bytes_per_row(model(full(), LayerShape(kind="shared"), LayerShape(kind="none")), 7, 2) == 7 * 32 * 2


def test_a_state_is_a_constant() -> None:
    """A state-space layer takes the same at any length, and nothing for one more token."""
    state = LayerShape(kind="state", state_elements=100, recurrent_elements=60)
    shape = model(full(), state)
    assert kv_bytes_per_row(shape, 10, 2) - kv_bytes_per_row(shape, 9, 2) == kv_bytes_per_token(shape, 2) == 64
    assert request_bytes(shape, 10, Layout(kv=cache_type("fp8"))).state_bytes == 200
    assert request_bytes(shape, 10, Layout(kv=FP16, engine="transformers")).state_bytes == 40 * 2 + 60 * 4


def test_vllm_gives_states_and_attention_pages_of_one_size() -> None:
    """A state of 1,000 bytes beside 32-byte tokens: blocks of 32 tokens, and a page of 1,024 bytes for the state."""
    shape = model(full(), LayerShape(kind="state", state_elements=500, recurrent_elements=400))
    found = request_bytes(shape, 33, Layout(kv=cache_type("fp8"), engine="vllm", block_tokens=16))
    assert (found.cache_bytes, found.state_bytes) == (64 * 32, 32 * 32)
    assert found.lower_bytes == 48 * 32


def test_a_request_is_rounded_up_to_its_blocks() -> None:
    """One token more than a block takes the next one whole."""
    shape = model(full())
    sizes = [request_bytes(shape, tokens, Layout(kv=FP16, block_tokens=16)).cache_bytes for tokens in (1, 16, 17)]
    assert sizes == [16 * 64, 16 * 64, 32 * 64]


def test_splitting_over_devices() -> None:
    """KV heads are divided, repeated where there are too few, and never none; what cannot be split evenly is an error."""
    assert [split(model(full(heads=8)), devices).layers[0].kv_heads for devices in (1, 4, 8, 32)] == [8, 2, 1, 1]
    latent = LayerShape(kind="latent", kv_heads=1, key_width=512, value_width=64)
    assert split(model(latent), 8) == model(latent)
    with pytest.raises(ConfigError, match=r"4 query heads .* over 8 devices; possible numbers of devices are 1, 2, 4$"):
        split(model(replace(full(), query_heads=4)), 8)
    assert split(model(replace(full(), query_heads=4)), 4).layers[0].query_heads == 1
    with pytest.raises(ConfigError, match="6 KV heads"):
        split(model(full(heads=6)), 4)
    with pytest.raises(ConfigError, match="devices"):
        split(model(full()), 0)
    with pytest.raises(ConfigError, match="state"):
        split(model(LayerShape(kind="state", state_elements=9, recurrent_elements=9)), 2)


def test_a_head_that_blocks_do_not_fill_is_refused() -> None:
    """Blocks of 32 cannot hold a head of 80."""
    with pytest.raises(ConfigError, match="80"):
        request_bytes(model(full(width=80)), 1, Layout(kv=cache_type("q8_0")))


@pytest.mark.parametrize(("tokens", "block"), [(0, 1), (-1, 1), (1, 0)])
def test_impossible_requests_are_refused(tokens: int, block: int) -> None:
    """No tokens, no blocks: no figure."""
    with pytest.raises(ConfigError, match="not possible"):
        request_bytes(model(full()), tokens, Layout(kv=FP16, block_tokens=block))
