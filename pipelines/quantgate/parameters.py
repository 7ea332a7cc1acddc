"""config.json -> the weight matrices of a decoder, counted without weights and without a model library.

A family is a row of ``_FAMILIES``: gated or plain feed-forward, where biases stand, how many norms a layer has. A family that has no row,
or a switch that changes its shape in a way not listed here, is an error that says how to give the number by hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from quantgate.errors import ConfigError
from quantgate.records import LayerShape
from quantgate.shapes import Config, checked, family, optional, shape_of_config, text_config, whole

Part: TypeAlias = Literal["linear", "expert", "embedding", "head", "other"]
BY_HAND = "give --params N, or the folder with its safetensors files"


@dataclass(frozen=True, kw_only=True, slots=True)
class Matrices:
    """``count`` tensors of one shape. ``rows`` are output features; ``other`` are norms, biases and routers, which stay in float."""

    part: Part
    rows: int
    columns: int = 1
    count: int = 1

    @property
    def elements(self) -> int:
        """Weights of all of them."""
        return self.rows * self.columns * self.count


Flag: TypeAlias = bool | str
"""True, False, or the config's own switch: ``key`` for one that is off by default, ``+key`` for one that is on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Family:
    gated: bool = True
    norms: int = 2
    norm_vectors: int = 1
    """1: a weight, 2: a weight and a bias, 0: none."""
    qkv_bias: Flag = "attention_bias"
    out_bias: Flag = "attention_bias"
    mlp_bias: Flag = "mlp_bias"
    head_bias: Flag = False
    qk_norm: Literal["", "head", "full"] = ""
    inner: tuple[str, ...] = ("intermediate_size",)
    inner_times_hidden: int | None = None
    """Feed-forward width over hidden where the config gives none."""
    positions: int | None = None
    """Learned positions: rows beyond the longest context."""
    embedding_width: tuple[str, ...] = ()
    """Where tokens may be embedded in another width than the model's, with a matrix into it and one out of it."""
    embedding_norm: bool = False
    sinks: bool = False
    experts: tuple[str, ...] = ()
    expert_inner: tuple[str, ...] = ("moe_intermediate_size", "intermediate_size")
    expert_bias: bool = False
    refused: tuple[str, ...] = ()
    """Switches that change the shape and are not counted."""


def _plain(**changed: Any) -> _Family:
    """A feed-forward of two matrices, norms with a bias."""
    return _Family(**{"gated": False, "norm_vectors": 2, "qkv_bias": True, "out_bias": True, "mlp_bias": True, **changed})


