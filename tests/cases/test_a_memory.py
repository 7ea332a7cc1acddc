"""Cases of memory freed taken from public bug reports."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

import sessions
import tiny
from quantgate.devices.cpu import CpuDevice
from quantgate.devices.fake import FakeDevice
from quantgate.engines import transformers_weights as weights
from quantgate.engines.transformers import TransformersEngine
from quantgate.errors import NothingQuantized
from quantgate.parameters import matrices_of_config
from quantgate.quantizers.layers import linear_layers
from quantgate.records import Capacity, DeviceConfig, EngineSettings, Probe, VariantEvidence
from quantgate.stages.forecast import logits_bytes
from quantgate.stages.report import _memory
from quantgate.weightbytes import logical_parameters, share_quantized, usual_packing, weight_bytes


def test_b01_gpt2_arithmetic() -> None:
    """B01: GPT-2's Conv1D projections are found, so int8 frees 34.1 % and NF4 49.1 %, not 0 % and 75 %."""
    with torch.device("meta"):
        model = GPT2LMHeadModel(GPT2Config())
    total = weights.logical_parameters(model)
    projections = sum(module.weight.numel() for _, module in linear_layers(model))
    assert (total, projections) == (124_439_808, 84_934_656)
    fp16, rest = 2 * total, 2 * (total - projections)
    int8 = projections + rest
    nf4 = projections // 2 + projections // 64 * 4 + rest
    assert (fp16, int8, nf4) == (248_879_616, 163_944_960, 126_786_048)
    rows = sum(module.weight.shape[1] for _, module in linear_layers(model))
    assert rows * 4 == 331_776
    assert round(1 - int8 / fp16, 3) == 0.341
    assert round(1 - nf4 / fp16, 3) == 0.491


@pytest.mark.parametrize("format_", ["bitsandbytes", "rtn-simulated"])
def test_b01_nothing_quantized_is_an_error(tmp_path: Path, format_: str) -> None:
    """B01: a variant in which no module was replaced is an error that counts the layers, never a row with 0 % freed."""
    artifact = tiny.artifact(tiny.gpt2(tmp_path / "gpt2"), variant="int8", format=format_)
    device = CpuDevice(DeviceConfig(threads=1))
    with (
        pytest.raises(NothingQuantized, match=r"requested int8 .*, 0 of 9 layers quantized"),
        TransformersEngine().open(artifact, EngineSettings(), device),
    ):
        pass


def test_b02_packed_weights_count_as_the_weights_they_hold() -> None:
    """B02: 100 x 100 weights packed into 5,000 bytes are 10,000 parameters."""
    bitsandbytes = pytest.importorskip("bitsandbytes")
    packed = bitsandbytes.nn.Params4bit(torch.randn(100, 100), quant_type="nf4").to("cpu")
    assert packed.numel() == 5_000
    assert weights.logical_count(packed) == 10_000


def test_b04_a_closed_variant_is_gone(tmp_path: Path) -> None:
    """B04: after its session closes a model is dead, although its quantizer state sits in reference cycles."""
    artifact = tiny.artifact(tiny.llama(tmp_path / "llama"))
    device = CpuDevice(DeviceConfig(threads=1))
    with TransformersEngine().open(artifact, EngineSettings(), device) as session:
        model = session._run.model
        model.cycle = [model, torch.zeros(10 * 2**18)]
        seen = weakref.ref(model)
        del model
    assert seen() is None


def test_b04_release_collects_cycles() -> None:
    """B04: releasing the device frees a 10 MiB buffer held by a reference cycle, with no other call to the collector."""

    class Model:
        def __init__(self) -> None:
            self.itself = self
            self.weights = torch.zeros(10 * 2**18)

    device = CpuDevice(DeviceConfig(threads=1))
    gc.disable()
    try:
        model = Model()
        seen = weakref.ref(model)
        del model
        assert seen() is not None
        device.release()
        assert seen() is None
    finally:
        gc.enable()


