"""Hand-worked rooflines: a dense model with grouped queries, a tied one, a quantized one; and what lies above a roof."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quantgate import roofline
from quantgate.errors import ConfigError, OverRoof
from quantgate.parameters import matrices_of_config
from quantgate.records import LayerShape, ModelShape, WeightsUsed
from quantgate.shapes import shape_of_config
from quantgate.weightbytes import Packing, usual_packing

LLAMA_3_8B = {
    "model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
    "num_key_value_heads": 8, "vocab_size": 128_256, "max_position_embeddings": 8192, "tie_word_embeddings": False,
}  # fmt: skip
SMOLLM2 = {
    "model_type": "llama", "num_hidden_layers": 30, "hidden_size": 576, "intermediate_size": 1536, "num_attention_heads": 9,
    "num_key_value_heads": 3, "vocab_size": 49_152, "max_position_embeddings": 8192, "tie_word_embeddings": True,
}  # fmt: skip
LINEAR_8B = 32 * (4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336)
TABLE_8B = 128_256 * 4096
NORMS_8B = 65 * 4096
LINEAR_SMOL = 30 * (576 * (576 + 2 * 192) + 576 * 576 + 3 * 576 * 1536)
TABLE_SMOL = 49_152 * 576
NORMS_SMOL = 61 * 576


def used(config: dict[str, object], packing: Packing) -> tuple[WeightsUsed, ModelShape]:
    shape = shape_of_config(config)
    return roofline.used_of_matrices(matrices_of_config(config), packing, shape), shape


def test_an_untied_table_gives_rows_and_the_rest_is_read_whole() -> None:
    """Llama 3 8B in 16 bits: linear layers, head and norms are read, of the embedding one row of 4,096 for each row of the batch."""
    found, _ = used(LLAMA_3_8B, usual_packing(16))
    assert LINEAR_8B + 2 * TABLE_8B + NORMS_8B == 8_030_261_248
    assert found.read_bytes == 2 * (LINEAR_8B + TABLE_8B + NORMS_8B)
    assert found.row_bytes == 2 * 4096
    assert (found.body_parameters, found.head_parameters) == (LINEAR_8B, TABLE_8B)


def test_grouped_queries_read_few_heads_and_multiply_with_all() -> None:
    """At 1,000 tokens the cache is 32 layers x 8 heads x 256 x 2 bytes a token, while 32 heads attend."""
    found, shape = used(LLAMA_3_8B, usual_packing(16))
    cache = 32 * 8 * (128 + 128) * 2 * 1000
    assert roofline.step_bytes(found, shape, 2, batch=4, tokens=1000) == found.read_bytes + 4 * (2 * 4096 + cache)
    attention = 4 * 32 * 128 * 1000 * 32
    assert roofline.step_flops(found, shape, batch=4, tokens=1000) == 4 * (2 * (LINEAR_8B + TABLE_8B) + attention)


def test_a_tied_table_is_the_head_and_is_read_whole() -> None:
    """SmolLM2 in float32: every byte is read at each step, and nothing is looked up beside it."""
    found, shape = used(SMOLLM2, usual_packing(32))
    assert found.read_bytes == 4 * (LINEAR_SMOL + TABLE_SMOL + NORMS_SMOL) == 538_060_032
    assert found.row_bytes == 0
    assert (found.body_parameters, found.head_parameters) == (LINEAR_SMOL, TABLE_SMOL)
    assert roofline.step_bytes(found, shape, 4, batch=8, tokens=96) == 538_060_032 + 8 * 30 * 3 * 128 * 4 * 96


def test_quantized_weights_are_read_packed_and_multiplied_in_full() -> None:
    """Four bits with a 4-byte scale for each 64 weights: 9/16 byte a linear weight, the head in float; operations stay the same."""
    found, shape = used(SMOLLM2, replace(usual_packing(4), float_bytes=4))
    packed = LINEAR_SMOL // 2 + LINEAR_SMOL // 64 * 4
    assert found.read_bytes == packed + 4 * (TABLE_SMOL + NORMS_SMOL)
    plain, _ = used(SMOLLM2, usual_packing(32))
    assert roofline.step_flops(found, shape, batch=1, tokens=64) == roofline.step_flops(plain, shape, batch=1, tokens=64)


def test_experts_count_as_those_of_one_token() -> None:
    """Of eight experts a token takes two: a quarter of their bytes and operations is the least that a step needs."""
    config = {**LLAMA_3_8B, "model_type": "mixtral", "num_local_experts": 8}
    shape, matrices = shape_of_config(config), matrices_of_config(config)
    packing = usual_packing(16)
    two = roofline.used_of_matrices(matrices, packing, shape, experts=(8, 2))
    all_of_them = roofline.used_of_matrices(matrices, packing, shape, experts=(8, 8))
    experts = 32 * 8 * 3 * 4096 * 14336
    assert all_of_them.read_bytes - two.read_bytes == 2 * experts * 3 // 4
    assert all_of_them.body_parameters - two.body_parameters == experts * 3 // 4
    with pytest.raises(ConfigError, match="how many a token takes"):
        roofline.used_of_matrices(matrices, packing, shape)


def test_learned_positions_are_looked_up_beside_a_tied_table() -> None:
    """GPT-2: the vocabulary's table is the head, the table of positions gives a row of 768 floats."""
    config = {"model_type": "gpt2", "n_layer": 2, "n_embd": 768, "n_head": 12, "n_positions": 1024, "vocab_size": 50_257}
    found, _ = used(config, usual_packing(32))
    assert found.row_bytes == 768 * 4
    assert found.head_parameters == 50_257 * 768


