"""A process that is killed while it publishes leaves the report whole, and publishing again completes what MLflow lacks, once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from chain import Chain
from publishing import store_in
from quantgate.sinks.mlflow_store import Store

TIMES = 10
PUBLISHER = """
import os, sys
from pathlib import Path
from quantgate import pipeline, plugins, runs, stores
for seam in ("sink", "registry"):
    plugins.load(seam, "mlflow")
plugins.beside("marks", "mlflow")
for line in sys.stdin:
    folder = Path(line.strip())
    child = os.fork()
    if child == 0:
        try:
            pipeline.promote_stored(folder, None, lambda _: None)
            pipeline.publish_stored(folder, stores.mlflow_sink(runs.load_info(folder), folder), lambda _: None)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Publisher:
    """A process that has loaded what it needs, and has a child promote and publish a folder as often as it is asked."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", PUBLISHER]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def start(self, folder: Path) -> int:
        """The process id of the child."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{folder}\n")
        self._process.stdin.flush()
        return int(self._line())

    def end(self) -> int:
        """The exit code of the child: minus the signal where it was killed."""
        return int(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def close(self) -> None:
        self._process.kill()
        self._process.wait(timeout=60)


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
    versions = [(str(one.version), one.tags["variant"]) for one in client.search_model_versions("name='fake-model'")]
    return {
        "status": {run.data.tags.get("quantgate.variant"): run.info.status for run in runs},
        "values": values,
        "tables": tables,
        "inputs": {run.data.tags.get("quantgate.variant"): len(run.inputs.dataset_inputs) for run in runs},
        "versions": sorted(versions),
        "champion": str(client.get_registered_model("fake-model").aliases.get("champion")),
        "tags": {run.data.tags.get("quantgate.variant"): run.data.tags.get("promoted") for run in runs},
    }


@pytest.mark.slow
def test_killed_at_ten_moments(chain: Chain, tmp_path: Path) -> None:
    """Ten times killed with signal 9, at moments spread over the time it takes: the report stays whole, and then all is there once."""
    assert chain.run().code == 0
    folder = chain.last
    info = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    evidence = json.loads((folder / "evidence.json").read_text(encoding="utf-8"))["sha256"]
    rng = random.Random(11)

    def aim(name: str) -> str:
        uri = store_in(tmp_path / name)
        changed = {**info, "registry": "mlflow", "tracking_uri": uri}
        (folder / "run.json").write_text(json.dumps(changed), encoding="utf-8")
        return uri

    publisher = Publisher()
    try:
        wanted_uri = aim("whole")
        publisher.start(folder)
        begun_s = time.monotonic()
        assert publisher.end() == 0
        whole_s = time.monotonic() - begun_s
        wanted = inventory(wanted_uri)
        assert wanted["champion"] == "1" and set(wanted["status"].values()) == {"FINISHED"}

        uri, ends = aim("killed"), []
        for number in range(TIMES):
            child = publisher.start(folder)
            time.sleep(whole_s * (number + rng.random()) / TIMES)
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            ends.append(publisher.end())
            judged = json.loads((folder / "report.json").read_text(encoding="utf-8"))
            assert (judged["outcome"], judged["evidence_sha256"]) == ("pass", evidence)
            assert chain.cli("show", folder).code == 0
        assert ends.count(-signal.SIGKILL) >= TIMES // 2 and set(ends) <= {0, -signal.SIGKILL}, ends
    finally:
        publisher.close()
    done = chain.cli("promote", folder)
    assert done.code == 0, done.err
    done = chain.cli("publish", folder)
    assert (done.code, "4 variants" in done.out or "3 variants" in done.out) == (0, True), done.err + done.out
    assert inventory(uri) == wanted
