"""Builds calibration_sets/self-written.jsonl: texts that SmolLM2-135M-Instruct writes itself, sampled with a fixed seed.

A quantizer is calibrated on what the model reads and writes in use. Questions are put together from our own lists and are no golden items;
answers are the model's own. About 14,000 tokens, a few minutes on two cores:

    python benchmarks/build_calibration.py MODEL_FOLDER calibration_sets/self-written.jsonl
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

SEED = 20251129
ROWS = 14
NEW_TOKENS = 160
TEMPERATURE = 0.8
TOP_K = 50

TOPICS = (
    "bread", "tides", "a bicycle", "the moon", "bees", "glass", "a small garden", "rivers", "a library", "steam engines",
    "honey", "winter", "a lighthouse", "paper", "cotton", "volcanoes", "a market", "salt", "tea", "clouds",
    "a railway station", "wood", "owls", "a bakery",
    "rice", "deserts", "a school play", "rubber", "whales", "wind turbines", "a museum", "potatoes",
)  # fmt: skip
ASKED = (
    "Explain in a few sentences how {0} came to matter to people.",
    "Write a short story for a child about {0}.",
    "List five practical facts about {0}, one a line.",
    "Write a polite letter to a neighbour that mentions {0}.",
    "What should a beginner know about {0}? Answer in one paragraph.",
    "Write a short dialogue between a teacher and a pupil about {0}.",
)
SUMS = (
    "A shop sells {a} boxes of {0} on Monday and {b} more on Tuesday, at {c} coins a box. How much does it take in? Show each step.",
    "{a} friends share the cost of a trip about {0}: {b} coins for the bus and {c} coins for lunch, for each of them. "
    "What do they pay in all?",
    "Mina reads {a} pages about {0} every day. Her book has {b} pages and she has read {c}. How many days are left? Explain the steps.",
)
OPENINGS = (
    "The history of {0} begins long before anyone wrote about it. ",
    "def describe(topic):\n    \"\"\"Return a sentence about {0}.\"\"\"\n",
    "It was late when Tomas finally heard about {0}, and ",
    "Three things are often said about {0}. First, ",
)


def questions(rng: random.Random) -> list[tuple[str, bool]]:
    """Every text to start from, and whether it is put as a question."""
    made: list[tuple[str, bool]] = []
    for topic in TOPICS:
        made.append((rng.choice(ASKED).format(topic), True))
        numbers = {"a": rng.randint(3, 19), "b": rng.randint(20, 140), "c": rng.randint(2, 18)}
        made.append((rng.choice(SUMS).format(topic, **numbers), True))
        made.append((rng.choice(OPENINGS).format(topic), False))
    return made


def main() -> None:
    """Sample every text and write one JSON object a line."""
    folder, into = sys.argv[1], Path(sys.argv[2])
    torch.manual_seed(SEED)
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    lines: list[str] = []
    made = questions(random.Random(SEED))
    for start in range(0, len(made), ROWS):
        lines += _sampled(model, tokenizer, made[start : start + ROWS])
        print(f"{len(lines)} of {len(made)}", file=sys.stderr)
    into.write_text("".join(lines), encoding="utf-8")


def _sampled(model: object, tokenizer: object, part: list[tuple[str, bool]]) -> list[str]:
    texts = [
        tokenizer.apply_chat_template([{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True) if asked else text
        for text, asked in part
    ]
    inputs = tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False)
    ids = model.generate(
        **inputs, max_new_tokens=NEW_TOKENS, do_sample=True, temperature=TEMPERATURE, top_k=TOP_K, pad_token_id=tokenizer.pad_token_id
    )
    answers = tokenizer.batch_decode(ids[:, inputs.input_ids.shape[1] :], skip_special_tokens=True)
    lines = []
    for (text, asked), answer in zip(part, answers, strict=True):
        turns = [{"role": "user", "content": text}, {"role": "assistant", "content": answer.strip()}]
        lines.append(json.dumps({"messages": turns} if asked else {"text": text + answer.rstrip()}, ensure_ascii=False) + "\n")
    return lines


if __name__ == "__main__":
    main()
