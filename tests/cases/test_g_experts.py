"""B63: experts that the calibration texts never reach."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

import fresh
import saved_families
import tiny
from quantgate.records import Calibration

TOKENS, LAYERS, EXPERTS, USED = 1024, 2, 8, 2


def starving(folder: Path) -> Path:
    """A Mixtral of 8 experts whose router sends every token to expert 0 or 1."""
    model = AutoModelForCausalLM.from_config(saved_families.mixtral(experts=EXPERTS, each=1))
    for layer in model.model.layers:
        gate = layer.mlp.gate.weight.data
        gate.zero_()
        gate[0] = torch.randn(64) * 5
        gate[1] = -gate[0]
    return tiny.saved(model, folder)


@pytest.mark.slow
def test_b63_starved_experts_are_rounded_and_named(tmp_path: Path) -> None:
    """Every expert is in the files with finite scales, those without tokens rounded to nearest and named; a fresh process reads all."""
    pytest.importorskip("gptqmodel")
    torch.manual_seed(3)
    base = starving(tmp_path / "base")
    texts = tmp_path / "texts.jsonl"
    texts.write_text("".join(json.dumps({"text": f"sentence {n} about {n * n} things"}) + "\n" for n in range(60)))
    variant = tiny.variant("g", "gptq", weight_bits=4, granularity="group:32")
    variant = replace(variant, calibration=Calibration(name="t", path=str(texts), tokens=TOKENS))
    artifact = fresh.built(variant, base, tmp_path)
    assert artifact.proof is not None
    starved = LAYERS * (EXPERTS - USED) * 3
    per_expert, named = artifact.proof.notes
    assert per_expert == f"calibration tokens an expert saw: 0 at least, 0 in the middle, of {TOKENS}"
    assert named.startswith(f"{starved} layers saw under 0.5% of the tokens and were rounded to nearest: 0.mlp.experts.2.down_proj")
    stored = load_file(Path(artifact.path) / "model.safetensors")
    packed = {name.removesuffix(".qweight") for name in stored if name.endswith(".qweight")}
    assert sum(".experts." in name for name in packed) == LAYERS * EXPERTS * 3
    assert all(torch.isfinite(stored[f"{name}.scales"]).all() for name in packed)
    loaded = fresh.opened(variant, artifact, tmp_path).loaded
    assert loaded.modules_replaced == len(packed)
    assert loaded.logical_parameters == artifact.proof.logical_parameters
    _is_rounded_to_nearest(base, stored, "model.layers.0.mlp.experts.5.up_proj")


def _is_rounded_to_nearest(base: Path, stored: dict[str, torch.Tensor], name: str) -> None:
    """No weight of a starved expert is further from the float one than half a step of its scale."""
    layer, expert = int(name.split(".")[2]), int(name.split(".")[5])
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    fused = model.model.layers[layer].mlp.experts.gate_up_proj.data[expert]
    weight = fused[len(fused) // 2 :]
    words, scales = stored[f"{name}.qweight"], stored[f"{name}.scales"].float().repeat_interleave(32, 0)
    codes = torch.stack([(words >> (4 * lane)) & 15 for lane in range(8)], dim=1).view(-1, words.shape[1])
    off = ((codes - 8) * scales - weight.T).abs()
    assert float((off / scales).max()) < 0.51