def test_b08_fused_experts_are_seen() -> None:
    """B08: experts kept as one 3-D parameter are 94.95 % of an MoE; they are listed as linear-like, so a share of 2.97 % shows."""
    layers, hidden, experts, width, heads, kv_heads, head_dim = 48, 2048, 128, 768, 32, 4, 128
    expert = layers * experts * 3 * hidden * width
    attention = layers * (2 * hidden * heads * head_dim + 2 * hidden * kv_heads * head_dim)
    total = 30_532_122_624
    assert (expert, attention) == (28_991_029_248, 905_969_664)
    assert (round(expert / total, 4), round(attention / total, 4)) == (0.9495, 0.0297)
    bf16 = 2 * total

    def nf4(quantized: int) -> int:
        return quantized // 2 + quantized // 64 * 4 + 2 * (total - quantized)

    assert bf16 == 61_064_245_248
    assert (nf4(attention), nf4(attention + expert)) == (59_761_913_856, 18_087_309_312)
    fused = torch.nn.Module()
    fused.gate_up = torch.nn.Parameter(torch.zeros(4, 8, 8))
    model = torch.nn.Sequential(torch.nn.Embedding(4, 4), fused, torch.nn.LayerNorm(4))
    assert list(weights.linear_like(model)) == ["1"]


def test_b01_and_b08_from_config_json_alone() -> None:
    """B01, B08: the same bytes from config.json without a model: GPT-2 with int8 and NF4, an MoE with and without its experts."""
    gpt2 = matrices_of_config({"model_type": "gpt2", "n_layer": 12, "n_head": 12, "n_embd": 768, "vocab_size": 50257, "n_positions": 1024})
    assert logical_parameters(gpt2) == 124_439_808
    found = [weight_bytes(gpt2, usual_packing(bits)) for bits in (16, 8, 4)]
    assert found == [248_879_616, 163_944_960 + 331_776, 126_786_048]
    moe = matrices_of_config({
        "model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 32, "head_dim": 128,
        "num_key_value_heads": 4, "num_experts": 128, "moe_intermediate_size": 768, "vocab_size": 151936, "tie_word_embeddings": False,
    })  # fmt: skip
    assert logical_parameters(moe) == 30_532_122_624
    fused = replace(usual_packing(4), experts=False)
    assert [weight_bytes(moe, one) for one in (usual_packing(16), fused, usual_packing(4))] == [
        61_064_245_248, 59_761_913_856, 18_087_309_312,
    ]  # fmt: skip
    assert round(share_quantized(moe, fused), 4) == 0.0297


@pytest.mark.parametrize(("live", "peak"), [(0, 300), (50, 350)])
def test_b05_a_peak_starts_at_the_live_amount(live: int, peak: int) -> None:
    """B05: after 1,000 bytes came and went a reset sets the peak to what is live, neither to zero nor to the earlier peak."""
    device = FakeDevice(DeviceConfig(kind="fake"))
    device.allocate(live)
    device.allocate(1000)
    device.free(1000)
    with device.watch_memory() as watch:
        device.allocate(300)
        device.free(100)
    assert (watch.peak.peak_bytes, device.live_bytes()) == (peak, 200 + live)


def test_b07_logits_of_whole_prompts_would_hide_the_weights() -> None:
    """B07: 32 rows of 384 positions over 32,000 words are 1,572,864,000 bytes; a request is planned with one position of them."""
    assert logits_bytes(32, 384, 32_000) == 1_572_864_000
    assert logits_bytes(1, 1, 32_000) == 128_000


def test_b07_freed_memory_compares_weights_and_not_peaks() -> None:
    """B07: a variant whose fills peak higher than the reference's has freed what its weights free."""
    reference, variant = loaded_evidence("float32", weight_bytes=1000, peak=2000), loaded_evidence("nf4", weight_bytes=300, peak=5000)
    assert _memory(variant, reference) == (300, 700, False)


def loaded_evidence(name: str, *, weight_bytes: int, peak: int) -> VariantEvidence:
    probe = Probe(batch_size=1, outcome="fits", peak_bytes=peak, purpose="probe")
    capacity = Capacity(
        prompt_tokens=1, output_tokens=1, budget_bytes=1, fixed_bytes=peak, prefill_bytes_per_row=1, decode_bytes_per_row=1,
        kv_bytes_per_row=1, predicted=1, confirmed=1, limited_by="memory", probes=(probe,),
    )  # fmt: skip
    return VariantEvidence(
        variant=tiny.variant(name, "bitsandbytes"), loaded=replace(sessions.loaded(), weight_bytes=weight_bytes), capacity=capacity
    )
