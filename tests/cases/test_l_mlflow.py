"""Part L of the public bug reports: MLflow's limits, names, races and active runs."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlflow
import pytest

from publishing import RUN_ID, in_processes, report, report_folder, store_in
from quantgate.errors import ConfigError, QuantgateError, RegistryError
from quantgate.names import check_alias
from quantgate.registries.mlflow import MlflowRegistry
from quantgate.sinks.mlflow import LONGEST_PARAM, MlflowSink, RunWriter
from quantgate.sinks.mlflow_figures import LONGEST_NAME, Figure, metric_name, metric_names, original_name
from quantgate.sinks.mlflow_store import Store

PUBLISH = """
import sys
from dataclasses import replace
from pathlib import Path
from publishing import report, report_folder
from quantgate.sinks.mlflow import MlflowSink
uri, base, number = sys.argv[1:]
run = replace(report(), run_id=f"run-{number}")
print(MlflowSink(tracking_uri=uri, experiment="new").publish(run, report_folder(Path(base) / run.run_id)))
"""
EXPERIMENT = """
import sys, time
from pathlib import Path
from quantgate.sinks.mlflow_store import Store
uri, folder, number = sys.argv[1:]
store = Store(uri)
Path(folder, number).touch()
while len(list(Path(folder).iterdir())) < 2:
    time.sleep(0.001)
print(store.experiment("new"))
"""


def writer(uri: str) -> tuple[RunWriter, Store]:
    """A fresh run to write to."""
    store = Store(uri)
    run = store.client.create_run(store.experiment("limits"))
    return RunWriter(store, run, 1), store


def children(store: Store, experiment: str) -> dict[str | None, Any]:
    """Runs by variant, None for the parent."""
    found = store.client.search_runs([store.client.get_experiment_by_name(experiment).experiment_id])
    return {run.data.tags.get("quantgate.variant"): run for run in found}


def test_b100_long_params_go_to_an_artifact(tmp_path: Path) -> None:
    """6,001 characters are kept whole in an artifact, with a digest of at most 250 characters as the param."""
    run, store = writer(store_in(tmp_path))
    run.params({"quant_config": "x" * 6001})
    value = store.client.get_run(run.run_id).data.params["quant_config"]
    assert len(value) <= LONGEST_PARAM and value.startswith("sha256:")
    path = store.client.download_artifacts(run.run_id, "params/quant_config.txt")
    assert Path(path).read_text() == "x" * 6001


def test_b100_batches_are_split(tmp_path: Path) -> None:
    """101 params and 1,001 metrics are all there after one call each."""
    run, store = writer(store_in(tmp_path))
    run.params({f"p{number}": "v" for number in range(101)})
    run.metrics([Figure(name=f"m{number}", value=1.0) for number in range(1001)])
    data = store.client.get_run(run.run_id).data
    assert (len(data.params), len(data.metrics)) == (101, 1001)


def test_b100_a_failing_store_loses_nothing(tmp_path: Path) -> None:
    """A store that cannot be used is one error, soon; report and folder are as they were."""
    database, folder = tmp_path / "mlflow.db", report_folder(tmp_path / "run")
    database.write_text("this is no database")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    started_s, run = time.monotonic(), report()
    with pytest.raises(QuantgateError, match=r"mlflow\.db"):
        MlflowSink(tracking_uri=f"sqlite:///{database}", experiment="x").publish(run, folder)
    assert time.monotonic() - started_s < 10
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert run == report()


@pytest.mark.parametrize("name", ["acc,none", "tok/s (decode)", "MAP@k", "kl[mean]", "a//b", "../x", "/a", "a/.", ""])
def test_b101_names_are_reversible(tmp_path: Path, name: str) -> None:
    """Names that MLflow refuses become names that it takes, and come back."""
    assert original_name(metric_name(name)) == name
    assert metric_name(name) != name


def test_b101_mlflow_takes_them_and_keeps_the_originals(tmp_path: Path) -> None:
    """Each odd name is a metric of its own, and the JSON artifact has the original."""
    odd = ["acc,none", "acc none", "tok/s (decode)", "MAP@k", "kl[mean]", "a//b", "../x", "n" * 251, "plain/name"]
    run, store = writer(store_in(tmp_path))
    run.metrics([Figure(name=name, value=float(number)) for number, name in enumerate(odd)])
    assert store.client.get_run(run.run_id).data.metrics == {metric_name(n): float(i) for i, n in enumerate(odd)}
    kept = mlflow.artifacts.load_dict(f"{store.client.get_run(run.run_id).info.artifact_uri}/metric_names.json")
    assert set(kept.values()) == set(odd) - {"plain/name", "acc none"}


def test_b101_usual_names_stay() -> None:
    """The published names of quantgate are not touched."""
    for name in ("quality/everyday/loss_upper", "speed/output_tokens_per_s", "acc none", "a.b-c_d"):
        assert metric_name(name) == name


def test_b101_collisions_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two originals never share a name: what would merge is refused."""
    assert len(set(metric_names(["acc,none", "acc none", "acc_x2c_none"]).values())) == 3
    monkeypatch.setattr("quantgate.sinks.mlflow_figures.metric_name", lambda name: name.replace(",", " "))
    with pytest.raises(QuantgateError, match="acc none"):
        metric_names(["acc,none", "acc none"])


def test_b101_a_long_name_is_cut_and_stays_apart() -> None:
    """251 characters fit, and two long names that differ at their end do not merge."""
    first, second = metric_name("n" * 251), metric_name("n" * 252)
    assert first != second and max(len(first), len(second)) <= LONGEST_NAME
    with pytest.raises(ValueError):
        original_name(first)


