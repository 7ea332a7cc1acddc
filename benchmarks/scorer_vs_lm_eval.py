r"""Scores one multiple-choice file with quantgate's session and with lm-evaluation-harness, side by side, and compares time and answers.

    python benchmarks/scorer_vs_lm_eval.py items.jsonl MODEL_FOLDER [--slices 8] [--items N] [--batch-sizes 16] [--threads 1]

Both use the same loaded float32 model and the same threads in one process. The file goes in contiguous slices, and who begins alternates,
so that a machine that is busy or drifts hurts both alike. Time runs from the first forward's begin to the last one's end; processor time
stands beside wall time, because on a busy machine with one thread it is the one that repeats. Arithmetic is counted from the shapes that
went through the model. Needs ``lm_eval``, which quantgate itself does not depend on.

Lines of the file: ``prompt``, ``choices``, ``answer`` and perhaps ``id`` and ``slice``. Scored is
`prompt + "\nAnswer:"`, then `" " + choice`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from transformers import AutoTokenizer

from quantgate.devices.cpu import CpuDevice
from quantgate.engines.transformers import TransformersEngine
from quantgate.metrics.multiple_choice import MultipleChoice
from quantgate.records import Artifact, BatchPlan, DeviceConfig, EngineSettings, GoldenItem, GoldenSet
from quantgate.stages.score import Job, score

SUFFIX = "\nAnswer:"
Answers = list[tuple[float, ...]]


@dataclass(slots=True)
class Meter:
    """What went through a model, and from when to when."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    forwards: int = 0
    tokens: int = 0
    logits: int = 0
    pairs: int = 0
    _began: tuple[float, float] | None = None
    _ended: tuple[float, float] = (0.0, 0.0)

    def begin(self) -> None:
        self._began = self._began or (time.perf_counter(), time.process_time())

    def end(self, ids: Any, logits: Any) -> None:
        self._ended = (time.perf_counter(), time.process_time())
        self.forwards += 1
        self.tokens += ids.numel()
        self.logits += logits.numel() // logits.shape[-1]
        self.pairs += ids.numel() * ids.shape[-1]

    def stop(self) -> None:
        """Close one stretch of work."""
        if self._began is not None:
            self.wall_s += self._ended[0] - self._began[0]
            self.cpu_s += self._ended[1] - self._began[1]
        self._began = None

    def flops(self, model: Any) -> float:
        """Multiply-adds twice: weights of the body a token, of the head a projected position, attention a pair of positions."""
        config = model.config
        head = config.vocab_size * config.hidden_size
        body = sum(one.numel() for one in model.parameters()) - head  # the tied head is the embedding, which multiplies nothing
        attention = 2 * config.num_hidden_layers * config.num_attention_heads * config.head_dim
        return 2.0 * (body * self.tokens + head * self.logits + attention * self.pairs)


@contextmanager
def metered(model: Any, meter: Meter) -> Iterator[None]:
    """Watch the model's forwards for one stretch of work."""
    forward = model.forward

    def watched(*given: Any, **named: Any) -> Any:
        meter.begin()
        out = forward(*given, **named)
        meter.end(given[0] if given else named["input_ids"], out.logits)
        return out

    model.forward = watched
    try:
        yield
    finally:
        del model.forward
        meter.stop()


@dataclass(slots=True)
class Side:
    """One way of scoring, with its answers so far."""

    name: str
    run: Callable[[Sequence[GoldenItem]], Answers]
    meter: Meter = field(default_factory=Meter)
    answers: Answers = field(default_factory=list)


def main() -> None:
    given = arguments()
    items = load(given.data)[:: given.every]
    artifact = Artifact(variant="reference", path=str(given.model), format="safetensors", stored_bytes=0, sha256="")
    device = CpuDevice(DeviceConfig(threads=given.threads))
    with TransformersEngine().open(artifact, EngineSettings(threads=given.threads, dtype="float32"), device) as session:
        model = session._run.model
        plan = BatchPlan(token_budget=given.token_budget, max_rows=given.max_rows)
        sides = [Side("quantgate", lambda part: ours(session, device, plan, part))]
        tokenizer = AutoTokenizer.from_pretrained(str(given.model))
        for size in given.batch_sizes:
            lm = HFLM(pretrained=model, tokenizer=tokenizer, batch_size=size, max_length=2048)
            sides.append(Side(f"lm_eval, batch {size}", lambda part, lm=lm: theirs(lm, part)))
        print(f"{len(items)} items, {torch.get_num_threads()} thread(s), layout {session.loaded.score_layout}, {plan}", flush=True)
        for number, part in enumerate(slices(items, given.slices)):
            for side in sides if number % 2 == 0 else sides[::-1]:
                with metered(model, side.meter):
                    side.answers += side.run(part)
            print(f"slice {number + 1}/{given.slices}: {line(sides)}", flush=True)
        report(sides, items, model)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("data", type=Path)
    parser.add_argument("model", type=Path, help="folder of the float32 reference")
    parser.add_argument("--slices", type=int, default=8)
    parser.add_argument("--every", type=int, default=1, help="take every n-th item only")
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[16], help="of lm_eval")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--token-budget", type=int, default=BatchPlan().token_budget)
    parser.add_argument("--max-rows", type=int, default=BatchPlan().max_rows)
    return parser.parse_args()


