"""Publishes a report to MLflow: one run for the quantgate run, one child for each variant, names grouped by slashes.

Works through ``MlflowClient`` with explicit run ids only: the fluent API's active run and ``MLFLOW_RUN_ID`` in the
environment are neither read nor written. Publishing a run again finds its runs by the tag ``quantgate.run_id`` and
updates them. A figure that was not measured is absent, and so is freed memory that was computed for a simulated
variant.

A local SQLite store is set up once under a lock file beside it (``<database>.lock``, shared with the registry): two
first users would otherwise run the migrations twice. Artifacts of such a store lie in ``mlartifacts`` beside the
database, not in the working directory. On a server two processes that publish the same run at the same instant may
create it twice; the older one is used from then on.
"""

from __future__ import annotations

import hashlib
import io
import json
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from mlflow.entities import Metric, Param, RunTag
from mlflow.utils.mlflow_tags import MLFLOW_LOGGED_ARTIFACTS

from quantgate.errors import QuantgateError
from quantgate.records import GoldenRow, Report, Scalar
from quantgate.render.terminal import elsewhere
from quantgate.sinks.mlflow_figures import (
    Figure,
    dataset_of,
    figures_of,
    metric_name,
    metric_names,
    params_of,
    pictures,
    row_of,
    run_tags,
    speculation_of,
    storable,
    table_of,
    variant_tags,
    variants_of,
)
from quantgate.sinks.mlflow_store import Store, database_of, is_server, quiet, shown
from quantgate.sinks.mlflow_system import system_figures
from quantgate.sinks.mlflow_view import KIND, MODEL_TRAINING, VIEW_TAG, address, same_view, view_tag

P = ParamSpec("P")
T = TypeVar("T")

PARAMS_PER_BATCH = 100
METRICS_PER_BATCH = 1000
LONGEST_PARAM = 250
_PAGE_FILES = ("report.html", "report.md", "report.json", "junit.xml")
_OPTIONAL_TAGS = ("verdict", "control_ok", "freed_simulated", "limit", "quantgate.changed_params")


