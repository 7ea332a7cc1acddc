"""bitsandbytes: int8 with outlier columns kept in float (LLM.int8), and the 4-bit formats NF4 and FP4 in blocks of 64.

int8 keeps one float32 scale a row; its outlier columns are found over the whole batch, so its scores depend on the batch they run in
(``threshold: 0`` does not). The 4-bit formats keep one float32 absmax per 64 weights, 4.5 bits a weight; ``double_quant`` stores the
absmax in 8 bits, 4.127 bits a weight. Embeddings and the head stay in float.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import bitsandbytes
import torch
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from transformers.pytorch_utils import Conv1D
from transformers.utils import logging as transformers_logging

from quantgate.errors import ConfigError, EngineError, NothingQuantized
from quantgate.ports import Progress, QuantizePlan
from quantgate.quantizers import layers, proof
from quantgate.quantizers.folder import copy_tokenizer, write_manifest
from quantgate.quantizers.settings import BitsAndBytesSettings, bitsandbytes as bitsandbytes_settings
from quantgate.records import Artifact, Proof

_STATE_SUFFIX = {8: ".SCB", 4: ".weight.absmax"}


class BitsAndBytesQuantizer:
    """Loads the reference through bitsandbytes and saves what came of it."""

    def why_not(self, plan: QuantizePlan) -> str | None:
        """Raises ``ConfigError`` for bits, granularity or options that the library does not have."""
        if plan.base is None:
            return "bitsandbytes quantizes the reference, which has not been prepared"
        bitsandbytes_settings(plan.variant)  # a misspelt option is the caller's mistake and ends the run
        return None

    def quantize(self, plan: QuantizePlan, into: Path, progress: Progress) -> Artifact:
        """Raises ``ConfigError`` for options that are not known, ``NothingQuantized`` where no layer was recognised."""
        settings = bitsandbytes_settings(plan.variant)
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
        _check_config(into)
        shown = _proof(plan, settings, model, into)
        progress(3, 3, f"{len(replaced)} modules quantized")
        return Artifact(
            variant=plan.variant.name,
            path=str(into),
            format="bitsandbytes",
            stored_bytes=0,
            sha256="",
            note=_note(settings),
            proof=shown,
        )


def _proof(plan: QuantizePlan, settings: BitsAndBytesSettings, model: Any, into: Path) -> Proof:
    """What the files hold, and that they give the logits of the model in memory."""
    assert plan.base is not None
    replaced = _replaced(model)
    stored = proof.Stored(into)
    checked = stored.check(name + suffix for name in replaced for suffix in (".weight", _STATE_SUFFIX[settings.bits]))
    plain = layers.empty_model(plan.base.path)
    weights = {name: module.weight.numel() for name, module in layers.linear_layers(plain) if name in set(replaced)}
    before = proof.logits(model)
    again = _open(plan, str(into), None)
    return Proof(
        library=proof.library("bitsandbytes"),
        modules_replaced=len(replaced),
        modules_left=layers.left(plain, replaced),
        quantized_parameters=sum(weights.values()),
        logical_parameters=layers.logical_parameters(plain),
        stored_bits_per_weight=stored.bits_per_weight(weights),
        tensors_checked=checked,
        tied_before=layers.tied(plain),
        tied_after=layers.tied(again),
        reload_difference=proof.difference(before, proof.logits(again)),
    )


def quiet() -> None:
    """The int8 path warns at every call that it casts its input; a run would print thousands of lines."""
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()


def _load(plan: QuantizePlan, settings: BitsAndBytesSettings) -> Any:
    assert plan.base is not None
    on_cuda = plan.device.kind == "cuda"
    if settings.bits == 8:
        config = BitsAndBytesConfig(load_in_8bit=True, llm_int8_threshold=settings.threshold)
    else:
        compute = settings.compute if settings.compute != "auto" else "bfloat16" if on_cuda else "float32"
        config = BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type=settings.format,
            bnb_4bit_use_double_quant=settings.double_quant,
            bnb_4bit_compute_dtype=getattr(torch, compute),
        )
    return _open(plan, plan.base.path, config)


def _open(plan: QuantizePlan, path: str, config: BitsAndBytesConfig | None) -> Any:
    on_cuda = plan.device.kind == "cuda"
    return AutoModelForCausalLM.from_pretrained(
        path,
        **({} if config is None else {"quantization_config": config}),
        dtype=layers.float_type(plan.device),
        device_map={"": torch.cuda.current_device() if on_cuda else "cpu"},
        local_files_only=True,
    )


def _replaced(model: Any) -> list[str]:
    kinds = (bitsandbytes.nn.Linear8bitLt, bitsandbytes.nn.Linear4bit)
    return [name for name, module in model.named_modules() if isinstance(module, kinds)]


def _linear_modules(model: Any) -> int:
    return sum(isinstance(module, (torch.nn.Linear, Conv1D)) for module in model.modules())


def _check_config(into: Path) -> None:
    config = json.loads((into / "config.json").read_text(encoding="utf-8"))
    if "quantization_config" not in config:
        raise EngineError("bitsandbytes left no quantization_config in config.json: the checkpoint would load as float")


def _note(settings: BitsAndBytesSettings) -> str:
    if settings.bits == 8:
        return f"LLM.int8, outlier threshold {settings.threshold:g}"
    extras = [", double quantization"] * settings.double_quant + [f", computed in {settings.compute}"] * (settings.compute != "auto")
    return f"{settings.format}, blocks of 64{''.join(extras)}"
