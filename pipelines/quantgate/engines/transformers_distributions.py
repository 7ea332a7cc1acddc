"""Logits after every token of one text, a block at a time.

The text goes through the model in parts, each part once and on the cache of those before it, with the model's own
forward: so whatever a model does to its logits (soft caps, scales) is in them, and no array of text x vocabulary is
ever made. A part is as long as its logits fit ``BLOCK_BYTES``; a text of one part needs no cache.

Where the cache is kept in fewer bits the text is read as it would be written: its first token alone, then no more tokens
at once than the cache keeps in float (``stretch``), so that all logits but the first token's have seen the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

BLOCK_BYTES = 64 * 2**20


class Reading:
    """One text under way; its blocks are asked for in order, each once."""

    def __init__(
        self, tokens: tuple[int, ...], vocabulary: int, device: torch.device, new_cache: Callable[[], Any], stretch: int | None = None
    ) -> None:
        self._tokens, self._device = tokens, device
        self._rows = max(1, BLOCK_BYTES // (4 * vocabulary))
        if stretch is not None:
            self._rows = min(self._rows, stretch)
        self._first = None if stretch is None else 1
        self._cache = new_cache() if stretch is not None or len(tokens) > self._rows else None

    def parts(self) -> Iterator[slice]:
        """The stretches of the text, in order."""
        first = self._first or self._rows
        yield slice(0, min(first, len(self._tokens)))
        for start in range(first, len(self._tokens), self._rows):
            yield slice(start, min(start + self._rows, len(self._tokens)))

    def block(self, part: slice, forward: Callable[..., torch.Tensor]) -> Any:
        """Float32 logits [tokens of the part, vocabulary]."""
        ids = torch.tensor([self._tokens[part]], device=self._device)
        mask = torch.ones(1, part.stop, dtype=torch.long, device=self._device)
        positions = torch.arange(part.start, part.stop, device=self._device)[None]
        return forward(ids, mask, positions, self._cache, keep=part.stop - part.start)[0].cpu().numpy()
