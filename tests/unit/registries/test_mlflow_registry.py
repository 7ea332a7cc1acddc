"""What only the MLflow registry does: sources, tags, lost races, foreign errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from mlflow import MlflowClient

from publishing import report, report_folder, server_in, store_in
from quantgate.errors import ConfigError, RegistryError
from quantgate.registries.mlflow import MlflowRegistry
from quantgate.sinks.mlflow import MlflowSink


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return store_in(tmp_path)


def test_a_version_points_at_the_artifact_where_it_lies(uri: str) -> None:
    """The source is the artifact's own address, the tags say how it was judged, nothing is copied."""
    version = MlflowRegistry(tracking_uri=uri).register("m", report(), "int8")
    found = MlflowClient(tracking_uri=uri, registry_uri=uri).get_model_version("m", version)
    assert found.source == "file:///models/int8"
    wanted = {
        "evidence_sha256": "e" * 64,
        "policy_sha256": "p" * 64,
        "outcome": "pass",
        "artifact_sha256": "artifact of int8",
    }
    assert wanted.items() <= found.tags.items()
    assert {"run_id", "report"} <= found.tags.keys()


def test_a_lost_race_is_reported(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the alias does not stand as it was set, the promotion is reported as lost."""
    registry = MlflowRegistry(tracking_uri=uri)
    registry.register("m", report(), "int8")
    monkeypatch.setattr(MlflowClient, "set_registered_model_alias", lambda *_: None)
    with pytest.raises(RegistryError, match="came in between"):
        registry.move("m", "champion", to="1", expecting=None)


def test_sink_and_registry_share_one_lock(uri: str, tmp_path: Path) -> None:
    """Both take the lock beside the database, so neither sets up the store while the other does."""
    MlflowRegistry(tracking_uri=uri).register("m", report(), "int8")
    MlflowSink(tracking_uri=uri, experiment="x").publish(report(), report_folder(tmp_path / "run"))
    assert [path.name for path in tmp_path.glob("*.lock")] == ["mlflow.db.lock"]


@pytest.mark.parametrize("model", ["", "a/b", "a:b"])
def test_mlflows_refusals_become_registry_errors(uri: str, model: str) -> None:
    """A model name that MLflow refuses is a RegistryError, not a library's exception."""
    with pytest.raises(RegistryError):
        MlflowRegistry(tracking_uri=uri).register(model, report(), "int8")


def test_a_broken_database_is_refused_at_once(tmp_path: Path) -> None:
    """A file that is no database is named in the error, without a hundred seconds of retries."""
    (tmp_path / "mlflow.db").write_text("no database at all")
    with pytest.raises(RegistryError, match=r"mlflow\.db"):
        MlflowRegistry(tracking_uri=f"sqlite:///{tmp_path / 'mlflow.db'}").alias("m", "champion")


def test_a_store_in_a_folder_is_refused() -> None:
    """File stores lose concurrent writes and are a ConfigError."""
    for uri in ("mlruns", "file:///tmp/mlruns"):
        with pytest.raises(ConfigError, match="sqlite"):
            MlflowRegistry(tracking_uri=uri)


@pytest.mark.slow
def test_a_server_works_like_a_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Sink and registry over a real server: no doubles, no prints, versions through a pointer, refusals as errors."""
    with server_in(tmp_path) as uri:
        sink, registry = MlflowSink(tracking_uri=uri, experiment="gate"), MlflowRegistry(tracking_uri=uri)
        folder = report_folder(tmp_path / "run", scored=["int8"])
        capfd.readouterr()
        assert sink.publish(report(), folder) == sink.publish(report(), folder)
        assert capfd.readouterr() == ("", "")
        assert [registry.register("m", report(), "int8") for _ in range(2)] == ["1", "1"]
        registry.move("m", "champion", to="1", expecting=None)
        assert registry.alias("m", "champion") == "1"
        with pytest.raises(RegistryError, match="another promotion came first"):
            registry.move("m", "champion", to="1", expecting=None)
        client = MlflowClient(tracking_uri=uri, registry_uri=uri)
        version = client.get_model_version("m", "1")
        assert (
            version.source == f"runs:/{version.run_id}/checkpoint" and version.tags["artifact_path"] == "/models/int8"
        )
        assert [found.path for found in client.list_artifacts(version.run_id, "checkpoint")] == [
            "checkpoint/pointer.json"
        ]
        assert len(client.search_runs([client.get_experiment_by_name("gate").experiment_id])) == 4
