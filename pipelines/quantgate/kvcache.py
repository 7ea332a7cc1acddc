"""What a model keeps for each token of a request, from its config.json alone. Plain arithmetic, no model library.

Per token and layer: KV heads x (key width + value width) x bytes of one element. What goes wrong elsewhere and is a rule here: query heads
are not KV heads, the head width may be stated and differ from hidden / heads, old families use other key names, a sliding window bounds its
layers only and may be switched off. A layout that is not known is an error naming the field, never a wrong number: latent attention,
state-space layers, caches shared between layers and layers of unlike shape are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quantgate.errors import ConfigError
from quantgate.records import LayerShape, ModelShape

Config = Mapping[str, Any]

_LAYERS = ("num_hidden_layers", "n_layer", "n_layers")
_HEADS = ("num_attention_heads", "n_head", "n_heads")
_HIDDEN = ("hidden_size", "n_embd", "n_embed", "d_model")
_KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv")
_HEAD_WIDTH = ("head_dim", "kv_channels")

_REFUSED = {
    "kv_lora_rank": "latent attention",
    "qk_nope_head_dim": "latent attention",
    "ssm_cfg": "state-space layers",
    "state_size": "state-space layers",
    "ssm_state_size": "state-space layers",
    "mamba_d_state": "state-space layers",
    "mamba_num_heads": "state-space layers",
    "hybrid_override_pattern": "state-space layers",
    "attn_layer_period": "state-space layers",
    "layers_block_type": "state-space layers",
    "block_types": "recurrent layers",
    "attention_hidden_size": "recurrent layers",
    "linear_num_key_heads": "linear attention",
    "num_kv_shared_layers": "caches shared between layers",
    "attention_chunk_size": "chunked attention",
    "block_configs": "layers of unlike shape",
    "num_global_key_value_heads": "layers of unlike shape",
    "global_head_dim": "layers of unlike shape",
    "swa_num_key_value_heads": "layers of unlike shape",
    "attention_types": "local attention of GPT-Neo",
}
"""Keys that, where set, announce a layout this module does not know yet."""

_STATED_KV_HEADS = frozenset({
    "mistral", "mixtral", "ministral", "ministral3", "gemma", "gemma2", "gemma3_text", "smollm3", "gpt_oss", "qwen3_moe", "starcoder2",
    "glm", "glm4", "dbrx",
})  # fmt: skip
"""Families whose code fills in a number of KV heads of its own where the config has none."""

_EVERY_NTH_FULL = {"gemma2": 2, "gpt_oss": 2, "gemma3_text": 6, "gemma3": 6, "cohere2": 4, "olmo3": 4, "exaone4": 4}
"""Families whose code, without ``layer_types``, makes every n-th layer full and the others slide."""

_ALL_SLIDE = frozenset({"mistral", "mixtral", "ministral", "phi3", "phimoe", "starcoder2"})

_TIED_BY_DEFAULT = frozenset({
    "gpt2", "gpt_bigcode", "gpt_neo", "falcon", "RefinedWeb", "RefinedWebModel", "opt", "bloom", "mpt", "gemma", "gemma2", "gemma3_text",
    "starcoder2", "cohere", "cohere2", "smollm3",
})  # fmt: skip
"""Families whose code ties the head where the config does not say."""

_BYTES_PER_ELEMENT = {
    "float32": 4, "float": 4, "fp32": 4,
    "float16": 2, "half": 2, "fp16": 2, "bfloat16": 2, "bf16": 2,
    "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1, "float8_e4m3fn": 1, "float8_e5m2": 1, "int8": 1,
}  # fmt: skip


# ---------------------------------------------------------------------------------------------- bytes


def kv_bytes_per_row(shape: ModelShape, tokens: int, bytes_per_element: int) -> int:
    """Cache bytes of one request that holds ``tokens`` tokens, prompt and output together. A window layer keeps min(window, tokens)."""
    if tokens < 0 or bytes_per_element < 1:
        raise ConfigError(f"a cache of {tokens} tokens at {bytes_per_element} bytes an element is not possible")
    return sum(_elements_per_token(layer) * _kept_tokens(layer, tokens) for layer in shape.layers) * bytes_per_element


def kv_bytes_per_token(shape: ModelShape, bytes_per_element: int) -> int:
    """Cache bytes of one more token while no window is full yet: every layer counts."""
    return kv_bytes_per_row(shape, 1, bytes_per_element)


def bytes_per_element(kv_cache_dtype: str) -> int:
    """Bytes of one cache element, without scales. Raises ``ConfigError`` for a name that is not known."""
    if kv_cache_dtype not in _BYTES_PER_ELEMENT:
        raise ConfigError(f"kv_cache_dtype '{kv_cache_dtype}' is not known; known are {', '.join(_BYTES_PER_ELEMENT)}")
    return _BYTES_PER_ELEMENT[kv_cache_dtype]


def _elements_per_token(layer: LayerShape) -> int:
    if layer.kind not in ("full", "window"):
        raise ConfigError(f"the cache of a layer of kind '{layer.kind}' is not known yet")
    return layer.kv_heads * (layer.key_width + layer.value_width)


def _kept_tokens(layer: LayerShape, tokens: int) -> int:
    return tokens if layer.window is None else min(layer.window, tokens)


# ---------------------------------------------------------------------------------------------- config.json -> shape


def shape_of_config(config: Config) -> ModelShape:
    """The shape of a causal language model. Raises ``ConfigError`` naming the field that is missing or not known."""
    text = _text_config(config)
    vocabulary = _whole(text, ("vocab_size",))
    tied = text.get("tie_word_embeddings", config.get("tie_word_embeddings"))
    if tied is None:
        tied = _family(text) in _TIED_BY_DEFAULT
    return ModelShape(
        layers=layers_of_config(config),
        hidden=_whole(text, _HIDDEN),
        vocabulary=vocabulary,
        tied=bool(tied),
        context_tokens=_optional(text, ("max_position_embeddings", "n_positions", "n_ctx")),
    )


def layers_of_config(config: Config) -> tuple[LayerShape, ...]:
    """What each layer keeps for a token; needs no vocabulary. Raises ``ConfigError`` like ``shape_of_config``."""
    text = _text_config(config)
    _refuse_unknown_layouts(text)
    count, heads = _whole(text, _LAYERS), _whole(text, _HEADS)
    kv_heads = _kv_heads(text, heads)
    key_width = _key_width(text, heads)
    value_width = _optional(text, ("v_head_dim",)) or key_width
    return tuple(
        LayerShape(
            kind="full" if window is None else "window",
            kv_heads=kv_heads,
            key_width=key_width,
            value_width=value_width,
            window=window,
        )
        for window in _windows(text, count)
    )


def _text_config(config: Config) -> Config:
    """The language model's part of a multimodal config."""
    nested = config.get("text_config")
    return nested if isinstance(nested, Mapping) else config