class RunWriter:
    """Writes one MLflow run by its id. ``known``: the run as it stood before, with what was published earlier."""

    def __init__(self, store: Store, known: Any, now_ms: int) -> None:
        self._store, self._known, self._now_ms = store, known, now_ms
        self.run_id: str = known.info.run_id

    def tags(self, tags: Mapping[str, str]) -> None:
        """Set tags; an optional one that no longer holds is removed."""
        for batch in _batches([RunTag(key, value) for key, value in tags.items()], PARAMS_PER_BATCH):
            self._do(self._store.client.log_batch, self.run_id, tags=batch)
        for key in _OPTIONAL_TAGS:
            if key in self._known.data.tags and key not in tags:
                self._do(self._store.client.delete_tag, self.run_id, key)

    def params(self, params: Mapping[str, str]) -> None:
        """Log params. MLflow never changes one: where a run is judged again, the new value goes into a tag."""
        known = self._known.data.params
        fitting = {metric_name(key): self._short(metric_name(key), storable(value)) for key, value in params.items()}
        new = [Param(key, value) for key, value in fitting.items() if key not in known]
        for batch in _batches(new, PARAMS_PER_BATCH):
            self._do(self._store.client.log_batch, self.run_id, params=batch)
        changed = {key: value for key, value in fitting.items() if known.get(key, value) != value}
        if changed:
            self._do(self._store.client.set_tag, self.run_id, "quantgate.changed_params", json.dumps(changed))

    def metrics(self, figures: Sequence[Figure]) -> None:
        """Log figures; one that stands there already with the same step and value is not logged again."""
        names = metric_names(figure.name for figure in figures)
        stands = {key: self._newest(key) for key in names.values() if key in self._known.data.metrics}
        new = [
            Metric(names[figure.name], figure.value, self._now_ms if figure.at_ms is None else figure.at_ms, figure.step)
            for figure in figures
            if stands.get(names[figure.name], {}).get(figure.step) != figure.value
        ]
        for batch in _batches(new, METRICS_PER_BATCH):
            self._do(self._store.client.log_batch, self.run_id, metrics=batch)
        changed = {name: original for original, name in names.items() if name != original}
        if changed:
            self._do(self._store.client.log_dict, self.run_id, changed, "metric_names.json")

    def table(self, columns: Mapping[str, list[Scalar]], file: str) -> None:
        """Log a table; ``log_table`` appends to one that exists, so an earlier one is replaced as text."""
        if not columns:
            return
        if file in {found.path for found in self._do(self._store.client.list_artifacts, self.run_id)}:
            whole = {"columns": list(columns), "data": [list(row) for row in zip(*columns.values(), strict=True)]}
            self._do(self._store.client.log_text, self.run_id, json.dumps(whole), file)
            self._name_table(file)
        else:
            self._do(self._store.client.log_table, self.run_id, dict(columns), file)

    def _name_table(self, file: str) -> None:
        """Say which artifact is a table, for the UI. ``log_table`` does so after the file, so one that was cut off may not have."""
        known = json.loads(self._known.data.tags.get(MLFLOW_LOGGED_ARTIFACTS, "[]"))
        if (entry := {"path": file, "type": "table"}) not in known:
            self._do(self._store.client.set_tag, self.run_id, MLFLOW_LOGGED_ARTIFACTS, json.dumps([*known, entry]))

    def pictures(self, drawn: Mapping[str, str]) -> None:
        """The figures of the page, each a file that the UI shows."""
        for name, svg in drawn.items():
            self._do(self._store.client.log_text, self.run_id, svg, f"figures/{name}")

    def inputs(self, golden_sets: Sequence[GoldenRow]) -> None:
        """Log the golden sets as input datasets."""
        if golden_sets:
            self._do(self._store.client.log_inputs, self.run_id, [dataset_of(golden) for golden in golden_sets])

    def pages(self, report: Report, folder: Path) -> None:
        """The report's files and the policy, never checkpoints. Raises ``QuantgateError`` without a report.json."""
        if not (folder / "report.json").is_file():
            raise QuantgateError(f"{folder} has no report.json to publish")
        policies = sorted(folder.glob("policy.*"))
        for file in [*(folder / name for name in _PAGE_FILES), *policies]:
            if file.is_file():
                self._do(self._store.client.log_artifact, self.run_id, str(file))
        if not policies:
            self._do(self._store.client.log_dict, self.run_id, asdict(report.policy), "policy.json")

    def end(self, status: str, end_ms: int) -> None:
        """End the run; MLflow's links, which it prints for a server, are left to the caller's sentence."""
        with redirect_stdout(io.StringIO()):
            self._do(self._store.client.set_terminated, self.run_id, status=status, end_time=end_ms)

    def _do(self, action: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return self._store.attempt(action, *args, **kwargs)

    def _short(self, key: str, value: str) -> str:
        """The value, or where it is too long its digest and the artifact that holds it."""
        if len(value) <= LONGEST_PARAM:
            return value
        file = f"params/{hashlib.sha256(key.encode()).hexdigest()[:8]}.txt" if len(key) > 80 else f"params/{key}.txt"
        self._do(self._store.client.log_text, self.run_id, value, file)
        return f"sha256:{hashlib.sha256(value.encode()).hexdigest()[:16]} in {file}"

    def _newest(self, key: str) -> dict[int, float]:
        """Step -> value as logged last."""
        history = self._do(self._store.client.get_metric_history, self.run_id, key)
        return {found.step: found.value for found in sorted(history, key=lambda found: found.timestamp)}


def _batches(entries: Sequence[T], size: int) -> Iterator[list[T]]:
    """The entries in lists of at most ``size``: MLflow refuses longer ones."""
    for start in range(0, len(entries), size):
        yield list(entries[start : start + size])


class MlflowSink:
    """The sink port over MLflow. ``clock`` gives seconds since 1970; ``sleep`` waits for a locked database."""

    name = "mlflow"

    def __init__(
        self,
        *,
        tracking_uri: str,
        experiment: str,
        artifacts: str | None = None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        database_of(tracking_uri)
        self._uri, self._experiment, self._artifacts = tracking_uri, experiment, artifacts
        self._clock, self._sleep = clock, sleep

    def publish(self, report: Report, folder: Path) -> str:
        """Publish or update the run; returns where a person finds it.

        Every variant is tried. Raises ``QuantgateError`` where the store cannot be used, and at the end where the run
        or a variant was published in part: its MLflow run is FAILED then. The folder is only read.
        """
        with quiet():
            try:
                return self._publish(report, folder)
            except QuantgateError:
                raise
            except Exception as error:  # the library's errors have no common class; the caller reports ours
                why = _first_line(error).replace(self._uri, shown(self._uri))
                raise QuantgateError(
                    f"MLflow at {shown(self._uri)}: {why}; the report is whole in {folder}"
                ) from error

    def _publish(self, report: Report, folder: Path) -> str:
        """Runs first, then each variant, then the run as a whole."""
        store = Store(self._uri, artifacts=self._artifacts, sleep=self._sleep)
        with store.exclusively():
            experiment_id, parent, children = self._runs(store, report)
        problems: list[str] = []
        for variant, child in children.items():
            broken = bool(getattr(row_of(report, variant), "failures", ()))
            with self._ended(child, report, problems, named=variant, broken=broken):
                _fill_variant(child, report, variant, parent.run_id, folder)
        with self._ended(parent, report, problems, named="the run", broken=bool(problems)):
            _fill_run(parent, report, folder)
        if problems:
            raise QuantgateError(f"MLflow run {parent.run_id} was published in part: {'; '.join(problems)}")
        return self._sentence(experiment_id, parent.run_id, len(children), folder)

    def _runs(self, store: Store, report: Report) -> tuple[str, RunWriter, dict[str, RunWriter]]:
        """Experiment id, the parent run and each variant's run: those that exist, else new ones."""
        experiment_id = store.experiment(self._experiment)
        known = store.runs(experiment_id, report.run_id)
        start_ms, now_ms = self._span_ms(report)[0], int(self._clock() * 1000)
        self._prepare(store, experiment_id, view_tag(report, now_ms))

        def writer(key: str | None, name: str, tags: dict[str, str], place: int = 0) -> RunWriter:
            found = known.get(key) or store.attempt(
                store.client.create_run, experiment_id, start_time=start_ms - place, tags=tags, run_name=storable(name)
            )
            if found.info.experiment_id != experiment_id:
                raise QuantgateError(f"MLflow put run {found.info.run_id} into experiment {found.info.experiment_id}")
            return RunWriter(store, found, now_ms)

        parent = writer(None, f"{report.model} {report.run_id}", run_tags(report, None))
        variants = enumerate(variants_of(report))  # a millisecond apart: the UI, newest first, shows them in the report's order
        children = {v: writer(v, v, variant_tags(report, v, parent.run_id), place) for place, v in variants}
        return experiment_id, parent, children

    @staticmethod
    def _prepare(store: Store, experiment_id: str, view: str | None) -> None:
        """Tell the UI how to open the experiment; what a person chose as its kind stays."""
        tags = store.attempt(store.client.get_experiment, experiment_id).tags
        if KIND not in tags:
            store.attempt(store.client.set_experiment_tag, experiment_id, KIND, MODEL_TRAINING)
        if view is not None and not same_view(tags.get(VIEW_TAG), view):
            store.attempt(store.client.set_experiment_tag, experiment_id, VIEW_TAG, view)

    @contextmanager
    def _ended(
        self, writer: RunWriter, report: Report, problems: list[str], *, named: str, broken: bool
    ) -> Iterator[None]:
        """End the run whatever the block does; what went wrong is added to ``problems`` and stops no other run."""
        status = "FAILED"
        try:
            yield
            status = "FAILED" if broken else "FINISHED"
        except Exception as error:  # any fault of one run is its own
            problems.append(f"{named}: {_first_line(error)}")
        try:
            writer.end(status, self._span_ms(report)[1])
        except Exception as error:
            problems.append(f"{named} could not be ended: {_first_line(error)}")

    def _span_ms(self, report: Report) -> tuple[int, int]:
        """Start and end of the measured run, not of its publication; now where the report's time cannot be read."""
        try:
            start_s = datetime.fromisoformat(report.created_at).timestamp()
        except ValueError:
            start_s = self._clock()
        return int(start_s * 1000), int((start_s + report.seconds) * 1000)

    def _sentence(self, experiment_id: str, run_id: str, variants: int, folder: Path) -> str:
        """Where a person finds the run; `ui` by itself opens the store beside the reports, so that another one is named to it."""
        place = f"run {run_id} and {variants} variants in experiment '{self._experiment}' of {shown(self._uri)}"
        if is_server(self._uri):
            return f"MLflow: {place}; open {address(shown(self._uri), experiment_id)}"
        beside = database_of(self._uri) == folder.absolute().parent / "mlflow.db"
        ui = f"quantgate ui{elsewhere(folder)}" if beside else f"MLFLOW_TRACKING_URI={shlex.quote(shown(self._uri))} quantgate ui"
        return f"MLflow: {place}; open it with: {ui}"


def _fill_variant(child: RunWriter, report: Report, variant: str, parent: str, folder: Path) -> None:
    """Everything of one variant. Tags come first: whatever fails later, the verdict stands."""
    child.tags(variant_tags(report, variant, parent))
    child.params(params_of(report, variant))
    child.metrics(figures_of(report, variant))
    child.inputs(report.golden_sets)
    child.table(table_of(report, variant, folder), "items.json")


def _fill_run(parent: RunWriter, report: Report, folder: Path) -> None:
    """Everything of the run as a whole."""
    parent.tags(run_tags(report, folder))
    parent.params(params_of(report, None))
    parent.metrics([*system_figures(folder), *speculation_of(report)])
    parent.inputs(report.golden_sets)
    parent.pictures(pictures(report))
    parent.pages(report, folder)


def _first_line(error: Exception) -> str:
    """What a message needs of an error whose text may be a page of SQL."""
    return str(error).strip().partition("\n")[0] or type(error).__name__
