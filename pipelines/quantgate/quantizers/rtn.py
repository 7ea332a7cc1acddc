"""Round to nearest, the plainest quantizer: the known-bad control at 2 bits, a yardstick for better methods at 4 and 8.

``symmetric``: ``w' = s * clamp(round(w / s), -q, q)`` with ``q = 2^(bits-1) - 1`` and ``s = max|w| / q`` of the channel or group.
``symmetric: false``: ``w' = s * round((w - m) / s) + m`` with ``s = (max - min) / (2^bits - 1)`` and ``m = min``.
Scales and minima are rounded to float16 first, as they would be stored. The values stay in float32: the variant is simulated, scored but
never filled or timed, and what it would free is arithmetic.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging as transformers_logging

from quantgate.errors import ConfigError, NothingQuantized, NumericallyInvalid
from quantgate.ports import Progress, QuantizePlan
from quantgate.quantizers import layers, proof
from quantgate.quantizers.folder import copy_tokenizer, write_manifest
from quantgate.quantizers.settings import Scheme, rtn as rtn_settings
from quantgate.records import Artifact, Proof

SCALE_BYTES = 2  # float16


class RoundToNearestQuantizer:
    """Rounds every linear weight except the head; embeddings stay."""

    def why_not(self, plan: QuantizePlan) -> str | None:
        """Raises ``ConfigError`` for bits, granularity or options that rounding does not have."""
        if plan.base is None:
            return "rtn rounds the reference, which has not been prepared"
        scheme = rtn_settings(plan.variant)  # a misspelt option is the caller's mistake and ends the run
        try:
            _check_shapes(layers.empty_model(plan.base.path), scheme)
        except ConfigError as error:
            return str(error)
        return None

    def quantize(self, plan: QuantizePlan, into: Path, progress: Progress) -> Artifact:
        """Raises ``ConfigError`` naming every layer that the group size does not divide, ``NothingQuantized`` without a layer."""
        scheme = rtn_settings(plan.variant)
        if plan.base is None:
            raise ConfigError("rtn rounds the reference, which has not been prepared")
        transformers_logging.set_verbosity_error()
        transformers_logging.disable_progress_bar()
        model = AutoModelForCausalLM.from_pretrained(plan.base.path, dtype=torch.float32, local_files_only=True)
        _check_shapes(model, scheme)
        tied = layers.tied(model)
        rounded, packed_bytes = _round_model(model, scheme, progress)
        if not rounded:
            raise NothingQuantized(f"rtn {scheme.bits}-bit", linear_modules=0)
        model.save_pretrained(into)
        copy_tokenizer(Path(plan.base.path), into)
        write_manifest(into, scheme=plan.variant.scheme, quantized_modules=rounded)
        return Artifact(
            variant=plan.variant.name,
            path=str(into),
            format="rtn-simulated",
            stored_bytes=0,
            sha256="",
            note=_note(scheme),
            simulated=True,
            simulated_weight_bytes=packed_bytes + _untouched_bytes(model, rounded),
            proof=_proof(model, rounded, packed_bytes, into, tied=tied),
        )


def _proof(model: Any, rounded: list[str], packed_bytes: int, into: Path, *, tied: bool) -> Proof:
    """What the files hold, and that they give the logits of the model in memory."""
    weights = sum(layers.rows(module).numel() for name, module in layers.linear_layers(model) if name in set(rounded))
    again = AutoModelForCausalLM.from_pretrained(str(into), dtype=torch.float32, local_files_only=True)
    return Proof(
        library=proof.library("torch"),
        modules_replaced=len(rounded),
        modules_left=layers.left(model, rounded),
        quantized_parameters=weights,
        logical_parameters=layers.logical_parameters(model),
        stored_bits_per_weight=packed_bytes * 8 / weights,
        tensors_checked=proof.Stored(into).check(f"{name}.weight" for name in rounded),
        tied_before=tied,
        tied_after=layers.tied(again),
        reload_difference=proof.difference(proof.logits(model), proof.logits(again)),
        notes=("bits per weight are arithmetic: the files hold the rounded values in float32",),
    )


def _check_shapes(model: Any, scheme: Scheme) -> None:
    if scheme.group is None:
        return
    failing = layers.undivided_columns(layers.linear_layers(model), scheme.group)
    if failing:
        raise ConfigError(
            f"rtn: group size {scheme.group} does not divide the columns of {len(failing)} layers: {layers.listed(failing)}; "
            "choose a smaller group or granularity channel"
        )


def _round_model(model: Any, scheme: Scheme, progress: Progress) -> tuple[list[str], int]:
    """Round in place. Returns the names of the layers and the bytes their weights would take packed, scales included."""
    found = list(layers.linear_layers(model))
    packed_bytes = 0
    for done, (name, module) in enumerate(found):
        progress(done, len(found), "rounding")
        rows = layers.rows(module)
        rounded = round_rows(rows, scheme)
        if not torch.isfinite(rounded).all():
            raise NumericallyInvalid(
                f"rtn {scheme.bits}-bit made {name} non-finite: a weight is not finite or a scale exceeds float16"
            )
        rows.copy_(rounded)
        packed_bytes += _packed_bytes(rows.shape[0], rows.shape[1], scheme)
    return [name for name, _ in found], packed_bytes


def round_rows(rows: torch.Tensor, scheme: Scheme) -> torch.Tensor:
    """[out, in] float weights, rounded; same shape, float32."""
    size = scheme.group or rows.shape[1]
    groups = rows.float().reshape(rows.shape[0], -1, size)
    rounded = _symmetric(groups, scheme.bits) if scheme.symmetric else _asymmetric(groups, scheme.bits)
    return rounded.reshape(rows.shape)


def _symmetric(groups: torch.Tensor, bits: int) -> torch.Tensor:
    top = 2 ** (bits - 1) - 1
    scale = _stored_scale(groups.abs().amax(dim=-1, keepdim=True) / top)
    return (groups / scale).round().clamp(-top, top) * scale


def _asymmetric(groups: torch.Tensor, bits: int) -> torch.Tensor:
    top = 2**bits - 1
    low = groups.amin(dim=-1, keepdim=True)
    scale = _stored_scale((groups.amax(dim=-1, keepdim=True) - low) / top)
    low = low.half().float()
    return ((groups - low) / scale).round().clamp(0, top) * scale + low


def _stored_scale(scale: torch.Tensor) -> torch.Tensor:
    """The scale as float16 keeps it. A group without spread has scale 0 and rounds to itself under any scale: 1 avoids 0 / 0."""
    stored = scale.half().float()
    return torch.where(stored == 0, torch.ones_like(stored), stored)


def _packed_bytes(out_features: int, in_features: int, scheme: Scheme) -> int:
    groups = out_features * (in_features // (scheme.group or in_features))
    numbers_a_group = 1 if scheme.symmetric else 2
    return -(-out_features * in_features * scheme.bits // 8) + groups * numbers_a_group * SCALE_BYTES


def _untouched_bytes(model: Any, rounded: list[str]) -> int:
    """Bytes of everything that was not rounded, tied tensors once, buffers included."""
    gone = {f"{name}.weight" for name in rounded}
    kept = [tensor for name, tensor in model.named_parameters() if name not in gone]
    return sum(tensor.numel() * tensor.element_size() for tensor in [*kept, *model.buffers()])


def _note(scheme: Scheme) -> str:
    where = "channel" if scheme.group is None else f"group of {scheme.group}"
    kind = "symmetric" if scheme.symmetric else "asymmetric"
    return f"simulated: rounded to {scheme.bits} bits ({kind}, one scale a {where}), kept in float32"
