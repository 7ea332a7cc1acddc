"""Tasks of lm-evaluation-harness by hand: YAML files with their data beside them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

CHOICES = {
    "output_type": "multiple_choice",
    "doc_to_text": "{{prompt}}",
    "doc_to_choice": "{{choices}}",
    "doc_to_target": "{{answer}}",
    "metric_list": [{"metric": name, "aggregation": "mean", "higher_is_better": True} for name in ("acc", "acc_norm")],
}
TEXT = {
    "output_type": "generate_until",
    "doc_to_text": "{{prompt}}",
    "doc_to_target": "{{answer}}",
    "metric_list": [
        {"metric": "exact_match", "aggregation": "mean", "higher_is_better": True, "regexes_to_ignore": [r"^\s+", r"\s+$"]}
    ],
    "generation_kwargs": {"until": ["\n"], "do_sample": False, "max_gen_toks": 6},
}
BIRDS = [
    {"prompt": f"Bird {number} of the {place} sings", "choices": ["loud", "softly now", "not at all"], "answer": number % 3}
    for number, place in enumerate(["marsh", "hill", "shore", "town", "wood", "field", "river", "moor"])
]


def task(folder: Path, name: str, rows: Iterable[dict[str, Any]], kind: dict[str, Any] = CHOICES, **changes: Any) -> Path:
    """Write a task and its data into a folder, and return the path of its YAML file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    values = {"task": name, "dataset_path": "json", "dataset_kwargs": {"data_files": f"{name}.jsonl"}, "test_split": "train", **kind}
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump({**values, **changes}, sort_keys=False), encoding="utf-8")
    return file
