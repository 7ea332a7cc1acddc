"""What the MLflow sink publishes, and what publishing again changes."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies as st

import speeds
from publishing import GOLDEN_SHA256, RUN_ID, measured, report, report_folder, store_in
from quantgate.errors import ConfigError, QuantgateError
from quantgate.records import Promotion, Report
from quantgate.sinks.mlflow import MlflowSink
from quantgate.sinks.mlflow_figures import (
    figures_of,
    metric_name,
    original_name,
    params_of,
    scheme_parts,
    table_of,
    variant_tags,
)
from quantgate.sinks.mlflow_store import Store

FREED = "memory/freed_bytes"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """One report, published once: the store, the sentence, and its runs by variant name (None: the parent)."""
    folder = tmp_path_factory.mktemp("published")
    uri = store_in(folder)
    promotion = Promotion(
        promoted=True,
        registry="mlflow",
        model="m",
        alias="champion",
        variant="int8",
        version="3",
        previous=None,
        because="",
    )
    run = replace(report(), promotion=promotion)
    sentence = MlflowSink(tracking_uri=uri, experiment="gate").publish(
        run, report_folder(folder / "run", scored=["int8"])
    )
    yield SimpleNamespace(folder=folder, uri=uri, sentence=sentence, store=Store(uri), runs=runs(uri))


def runs(uri: str, experiment: str = "gate") -> dict[str | None, Any]:
    """Every run of the experiment by variant; fails on doubles."""
    client = Store(uri).client
    found = client.search_runs([client.get_experiment_by_name(experiment).experiment_id])
    by_variant = {run.data.tags.get("quantgate.variant"): run for run in found}
    assert len(by_variant) == len(found)
    return by_variant


def artifacts(store: Store, run: Any) -> set[str]:
    """The paths of a run's artifacts."""
    return {found.path for found in store.client.list_artifacts(run.info.run_id)}


def test_one_run_and_a_child_for_each_variant(published: SimpleNamespace) -> None:
    """The reference and both candidates are children of the one run."""
    parent = published.runs[None]
    assert set(published.runs) == {None, "float32", "int8", "nf4"}
    children = [run for variant, run in published.runs.items() if variant]
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parent.info.run_id}
    assert {run.info.status for run in published.runs.values()} == {"FINISHED"}


def test_the_sentence_says_where(published: SimpleNamespace) -> None:
    """A person reads the store, the experiment, the run and the command that opens it."""
    for part in (published.uri, "'gate'", published.runs[None].info.run_id, "quantgate ui"):
        assert part in published.sentence


def test_another_store_is_opened_by_its_address(tmp_path: Path) -> None:
    """`quantgate ui` alone opens the store beside the reports, so the sentence names to it any other store, and reports elsewhere."""
    folder = report_folder(tmp_path / "reports" / "run")
    beside, other = (f"sqlite:///{tmp_path}/{name}" for name in ("reports/mlflow.db", "other.db"))
    said = [MlflowSink(tracking_uri=uri, experiment="gate")._sentence("1", "r", 2, folder) for uri in (beside, other)]
    assert said[0].endswith(f"open it with: quantgate ui --reports {tmp_path}/reports")
    assert said[1].endswith(f"open it with: MLFLOW_TRACKING_URI={other} quantgate ui")


def test_metrics_are_named_as_the_design_has_them(published: SimpleNamespace) -> None:
    """Exactly the measured figures, under their published names."""
    assert set(published.runs["int8"].data.metrics) == {
        *(f"quality/everyday/{name}" for name in ("loss", "loss_upper", "margin", "room", "accuracy", "flips_share")),
        *(f"quality/everyday/{name}" for name in ("kl_mean", "kl_median", "kl_p99", "kl_max", "top1_agreement")),
        "memory/weight_bytes",
        "memory/share_quantized",
        "memory/freed_bytes",
        "memory/freed_share",
        "ceiling/predicted_batch",
        "ceiling/confirmed_batch",
        "speed/ttft_s",
        "speed/tpot_s",
        "speed/output_tokens_per_s",
        "speed/ratio_to_reference",
        "speed/tokens_per_s_at_ceiling",
        "speed/ratio_at_ceiling",
    }


