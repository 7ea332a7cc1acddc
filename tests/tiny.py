"""Tiny random models with a tokenizer, built offline in well under a second: a Llama (with and without GQA) and a GPT-2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from quantgate.records import Artifact, Variant

BOS, EOS = "<s>", "</s>"
BOS_ID, EOS_ID, FIRST_BYTE_ID = 1, 2, 3
VOCABULARY = 300
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}[{{ message['role'] }}]{{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)


def tokenizer(*, adds_bos: bool = False, chat_template: str | None = CHAT_TEMPLATE) -> Any:
    """A byte-level tokenizer without merges and without a pad token: id 0 unknown, 1 BOS, 2 EOS, then the 256 bytes, then fillers."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    names = ["<unk>", BOS, EOS, *alphabet]
    names += [f"<filler{number}>" for number in range(VOCABULARY - len(names))]
    vocabulary = {name: number for number, name in enumerate(names)}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    if adds_bos:
        from tokenizers.processors import TemplateProcessing

        backend.post_processor = TemplateProcessing(single=f"{BOS} $A", special_tokens=[(BOS, BOS_ID)])
    wrapped = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token=BOS, eos_token=EOS, unk_token="<unk>")
    wrapped.chat_template = chat_template
    return wrapped


def llama(
    folder: Path, *, kv_heads: int = 2, tied: bool = True, seed: int = 0, adds_bos: bool = False, intermediate: int = 128
) -> Path:
    """Save a random Llama of 2 layers, hidden 64, 4 heads; weights larger than usual, so that logits differ clearly."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=intermediate,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=kv_heads,
        max_position_embeddings=512,
        tie_word_embeddings=tied,
        initializer_range=0.15,
        bos_token_id=BOS_ID,
        eos_token_id=EOS_ID,
    )
    return saved(LlamaForCausalLM(config), folder, adds_bos=adds_bos)


def gpt2(folder: Path, *, seed: int = 0) -> Path:
    """Save a random GPT-2 of 2 layers, hidden 64, 4 heads: its projections are Conv1D and its head is tied."""
    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=256,
        n_embd=64,
        n_layer=2,
        n_head=4,
        initializer_range=0.15,
        bos_token_id=BOS_ID,
        eos_token_id=EOS_ID,
    )
    return saved(GPT2LMHeadModel(config), folder, adds_bos=False)


def saved(model: Any, folder: Path, *, adds_bos: bool = False) -> Path:
    """Save a model with the tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    model.eval().save_pretrained(folder)
    tokenizer(adds_bos=adds_bos).save_pretrained(folder)
    return folder


def artifact(folder: Path, *, variant: str = "reference", **fields: Any) -> Artifact:
    """The folder as an unquantized artifact; ``fields`` override."""
    facts = {
        "variant": variant,
        "path": str(folder),
        "format": "safetensors",
        "stored_bytes": 0,
        "sha256": "",
        **fields,
    }
    return Artifact(**facts)


def variant(name: str, quantizer: str, **fields: Any) -> Variant:
    """A variant with the given fields."""
    return Variant(name=name, quantizer=quantizer, **fields)


def wide_llama(folder: Path) -> Path:
    """Save a random Llama wide enough that the few bytes beside its scales do not count: hidden 256."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=512, tie_word_embeddings=True,
    )  # fmt: skip
    return saved(LlamaForCausalLM(config), folder, adds_bos=False)


def fat_cache_llama(folder: Path) -> Path:
    """Save a random Llama that computes little and keeps much: 32 KiB of float32 cache a token beside 38 MB of weights."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=512, intermediate_size=64, num_hidden_layers=8, num_attention_heads=8,
        num_key_value_heads=8, max_position_embeddings=512, tie_word_embeddings=True, bos_token_id=BOS_ID, eos_token_id=EOS_ID,
    )  # fmt: skip
    return saved(LlamaForCausalLM(config), folder, adds_bos=False)
