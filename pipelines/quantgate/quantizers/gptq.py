"""GPTQ through GPTQModel: weights are rounded one column at a time, and what a column loses is made up for in those still to come.

What is lost is weighed by the inputs that calibration texts give each layer. The checkpoint is of the ``gptq`` format, which serving
engines and auto-gptq read: qweight, qzeros, scales (float16), g_idx. Embeddings and the head stay in float.

On a CPU everything runs in float32: the library would load bfloat16, which such a machine multiplies some hundred times slower.
"""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GPTQConfig

from quantgate import calibration as texts
from quantgate.errors import ConfigError, EngineError, NothingQuantized
from quantgate.ports import Progress, QuantizePlan
from quantgate.quantizers import gptq_library, layers, proof
from quantgate.quantizers.folder import copy_tokenizer, write_manifest
from quantgate.quantizers.settings import PACK_WORD, GptqSettings, gptq as gptq_settings, kernel_refusal
from quantgate.records import Artifact, Calibration, Proof

ROW_TOKENS = 512
"""Texts are joined and cut into rows of this length: no padding, and few passes through each layer."""
SHORTEST_ROW_TOKENS = 11
"""The library leaves shorter rows out without a word."""
BATCH_ROWS = 4
STORED = (".qweight", ".scales")
FEW_TOKENS_SHARE = 0.005
"""A layer that saw a smaller share of the calibration tokens is rounded to nearest by the library instead."""
_LOG = "quant_log.csv"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Made:
    """What came of the library: the packed model, and how many tokens each of its layers saw."""

    packer: Any
    seen: dict[str, int]


class GptqQuantizer:
    """Calibrates, rounds and packs every linear layer that the library knows of the architecture."""

    def why_not(self, plan: QuantizePlan) -> str | None:
        """Raises ``ConfigError`` for settings that there are not, and for a calibration set that is missing or too short."""
        settings = gptq_settings(plan.variant)
        if plan.base is None:
            return "gptq quantizes the reference, which has not been prepared"
        if plan.variant.calibration is None:
            raise ConfigError(f"variant '{plan.variant.name}': gptq needs 'calibration' in the config: the texts that it learns from")
        if (reason := gptq_library.missing() or kernel_refusal(settings, plan.device.kind)) is not None:
            return reason
        if (reason := _shape_refusal(layers.empty_model(plan.base.path), settings)) is None and _is_read(plan):
            calibration_rows(plan.variant.calibration, plan.base.path)
        return reason

    def quantize(self, plan: QuantizePlan, into: Path, progress: Progress) -> Artifact:
        """Raises ``ConfigError`` for a calibration set that is too short, ``NothingQuantized`` where no layer was recognised."""
        settings, chosen = gptq_settings(plan.variant), plan.variant.calibration
        if plan.base is None or chosen is None:
            raise ConfigError("gptq needs a prepared reference and a calibration set")
        rows = calibration_rows(chosen, plan.base.path)
        gptq_library.no_compiling()
        with gptq_library.quiet():
            made = _quantized(plan, settings, rows, into, progress)
        _restore(Path(plan.base.path), into)
        copy_tokenizer(Path(plan.base.path), into)
        packed = sorted(name.removesuffix(".qweight") for name in proof.Stored(into).names() if name.endswith(".qweight"))
        if not packed:
            known = list(layers.linear_layers(layers.empty_model(plan.base.path)))
            raise NothingQuantized(f"gptq {settings.bits}-bit", linear_modules=len(known))
        write_manifest(into, scheme=plan.variant.scheme, quantized_modules=packed)
        progress(0, 0, "reading back what was saved")
        with gptq_library.quiet():
            shown = _proof(plan, made, packed, into, sum(len(row) for row in rows))
        return Artifact(
            variant=plan.variant.name,
            path=str(into),
            format="gptq",
            stored_bytes=0,
            sha256="",
            note=_note(settings, chosen),
            kernel=settings.kernel,
            proof=shown,
        )


def _is_read(plan: QuantizePlan) -> bool:
    """Texts and tokenizer are there, so that tokens can be counted: neither is when a packed model or a dataset is only planned with."""
    assert plan.base is not None and plan.variant.calibration is not None
    return plan.variant.calibration.path is not None and (Path(plan.base.path) / "tokenizer_config.json").exists()


def _shape_refusal(model: Any, settings: GptqSettings) -> str | None:
    """Layers that the group size or the packing into 32-bit words does not divide, all by name."""
    linear = list(layers.linear_layers(model))
    if settings.group > 0 and (failing := layers.undivided_columns(linear, settings.group)):
        return (
            f"gptq: group size {settings.group} does not divide the columns of {len(failing)} layers: {layers.listed(failing)}; "
            "choose a smaller group or granularity channel"
        )
    packing = layers.undivided_rows(linear, PACK_WORD) + layers.undivided_columns(linear, PACK_WORD)
    if packing:
        return f"gptq: packing by {PACK_WORD} does not divide {len(packing)} layers: {layers.listed(packing)}; choose another quantizer"
    return None


