"""bitsandbytes: int8 with outlier columns kept in float (LLM.int8), and the 4-bit formats NF4 and FP4 in blocks of 64.

int8 keeps one float32 scale a row; its outlier columns are found over the whole batch, so its scores depend on the batch they run in
(``threshold: 0`` does not). The 4-bit formats keep one float32 absmax per 64 weights, 4.5 bits a weight; ``double_quant`` stores the
absmax in 8 bits, 4.127 bits a weight. Embeddings and the head stay in float.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bitsandbytes
import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from transformers.pytorch_utils import Conv1D
from transformers.utils import logging as transformers_logging

from quantgate.errors import ConfigError, EngineError, NothingQuantized
from quantgate.ports import Progress, QuantizePlan
from quantgate.quantizers.folder import bool_option, check_options, copy_tokenizer, write_manifest
from quantgate.records import Artifact, Variant

_OPTIONS = {8: ("threshold",), 4: ("format", "double_quant")}
_FORMATS = ("nf4", "fp4")
_GRANULARITIES = {8: ("tensor", "channel"), 4: ("tensor", "group:64")}
"""What the library does, and ``tensor``, the record's default, which asks for nothing."""
_STATE_SUFFIX = {8: ".SCB", 4: ".weight.absmax"}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Settings:
    bits: int
    threshold: float = 6.0
    format: str = "nf4"
    double_quant: bool = False

    @property
    def label(self) -> str:
        return "int8" if self.bits == 8 else self.format


class BitsAndBytesQuantizer:
    """Loads the reference through bitsandbytes and saves what came of it."""

    def why_not(self, plan: QuantizePlan) -> str | None:
        """Raises ``ConfigError`` for bits, granularity or options that the library does not have."""
        if plan.base is None:
            return "bitsandbytes quantizes the reference, which has not been prepared"
        _settings(plan.variant)  # a misspelt option is the caller's mistake and ends the run
        return None

    def quantize(self, plan: QuantizePlan, into: Path, progress: Progress) -> Artifact:
        """Raises ``ConfigError`` for options that are not known, ``NothingQuantized`` where no layer was recognised."""
        settings = _settings(plan.variant)
        if plan.base is None:
            raise ConfigError("bitsandbytes quantizes the reference, which has not been prepared")
        quiet()
        progress(0, 3, f"quantizing to {settings.label}")
        model = _load(plan, settings)
        replaced = _replaced(model)
        if not replaced:
            raise NothingQuantized(f"bitsandbytes {settings.label}", linear_modules=_linear_modules(model))
        progress(1, 3, "saving")
        model.save_pretrained(into)
        copy_tokenizer(Path(plan.base.path), into)
        write_manifest(into, scheme=plan.variant.scheme, quantized_modules=replaced)
        progress(2, 3, "checking what was saved")
        _check_saved(into, replaced, settings)
        progress(3, 3, f"{len(replaced)} modules quantized")
        return Artifact(
            variant=plan.variant.name,
            path=str(into),
            format="bitsandbytes",
            stored_bytes=0,
            sha256="",
            note=_note(settings),
        )


def quiet() -> None:
    """The int8 path warns at every call that it casts its input; a run would print thousands of lines."""
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()


def _settings(variant: Variant) -> _Settings:
    bits = variant.weight_bits
    if bits not in _OPTIONS:
        raise ConfigError(f"bitsandbytes: weight_bits is {bits}; allowed are 8 and 4")
    options = check_options(f"bitsandbytes {bits}-bit", variant.options, _OPTIONS[bits])
    if variant.granularity not in _GRANULARITIES[bits]:
        does = "one scale a row (channel)" if bits == 8 else "groups of 64 (group:64)"
        raise ConfigError(
            f"bitsandbytes: granularity {variant.granularity} is not available at {bits} bits; it does {does}"
        )
    threshold = options.get("threshold", 6.0)
    if isinstance(threshold, bool) or not isinstance(threshold, (int, float)) or not 0 <= threshold < float("inf"):
        raise ConfigError(
            f"bitsandbytes: option 'threshold' is {threshold!r}; allowed is a number of at least 0 (0: no outlier columns)"
        )
    name = options.get("format", "nf4")
    if name not in _FORMATS:
        raise ConfigError(f"bitsandbytes: option 'format' is {name!r}; allowed are {', '.join(_FORMATS)}")
    double_quant = bool_option("bitsandbytes", options, "double_quant", False)
    return _Settings(bits=bits, threshold=float(threshold), format=str(name), double_quant=double_quant)


def _load(plan: QuantizePlan, settings: _Settings) -> Any:
    assert plan.base is not None
    on_cuda = plan.device.kind == "cuda"
    if settings.bits == 8:
        config = BitsAndBytesConfig(load_in_8bit=True, llm_int8_threshold=settings.threshold)
    else:
        config = BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type=settings.format,
            bnb_4bit_use_double_quant=settings.double_quant,
            bnb_4bit_compute_dtype=torch.bfloat16 if on_cuda else torch.float32,
        )
    return AutoModelForCausalLM.from_pretrained(
        plan.base.path,
        quantization_config=config,
        dtype="auto" if on_cuda else torch.float32,
        device_map={"": torch.cuda.current_device() if on_cuda else "cpu"},
        local_files_only=True,
    )


def _replaced(model: Any) -> list[str]:
    kinds = (bitsandbytes.nn.Linear8bitLt, bitsandbytes.nn.Linear4bit)
    return [name for name, module in model.named_modules() if isinstance(module, kinds)]


def _linear_modules(model: Any) -> int:
    return sum(isinstance(module, (torch.nn.Linear, Conv1D)) for module in model.modules())


def _check_saved(into: Path, replaced: list[str], settings: _Settings) -> None:
    """Every quantized weight and its scales must stand in the files, and none may be all zero: saving has lost both before."""
    shards: dict[str, str] = {}
    for file in sorted(into.glob("*.safetensors")):
        with safe_open(str(file), framework="pt") as opened:
            shards |= dict.fromkeys(opened.keys(), str(file))
    wanted = [name + suffix for name in replaced for suffix in (".weight", _STATE_SUFFIX[settings.bits])]
    if missing := [key for key in wanted if key not in shards]:
        raise EngineError(
            f"bitsandbytes saved {len(missing)} of {len(wanted)} quantized tensors not at all, first {missing[0]}"
        )
    for shard in sorted(set(shards.values())):
        with safe_open(shard, framework="pt") as opened:
            zero = [key for key in wanted if shards[key] == shard and not opened.get_tensor(key).any()]
        if zero:
            raise EngineError(f"bitsandbytes saved {len(zero)} tensors as all zeros, first {zero[0]}")
    config = json.loads((into / "config.json").read_text(encoding="utf-8"))
    if "quantization_config" not in config:
        raise EngineError("bitsandbytes left no quantization_config in config.json: the checkpoint would load as float")


def _note(settings: _Settings) -> str:
    if settings.bits == 8:
        return f"LLM.int8, outlier threshold {settings.threshold:g}"
    return f"{settings.format}, blocks of 64{', double quantization' if settings.double_quant else ''}"
