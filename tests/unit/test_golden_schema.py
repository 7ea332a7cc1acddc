"""The item format as JSON Schema: what is committed, and that it agrees with the reader."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from quantgate.golden_items import item_of
from quantgate.golden_schema import item_schema
from quantgate.strictjson import Fault, object_of

ROOT = Path(__file__).parents[2]
COMMITTED = ROOT / "docs" / "schema" / "golden-item-v1.schema.json"
VALIDATOR = Draft202012Validator(item_schema())


def test_the_committed_schema_is_the_current_one() -> None:
    """The file is what the table of keys gives; and it is a schema."""
    Draft202012Validator.check_schema(item_schema())
    assert COMMITTED.read_text(encoding="utf-8") == json.dumps(item_schema(), indent=2) + "\n"


@pytest.mark.parametrize("name", ["everyday", "smoke"])
def test_the_committed_sets_are_valid(name: str) -> None:
    """Every line of them."""
    lines = (ROOT / "golden_sets" / name / "v1" / "items.jsonl").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not VALIDATOR.is_valid(json.loads(line))] == []


def test_the_manuals_examples_are_valid() -> None:
    """Every example line of docs/golden-sets.md."""
    manual = (ROOT / "docs" / "golden-sets.md").read_text(encoding="utf-8")
    lines = [line for block in re.findall(r"```json\n(.*?)```", manual, flags=re.DOTALL) for line in block.splitlines()]
    assert len(lines) > 10
    assert [line for line in lines if not VALIDATOR.is_valid(json.loads(line))] == []


OK: dict[str, Any] = {"id": "a", "prompt": "p", "answer": "x"}
REGEX: dict[str, Any] = {"id": "a", "prompt": "p", "metric": "regex", "options": {"pattern": "a"}}


@pytest.mark.parametrize(
    "row",
    [
        {**OK, "answr": 1},
        {**OK, "answers": ["y"]},
        {**OK, "answer": None},
        {**OK, "id": True},
        {**OK, "prompt": " "},
        {**OK, "weight": 0},
        {**OK, "max_new_tokens": 257},
        {**OK, "messages": [{"role": "user", "content": "x"}]},
        {**OK, "metric": "exact"},
        {**OK, "references": ["x"]},
        {"id": "a", "prompt": "p"},
        {"id": "a", "answer": "x", "messages": [{"role": "user"}]},
        {"id": "a", "answer": "x", "messages": [{"role": "user", "content": "x"}], "few_shot": "y"},
        {"id": "a", "prompt": "p", "choices": ["x"], "answer": 0},
        {"id": "a", "prompt": "p", "choices": ["x", "y"], "answer": "x"},
        {**REGEX, "options": {}},
        {**REGEX, "options": {"pattern": "a", "where": "middle"}},
        {**REGEX, "answer": "x"},
        {"id": "a", "prompt": "p", "metric": "instructions", "options": {}},
        {"id": "a", "prompt": "p", "metric": "f1", "references": []},
        {"id": "a", "text": "t", "metric": "perplexity", "weight": 2},
    ],
)
def test_what_the_schema_refuses_the_reader_refuses_too(row: dict[str, Any]) -> None:
    """The schema is never stricter than the reader, and catches these faults of shape."""
    assert not VALIDATOR.is_valid(row)
    with pytest.raises(Fault):
        item_of(object_of(json.dumps(row).encode()), 1, {})


@pytest.mark.parametrize("row", [OK, REGEX, {**OK, "answer": [1, "x"]}, {**OK, "id": 3, "cluster": 4, "weight": 0.5}])
def test_what_the_reader_takes_the_schema_takes(row: dict[str, Any]) -> None:
    """Numbers as answers and ids included."""
    item_of(object_of(json.dumps(row).encode()), 1, {})
    assert VALIDATOR.is_valid(row)
