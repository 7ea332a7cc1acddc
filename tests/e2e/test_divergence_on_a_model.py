"""Divergence along texts on the real model: its memory, and its error against a plain float64 computation."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from quantgate.records import DeviceConfig, DivergenceConfig

ROOT = Path(__file__).parents[2]
TEXTS, TOKENS = 8, 512
MOST_OVER_WEIGHTS = 1.5 * 2**30


@pytest.mark.slow
@pytest.mark.model
def test_nf4_against_float32_on_the_real_model(tmp_path: Path) -> None:
    """At most 1.5 GiB over both models' weights, and within one percent of plain float64 on a thousand tokens, both ways."""
    bench: dict[str, Any] = runpy.run_path(str(ROOT / "benchmarks" / "divergence_over_texts.py"))
    lines = (ROOT / "golden_sets" / "everyday" / "v1" / "items.jsonl").read_text(encoding="utf-8").splitlines()
    path = tmp_path / "prompts.txt"
    path.write_text("\n\n".join(json.loads(line)["prompt"] for line in lines), encoding="utf-8")
    device = DeviceConfig(threads=1)
    artifacts = bench["built"](tmp_path, device)

    def read(how: Any, texts: int) -> tuple[Any, int]:
        config = DivergenceConfig(path=str(path), tokens_per_text=TOKENS, max_texts=texts, reference=how)
        found: tuple[Any, int] = bench["measured"](tmp_path, config, artifacts, device)
        return found

    whole, over = read("recomputed", TEXTS)
    assert whole.kl.positions == TEXTS * TOKENS
    assert over <= MOST_OVER_WEIGHTS
    few, _ = read("stored", 2)
    exact, _ = read("recomputed", 2)
    config = DivergenceConfig(path=str(path), tokens_per_text=TOKENS, max_texts=2)
    wanted, seen = bench["plain"](config, artifacts, 2 * TOKENS)
    assert seen == few.kl.positions
    assert few.kl.mean == pytest.approx(wanted, rel=0.01)
    assert exact.kl.mean == pytest.approx(wanted, rel=0.01)
    assert few.perplexity == pytest.approx(exact.perplexity, rel=1e-6)
