"""A model that is quantized already: a folder that transformers loads, or a GGUF file. Nothing is quantized here; what it says is checked.

A folder is used where it is; its own config says how it was quantized. GGUF and compressed-tensors checkpoints are unpacked to float
(``unpacked``), because transformers computes with them in float.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from quantgate.errors import ConfigError, EngineError, MissingModel
from quantgate.files import digest_folder, file_digest
from quantgate.ports import Progress, QuantizePlan
from quantgate.quantizers import layers, proof, unpacked
from quantgate.quantizers.settings import (
    CheckpointSettings,
    GptqSettings,
    checkpoint as checkpoint_settings,
    kernel_refusal,
)
from quantgate.records import Artifact, Proof

_NEEDS = {
    "gptq": ("gptqmodel", "optimum"),
    "awq": ("gptqmodel",),
    "compressed-tensors": ("compressed_tensors",),
    "bitsandbytes": ("bitsandbytes",),
}
_PACKED = {"gptq": (".qweight", ".scales"), "awq": (".qweight", ".scales")}
"""What a quantized module leaves in the files; the first marks it."""
_STATES = {8: ".SCB", 4: ".weight.absmax"}
"""What bitsandbytes stores beside a weight of each width."""
_KIND = ".weight.quant_state.bitsandbytes__"
"""Before the format, in the name of a tensor that bitsandbytes stores beside each 4-bit weight."""
_LAYOUTS = {
    "gptq": {"gptq": ("cpu", "cuda"), "gptq_v2": ("cpu", "cuda"), "marlin": ("cuda",)},
    "awq": {"gemm": ("cpu", "cuda"), "gemv": ("cuda",), "gemv_fast": ("cuda",), "llm-awq": ("cuda",)},
}
"""Ways in which a method's words are laid out, and the kinds of device that have a kernel for it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Said:
    """What the checkpoint's own config says."""

    method: str
    bits: int | None
    group: int | None
    symmetric: bool
    text: str
    layout: str | None = None
    """How the words lie, for the methods that have several ways."""
    why_not: str | None = None
    """What of it is not kept when it is unpacked to float."""


class CheckpointQuantizer:
    """Takes a ready checkpoint as a variant."""

    def why_not(self, plan: QuantizePlan) -> str | None:
        """Raises ``MissingModel`` or ``ConfigError`` for a checkpoint that is not there, is another one, or is not quantized."""
        settings = checkpoint_settings(plan.variant)
        if plan.base is None:
            return "a ready checkpoint is compared with the reference, which has not been prepared"
        path = Path(settings.path)
        if path.is_file():
            if path.suffix != ".gguf":
                return f"{path} is neither a folder nor a .gguf file"
            _check_kernel(settings, "GGUF")
            unpacked.check_gguf(plan, path)
            return None
        said = _read(path)
        _check_claim(said, plan)
        return _library_refusal(said) or _device_refusal(said, settings, plan.device.kind)

    def quantize(self, plan: QuantizePlan, into: Path, progress: Progress) -> Artifact:
        """Raises ``EngineError`` or ``NumericallyInvalid`` where a quantized tensor is missing, all zero or not finite."""
        settings = checkpoint_settings(plan.variant)
        if plan.base is None:
            raise ConfigError("a ready checkpoint is compared with the reference, which has not been prepared")
        path = Path(settings.path)
        _check_digest(path, settings.sha256)
        progress(0, 0, "checking the checkpoint")
        if path.is_file():
            return unpacked.of_gguf(plan, path, into, progress)
        said = _read(path)
        if said.method == "compressed-tensors":
            return unpacked.of_compressed_tensors(plan, path, into, _note(said))
        return _of_folder(plan, path, said, settings.kernel)


def _library_refusal(said: _Said) -> str | None:
    absent = [name for name in _NEEDS[said.method] if find_spec(name) is None]
    if not absent:
        return None
    install = " ".join(name.replace("_", "-") for name in absent)
    return f"a {said.method} checkpoint needs {' and '.join(absent)}, which is not installed: pip install {install}"


def _device_refusal(said: _Said, settings: CheckpointSettings, device: str) -> str | None:
    """Why nothing here multiplies by such weights, in one sentence."""
    if said.why_not is not None:
        return said.why_not
    _check_kernel(settings, said.method)
    if (reason := _layout_refusal(said, device)) is not None or said.method != "gptq" or said.bits is None:
        return reason
    damp = 0.05  # of no account for weights that are there already
    wanted = GptqSettings(
        bits=said.bits, group=said.group or -1, desc_act=False, symmetric=said.symmetric, damp=damp, kernel=settings.kernel
    )
    return kernel_refusal(wanted, device)


def _check_kernel(settings: CheckpointSettings, method: str) -> None:
    if settings.kernel != "auto" and method != "gptq":
        raise ConfigError(f"checkpoint: option 'kernel' chooses among kernels of GPTQ checkpoints, and this one is {method}")


def _layout_refusal(said: _Said, device: str) -> str | None:
    if said.layout is None:
        return None
    known, named = _LAYOUTS[said.method], f"{said.method} weights in the layout {said.layout}"
    if said.layout not in known:
        return f"{named} are not known; known are {', '.join(known)}"
    if device not in known[said.layout]:
        return f"{named} run on {' and '.join(known[said.layout])}, and this run is on {device}"
    return None


