"""Prepares the unquantized model that every variant is compared with. Sources: a folder, a GGUF file, an installed package, the hub.

A GGUF is unpacked to float32 and saved as safetensors; the note then names the block types the weights come from, because such a reference
lies on a quantization grid already and some variants reproduce it without loss. A folder that is itself quantized is refused.
"""

from __future__ import annotations

import json
from collections import Counter
from fnmatch import fnmatch
from importlib import metadata
from pathlib import Path

import gguf
import huggingface_hub
import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
from transformers.utils import logging as transformers_logging

from quantgate.errors import ConfigError, MissingModel
from quantgate.ports import Progress, QuantizePlan
from quantgate.quantizers import layers
from quantgate.quantizers.settings import reference as reference_settings
from quantgate.records import Artifact, ModelSource

_WEIGHT_PATTERNS = ("*.safetensors", "pytorch_model*.bin")
_HUB_PATTERNS = ["*.json", "*.safetensors", "*.txt", "*.model", "*.jinja", "*.tiktoken"]
_FLOAT_TYPES = frozenset({"F32", "F16", "BF16", "F64"})


class ReferenceQuantizer:
    """Quantizes nothing: finds the model, checks that it is a float model, unpacks a GGUF."""

    def why_not(self, plan: QuantizePlan) -> str | None:
        """Raises ``ConfigError`` for a width, granularity or options, which the unquantized model does not have."""
        reference_settings(plan.variant)
        given = [name for name in ("path", "hub", "package") if getattr(plan.model, name)]
        if len(given) != 1:
            return f"model '{plan.model.name}' must give exactly one of path, hub and package; given: {', '.join(given) or 'none'}"
        if plan.model.hub and not plan.model.revision:
            return f"hub model '{plan.model.hub}' has no revision: pin the commit, so that a later run measures the same model"
        return None

    def quantize(self, plan: QuantizePlan, into: Path, progress: Progress) -> Artifact:
        """Raises ``MissingModel`` with the places looked at, ``ConfigError`` for a model that is quantized already."""
        if (reason := self.why_not(plan)) is not None:
            raise ConfigError(reason)
        found = locate(plan.model)
        if found.is_dir():
            _check_float_folder(found)
            _check_whole(found)
            return _artifact(plan, found, note="")
        progress(0, 3, f"unpacking {found.name}")
        unpack_gguf(found, into, progress)
        return _artifact(plan, into, note=gguf_note(found))


def _artifact(plan: QuantizePlan, folder: Path, *, note: str) -> Artifact:
    return Artifact(
        variant=plan.variant.name, path=str(folder), format="safetensors", stored_bytes=0, sha256="", note=note
    )


# ---------------------------------------------------------------------------------------------- where the model is


def locate(source: ModelSource) -> Path:
    """The model's folder or GGUF file. Raises ``MissingModel`` saying where it was looked for."""
    if source.package:
        return _in_package(source.package, source.gguf_file or "*.gguf")
    folder = _hub_snapshot(source) if source.hub else Path(source.path or "").expanduser()
    if not folder.exists():
        raise MissingModel(
            f"model '{source.name}': no file or folder at {folder.absolute()} (looked from {Path.cwd()})"
        )
    if folder.is_file():
        if folder.suffix != ".gguf":
            raise MissingModel(f"model '{source.name}': {folder} is neither a folder nor a .gguf file")
        return folder
    if source.gguf_file:
        files = sorted(path for path in folder.rglob("*") if fnmatch(path.name, source.gguf_file))
        return _only(files, f"{source.gguf_file} in {folder}")
    return folder


def _in_package(package: str, pattern: str) -> Path:
    try:
        listed = metadata.files(package)
    except metadata.PackageNotFoundError:
        raise MissingModel(
            f"the package '{package}' is not installed in {Path(metadata.__file__).parents[1]}'s Python: pip install {package}"
        ) from None
    files = [Path(str(file.locate())) for file in listed or () if fnmatch(file.name, pattern)]
    return _only([file for file in files if file.exists()], f"{pattern} in the installed package '{package}'")


def _only(files: list[Path], what: str) -> Path:
    if not files:
        raise MissingModel(f"found no {what}")
    if len(files) > 1:
        names = ", ".join(file.name for file in files)
        raise MissingModel(f"found {len(files)} files for {what}: {names}; set gguf_file to one of them")
    return files[0]