def test_the_chain_from_freed_bytes_to_the_batch_is_published() -> None:
    """KV tokens that the freed bytes hold, what a request takes, predicted beside confirmed with its error, scoring apart."""
    ceiling = measured("int8").ceiling
    assert ceiling
    changed = replace(ceiling, kv_bytes_per_row=1_000_000, prediction_error=0.05, scoring=30)
    run = with_row(report(), ceiling=changed, freed_bytes=100_000_000)
    figures = {one.name: one.value for one in figures_of(run, "int8")}
    assert figures["memory/kv_tokens_freed"] == 100_000_000 * 128 // 1_000_000
    assert figures["ceiling/kv_bytes_per_request"] == 1_000_000
    assert figures["ceiling/prediction_error"] == 0.05
    assert figures["ceiling/scoring_batch"] == 30


def test_shares_of_the_roofs_and_cost_are_published() -> None:
    """MBU and MFU over the batch size, the crossover and the cost; without a price no cost, and none of a control."""
    found = {(one.name, one.step): one.value for one in figures_of(speeds.report(), "int8")}
    assert {step for name, step in found if name == "speed/mbu"} == {1, 2, 4, 8, 21}
    assert found["speed/mfu", 1] == pytest.approx(0.068, abs=0.001)
    assert found["speed/crossover_batch", 0] == pytest.approx(2.83, abs=0.01)
    assert found["cost/per_million_output_tokens", 0] == pytest.approx(1.516, abs=0.001)
    assert not any(one.name.startswith(("cost/", "speed/")) for one in figures_of(speeds.report(), "rtn2"))
    assert params_of(speeds.report(), None)["price_per_hour"] == "0.4 EUR"
    assert "price_per_hour" not in params_of(report(), None)


def test_what_was_not_measured_is_absent(published: SimpleNamespace) -> None:
    """The reference has freed nothing and lost nothing: no such metric, and no zero either."""
    metrics = published.runs["float32"].data.metrics
    assert not {FREED, "quality/everyday/loss", "quality/everyday/kl_mean"} & set(metrics)


def test_speed_is_logged_over_the_batch_size(published: SimpleNamespace) -> None:
    """The step of a speed metric is the batch size; an unknown ratio leaves its step out."""
    client, run_id = published.store.client, published.runs["int8"].info.run_id
    steps = {found.step: found.value for found in client.get_metric_history(run_id, "speed/output_tokens_per_s")}
    assert steps == {1: 12.0, 8: 41.0}
    assert [found.step for found in client.get_metric_history(run_id, "speed/ratio_to_reference")] == [1]


def test_a_paired_ratio_is_published_with_its_interval() -> None:
    """Bounds, CV and quadruples beside the ratio, latencies beside them, all over the batch size; none where they are not known."""
    row = measured("int8").speed[0]
    full = replace(row, ratio_low=0.8, ratio_high=0.9, cv=0.02, quadruples=6, itl_p99_s=0.1, prefill_tokens_per_s=400.0)
    figures = {one.name: (one.value, one.step) for one in figures_of(with_row(report(), speed=(full,)), "int8")}
    assert figures["speed/ratio_low"] == (0.8, 1) and figures["speed/ratio_high"] == (0.9, 1)
    assert figures["speed/cv"] == (0.02, 1) and figures["speed/quadruples"] == (6.0, 1)
    assert figures["speed/itl_p99_s"] == (0.1, 1) and figures["speed/prefill_tokens_per_s"] == (400.0, 1)
    assert "speed/end_to_end_tokens_per_s" not in figures


