"""Text to ids and back, with one begin-of-sequence id at most and every end-of-sequence id that the model may stop at."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from quantgate.errors import ConfigError
from quantgate.records import GoldenItem


class TransformersTokenizer:
    """Wraps a transformers tokenizer. ``generation`` is the model's generation config, which may name more stop ids."""

    def __init__(self, tokenizer: Any, generation: Any) -> None:
        self._tokenizer = tokenizer
        self.bos_id: int | None = _bos_in_use(tokenizer)
        self.eos_ids: tuple[int, ...] = _eos_ids(tokenizer, generation)
        self.vocabulary_size: int = len(tokenizer)
        self.has_template: bool = bool(tokenizer.chat_template)
        self.digest: str = _digest(tokenizer)

    def encode(self, text: str, *, add_bos: bool) -> tuple[int, ...]:
        """Ids of the text. A BOS that the chat template wrote already is kept and not doubled."""
        ids = list(self._tokenizer(text, add_special_tokens=False)["input_ids"])
        if not add_bos or self.bos_id is None:
            return tuple(ids)
        while ids and ids[0] == self.bos_id:
            ids.pop(0)
        return (self.bos_id, *ids)

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text

    def pieces(self) -> Sequence[str]:
        """As the tokenizer's table writes them; an id without an entry is empty."""
        table = {number: piece for piece, number in self._tokenizer.get_vocab().items()}
        return [table.get(number, "") for number in range(max(table, default=-1) + 1)]

    def render(self, item: GoldenItem) -> str:
        """Raises ``ConfigError`` where the item asks for a chat template and the model has none."""
        text = item.few_shot + item.prompt
        if not item.messages and (item.template == "raw" or (item.template == "auto" and not self.has_template)):
            return text
        if not self.has_template:
            raise ConfigError(
                f"item {item.item_id} asks for the chat template, and this model's tokenizer has none: set template to raw for base models"
            )
        turns = [{"role": one.role, "content": one.content} for one in item.messages] or [{"role": "user", "content": text}]
        rendered: str = self._tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        return rendered


def _bos_in_use(tokenizer: Any) -> int | None:
    """The BOS id if the tokenizer itself puts it in front. Many define one that their model never saw there."""
    bos_id = tokenizer.bos_token_id
    if bos_id is None:
        return None
    return int(bos_id) if list(tokenizer("a")["input_ids"])[:1] == [bos_id] else None


def _eos_ids(tokenizer: Any, generation: Any) -> tuple[int, ...]:
    configured = getattr(generation, "eos_token_id", None)
    found = list(configured) if isinstance(configured, (list, tuple)) else [configured]
    return tuple(sorted({int(token) for token in [*found, tokenizer.eos_token_id] if token is not None}))


def _digest(tokenizer: Any) -> str:
    document = {"vocabulary": tokenizer.get_vocab(), "chat_template": tokenizer.chat_template}
    return hashlib.sha256(json.dumps(document, sort_keys=True, ensure_ascii=True).encode()).hexdigest()
