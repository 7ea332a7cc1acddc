"""What of a loaded model a decode step uses: tied and untied tables, packed weights, experts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, MixtralConfig, MixtralForCausalLM

import tiny
from quantgate.engines.transformers_used import used
from quantgate.engines.transformers_weights import weight_bytes
from quantgate.parameters import matrices_of_config
from quantgate.roofline import used_of_matrices
from quantgate.shapes import shape_of_config
from quantgate.weightbytes import usual_packing

TABLE = tiny.VOCABULARY * 64


def _loaded(folder: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32)


@pytest.mark.parametrize("tied", [True, False])
def test_a_loaded_model_says_what_its_config_does(tmp_path: Path, tied: bool) -> None:
    """Weights, rows and operations of the loaded Llama are those that follow from its config.json; the rest is its rotary buffer."""
    model = _loaded(tiny.llama(tmp_path / "model", tied=tied))
    found = used(model, weight_bytes(model))
    config = {**model.config.to_dict(), "tie_word_embeddings": tied}
    expected = used_of_matrices(matrices_of_config(config), usual_packing(32), shape_of_config(config))
    assert found is not None
    assert 0 <= found.read_bytes - expected.read_bytes < 1024
    assert found.row_bytes == expected.row_bytes == (0 if tied else 64 * 4)
    assert (found.body_parameters, found.head_parameters) == (expected.body_parameters, TABLE)


def test_gpt2_looks_up_its_positions(tmp_path: Path) -> None:
    """The table of the vocabulary is the head; that of positions gives rows."""
    model = _loaded(tiny.gpt2(tmp_path / "model"))
    found = used(model, weight_bytes(model))
    assert found is not None
    assert found.row_bytes == model.transformer.wpe.weight.shape[1] * 4
    assert found.read_bytes == weight_bytes(model) - model.transformer.wpe.weight.numel() * 4


def _mixtral(**changes: Any) -> Any:
    config = MixtralConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2,
        num_local_experts=4, num_experts_per_tok=1, **changes,
    )  # fmt: skip
    return MixtralForCausalLM(config).float()


def test_of_experts_those_of_one_token_count() -> None:
    """One of four: three quarters of the experts' bytes and operations are left out."""
    model = _mixtral()
    found = used(model, weight_bytes(model))
    experts = 4 * 3 * 32 * 48
    table = 64 * 32
    assert found is not None
    assert found.read_bytes == weight_bytes(model) - 4 * table - 4 * experts * 3 // 4
    attention, router = 4 * 32 * 32, 4 * 32
    assert found.body_parameters == attention + router + experts // 4


def test_experts_of_an_unknown_number_are_not_guessed() -> None:
    """A config that does not say how many a token takes gives no floor."""
    model = _mixtral()
    model.config.num_experts_per_tok = 0
    assert used(model, weight_bytes(model)) is None
