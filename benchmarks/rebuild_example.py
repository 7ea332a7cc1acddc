"""Rebuild reports/example/ and docs/schema/ from configs/smoke.yaml, the records and the policy's keys.

Same bytes on every machine: a test compares them.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from quantgate import config, pipeline, rundir
from quantgate.golden_schema import item_schema
from quantgate.records import Report
from quantgate.sinks.progress import ProgressDisplay

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "reports" / "example"
SCHEMA = ROOT / "docs" / "schema" / "report-v1.schema.json"
POLICY_SCHEMA = ROOT / "docs" / "schema" / "policy-v1.schema.json"
ITEM_SCHEMA = ROOT / "docs" / "schema" / "golden-item-v1.schema.json"
FILES = ("report.html", "report.md", "report.json", "junit.xml")


def build(scratch: Path, *, executor: str = "process") -> Path:
    """Run the smoke config with nothing kept from earlier runs, and return its folder."""
    asked = config.load_run(ROOT / "configs" / "smoke.yaml")
    asked = replace(
        asked,
        out=scratch / "reports",
        cache=scratch / "cache",
        run_id="example",
        sinks=("folder", "junit"),
        executor=executor,
    )
    pipeline.run(asked, pipeline.Options(fresh=True), ProgressDisplay(sys.stderr, live=False))
    return asked.out / "example"


def schema_text() -> str:
    """The JSON Schema of report.json, schema version 1."""
    return json.dumps(rundir.json_schema(Report), indent=2) + "\n"


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = build(Path(scratch))
        for name in FILES:
            rundir.write_text(EXAMPLE / name, rundir.read_text(folder / name))
    rundir.write_text(SCHEMA, schema_text())
    rundir.write_text(POLICY_SCHEMA, config.policy_schema_text())
    rundir.write_text(ITEM_SCHEMA, json.dumps(item_schema(), indent=2) + "\n")
    print(f"{EXAMPLE}, {SCHEMA}, {POLICY_SCHEMA} and {ITEM_SCHEMA} are rebuilt")


if __name__ == "__main__":
    main()
