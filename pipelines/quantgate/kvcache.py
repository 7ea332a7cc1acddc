"""Bytes of a KV cache: by element type, by request, by engine. Plain arithmetic on a ``ModelShape``, which ``shapes`` reads.

Per token and layer: KV heads x (key width + value width) x bytes of one element. A window layer keeps min(window, length); a latent layer
one vector, not a pair; a state layer a constant a sequence. Quantized caches come in blocks that carry their scale: 34 bytes are a block
of 32 elements. The engine decides the layout, so a figure names the engine it models, and where engines differ the larger one decides
what fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import gcd
from typing import Literal, TypeAlias

from quantgate.errors import ConfigError
from quantgate.records import KVCache, LayerShape, ModelShape

EngineLayout: TypeAlias = Literal["architecture", "transformers", "vllm"]
LAYOUTS: tuple[EngineLayout, ...] = ("architecture", "transformers", "vllm")
VLLM_BLOCK_TOKENS = 16
FLOAT32_BYTES = 4
MOST_IN_GROUP, FEWEST_IN_GROUP = 64, 8
MOST_DEVICES = 1024
"""How far the numbers of devices are listed that would be even."""
_LATENT_TILE = 128


@dataclass(frozen=True, kw_only=True, slots=True)
class CacheType:
    """How elements of a cache are stored: ``block_bytes`` for each ``block_elements`` of a head's vector."""

    name: str
    block_bytes: int
    block_elements: int = 1

    def vector_bytes(self, width: int) -> int:
        """Bytes of a vector. Raises ``ConfigError`` where its blocks do not fill it."""
        if width % self.block_elements:
            raise ConfigError(
                f"a head width of {width} is no multiple of {self.block_elements}, the block of kv_cache_dtype {self.name}"
            )
        return width // self.block_elements * self.block_bytes


def _plain(size: int, *names: str) -> dict[str, CacheType]:
    return {name: CacheType(name=name, block_bytes=size) for name in names}


CACHE_TYPES: Mapping[str, CacheType] = {
    **_plain(4, "float32", "float", "fp32", "f32"),
    **_plain(2, "float16", "half", "fp16", "f16", "bfloat16", "bf16"),
    **_plain(1, "fp8", "fp8_e4m3", "fp8_e5m2", "float8_e4m3fn", "float8_e5m2", "int8"),
    "int4": CacheType(name="int4", block_bytes=1, block_elements=2),
    "q8_0": CacheType(name="q8_0", block_bytes=34, block_elements=32),
    "q5_1": CacheType(name="q5_1", block_bytes=24, block_elements=32),
    "q5_0": CacheType(name="q5_0", block_bytes=22, block_elements=32),
    "q4_1": CacheType(name="q4_1", block_bytes=20, block_elements=32),
    "q4_0": CacheType(name="q4_0", block_bytes=18, block_elements=32),
    "fp8_ds_mla": CacheType(name="fp8_ds_mla", block_bytes=1),
}
"""Known cache types. fp8, int8 and int4 stand without scales; ``fp8_ds_mla`` is the packed form of latent attention: fp8 with a float32
scale for each 128 elements, the rotary part in 16 bit."""


def cache_type(kv_cache_dtype: str) -> CacheType:
    """The cache type of a name. Raises ``ConfigError`` for one that is not known: a cache is never 0 bytes."""
    if kv_cache_dtype not in CACHE_TYPES:
        raise ConfigError(f"kv_cache_dtype '{kv_cache_dtype}' is not known; known are {', '.join(CACHE_TYPES)}")
    return CACHE_TYPES[kv_cache_dtype]


def bytes_per_element(kv_cache_dtype: str) -> int:
    """Whole bytes of one cache element, without scales. Raises ``ConfigError`` for a name that is not known, or has no whole bytes."""
    found = cache_type(kv_cache_dtype)
    if found.block_elements != 1 or found.name == "fp8_ds_mla":
        raise ConfigError(f"kv_cache_dtype '{kv_cache_dtype}' is stored in blocks; one element of it has no bytes of its own")
    return found.block_bytes


