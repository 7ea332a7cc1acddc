"""Rows whose next tokens the caller brings and may take back: what speculative decoding needs of a model.

All rows share one cache and one mask. A token that is taken back is masked out for its row; slots that no row uses any more are cut off the
cache's end. So rows may accept different numbers of tokens, at the price of some slots that stay empty. Positions are given one by one, so
an empty slot moves nothing. That needs layers that keep every token: a window or a recurrence cannot forget.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch

from quantgate.engines.transformers_forward import Forward
from quantgate.errors import EngineError, NumericallyInvalid
from quantgate.records import ModelShape

Act: TypeAlias = Callable[[str, Callable[[], Any]], Any]
"""Runs something of a model, without autograd and with the errors of its library translated."""
_FORGETFUL = frozenset({"full", "latent"})
"""Kinds of layers that can give up their last tokens."""


def why_no_trail(run: Forward, shape: ModelShape) -> str | None:
    """Why this model's cache cannot be followed, or None."""
    if run.blocks is not None:
        return "its cache is kept in fewer bits, and a token in a block is not taken back"
    kept = sorted({layer.kind for layer in shape.layers} - _FORGETFUL)
    if kept or any(layer.window for layer in shape.layers):
        what = kept[0] if kept else "window"
        return f"it has layers of kind {what}, whose cache cannot take tokens back; full attention is needed in every layer"
    if not run.accepts("position_ids"):
        return "its forward takes no positions, and rows that accept different numbers of tokens need them"
    return None


class TransformersTrail:
    """See ``ports.Trail``."""

    def __init__(self, run: Forward, contexts: Sequence[tuple[int, ...]], act: Act) -> None:
        self._run, self._act = run, act
        self._lengths = [len(context) for context in contexts]
        self._cache: Any = run.new_cache()
        self._mask: torch.Tensor
        self._logits: torch.Tensor
        self.first: list[int] = act("reading prompts", lambda: self._begin(contexts))

    def read(self, tokens: Sequence[Sequence[int]]) -> list[list[int]]:
        found: list[list[int]] = self._act("reading drafts", lambda: self._read(tokens))
        return found

    def last_logits(self) -> Any:
        return self._logits.cpu().numpy()

    def take_back(self, counts: Sequence[int]) -> None:
        self._act("taking drafts back", lambda: self._take_back(counts))

    def keep(self, rows: Sequence[int]) -> None:
        if list(rows) != list(range(len(self._lengths))):
            self._act("letting rows leave", lambda: self._keep(rows))

    def close(self) -> None:
        self._cache = None

    def _begin(self, contexts: Sequence[tuple[int, ...]]) -> list[int]:
        ids, self._mask, positions = self._run.padded(contexts)
        self._logits = self._run.last(ids, self._mask, positions, self._cache)[:, None]
        return [row[0] for row in self._likeliest([1] * len(contexts))]

    def _read(self, tokens: Sequence[Sequence[int]]) -> list[list[int]]:
        width = max(map(len, tokens), default=0)
        if not width:
            return [[] for _ in tokens]
        device = self._mask.device
        ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in tokens], device=device)
        own = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in tokens], device=device)
        positions = torch.tensor(self._lengths, device=device)[:, None] + torch.arange(width, device=device)
        self._mask = torch.cat([self._mask, own], dim=1)
        self._logits = self._run.last(ids, self._mask, positions, self._cache, keep=width)
        self._lengths = [length + len(row) for length, row in zip(self._lengths, tokens, strict=True)]
        found = self._likeliest([len(row) for row in tokens])
        self._trim()
        return found

    def _take_back(self, counts: Sequence[int]) -> None:
        for row, back in enumerate(counts):
            if back:
                places = self._mask[row].nonzero().squeeze(1)
                self._mask[row, places[len(places) - back :]] = 0
                self._lengths[row] -= back
        self._trim()

    def _keep(self, rows: Sequence[int]) -> None:
        chosen = torch.tensor(list(rows), device=self._mask.device)
        self._mask, self._logits = self._mask[chosen], self._logits[chosen]
        self._cache.batch_select_indices(chosen)
        self._lengths = [self._lengths[row] for row in rows]
        self._trim()

    def _trim(self) -> None:
        """Cut off the slots at the end that no row uses."""
        used = self._mask.any(dim=0).nonzero()
        kept = int(used[-1]) + 1 if len(used) else 0
        if (over := self._mask.shape[1] - kept) > 0:
            self._mask = self._mask[:, :kept]
            self._cache.crop(-over)

    def _likeliest(self, counts: Sequence[int]) -> list[list[int]]:
        low, high = torch.aminmax(self._logits, dim=-1)
        finite = (torch.isfinite(low) & torch.isfinite(high)).tolist()
        if not all(all(row[:count]) for row, count in zip(finite, counts, strict=True)):
            raise NumericallyInvalid("logits are not finite")
        found: list[list[int]] = self._logits.argmax(dim=-1).tolist()
        return [row[:count] for row, count in zip(found, counts, strict=True)]


def follow(run: Forward, shape: ModelShape, contexts: Sequence[tuple[int, ...]], act: Act) -> TransformersTrail:
    """Read the contexts. Raises ``EngineError`` where the model's cache cannot take tokens back."""
    if (why := why_no_trail(run, shape)) is not None:
        raise EngineError(f"this model cannot be followed: {why}")
    return TransformersTrail(run, contexts, act)
