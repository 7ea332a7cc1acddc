"""The arithmetic on config.json against what transformers really builds: cache tensors and parameters of tiny random models."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import torch

import families
from quantgate.kvcache import kept_by, kv_bytes_per_row
from quantgate.parameters import counted_families, matrices_of_config
from quantgate.shapes import shape_of_config
from quantgate.weightbytes import logical_parameters

QUICK = {
    "llama", "gpt2", "qwen2 sliding", "qwen3", "gemma2", "gemma3_text", "mistral sliding", "phi", "gpt_neox", "opt", "falcon multi-query",
    "falcon new", "mixtral", "gpt_oss", "deepseek_v3", "gemma3n_text", "jamba",
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


def test_every_counted_family_is_checked_here() -> None:
    """A family that is in the table without a model here would be a guess."""
    checked = {name.split(" ")[0] for name in families.COUNTED}
    same_code = {"ministral"}  # a Mistral with another name
    assert set(counted_families()) - checked == same_code