# ---------------------------------------------------------------------------------------------- one request


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """How an engine keeps a cache. ``block_tokens``: each request is rounded up to whole blocks."""

    kv: CacheType
    engine: EngineLayout = "architecture"
    block_tokens: int = 1
    tensor_parallel: int = 1
    state_bytes: int = 2
    """Bytes of an element of a state-space layer, which a quantized cache does not reach."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestBytes:
    """What one request takes on one device. ``lower_bytes`` differs from ``cache_bytes`` where an engine may reserve less."""

    cache_bytes: int
    lower_bytes: int
    state_bytes: int
    per_token_bytes: int
    """One more token while no window is full yet, without rounding."""

    @property
    def total_bytes(self) -> int:
        """What decides whether a request fits."""
        return self.cache_bytes + self.state_bytes


def request_bytes(shape: ModelShape, tokens: int, layout: Layout) -> RequestBytes:
    """Bytes of one request of ``tokens`` tokens, prompt and output together. Raises ``ConfigError`` for what the layout cannot hold."""
    if tokens < 1 or layout.block_tokens < 1:
        raise ConfigError(f"a request of {tokens} tokens in blocks of {layout.block_tokens} is not possible")
    plain = split(kept_by(shape, "transformers" if layout.engine == "transformers" else "architecture"), layout.tensor_parallel)
    state = sum(_state_bytes(layer, layout.state_bytes) for layer in plain.layers)
    block, lower, upper = layout.block_tokens, plain, plain
    if layout.engine == "vllm":
        upper = kept_by(plain, "vllm")
        page = max((_state_bytes(layer, layout.state_bytes) for layer in plain.layers), default=0)
        block = _hybrid_block(upper, layout, page) if page else block
        states = sum(layer.state_elements > 0 for layer in plain.layers)
        state = max(state, states * block * _widest(upper, layout.kv)) if page else state
    return RequestBytes(
        cache_bytes=_cache_bytes(upper, tokens, layout.kv, block),
        lower_bytes=_cache_bytes(lower, tokens, layout.kv, layout.block_tokens),
        state_bytes=state,
        per_token_bytes=sum(_token_bytes(layer, layout.kv) for layer in plain.layers),
    )


def kv_bytes_per_row(shape: ModelShape, tokens: int, bytes_per_element: int) -> int:
    """Bytes of one request that holds ``tokens`` tokens, state included, in the layout that the shape has."""
    if tokens < 0 or bytes_per_element < 1:
        raise ConfigError(f"a cache of {tokens} tokens at {bytes_per_element} bytes an element is not possible")
    kv = CacheType(name=f"{bytes_per_element} bytes", block_bytes=bytes_per_element)
    return _cache_bytes(shape, tokens, kv, 1) + sum(_state_bytes(layer, bytes_per_element) for layer in shape.layers)


def row_bytes(shape: ModelShape, prompt_tokens: int, output_tokens: int, element_bytes: int, kv: KVCache | None) -> int:
    """The most that one request holds while it is written, in the layout that the shape has, state included.

    With a cache in fewer bits the prompt lies in blocks, and up to ``residual_tokens`` of the output in float: either the end takes most,
    or the moment before the last time that they went into blocks.
    """
    if kv is None:
        return kv_bytes_per_row(shape, prompt_tokens + output_tokens, element_bytes)
    before = (output_tokens + 1) // kv.residual_tokens * kv.residual_tokens - 1
    moments = [output_tokens, *([before] if before > 0 else [])]
    return max(quantized_bytes(shape, (prompt_tokens, written), element_bytes, kv) for written in moments)


def quantized_bytes(shape: ModelShape, tokens: tuple[int, int], element_bytes: int, kv: KVCache) -> int:
    """Bytes of a cache in fewer bits after so many tokens of a prompt and so many written one by one behind it.

    Raises ``ConfigError`` for layers that such a cache does not reach, and for head widths that give no groups.
    """
    if (why := why_no_blocks(shape, kv)) is not None:
        raise ConfigError(why)
    read, written = tokens
    residual = written % kv.residual_tokens
    plain = CacheType(name=f"{element_bytes} bytes", block_bytes=element_bytes)
    stored = [(_token_bytes(layer, block_type(layer, kv, element_bytes)), _token_bytes(layer, plain)) for layer in shape.layers]
    return sum((read + written - residual) * blocks + residual * floats for blocks, floats in stored)


def why_no_blocks(shape: ModelShape, kv: KVCache) -> str | None:
    """Why a model's cache cannot be kept in fewer bits, or None."""
    other = next((layer for layer in shape.layers if layer.kind != "full" or layer.window or layer.state_elements), None)
    if other is not None:
        kind = "window" if other.window else "state" if other.state_elements else other.kind
        return f"a cache in fewer bits is for full attention in every layer; this model has layers of kind {kind}"
    odd = next((layer for layer in shape.layers if group_elements(layer) < FEWEST_IN_GROUP), None)
    if odd is not None:
        widths = f"head widths {odd.key_width} and {odd.value_width}"
        return f"{widths} give groups of {group_elements(odd)} elements, and a cache in fewer bits needs {FEWEST_IN_GROUP} at least"
    return None


