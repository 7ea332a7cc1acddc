"""Real solutions: the right answer of every GSM8K problem is found in its own solution text."""

import json
from pathlib import Path

import pytest

from foreign import SHARED_DATA
from quantgate import golden
from quantgate.metrics.numeric_match import NumericMatch
from quantgate.records import ItemEvidence

PROBLEMS = SHARED_DATA / "gsm8k_test.jsonl"


@pytest.mark.skipif(not PROBLEMS.is_file(), reason=f"the shared problems are not there: {PROBLEMS}")
@pytest.mark.parametrize("marked", [True, False])
def test_every_right_answer_is_found_in_its_solution(tmp_path: Path, marked: bool) -> None:
    """1,319 of 1,319: behind the marker, and as the last number where the marker is taken away; a neighbour's answer is not."""
    rows = [json.loads(line) for line in PROBLEMS.read_text(encoding="utf-8").splitlines()]
    solutions = [row["answer"] for row in rows]
    items = [
        {"id": f"gsm8k-{n}", "prompt": row["question"], "metric": "numeric_match", "answer": row["answer"].rpartition("#### ")[2]}
        for n, row in enumerate(rows)
    ]
    path = tmp_path / "gsm8k.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in items), encoding="utf-8")
    found = golden.load(path)
    texts = solutions if marked else [one.replace("#### ", "The answer is ") + "." for one in solutions]
    values = [
        NumericMatch().score(item, ItemEvidence(item_id=item.item_id, text=text)).value
        for item, text in zip(found.items, texts, strict=True)
    ]
    assert (len(values), sum(value == 1.0 for value in values)) == (1319, 1319)
    wrong = [
        NumericMatch().score(item, ItemEvidence(item_id=item.item_id, text=text)).value
        for item, text in zip(found.items, texts[1:] + texts[:1], strict=True)
    ]
    assert sum(value == 1.0 for value in wrong) < 100
