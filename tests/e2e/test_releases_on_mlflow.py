"""A release on MLflow from the command line: promoted, tried, moved back, published again; runs and versions say what is out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chain import CONTROL, REFERENCE, Chain, candidate
from publishing import store_in
from quantgate.registries.mlflow import MlflowRegistry
from quantgate.sinks.mlflow_store import Store

SINKS = ["folder", "junit", "mlflow", "console"]
PROMOTION = {"registry": "mlflow", "challenger": "challenger"}
BOTH = [REFERENCE, candidate(), candidate("int4", bits=4, weight_bytes=140_000_000, error_rate=0.21), CONTROL]


def marks(uri: str) -> dict[tuple[str, str | None], dict[str, Any]]:
    """(run, variant) -> tags."""
    client = Store(uri).client
    runs = client.search_runs([client.get_experiment_by_name("quantgate").experiment_id])
    return {(run.data.tags["quantgate.run_id"], run.data.tags.get("quantgate.variant")): run.data.tags for run in runs}


@pytest.mark.slow
def test_the_marks_follow_the_aliases(chain: Chain) -> None:
    """Two runs, a rollback and a second try: exactly one run is marked as out at any time, the other candidate as on trial."""
    uri = store_in(chain.reports)
    chain.policy(require_controls=True)
    assert chain.run(variants=BOTH, sinks=SINKS, promotion=PROMOTION).code == 0
    first, registry = chain.last.name, MlflowRegistry(tracking_uri=uri)
    found = marks(uri)
    assert (found[first, "int8"]["promoted"], found[first, "int8"]["aliases"]) == ("true", "champion")
    assert (found[first, "int4"]["promoted"], found[first, "int4"]["aliases"]) == ("false", "challenger")
    trial = json.loads((chain.last / "report.json").read_text())["promotion"]["trial"]
    assert trial["variant"] == "int4" and registry.alias("fake-model", "challenger") == trial["version"]

    better = [REFERENCE, candidate(weight_bytes=120_000_000), CONTROL]
    assert chain.run(variants=better, sinks=SINKS, promotion=PROMOTION).code == 0
    second, out = chain.last.name, registry.alias("fake-model", "champion")
    found = marks(uri)
    assert (found[first, "int8"]["promoted"], found[second, "int8"]["promoted"]) == ("false", "true")
    assert (found[first, None]["promoted"], found[second, None]["promoted"]) == ("false", "true")
    assert "aliases" not in found[first, "int8"] and found[first, "int4"]["aliases"] == "challenger"

    done = chain.cli("rollback", "--run", chain.last, "--to", "1", "--reason", "wrong doses")
    assert (done.code, registry.alias("fake-model", "champion")) == (0, "1"), done.err
    found = marks(uri)
    assert (found[first, "int8"]["promoted"], found[second, "int8"]["promoted"]) == ("true", "false")
    tags = registry.tags("fake-model", "1")
    assert tags["report"].startswith("runs:/") and tags["mlflow_run"] and tags["evidence_sha256"] and tags["policy_sha256"]

    done = chain.cli("promote", chain.last, "--alias", "trial")
    assert (done.code, registry.alias("fake-model", "trial"), registry.alias("fake-model", "champion")) == (0, out, "1"), done.err
    assert marks(uri)[second, "int8"]["promoted"] == "false" and marks(uri)[second, "int8"]["aliases"] == "trial"

    before = marks(uri)
    done = chain.cli("publish", chain.last)
    assert (done.code, "2 variants" in done.out or "3 variants" in done.out) == (0, True), done.err
    assert {key: tags["promoted"] for key, tags in marks(uri).items()} == {key: tags["promoted"] for key, tags in before.items()}


@pytest.mark.slow
def test_a_run_is_published_where_it_never_was(chain: Chain, tmp_path: Path) -> None:
    """A run without MLflow gets into a store later, and into an experiment of another name; a store that is none is told with code 4."""
    assert chain.run().code == 0
    uri = store_in(tmp_path / "other")
    done = chain.cli("publish", chain.last, "--store", uri, "--experiment", "elsewhere")
    assert (done.code, "'elsewhere'" in done.out) == (0, True), done.err
    client = Store(uri).client
    assert len(client.search_runs([client.get_experiment_by_name("elsewhere").experiment_id])) == 4
    (tmp_path / "none.db").write_text("no database")
    done = chain.cli("publish", chain.last, "--store", f"sqlite:///{tmp_path / 'none.db'}")
    assert (done.code, "none.db" in done.err, "Traceback" in done.err) == (4, True, False), done.err
