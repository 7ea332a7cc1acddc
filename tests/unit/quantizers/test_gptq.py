"""GPTQ through GPTQModel on tiny random models: what is written, proven, reloaded and refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tiny
from quantgate.devices.cpu import CpuDevice
from quantgate.engines.transformers import TransformersEngine
from quantgate.errors import ConfigError, EngineError, NumericallyInvalid
from quantgate.ports import QuantizePlan
from quantgate.quantizers import proof
from quantgate.quantizers.gptq import GptqQuantizer, calibration_rows
from quantgate.records import Artifact, Calibration, DeviceConfig, EngineSettings, Loaded, ModelSource, Variant

pytest.importorskip("gptqmodel", reason="the extra gptq is not installed")
pytest.importorskip("optimum", reason="the extra gptq is not installed")

CPU = DeviceConfig(threads=1)
PROMPT = (5, 6, 7, 8)
LINEAR = 2 * (64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 128)
TOKENS = 1024


def texts(folder: Path, *, lines: int = 40) -> Path:
    path = folder / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": f"{n} apples and {n * 3} pears, said the {n}th clerk"}) + "\n" for n in range(lines)))
    return path


def variant(path: Path, *, bits: int = 4, granularity: str = "group:32", tokens: int = TOKENS, **options: Any) -> Variant:
    return tiny.variant(
        "gptq",
        "gptq",
        weight_bits=bits,
        granularity=granularity,
        options=options,
        calibration=Calibration(name="texts", path=str(path), tokens=tokens),
    )


def plan(made: Variant, base: Path, device: DeviceConfig = CPU) -> QuantizePlan:
    return QuantizePlan(model=ModelSource(name="tiny", path="unused"), variant=made, base=tiny.artifact(base), device=device)


def built(made: Variant, base: Path, into: Path) -> tuple[Artifact, list[tuple[int, int, str]]]:
    into.mkdir(parents=True)
    assert GptqQuantizer().why_not(plan(made, base)) is None
    told: list[tuple[int, int, str]] = []
    return GptqQuantizer().quantize(plan(made, base), into, lambda done, total, what: told.append((done, total, what))), told


def measured(artifact: Artifact, *, scoring_only: bool = True) -> tuple[Loaded, Any]:
    settings = EngineSettings(threads=1, scoring_only=scoring_only)
    with TransformersEngine().open(artifact, settings, CpuDevice(CPU)) as session:
        return session.loaded, next(iter(session.distributions([PROMPT])))[0]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.llama(tmp_path_factory.mktemp("base"))


@pytest.mark.parametrize(
    ("bits", "granularity", "options", "stored_bits"),
    [
        # q weights, float16 scale and packed zero point of each group, one 32-bit group index a column.
        (4, "group:32", {}, 4 + (16 + 4) / 32),
        pytest.param(8, "group:32", {}, 8 + (16 + 8) / 32, marks=pytest.mark.slow),
        (4, "channel", {}, 4),
        pytest.param(4, "group:32", {"desc_act": True}, 4 + (16 + 4) / 32, marks=pytest.mark.slow),
        pytest.param(4, "group:32", {"symmetric": False}, 4 + (16 + 4) / 32, marks=pytest.mark.slow),
        pytest.param(3, "group:32", {}, 3 + (16 + 3) / 32, marks=pytest.mark.slow),
        pytest.param(2, "group:64", {}, 2 + (16 + 2) / 64, marks=pytest.mark.slow),
    ],
)
def test_what_is_saved_is_what_was_made(
    base: Path, tmp_path: Path, bits: int, granularity: str, options: dict[str, Any], stored_bits: float
) -> None:
    """B60: each width, group and order reads back with the logits it had in memory, all layers in place, none of them zero."""
    artifact, told = built(variant(texts(tmp_path), bits=bits, granularity=granularity, **options), base, tmp_path / "q")
    shown = artifact.proof
    assert shown is not None
    assert shown.reload_difference == 0
    assert (shown.modules_replaced, shown.quantized_parameters, shown.tied_before, shown.tied_after) == (14, LINEAR, True, True)
    assert {one.name: one.reason for one in shown.modules_left}["lm_head"] == "the head, tied to the embedding"
    assert shown.calibration_tokens == TOKENS
    index = 32 * (12 * 64 + 2 * 128) / LINEAR
    scales = 0 if granularity != "channel" else (16 + bits) * (2 * (64 * 2 + 32 * 2 + 128 * 2 + 64)) / LINEAR
    assert shown.stored_bits_per_weight == pytest.approx(stored_bits + index + scales)
    loaded, logits = measured(artifact)
    plain, float_logits = measured(tiny.artifact(base))
    assert loaded.logical_parameters == plain.logical_parameters == shown.logical_parameters
    assert (loaded.quantized_parameters, loaded.modules_replaced, loaded.modules_left) == (LINEAR, 14, ("lm_head",))
    assert loaded.weights_sha256 not in ("", plain.weights_sha256)
    assert loaded.weight_bytes < plain.weight_bytes
    assert loaded.kernels == {"Linear": 1, "TorchLinear (unpacked once, for scoring)": 14}
    assert loaded.tied
    assert float(abs(logits - float_logits).max()) > 0
    assert [done for done, total, what in told if what.startswith("calibrating")] == [1, 2]


def test_checkpoint_is_of_the_common_format(base: Path, tmp_path: Path) -> None:
    """The folder says gptq in config.json and quantize_config.json, and keeps tokenizer and generation settings byte for byte."""
    artifact, _ = built(variant(texts(tmp_path)), base, tmp_path / "q")
    folder = Path(artifact.path)
    config = json.loads((folder / "config.json").read_text())
    said = config.pop("quantization_config")
    assert (said["quant_method"], said["checkpoint_format"], said["bits"], said["group_size"], said["desc_act"], said["sym"]) == (
        "gptq", "gptq", 4, 32, False, True,
    )  # fmt: skip
    assert config == json.loads((base / "config.json").read_text())
    assert json.loads((folder / "quantize_config.json").read_text())["bits"] == 4
    names = ("qweight", "qzeros", "scales", "g_idx")
    assert {f"model.layers.0.mlp.down_proj.{name}" for name in names} <= set(proof.Stored(folder).names())
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        assert (folder / name).read_bytes() == (base / name).read_bytes()
    assert not (folder / "quant_log.csv").exists()


@pytest.mark.slow
def test_same_texts_same_artifact(base: Path, tmp_path: Path) -> None:
    """Quantizing twice gives the same weights; another seed gives others."""
    path = texts(tmp_path)
    made = variant(path)
    assert made.calibration is not None
    other = replace(made, calibration=replace(made.calibration, seed=3))
    digests = [measured(built(one, base, tmp_path / str(n))[0])[0].weights_sha256 for n, one in enumerate((made, made, other))]
    assert digests[0] == digests[1] != digests[2]


def test_fast_kernel_is_named_with_its_type(base: Path, tmp_path: Path) -> None:
    """Filled and timed at 4 bits on a CPU, the library's own choice runs, and its name says that it computes in bfloat16."""
    artifact, _ = built(variant(texts(tmp_path)), base, tmp_path / "q")
    fast, logits = measured(artifact, scoring_only=False)
    slow, same = measured(artifact)
    assert fast.kernels == {"Linear": 1, "TorchAtenLinear (int4pack, bfloat16)": 14}
    assert fast.weights_sha256 == slow.weights_sha256
    assert 0 < float(abs(logits - same).max()) < 0.2


