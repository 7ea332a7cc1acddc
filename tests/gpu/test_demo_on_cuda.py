"""The demo's own config on a CUDA device, only its device changed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

from quantgate.cli import main

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device")]

ROOT = Path(__file__).resolve().parents[2]


def test_the_demo_runs_unchanged_on_cuda(tmp_path: Path) -> None:
    """With `kind: cuda` every stage is measured on the allocator, the control is a fail, and the exit code is a verdict's."""
    config = re.sub(r"kind: cpu\b", "kind: cuda", (ROOT / "configs/demo.yaml").read_text(encoding="utf-8"))
    config = config.replace("../golden_sets", str(ROOT / "golden_sets")).replace("policies/", f"{ROOT}/configs/policies/")
    config = config.replace("../reports", str(tmp_path / "reports")) + f"\ncache: {tmp_path / 'cache'}\nrun_id: cuda\n"
    (tmp_path / "demo.yaml").write_text(config, encoding="utf-8")
    code = main(["run", str(tmp_path / "demo.yaml"), "--ci"])
    report = json.loads((tmp_path / "reports/cuda/report.json").read_text(encoding="utf-8"))
    assert report["exit_code"] == code and code in (0, 1, 3)
    assert report["device"]["kind"] == "cuda"
    outcomes = {one["variant"]: one["outcome"] for one in report["verdicts"]}
    assert outcomes["rtn2"] == "fail"
    rows = {one["variant"]: one for one in report["measurements"]}
    for name in ("float32", "int8", "nf4"):
        assert rows[name]["ceiling"]["confirmed"] >= 1, rows[name]["ceiling"]
        assert all(speed["output_tokens_per_s"] > 0 for speed in rows[name]["speed"])
    assert rows["nf4"]["freed_bytes"] > rows["int8"]["freed_bytes"] > 0
