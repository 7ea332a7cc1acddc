"""A model's config.json -> what each of its layers keeps for a request. Plain arithmetic, no model library, no weights.

What goes wrong elsewhere and is a rule here: query heads are not KV heads, the head width may be stated and differ from hidden / heads,
old families use other key names, a sliding window bounds its layers only and may be switched off, latent attention stores one vector a
token and not a key and a value a head, state-space layers keep a constant a sequence, layers may share a cache or differ in shape.
A layout that is not known is an error naming the field, never a wrong number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from quantgate.errors import ConfigError
from quantgate.records import LayerShape, ModelShape

Config = Mapping[str, Any]

LARGEST = 10**9
LARGEST_LAYERS = 10_000

_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "num_query_heads", "attention_heads")
_HIDDEN = ("hidden_size", "n_embd", "n_embed", "d_model", "model_dim")
_KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "num_kv_groups", "n_kv_groups")
_HEAD_WIDTH = ("attention_head_dim", "head_dim", "kv_channels")
_CONTEXT = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_sequence_length")
_KINDS = ("layer_types", "layers_block_type")

_REFUSED = {
    "ssm_cfg": "the state-space layout of the mamba_ssm package",
    "block_types": "a recurrent layout whose state lies outside the cache",
    "linear_attn_config": "linear attention of this kind",
    "attn_type_list": "lightning attention",
    "index_topk": "an indexer with a cache of its own",
    "attention_types": "local attention of GPT-Neo",
    "rwkv_hidden_size": "a recurrent layout",
    "xlstm_block": "a recurrent layout",
}
"""Keys that, where set, announce a layout this module does not know."""

_REFUSED_FAMILIES = frozenset({"rwkv", "xlstm", "minimax", "kimi_linear", "deepseek_v4", "bailing_hybrid", "reformer", "xlnet"})

_STATED_KV_HEADS = frozenset({
    "mistral", "mixtral", "ministral", "ministral3", "gemma", "gemma2", "gemma3_text", "smollm3", "gpt_oss", "qwen3_moe", "starcoder2",
    "glm", "glm4", "dbrx",
})  # fmt: skip
"""Families whose code fills in a number of KV heads of its own where the config has none."""

_ONE_KV_HEAD_EACH = frozenset({
    "gpt2", "gpt_neox", "gptj", "codegen", "opt", "bloom", "persimmon", "mpt", "biogpt", "xglm", "openai-gpt", "ctrl",
    "modernbert-decoder",
})  # fmt: skip
"""Families with a KV head for every query head, whatever key a config carries along."""

_EVERY_NTH_FULL = {"gemma2": 2, "gpt_oss": 2, "gemma3_text": 6, "gemma3": 6, "cohere2": 4, "olmo3": 4, "exaone4": 4}
"""Families whose code, without ``layer_types``, makes every n-th layer full and the others slide."""

_ALL_SLIDE = frozenset({"mistral", "mixtral", "ministral", "phi3", "phimoe", "starcoder2"})

_TIED_BY_DEFAULT = frozenset({
    "gpt2", "gpt_bigcode", "gpt_neo", "falcon", "RefinedWeb", "RefinedWebModel", "opt", "bloom", "mpt", "gemma", "gemma2", "gemma3_text",
    "starcoder2", "cohere", "cohere2", "smollm3", "ernie4_5",
})  # fmt: skip
"""Families whose code ties the head where the config does not say."""

_STATE_ONLY = frozenset({"mamba", "mamba2", "falcon_mamba"})
_KIND_NAMES = {
    "full_attention": "full", "attention": "full", "global_attention": "full",
    "sliding_attention": "window", "sliding_window": "window", "local_attention": "window",
    "chunked_attention": "chunk",
    "linear_attention": "state", "mamba": "state", "mamba2": "state", "conv": "state", "ssm": "state",
    "hybrid": "hybrid",
    "moe": "none", "mlp": "none",
}  # fmt: skip
_PATTERN_LETTERS = {"M": "state", "*": "full", "-": "none", "E": "none"}


# ---------------------------------------------------------------------------------------------- the whole model


def shape_of_config(config: Config) -> ModelShape:
    """The shape of a causal language model. Raises ``ConfigError`` naming the field that is missing or not known."""
    text = text_config(config)
    vocabulary = whole(text, ("vocab_size",))
    tied = text.get("tie_word_embeddings", config.get("tie_word_embeddings"))
    if tied is None:
        tied = family(text) in _TIED_BY_DEFAULT
    return ModelShape(
        layers=layers_of_config(config),
        hidden=whole(text, _HIDDEN),
        vocabulary=vocabulary,
        tied=bool(tied),
        context_tokens=optional(text, _CONTEXT),
    )


def layers_of_config(config: Config) -> tuple[LayerShape, ...]:
    """What each layer keeps for a token; needs no vocabulary. Raises ``ConfigError`` like ``shape_of_config``."""
    text = text_config(config)
    _refuse_unknown_layouts(text)
    kinds = _layer_kinds(text)
    shared = _shared_from(text, len(kinds))
    windows = _windows(text, kinds)
    state = _state(text) if {"state", "hybrid"} & set(kinds) else (0, 0)
    layers = []
    for number, kind in enumerate(kinds):
        if number >= shared:
            layers.append(LayerShape(kind="shared"))
        elif kind == "none":
            layers.append(LayerShape(kind="none"))
        elif kind == "state":
            layers.append(LayerShape(kind="state", state_elements=sum(state), recurrent_elements=state[1]))
        else:
            layer = _attention(_of_layer(text, number, windows[number] is not None), number, windows[number])
            if kind == "hybrid":
                layer = replace(layer, state_elements=sum(state), recurrent_elements=state[1])
            layers.append(layer)
    return tuple(layers)


def by_hand(*, layers: int, hidden: int, heads: int, kv_heads: int | None = None, head_dim: int | None = None) -> ModelShape:
    """A plain decoder from five numbers: full attention in every layer. Raises ``ConfigError`` for numbers that do not fit together."""
    if head_dim is None and hidden % heads:
        raise ConfigError(f"{heads} heads do not divide a hidden size of {hidden}: give the width of a head (--head-dim), or other numbers")
    if kv_heads is not None and heads % kv_heads:
        raise ConfigError(f"{heads} query heads are no multiple of {kv_heads} KV heads: --heads over --kv-heads must be a whole number")
    config = {"num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": heads, "vocab_size": 1}
    given = {"num_key_value_heads": kv_heads, "head_dim": head_dim}
    return shape_of_config({**config, **{key: value for key, value in given.items() if value is not None}})


def text_config(config: Config) -> Config:
    """The language model's part of a multimodal config."""
    nested = config.get("text_config")
    if nested is None:
        return config
    if not isinstance(nested, Mapping):
        raise ConfigError(f"config.json has text_config = {_shown(nested)}; an object is needed")
    return nested