# ---------------------------------------------------------------------------------------------- what is refused


def test_b58_b59_every_failing_layer_by_name(tmp_path: Path) -> None:
    """B58, B59: group size and packing are checked from shapes alone, and each failing layer is named with its remainder."""
    odd = tiny.llama(tmp_path / "odd", intermediate=144)
    path = texts(tmp_path)
    reason = GptqQuantizer().why_not(plan(variant(path, granularity="group:32"), odd))
    assert reason is not None
    assert "model.layers.0.mlp.down_proj (144 columns, remainder 16)" in reason
    assert "model.layers.1.mlp.down_proj (144 columns, remainder 16)" in reason
    packing = GptqQuantizer().why_not(plan(variant(path, granularity="channel"), odd))
    assert packing is not None
    assert "model.layers.1.mlp.gate_proj (144 rows, remainder 16)" in packing
    assert "lm_head" not in reason + packing


@pytest.mark.parametrize(
    ("bits", "options", "device", "reason"),
    [
        (3, {"kernel": "marlin"}, "cuda", "weights of 8 and 4 bits, not of 3"),
        (2, {"kernel": "int4pack"}, "cpu", "weights of 4 bits, not of 2"),
        (4, {"kernel": "marlin"}, "cpu", "runs on cuda, and this run is on cpu"),
        (4, {"kernel": "marlin", "symmetric": False}, "cuda", "symmetric weights only"),
        (4, {"kernel": "int4pack", "granularity": "channel"}, "cpu", "takes groups of 32, 64 and 128, not one scale a channel"),
    ],
)
def test_b62_kernel_and_bits(base: Path, tmp_path: Path, bits: int, options: dict[str, Any], device: str, reason: str) -> None:
    """B62: a width that the kernel cannot multiply is told before anything is calibrated; the other widths are not refused."""
    path = texts(tmp_path)
    found = GptqQuantizer().why_not(plan(variant(path, bits=bits, **options), base, DeviceConfig(kind=device)))
    assert found is not None
    assert reason in found
    assert GptqQuantizer().why_not(plan(variant(path, bits=4, kernel="int4pack"), base)) is None


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"bits": 5}, "8, 4, 3 and 2"),
        ({"granularity": "group:48"}, "group:32, group:64, group:128 and channel"),
        ({"desc_ack": True}, "did you mean 'desc_act'"),
        ({"desc_act": "yes"}, "true and false"),
        ({"damp": 1.5}, "between 0 and 1"),
        ({"kernel": "maarlin"}, "auto, torch"),
    ],
)
def test_options(base: Path, tmp_path: Path, fields: dict[str, Any], reason: str) -> None:
    """What GPTQ does not offer is refused with what is allowed."""
    with pytest.raises(ConfigError, match=reason):
        GptqQuantizer().why_not(plan(variant(texts(tmp_path), **fields), base))


