"""The shapes in a GGUF file's own tables, as the config.json and the matrices of the float model it unpacks to. Reads no weight."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf

from quantgate.errors import ConfigError
from quantgate.parameters import Matrices, Part

_FAMILIES = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "granite": "granite", "smollm3": "smollm3"}
_KEYS = {
    "num_hidden_layers": "block_count",
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "max_position_embeddings": "context_length",
}


def read(file: Path) -> tuple[dict[str, Any], tuple[Matrices, ...]]:
    """Config and matrices. Raises ``ConfigError`` for a file that is no GGUF, or of an architecture that is not known here."""
    try:
        reader = gguf.GGUFReader(str(file))
    except (ValueError, OSError, KeyError, IndexError) as error:
        raise ConfigError(f"not a GGUF file: {error}", file=str(file)) from None
    architecture = str(_value(reader, "general.architecture"))
    if architecture not in _FAMILIES:
        raise ConfigError(f"the GGUF architecture {architecture} is not known; known are {', '.join(_FAMILIES)}", file=str(file))
    tensors = {str(tensor.name): tuple(int(size) for size in reversed(tensor.shape.tolist())) for tensor in reader.tensors}
    if (vocabulary := tensors.get("token_embd.weight")) is None:
        raise ConfigError("the GGUF file has no token_embd.weight", file=str(file))
    found = {key: _value(reader, f"{architecture}.{name}") for key, name in _KEYS.items()}
    config = {key: value for key, value in found.items() if value is not None}
    config |= {"model_type": _FAMILIES[architecture], "vocab_size": vocabulary[0], "tie_word_embeddings": "output.weight" not in tensors}
    return config, tuple(_matrices(name, shape) for name, shape in tensors.items())


def _value(reader: Any, key: str) -> Any:
    found = reader.get_field(key)
    value = None if found is None else found.contents()
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _matrices(name: str, shape: tuple[int, ...]) -> Matrices:
    if name.startswith("rope_") or len(shape) < 2:
        return Matrices(part="other", rows=shape[0] if shape else 1)
    part: Part = "embedding" if name == "token_embd.weight" else "head" if name == "output.weight" else "linear"
    return Matrices(part=part, rows=shape[0], columns=shape[1])
