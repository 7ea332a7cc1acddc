"""A build that is killed at any moment leaves nothing that a later run accepts."""

from __future__ import annotations

import json
import random
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import tiny
from quantgate import caching, rundir
from quantgate.executors.process import ProcessExecutor
from quantgate.files import digest_folder
from quantgate.records import Artifact, Calibration, DeviceConfig, ModelSource, Variant

TIMES = 10
LONGEST_S = 30.0
KEY = "e" * 64


def request(base: Path, cache: Path, variant: Variant) -> dict[str, object]:
    values = {
        "model": ModelSource(name="tiny", path=str(base)),
        "variant": variant,
        "base": tiny.artifact(base),
        "device": DeviceConfig(threads=1),
        "cache": str(cache),
        "key": KEY,
        "fresh": False,
    }
    return {"action": "quantize", **rundir.plain(values)}


def build(base: Path, cache: Path, variant: Variant) -> Artifact:
    worker = ProcessExecutor().open(variant, cache / "worker.log")
    try:
        return rundir.decode(Artifact, rundir.encode(worker.ask(request(base, cache, variant), lambda *_: None)))
    finally:
        worker.close()


def gptq(folder: Path) -> Variant:
    """A GPTQ variant with texts of its own."""
    texts = folder / "texts.jsonl"
    texts.write_text("".join(json.dumps({"text": f"{n} pears, said the {n}th clerk"}) + "\n" for n in range(40)), encoding="utf-8")
    made = tiny.variant("gptq", "gptq", weight_bits=4, granularity="group:32")
    return replace(made, calibration=Calibration(name="texts", path=str(texts), tokens=512))


@pytest.mark.slow
@pytest.mark.parametrize("quantizer", ["bitsandbytes", "gptq"])
def test_killed_at_random_moments(tmp_path: Path, quantizer: str) -> None:
    """Ten builds are killed, each at another moment: what is accepted afterwards is whole, and the next build ends well."""
    if quantizer == "gptq":
        pytest.importorskip("gptqmodel")
    base, cache = tiny.llama(tmp_path / "base"), tmp_path / "cache"
    cache.mkdir()
    variant = gptq(tmp_path) if quantizer == "gptq" else tiny.variant("nf4", "bitsandbytes", weight_bits=4)
    rng = random.Random(5)
    started_s = time.monotonic()
    whole = build(base, tmp_path / "cache", variant)
    longest_s = min(LONGEST_S, time.monotonic() - started_s)
    killed = 0
    for _ in range(TIMES):
        caching.prune(cache, older_than_s=-1e12, now_s=0.0)
        assert rundir.stored_artifact(cache / "artifacts" / KEY) is None
        worker = ProcessExecutor().open(variant, cache / "worker.log")
        process = worker._process
        assert process.stdin is not None
        process.stdin.write(rundir.encode(request(base, cache, variant)).encode() + b"\n")
        process.stdin.flush()
        time.sleep(longest_s * rng.random())
        killed += process.poll() is None
        worker.kill()
        found = rundir.stored_artifact(cache / "artifacts" / KEY)
        assert found is None or found.sha256 == digest_folder(Path(found.path))[0] == whole.sha256
    assert killed == TIMES
    assert build(base, cache, variant).sha256 == whole.sha256
    assert {one.state for one in caching.entries(cache, check=True)} == {"whole"}


def test_killed_between_folder_and_record(tmp_path: Path) -> None:
    """A folder in its place without its record, or a record whose folder changed, is not accepted."""
    with rundir.artifact_slot(tmp_path, KEY) as slot:
        into = rundir.working_folder(slot)
        (into / "w").write_bytes(b"1")
        rundir.settle(slot, into, Artifact(variant="v", path=str(into), format="f", stored_bytes=0, sha256=""))
    record = slot.with_name(f"{KEY}.json")
    text = record.read_text()
    record.unlink()
    assert rundir.stored_artifact(slot) is None
    record.write_text(text)
    assert rundir.stored_artifact(slot) is not None
    (slot / "w").write_bytes(b"2")
    assert rundir.stored_artifact(slot) is None


@pytest.mark.slow
def test_another_interpreter_builds(tmp_path: Path) -> None:
    """A variant that names a link to an interpreter is built by it, with the libraries of the place that the link lies in."""
    base, link = tiny.llama(tmp_path / "base"), tmp_path / "bin" / "python-of-another-name"
    link.parent.mkdir()
    link.symlink_to(Path(sys.executable).resolve())
    libraries = next(path for path in map(Path, sys.path) if (path / "torch").is_dir())
    (tmp_path / "wrapper").write_text(f"#!/bin/sh\nPYTHONPATH=$PYTHONPATH:{libraries} exec {link} \"$@\"\n")
    (tmp_path / "wrapper").chmod(0o755)
    variant = Variant(name="rtn", quantizer="rtn", weight_bits=4, granularity="group:32", interpreter=str(tmp_path / "wrapper"))
    cache = tmp_path / "cache"
    cache.mkdir()
    artifact = build(base, cache, variant)
    assert artifact.proof is not None
    assert artifact.proof.reload_difference == 0


def test_an_interpreter_that_is_none(tmp_path: Path) -> None:
    """An interpreter that cannot run quantgate is a failure of its variant with what it said."""
    from quantgate.errors import WorkerDied

    (tmp_path / "not-python").write_text("#!/bin/sh\necho no such module >&2\nexit 3\n")
    (tmp_path / "not-python").chmod(0o755)
    variant = Variant(name="x", quantizer="rtn", interpreter=str(tmp_path / "not-python"))
    with pytest.raises(WorkerDied, match=r"exit code 3 without an answer.*no such module"):
        build(tmp_path, tmp_path, variant)
