"""The example report and the schema that are committed are what the code makes now."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import numpy as np
import pytest

from inline import inline_executor

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def rebuild() -> ModuleType:
    """benchmarks/rebuild_example.py as a module."""
    spec = importlib.util.spec_from_file_location("rebuild_example", ROOT / "benchmarks" / "rebuild_example.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def built(rebuild: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh run of the smoke config."""
    with inline_executor():
        folder: Path = rebuild.build(tmp_path_factory.mktemp("example"), executor="inline")
    return folder


@pytest.fixture(scope="module")
def schema() -> Any:
    return json.loads((ROOT / "docs" / "schema" / "report-v1.schema.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["report.html", "report.md", "report.json", "junit.xml"])
def test_the_example_is_current(built: Path, name: str) -> None:
    """reports/example/ is the smoke run to the byte; after a change that is meant, ``make example`` rebuilds it."""
    assert (built / name).read_bytes() == (ROOT / "reports" / "example" / name).read_bytes(), "run: make example"


def test_the_example_names_no_machine(built: Path) -> None:
    """Nothing in the pages tells where or by whom they were made."""
    for name in ("report.html", "report.md", "report.json", "junit.xml"):
        text = (built / name).read_text(encoding="utf-8")
        for trace in (str(ROOT), str(built.parent), str(Path.home()) + "/", sys.executable):
            assert trace not in text, (name, trace)


@pytest.mark.slow
def test_an_older_processor_makes_the_same_example(tmp_path: Path) -> None:
    """Without any of this processor's vector instructions the report is the same to the byte."""
    features = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    script = ROOT / "benchmarks" / "rebuild_example.py"
    code = f"import runpy, sys; from pathlib import Path; runpy.run_path({str(script)!r})['build'](Path(sys.argv[1]))"
    env = {**os.environ, "NPY_DISABLE_CPU_FEATURES": " ".join(features)}
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], env=env, check=True, capture_output=True, timeout=300)
    for name in ("report.html", "report.md", "report.json", "junit.xml"):
        made = tmp_path / "reports" / "example" / name
        assert made.read_bytes() == (ROOT / "reports" / "example" / name).read_bytes(), name


def test_the_schema_is_current(rebuild: ModuleType) -> None:
    """docs/schema/ is what the records say; after a change that is meant, ``make example`` rebuilds it."""
    path = ROOT / "docs" / "schema" / "report-v1.schema.json"
    assert path.read_text(encoding="utf-8") == rebuild.schema_text(), "run: make example"


def test_the_example_report_validates(schema: Any) -> None:
    """The committed report is one by the committed schema, which is a schema itself."""
    jsonschema.Draft202012Validator.check_schema(schema)
    report = json.loads((ROOT / "reports" / "example" / "report.json").read_text(encoding="utf-8"))
    jsonschema.validate(report, schema, cls=jsonschema.Draft202012Validator)


CHANGES = [
    {"exit_code": "0"},
    {"outcome": "ok"},
    {"schema_version": "1"},
    {"extra": 1},
    {"verdicts": None},
    {"chosen": 3},
]


def test_the_schema_refuses_what_is_no_report(schema: Any) -> None:
    """A wrong type, an unknown outcome, an unknown field and a missing one are found."""
    report = json.loads((ROOT / "reports" / "example" / "report.json").read_text(encoding="utf-8"))
    report = {**report, "flips": [], "quality": [], "measurements": []}
    validator = jsonschema.Draft202012Validator(schema)
    assert validator.is_valid(report)
    assert [change for change in CHANGES if validator.is_valid({**report, **change})] == []
    assert [
        name for name in report if validator.is_valid({key: value for key, value in report.items() if key != name})
    ] == []
