"""Score a golden set with plain transformers and print the accuracy per half and per slice.

    python benchmarks/golden/measure_everyday.py --items golden_sets/everyday/v1/items.jsonl \
        --model MODEL_DIR [--variant nf4|int8] [--out results.json] [--against other-results.json]

The model is a Hugging Face folder, or with --gguf-file a folder that holds that GGUF file (dequantized on loading).
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
from build_everyday import normalise
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig, StoppingCriteria, StoppingCriteriaList

Item = dict[str, Any]


def encode_prompt(tokenizer: Any, item: Item) -> list[int]:
    text = item.get("few_shot", "") + item["prompt"]
    if item["template"] == "chat":
        text = tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True
        )
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def pad(rows: list[list[int]], fill: int, left: bool) -> tuple[torch.Tensor, torch.Tensor]:
    width = max(map(len, rows))
    ids = torch.full((len(rows), width), fill)
    mask = torch.zeros((len(rows), width), dtype=torch.long)
    for i, row in enumerate(rows):
        where = slice(width - len(row), width) if left else slice(0, len(row))
        ids[i, where] = torch.tensor(row)
        mask[i, where] = 1
    return ids, mask


@torch.inference_mode()
def score_choices(model: Any, tokenizer: Any, items: list[Item], batch: int) -> dict[str, list[float]]:
    """Summed log-likelihood of every choice.  Inputs shared by several choices run once."""
    wanted: dict[tuple[int, ...], list[tuple[str, int, int, list[int]]]] = defaultdict(list)
    for item in items:
        prompt = encode_prompt(tokenizer, item)
        for c, choice in enumerate(item["choices"]):
            tail = list(tokenizer(" " + choice, add_special_tokens=False)["input_ids"])
            wanted[tuple(prompt + tail[:-1])].append((item["id"], c, len(prompt), tail))
    scores: dict[str, list[float]] = {item["id"]: [0.0] * len(item["choices"]) for item in items}
    rows = sorted(wanted, key=len)
    for start in range(0, len(rows), batch):
        part = rows[start : start + batch]
        ids, mask = pad([list(r) for r in part], tokenizer.pad_token_id, left=False)
        hidden = model.model(input_ids=ids, attention_mask=mask).last_hidden_state
        for i, row in enumerate(part):
            first = min(length for _, _, length, _ in wanted[row]) - 1
            logs = torch.log_softmax(model.lm_head(hidden[i, first : len(row)]).float(), dim=-1)
            for item_id, c, length, tail in wanted[row]:
                at = length - 1 - first
                scores[item_id][c] = sum(float(logs[at + k, token]) for k, token in enumerate(tail))
    return scores


class StopAtStrings(StoppingCriteria):
    """Ends each row as soon as its own text holds one of its stop strings or its budget is spent."""

    def __init__(self, tokenizer: Any, items: list[Item], width: int) -> None:
        self.tokenizer, self.items, self.width = tokenizer, items, width

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        done = []
        for item, row in zip(self.items, input_ids[:, self.width :], strict=True):
            text = self.tokenizer.decode(row, skip_special_tokens=True)
            done.append(len(row) >= item["max_new_tokens"] or any(s in text for s in item["stop"]))
        return torch.tensor(done)


@torch.inference_mode()
def generate(model: Any, tokenizer: Any, items: list[Item], batch: int) -> dict[str, str]:
    """Greedy continuation of every generated item."""
    prompts = {item["id"]: encode_prompt(tokenizer, item) for item in items}
    order = sorted(items, key=lambda item: len(prompts[item["id"]]))
    texts: dict[str, str] = {}
    for start in range(0, len(order), batch):
        part = order[start : start + batch]
        ids, mask = pad([prompts[item["id"]] for item in part], tokenizer.pad_token_id, left=True)
        stop = StoppingCriteriaList([StopAtStrings(tokenizer, part, ids.shape[1])])
        out = model.generate(
            input_ids=ids,
            attention_mask=mask,
            do_sample=False,
            max_new_tokens=max(item["max_new_tokens"] for item in part),
            stopping_criteria=stop,
            pad_token_id=tokenizer.pad_token_id,
        )
        for item, row in zip(part, out[:, ids.shape[1] :], strict=True):
            texts[item["id"]] = tokenizer.decode(row[: item["max_new_tokens"]], skip_special_tokens=True)
    return texts


def load(model_dir: str, gguf_file: str | None, variant: str | None) -> tuple[Any, Any]:
    extra: dict[str, Any] = {"gguf_file": gguf_file} if gguf_file else {}
    tokenizer = AutoTokenizer.from_pretrained(model_dir, **extra)
    if variant == "nf4":
        extra["quantization_config"] = BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.float32
        )
    elif variant == "int8":
        extra["quantization_config"] = BitsAndBytesConfig(load_in_8bit=True)
    model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32, **extra)
    return model.eval(), tokenizer


def report(items: list[Item], rows: dict[str, dict[str, Any]], kinds: dict[str, str]) -> None:
    groups: dict[str, list[bool]] = defaultdict(list)
    for item in items:
        right = rows[item["id"]]["right"]
        half = "choice" if item["metric"] == "multiple_choice" else "generated"
        groups[f"0 half: {half}"].append(right)
        groups[f"1 slice: {item['slice']}"].append(right)
        groups[f"2 slice and half: {item['slice']}, {half}"].append(right)
        if kinds:
            groups[f"3 kind: {item['slice']}, {half}, {kinds[item['id']]}"].append(right)
    for name, values in sorted(groups.items()):
        print(f"{name[2:]:60s} n={len(values):4d}  accuracy={sum(values) / len(values):.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=Path, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--gguf-file")
    parser.add_argument("--variant", choices=("nf4", "int8"))
    parser.add_argument("--kinds", type=Path, help="id-to-kind map written by build_everyday.py --kinds")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, help="write every score, text and verdict here")
    parser.add_argument("--against", type=Path, help="an earlier --out of the reference: print b, c and n")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    items = [json.loads(line) for line in args.items.read_text(encoding="utf-8").splitlines()]
    kinds = json.loads(args.kinds.read_text(encoding="utf-8")) if args.kinds else {}
    model, tokenizer = load(args.model, args.gguf_file, args.variant)
    lengths = {item["id"]: len(encode_prompt(tokenizer, item)) for item in items}
    longest = max(lengths, key=lambda item_id: lengths[item_id])
    print(f"items={len(items)}  longest prompt={lengths[longest]} tokens ({longest})")
    print(f"mean prompt={sum(lengths.values()) / len(lengths):.1f} tokens")

    started = time.perf_counter()
    choice_items = [item for item in items if item["metric"] == "multiple_choice"]
    scores = score_choices(model, tokenizer, choice_items, args.batch)
    halfway = time.perf_counter()
    texts = generate(model, tokenizer, [item for item in items if item["metric"] == "exact_match"], args.batch)
    ended = time.perf_counter()

    rows: dict[str, dict[str, Any]] = {}
    for item in items:
        if item["metric"] == "multiple_choice":
            got = scores[item["id"]]
            rows[item["id"]] = {"scores": got, "right": got.index(max(got)) == item["answer"]}
        else:
            said = normalise(texts[item["id"]], item["stop"])
            accepted = {normalise(answer) for answer in item["answers"]}
            rows[item["id"]] = {"text": texts[item["id"]], "right": said in accepted}
    report(items, rows, kinds)
    print(f"seconds: choices {halfway - started:.1f}, generated {ended - halfway:.1f}")
    if args.out:
        args.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    if args.against:
        reference = json.loads(args.against.read_text(encoding="utf-8"))
        b = sum(reference[i]["right"] and not rows[i]["right"] for i in rows)
        c = sum(rows[i]["right"] and not reference[i]["right"] for i in rows)
        print(f"b (lost)={b}  c (gained)={c}  n={len(rows)}  loss={(b - c) / len(rows):.4f}")


if __name__ == "__main__":
    main()