def family(text: Config) -> str:
    """The config's ``model_type``, empty where it has none."""
    return str(text.get("model_type") or "")


def _refuse_unknown_layouts(text: Config) -> None:
    for key, layout in _REFUSED.items():
        if text.get(key):
            raise ConfigError(f"config.json has {key}: {layout} is not supported yet, its cache would be miscounted")
    if family(text) in _REFUSED_FAMILIES:
        raise ConfigError(f"config.json has model_type {family(text)}: its cache is not supported yet and would be miscounted")
    if text.get("is_encoder_decoder"):
        raise ConfigError("config.json has is_encoder_decoder: only causal language models are supported")


# ---------------------------------------------------------------------------------------------- numbers of a config


def whole(text: Config, names: Sequence[str]) -> int:
    """The first of the names that is set. Raises where none is, and where it is no positive whole number."""
    value = optional(text, names)
    if value is None:
        others = f" (nor {', '.join(names[1:])})" if names[1:] else ""
        raise ConfigError(f"config.json has no {names[0]}{others}")
    return value


def optional(text: Config, names: Sequence[str]) -> int | None:
    """The first of the names that is set, None without one. Raises where it is no positive whole number."""
    for name in names:
        if (value := text.get(name)) is not None:
            return checked(name, value)
    return None