_FOUR = {"inner": ("n_inner",), "inner_times_hidden": 4}
_FAMILIES: Mapping[str, _Family] = {
    **dict.fromkeys(("llama", "mistral", "ministral", "granite", "helium", "smollm3", "gemma", "phi3"), _Family()),
    "ernie4_5": _Family(qkv_bias="use_bias", out_bias="use_bias", mlp_bias="use_bias"),
    "seed_oss": _Family(qkv_bias="+attention_bias", out_bias="attention_out_bias"),
    "gemma2": _Family(norms=4),
    "gemma3_text": _Family(norms=4, qk_norm="head"),
    "qwen2": _Family(qkv_bias=True, out_bias=False),
    "qwen3": _Family(qk_norm="head"),
    "hunyuan_v1_dense": _Family(qk_norm="head"),
    "exaone4": _Family(qk_norm="head"),
    "glm": _Family(qkv_bias="+attention_bias", out_bias=False),
    "glm4": _Family(norms=4, qkv_bias="+attention_bias", out_bias=False),
    "olmo": _Family(norm_vectors=0),
    "olmo2": _Family(qk_norm="full"),
    "olmo3": _Family(qk_norm="full"),
    "cohere": _Family(norms=1, refused=("use_qk_norm",)),
    "cohere2": _Family(norms=1),
    "stablelm": _Family(norm_vectors=2, qkv_bias="use_qkv_bias", out_bias=False, refused=("qk_layernorm", "use_parallel_residual")),
    "arcee": _Family(gated=False),
    "nemotron": _Family(gated=False, norm_vectors=2),
    "starcoder2": _plain(qkv_bias="+use_bias", out_bias="+use_bias", mlp_bias="+use_bias"),
    "phi": _plain(norms=1, head_bias=True, refused=("qk_layernorm",)),
    "gpt_neox": _plain(qkv_bias="+attention_bias", out_bias="+attention_bias"),
    "gptj": _plain(norms=1, qkv_bias=False, out_bias=False, head_bias=True, **_FOUR),
    "codegen": _plain(norms=1, qkv_bias=False, out_bias=False, head_bias=True, **_FOUR),
    "gpt2": _plain(positions=0, **_FOUR),
    "gpt_bigcode": _plain(positions=0, **_FOUR),
    "opt": _plain(
        inner=("ffn_dim",), positions=2, embedding_width=("word_embed_proj_dim",),
        qkv_bias="+enable_bias", out_bias="+enable_bias", mlp_bias="+enable_bias",
    ),
    "bloom": _plain(embedding_norm=True, inner=(), inner_times_hidden=4),
    "falcon": _plain(
        norms=0, qkv_bias="bias", out_bias="bias", mlp_bias="bias", inner=("ffn_hidden_size",), inner_times_hidden=4
    ),
    "mpt": _plain(norm_vectors=1, qkv_bias=False, out_bias=False, mlp_bias=False, inner=(), inner_times_hidden=4),
    "mixtral": _Family(experts=("num_local_experts",), expert_inner=("intermediate_size",)),
    "granitemoe": _Family(experts=("num_local_experts",), expert_inner=("intermediate_size",)),
    "phimoe": _Family(
        norm_vectors=2, head_bias="lm_head_bias", experts=("num_local_experts",), expert_inner=("intermediate_size",)
    ),
    "olmoe": _Family(qk_norm="full", experts=("num_experts",), expert_inner=("intermediate_size",)),
    "qwen2_moe": _Family(qkv_bias=True, out_bias=False, experts=("num_experts",)),
    "qwen3_moe": _Family(qk_norm="head", experts=("num_experts", "num_local_experts")),
    "glm4_moe": _Family(out_bias=False, experts=("n_routed_experts",), refused=("use_qk_norm",)),
    "gpt_oss": _Family(
        qkv_bias=True, out_bias=True, sinks=True, experts=("num_local_experts",), expert_inner=("intermediate_size",), expert_bias=True
    ),
    "deepseek_v2": _Family(experts=("n_routed_experts",)),
    "deepseek_v3": _Family(experts=("n_routed_experts",)),
    "minicpm3": _Family(),
}  # fmt: skip


def counted_families() -> tuple[str, ...]:
    """The values of ``model_type`` whose parameters are counted from config.json."""
    return tuple(sorted(_FAMILIES))


def matrices_of_config(config: Config) -> tuple[Matrices, ...]:
    """Every weight of the model, tied ones once. Raises ``ConfigError`` for a family or a switch that is not counted here."""
    text = text_config(config)
    spec = _FAMILIES.get(family(text))
    if spec is None:
        name = family(text) or "none"
        raise ConfigError(f"config.json has model_type {name}: its parameters are not counted from config.json; {BY_HAND}")
    for key in spec.refused:
        if text.get(key):
            raise ConfigError(f"config.json has {key}: parameters of such a {family(text)} are not counted; {BY_HAND}")
    return tuple(_Model(text=text, spec=spec).everything())


