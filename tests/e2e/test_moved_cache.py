"""A cache that was copied, moved or restored is read where it lies, and nothing of the place where it was built."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from chain import Chain

WORKLOAD = {"prompt_tokens": 8, "output_tokens": 8, "batch_sizes": [1], "max_batch": 4, "fill_repeats": 1}


def slots(chain: Chain) -> dict[str, Path]:
    """Where the last run's variants lie."""
    files = (chain.last / "variants").glob("*/artifact.json")
    return {one.parent.name: Path(json.loads(one.read_text(encoding="utf-8"))["body"]["path"]) for one in files}


def test_results_of_a_moved_cache_are_used(chain: Chain) -> None:
    """Artifacts are loaded from the new place, and nothing that lies there is measured again: no result depends on where files lie."""
    assert chain.run(workload=WORKLOAD).code == 0
    (chain.root / "cache").rename(chain.root / "moved")
    done = chain.run(workload=WORKLOAD, cache="moved")
    assert done.code == 0, done.err
    assert {one.parent for one in slots(chain).values()} == {chain.root / "moved" / "artifacts"}
    report = json.loads((chain.last / "report.json").read_text(encoding="utf-8"))
    for row in report["measurements"]:
        assert {"quantize", "load", "score sums"} <= set(row["reused"]), row["variant"]
        assert str(chain.root / "moved") in row["artifact_path"]


def test_a_damaged_copy_is_built_again(chain: Chain) -> None:
    """A copy whose files changed is not taken for the original that lies whole elsewhere: the variant is built again, in the copy."""
    assert chain.run(workload=WORKLOAD).code == 0
    shutil.copytree(chain.root / "cache", chain.root / "moved")
    broken = chain.root / "moved" / "artifacts" / slots(chain)["int8"].name
    (broken / "fake-model.json").write_text("{}", encoding="utf-8")
    done = chain.run(workload=WORKLOAD, cache="moved")
    assert done.code == 0, done.err
    assert slots(chain)["int8"] == broken
    assert json.loads((broken / "fake-model.json").read_text(encoding="utf-8"))["weight_bytes"] == 130_000_000
    report = json.loads((chain.last / "report.json").read_text(encoding="utf-8"))
    assert {row["variant"] for row in report["measurements"] if "quantize" not in row["reused"]} == {"int8"}
