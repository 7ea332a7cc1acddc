"""Ready checkpoints that transformers computes with in float: GGUF files and compressed-tensors folders, unpacked to a float folder.

Such a variant is scored with the checkpoint's exact weights and neither filled nor timed; the bytes it would take are those of the
checkpoint's own tensors. compressed-tensors weights look packed after loading and become float at the first forward, for good.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import torch
from transformers import AutoModelForCausalLM

from quantgate.errors import ConfigError, EngineError, NothingQuantized
from quantgate.ports import Progress, QuantizePlan
from quantgate.quantizers import layers, proof
from quantgate.quantizers.folder import copy_tokenizer, write_manifest
from quantgate.quantizers.reference import gguf_note, unpack_gguf
from quantgate.records import Artifact, Proof

_FLOAT_TYPES = frozenset({"F32", "F16", "BF16", "F64"})
_SCALE, _PACKED_WEIGHT, _WEIGHT = ".weight_scale", ".weight_packed", ".weight"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Unpacked:
    """What was written, and what it was made from."""

    model: Any
    linear: Mapping[str, int]
    """Weights of each quantized layer."""
    format: str
    note: str
    library: str
    bits_per_weight: float
    total_bytes: int
    notes: tuple[str, ...] = ()
    counted_elsewhere: frozenset[str] = frozenset()
    """Modules outside ``linear`` that are not left in float either."""


def _artifact(plan: QuantizePlan, plain: Any, into: Path, found: _Unpacked) -> Artifact:
    assert plan.base is not None
    copy_tokenizer(Path(plan.base.path), into)
    write_manifest(into, scheme=plan.variant.scheme, quantized_modules=sorted(found.linear))
    return Artifact(
        variant=plan.variant.name,
        path=str(into),
        format=found.format,
        stored_bytes=0,
        sha256="",
        note=f"{found.note}; kept in float32 here, and simulated for that reason",
        simulated=True,
        simulated_weight_bytes=found.total_bytes,
        proof=Proof(
            library=found.library,
            modules_replaced=len(found.linear),
            modules_left=tuple(one for one in layers.left(plain, found.linear) if one.name not in found.counted_elsewhere),
            quantized_parameters=sum(found.linear.values()),
            logical_parameters=layers.logical_parameters(plain),
            stored_bits_per_weight=found.bits_per_weight,
            tensors_checked=proof.Stored(into).check(f"{name}.weight" for name in found.linear),
            tied_before=layers.tied(plain),
            tied_after=layers.tied(found.model),
            reload_difference=None,
            why_no_reload="the model was not quantized here, so there is nothing in memory to compare with",
            notes=found.notes,
        ),
    )


# ---------------------------------------------------------------------------------------------- GGUF


def check_gguf(plan: QuantizePlan, file: Path) -> Any:
    """The file's reader. Raises ``ConfigError`` for a file that cannot be read, is not quantized, or has another width."""
    try:
        reader = gguf.GGUFReader(str(file))
    except Exception as error:  # the reader raises whatever a broken file makes numpy raise
        raise ConfigError(f"checkpoint: {file} is no GGUF file that can be read: {error}") from None
    kinds = {tensor.tensor_type.name for tensor in reader.tensors}
    if not kinds - _FLOAT_TYPES:
        raise ConfigError(f"checkpoint: {file} is not quantized: its tensors are {', '.join(sorted(kinds)) or 'none'}")
    main = _main_type(reader.tensors)
    if str(plan.variant.weight_bits) not in main.partition("_")[0]:
        raise ConfigError(f"variant '{plan.variant.name}': bits is {plan.variant.weight_bits}, and the file's weights are {main}")
    return reader


def _main_type(tensors: Iterable[Any]) -> str:
    """The type that holds the most weights of the layers; an embedding, often the largest tensor, has a width of its own."""
    small = [one for one in tensors if one.tensor_type.name not in _FLOAT_TYPES]
    weights: Counter[str] = Counter()
    for tensor in [one for one in small if one.name.startswith("blk.")] or small:
        weights[tensor.tensor_type.name] += int(tensor.n_elements)
    return weights.most_common(1)[0][0]


def of_gguf(plan: QuantizePlan, file: Path, into: Path, progress: Progress) -> Artifact:
    """Raises ``ConfigError`` where the file's layers are not those of the reference, ``EngineError`` where none is in fewer bits."""
    assert plan.base is not None
    reader = check_gguf(plan, file)
    unpack_gguf(file, into, progress)
    model = AutoModelForCausalLM.from_pretrained(str(into), dtype=torch.float32, local_files_only=True)
    plain = layers.empty_model(plan.base.path)
    found = _sizes(layers.linear_layers(model))
    if found != _sizes(layers.linear_layers(plain)):
        raise ConfigError(
            f"variant '{plan.variant.name}': the layers of {file.name} are not those of the reference: it is another model"
        )
    sizes, kinds = _sizes(layers.multiplied(plain)), _kinds(reader, plain)
    linear = {name: size for name, size in sizes.items() if name in kinds}
    if not linear:
        raise EngineError(f"{file.name} holds none of the reference's {len(found)} layers in fewer bits, only what is looked up")
    beside = {name: kind for name, kind in kinds.items() if name not in sizes}
    quantized = [tensor for tensor in reader.tensors if tensor.tensor_type.name not in _FLOAT_TYPES]
    weights = sum(int(tensor.n_elements) for tensor in quantized)
    unpacked = _Unpacked(
        model=model,
        linear=linear,
        format="gguf-simulated",
        note=f"GGUF checkpoint as found: {gguf_note(file)}",
        library="gguf, as found",
        bits_per_weight=sum(int(tensor.n_bytes) for tensor in quantized) * 8 / weights,
        total_bytes=sum(int(tensor.n_bytes) for tensor in reader.tensors),
        notes=("bits per weight count every quantized tensor of the file, the embedding included", *_beside(beside)),
        counted_elsewhere=frozenset(beside) | (_heads(plain) if beside and layers.tied(plain) else frozenset()),
    )
    return _artifact(plan, plain, into, unpacked)


