"""Many architectures, tiny and random: quantized, saved, read back, scored; parameters and bytes as worked out by hand."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import fresh
import saved_families
import tiny
from quantgate.devices.cpu import CpuDevice
from quantgate.engines.transformers import TransformersEngine
from quantgate.errors import EngineError, NothingQuantized
from quantgate.ports import QuantizePlan
from quantgate.quantizers.bitsandbytes import BitsAndBytesQuantizer
from quantgate.quantizers.rtn import RoundToNearestQuantizer
from quantgate.records import Artifact, Calibration, DeviceConfig, EngineSettings, Loaded, ModelSource, Variant

CPU = DeviceConfig(threads=1)
PER_LAYER = {
    # Weights of the linear layers of one block, by hand: hidden 64, MLP 128, heads 4 x 16 unless the config says otherwise.
    "llama": 64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 128,
    "gpt2": 64 * 192 + 64 * 64 + 2 * 64 * 256,
    "qwen2": 64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 128,
    "qwen3": 64 * 128 * 2 + 64 * 64 * 2 + 3 * 64 * 128,
    "gemma": 64 * 128 * 2 + 64 * 32 * 2 + 3 * 64 * 128,
    "mistral": 64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 128,
    "phi": 64 * 64 * 4 + 2 * 64 * 128,
    "gpt_neox": 64 * 192 + 64 * 64 + 2 * 64 * 128,
    "opt": 64 * 64 * 4 + 2 * 64 * 128,
    "falcon": 64 * (64 + 2 * 32) + 64 * 64 + 2 * 64 * 256,
    "mixtral": 64 * 64 * 2 + 64 * 32 * 2,
}
"""Mixtral's experts are one fused parameter, which neither bitsandbytes nor rounding touches; its router is no linear layer here."""
NOT_READ_BACK = {"falcon": "transformers finds 0 of them", "gpt2": "transformers fails on the GPTQ checkpoint"}
"""Families that GPTQModel packs and transformers cannot load: an error of the variant, told when it is built."""
pytestmark = pytest.mark.slow


def plan(variant: Variant, base: Path) -> QuantizePlan:
    return QuantizePlan(model=ModelSource(name="tiny", path="unused"), variant=variant, base=tiny.artifact(base), device=CPU)


def built(quantizer: Any, variant: Variant, base: Path, into: Path) -> Artifact:
    into.mkdir(parents=True)
    reason = quantizer.why_not(plan(variant, base))
    if reason is not None:
        pytest.skip(reason)
    made: Artifact = quantizer.quantize(plan(variant, base), into, lambda *_: None)
    return made


def scored(artifact: Artifact) -> tuple[Loaded, Any]:
    with TransformersEngine().open(artifact, EngineSettings(threads=1, scoring_only=True), CpuDevice(CPU)) as session:
        found = next(iter(session.logprobs([(5, 6, 7)], [[(8, 9), (10,)]])))
        return session.loaded, found.totals


@pytest.fixture(scope="module", params=sorted(saved_families.CONFIGS))
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    name: str = request.param
    return name, saved_families.build(name, tmp_path_factory.mktemp(name))


def test_rounded(family: tuple[str, Path], tmp_path: Path) -> None:
    """Round to nearest: the same parameters, the worked share of them, packed bytes by arithmetic, equal logits after reading back."""
    name, base = family
    artifact = built(RoundToNearestQuantizer(), tiny.variant("r", "rtn", weight_bits=4, granularity="group:32"), base, tmp_path / "r")
    (plain, _), (loaded, totals) = scored(tiny.artifact(base)), scored(artifact)
    weights = 2 * PER_LAYER[name]
    assert artifact.proof is not None
    assert loaded.logical_parameters == plain.logical_parameters == artifact.proof.logical_parameters
    assert loaded.quantized_parameters == artifact.proof.quantized_parameters == weights
    assert artifact.proof.stored_bits_per_weight == 4.5
    assert artifact.proof.reload_difference == 0
    assert artifact.simulated_weight_bytes == plain.weight_bytes - weights * 4 + weights // 2 + weights // 32 * 2
    assert all(one is not None and math.isfinite(one) for one in totals)