# ---------------------------------------------------------------------------------------------- calibration


def calibration_rows(chosen: Calibration, base: str) -> list[list[int]]:
    """The texts as rows of ids, exactly as many tokens as asked for. Raises ``ConfigError`` where the set holds fewer, or for too few."""
    if chosen.tokens < SHORTEST_ROW_TOKENS:
        raise ConfigError(f"calibration set {chosen.name}: tokens is {chosen.tokens}; GPTQ learns from {SHORTEST_ROW_TOKENS} at least")
    tokenizer = AutoTokenizer.from_pretrained(base, local_files_only=True)
    ids: list[int] = []
    for one in _taken(chosen):
        ids += _encoded(tokenizer, one)
        if len(ids) >= chosen.tokens:
            break
    if len(ids) < chosen.tokens:
        raise ConfigError(
            f"calibration set {chosen.name} holds {len(ids)} tokens of this model, and {chosen.tokens} are asked for; "
            f"add texts or write tokens: {len(ids)}"
        )
    ids = ids[: chosen.tokens]
    length = _row_tokens(base)
    rows = [ids[start : start + length] for start in range(0, len(ids), length)]
    if len(rows[-1]) < SHORTEST_ROW_TOKENS:
        whole = rows[-2] + rows[-1]
        rows[-2:] = [whole[: len(whole) // 2], whole[len(whole) // 2 :]]
    return rows


def _row_tokens(base: str) -> int:
    """What one row holds: the library cuts off what lies beyond the model's own context."""
    context = getattr(AutoConfig.from_pretrained(base, local_files_only=True).get_text_config(), "max_position_embeddings", None)
    return min(ROW_TOKENS, context) if isinstance(context, int) and context > 2 * SHORTEST_ROW_TOKENS else ROW_TOKENS


def _taken(chosen: Calibration) -> Iterator[texts.Sample]:
    if chosen.path is None:
        raise ConfigError(f"calibration set {chosen.name} has not been read")
    yield from texts.ordered(texts.read(Path(chosen.path)), chosen.seed)


def _encoded(tokenizer: Any, one: texts.Sample) -> list[int]:
    """Turns are joined by the model's own template where it has one."""
    if one.messages and tokenizer.chat_template:
        turns = [{"role": role, "content": content} for role, content in one.messages]
        try:
            text, special = tokenizer.apply_chat_template(turns, tokenize=False), False
        except Exception as error:  # a template may refuse what it likes, for example two turns of one role
            roles = ", ".join(role for role, _ in one.messages)
            what = f"the model's chat template refuses a calibration text with the turns {roles}, which begins '{one.plain[:40]}'"
            raise ConfigError(f"{what}: {error}; change or leave out such texts") from error
    else:
        text, special = one.plain, True
    return list(tokenizer(text, add_special_tokens=special)["input_ids"])


# ---------------------------------------------------------------------------------------------- the library


def _quantized(plan: QuantizePlan, settings: GptqSettings, rows: list[list[int]], into: Path, progress: Progress) -> _Made:
    from gptqmodel import BACKEND, GPTQModel, QuantizeConfig

    assert plan.base is not None
    base, into, on_cuda = Path(plan.base.path).absolute(), into.absolute(), plan.device.kind == "cuda"
    asked = QuantizeConfig(
        bits=settings.bits,
        group_size=settings.group,
        desc_act=settings.desc_act,
        sym=settings.symmetric,
        damp_percent=settings.damp,
        # Orders groups by how much their inputs matter without an index that kernels must follow; needs groups.
        act_group_aware=settings.group > 0 and not settings.desc_act,
        device=f"cuda:{plan.device.index}" if on_cuda else "cpu",
        offload_to_disk=False,  # what is on the disk cannot be compared with what is read back
    )
    progress(0, 0, "loading the reference")
    with TemporaryDirectory() as scratch, chdir(scratch):  # the library leaves a folder of logs where it stands
        packer = GPTQModel.load(str(base), asked, dtype=layers.float_type(plan.device))
        packer.layer_callback = _Layers(progress, packer.model.config.get_text_config().num_hidden_layers)
        samples = [{"input_ids": row, "attention_mask": [1] * len(row)} for row in rows]
        packer.quantize(samples, batch_size=BATCH_ROWS, backend=BACKEND.GPTQ_TORCH, calibration_data_min_length=1)
        packer.save(str(into))
    return _Made(packer=packer, seen=_seen(into))


@dataclass(frozen=True, slots=True)
class _Layers:
    """Told of every layer that is done."""

    progress: Progress
    total: int

    def layer_complete(self, layer_idx: int, submodule_finalized: bool) -> None:
        if not submodule_finalized:
            self.progress(layer_idx + 1, self.total, "calibrating and rounding layers")


def _seen(into: Path) -> dict[str, int]:
    """Tokens that each layer saw, from the log that the library leaves; the log, which holds times, is no part of the artifact."""
    path = into / _LOG
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as stream:
        found = {f"{row['layer']}.{row['module']}": row.get("samples", "") for row in csv.DictReader(stream)}
    path.unlink()
    return {name: int(float(value)) for name, value in found.items() if value.replace(".", "", 1).isdigit()}


def _restore(base: Path, into: Path) -> None:
    """Config and generation settings as they were, with what quantization adds: the library changes others as it sees fit."""
    saved = json.loads((into / "config.json").read_text(encoding="utf-8"))
    if "quantization_config" not in saved:
        raise EngineError("GPTQModel left no quantization_config in config.json: the checkpoint would load as float")
    config = json.loads((base / "config.json").read_text(encoding="utf-8"))
    config["quantization_config"] = saved["quantization_config"]
    (into / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    (into / "generation_config.json").unlink(missing_ok=True)
    if (base / "generation_config.json").exists():
        shutil.copyfile(base / "generation_config.json", into / "generation_config.json")


# ---------------------------------------------------------------------------------------------- proof


def _proof(plan: QuantizePlan, made: _Made, packed: list[str], into: Path, tokens: int) -> Proof:
    assert plan.base is not None
    stored = proof.Stored(into)
    checked = stored.check(name + suffix for name in packed for suffix in STORED)
    plain = layers.empty_model(plan.base.path)
    sizes = {name: layers.rows(module).numel() for name, module in layers.linear_layers(plain)}
    weights = {name: sizes.get(name, 0) for name in packed}
    before, tied_before = _logits_in_memory(made.packer.model, plan), layers.tied(plain)
    del made.packer.model
    again = _read_back(plan, into, packed)
    chosen = plan.variant.calibration
    return Proof(
        library=proof.library("gptqmodel"),
        modules_replaced=len(packed),
        modules_left=layers.left(plain, packed),
        quantized_parameters=sum(weights.values()),
        logical_parameters=layers.logical_parameters(plain),
        stored_bits_per_weight=stored.bits_per_weight(weights),
        tensors_checked=checked,
        tied_before=tied_before,
        tied_after=layers.tied(again),
        reload_difference=proof.difference(before, proof.logits(again)),
        calibration_tokens=tokens,
        calibration_sha256=None if chosen is None else chosen.sha256 or None,
        notes=_starved(made.seen, tokens),
    )


def _read_back(plan: QuantizePlan, into: Path, packed: list[str]) -> Any:
    """The model as transformers reads it. Raises ``EngineError`` for an architecture whose packed layers it does not find or fails on."""
    on_cuda = plan.device.kind == "cuda"
    gptq_library.split_experts(into)
    try:
        again = AutoModelForCausalLM.from_pretrained(
            str(into),
            dtype=layers.float_type(plan.device),
            quantization_config=GPTQConfig(bits=gptq_settings(plan.variant).bits, backend="gptq_torch"),
            device_map={"": plan.device.index} if on_cuda else None,
            local_files_only=True,
        )
    except Exception as error:  # whatever a library raises on an architecture that it was not tried with
        raise EngineError(f"transformers fails on the GPTQ checkpoint of this architecture: {type(error).__name__}: {error}") from error
    found = {name for name, module in again.named_modules() if gptq_library.is_packed(module)}
    if found != set(packed):
        raise EngineError(
            f"GPTQModel packed {len(packed)} layers of this architecture, and transformers finds {len(found)} of them when it reads the "
            "checkpoint: it would run with random weights; choose another quantizer"
        )
    return again


def _logits_in_memory(model: Any, plan: QuantizePlan) -> torch.Tensor:
    """Logits of the packed layers as they are after saving: their zero points stand as in the file, one too low for computing."""
    from gptqmodel.utils.model import convert_gptq_v1_to_v2_format_module

    for module in model.modules():
        if gptq_library.is_packed(module) and module.qzero_format() == 1:
            convert_gptq_v1_to_v2_format_module(module, bits=module.bits, pack_dtype=module.pack_dtype)
    if plan.device.kind == "cuda":  # the library leaves layers where they were packed, some of them on the CPU
        model.to(f"cuda:{plan.device.index}")
    return proof.logits(model)


def _starved(seen: dict[str, int], tokens: int) -> tuple[str, ...]:
    """Layers that hardly any calibration token reached: experts that the router passes by."""
    few = sorted(name for name, count in seen.items() if count < tokens * FEW_TOKENS_SHARE)
    experts = [count for name, count in seen.items() if "expert" in name]
    notes = []
    if experts:
        notes.append(f"calibration tokens an expert saw: {min(experts)} at least, {median(experts):g} in the middle, of {tokens}")
    if few:
        notes.append(f"{len(few)} layers saw under {FEW_TOKENS_SHARE:.1%} of the tokens and were rounded to nearest: {layers.listed(few)}")
    return tuple(notes)


def _note(settings: GptqSettings, chosen: Calibration) -> str:
    where = "channel" if settings.group < 0 else f"group of {settings.group}"
    kind = "symmetric" if settings.symmetric else "asymmetric"
    order = ", columns by activation" if settings.desc_act else ""
    return f"GPTQ, {settings.bits} bits, {kind}, one scale a {where}{order}; {chosen.tokens} calibration tokens of {chosen.name}"