def _kinds(reader: Any, plain: Any) -> dict[str, str]:
    """Type of the tensor that the file holds of each module, of those in fewer bits. A module that gguf does not know is not counted."""
    architecture = str(reader.fields["general.architecture"].contents())
    blocks = int(reader.fields[f"{architecture}.block_count"].contents())
    names = gguf.get_tensor_name_map({name: key for key, name in gguf.MODEL_ARCH_NAMES.items()}[architecture], blocks)
    kinds = {tensor.name: tensor.tensor_type.name for tensor in reader.tensors}
    found = {module: kinds.get(f"{names.get_name(module)}.weight", "F32") for module, _ in plain.named_modules() if module}
    return {module: kind for module, kind in found.items() if kind not in _FLOAT_TYPES}


def _beside(kinds: Mapping[str, str]) -> tuple[str, ...]:
    """What is quantized in the file and is looked up, not multiplied."""
    named = ", ".join(f"{name} ({kind})" for name, kind in kinds.items())
    return (f"quantized in the file too, and not counted in the share: {named}",) if kinds else ()


def _heads(plain: Any) -> frozenset[str]:
    return frozenset(name for name, module in plain.named_modules() if module is plain.get_output_embeddings())


def _sizes(found: Iterable[tuple[str, Any]]) -> dict[str, int]:
    return {name: layers.rows(module).numel() for name, module in found}


# ---------------------------------------------------------------------------------------------- compressed-tensors


def of_compressed_tensors(plan: QuantizePlan, folder: Path, into: Path, note: str) -> Artifact:
    """Raises ``NothingQuantized``, ``EngineError`` or ``NumericallyInvalid`` for files that do not hold what the config says."""
    assert plan.base is not None
    stored = proof.Stored(folder)
    plain = layers.empty_model(plan.base.path)
    sizes = _sizes(layers.multiplied(plain))
    packed = {name.removesuffix(_SCALE) for name in stored.names() if name.endswith(_SCALE)}
    if not packed:
        raise NothingQuantized("compressed-tensors", linear_modules=len(sizes))
    if unknown := sorted(packed - set(sizes)):
        raise ConfigError(
            f"variant '{plan.variant.name}': the checkpoint has {len(unknown)} quantized modules that the reference lacks, "
            f"first {unknown[0]}: it is another model"
        )
    if (why := layers.unlike(plain, layers.empty_model(str(folder)))) is not None:
        raise ConfigError(f"variant '{plan.variant.name}': {why}")
    linear = {name: sizes[name] for name in sorted(packed)}
    stored.check(_wanted(set(stored.names()), linear))
    model = _in_float(folder)
    _save(model, folder, into, sizes)
    unpacked = _Unpacked(
        model=model,
        linear=linear,
        format="compressed-tensors-simulated",
        note=note,
        library="compressed-tensors, as found",
        bits_per_weight=stored.bits_per_weight(linear),
        total_bytes=stored.total_bytes(),
    )
    return _artifact(plan, plain, into, unpacked)


def _wanted(stored: set[str], linear: Iterable[str]) -> list[str]:
    """The packed words, or the integers or small floats, of every quantized layer, and its scales."""
    marks = {name: _PACKED_WEIGHT if name + _PACKED_WEIGHT in stored else _WEIGHT for name in linear}
    return [name + suffix for name, mark in marks.items() for suffix in (mark, _SCALE)]


def _in_float(folder: Path) -> Any:
    """The model as the library unpacks it: scales in float32, so that each product is exact. Raises ``EngineError`` for tensors unread."""
    model, told = AutoModelForCausalLM.from_pretrained(
        str(folder), dtype=torch.float32, local_files_only=True, output_loading_info=True
    )
    if unread := sorted({*told["missing_keys"], *told["unexpected_keys"]}):
        raise EngineError(
            f"compressed-tensors does not read this checkpoint: {len(unread)} tensors are not where it looks for them, first {unread[0]}"
        )
    with torch.no_grad():  # unpacked in inference mode, the weights could not become parameters
        model(input_ids=proof.probe(1))
    return model


def _save(model: Any, folder: Path, into: Path, sizes: Mapping[str, int]) -> None:
    """A fresh model of the same architecture with the unpacked weights. Raises ``EngineError`` where one of them stayed packed."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    del config["quantization_config"]
    into.mkdir(parents=True, exist_ok=True)
    (into / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    fresh = layers.empty_model(str(into))
    state = {name: tensor for name, tensor in model.state_dict().items() if name in fresh.state_dict()}
    wrong = [name for name in sizes if not state.get(f"{name}.weight", torch.zeros(0, dtype=torch.int8)).is_floating_point()]
    if wrong:
        raise EngineError(f"compressed-tensors left {len(wrong)} layers packed, first {wrong[0]}")
    fresh.load_state_dict({name: tensor.float() for name, tensor in state.items()}, assign=True)
    fresh.tie_weights()
    fresh.generation_config = model.generation_config
    fresh.save_pretrained(into)