def _family(text: Config) -> str:
    return str(text.get("model_type") or "")


def _refuse_unknown_layouts(text: Config) -> None:
    for key, layout in _REFUSED.items():
        if text.get(key):
            raise ConfigError(f"config.json has {key}: {layout} is not supported yet, its cache would be miscounted")
    if text.get("is_encoder_decoder"):
        raise ConfigError("config.json has is_encoder_decoder: only causal language models are supported")


def _whole(text: Config, names: tuple[str, ...]) -> int:
    value = _optional(text, names)
    if value is None:
        raise ConfigError(
            f"config.json has no {names[0]} (nor {', '.join(names[1:])})"
            if names[1:]
            else f"config.json has no {names[0]}"
        )
    return value


def _optional(text: Config, names: tuple[str, ...]) -> int | None:
    """The first of the names that is set. Raises where it is no positive whole number, a list of one value a layer for instance."""
    for name in names:
        value = text.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ConfigError(f"config.json has {name} = {value!r}; a positive whole number is needed")
        return value
    return None


def _kv_heads(text: Config, heads: int) -> int:
    """KV heads. Falcon's flags come in the order in which its weights are laid out: the new architecture first, then multi-query."""
    stated = _optional(text, _KV_HEADS)
    nested = text.get("attn_config")
    if stated is None and isinstance(nested, Mapping):
        stated = _optional(nested, ("kv_n_heads",))
    if text.get("new_decoder_architecture"):
        return stated or heads
    if text.get("multi_query", _family(text) in ("falcon", "gpt_bigcode")):
        return 1
    if stated is None and "num_key_value_heads" not in text and _family(text) in _STATED_KV_HEADS:
        raise ConfigError(
            f"config.json has no num_key_value_heads, and {_family(text)} does not use its query heads instead"
        )
    kv_heads = stated or heads
    if heads % kv_heads:
        raise ConfigError(
            f"config.json has {heads} query heads and {kv_heads} KV heads; the first must be a multiple of the second"
        )
    return kv_heads


def _key_width(text: Config, heads: int) -> int:
    if (stated := _optional(text, _HEAD_WIDTH)) is not None:
        return stated
    hidden = _whole(text, _HIDDEN)
    if hidden % heads:
        raise ConfigError(f"config.json has hidden size {hidden}, which {heads} heads do not divide, and no head_dim")
    return hidden // heads


# ---------------------------------------------------------------------------------------------- sliding windows


def _windows(text: Config, count: int) -> list[int | None]:
    """The window of each layer, None for full attention."""
    kinds = text.get("layer_types")
    window = _window(text)
    if kinds is not None:
        return [_window_of_kind(str(kind), window, text) for kind in _checked_kinds(kinds, count)]
    if window is None:
        return [None] * count
    if (period := _optional(text, ("sliding_window_pattern",)) or _EVERY_NTH_FULL.get(_family(text))) is not None:
        return [None if (layer + 1) % period == 0 else window for layer in range(count)]
    if "max_window_layers" in text:
        first_sliding = text["max_window_layers"]
        if isinstance(first_sliding, bool) or not isinstance(first_sliding, int) or first_sliding < 0:
            raise ConfigError(
                f"config.json has max_window_layers = {first_sliding!r}; a whole number of layers is needed"
            )
        return [None if layer < first_sliding else window for layer in range(count)]
    if _family(text) in _ALL_SLIDE:
        return [window] * count
    raise ConfigError(
        "config.json has sliding_window but no layer_types and no sliding_window_pattern: which layers slide is unknown"
    )


def _checked_kinds(kinds: Any, count: int) -> list[Any]:
    if not isinstance(kinds, (list, tuple)) or len(kinds) != count:
        raise ConfigError(
            f"config.json has layer_types = {kinds!r}; one entry for each of the {count} layers is needed"
        )
    return list(kinds)


def _window_of_kind(kind: str, window: int | None, text: Config) -> int | None:
    if kind == "full_attention":
        return None
    if kind == "sliding_attention":
        if window is None and text.get("use_sliding_window") is not False:
            raise ConfigError("config.json has sliding layers in layer_types but no sliding_window")
        return window
    raise ConfigError(f"config.json has '{kind}' in layer_types; known are full_attention and sliding_attention")


def _window(text: Config) -> int | None:
    """The window in tokens; None where there is none or it is switched off by the flag, by null, 0 or a negative number."""
    value = text.get("sliding_window")
    if value is None or text.get("use_sliding_window") is False:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"config.json has sliding_window = {value!r}; a whole number of tokens is needed")
    return value if value > 0 else None
