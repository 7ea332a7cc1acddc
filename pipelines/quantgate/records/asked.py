"""What a config asks for: the model, its variants, the lengths and times of a workload, the device and its price, the batch plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal, TypeAlias

Scalar: TypeAlias = str | int | float | bool | None
Role: TypeAlias = Literal["reference", "candidate", "identity", "known_bad"]
MAIN = "main"
"""Name of the run's own workload, at whose lengths the batch ceiling is confirmed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelSource:
    """Where the model comes from: exactly one of ``path`` (folder or GGUF file), ``hub`` or ``package`` is given."""

    name: str
    path: str | None = None
    hub: str | None = None
    revision: str | None = None
    """Commit of the hub repository; a hub source without one is refused."""
    package: str | None = None
    """Name of an installed Python distribution that carries the model file."""
    gguf_file: str | None = None
    """File name or glob pattern inside ``path``, ``hub`` or ``package``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """The texts that a quantizer sees: a file, or rows of a dataset at a stated revision; counted in tokens of the model's tokenizer."""

    name: str
    path: str | None = None
    """JSON lines with ``text`` or ``messages``, or plain text with empty lines between texts."""
    dataset: str | None = None
    config: str | None = None
    revision: str | None = None
    split: str = "train"
    column: str = "text"
    tokens: int = 8192
    seed: int = 0
    """Order in which texts are taken."""
    sha256: str = ""
    """Digest of the texts as they were read; empty until they were."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KVCache:
    """A cache of keys and values in fewer bits: groups of a head's vector with a scale and an offset each, in the model's float type.

    What a prompt leaves is stored so at once. Tokens written since stay in float until there are ``residual_tokens`` of them.
    """

    bits: int
    backend: str = "torch"
    residual_tokens: int = 128

    @property
    def scheme(self) -> str:
        """``kv4``."""
        return f"kv{self.bits}"


@dataclass(frozen=True, kw_only=True, slots=True)
class KVBytes:
    """The cache of one request as it was found in memory after load, beside what arithmetic says of it."""

    tokens: int
    """Tokens of the request that was read."""
    measured_bytes: int
    arithmetic_bytes: int
    """Blocks with their scales and offsets, and the last tokens in float."""
    float_bytes: int
    """The same tokens in a cache of the model's float type; arithmetic."""

    @property
    def ratio(self) -> float:
        """Measured over arithmetic: 1 where the layout is understood."""
        return self.measured_bytes / self.arithmetic_bytes

    @property
    def freed_share(self) -> float:
        """Share of the float cache's bytes that is not needed."""
        return 1 - self.measured_bytes / self.float_bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Variant:
    """One way of storing the model: ``quantizer + bits + granularity + options``, and of keeping its cache."""

    name: str
    quantizer: str
    role: Role = "candidate"
    weight_bits: int | None = None
    granularity: str = "tensor"
    """``tensor``, ``channel`` or ``group:<size>``."""
    options: Mapping[str, Scalar] | None = None
    interpreter: str | None = None
    """Path of another Python that builds and loads this variant; None: the one that runs quantgate."""
    calibration: Calibration | None = None
    """What its quantizer learns from; None where it needs nothing."""
    measure: Literal["all", "quality"] = "all"
    """``quality``: loaded and scored, neither filled nor timed."""
    kv_cache: KVCache | None = None
    """None: the cache is kept in the model's float type."""

    @property
    def scheme(self) -> str:
        """Short name of weight and activation widths, for example ``w4a16-g64``; ``float`` for unquantized weights.

        A cache in fewer bits is added: ``w4a16-g64-kv4``, ``float-kv8``.
        """
        cache = "" if self.kv_cache is None else f"-{self.kv_cache.scheme}"
        if self.weight_bits is None:
            return f"float{cache}"
        suffix = {"tensor": "", "channel": "-channel"}.get(self.granularity, f"-g{self.granularity.removeprefix('group:')}")
        return f"w{self.weight_bits}a16{suffix}{cache}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """Lengths and batch sizes of fills and timing. Fixed-length runs suppress the end-of-sequence token."""

    prompt_tokens: int = 64
    output_tokens: int = 64
    batch_sizes: tuple[int, ...] = (1, 8)
    max_batch: int = 64
    """Search cap of the ceiling; a ceiling that reaches it is ``>= cap``, not a maximum."""
    fill_repeats: int = 3
    fill_budget_s: float = 900.0
    """Wall clock of one variant's search for its ceiling; one that it ends is ``>= what held``, as at the cap."""
    warmups: int = 1
    quadruples: int = 1
    """Quadruples reference, variant, variant, reference at each of the batch sizes and at the ceilings; a policy may ask for more."""
    name: str = MAIN


@dataclass(frozen=True, kw_only=True, slots=True)
class TimingConfig:
    """How much is timed."""

    budget_s: float | None = 1200.0
    """For all timing of a run, shared evenly by the variants still to come; None: no limit."""
    most_quadruples: int = 32
    """Where a policy's check on speed stays open: up to so many."""
    sweep: bool = True
    """Time batch sizes 1, 2, 4, ... up to each one's ceiling besides those asked for."""
    processes: Literal["fresh", "kept"] = "fresh"
    """Whether every quadruple that a policy decides on is timed by processes of its own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceConfig:
    """The device asked for. ``memory_budget_bytes`` bounds weights, KV cache and activations; None: the device's own size."""

    kind: str = "cpu"
    threads: int | None = None
    memory_budget_bytes: int | None = None
    index: int = 0
    uuid: str | None = None
    """A GPU or MIG slice by its UUID, instead of ``index``."""
    dtype: str | None = None
    """Type of float weights, activations and cache. None: the checkpoint's own on a GPU, float32 on a CPU."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchPlan:
    """How golden items are put into batches: identical for the reference and every variant, part of each score's digest."""

    token_budget: int = 2048
    """Largest rows x padded length of one batch of generated answers; for choices, most tokens that its items cost one by one."""
    max_rows: int = 16
    order: Literal["length", "shared"] = "shared"
    """``length``: by descending prompt length. ``shared``: items with choices in the order of their prompts' ids, so that prompts with a
    common beginning meet, and generated answers by descending length. Ties by position in the golden set."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DivergenceConfig:
    """Over which texts divergence is taken; without a section it is taken after the prompts of the golden sets."""

    path: str
    fields: tuple[str, ...] = ("text",)
    """Fields of a JSONL line that make up its text, joined by a line end."""
    slice_field: str | None = None
    tokens_per_text: int = 512
    max_texts: int = 100
    reference: Literal["auto", "stored", "recomputed"] = "auto"
    """``auto``: stored where the disk has room within ``disk_limit_bytes``, else recomputed beside each variant."""
    disk_limit_bytes: int = 8_000_000_000

    @property
    def name(self) -> str:
        """What checks and reports call the texts: the file's name without its ending."""
        return PurePath(self.path).stem

    @property
    def most_tokens(self) -> int:
        """Positions at most."""
        return self.tokens_per_text * self.max_texts


@dataclass(frozen=True, kw_only=True, slots=True)
class Price:
    """What the device costs."""

    per_hour: float
    currency: str = "USD"


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """What somebody allows a million output tokens to cost: tracked in every report, never decided on."""

    owner: str
    max_cost_per_million_tokens: float
    """In the currency of the device's price."""