def checked(name: str, value: Any, largest: int = LARGEST) -> int:
    """A positive whole number as it stands in a config. Raises ``ConfigError`` naming the field for anything else."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"config.json has {name} = {_shown(value)}; a positive whole number is needed")
    if value > largest:
        raise ConfigError(f"config.json has {name} = {value:.3g}; at most {largest:,} can be right")
    return value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _of_layer(text: Config, number: int, slides: bool) -> Config:
    """The config as one layer sees it: lists of one value a layer, overrides by layer, and widths of sliding or full layers."""
    own = dict(text)
    prefix = "swa_" if slides else "global_"
    for key, value in (*text.items(),):
        if key.startswith(prefix) and value is not None:
            own[key.removeprefix(prefix)] = value
    if not slides and text.get("num_global_key_value_heads") is not None:
        own["num_key_value_heads"] = text["num_global_key_value_heads"]
    for name in (*_KV_HEADS, *_HEADS):
        if isinstance(text.get(name), list):
            own[name] = _entry(name, text[name], number)
    overrides = text.get("per_layer_config")
    if isinstance(overrides, Mapping) and isinstance(overrides.get(str(number)), Mapping):
        own |= overrides[str(number)]
    if text.get("block_configs") is not None:
        own |= _block(text, number)
    return own


def _entry(name: str, values: list[Any], number: int) -> Any:
    if number >= len(values):
        raise ConfigError(f"config.json has {len(values)} entries in {name}; one for each layer is needed")
    return values[number]


def _block(text: Config, number: int) -> Config:
    """A layer of a searched architecture: its KV heads stand as query heads a group."""
    block = _block_attention(text, number)
    group = checked(f"block_configs[{number}].attention.n_heads_in_group", block.get("n_heads_in_group"))
    return {"num_key_value_heads": max(1, whole(text, _HEADS) // group)}


def _block_attention(text: Config, number: int) -> Config:
    blocks = text["block_configs"]
    entry = _entry("block_configs", blocks, number) if isinstance(blocks, list) else None
    found = entry.get("attention") if isinstance(entry, Mapping) else None
    if not isinstance(found, Mapping):
        raise ConfigError(f"config.json has no attention in block_configs[{number}]")
    return found


# ---------------------------------------------------------------------------------------------- which layers are what


def _layer_kinds(text: Config) -> list[str]:
    """full, window, chunk, state, hybrid (both) or none for each layer; ``window`` may still be decided by ``_windows``."""
    if (pattern := text.get("hybrid_override_pattern")) is not None:
        return _pattern_kinds(text, pattern)
    listed = next((key for key in _KINDS if text.get(key) is not None), None)
    if listed is not None:
        return _listed_kinds(text, listed)
    count = checked(_LAYERS[0], whole(text, _LAYERS), LARGEST_LAYERS)
    if family(text) in _STATE_ONLY:
        return ["state"] * count
    if family(text) == "falcon_h1":
        return ["hybrid"] * count
    if (period := optional(text, ("attn_layer_period",))) is not None:
        offset = text.get("attn_layer_offset") or 0
        return ["full" if layer % period == offset else "state" for layer in range(count)]
    if (chosen := text.get("attn_layer_indices", text.get("full_attn_idxs"))) is not None:
        places = _places("attn_layer_indices" if "attn_layer_indices" in text else "full_attn_idxs", chosen, count)
        return ["full" if layer in places else "state" for layer in range(count)]
    if family(text) in ("bamba", "jamba", "lfm2", "zamba", "zamba2", "granitemoehybrid", "nemotron_h"):
        raise ConfigError(f"config.json has model_type {family(text)} and no layer_types: which layers have attention is unknown")
    if (every := optional(text, ("full_attention_interval",))) is not None or family(text) in ("qwen3_next", "qwen3_5_text"):
        return ["full" if (layer + 1) % (every or 4) == 0 else "state" for layer in range(count)]
    if text.get("linear_num_value_heads") is not None or _has_state_keys(text):
        raise ConfigError("config.json has state-space layers (mamba_d_state and the like) but does not say which layers they are")
    if text.get("attention_chunk_size") is not None:
        return _chunk_kinds(text, count)
    if text.get("block_configs") is not None:
        return ["none" if _without_attention(_block_attention(text, layer)) else "full" for layer in range(count)]
    return ["full"] * count


def _has_state_keys(text: Config) -> bool:
    return any(text.get(key) is not None for key in ("mamba_d_state", "ssm_state_size", "state_size", "mamba_num_heads", "conv_L_cache"))


def _without_attention(block: Config) -> bool:
    return bool(block.get("no_op") or block.get("replace_with_linear"))


def _pattern_kinds(text: Config, pattern: Any) -> list[str]:
    if not isinstance(pattern, str) or not pattern or set(pattern) - set(_PATTERN_LETTERS):
        known = "M state-space, * attention, - or E neither"
        raise ConfigError(f"config.json has hybrid_override_pattern = {_shown(pattern)}; known letters are {known}")
    count = optional(text, _LAYERS)
    if count is not None and count != len(pattern):
        raise ConfigError(f"config.json has {count} layers and a hybrid_override_pattern of {len(pattern)}")
    return [_PATTERN_LETTERS[letter] for letter in pattern]


def _listed_kinds(text: Config, key: str) -> list[str]:
    listed, count = text[key], optional(text, _LAYERS)
    if not isinstance(listed, (list, tuple)) or not listed or (count is not None and len(listed) != count):
        wanted = "one entry for each layer" if count is None else f"one entry for each of the {count} layers"
        raise ConfigError(f"config.json has {key} = {_shown(listed)}; {wanted} is needed")
    for kind in listed:
        if not isinstance(kind, str) or kind not in _KIND_NAMES:
            raise ConfigError(f"config.json has {_shown(kind)} in {key}; known are {', '.join(_KIND_NAMES)}")
    return [_KIND_NAMES[kind] for kind in listed]


def _places(name: str, found: Any, count: int) -> set[int]:
    if not isinstance(found, list) or any(isinstance(one, bool) or not isinstance(one, int) or not 0 <= one < count for one in found):
        raise ConfigError(f"config.json has {name} = {_shown(found)}; numbers of layers from 0 to {count - 1} are needed")
    return set(found)


def _chunk_kinds(text: Config, count: int) -> list[str]:
    rotary = text.get("no_rope_layers")
    if not rotary:
        every = optional(text, ("no_rope_layer_interval",)) or 4
        rotary = [int((layer + 1) % every != 0) for layer in range(count)]
    if not isinstance(rotary, list) or len(rotary) != count:
        raise ConfigError(f"config.json has no_rope_layers = {_shown(rotary)}; one entry for each of the {count} layers is needed")
    return ["chunk" if one else "full" for one in rotary]


def _shared_from(text: Config, count: int) -> int:
    """The number of the first layer that reads another layer's cache."""
    found = text.get("num_kv_shared_layers")
    if not found:
        return count
    if checked("num_kv_shared_layers", found) >= count:
        raise ConfigError(f"config.json has num_kv_shared_layers = {found} of {count} layers; one at least must have a cache of its own")
    return count - int(found)