@dataclass(frozen=True, kw_only=True, slots=True)
class _Model:
    text: Config
    spec: _Family
    hidden: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", shape_of_config(self.text).hidden)

    def everything(self) -> Iterator[Matrices]:
        shape = shape_of_config(self.text)
        embedded = optional(self.text, self.spec.embedding_width) or self.hidden
        yield Matrices(part="embedding", rows=shape.vocabulary, columns=embedded)
        if embedded != self.hidden:
            yield Matrices(part="linear", rows=self.hidden, columns=embedded)
            yield Matrices(part="linear", rows=embedded, columns=self.hidden)
        if self.spec.positions is not None:
            longest = whole(self.text, ("max_position_embeddings", "n_positions"))
            yield Matrices(part="embedding", rows=longest + self.spec.positions, columns=self.hidden)
        if not shape.tied:
            yield Matrices(part="head", rows=shape.vocabulary, columns=embedded)
            if self.on(self.spec.head_bias):
                yield _vectors(shape.vocabulary)
        elif self.on(self.spec.head_bias):
            yield _vectors(shape.vocabulary)
        yield _vectors(self.hidden, (self.final_norms() + self.spec.embedding_norm) * self.norm_vectors())
        for number, layer in enumerate(shape.layers):
            yield _vectors(self.hidden, self.norms() * self.norm_vectors())
            yield from self.latent() if layer.kind == "latent" else self.attention(layer)
            yield from self.feed_forward(number)

    def norms(self) -> int:
        if family(self.text) != "falcon":
            return self.spec.norms
        if self.text.get("new_decoder_architecture"):
            return optional(self.text, ("num_ln_in_parallel_attn",)) or 2
        return 1 if self.text.get("parallel_attn", True) else 2

    def final_norms(self) -> int:
        """Norms behind the last layer: OPT has none where each layer ends with its own."""
        if family(self.text) != "opt":
            return 1
        return int(bool(self.text.get("do_layer_norm_before", True)) and not self.text.get("_remove_final_layer_norm"))

    def norm_vectors(self) -> int:
        bare = family(self.text) == "opt" and not self.text.get("layer_norm_elementwise_affine", True)
        return 0 if bare else self.spec.norm_vectors

    def on(self, flag: Flag) -> bool:
        if isinstance(flag, bool):
            return flag
        return bool(self.text.get(flag.removeprefix("+"), flag.startswith("+")))

    def attention(self, layer: LayerShape) -> Iterator[Matrices]:
        heads = whole(self.text, ("num_attention_heads", "n_head", "n_heads"))
        queries, keys, values = heads * layer.key_width, layer.kv_heads * layer.key_width, layer.kv_heads * layer.value_width
        yield Matrices(part="linear", rows=queries + keys + values, columns=self.hidden)
        yield Matrices(part="linear", rows=self.hidden, columns=heads * layer.value_width)
        if self.on(self.spec.qkv_bias):
            yield _vectors(queries + keys + values)
        if self.on(self.spec.out_bias):
            yield _vectors(self.hidden)
        if self.spec.qk_norm:
            yield _vectors(2 * layer.key_width if self.spec.qk_norm == "head" else queries + keys)
        if self.spec.sinks:
            yield _vectors(heads)

    def latent(self) -> Iterator[Matrices]:
        heads, rank = whole(self.text, ("num_attention_heads",)), whole(self.text, ("kv_lora_rank",))
        rope, nope = whole(self.text, ("qk_rope_head_dim",)), whole(self.text, ("qk_nope_head_dim",))
        value = whole(self.text, ("v_head_dim",))
        if (query := optional(self.text, ("q_lora_rank",))) is None:
            yield Matrices(part="linear", rows=heads * (nope + rope), columns=self.hidden)
        else:
            yield Matrices(part="linear", rows=query, columns=self.hidden)
            yield Matrices(part="linear", rows=heads * (nope + rope), columns=query)
            yield _vectors(query)
        yield Matrices(part="linear", rows=rank + rope, columns=self.hidden)
        yield Matrices(part="linear", rows=heads * (nope + value), columns=rank)
        yield Matrices(part="linear", rows=self.hidden, columns=heads * value)
        yield _vectors(rank)
        if self.on("attention_bias"):
            yield _vectors((0 if query is None else query) + rank + rope + self.hidden)

    def feed_forward(self, number: int) -> Iterator[Matrices]:
        if not self.spec.experts or not self.is_sparse(number):
            yield from self.dense(self.inner(), "linear")
            return
        experts = whole(self.text, self.spec.experts)
        width = whole(self.text, self.spec.expert_inner)
        yield from self.dense(width, "expert", experts)
        yield _vectors(self.hidden, experts)
        if self.spec.expert_bias:
            yield _vectors(2 * width + self.hidden, experts)
            yield _vectors(experts)
        if (shared := optional(self.text, ("shared_expert_intermediate_size",))) is not None:
            yield from self.dense(shared, "linear")
            yield _vectors(self.hidden)
        if (several := self.text.get("n_shared_experts")) and "moe_intermediate_size" in self.text:
            yield from self.dense(width * checked("n_shared_experts", several), "linear")

    def is_sparse(self, number: int) -> bool:
        first = self.text.get("first_k_dense_replace") or 0
        every = optional(self.text, ("decoder_sparse_step",)) or 1
        dense = self.text.get("mlp_only_layers") or ()
        return number >= first and (number + 1) % every == 0 and number not in dense

    def dense(self, width: int, part: Part, count: int = 1) -> Iterator[Matrices]:
        yield Matrices(part=part, rows=width, columns=self.hidden, count=count * (2 if self.spec.gated else 1))
        yield Matrices(part=part, rows=self.hidden, columns=width, count=count)
        if part == "linear" and self.on(self.spec.mlp_bias):
            yield _vectors(width * (2 if self.spec.gated else 1) + self.hidden)

    def inner(self) -> int:
        if (stated := optional(self.text, self.spec.inner)) is not None:
            return stated
        if self.spec.inner_times_hidden is None:
            return whole(self.text, self.spec.inner)
        return self.hidden * self.spec.inner_times_hidden


def _vectors(width: int, count: int = 1) -> Matrices:
    return Matrices(part="other", rows=width, count=count)