def load(path: Path) -> list[GoldenItem]:
    rows = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]
    return [
        GoldenItem(
            item_id=str(row.get("id", number)),
            slice=row.get("slice", "all"),
            prompt=row["prompt"] + SUFFIX,
            metric="multiple_choice",
            choices=tuple(row["choices"]),
            answer=row["answer"],
            template="raw",
        )
        for number, row in enumerate(rows)
    ]


def slices(items: Sequence[GoldenItem], count: int) -> Iterator[Sequence[GoldenItem]]:
    for number in range(count):
        yield items[number * len(items) // count : (number + 1) * len(items) // count]


def ours(session: Any, device: CpuDevice, plan: BatchPlan, items: Sequence[GoldenItem]) -> Answers:
    golden = GoldenSet(name="benchmark", version="1", sha256="", items=tuple(items), path="")
    job = Job(variant="reference", golden=golden, metrics={"multiple_choice": MultipleChoice()}, plan=plan)
    sheet = score(session, device, job, lambda done, total, what: None)
    return [tuple(float("nan") if one is None else one for one in item.evidence.loglikelihoods) for item in sheet.items]


def theirs(lm: Any, items: Sequence[GoldenItem]) -> Answers:
    pairs = [(item.prompt, f" {choice}") for item in items for choice in item.choices]
    requests = [Instance(request_type="loglikelihood", doc={}, arguments=pair, idx=n) for n, pair in enumerate(pairs)]
    found = iter(lm.loglikelihood(requests, disable_tqdm=True))
    return [tuple(next(found)[0] for _ in item.choices) for item in items]


def chosen(item: GoldenItem, totals: tuple[float, ...], *, by_length: bool) -> int:
    """The likeliest choice, or with ``by_length`` the likeliest a character, as lm-evaluation-harness normalises."""
    values = [total / (len(choice) if by_length else 1) for total, choice in zip(totals, item.choices, strict=True)]
    return values.index(max(values))


def accuracy(items: Sequence[GoldenItem], answers: Answers, *, by_length: bool) -> float:
    right = [chosen(item, totals, by_length=by_length) == item.answer for item, totals in zip(items, answers, strict=True)]
    return sum(right) / len(right)


def line(sides: Sequence[Side]) -> str:
    return ", ".join(f"{side.name} {side.meter.wall_s:.1f} s wall {side.meter.cpu_s:.1f} s processor" for side in sides)


def report(sides: Sequence[Side], items: Sequence[GoldenItem], model: Any) -> None:
    first = sides[0]
    for side in sides:
        acc, norm = (accuracy(items, side.answers, by_length=flag) for flag in (False, True))
        print(
            f"{side.name}: wall {side.meter.wall_s:.1f} s, processor {side.meter.cpu_s:.1f} s, {side.meter.forwards} forwards, "
            f"{side.meter.tokens} tokens, {side.meter.logits} projected, {side.meter.flops(model) / 1e12:.2f} TFLOP, "
            f"acc {acc:.4f}, acc_norm {norm:.4f}"
        )
    for side in sides[1:]:
        differ = {
            flag: sum(
                chosen(item, mine, by_length=flag) != chosen(item, other, by_length=flag)
                for item, mine, other in zip(items, first.answers, side.answers, strict=True)
            )
            for flag in (False, True)
        }
        furthest = max(
            abs(a - b) for mine, other in zip(first.answers, side.answers, strict=True) for a, b in zip(mine, other, strict=True)
        )
        print(
            f"quantgate / {side.name}: wall {first.meter.wall_s / side.meter.wall_s:.3f}, processor "
            f"{first.meter.cpu_s / side.meter.cpu_s:.3f}, arithmetic {first.meter.flops(model) / side.meter.flops(model):.3f}; "
            f"answered differently {differ[False]} (by length {differ[True]}) of {len(items)}, largest difference {furthest:.1e} nats"
        )


if __name__ == "__main__":
    main()
