"""A process that is killed while it publishes leaves the report whole, and publishing again completes what MLflow lacks, once."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from chain import Chain
from publishing import store_in
from quantgate.sinks.mlflow_store import Store

TIMES = 10
PUBLISH = """
import sys
from pathlib import Path
from quantgate import pipeline, runs, stores
folder = Path(sys.argv[1])
sink = stores.mlflow_sink(runs.load_info(folder), folder)
print("ready", flush=True)
sys.stdin.readline()
pipeline.promote_stored(folder, None, print)
pipeline.publish_stored(folder, sink, print)
print("done", flush=True)
"""


def publisher(folder: Path) -> subprocess.Popen[str]:
    """A process that has loaded what it needs and waits for a line before it promotes and publishes."""
    process = subprocess.Popen(
        [sys.executable, "-c", PUBLISH, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None and process.stdin is not None
    assert process.stdout.readline() == "ready\n"
    process.stdin.write("go\n")
    process.stdin.flush()
    return process


def inventory(uri: str) -> dict[str, Any]:
    """Everything that must not be doubled: runs, versions, values of metrics, items of tables, inputs."""
    client = Store(uri).client
    runs = client.search_runs([client.get_experiment_by_name("quantgate").experiment_id])
    named = [run.data.tags.get("quantgate.variant") for run in runs]
    assert len(set(named)) == len(named), Counter(named)
    values = {}
    for run in runs:
        for key in run.data.metrics:
            history = client.get_metric_history(run.info.run_id, key)
            steps = [one.step for one in history]
            assert len(set(steps)) == len(steps), (key, steps)
            values[run.data.tags.get("quantgate.variant"), key] = {one.step: one.value for one in history}
    tables = {}
    for run in runs:
        if (variant := run.data.tags.get("quantgate.variant")) is not None:
            tables[variant] = len(json.loads(Path(client.download_artifacts(run.info.run_id, "items.json")).read_text())["data"])
            assert json.loads(run.data.tags["mlflow.loggedArtifacts"]) == [{"path": "items.json", "type": "table"}]
    versions = [(one.version, one.tags["variant"]) for one in client.search_model_versions("name='fake-model'")]
    return {
        "status": {run.data.tags.get("quantgate.variant"): run.info.status for run in runs},
        "values": values,
        "tables": tables,
        "inputs": {run.data.tags.get("quantgate.variant"): len(run.inputs.dataset_inputs) for run in runs},
        "versions": sorted(versions),
        "champion": client.get_registered_model("fake-model").aliases.get("champion"),
        "tags": {run.data.tags.get("quantgate.variant"): run.data.tags.get("promoted") for run in runs},
    }


@pytest.mark.slow
def test_killed_at_ten_moments(chain: Chain, tmp_path: Path) -> None:
    """Ten times killed with signal 9, at moments spread over the time it takes: the report stays whole, and then all is there once."""
    assert chain.run().code == 0
    folder = chain.last
    info = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    rng, moments = random.Random(11), []

    def aim(name: str) -> str:
        uri = store_in(tmp_path / name)
        changed = {**info, "registry": "mlflow", "tracking_uri": uri}
        (folder / "run.json").write_text(json.dumps(changed), encoding="utf-8")
        return uri

    wanted_uri = aim("whole")
    begun_s = time.monotonic()
    out, _ = publisher(folder).communicate(timeout=300)
    whole_s = time.monotonic() - begun_s
    assert out.endswith("done\n"), out
    wanted = inventory(wanted_uri)
    assert wanted["champion"] == "1" and set(wanted["status"].values()) == {"FINISHED"}

    uri = aim("killed")
    for number in range(TIMES):
        process = publisher(folder)
        moments.append(whole_s * (number + rng.random()) / TIMES)
        time.sleep(moments[-1])
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        judged = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        assert (judged["outcome"], judged["evidence_sha256"]) == ("pass", json.loads((folder / "evidence.json").read_text())["sha256"])
        assert chain.cli("show", folder).code == 0
    done = chain.cli("promote", folder)
    assert done.code == 0, done.err
    done = chain.cli("publish", folder)
    assert (done.code, "4 variants" in done.out or "3 variants" in done.out) == (0, True), done.err + done.out
    assert inventory(uri) == wanted
