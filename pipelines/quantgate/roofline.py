"""What a step of decoding must read and multiply at least, and how near a measured step came to it. Arithmetic; measures nothing.

A decode step reads every weight it uses once, whatever the batch, and the KV cache of every row; it multiplies each row by the same
weights. The least time for a step is the larger of bytes / bandwidth and operations / rate (the roofline model: Williams, Waterman and
Patterson, 2009). Both are floors: activations, temporary copies of dequantized weights and writes come on top and are what MBU lays open.

Counted: two operations for each weight that a token is multiplied by, and four for each query head, each element of its width and each
token that it attends to. Not counted, so that floors stay floors: norms, rotations, softmax, recurrences of state layers and attention
over a latent cache, whose operations an engine may arrange in two ways.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite
from typing import Literal

from quantgate.errors import ConfigError, OverRoof
from quantgate.kvcache import kv_bytes_per_row
from quantgate.parameters import Matrices
from quantgate.records import LayerShape, ModelShape, WeightsUsed
from quantgate.weightbytes import Packing, weight_bytes

TOLERANCE_CV = 3.0
"""How many coefficients of variation of its roof a figure may lie above it before it is a fault."""


# ---------------------------------------------------------------------------------------------- what a step does


def used_of_matrices(
    model: Iterable[Matrices], packing: Packing, shape: ModelShape, *, experts: tuple[int, int] | None = None
) -> WeightsUsed:
    """What a step uses of a model that is known from its config alone. ``experts``: how many a layer has, and how many a token takes.

    The table of the vocabulary is the head where they are tied and is read whole; an untied one, and learned positions, give a row to
    each row of the batch. Raises ``ConfigError`` for a model with experts without these numbers.
    """
    every = tuple(model)
    tables = [one for one in every if one.part == "embedding"]
    lookups = tables[1:] if shape.tied else tables
    heads = tables[:1] if shape.tied else [one for one in every if one.part == "head"]
    read, body = 0, 0
    for one in every:
        if any(one is table for table in lookups):
            continue
        share = _share(one, experts)
        read += int(weight_bytes([one], packing) * share)
        body += int(one.elements * share) if one.part in ("linear", "expert") else 0
    return WeightsUsed(
        read_bytes=read,
        row_bytes=sum(one.columns * packing.float_bytes for one in lookups),
        body_parameters=body,
        head_parameters=sum(one.elements for one in heads),
    )


def _share(one: Matrices, experts: tuple[int, int] | None) -> float:
    if one.part != "expert":
        return 1.0
    if experts is None or not 0 < experts[1] <= experts[0]:
        raise ConfigError(f"how many experts a layer has and how many a token takes must be given, the second at most the first: {experts}")
    return experts[1] / experts[0]


def step_bytes(used: WeightsUsed, shape: ModelShape, cache_element_bytes: int, *, batch: int, tokens: int) -> int:
    """Bytes that a step must read for ``batch`` rows which hold ``tokens`` tokens each, the new one included."""
    _positive(batch=batch, tokens=tokens)
    return used.read_bytes + batch * (used.row_bytes + kv_bytes_per_row(shape, tokens, cache_element_bytes))


def step_flops(used: WeightsUsed, shape: ModelShape, *, batch: int, tokens: int) -> int:
    """Operations of a step for ``batch`` rows which attend to ``tokens`` tokens each."""
    _positive(batch=batch, tokens=tokens)
    attention = sum(_attention_flops(layer, tokens) for layer in shape.layers)
    return batch * (2 * (used.body_parameters + used.head_parameters) + attention)


def prefill_flops(used: WeightsUsed, shape: ModelShape, *, batch: int, tokens: int) -> int:
    """Operations of reading ``batch`` prompts of ``tokens`` tokens: each token attends to those before it, the last one has logits."""
    _positive(batch=batch, tokens=tokens)
    attention = sum(_attention_flops(layer, length) for layer in shape.layers for length in range(1, tokens + 1))
    return batch * (2 * (used.body_parameters * tokens + used.head_parameters) + attention)


def _attention_flops(layer: LayerShape, tokens: int) -> int:
    """Of one new token: a product with each key and a sum over each value that it sees."""
    if layer.kind not in ("full", "window"):
        return 0
    seen = tokens if layer.window is None else min(layer.window, tokens)
    return 2 * layer.query_heads * (layer.key_width + layer.value_width) * seen


def decode_lengths(prompt_tokens: int, output_tokens: int) -> range:
    """How many tokens a row holds at each decode step: the first output token comes from the prompt's own pass and needs no step."""
    _positive(prompt_tokens=prompt_tokens, output_tokens=output_tokens)
    return range(prompt_tokens + 1, prompt_tokens + output_tokens)


def _positive(**given: int) -> None:
    for name, value in given.items():
        if value < 1:
            raise ConfigError(f"{name} must be at least 1, found {value}")


# ---------------------------------------------------------------------------------------------- roofs


@dataclass(frozen=True, kw_only=True, slots=True)
class Floor:
    """The least time for some work under two roofs."""

    memory_s: float
    compute_s: float

    @property
    def seconds(self) -> float:
        """The larger of the two: reading and multiplying may overlap wholly."""
        return max(self.memory_s, self.compute_s)

    @property
    def bound(self) -> Literal["memory", "compute"]:
        """Which roof is met first."""
        return "compute" if self.compute_s > self.memory_s else "memory"


def floor(*, work_bytes: float, flops: float, bytes_per_s: float, flops_per_s: float) -> Floor:
    """The least time. Raises ``ConfigError`` for roofs that are not positive and finite."""
    for name, roof in (("bytes_per_s", bytes_per_s), ("flops_per_s", flops_per_s)):
        if not (isfinite(roof) and roof > 0):
            raise ConfigError(f"a roof must be greater than 0 and finite: {name} is {roof!r}")
    return Floor(memory_s=work_bytes / bytes_per_s, compute_s=flops / flops_per_s)


def ridge(*, bytes_per_s: float, flops_per_s: float) -> float:
    """Operations a byte at which the two roofs meet: work with fewer is bound by memory."""
    return flops_per_s / bytes_per_s


def share_of_roof(floor_s: float, measured_s: float) -> float:
    """Floor over measured time: MBU for the memory's floor, MFU for the arithmetic's; 1 is the roof. Raises for a time that is none."""
    if not (isfinite(measured_s) and measured_s > 0):
        raise ConfigError(f"a measured time must be greater than 0 and finite, found {measured_s!r}")
    return floor_s / measured_s


def largest_share(cv: float) -> float:
    """The largest share of a roof that its own scatter explains: 1 + 3 CV."""
    return 1.0 + TOLERANCE_CV * cv


def most_tokens_per_s(used: WeightsUsed, shape: ModelShape, *, cache_element_bytes: int, tokens: int, bytes_per_s: float) -> float:
    """Tokens a second at batch 1 that the bandwidth allows at most."""
    return bytes_per_s / step_bytes(used, shape, cache_element_bytes, batch=1, tokens=tokens)


def refuse_over_roof(what: str, share: float, cv: float) -> None:
    """Raise ``OverRoof`` where ``what`` comes to a larger share of its roof than the roof's scatter explains."""
    if share > largest_share(cv):
        scatter = f"whose scatter explains {largest_share(cv):.2f} times at most"
        raise OverRoof(f"{what} is {share:.2f} times the measured roof, {scatter}: a measuring fault")