# ---------------------------------------------------------------------------------------------- one attention layer


def _attention(text: Config, number: int, window: int | None) -> LayerShape:
    if text.get("kv_lora_rank") is not None:
        rank, rope = whole(text, ("kv_lora_rank",)), whole(text, ("qk_rope_head_dim",))
        heads = optional(text, _HEADS) or 0
        return LayerShape(kind="latent", kv_heads=1, key_width=rank, value_width=rope, window=window, query_heads=heads)
    heads = whole(text, _HEADS)
    kv_heads = _kv_heads(text, heads)
    key_width = _key_width(text, heads)
    return LayerShape(
        kind="full" if window is None else "window",
        kv_heads=kv_heads,
        key_width=key_width,
        value_width=optional(text, ("v_head_dim",)) or key_width,
        window=window,
        expanded_heads=heads if text.get("new_decoder_architecture") and kv_heads != heads else 0,
        query_heads=heads,
    )


def _kv_heads(text: Config, heads: int) -> int:
    """KV heads. Falcon's flags come in the order in which its weights are laid out: the new architecture first, then multi-query."""
    stated = optional(text, _KV_HEADS)
    nested = text.get("attn_config")
    if stated is None and isinstance(nested, Mapping):
        stated = optional(nested, ("kv_n_heads",))
    if text.get("new_decoder_architecture"):
        return stated or heads
    if text.get("multi_query", family(text) in ("falcon", "gpt_bigcode")):
        return 1
    if family(text) in _ONE_KV_HEAD_EACH:
        return heads
    if family(text) in ("falcon", "RefinedWebModel"):
        return heads
    if stated is None and "num_key_value_heads" not in text and family(text) in _STATED_KV_HEADS:
        raise ConfigError(
            f"config.json has no num_key_value_heads, and {family(text)} does not use its query heads instead"
        )
    kv_heads = stated or heads
    if heads % kv_heads:
        raise ConfigError(
            f"config.json has {heads} query heads and {kv_heads} KV heads; the first must be a multiple of the second"
        )
    return kv_heads


def _key_width(text: Config, heads: int) -> int:
    if (stated := optional(text, _HEAD_WIDTH)) is not None:
        return stated
    hidden = whole(text, _HIDDEN)
    if hidden % heads:
        raise ConfigError(f"config.json has hidden size {hidden}, which {heads} heads do not divide, and no head_dim")
    return hidden // heads