def group_elements(layer: LayerShape) -> int:
    """Elements of a head's vector that share a scale and an offset: the largest divisor of both widths and of 64."""
    return gcd(layer.key_width, layer.value_width, MOST_IN_GROUP)


def block_type(layer: LayerShape, kv: KVCache, element_bytes: int) -> CacheType:
    """A group as it is stored: its codes, and a scale and an offset in the model's float type."""
    elements = group_elements(layer)
    return CacheType(name=kv.scheme, block_bytes=elements * kv.bits // 8 + 2 * element_bytes, block_elements=elements)


def kv_bytes_per_token(shape: ModelShape, bytes_per_element: int) -> int:
    """Cache bytes of one more token while no window is full yet: every layer that has a cache counts, a constant state does not."""
    kv = CacheType(name=f"{bytes_per_element} bytes", block_bytes=bytes_per_element)
    return sum(_token_bytes(layer, kv) for layer in shape.layers)


def _cache_bytes(shape: ModelShape, tokens: int, kv: CacheType, block: int) -> int:
    return sum(_token_bytes(layer, kv) * -(-_kept_tokens(layer, tokens) // block) * block for layer in shape.layers)


def _token_bytes(layer: LayerShape, kv: CacheType) -> int:
    if layer.kind in ("shared", "none", "state"):
        return 0
    if kv.name == "fp8_ds_mla":
        return _packed_latent_bytes(layer)
    if layer.kind == "latent":  # one vector of both parts
        return kv.vector_bytes(layer.key_width + layer.value_width)
    return layer.kv_heads * (kv.vector_bytes(layer.key_width) + kv.vector_bytes(layer.value_width))


def _packed_latent_bytes(layer: LayerShape) -> int:
    if layer.kind != "latent" or layer.key_width % _LATENT_TILE:
        raise ConfigError("kv_cache_dtype fp8_ds_mla is for latent attention with a kv_lora_rank that is a multiple of 128")
    return layer.key_width + layer.key_width // _LATENT_TILE * FLOAT32_BYTES + 2 * layer.value_width


def _state_bytes(layer: LayerShape, element_bytes: int) -> int:
    recurrent = layer.recurrent_elements * (layer.recurrent_bytes or element_bytes)
    return (layer.state_elements - layer.recurrent_elements) * element_bytes + recurrent


def _kept_tokens(layer: LayerShape, tokens: int) -> int:
    return tokens if layer.window is None else min(layer.window, tokens)


# ---------------------------------------------------------------------------------------------- engines


def kept_by(shape: ModelShape, engine: EngineLayout) -> ModelShape:
    """The shape as an engine keeps it, the upper bound where it may keep less.

    transformers: a window layer keeps its window less one between steps, Falcon's new architecture repeats its KV heads, recurrences are
    float32. vllm: where full and sliding layers stand side by side, the sliding ones may be given as many pages as the full ones.
    """
    match engine:
        case "architecture":
            return shape
        case "transformers":
            return replace(shape, layers=tuple(_in_transformers(layer) for layer in shape.layers))
        case "vllm":
            mixed = any(layer.window is None and layer.kv_heads for layer in shape.layers)
            return replace(shape, layers=tuple(replace(one, window=None) if mixed else one for one in shape.layers))


def _in_transformers(layer: LayerShape) -> LayerShape:
    window = layer.window
    return replace(
        layer,
        window=None if window is None or window == 1 else window - 1,  # its slice of "all but none" keeps everything
        kv_heads=layer.expanded_heads or layer.kv_heads,
        recurrent_bytes=FLOAT32_BYTES if layer.recurrent_elements else None,
    )


def _widest(shape: ModelShape, kv: CacheType) -> int:
    return max((_token_bytes(layer, kv) for layer in shape.layers), default=0)


def _hybrid_block(shape: ModelShape, layout: Layout, page_bytes: int) -> int:
    """Engine vllm gives state and attention layers pages of one size: the attention block grows until a state fits into it."""
    widest = _widest(shape, layout.kv)
    chunk = max(layout.block_tokens, VLLM_BLOCK_TOKENS)
    return chunk * -(-page_bytes // (chunk * widest)) if widest else layout.block_tokens


def split(shape: ModelShape, devices: int) -> ModelShape:
    """One device's part under tensor parallelism: query heads are divided; KV heads too or, where they are fewer, repeated, never 0.

    A latent vector is kept whole on every device. Raises ``ConfigError`` where that is not even, with the numbers of devices that are.
    """
    if devices < 1:
        raise ConfigError(f"tensor parallelism over {devices} devices is not possible; at least 1 is needed")
    if devices == 1:
        return shape
    different = dict.fromkeys(shape.layers)
    if (why := _why_uneven(different, devices)) is not None:
        possible = ", ".join(str(one) for one in range(1, MOST_DEVICES + 1) if _why_uneven(different, one) is None)
        raise ConfigError(f"{why} over {devices} devices; possible numbers of devices are {possible}")
    return replace(shape, layers=tuple(_part(layer, devices) for layer in shape.layers))


def _why_uneven(layers: Iterable[LayerShape], devices: int) -> str | None:
    """What cannot be divided, or None."""
    for layer in layers:
        heads = layer.kv_heads
        if layer.query_heads % devices:
            return f"{layer.query_heads} query heads cannot be divided evenly"
        if layer.kind != "latent" and heads and heads % devices and devices % heads:
            return f"{heads} KV heads can neither be divided nor repeated evenly"
        if layer.state_elements % devices or layer.recurrent_elements % devices:
            return f"a state of {layer.state_elements} elements cannot be divided"
    return None


def _part(layer: LayerShape, devices: int) -> LayerShape:
    heads = layer.kv_heads
    return replace(
        layer,
        kv_heads=heads if layer.kind == "latent" else max(1, heads // devices) if heads else 0,
        expanded_heads=layer.expanded_heads // devices,
        query_heads=layer.query_heads // devices,
        state_elements=layer.state_elements // devices,
        recurrent_elements=layer.recurrent_elements // devices,
    )


# ---------------------------------------------------------------------------------------------- the textbook pair


def kv_cache_gb(*, batch: int, seq_len: int, layers: int, hidden: int, bytes_per: float = 2) -> float:
    """Cache of full multi-head attention in GB (10^9): 2 x layers x hidden x bytes x tokens x batch.

    Raises ``ConfigError`` for anything that is not positive.
    """
    _all_positive(batch=batch, seq_len=seq_len, layers=layers, hidden=hidden, bytes_per=bytes_per)
    return 2 * layers * hidden * bytes_per * seq_len * batch / 1e9


def max_batch_from_memory(*, kv_budget_gb: float, seq_len: int, layers: int, hidden: int, bytes_per: float = 2) -> int:
    """Whole requests of ``seq_len`` tokens whose full multi-head cache fits into ``kv_budget_gb`` (10^9 bytes); 0 where not one does.

    Raises ``ConfigError`` for a budget below 0 and for lengths or sizes that are not positive.
    """
    if not 0 <= kv_budget_gb < float("inf"):
        raise ConfigError(f"kv_budget_gb must be at least 0, found {kv_budget_gb!r}")
    _all_positive(seq_len=seq_len, layers=layers, hidden=hidden, bytes_per=bytes_per)
    one_bytes = 2 * layers * hidden * seq_len * Fraction(str(bytes_per))
    return int(Fraction(str(kv_budget_gb)) * 10**9 / one_bytes)  # exact: a budget of just 3 requests holds 3


def _all_positive(**given: float) -> None:
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
            raise ConfigError(f"{name} must be greater than 0, found {value!r}")
