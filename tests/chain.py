"""The command line on fakes: writes a config with a golden set and a policy of its own, runs it, and reads what came of it."""

from __future__ import annotations

import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import yaml

from quantgate import cli, golden

ITEMS = 240
REFERENCE = {"name": "float32", "role": "reference", "quantizer": "fake", "options": {"weight_bytes": 400_000_000}}
CONTROL = {"name": "int2", "role": "known_bad", "quantizer": "fake", "bits": 2, "options": {"error_rate": 0.97}}


def candidate(name: str = "int8", *, error_rate: float = 0.202, bits: int | None = 8, **options: Any) -> dict[str, Any]:
    """A candidate that the default policy lets pass; the reference's own ``error_rate`` is 0.2."""
    values = {"weight_bytes": 130_000_000, "error_rate": error_rate, **options}
    one = {"name": name, "quantizer": "fake", "bits": bits, "options": values}
    return {key: value for key, value in one.items() if value is not None}


def policy(**changes: Any) -> dict[str, Any]:
    """Six points at alpha 0.05, and a quarter of the weights freed."""
    checks = [{"kind": "quality", "margin": 0.06}, {"kind": "freed_share", "minimum": 0.25}]
    values = {
        "schema_version": 1,
        "name": "six-points",
        "why": "a test",
        "require": "any",
        "require_controls": True,
        "checks": checks,
    }
    return {**values, **changes}


def config(**changes: Any) -> dict[str, Any]:
    """A run of the reference, one good candidate and a control."""
    values = {
        "schema_version": 1,
        "model": {"name": "fake-model", "path": "golden/sums/v1"},
        "device": {"kind": "fake", "threads": 1, "memory_budget": "450MB"},
        "engine": "fake",
        "variants": [REFERENCE, candidate(), CONTROL],
        "golden_sets": ["golden/sums/v1"],
        "policy": "policy.yaml",
        "workload": {"prompt_tokens": 8, "output_tokens": 8, "batch_sizes": [1, 2], "max_batch": 4, "fill_repeats": 1},
        "out": "reports",
        "cache": "cache",
        "sinks": ["folder", "junit", "console"],
        "promotion": {"registry": "local"},
    }
    return {**values, **changes}


def items(count: int = ITEMS) -> list[dict[str, Any]]:
    """Sums that the fake model can do, half of them with choices; the same ones every time."""
    rng = random.Random(7)
    pairs = rng.sample([(left, right) for left in range(10, 99) for right in range(10, 99)], count)
    return [_item(index, left, right) for index, (left, right) in enumerate(pairs)]


def _item(index: int, left: int, right: int) -> dict[str, Any]:
    shared = {
        "id": f"sum-{index:03}",
        "slice": "small" if left + right < 100 else "large",
        "prompt": f"{left} + {right} =",
        "template": "raw",
    }
    total = left + right
    if index % 2:
        return {**shared, "metric": "exact_match", "answers": [str(total)], "stop": ["\n"], "max_new_tokens": 6}
    choices = [total, total + 1, total - 1, total + 10]
    order = choices[index % 4 :] + choices[: index % 4]
    return {**shared, "metric": "multiple_choice", "choices": [str(one) for one in order], "answer": order.index(total)}


def write_golden(folder: Path, rows: list[dict[str, Any]]) -> Path:
    """A sealed golden set."""
    folder.mkdir(parents=True)
    (folder / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    golden.write_manifest(folder, "Apache-2.0")
    return folder


@dataclass(frozen=True, kw_only=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


@dataclass(kw_only=True)
class Chain:
    """A folder with a config in it, and the command line to run there. ``executor`` is put into every config that names none."""

    root: Path
    executor: str = "inline"

    @classmethod
    def in_folder(cls, root: Path, **changes: Any) -> Chain:
        """A chain with the default golden set and policy."""
        made = cls(root=root, **changes)
        write_golden(root / "golden" / "sums" / "v1", items())
        made.policy()
        return made

    def policy(self, name: str = "policy.yaml", **changes: Any) -> Path:
        return self._yaml(name, policy(**changes))

    def config(self, name: str = "run.yaml", **changes: Any) -> Path:
        return self._yaml(name, config(**{"executor": self.executor, **changes}))

    def _yaml(self, name: str, values: dict[str, Any]) -> Path:
        path = self.root / name
        path.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
        return path

    def run(self, *words: str | Path, **changes: Any) -> Done:
        """Write the config, run it and return how that ended."""
        return self.cli("run", self.config(**changes), *words)

    def cli(self, *words: str | Path) -> Done:
        """One command in this process."""
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            try:
                code = cli.main([str(word) for word in words])
            except SystemExit as ended:
                code = int(ended.code or 0)
        return Done(code=code, out=out.getvalue(), err=err.getvalue())

    def start(self, *words: str | Path) -> subprocess.Popen[str]:
        """One command in a process of its own, standard error and output in one pipe."""
        command = [sys.executable, "-m", "quantgate", *(str(word) for word in words)]
        pipe = subprocess.PIPE
        # A test run that was started in the background hands down an ignored SIGINT; whoever presses Ctrl-C does not.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            return subprocess.Popen(
                command, stdout=pipe, stderr=subprocess.STDOUT, text=True, cwd=self.root, env=dict(os.environ)
            )
        finally:
            signal.signal(signal.SIGINT, before)

    @property
    def reports(self) -> Path:
        return self.root / "reports"

    @property
    def runs(self) -> list[Path]:
        """Run folders, oldest first."""
        return [
            path.parent for path in sorted(self.reports.glob("*/run.json"), key=lambda path: path.stat().st_mtime_ns)
        ]

    @property
    def last(self) -> Path:
        return self.runs[-1]

    def copy(self, into: Path) -> Chain:
        """The same folder elsewhere, to be altered there. Artifacts stay where they are."""
        shutil.copytree(self.root, into, dirs_exist_ok=True)
        return Chain(root=into, executor=self.executor)


def report_of(folder: Path) -> dict[str, Any]:
    """report.json of a run folder."""
    read: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return read


def verdicts_of(folder: Path) -> dict[str, str]:
    """Variant -> outcome."""
    return {one["variant"]: one["outcome"] for one in report_of(folder)["verdicts"]}


def junit_is_green(folder: Path) -> bool:
    """No case of the JUnit file has a failure or an error, and there is at least one case."""
    root = ElementTree.parse(folder / "junit.xml").getroot()
    cases = list(root.iter("testcase"))
    return bool(cases) and not any(True for kind in ("failure", "error") for _ in root.iter(kind))


def reused_of(folder: Path) -> dict[str, list[str]]:
    """Variant -> stages that were taken from an earlier run."""
    return {row["variant"]: row["reused"] for row in report_of(folder)["measurements"]}


def stages_of(folder: Path) -> dict[str, list[str]]:
    """Variant -> stages that the run's log says were completed, in their order; timing and roofs, never used again, left out."""
    done = re.findall(r"^\S+ (\S+): (.+) done \(", (folder / "run.log").read_text(encoding="utf-8"), re.MULTILINE)
    names = dict.fromkeys(variant for variant, _ in done)
    return {name: [stage for variant, stage in done if variant == name and stage not in ("roof", "time")] for name in names}
