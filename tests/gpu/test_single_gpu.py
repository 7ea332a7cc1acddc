"""configs/single-gpu.yaml on a real device, as it stands. The report is kept, under QUANTGATE_GPU_REPORTS or reports/gpu."""

from __future__ import annotations

import json
import os
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from quantgate.cli import main

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device")]

ROOT = Path(__file__).resolve().parents[2]
LONGEST_S = 8 * 60
RUNGS = ("int8", "nf4", "gptq4")


def config(reports: Path) -> dict[str, Any]:
    """The committed config with absolute places, and without what no library is here for."""
    found: dict[str, Any] = yaml.safe_load((ROOT / "configs/single-gpu.yaml").read_text(encoding="utf-8"))
    found["golden_sets"] = [str((ROOT / "configs" / one).resolve()) for one in found["golden_sets"]]
    found["policy"] = str(ROOT / "configs" / found["policy"])
    found["calibration"]["file"] = str((ROOT / "configs" / found["calibration"]["file"]).resolve())
    needed = {"gptq": ("gptqmodel", "optimum"), "bitsandbytes": ("bitsandbytes",)}
    found["variants"] = [one for one in found["variants"] if all(map(find_spec, needed.get(one["quantizer"], ())))]
    return {**found, "out": str(reports), "cache": str(reports / "cache"), "run_id": f"single-gpu-{int(time.time())}"}


def test_the_config_runs_on_this_device() -> None:
    """Every rung is measured and compared, the chain from freed bytes to tokens a second is whole, in at most eight minutes."""
    reports = Path(os.environ.get("QUANTGATE_GPU_REPORTS") or ROOT / "reports" / "gpu").absolute()
    reports.mkdir(parents=True, exist_ok=True)
    made = config(reports)
    path = reports / "single-gpu.yaml"
    path.write_text(yaml.safe_dump(made, sort_keys=False), encoding="utf-8")
    started_s = time.monotonic()
    code = main(["run", str(path), "--ci"])
    took_s = time.monotonic() - started_s
    report = json.loads((reports / made["run_id"] / "report.json").read_text(encoding="utf-8"))
    assert report["exit_code"] == code and code in (0, 1, 3), [one["failures"] for one in report["measurements"]]
    assert took_s <= LONGEST_S
    outcomes = {one["variant"]: one["outcome"] for one in report["verdicts"]}
    assert outcomes["rtn2"] == "fail"
    rows = {one["variant"]: one for one in report["measurements"]}
    for name in ("bfloat16", *(one["name"] for one in made["variants"] if one["name"] in RUNGS)):
        assert rows[name]["ceiling"]["confirmed"] >= 1, rows[name]["ceiling"]
        assert all(speed["output_tokens_per_s"] > 0 for speed in rows[name]["speed"])
        assert name == "bfloat16" or rows[name]["freed_bytes"] > 0
