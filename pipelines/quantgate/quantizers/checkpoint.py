"""A model that is quantized already: a folder that transformers loads, or a GGUF file. Nothing is quantized here; what it says is checked.

A folder is used where it is; its own config says how it was quantized. transformers unpacks a GGUF to float when it loads it, so such a
variant is scored with the file's exact weights and neither filled nor timed; the bytes it would take are those of the file's tensors.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gguf
import torch
from transformers import AutoModelForCausalLM

from quantgate.errors import ConfigError, EngineError, MissingModel
from quantgate.files import file_digest
from quantgate.ports import Progress, QuantizePlan
from quantgate.quantizers import layers, proof
from quantgate.quantizers.folder import copy_tokenizer, write_manifest
from quantgate.quantizers.reference import gguf_note, unpack_gguf
from quantgate.quantizers.settings import GptqSettings, kernel_refusal
from quantgate.quantizers.settings import checkpoint as checkpoint_settings
from quantgate.records import Artifact, Proof

_NEEDS = {
    "gptq": ("gptqmodel", "optimum"),
    "awq": ("gptqmodel",),
    "compressed-tensors": ("compressed_tensors",),
    "bitsandbytes": ("bitsandbytes",),
}
_PACKED = {
    "gptq": (".qweight", ".scales"),
    "awq": (".qweight", ".scales"),
    "compressed-tensors": (".weight_packed", ".weight_scale"),
    "bitsandbytes": (".weight",),
}
"""What a quantized module leaves in the files; the first marks it."""
_FLOAT_TYPES = frozenset({"F32", "F16", "BF16", "F64"})


@dataclass(frozen=True, kw_only=True, slots=True)
class _Said:
    """What the checkpoint's own config says."""

    method: str
    bits: int | None
    group: int | None
    symmetric: bool
    text: str


class CheckpointQuantizer:
    """Takes a ready checkpoint as a variant."""

    def why_not(self, plan: QuantizePlan) -> str | None:
        """Raises ``MissingModel`` or ``ConfigError`` for a checkpoint that is not there, is another one, or is not quantized."""
        settings = checkpoint_settings(plan.variant)
        if plan.base is None:
            return "a ready checkpoint is compared with the reference, which has not been prepared"
        path = Path(settings.path)
        if path.is_file():
            return None if path.suffix == ".gguf" else f"{path} is neither a folder nor a .gguf file"
        said = _read(path)
        _check_claim(said, plan)
        absent = [name for name in _NEEDS[said.method] if find_spec(name) is None]
        if absent:
            return f"a {said.method} checkpoint needs {' and '.join(absent)}, which is not installed: pip install {' '.join(absent)}"
        if said.method == "gptq" and settings.kernel != "auto" and said.bits is not None:
            wanted = GptqSettings(
                bits=said.bits, group=said.group or -1, desc_act=False, symmetric=said.symmetric, damp=0.05, kernel=settings.kernel
            )
            return kernel_refusal(wanted, plan.device.kind)
        return None

    def quantize(self, plan: QuantizePlan, into: Path, progress: Progress) -> Artifact:
        """Raises ``EngineError`` or ``NumericallyInvalid`` where a quantized tensor is missing, all zero or not finite."""
        settings = checkpoint_settings(plan.variant)
        if plan.base is None:
            raise ConfigError("a ready checkpoint is compared with the reference, which has not been prepared")
        path = Path(settings.path)
        _check_digest(path, settings.sha256)
        progress(0, 0, "checking the checkpoint")
        if path.is_file():
            return _of_gguf(plan, path, into, progress)
        said = _read(path)
        return _of_folder(plan, path, said, settings.kernel)


def _check_digest(path: Path, wanted: str | None) -> None:
    if wanted is None:
        return
    files = [path] if path.is_file() else sorted(path.glob("*.safetensors"))
    found = [file_digest(file) for file in files]
    if wanted not in found:
        raise ConfigError(f"checkpoint: no weight file of {path} has the sha256 {wanted}; found {', '.join(found) or 'no file'}")