def _hub_snapshot(source: ModelSource) -> Path:
    patterns = [*_HUB_PATTERNS, source.gguf_file] if source.gguf_file else _HUB_PATTERNS
    try:
        folder = huggingface_hub.snapshot_download(source.hub, revision=source.revision, allow_patterns=patterns)
    except Exception as error:  # the hub client raises many kinds; all mean that the files are not here
        raise MissingModel(
            f"model '{source.name}': hub repository {source.hub} at {source.revision} is neither in the local cache nor could it be "
            f"fetched ({type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}); offline, give 'path' instead"
        ) from None
    return Path(folder)


def _check_float_folder(folder: Path) -> None:
    """Raise where the folder is no model, or a quantized one: a quantized reference makes every loss look small."""
    config_path = folder / "config.json"
    if not config_path.exists():
        raise MissingModel(f"{folder} has no config.json: give the folder that holds the model, or gguf_file")
    if not any(file for pattern in _WEIGHT_PATTERNS for file in folder.glob(pattern)):
        raise MissingModel(f"{folder} holds no weights: looked for {' and '.join(_WEIGHT_PATTERNS)}")
    try:
        config = json.loads(config_path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"not valid JSON: {error}", file=str(config_path)) from None
    if (found := config.get("quantization_config")) is not None:
        method = found.get("quant_method", "unknown") if isinstance(found, dict) else "unknown"
        raise ConfigError(
            f"the reference must not be quantized, but its config.json has quantization_config (quant_method {method}): "
            "give the float model it was made from",
            file=str(config_path),
        )


def _check_whole(folder: Path) -> None:
    """Raise where a file cannot be read or tensors are missing, from names and shapes alone: every variant is made from this model."""
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        _, told = AutoModelForCausalLM.from_pretrained(
            str(folder), device_map="meta", local_files_only=True, output_loading_info=True
        )
    except SafetensorError as error:
        raise MissingModel(f"a file of weights in {folder} cannot be read ({error}): fetch or save it again, whole") from None
    except Exception:  # an architecture or a library that is not known here: whoever loads the weights says it better
        return
    if (why := layers.made_up(told, folder)) is not None:
        raise MissingModel(why)


# ---------------------------------------------------------------------------------------------- GGUF


def gguf_note(file: Path) -> str:
    """Which block types the weights come from, the most weights first, read from the file's own tensor table."""
    elements: Counter[str] = Counter()
    tensors: Counter[str] = Counter()
    for tensor in gguf.GGUFReader(str(file)).tensors:
        kind = tensor.tensor_type.name
        elements[kind] += int(tensor.n_elements)
        tensors[kind] += 1
    total = sum(elements.values())
    parts = [f"{kind} ({tensors[kind]} tensors, {n / total:.1%} of the weights)" for kind, n in elements.most_common()]
    verb = "converted" if set(elements) <= _FLOAT_TYPES else "dequantized"
    return f"{verb} from {', '.join(parts)} of {file.name}"


def unpack_gguf(file: Path, into: Path, progress: Progress) -> None:
    """Write the file's model as float32 safetensors, with its tokenizer. Raises ``MissingModel`` where it lacks tensors of the model."""
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    # dequantize=True: where GGUF kernels are installed, transformers would otherwise keep the blocks packed.
    packed, told = AutoModelForCausalLM.from_pretrained(
        str(file.parent),
        gguf_file=file.name,
        dtype=torch.float32,
        quantization_config=GgufConfig(dequantize=True),
        output_loading_info=True,
    )
    if (why := layers.made_up(told, file)) is not None:
        raise MissingModel(why)
    progress(1, 3, "saving as safetensors")
    config = packed.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config  # the weights are plain float32 now, and the next loader must not unpack again
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    # A fresh model of the same architecture: the loaded one would save itself as GGUF-quantized.
    model.load_state_dict(packed.state_dict(), assign=True)
    model.tie_weights()
    model.generation_config = packed.generation_config
    model.save_pretrained(into)
    progress(2, 3, "saving the tokenizer")
    AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name).save_pretrained(into)
    progress(3, 3, "reference ready")