def _check_digest(path: Path, wanted: str | None) -> None:
    if wanted is None:
        return
    files = [path] if path.is_file() else sorted(path.glob("*.safetensors"))
    if wanted in (found := [file_digest(files[0])] if len(files) == 1 else []):
        return
    if path.is_dir() and wanted == (whole := digest_folder(path)[0]):
        return
    found += [f"{whole} (the whole folder, as reports name it)"] if path.is_dir() else []
    raise ConfigError(f"checkpoint: {path} does not have the sha256 {wanted}; found {' and '.join(found)}")


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
    except (OSError, ValueError) as error:
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
    if method == "compressed-tensors":
        return _compressed(said)
    bits, text, layout = said.get("bits"), "", None
    symmetric = bool(said.get("sym", not said.get("zero_point", False)))
    if method == "bitsandbytes":
        bits = 8 if said.get("load_in_8bit") else 4
        text = "int8" if bits == 8 else str(said.get("bnb_4bit_quant_type", "fp4"))
    if method == "gptq":
        layout = str(said.get("checkpoint_format") or said.get("format") or "gptq")
    if method == "awq":
        layout, symmetric = str(said.get("version") or said.get("format") or "gemm").lower(), not said.get("zero_point", True)
    return _Said(
        method=method, bits=_whole(bits), group=_whole(said.get("group_size")), symmetric=symmetric,
        text=text or ("symmetric" if symmetric else "asymmetric"), layout=layout,
    )  # fmt: skip


def _compressed(said: dict[str, Any]) -> _Said:
    """A config of compressed-tensors: groups of layers, each with a scheme for its weights and maybe for its inputs."""
    groups = [one for one in (said.get("config_groups") or {}).values() if isinstance(one, dict)]
    schemes = [one.get("weights") or {} for one in groups]
    first = schemes[0] if schemes else {}
    widths = sorted({str(one.get("num_bits")) for one in schemes})
    symmetric = bool(first.get("symmetric", True))
    kind = f"{first.get('type', 'int')}, {'symmetric' if symmetric else 'asymmetric'}, {said.get('format', 'unknown')}"
    lost = ["activations"] * any(one.get("input_activations") or one.get("output_activations") for one in groups)
    lost += ["cache"] * bool(said.get("kv_cache_scheme"))
    why_not = f"the checkpoint quantizes its {' and its '.join(lost)} too, and here its weights alone would be measured" if lost else None
    return _Said(
        method="compressed-tensors", bits=_whole(first.get("num_bits")), group=_whole(first.get("group_size")), symmetric=symmetric,
        text=kind if len(widths) < 2 else f"{kind}, other layers of {' and '.join(widths)} bits", why_not=why_not,
    )  # fmt: skip


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


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
    mark, *others = _marks(said)
    _check_format(stored, said, folder)
    plain, own = layers.empty_model(plan.base.path), layers.empty_model(str(folder))
    linear = {name: layers.rows(module).numel() for name, module in layers.multiplied(plain)}
    replaced = sorted(name.removesuffix(mark) for name in stored.names() if name.endswith(mark))
    if not replaced:
        raise EngineError(f"checkpoint {folder}: its config says {said.method}, and none of its tensors ends in {mark}")
    _check_model(replaced, linear, plan)
    if (why := layers.unlike(plain, own)) is not None:
        raise ConfigError(f"variant '{plan.variant.name}': {why}")
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
        tied_after=layers.tied(own),
        reload_difference=None,
        why_no_reload="the model was not quantized here, so there is nothing in memory to compare with",
    )
    return Artifact(
        variant=plan.variant.name,
        path=str(folder),
        format=said.method,
        stored_bytes=0,
        sha256="",
        note=_note(said),
        kernel=kernel,
        proof=shown,
    )


def _note(said: _Said) -> str:
    group = "" if said.group is None else f", group size {said.group}"
    return f"{said.method} checkpoint as found: {said.bits} bits{group}, {said.text}"


def _marks(said: _Said) -> tuple[str, ...]:
    """What each quantized module leaves in the files; the first marks it."""
    if said.method == "bitsandbytes" and said.bits is not None:
        return (_STATES[said.bits], ".weight")
    return _PACKED[said.method]


def _check_format(stored: proof.Stored, said: _Said, folder: Path) -> None:
    """The 4-bit format that the config states is the one that the tensors were made in, which is the one that is loaded."""
    found = sorted({name.partition(_KIND)[2] for name in stored.names() if _KIND in name})
    if said.method == "bitsandbytes" and said.bits == 4 and found not in ([], [said.text]):
        raise ConfigError(f"checkpoint {folder}: its config says {said.text}, and its tensors are {' and '.join(found)}")


def _check_model(replaced: list[str], linear: dict[str, int], plan: QuantizePlan) -> None:
    unknown = [name for name in replaced if name not in linear]
    if unknown:
        raise ConfigError(
            f"variant '{plan.variant.name}': the checkpoint has {len(unknown)} quantized modules that the reference lacks, "
            f"first {unknown[0]}: it is another model"
        )