def test_prefill_attends_to_what_comes_before_and_has_logits_at_the_end_only() -> None:
    """Three tokens see 1 + 2 + 3; a window of two sees 1 + 2 + 2; the head multiplies once a row."""
    full = LayerShape(kind="full", kv_heads=1, key_width=8, value_width=8, query_heads=2)
    shape = ModelShape(layers=(full, replace(full, kind="window", window=2)), hidden=16, vocabulary=10, tied=True)
    weights = WeightsUsed(read_bytes=1, row_bytes=0, body_parameters=100, head_parameters=7)
    attention = 2 * 2 * 16 * (6 + 5)
    assert roofline.prefill_flops(weights, shape, batch=5, tokens=3) == 5 * (2 * (300 + 7) + attention)


def test_layers_without_counted_attention_leave_the_floor_a_floor() -> None:
    """A state layer and a latent cache add bytes and no operations of attention."""
    state = LayerShape(kind="state", state_elements=10)
    latent = LayerShape(kind="latent", kv_heads=1, key_width=4, value_width=2, query_heads=8)
    shape = ModelShape(layers=(state, latent), hidden=4, vocabulary=10, tied=True)
    weights = WeightsUsed(read_bytes=100, row_bytes=0, body_parameters=3, head_parameters=0)
    assert roofline.step_flops(weights, shape, batch=1, tokens=5) == 6
    assert roofline.step_bytes(weights, shape, 2, batch=1, tokens=5) == 100 + 2 * 10 + 2 * 6 * 5


def test_the_first_token_needs_no_decode_step() -> None:
    """A prompt of 64 and 3 tokens out: two steps, over 65 and 66 tokens."""
    assert list(roofline.decode_lengths(64, 3)) == [65, 66]
    with pytest.raises(ConfigError, match="output_tokens"):
        roofline.decode_lengths(64, 0)


def test_the_larger_floor_binds_and_the_ridge_is_where_they_meet() -> None:
    """1 GB at 10 GB/s is 0.1 s; 1 TFLOP at 20 TFLOP/s is 0.05 s: memory binds until operations a byte reach 2,000."""
    found = roofline.floor(work_bytes=1e9, flops=1e12, bytes_per_s=1e10, flops_per_s=2e13)
    assert (found.memory_s, found.compute_s, found.seconds, found.bound) == (0.1, 0.05, 0.1, "memory")
    assert roofline.ridge(bytes_per_s=1e10, flops_per_s=2e13) == 2000
    assert roofline.floor(work_bytes=1, flops=1e13, bytes_per_s=1e10, flops_per_s=2e13).bound == "compute"
    assert roofline.share_of_roof(found.memory_s, 0.4) == 0.25


@pytest.mark.parametrize("roof", [0.0, -1.0, float("inf"), float("nan")])
def test_a_roof_that_is_none_is_refused(roof: float) -> None:
    """Zero, negative and non-finite rates are no roofs, and a time that is none gives no share."""
    with pytest.raises(ConfigError, match="a roof must be"):
        roofline.floor(work_bytes=1, flops=1, bytes_per_s=roof, flops_per_s=1)
    with pytest.raises(ConfigError, match="a measured time"):
        roofline.share_of_roof(1.0, 0.0 if roof > 0 else roof)


def test_a_figure_above_its_roof_is_refused_beyond_the_scatter() -> None:
    """With a CV of 2 % up to 1.06 times the roof is scatter; 1.07 times is a measuring fault."""
    roofline.refuse_over_roof("decoding", 1.06, 0.02)
    with pytest.raises(OverRoof, match=r"decoding is 1\.07 times the measured roof, whose scatter explains 1\.06"):
        roofline.refuse_over_roof("decoding", 1.07, 0.02)