def test_params_and_tags(published: SimpleNamespace) -> None:
    """Params say what was asked for, tags how it came out."""
    run = published.runs["int8"].data
    assert run.params == {
        "model": "SmolLM2-135M-Instruct",
        "quantizer": "bitsandbytes",
        "scheme": "w8a16",
        "bits": "8",
        "granularity": "tensor",
        "dtype": "float32",
        "device": "cpu, 2 threads",
        "golden_set": "everyday v1",
        "policy_sha256": "p" * 64,
    }
    wanted = {"verdict": "pass", "role": "candidate", "promoted": "true", "evidence_sha256": "e" * 64}
    assert {**wanted, "quantgate.version": "0.1.0", "quantgate.run_id": RUN_ID}.items() <= run.tags.items()
    assert published.runs["nf4"].data.tags["promoted"] == "false"
    assert "verdict" not in published.runs["float32"].data.tags


def test_the_run_carries_outcome_and_policy(published: SimpleNamespace) -> None:
    """Outcome, exit code and policy digest stand on the parent."""
    tags = published.runs[None].data.tags
    assert (tags["outcome"], tags["exit_code"], tags["policy_sha256"]) == ("pass", "0", "p" * 64)


def test_the_pages_are_artifacts_and_checkpoints_are_not(published: SimpleNamespace) -> None:
    """The report's files, the policy and the figures of speed are on the parent, weights nowhere."""
    store = published.store
    pages = {"report.html", "report.md", "report.json", "junit.xml", "policy.yaml"}
    assert artifacts(store, published.runs[None]) == {*pages, "figures"}
    figures = store.client.list_artifacts(published.runs[None].info.run_id, "figures")
    drawn = {"loss-everyday", "memory", "throughput", "latency"}
    assert {found.path for found in figures} == {f"figures/{name}.svg" for name in drawn}
    assert not list(published.folder.glob("mlartifacts/**/*.safetensors"))


def test_per_item_results_are_a_table(published: SimpleNamespace) -> None:
    """Scores from the folder, or the flips of a variant without scores, load as a table."""
    client = published.store.client
    tables = {v: table(client, published.runs[v].info.run_id) for v in ("int8", "nf4")}
    assert len(tables["int8"]["data"]) == 3 and "value" in tables["int8"]["columns"]
    assert len(tables["nf4"]["data"]) == 2 and "direction" in tables["nf4"]["columns"]
    assert "items.json" not in artifacts(published.store, published.runs["float32"])


def table(client: Any, run_id: str) -> Any:
    """The table artifact as it is stored."""
    return json.loads(Path(client.download_artifacts(run_id, "items.json")).read_text())