@pytest.mark.parametrize(("bits", "low", "high"), [(8, 8.2, 9.1), (4, 4.25, 4.8)])
def test_bitsandbytes(family: tuple[str, Path], tmp_path: Path, bits: int, low: float, high: float) -> None:
    """bitsandbytes: the same parameters, the worked share of them, the stated bits a weight, bit-equal logits after reading back."""
    name, base = family
    options = {"threshold": 0} if bits == 8 else {}
    variant = tiny.variant("b", "bitsandbytes", weight_bits=bits, options=options)
    if name == "falcon":  # its linear layers are a class of their own, which transformers leaves out
        with pytest.raises(NothingQuantized, match="0 of 9 layers"):
            built(BitsAndBytesQuantizer(), variant, base, tmp_path / "b")
        return
    artifact = built(BitsAndBytesQuantizer(), variant, base, tmp_path / "b")
    (plain, _), (loaded, totals) = scored(tiny.artifact(base)), scored(artifact)
    weights = 2 * PER_LAYER[name]
    assert artifact.proof is not None
    assert loaded.logical_parameters == plain.logical_parameters == artifact.proof.logical_parameters
    assert loaded.quantized_parameters == artifact.proof.quantized_parameters == weights
    assert artifact.proof.reload_difference == 0
    assert (artifact.proof.tied_before, artifact.proof.tied_after) == (plain.tied, plain.tied)
    assert low <= (loaded.weight_bytes - plain.weight_bytes + weights * 4) * 8 / weights <= high
    assert all(one is not None and math.isfinite(one) for one in totals)


def test_gptq(family: tuple[str, Path], tmp_path: Path) -> None:
    """GPTQ: the same parameters, 4 bits with scales, zero points and index, equal logits after reading back, finite scores."""
    pytest.importorskip("gptqmodel")
    from quantgate.quantizers.gptq import GptqQuantizer

    name, base = family
    texts = tmp_path / "t.jsonl"
    texts.write_text("".join(json.dumps({"text": f"sentence {n} about {n * n} things"}) + "\n" for n in range(60)))
    variant = tiny.variant("g", "gptq", weight_bits=4, granularity="group:32")
    variant = replace(variant, calibration=Calibration(name="t", path=str(texts), tokens=1024))
    if name in NOT_READ_BACK:
        with pytest.raises(EngineError, match=NOT_READ_BACK[name]):
            built(GptqQuantizer(), variant, base, tmp_path / "g")
        return
    artifact = built(GptqQuantizer(), variant, base, tmp_path / "g")
    (plain, _), (loaded, totals) = scored(tiny.artifact(base)), scored(artifact)
    assert artifact.proof is not None
    assert loaded.logical_parameters == plain.logical_parameters == artifact.proof.logical_parameters
    assert loaded.quantized_parameters == artifact.proof.quantized_parameters
    assert artifact.proof.quantized_parameters >= 2 * PER_LAYER[name]
    assert artifact.proof.reload_difference == 0
    assert loaded.weight_bytes < plain.weight_bytes
    assert all(one is not None and math.isfinite(one) for one in totals)


def test_moe_says_what_stayed(tmp_path: Path) -> None:
    """B08: fused experts that a quantizer does not know are named as left in float with their parameters, and the share shows it."""
    base = tmp_path / "m"  # GPTQModel, once loaded, splits the experts of every later model in its process: saved and quantized in others
    save = "import sys, pathlib, saved_families; saved_families.build('mixtral', pathlib.Path(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", save, str(base)], check=True, cwd=Path(saved_families.__file__).parent)
    variant = tiny.variant("b", "bitsandbytes", weight_bits=4)
    artifact = fresh.built(variant, base, tmp_path)
    assert artifact.proof is not None
    left = {one.name: one for one in artifact.proof.modules_left if "expert" in one.name}
    assert sum(one.parameters for one in left.values()) == 2 * 4 * 3 * 64 * 128
    assert all("does not know" in one.reason for one in left.values())
    assert artifact.proof.share_quantized < 0.5