def test_b103_alias_names() -> None:
    """Of the reported names only candidate-nf4 is accepted, by a check that config can make."""
    check_alias("candidate-nf4")
    for name in ("latest", "Latest", "v1", "V12", "prod/eu", "", "a" * 256):
        with pytest.raises(ConfigError):
            check_alias(name)


@pytest.mark.slow
def test_b105_two_first_users_of_one_file(tmp_path: Path) -> None:
    """Two processes that publish to a file that does not exist yet both succeed, into one experiment."""
    uri = f"sqlite:///{tmp_path / 'new' / 'mlflow.db'}"
    finished = in_processes(PUBLISH, uri, str(tmp_path))
    assert [process.returncode for process in finished] == [0, 0], [process.stderr for process in finished]
    assert [process.stderr for process in finished] == ["", ""]
    with sqlite3.connect(tmp_path / "new" / "mlflow.db") as database:
        assert database.execute("select count(*) from alembic_version").fetchone() == (1,)
        assert database.execute("select count(*) from experiments where name = 'new'").fetchone() == (1,)
        assert database.execute("select count(*) from runs where status = 'FINISHED'").fetchone() == (8,)


class _Opened(Exception):
    """Ends a test where a client would have been made."""


@pytest.mark.parametrize("opener", ["sink", "registry"])
def test_b105_a_store_is_opened_under_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opener: str) -> None:
    """MLflow migrates as soon as a client is made, so sink and registry make theirs while they hold the lock."""
    uri, held = f"sqlite:///{tmp_path / 'mlflow.db'}", []

    def probe(**_: Any) -> Any:
        with (tmp_path / "mlflow.db.lock").open("a") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                held.append(opener)
        raise _Opened

    monkeypatch.setattr("quantgate.sinks.mlflow_store.MlflowClient", probe)
    with pytest.raises((_Opened, RegistryError)):
        Store(uri) if opener == "sink" else MlflowRegistry(tracking_uri=uri).alias("m", "champion")
    assert held == [opener]


def test_b105_a_locked_database_is_tried_again(tmp_path: Path) -> None:
    """'database is locked' is answered with growing pauses, any other error at once."""
    waits: list[float] = []
    store = Store(store_in(tmp_path), sleep=waits.append)
    answers = iter(
        [RuntimeError("(sqlite3.OperationalError) database is locked"), RuntimeError("database is locked"), 5]
    )

    def action() -> Any:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert store.attempt(action) == 5
    assert len(waits) == 2 and waits[0] < waits[1]
    answers = iter([RuntimeError("no such table")])
    with pytest.raises(RuntimeError, match="no such table"):
        store.attempt(action)
    assert len(waits) == 2


def test_b106_two_processes_create_one_experiment(tmp_path: Path) -> None:
    """The loser of the race takes the winner's experiment, never the default one."""
    (tmp_path / "ready").mkdir()
    finished = in_processes(EXPERIMENT, store_in(tmp_path), str(tmp_path / "ready"))
    ids = {process.stdout.strip() for process in finished}
    assert [process.returncode for process in finished] == [0, 0], [process.stderr for process in finished]
    assert len(ids) == 1 and ids != {"0"}


def test_b106_the_loser_looks_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An experiment that appears between looking and creating is found by the second look."""
    store = Store(store_in(tmp_path))
    winner = Store(store.uri).experiment("new")
    look, seen = store.client.get_experiment_by_name, iter([None])
    monkeypatch.setattr(store.client, "get_experiment_by_name", lambda name: next(seen, look(name)))
    assert store.experiment("new") == winner


def test_b106_a_run_in_another_experiment_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that lands elsewhere, as in the Default experiment, is an error and not a success."""
    from mlflow import MlflowClient

    create = MlflowClient.create_run
    monkeypatch.setattr(MlflowClient, "create_run", lambda self, _, **rest: create(self, "0", **rest))
    with pytest.raises(QuantgateError, match="experiment 0"):
        MlflowSink(tracking_uri=store_in(tmp_path), experiment="new").publish(report(), report_folder(tmp_path / "r"))


def test_b106_a_deleted_experiment_is_named(tmp_path: Path) -> None:
    """A deleted experiment is an error that says what to do, not a run in another place."""
    uri = store_in(tmp_path)
    store = Store(uri)
    store.client.delete_experiment(store.experiment("old"))
    with pytest.raises(QuantgateError, match="restore"):
        MlflowSink(tracking_uri=uri, experiment="old").publish(report(), report_folder(tmp_path / "r"))


def test_b108_one_variants_fault_is_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variant 2 ends FAILED with its verdict, variant 3 and the run are whole, the environment's run id is left alone."""
    monkeypatch.setenv("MLFLOW_RUN_ID", "0123456789abcdef0123456789abcdef")
    run = report("int8", "nf4", "int4")
    rows = tuple(replace(row, accuracy=float("nan")) if row.variant == "nf4" else row for row in run.quality)
    uri = store_in(tmp_path)
    with pytest.raises(QuantgateError, match="nf4"):
        MlflowSink(tracking_uri=uri, experiment="gate").publish(
            replace(run, quality=rows), report_folder(tmp_path / "run")
        )
    found = children(Store(uri), "gate")
    assert {v: r.info.status for v, r in found.items() if v} == {
        "float32": "FINISHED",
        "int8": "FINISHED",
        "nf4": "FAILED",
        "int4": "FINISHED",
    }
    parents = {r.data.tags["mlflow.parentRunId"] for v, r in found.items() if v}
    assert parents == {found[None].info.run_id} and RUN_ID in found[None].data.tags.values()
    assert found["nf4"].data.tags["verdict"] == "pass" and "quality/everyday/loss" in found["int4"].data.metrics
    assert os.environ["MLFLOW_RUN_ID"] == "0123456789abcdef0123456789abcdef"
    assert mlflow.active_run() is None
