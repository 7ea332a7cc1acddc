"""A built variant: its files, its proof, its shape, and what it is once loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from quantgate.records.asked import KVBytes, KVCache


@dataclass(frozen=True, kw_only=True, slots=True)
class ModuleLeft:
    """A module with a weight matrix that stayed in float, and why."""

    name: str
    parameters: int
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Proof:
    """What was checked of an artifact when it was made: what was quantized, and that the files hold it."""

    library: str
    """Name and version of what quantized, for example ``gptqmodel 7.6.0``."""
    modules_replaced: int
    modules_left: tuple[ModuleLeft, ...]
    quantized_parameters: int
    logical_parameters: int
    stored_bits_per_weight: float | None
    """Bits that a quantized weight takes in the files, scales and zero points included; arithmetic where simulated."""
    tensors_checked: int
    """Quantized tensors and scales found in the files, finite and not all zero."""
    tied_before: bool
    tied_after: bool
    reload_difference: float | None
    """Largest absolute difference of logits between the model in memory and the same model read back from its files."""
    why_no_reload: str | None = None
    calibration_tokens: int | None = None
    calibration_sha256: str | None = None
    notes: tuple[str, ...] = ()
    """What a reader must know, a sentence each."""

    @property
    def share_quantized(self) -> float:
        """Share of the logical parameters in the replaced modules, 0..1."""
        return self.quantized_parameters / self.logical_parameters if self.logical_parameters else 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Artifact:
    """A stored checkpoint. ``path`` is a folder that the engine loads; ``sha256`` covers every file of it."""

    variant: str
    path: str
    format: str
    """``safetensors``, ``bitsandbytes``, ``rtn-simulated`` and so on."""
    stored_bytes: int
    sha256: str
    note: str = ""
    """What a reader must know, for example that a reference is dequantized from Q4_1."""
    simulated: bool = False
    """Values are rounded but kept in float: scored, never filled or timed; freed memory is arithmetic."""
    simulated_weight_bytes: int | None = None
    """What the weights would take if packed, scales included; only where ``simulated``."""
    kernel: str = "auto"
    """What multiplies by its packed weights, by a name of quantgate's; ``auto``: the library's choice."""
    proof: Proof | None = None
    """None for an unquantized model, and for artifacts of earlier versions."""
    build_s: float | None = None
    """Seconds that building took when it was built, checks included; None for artifacts of earlier versions."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerShape:
    """What one layer keeps for a request.

    ``kind``: full, window (the last ``window`` tokens), latent (one vector a token: ``key_width`` compressed, ``value_width`` rotary),
    shared (reads another layer's), state (a constant a sequence) or none. An attention layer with ``state_elements`` keeps both.
    """

    kind: Literal["full", "window", "latent", "shared", "state", "none"]
    kv_heads: int = 0
    key_width: int = 0
    value_width: int = 0
    window: int | None = None
    state_elements: int = 0
    """Elements kept for a sequence, whatever its length."""
    recurrent_elements: int = 0
    """Of these, the elements of the recurrence; the others are the convolution's."""
    recurrent_bytes: int | None = None
    """Bytes of an element of the recurrence where the engine has a type of its own for it; None: that of the cache."""
    expanded_heads: int = 0
    """Heads that an engine stores which repeats the KV heads for its query heads; 0: it stores the KV heads."""
    query_heads: int = 0
    """Heads that attend; 0 where they are not known or the layer has no attention."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelShape:
    """The numbers of a model's config.json that decide its KV cache."""

    layers: tuple[LayerShape, ...]
    hidden: int
    vocabulary: int
    tied: bool
    context_tokens: int | None = None
    """Longest sequence the model was made for; None where its config does not say."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightsUsed:
    """What of a model's weights a decode step must read and multiply by. Of experts: those of one token, the least a step can do with."""

    read_bytes: int
    """Everything stored, quantizer state included, without tables of which only rows are taken. A tied head is read whole."""
    row_bytes: int
    """Bytes of such tables' rows that each row of the batch takes at a step."""
    body_parameters: int
    """Weights that every token is multiplied by, the head left out."""
    head_parameters: int
    """Weights of the head, which every row is multiplied by whose logits are wanted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Loaded:
    """A variant as loaded, before any request. ``weight_bytes`` counts distinct storages with quantizer state, tied ones once."""

    weight_bytes: int
    logical_parameters: int
    """Weights of the model, the same number in every variant: packed elements count as the weights they hold."""
    quantized_parameters: int
    modules_replaced: int
    modules_left: tuple[str, ...]
    """Names of linear-like modules that were not quantized."""
    kernels: Mapping[str, int]
    """Class name of each linear-like module and how many there are."""
    dtype: str
    kv_bytes_per_element: int
    weights_sha256: str
    """Digest of the weights dequantized to float32, in name order."""
    tied: bool
    load_s: float
    process_bytes: int | None = None
    """Resident bytes of the process after load and one forward; None where the device has no such figure."""
    file_backed_bytes: int | None = None
    score_layout: str = ""
    """How the engine lays continuations out for scoring; part of a score's conditions."""
    kv_cache: KVCache | None = None
    """How the cache is kept in fewer bits; None: as ``kv_bytes_per_element`` says."""
    kv_bytes: KVBytes | None = None
    """Only of a cache in fewer bits."""
    shape: ModelShape | None = None
    """As the engine keeps it; None in evidence of earlier versions."""
    used: WeightsUsed | None = None
    """What of the weights a decode step uses; None where the engine cannot tell."""

    @property
    def share_quantized(self) -> float:
        """Share of the logical parameters that are stored in fewer bits, 0..1."""
        return self.quantized_parameters / self.logical_parameters if self.logical_parameters else 0.0