def test_without_calibration(base: Path) -> None:
    """A variant without calibration texts is the caller's mistake."""
    with pytest.raises(ConfigError, match="calibration"):
        GptqQuantizer().why_not(plan(tiny.variant("g", "gptq", weight_bits=4, granularity="group:32"), base))


def test_library_missing(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B66: without the library the reason names it, the interpreter and the install line."""
    monkeypatch.setattr("quantgate.quantizers.gptq_library.find_spec", lambda name: None)
    reason = GptqQuantizer().why_not(plan(variant(texts(tmp_path)), base))
    assert reason is not None
    assert "gptqmodel and optimum" in reason
    assert sys.executable in reason
    assert "pip install" in reason


def test_calibration_is_counted_in_tokens(base: Path, tmp_path: Path) -> None:
    """Exactly as many tokens as asked for, unpadded, in rows that the library takes; fewer in the set, or too few, are refused."""
    path = texts(tmp_path)
    rows = calibration_rows(Calibration(name="t", path=str(path), tokens=1100), str(base))
    assert [len(row) for row in rows] == [512, 512, 76]
    rows = calibration_rows(Calibration(name="t", path=str(path), tokens=1030), str(base))
    assert [len(row) for row in rows] == [512, 259, 259]
    short = calibration_rows(Calibration(name="t", path=str(path), tokens=600), str(tiny.gpt2(tmp_path / "of-256-positions")))
    assert [len(row) for row in short] == [256, 256, 88]
    with pytest.raises(ConfigError, match="tokens is 10; GPTQ learns from 11 at least"):
        calibration_rows(Calibration(name="t", path=str(path), tokens=10), str(base))
    with pytest.raises(ConfigError, match=r"holds \d+ tokens of this model, and 9000 are asked for"):
        calibration_rows(Calibration(name="t", path=str(path), tokens=9000), str(base))


def test_a_template_that_refuses_a_text(base: Path, tmp_path: Path) -> None:
    """Turns that the model's template does not take are told with the template's own words and the text's beginning."""
    folder, path = tmp_path / "model", tmp_path / "turns.jsonl"
    shutil.copytree(base, folder)
    backend = tiny.tokenizer(chat_template="{{ raise_exception('roles must alternate') }}")
    backend.save_pretrained(folder)
    path.write_text(json.dumps({"messages": [{"role": "user", "content": "hello"}]}) + "\n")
    with pytest.raises(ConfigError, match=r"turns user, which begins 'hello': roles must alternate"):
        calibration_rows(Calibration(name="t", path=str(path), tokens=13), str(folder))


def test_turns_go_through_the_models_template(base: Path, tmp_path: Path) -> None:
    """Messages are calibrated on as the model sees them in use."""
    path = tmp_path / "turns.jsonl"
    path.write_text(json.dumps({"messages": [{"role": "user", "content": "hello"}]}) + "\n")
    rows = calibration_rows(Calibration(name="t", path=str(path), tokens=13), str(base))
    backend = tiny.tokenizer()
    assert rows == [backend.encode("<s>[user]hello\n", add_special_tokens=False)]


def test_zero_and_nonfinite_tensors_are_found(base: Path, tmp_path: Path) -> None:
    """B60: a stored tensor of zeros, a scale that is not finite, or one that is missing is an error with its name."""
    from safetensors.torch import load_file, save_file

    artifact, _ = built(variant(texts(tmp_path)), base, tmp_path / "q")
    file = Path(artifact.path) / "model.safetensors"
    good = load_file(file)
    name = "model.layers.0.mlp.up_proj"
    for key, spoil, error in (("qweight", 0, EngineError), ("scales", float("nan"), NumericallyInvalid)):
        bad = {**good, f"{name}.{key}": good[f"{name}.{key}"].clone().fill_(spoil)}
        save_file(bad, file)
        with pytest.raises(error, match=f"{name}.{key}"):
            proof.Stored(Path(artifact.path)).check([f"{name}.{key}"])
    with pytest.raises(EngineError, match="not in the files"):
        proof.Stored(Path(artifact.path)).check([f"{name}.nothing"])


@pytest.mark.slow
def test_importing_the_quantizer_touches_nothing() -> None:
    """The environment is set inside a worker that quantizes, not where the module is imported, and the library stays unloaded."""
    code = (
        "import os, sys; before = dict(os.environ); import quantgate.quantizers.gptq, quantgate.engines.transformers\n"
        "assert 'gptqmodel' not in sys.modules; assert 'GPTQMODEL_CPU_WORKERS' not in set(os.environ) - set(before)"
    )
    done = subprocess.run([sys.executable, "-c", code], env=dict(os.environ), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_another_model_read_back_is_an_error() -> None:
    """B60: logits that differ by more than rounding are an error; equal ones give a difference of 0."""
    import torch

    logits = torch.tensor([[1.0, -20.0]])
    assert proof.difference(logits, logits) == 0
    assert proof.difference(logits, logits + 0.125) == 0.125
    with pytest.raises(EngineError, match=r"differ from those in memory by 0\.5"):
        proof.difference(logits, logits + 0.5)
