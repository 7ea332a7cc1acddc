"""A cache of keys and values in fewer bits, for models with full attention in every layer.

A group is a stretch of one head's vector of one token, with the smallest value as its offset and an even scale up to the largest. So what a
token is stored as depends on nothing but itself: neither on the rows beside it nor on padding, and nothing is ever stored twice. A prompt
goes into blocks as soon as it was read, while its own logits come from the exact values; later tokens stay in float until there are
``residual_tokens`` of them. Attention reads the values back in float.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicLayer

from quantgate.kvcache import group_elements
from quantgate.records import KVCache, ModelShape

Block = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Packed codes [rows, heads, tokens, groups, bytes], scales and offsets [rows, heads, tokens, groups, 1]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Blocks:
    """How every layer of a model keeps its cache. ``groups``: elements of a group, layer by layer."""

    kv: KVCache
    groups: tuple[int, ...]

    @classmethod
    def of(cls, kv: KVCache, shape: ModelShape) -> Blocks:
        """For a shape that ``kvcache.why_no_blocks`` has nothing against."""
        return cls(kv=kv, groups=tuple(group_elements(layer) for layer in shape.layers))

    def new_cache(self) -> Any:
        """An empty cache."""
        return Cache(layers=[BlockLayer(self.kv, group) for group in self.groups])


class BlockLayer(DynamicLayer):  # type: ignore[misc] # the library has no types here
    """One layer's cache: blocks first, then ``keys`` and ``values`` in float."""

    def __init__(self, kv: KVCache, group: int) -> None:
        super().__init__()
        self._kv, self._group = kv, group
        self._blocks: tuple[Block, Block] | None = None
        self._tokens = 0

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """Keys and values of all tokens: those in blocks as they are read back, the others exact."""
        self._tokens += key_states.shape[-2]
        if self._blocks is None:
            self.lazy_initialization(key_states, value_states)
            self._blocks = self._packed(key_states), self._packed(value_states)
            self.keys, self.values = key_states[..., :0, :].clone(), value_states[..., :0, :].clone()
            return key_states, value_states
        self.keys = torch.cat([self.keys, key_states], dim=-2)
        self.values = torch.cat([self.values, value_states], dim=-2)
        whole = [
            torch.cat([unpacked(block, self._kv.bits), recent], dim=-2)
            for block, recent in zip(self._blocks, (self.keys, self.values), strict=True)
        ]
        if self.keys.shape[-2] >= self._kv.residual_tokens:
            self._blocks = _joined(self._blocks[0], self._packed(self.keys)), _joined(self._blocks[1], self._packed(self.values))
            self.keys, self.values = self.keys[..., :0, :].clone(), self.values[..., :0, :].clone()
        return whole[0], whole[1]

    def get_seq_length(self) -> int:
        return self._tokens

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Rows leave blocks and floats alike, and their memory with them."""
        if self._blocks is None:
            return
        keys, values = self._blocks
        self._blocks = _selected(keys, indices), _selected(values, indices)
        self.keys, self.values = self.keys[indices], self.values[indices]

    def crop(self, tokens_to_remove: int) -> None:
        """Raises ``NotImplementedError``: a token in a block that was closed is not taken back."""
        raise NotImplementedError("a cache in fewer bits takes no token back")

    def stored(self) -> list[torch.Tensor]:
        """Every tensor that is kept."""
        blocks = () if self._blocks is None else (*self._blocks[0], *self._blocks[1])
        return [*blocks, self.keys, self.values]

    def _packed(self, tensor: torch.Tensor) -> Block:
        return packed(tensor, self._kv.bits, self._group)


def packed(tensor: torch.Tensor, bits: int, group: int) -> Block:
    """[rows, heads, tokens, width] in groups of ``group`` elements, ``8 / bits`` codes a byte."""
    parts = tensor.unflatten(-1, (-1, group))
    low, high = parts.aminmax(dim=-1, keepdim=True)
    scale = (high - low) / (2**bits - 1)
    codes = ((parts - low) / torch.where(scale == 0, torch.ones_like(scale), scale)).round().clamp(0, 2**bits - 1).to(torch.uint8)
    per_byte = 8 // bits
    # The first of a byte's codes lies in its lowest bits.
    bytes_ = codes.unflatten(-1, (-1, per_byte))
    made = bytes_[..., 0]
    for place in range(1, per_byte):
        made = made | (bytes_[..., place] << (bits * place))
    return made.contiguous(), scale, low


def unpacked(block: Block, bits: int) -> torch.Tensor:
    """The values of a block [rows, heads, tokens, width] in the type of its scales."""
    codes, scale, low = block
    shifts = torch.arange(0, 8, bits, device=codes.device, dtype=torch.uint8)
    values = ((codes[..., None] >> shifts) & (2**bits - 1)).flatten(-2)
    return torch.addcmul(low, values.to(scale.dtype), scale).flatten(-2)


def cache_bytes(run: Any, read: int) -> int:
    """Bytes of the distinct storages behind the cache of one request: so many tokens of a prompt, and one more."""
    cache = run.new_cache()
    ids, mask, positions = run.padded([(1,) * read])
    run.last(ids, mask, positions, cache)
    run.last(ids[:, :1], mask.new_ones(1, read + 1), positions[:, -1:] + 1, cache)
    found = {one.untyped_storage().data_ptr(): one.untyped_storage().nbytes() for layer in cache.layers for one in layer.stored()}
    return sum(found.values())


def _joined(one: Block, other: Block) -> Block:
    codes, scale, low = (torch.cat(pair, dim=2) for pair in zip(one, other, strict=True))
    return codes, scale, low


def _selected(block: Block, indices: torch.Tensor) -> Block:
    codes, scale, low = (tensor[indices] for tensor in block)
    return codes, scale, low