# ---------------------------------------------------------------------------------------------- folders


def _read(folder: Path) -> _Said:
    """What the folder's config says. Raises for a folder that is none, is not quantized, or is quantized in a way not known here."""
    if not folder.exists():
        raise MissingModel(f"checkpoint: no file or folder at {folder}")
    path = folder / "config.json"
    if not path.exists():
        raise MissingModel(f"checkpoint: {folder} has no config.json")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"not valid JSON: {error}", file=str(path)) from None
    said = config.get("quantization_config") if isinstance(config, dict) else None
    if not isinstance(said, dict):
        raise ConfigError("the checkpoint is not quantized: its config.json has no quantization_config", file=str(path))
    method = said.get("quant_method")
    if method not in _NEEDS:
        raise ConfigError(f"quant_method is {method!r}; known are {', '.join(_NEEDS)}", file=str(path))
    if not any(folder.glob("*.safetensors")):
        raise MissingModel(f"checkpoint: {folder} holds no weights as safetensors")
    return _said(str(method), said)


def _said(method: str, said: dict[str, Any]) -> _Said:
    bits, group, symmetric, text = said.get("bits"), said.get("group_size"), bool(said.get("sym", not said.get("zero_point", False))), ""
    if method == "bitsandbytes":
        bits = 8 if said.get("load_in_8bit") else 4
        text = "int8" if bits == 8 else str(said.get("bnb_4bit_quant_type", "fp4"))
    if method == "compressed-tensors":
        weights = [one.get("weights") or {} for one in (said.get("config_groups") or {}).values() if isinstance(one, dict)]
        bits = weights[0].get("num_bits") if weights else None
        group = weights[0].get("group_size") if weights else None
        symmetric = bool(weights[0].get("symmetric", True)) if weights else True
    bits = bits if isinstance(bits, int) and not isinstance(bits, bool) else None
    group = group if isinstance(group, int) and not isinstance(group, bool) else None
    return _Said(method=method, bits=bits, group=group, symmetric=symmetric, text=text or ("symmetric" if symmetric else "asymmetric"))


def _check_claim(said: _Said, plan: QuantizePlan) -> None:
    """The width that the run's config states is the checkpoint's own."""
    if said.bits is None:
        raise ConfigError(f"variant '{plan.variant.name}': the checkpoint's config does not say how many bits a weight has")
    if plan.variant.weight_bits != said.bits:
        raise ConfigError(
            f"variant '{plan.variant.name}': bits is {plan.variant.weight_bits}, and the checkpoint says {said.bits}"
        )


def _of_folder(plan: QuantizePlan, folder: Path, said: _Said, kernel: str) -> Artifact:
    assert plan.base is not None
    stored = proof.Stored(folder)
    mark, *others = _PACKED[said.method]
    plain = layers.empty_model(plan.base.path)
    linear = {name: layers.rows(module).numel() for name, module in layers.linear_layers(plain)}
    replaced = _replaced(stored, said.method, mark, set(linear))
    if not replaced:
        raise EngineError(f"checkpoint {folder}: its config says {said.method}, and none of its tensors ends in {mark}")
    _check_model(replaced, linear, plan)
    checked = stored.check(name + suffix for name in replaced for suffix in (mark, *others))
    weights = {name: linear[name] for name in replaced}
    shown = Proof(
        library=f"{said.method}, as found",
        modules_replaced=len(replaced),
        modules_left=layers.left(plain, replaced),
        quantized_parameters=sum(weights.values()),
        logical_parameters=layers.logical_parameters(plain),
        stored_bits_per_weight=stored.bits_per_weight(weights),
        tensors_checked=checked,
        tied_before=layers.tied(plain),
        tied_after=layers.tied(plain),
        reload_difference=None,
        why_no_reload="the model was not quantized here, so there is nothing in memory to compare with",
    )
    group = "" if said.group is None else f", group size {said.group}"
    note = f"{said.method} checkpoint as found: {said.bits} bits{group}, {said.text}"
    return Artifact(
        variant=plan.variant.name,
        path=str(folder),
        format=said.method,
        stored_bytes=0,
        sha256="",
        note=note,
        kernel=kernel,
        proof=shown,
    )


