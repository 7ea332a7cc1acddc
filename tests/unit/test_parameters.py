"""Counting weights from config.json: exact for the families in the table, an error with the way out for all others."""

from __future__ import annotations

import pytest

from quantgate.errors import ConfigError
from quantgate.parameters import matrices_of_config
from quantgate.weightbytes import logical_parameters

LLAMA = {
    "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 100,
}  # fmt: skip


def test_parts_are_told_apart() -> None:
    """Embedding, head, linear layers and the rest: what is quantized and what is not."""
    parts = {part: sum(one.elements for one in matrices_of_config(LLAMA) if one.part == part) for part in ("embedding", "head", "other")}
    assert parts == {"embedding": 6400, "head": 6400, "other": 5 * 64}
    tied = matrices_of_config({**LLAMA, "tie_word_embeddings": True})
    assert not [one for one in tied if one.part == "head"]


def test_biases_by_the_config_s_own_switch() -> None:
    """attention_bias and mlp_bias add their vectors."""
    plain, biased = (logical_parameters(matrices_of_config({**LLAMA, **more})) for more in ({}, {"attention_bias": True, "mlp_bias": True}))
    assert biased - plain == 2 * (64 + 32 + 32 + 64 + 96 + 96 + 64)


def test_a_multimodal_config_counts_its_language_model() -> None:
    """The part under text_config, and only that."""
    assert matrices_of_config({"vision_config": {}, "text_config": LLAMA}) == matrices_of_config(LLAMA)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"model_type": "somebody_elses"}, "somebody_elses"),
        ({"model_type": None}, "model_type none"),
        ({"intermediate_size": None}, "intermediate_size"),
        ({"intermediate_size": "96"}, "intermediate_size"),
        ({"model_type": "cohere", "use_qk_norm": True}, "use_qk_norm"),
        ({"model_type": "mixtral"}, "num_local_experts"),
    ],
)
def test_what_is_not_counted_is_an_error(fields: dict[str, object], named: str) -> None:
    """An unknown family or switch names itself and the way to give the number by hand."""
    with pytest.raises(ConfigError, match=named):
        matrices_of_config({**LLAMA, **fields})
