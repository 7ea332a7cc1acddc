"""Logits along a text: every row as one whole forward has it, a block at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

import tiny
from quantgate.devices.cpu import CpuDevice
from quantgate.engines import transformers_distributions
from quantgate.engines.transformers import TransformersEngine
from quantgate.errors import EngineError
from quantgate.records import DeviceConfig, EngineSettings

TEXTS = [tuple(range(3, 60)), (7,), tuple(range(100, 131))]


@pytest.fixture(params=["gqa", "gpt2"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tiny.gpt2(tmp_path) if request.param == "gpt2" else tiny.llama(tmp_path)


def opened(folder: Path) -> Any:
    device = CpuDevice(DeviceConfig(threads=1))
    return TransformersEngine().open(tiny.artifact(folder), EngineSettings(threads=1), device)


@pytest.mark.parametrize("rows", [1, 8, 1000])
def test_every_row_is_that_of_a_whole_forward(folder: Path, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the block, the rows are those of one forward over the text, in order, and no block is larger than it may be."""
    monkeypatch.setattr(transformers_distributions, "BLOCK_BYTES", rows * 4 * tiny.VOCABULARY)
    with opened(folder) as session:
        blocks = [np.asarray(block) for block in session.distributions(TEXTS, every_position=True)]
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.inference_mode():
        wanted = np.concatenate([model(input_ids=torch.tensor([text])).logits[0].numpy() for text in TEXTS])
    assert max(len(block) for block in blocks) <= rows
    assert {block.dtype for block in blocks} == {np.dtype(np.float32)}
    np.testing.assert_allclose(np.concatenate(blocks), wanted, atol=2e-5)


def test_the_last_row_is_the_distribution_after_the_context(folder: Path) -> None:
    """Both forms of the question give the same row."""
    with opened(folder) as session:
        along = [np.asarray(block) for block in session.distributions([TEXTS[0]], every_position=True)]
        (after,) = session.distributions([TEXTS[0]])
    np.testing.assert_allclose(along[-1][-1], np.asarray(after)[0], atol=2e-5)


def test_a_text_without_tokens_is_refused(folder: Path) -> None:
    """There is nothing to condition on, so nothing is made up."""
    with opened(folder) as session, pytest.raises(EngineError, match="no token"):
        next(iter(session.distributions([()], every_position=True)))
