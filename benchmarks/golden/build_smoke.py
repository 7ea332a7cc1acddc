"""Write golden_sets/smoke/v1: sums that the fake engine can read, half multiple choice, half generated."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random

from quantgate.golden import write_manifest

COUNT = 520
FEW_SHOT = "2 + 3 = 5\n"


def build(folder: Path) -> None:
    """Write items and manifest. The same bytes every time."""
    rng, seen, lines = Random(7), set(), []
    while len(lines) < COUNT:
        left, right = rng.randrange(10, 100), rng.randrange(10, 100)
        if (left, right) in seen:
            continue
        seen.add((left, right))
        lines.append(json.dumps(item(len(lines), left, right, rng)))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "items.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    write_manifest(folder, "Apache-2.0")


def item(index: int, left: int, right: int, rng: Random) -> dict[str, object]:
    """One sum, with choices for even indices and as a question for odd ones."""
    total = left + right
    base: dict[str, object] = {
        "slice": "small" if total < 100 else "large",
        "prompt": f"{left} + {right} =",
        "few_shot": FEW_SHOT,
        "template": "raw",
    }
    if index % 2:
        asked = {"metric": "exact_match", "answers": [str(total)], "stop": ["\n"], "max_new_tokens": 8}
        return {"id": f"generated-{index:03}", **base, **asked}
    choices = sorted({total, total + 1, total - 1, total + 10})
    rng.shuffle(choices)
    chosen = {"metric": "multiple_choice", "choices": [str(one) for one in choices], "answer": choices.index(total)}
    return {"id": f"choice-{index:03}", **base, **chosen}


if __name__ == "__main__":
    build(Path(sys.argv[1]))