def _replaced(stored: proof.Stored, method: str, mark: str, linear: set[str]) -> list[str]:
    """Modules that the files hold in packed form."""
    names = [name.removesuffix(mark) for name in stored.names() if name.endswith(mark)]
    if method == "bitsandbytes":
        packed = {name.rsplit(".", 1)[0] for name in stored.names() if name.endswith(".SCB")}
        packed |= {name.removesuffix(".weight.absmax") for name in stored.names() if name.endswith(".weight.absmax")}
        names = [name for name in names if name in packed]
    return sorted(names)


def _check_model(replaced: list[str], linear: dict[str, int], plan: QuantizePlan) -> None:
    unknown = [name for name in replaced if name not in linear]
    if unknown:
        raise ConfigError(
            f"variant '{plan.variant.name}': the checkpoint has {len(unknown)} quantized modules that the reference lacks, "
            f"first {unknown[0]}: it is another model"
        )


# ---------------------------------------------------------------------------------------------- GGUF


def _of_gguf(plan: QuantizePlan, file: Path, into: Path, progress: Progress) -> Artifact:
    assert plan.base is not None
    try:
        tensors = list(gguf.GGUFReader(str(file)).tensors)
    except Exception as error:  # the reader raises whatever a broken file makes numpy raise
        raise ConfigError(f"checkpoint: {file} is no GGUF file that can be read: {error}") from None
    kinds = {tensor.tensor_type.name for tensor in tensors}
    if not kinds - _FLOAT_TYPES:
        raise ConfigError(f"checkpoint: {file} is not quantized: its tensors are {', '.join(sorted(kinds))}")
    main = max(tensors, key=lambda one: int(one.n_elements) * (one.tensor_type.name not in _FLOAT_TYPES)).tensor_type.name
    if str(plan.variant.weight_bits) not in main.partition("_")[0]:
        raise ConfigError(f"variant '{plan.variant.name}': bits is {plan.variant.weight_bits}, and the file's weights are {main}")
    unpack_gguf(file, into, progress)
    model = AutoModelForCausalLM.from_pretrained(str(into), dtype=torch.float32, local_files_only=True)
    plain = layers.empty_model(plan.base.path)
    linear = {name: layers.rows(module).numel() for name, module in layers.linear_layers(plain)}
    found = {name: layers.rows(module).numel() for name, module in layers.linear_layers(model)}
    if found != linear:
        raise ConfigError(
            f"variant '{plan.variant.name}': the layers of {file.name} are not those of the reference: it is another model"
        )
    copy_tokenizer(Path(plan.base.path), into)
    write_manifest(into, scheme=plan.variant.scheme, quantized_modules=sorted(found))
    quantized = [tensor for tensor in tensors if tensor.tensor_type.name not in _FLOAT_TYPES]
    weights = sum(int(tensor.n_elements) for tensor in quantized)
    return Artifact(
        variant=plan.variant.name,
        path=str(into),
        format="gguf-simulated",
        stored_bytes=0,
        sha256="",
        note=f"GGUF checkpoint as found: {gguf_note(file)}; kept in float32 here, and simulated for that reason",
        simulated=True,
        simulated_weight_bytes=sum(int(tensor.n_bytes) for tensor in tensors),
        proof=Proof(
            library="gguf, as found",
            modules_replaced=len(found),
            modules_left=layers.left(plain, found),
            quantized_parameters=sum(found.values()),
            logical_parameters=layers.logical_parameters(plain),
            stored_bits_per_weight=sum(int(tensor.n_bytes) for tensor in quantized) * 8 / weights,
            tensors_checked=proof.Stored(into).check(f"{name}.weight" for name in found),
            tied_before=layers.tied(plain),
            tied_after=layers.tied(model),
            reload_difference=None,
            why_no_reload="the model was not quantized here, so there is nothing in memory to compare with",
            notes=("bits per weight count every quantized tensor of the file, the embedding included",),
        ),
    )
