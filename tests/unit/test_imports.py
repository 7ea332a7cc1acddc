"""Who imports what: the layers hold, nothing heavy is loaded before it is needed, and the package stays small to start."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

HEAVY = {"torch", "transformers", "mlflow", "pandas", "scipy", "numpy", "pydantic", "yaml"}


def loaded_by(statement: str) -> set[str]:
    """Top-level modules that a fresh interpreter has after a statement."""
    code = f"import sys; {statement}; print(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("statement", "allowed"),
    [
        ("import quantgate", set()),
        ("import quantgate.cli", set()),
        ("from quantgate import cli; cli._parser()", set()),
        ("import quantgate.records, quantgate.errors, quantgate.ports", set()),
        ("import quantgate.plugins", set()),
        ("import quantgate.hygiene.examine, quantgate.golden_versions", set()),
        ("import quantgate.rundir, quantgate.golden", {"pydantic"}),
        ("import quantgate.config", {"pydantic", "yaml"}),
        ("import quantgate.worker", {"pydantic", "numpy"}),
        ("import quantgate.pipeline", {"pydantic", "yaml", "numpy", "scipy"}),
    ],
)
def test_nothing_heavy_is_loaded_early(statement: str, allowed: set[str]) -> None:
    """The command line starts without any library, and no part of the core loads torch, transformers or mlflow."""
    assert loaded_by(statement) & HEAVY <= allowed


def test_help_is_there_at_once() -> None:
    """``quantgate --help`` takes less than half a second of processor time, start of the interpreter included."""
    started_s = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "quantgate", "--help"], capture_output=True, text=True, timeout=60, check=True
    )
    assert "quantgate run configs/demo.yaml" in done.stdout
    code = "import resource, subprocess, sys; subprocess.run([sys.executable, '-m', 'quantgate', '--help'], capture_output=True)"
    code += "; used = resource.getrusage(resource.RUSAGE_CHILDREN); print(used.ru_utime + used.ru_stime)"
    used = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert float(used.stdout) < 0.5, time.monotonic() - started_s


def test_the_layers_hold() -> None:
    """import-linter finds every contract of pyproject.toml kept."""
    code = "import sys; from importlinter.cli import lint_imports_command; sys.argv = ['lint-imports']; lint_imports_command()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