def test_each_item_stands_beside_the_reference(tmp_path: Path) -> None:
    """The reference's score is in the row; what was lost comes first, then what was gained, and what neither has is empty."""
    folder = report_folder(tmp_path / "run")
    for variant, values in (("float32", (1.0, 0.0, 1.0, None)), ("int8", (1.0, 1.0, 0.0, 1.0))):
        scores = folder / "variants" / variant / "scores"
        scores.mkdir(parents=True)
        items = [{"item_id": f"item-{n}", "slice": "s", "value": value} for n, value in enumerate(values)]
        (scores / "everyday.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    found = table_of(report(), "int8", folder)
    assert list(zip(found["item_id"], found["flip"], found["value"], found["reference_value"], strict=True)) == [
        ("item-2", "lost", 0.0, 1.0),
        ("item-1", "gained", 1.0, 0.0),
        ("item-0", "", 1.0, 1.0),
        ("item-3", "", 1.0, None),
    ]
    assert "flip" not in table_of(report(), "float32", folder)


def test_the_golden_set_is_an_input_with_its_digest(published: SimpleNamespace) -> None:
    """MLflow's digest begins ours, and the whole one stands in the input's tags."""
    (found,) = published.runs["int8"].inputs.dataset_inputs
    assert found.dataset.name == "everyday v1"
    assert GOLDEN_SHA256.startswith(found.dataset.digest)
    assert {tag.key: tag.value for tag in found.tags}["sha256"] == GOLDEN_SHA256


def test_artifacts_lie_beside_the_database(published: SimpleNamespace, tmp_path: Path) -> None:
    """Artifacts are stored in mlartifacts beside the database, wherever the process stands."""
    assert published.runs[None].info.artifact_uri.startswith((published.folder / "mlartifacts").as_uri())


def test_publishing_again_adds_nothing(tmp_path: Path) -> None:
    """The same run published twice has the same runs, params, one value a step and one row an item."""
    uri, folder = store_in(tmp_path), report_folder(tmp_path / "run", scored=["int8"])
    ticks = iter(range(1_800_000_000, 1_900_000_000, 1000))
    sink = MlflowSink(tracking_uri=uri, experiment="gate", clock=lambda: next(ticks))
    first, before = sink.publish(report(), folder), runs(uri)
    assert sink.publish(report(), folder) == first
    after, client = runs(uri), Store(uri).client
    assert {v: run.info.run_id for v, run in after.items()} == {v: run.info.run_id for v, run in before.items()}
    run_id = after["int8"].info.run_id
    assert len(client.get_metric_history(run_id, "quality/everyday/loss")) == 1
    assert len(table(client, run_id)["data"]) == 3
    assert len(after["int8"].inputs.dataset_inputs) == 1


def test_a_run_judged_again_shows_the_last_judgement(tmp_path: Path) -> None:
    """Tags and metrics follow a new judgement; a param, which MLflow never changes, is kept with the new value beside it."""
    uri, folder = store_in(tmp_path), report_folder(tmp_path / "run")
    sink = MlflowSink(tracking_uri=uri, experiment="gate")
    sink.publish(report(), folder)
    again = replace(report(outcome="fail"), policy_sha256="q" * 64)
    rows = tuple(replace(row, accuracy=0.5) for row in again.quality)
    sink.publish(replace(again, quality=rows), folder)
    run = runs(uri)["int8"].data
    assert (run.tags["verdict"], run.tags["policy_sha256"]) == ("fail", "q" * 64)
    assert run.metrics["quality/everyday/accuracy"] == 0.5
    assert json.loads(run.tags["quantgate.changed_params"]) == {"policy_sha256": "q" * 64}


def test_a_variant_that_failed_is_a_failed_run(tmp_path: Path) -> None:
    """A variant whose stage did not finish ends FAILED, and the others do not."""
    from quantgate.records import Failure

    failure = Failure(variant="nf4", stage="score", kind="WorkerDied", message="gone")
    run = report()
    rows = tuple(replace(row, failures=(failure,)) if row.variant == "nf4" else row for row in run.measurements)
    uri = store_in(tmp_path)
    folder = report_folder(tmp_path / "run")
    MlflowSink(tracking_uri=uri, experiment="gate").publish(replace(run, measurements=rows), folder)
    assert {v: found.info.status for v, found in runs(uri).items()} == {
        None: "FINISHED",
        "float32": "FINISHED",
        "int8": "FINISHED",
        "nf4": "FAILED",
    }


def test_a_folder_without_a_report_fails_the_run_and_keeps_the_variants(tmp_path: Path) -> None:
    """A missing artifact is an error, after the verdicts have been published."""
    uri = store_in(tmp_path)
    with pytest.raises(QuantgateError, match=r"report\.json"):
        MlflowSink(tracking_uri=uri, experiment="gate").publish(report(), tmp_path / "nothing")
    found = runs(uri)
    assert (found[None].info.status, found["int8"].info.status) == ("FAILED", "FINISHED")


def test_hostile_text_is_published(tmp_path: Path) -> None:
    """Lone surrogates and NUL in a model's output do not lose the run."""
    run = report()
    flips = tuple(replace(flip, variant_answer="\ud800\x00<script>") for flip in run.flips)
    uri, folder = store_in(tmp_path), report_folder(tmp_path / "run")
    MlflowSink(tracking_uri=uri, experiment="gate").publish(replace(run, flips=flips, headline="\ud800\x00"), folder)
    assert runs(uri)["int8"].info.status == "FINISHED"


def test_nothing_is_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Publishing keeps MLflow's and Alembic's chatter off the terminal and puts their levels back."""
    level = logging.getLogger("mlflow").level
    uri, folder = store_in(tmp_path), report_folder(tmp_path / "run")
    capfd.readouterr()
    MlflowSink(tracking_uri=uri, experiment="gate").publish(report(), folder)
    assert capfd.readouterr() == ("", "")
    assert logging.getLogger("mlflow").level == level


def test_a_figure_that_is_not_a_number_is_refused() -> None:
    """NaN and infinity are never published; the report must say None."""
    for value in (float("nan"), float("inf")):
        run = report()
        rows = tuple(replace(row, accuracy=value) for row in run.quality)
        with pytest.raises(QuantgateError, match="accuracy"):
            figures_of(replace(run, quality=rows), "int8")


def test_freed_memory_of_a_simulated_variant_is_not_a_measurement() -> None:
    """What a simulated variant would free is arithmetic: no metric, and a tag that says so."""
    run = with_row(report(), freed_simulated=True)
    assert FREED not in {figure.name for figure in figures_of(run, "int8")}
    assert variant_tags(run, "int8", "parent")["freed_simulated"] == "true"


def with_row(run: Report, **changes: Any) -> Report:
    """The report with fields of int8's measurements changed."""
    rows = tuple(replace(row, **changes) if row.variant == "int8" else row for row in run.measurements)
    return replace(run, measurements=rows)


def test_a_measured_zero_is_published() -> None:
    """Zero is a figure: a ceiling of no request at all is not left out."""
    ceiling = measured("int8").ceiling
    assert ceiling
    run = with_row(report(), ceiling=replace(ceiling, confirmed=0))
    assert {f.name: f.value for f in figures_of(run, "int8")}["ceiling/confirmed_batch"] == 0.0


@pytest.mark.parametrize(
    ("scheme", "parts"),
    [
        ("float", (None, None)),
        ("w8a16", ("8", "tensor")),
        ("w4a16-g64", ("4", "group:64")),
        ("w8a16-channel", ("8", "channel")),
        ("w4a16-g64-kv4", ("4", "group:64")),
        ("w8a16-kv8", ("8", "tensor")),
        ("float-kv8", (None, None)),
    ],
)
def test_bits_and_granularity_come_from_the_scheme(scheme: str, parts: tuple[str | None, str | None]) -> None:
    """The scheme's short name gives both params; an unquantized variant has neither."""
    assert scheme_parts(scheme) == parts


def test_unknown_params_are_absent() -> None:
    """A reference has no bits and an unknown device no name."""
    assert not {"bits", "granularity", "device"} & params_of(replace(report(), device=None), "float32").keys()


@given(st.text(max_size=20))
def test_metric_names_are_reversible(original: str) -> None:
    """Every name whose sanitised form fits comes back from it (20 characters take at most 220)."""
    assert original_name(metric_name(original)) == original


@pytest.mark.parametrize("uri", ["mlruns", "./x", "file:///tmp/mlruns", ""])
def test_a_store_in_a_folder_is_refused(uri: str) -> None:
    """File stores lose concurrent writes and are a ConfigError before anything is published."""
    with pytest.raises(ConfigError, match="sqlite"):
        MlflowSink(tracking_uri=uri, experiment="gate")


def test_credentials_are_not_shown(tmp_path: Path) -> None:
    """A failing server's address appears without user name and password."""
    sink = MlflowSink(tracking_uri="postgresql+nosuchdriver://user:secret@host/db", experiment="gate")
    with pytest.raises(QuantgateError) as error:
        sink.publish(report(), report_folder(tmp_path / "run"))
    assert "secret" not in str(error.value)
