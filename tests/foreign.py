"""Results as other tools write them, by hand: a reference right on 320 of 400 items, and variants that differ from it as told."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

ITEMS = 400
RIGHT = 320
"""Items 0..319 are right for the reference."""
SHARED_DATA = Path(os.environ.get("QUANTGATE_SHARED_DATA") or Path(__file__).parents[2] / "shared" / "data")
LM_EVAL_FILES = SHARED_DATA / "lm_eval_samples"
real_files = pytest.mark.skipif(
    not (LM_EVAL_FILES / "mc400-fp32.jsonl").is_file(), reason=f"the shared results are not there: {LM_EVAL_FILES}"
)


def scores(*, b: int = 0, c: int = 0, items: int = ITEMS) -> list[int]:
    """Scores of a variant with b regressions and c recoveries against the reference."""
    right = items * RIGHT // ITEMS
    return [int(b <= place < right + c) for place in range(items)]


def lines(path: Path, rows: Iterable[Any]) -> Path:
    """Write JSON Lines. NaN is written as Python writes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def table(path: Path, values: Iterable[Any], **fields: Callable[[int], Any]) -> Path:
    """Write a table of ids and scores; further columns by a function of the place."""
    more = [{name: make(place) for name, make in fields.items()} for place in range(10**5)] if fields else None
    rows = [
        {"id": f"i{place:05d}", "score": value, **(more[place] if more else {})} for place, value in enumerate(values)
    ]
    return lines(path, rows)


def lm_eval(path: Path, values: Iterable[float], *, shift: float = 0.0, **changes: Any) -> Path:
    """Write samples of a task with four choices; ``shift`` tells the log-likelihoods of two models apart."""
    return lines(path, [lm_eval_row(place, value, shift=shift, **changes) for place, value in enumerate(values)])


def lm_eval_row(place: int, value: float, *, shift: float = 0.0, **changes: Any) -> dict[str, Any]:
    """One sample as lm-evaluation-harness 0.4.13 writes it: numbers of responses as text."""
    best = place % 4 if value else (place + 1) % 4
    numbers = [str(-9.5 - shift - (choice != best)) for choice in range(4)]
    row = {
        "doc_id": place,
        "doc": {"id": f"q{place}", "subject": "even" if place % 2 == 0 else "odd", "answer": place % 4},
        "target": str(place % 4),
        "arguments": {
            f"gen_args_{n}": {"arg_0": f"Question {place}\nAnswer:", "arg_1": f" choice {n}"} for n in range(4)
        },
        "resps": [[[number, "False"]] for number in numbers],
        "filtered_resps": [[number, "False"] for number in numbers],
        "filter": "none",
        "metrics": ["acc", "acc_norm"],
        **{f"{field}_hash": digest(f"{field} {place}") for field in ("doc", "prompt", "target")},
        "acc": value,
        "acc_norm": value,
    }
    return {**row, **changes}


def inspect_log(values: Iterable[Any], *, epochs: int = 1, **changes: Any) -> dict[str, Any]:
    """A log of Inspect with one scorer; each value is one item's, or one epoch's after the other."""
    samples = [
        {
            "id": place // epochs + 1,
            "epoch": place % epochs + 1,
            "input": f"Question {place // epochs}",
            "target": "yes",
            "scores": {"match": {"value": value, "answer": "yes", "explanation": "-"}},
            "metadata": {"category": "plain"},
        }
        for place, value in enumerate(values)
    ]
    about = {
        "task": "suite/sums",
        "task_version": 0,
        "task_args": {},
        "model": "m",
        "model_generate_config": {"temperature": 0.0},
    }
    log = {
        "version": 2,
        "status": "success",
        "eval": {**about, "config": {"epochs": epochs}},
        "plan": {"name": "plan", "steps": [{"solver": "generate", "params": {}}]},
        "samples": samples,
    }
    return {**log, **changes}


def write_json(path: Path, value: Any) -> Path:
    """Write one JSON document."""
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")
    return path


def nemo(folder: Path, values: Iterable[float], *, repeats: int = 1, benchmark: str = "gsm8k", **config: Any) -> Path:
    """Write a results folder of NeMo Evaluator: results.jsonl and its bundle."""
    rows = [
        {
            "problem_idx": place // repeats,
            "repeat": place % repeats,
            "reward": value,
            "expected_answer": str(place // repeats),
            "model_response": "The answer is 7.",
            "metadata": {"category": "algebra" if place % 2 else "geometry"},
        }
        for place, value in enumerate(values)
    ]
    lines(folder / "results.jsonl", rows)
    bundle = {"run_id": "eval-1", "config": {"temperature": 0.0, **config}, "benchmark": {"name": benchmark}}
    write_json(folder / f"eval-20260225T143012Z-{benchmark}.json", bundle)
    return folder


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def policy(path: Path, *, margin: float = 0.06, **changes: Any) -> Path:
    """A policy that files can meet: quality alone, no controls."""
    values = {
        "schema_version": 1,
        "name": "files",
        "why": "a test",
        "require": "all",
        "minimum_items": 100,
        "objective": "smallest_loss",
        "checks": [{"kind": "quality", "margin": margin}],
        **changes,
    }
    path.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    return path
