"""One forward of a transformers model: what goes in, what the model accepts, and logits only where they are wanted."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from transformers import DynamicCache

from quantgate.engines.transformers_kv_cache import Blocks
from quantgate.errors import EngineError


class Forward:
    """A loaded model, called. ``close`` lets go of the weights; then every call raises ``EngineError``."""

    def __init__(self, model: Any, blocks: Blocks | None = None) -> None:
        self._model: Any = model
        self.blocks = blocks
        """How the cache is kept in fewer bits; None: in the model's float type."""
        self._accepts = frozenset(inspect.signature(model.forward).parameters)
        self.device = next(model.parameters()).device
        self.dtype: torch.dtype = model.dtype

    @property
    def model(self) -> Any:
        """The model itself."""
        if self._model is None:
            raise EngineError("the session is closed")
        return self._model

    def close(self) -> None:
        """Drop the weights."""
        self._model = None

    def accepts(self, *names: str) -> bool:
        """Whether the model's forward has all these arguments."""
        return self._accepts.issuperset(names)

    def padded(self, contexts: Sequence[tuple[int, ...]]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Ids, mask and positions [rows, longest], padded on the left with id 0 under mask 0."""
        width = max(len(tokens) for tokens in contexts)
        ids = torch.tensor([[0] * (width - len(tokens)) + list(tokens) for tokens in contexts], device=self.device)
        mask = torch.tensor(
            [[0] * (width - len(tokens)) + [1] * len(tokens) for tokens in contexts], device=self.device
        )
        return ids, mask, (mask.cumsum(dim=1) - 1).clamp(min=0)

    def new_cache(self) -> Any:
        """An empty cache."""
        if self.blocks is not None:
            return self.blocks.new_cache()
        return DynamicCache(config=self.model.config)

    def last(
        self, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor, cache: Any, *, keep: int | None = None
    ) -> torch.Tensor:
        """Float32 logits of the last position [rows, vocabulary], or with ``keep`` of the last ``keep`` ones [rows, keep, vocabulary]."""
        extra: dict[str, Any] = {"logits_to_keep": keep or 1} if self.accepts("logits_to_keep") else {}
        if self.accepts("position_ids"):
            extra["position_ids"] = positions
        if cache is not None:
            extra["cache" if self.accepts("cache") else "past_key_values"] = cache
        logits = self.model(input_ids=ids, attention_mask=mask, use_cache=cache is not None, **extra).logits
        found: torch.Tensor = logits[:, -1, :] if keep is None else logits[:, -keep:, :]
        return found.float()

    def chosen(
        self, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor, wanted: torch.Tensor
    ) -> torch.Tensor:
        """Logits [wanted positions, vocabulary] in the model's own type, in row order; ``mask`` is additive, [rows, 1, width, width]."""
        logits: torch.Tensor = self.model(
            input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False, logits_to_keep=wanted
        ).logits
        return logits.reshape(-1, logits.shape[-1])