# ---------------------------------------------------------------------------------------------- state-space layers


def _state(text: Config) -> tuple[int, int]:
    """Elements a state layer keeps for a sequence, whatever its length: of the convolution, and of the recurrence."""
    if text.get("linear_num_value_heads") is not None:
        return _delta_state(text)
    if text.get("conv_L_cache") is not None:
        return whole(text, _HIDDEN) * whole(text, ("conv_L_cache",)), 0
    width = whole(text, ("mamba_d_state", "ssm_state_size", "state_size", "d_state"))
    kernel = whole(text, ("mamba_d_conv", "conv_kernel", "d_conv"))
    heads = ("mamba_n_heads", "mamba_num_heads", "n_mamba_heads", *(("num_heads",) if family(text) == "mamba2" else ()))
    if family(text) == "zamba" or (count := optional(text, heads)) is None:
        inner = _inner(text)
        return inner * kernel, inner * width
    inner = optional(text, ("mamba_d_ssm",)) or count * _state_head(text, count)
    groups = optional(text, ("mamba_n_groups", "mamba_ngroups", "n_groups")) or 1
    return (inner + 2 * groups * width) * kernel, inner * width


def _delta_state(text: Config) -> tuple[int, int]:
    keys, values = whole(text, ("linear_num_key_heads",)), whole(text, ("linear_num_value_heads",))
    key_width, value_width = whole(text, ("linear_key_head_dim",)), whole(text, ("linear_value_head_dim",))
    channels = 2 * keys * key_width + values * value_width
    return channels * whole(text, ("linear_conv_kernel_dim",)), values * key_width * value_width


def _inner(text: Config) -> int:
    if family(text) in _STATE_ONLY and (stated := optional(text, ("intermediate_size",))) is not None:
        return stated
    return optional(text, ("d_inner",)) or whole(text, _HIDDEN) * (optional(text, ("mamba_expand", "expand")) or 2)


def _state_head(text: Config, heads: int) -> int:
    names = ("mamba_d_head", "mamba_head_dim", "mamba_headdim", *(("head_dim",) if family(text) == "mamba2" else ()))
    stated = {name: text[name] for name in names if text.get(name) not in (None, "auto")}
    return optional(stated, names) or _inner(text) // heads


# ---------------------------------------------------------------------------------------------- sliding windows


def _windows(text: Config, kinds: list[str]) -> list[int | None]:
    """The window of each layer, None for full attention. A chunk bounds a cache as a window does."""
    if any(text.get(key) is not None for key in _KINDS) or set(kinds) - {"full", "chunk"}:
        return [_window_of_kind(kind, text) for kind in kinds]
    if "chunk" in kinds:
        return [whole(text, ("attention_chunk_size",)) if kind == "chunk" else None for kind in kinds]
    count, window = len(kinds), _window(text)
    if window is None:
        return [None] * count
    pattern = ("sliding_window_pattern", "_sliding_window_pattern")
    if (period := optional(text, pattern) or _EVERY_NTH_FULL.get(family(text))) is not None:
        return [None if (layer + 1) % period == 0 else window for layer in range(count)]
    if "max_window_layers" in text:
        first_sliding = text["max_window_layers"]
        if isinstance(first_sliding, bool) or not isinstance(first_sliding, int) or first_sliding < 0:
            raise ConfigError(
                f"config.json has max_window_layers = {_shown(first_sliding)}; a whole number of layers is needed"
            )
        return [None if layer < first_sliding else window for layer in range(count)]
    if family(text) in _ALL_SLIDE:
        return [window] * count
    raise ConfigError(
        "config.json has sliding_window but no layer_types and no sliding_window_pattern: which layers slide is unknown"
    )


def _window_of_kind(kind: str, text: Config) -> int | None:
    if kind == "chunk":
        return whole(text, ("attention_chunk_size",))
    if kind != "window":
        return None
    window = _window(text)
    if window is None and text.get("use_sliding_window") is not False:
        raise ConfigError("config.json has sliding layers in layer_types but no sliding_window")
    return window


def _window(text: Config) -> int | None:
    """The window in tokens; None where there is none or it is switched off by the flag, by null, 0 or a negative number."""
    value = text.get("sliding_window")
    if value is None or text.get("use_sliding_window") is False:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"config.json has sliding_window = {_shown(value)}; a whole number of tokens is needed")
    return value if value > 0 else None
