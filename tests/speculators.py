"""A trained pair for speculative decoding: two small Llamas that know the same text, the smaller one less well. A few seconds, on a CPU.

A random model's answers have no pattern, so what is drafted for it is never accepted; a text that repeats with a word that changes gives
drafts that are right most of the time and not always.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import tiny

COLOURS = ("red", "blue", "green", "gold")
WINDOW = 48


def text(sentences: int, seed: int) -> str:
    """Sentences that follow one pattern; which colour comes next depends on the one before, three times in four."""
    rng = random.Random(seed)
    place, made = 0, []
    for _ in range(sentences):
        place = (place + 1) % 4 if rng.random() < 0.75 else rng.randrange(4)
        made.append(f"the {COLOURS[place]} box. ")
    return "".join(made)


def prompts(count: int) -> list[str]:
    """Beginnings of such texts, of different lengths."""
    return [text(3, 100 + number)[: 24 + 3 * (number % 5)] for number in range(count)]


def train(folder: Path, *, hidden: int, layers: int, steps: int, vocabulary: int = tiny.VOCABULARY) -> Path:
    """Train a Llama on the text and save it with the tokenizer; the same weights every time on one machine."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary, hidden_size=hidden, intermediate_size=2 * hidden, num_hidden_layers=layers, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=256, tie_word_embeddings=True, bos_token_id=tiny.BOS_ID, eos_token_id=tiny.EOS_ID,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    ids = torch.tensor(tiny.tokenizer()(text(400, 1), add_special_tokens=False)["input_ids"])
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    rng = random.Random(2)
    for _ in range(steps):
        starts = [rng.randrange(len(ids) - WINDOW) for _ in range(8)]
        rows = torch.stack([ids[start : start + WINDOW] for start in starts])
        loss: Any = model(input_ids=rows, labels=rows).loss
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
    return tiny.saved(model, folder)
