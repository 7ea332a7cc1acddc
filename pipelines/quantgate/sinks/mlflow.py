"""Publishes a report to MLflow: one run for the quantgate run, one child for each variant, names as REPORT.md has them.

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

import fcntl
import hashlib
import io
import json
import logging
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, RunTag
from mlflow.exceptions import MlflowException

from quantgate.errors import ConfigError, QuantgateError
from quantgate.records import Check, GoldenRow, MeasurementRow, Report, Scalar, Verdict

P = ParamSpec("P")
T = TypeVar("T")

PARAMS_PER_BATCH = 100
METRICS_PER_BATCH = 1000
LONGEST_PARAM = 250
LONGEST_NAME = 250
LONGEST_NOTE = 4000
LONGEST_DATASET_NAME = 500
LONGEST_DATASET_DIGEST = 36
LOCK_WAIT_S = 60.0
_RETRY_WAITS_S = (0.1, 0.2, 0.4, 0.8, 1.6)
_PAGE_FILES = ("report.html", "report.md", "report.json", "junit.xml")
_OPTIONAL_TAGS = ("verdict", "control_ok", "freed_simulated", "quantgate.changed_params")

# --------------------------------------------------------------------------------------------------------------- names


def metric_name(original: str) -> str:
    """The name in MLflow's alphabet ``[A-Za-z0-9_./ -]``, reversible by ``original_name``; usual names stay.

    Any other character becomes ``_x<UTF-8 in hex>_``, and so do ``_`` before ``x`` and path parts that are
    empty, ``.`` or ``..``. A name past 250 characters is cut and ends in a digest: ``metric_names.json`` has it whole.
    """
    name = "/".join(_path_part(part) for part in original.split("/"))
    if len(name) <= LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{name[: LONGEST_NAME - 20].rstrip('/')}_xh{digest}_"


def original_name(name: str) -> str:
    """The inverse of ``metric_name``. Raises ``ValueError`` for a name that was cut: ``h`` is no hexadecimal digit."""
    return re.sub(r"_x(h?[0-9a-f]*)_", lambda found: bytes.fromhex(found[1]).decode(errors="surrogatepass"), name)


def metric_names(originals: Iterable[str]) -> dict[str, str]:
    """Original -> name in MLflow. Raises ``QuantgateError`` where two originals would share a name."""
    names: dict[str, str] = {}
    taken: dict[str, str] = {}
    for original in originals:
        name = metric_name(original)
        if taken.setdefault(name, original) != original:
            raise QuantgateError(f"metrics {taken[name]!r} and {original!r} would both be called {name!r} in MLflow")
        names[original] = name
    return names


def _path_part(part: str) -> str:
    """One part between slashes, escaped so that it is never empty, ``.`` or ``..``."""
    if part in {"", ".", ".."}:
        return "".join(map(_escape, part)) or "_x_"
    return re.sub(r"_(?=x)|[^A-Za-z0-9_. -]", lambda found: _escape(found[0]), part)


def _escape(character: str) -> str:
    """A character as ``_x<hex>_``."""
    return f"_x{character.encode(errors='surrogatepass').hex()}_"


# -------------------------------------------------------------------------------------------- what stands in the store


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One metric. ``step`` is the batch size for ``speed/*`` by batch, else 0."""

    name: str
    value: float
    step: int = 0


_Raw = tuple[str, float | None, int]


def figures_of(report: Report, variant: str) -> tuple[Figure, ...]:
    """Every figure of one variant that was measured. Raises ``QuantgateError`` for NaN and infinity."""
    row, verdict = _row(report, variant), _verdict(report, variant)
    found = [*_quality(report, variant, verdict), *(_memory(row) if row else ()), *(_speed(row) if row else ())]
    measured = [Figure(name=name, value=float(value), step=step) for name, value, step in found if value is not None]
    for figure in measured:
        if not math.isfinite(figure.value):
            raise QuantgateError(f"{figure.name} of '{variant}' is {figure.value}: an unknown figure must be absent")
    return tuple(measured)


def _quality(report: Report, variant: str, verdict: Verdict | None) -> Iterator[_Raw]:
    """Accuracy, divergence, and what the gate saw of each golden set. Loss is positive when worse."""
    for row in report.quality:
        if row.variant == variant:
            group = f"quality/{row.golden_set}"
            yield f"{group}/accuracy", row.accuracy, 0
            yield f"{group}/kl_mean", row.kl.mean if row.kl else None, 0
            yield f"{group}/top1_agreement", row.kl.top1_agreement if row.kl else None, 0
    for check in _quality_checks(verdict):
        yield f"{check.name}/loss", check.estimate, 0
        yield f"{check.name}/loss_upper", check.bound, 0
        yield f"{check.name}/margin", check.margin, 0
        yield f"{check.name}/flips_share", _flips_share(check), 0


def _quality_checks(verdict: Verdict | None) -> Iterable[Check]:
    """One quality check a golden set; where a policy has several, the required one."""
    found: dict[str, Check] = {}
    for check in sorted(verdict.checks if verdict else (), key=lambda check: check.tier != "required"):
        if check.name.startswith("quality/"):
            found.setdefault(check.name, check)
    return found.values()


def _flips_share(check: Check) -> float | None:
    """Items whose correctness changed, either way, over all compared items."""
    return None if check.b is None or check.c is None or not check.n else (check.b + check.c) / check.n


def _memory(row: MeasurementRow) -> Iterator[_Raw]:
    """Weights and ceiling. Freed memory of a simulated variant is arithmetic and not published as measured."""
    yield "memory/weight_bytes", row.weight_bytes, 0
    if not row.freed_simulated:
        yield "memory/freed_bytes", row.freed_bytes, 0
        yield "memory/freed_share", row.freed_share, 0
    if row.ceiling:
        yield "ceiling/predicted_batch", row.ceiling.predicted, 0
        yield "ceiling/confirmed_batch", row.ceiling.confirmed, 0


def _speed(row: MeasurementRow) -> Iterator[_Raw]:
    """Speed over batch size."""
    for speed in row.speed:
        yield "speed/ttft_s", speed.ttft_s, speed.batch_size
        yield "speed/tpot_s", speed.tpot_s, speed.batch_size
        yield "speed/output_tokens_per_s", speed.output_tokens_per_s, speed.batch_size
        yield "speed/ratio_to_reference", speed.ratio_to_reference, speed.batch_size
    yield "speed/tokens_per_s_at_ceiling", row.tokens_per_s_at_ceiling, 0


def params_of(report: Report, variant: str | None) -> dict[str, str]:
    """What was asked for: of the run, and with ``variant`` of that one as well. What is unknown is absent."""
    row = _row(report, variant)
    bits, granularity = scheme_parts(row.scheme) if row else (None, None)
    found = {
        "model": report.model,
        "device": report.device.name if report.device else None,
        "golden_set": ", ".join(f"{golden.name} {golden.version}" for golden in report.golden_sets) or None,
        "policy_sha256": report.policy_sha256,
        "quantizer": row.quantizer if row else None,
        "bits": bits,
        "granularity": granularity,
        "dtype": row.dtype if row else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def scheme_parts(scheme: str) -> tuple[str | None, str | None]:
    """Bits and granularity of ``w4a16-g64`` and its like: ``("4", "group:64")``; a float variant has neither."""
    found = re.fullmatch(r"w(\d+)a\d+(?:-(channel)|-g(.+))?", scheme)
    if found is None:
        return None, None
    return found[1], found[2] or (f"group:{found[3]}" if found[3] else "tensor")


def run_tags(report: Report, folder: Path | None) -> dict[str, str]:
    """Tags of the parent run; the folder's place where it is given."""
    promoted = bool(report.promotion and report.promotion.promoted)
    return {
        **_common_tags(report, promoted),
        "quantgate.kind": "run",
        **({"quantgate.folder": str(folder.absolute())} if folder else {}),
        "outcome": report.outcome,
        "verdict": report.outcome,
        "exit_code": str(report.exit_code),
        "mlflow.note.content": _note(report.headline, *report.sentences),
    }


def variant_tags(report: Report, variant: str, parent: str) -> dict[str, str]:
    """Tags of a variant's run under the run ``parent``."""
    row, verdict, promotion = _row(report, variant), _verdict(report, variant), report.promotion
    promoted = bool(promotion and promotion.promoted and promotion.variant == variant)
    role = verdict.role if verdict else row.role if row else None
    control_ok = verdict.control_ok if verdict else None
    found = {
        **_common_tags(report, promoted),
        "quantgate.kind": "variant",
        "quantgate.variant": variant,
        "mlflow.parentRunId": parent,
        "role": role,
        "verdict": verdict.outcome if verdict else None,
        "control_ok": None if control_ok is None else _yes(control_ok),
        "freed_simulated": "true" if row and row.freed_simulated else None,
        "mlflow.note.content": _note(verdict.because if verdict else "", row.note if row else ""),
    }
    return {name: value for name, value in found.items() if value is not None}


def _common_tags(report: Report, promoted: bool) -> dict[str, str]:
    """Tags of every run."""
    return {
        "quantgate.run_id": report.run_id,
        "quantgate.version": report.fingerprint.quantgate_version,
        "evidence_sha256": report.evidence_sha256,
        "policy_sha256": report.policy_sha256,
        "promoted": _yes(promoted),
    }


def _yes(value: bool) -> str:
    """A truth value as tags spell it."""
    return "true" if value else "false"


def _note(*sentences: str) -> str:
    """The description of a run in the UI."""
    text = _storable("\n\n".join(sentence for sentence in sentences if sentence))
    return text if len(text) <= LONGEST_NOTE else text[: LONGEST_NOTE - 1] + "…"


def _variants(report: Report) -> tuple[str, ...]:
    """Every variant that was measured or judged, in the report's order."""
    named = [*(row.variant for row in report.measurements), *(verdict.variant for verdict in report.verdicts)]
    return tuple(dict.fromkeys(named))


def _row(report: Report, variant: str | None) -> MeasurementRow | None:
    """The variant's measurements, None where there are none."""
    return next((row for row in report.measurements if row.variant == variant), None)


def _verdict(report: Report, variant: str) -> Verdict | None:
    """The variant's verdict, None where it was not judged."""
    return next((verdict for verdict in report.verdicts if verdict.variant == variant), None)


# ------------------------------------------------------------------------------------------------------ per-item table


def table_of(report: Report, variant: str, folder: Path) -> dict[str, list[Scalar]]:
    """Small columns, one row an item: every item from the folder, or the flips where the folder has no scores."""
    files = sorted((folder / "variants" / variant / "scores").glob("*.jsonl"))
    rows = [row for file in files for row in _score_rows(file)] or list(_flip_rows(report, variant))
    return {column: [row.get(column) for row in rows] for column in (rows[0] if rows else ())}


def _score_rows(file: Path) -> Iterator[dict[str, Scalar]]:
    """The items of one score sheet; lines without an item id (a heading) are no items."""
    for line in file.read_text(encoding="utf-8").splitlines():
        item = json.loads(line) if line.strip() else {}
        if "item_id" in item:
            columns = ("item_id", "slice", "value", "why_unscored", "answered", "expected")
            yield {"golden_set": file.stem, **{column: _cell(item.get(column)) for column in columns}}


def _flip_rows(report: Report, variant: str) -> Iterator[dict[str, Scalar]]:
    """The variant's flips, without their prompts."""
    columns = ("golden_set", "item_id", "slice", "direction", "severity", "expected")
    answers = ("reference_answer", "variant_answer")
    for flip in report.flips:
        if flip.variant == variant:
            yield {column: _cell(getattr(flip, column)) for column in (*columns, *answers)}


def _cell(value: Scalar) -> Scalar:
    """A table cell that can be written as JSON."""
    return _storable(value) if isinstance(value, str) else value


def _storable(text: str) -> str:
    """The text as every database takes it: no lone surrogates, no NUL; a model's output may hold both."""
    return text.encode(errors="replace").decode().replace("\0", "\ufffd")


def _dataset(golden: GoldenRow) -> DatasetInput:
    """The golden set as a run's input. MLflow holds 36 characters of a digest: the whole one is in source and tag."""
    about = {"name": golden.name, "version": golden.version, "sha256": golden.sha256}
    dataset = Dataset(
        name=f"{golden.name} {golden.version}"[:LONGEST_DATASET_NAME],
        digest=golden.sha256[:LONGEST_DATASET_DIGEST],
        source_type="code",
        source=json.dumps({"tags": about}),
        profile=json.dumps({"num_rows": golden.items, "slices": len(golden.slices)}),
    )
    tags = [InputTag(key="mlflow.data.context", value="eval"), InputTag(key="sha256", value=golden.sha256)]
    return DatasetInput(dataset=dataset, tags=tags)


# --------------------------------------------------------------------------------------------------------------- store


def database_of(tracking_uri: str) -> Path | None:
    """The file of a local SQLite store, None for a server. Raises ``ConfigError`` for a store in a folder."""
    if tracking_uri.startswith("sqlite:///"):
        return Path(tracking_uri.removeprefix("sqlite:///").partition("?")[0]).absolute()
    if "://" not in tracking_uri or tracking_uri.startswith("file:"):
        raise ConfigError(
            f"MLflow store '{tracking_uri}' is a folder, where concurrent writers overwrite one another: "
            "use sqlite:///<file>.db or the http(s) address of a server"
        )
    return None


class Store:
    """An MLflow store with what it lacks: one first use at a time, patience with a locked database, create-or-get."""

    def __init__(self, tracking_uri: str, *, sleep: Callable[[float], None] = time.sleep) -> None:
        """Connect, and create the tables where they are missing, in one process at a time.

        MLflow runs the migrations as soon as a client is made. A file that is no database is refused at once.
        """
        self._sleep = sleep
        self.database = database_of(tracking_uri)
        self.uri = tracking_uri if self.database is None else f"sqlite:///{self.database}"
        with self.exclusively():
            if self.database is not None:
                _check_database(self.database)
            self.client: MlflowClient = self.attempt(MlflowClient, tracking_uri=self.uri, registry_uri=self.uri)

    @contextmanager
    def exclusively(self) -> Iterator[None]:
        """Hold the lock file beside a local database; on a server there is none to hold."""
        with nullcontext() if self.database is None else _locked(Path(f"{self.database}.lock")):
            yield

    def attempt(self, action: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call, and call again with growing pauses while SQLite says that it is locked (it rolled the call back)."""
        for wait_s in _RETRY_WAITS_S:
            try:
                return action(*args, **kwargs)
            except Exception as error:  # the wording is all that SQLAlchemy's, sqlite3's and MLflow's classes share
                if "is locked" not in str(error):
                    raise
                self._sleep(wait_s)
        return action(*args, **kwargs)

    def experiment(self, name: str) -> str:
        """The id of the experiment, created where it is missing; the loser of a race takes the winner's."""
        for _ in range(3):
            found = self.attempt(self.client.get_experiment_by_name, name)
            if found is not None:
                if found.lifecycle_stage != "active":
                    raise QuantgateError(f"MLflow experiment '{name}' is deleted: restore it or choose another name")
                return str(found.experiment_id)
            try:
                location = None if self.database is None else (self.database.parent / "mlartifacts").as_uri()
                return str(self.attempt(self.client.create_experiment, name, artifact_location=location))
            except MlflowException as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":
                    raise
        raise QuantgateError(f"MLflow experiment '{name}' can be neither found nor created")

    def runs(self, experiment_id: str, quantgate_run_id: str) -> dict[str | None, Any]:
        """Runs published before, by variant (None: the parent); of doubles the oldest."""
        wanted = f"tags.`quantgate.run_id` = '{quantgate_run_id}'"
        page = self.attempt(self.client.search_runs, [experiment_id], wanted)
        found = list(page)
        while page.token:
            page = self.attempt(self.client.search_runs, [experiment_id], wanted, page_token=page.token)
            found.extend(page)
        newest_first = sorted(found, key=lambda run: (run.info.start_time, run.info.run_id), reverse=True)
        return {run.data.tags.get("quantgate.variant"): run for run in newest_first}


def _check_database(database: Path) -> None:
    """Raise ``QuantgateError`` for a file that is no SQLite database: MLflow would retry on it for 100 seconds."""
    if not database.exists():
        return
    with database.open("rb") as handle:
        start = handle.read(15)
    if start not in {b"", b"SQLite format 3"}:
        raise QuantgateError(f"{database} is not an SQLite database: move it away or name another file")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock file exclusively, across processes and threads; the system frees it when a holder dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline_s = time.monotonic() + LOCK_WAIT_S
    with path.open("a") as handle:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline_s:
                    raise QuantgateError(f"{path} is held by another process for {LOCK_WAIT_S:.0f} s") from None
                time.sleep(0.02)
        yield


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
        fitting = {metric_name(key): self._short(metric_name(key), _storable(value)) for key, value in params.items()}
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
            Metric(names[figure.name], figure.value, self._now_ms, figure.step)
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
        else:
            self._do(self._store.client.log_table, self.run_id, dict(columns), file)

    def inputs(self, golden_sets: Sequence[GoldenRow]) -> None:
        """Log the golden sets as input datasets."""
        if golden_sets:
            self._do(self._store.client.log_inputs, self.run_id, [_dataset(golden) for golden in golden_sets])

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
        if (folder / "figures").is_dir():
            self._do(self._store.client.log_artifacts, self.run_id, str(folder / "figures"), "figures")

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


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep migrations and retries off the terminal; the levels are put back."""
    loggers = [logging.getLogger(name) for name in ("mlflow", "alembic")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL + 1)
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


# ---------------------------------------------------------------------------------------------------------------- sink


class MlflowSink:
    """The sink port over MLflow. ``clock`` gives seconds since 1970; ``sleep`` waits for a locked database."""

    name = "mlflow"

    def __init__(
        self,
        *,
        tracking_uri: str,
        experiment: str,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        database_of(tracking_uri)
        self._uri, self._experiment, self._clock, self._sleep = tracking_uri, experiment, clock, sleep

    def publish(self, report: Report, folder: Path) -> str:
        """Publish or update the run; returns where a person finds it.

        Every variant is tried. Raises ``QuantgateError`` where the store cannot be used, and at the end where the run
        or a variant was published in part: its MLflow run is FAILED then. The folder is only read.
        """
        with _quiet():
            try:
                return self._publish(report, folder)
            except QuantgateError:
                raise
            except Exception as error:  # the library's errors have no common class; the caller reports ours
                why = _first_line(error).replace(self._uri, _shown(self._uri))
                raise QuantgateError(
                    f"MLflow at {_shown(self._uri)}: {why}; the report is whole in {folder}"
                ) from error

    def _publish(self, report: Report, folder: Path) -> str:
        """Runs first, then each variant, then the run as a whole."""
        store = Store(self._uri, sleep=self._sleep)
        with store.exclusively():
            experiment_id, parent, children = self._runs(store, report)
        problems: list[str] = []
        for variant, child in children.items():
            broken = bool(getattr(_row(report, variant), "failures", ()))
            with self._ended(child, report, problems, named=variant, broken=broken):
                _fill_variant(child, report, variant, parent.run_id, folder)
        with self._ended(parent, report, problems, named="the run", broken=bool(problems)):
            _fill_run(parent, report, folder)
        if problems:
            raise QuantgateError(f"MLflow run {parent.run_id} was published in part: {'; '.join(problems)}")
        return self._sentence(experiment_id, parent.run_id, len(children))

    def _runs(self, store: Store, report: Report) -> tuple[str, RunWriter, dict[str, RunWriter]]:
        """Experiment id, the parent run and each variant's run: those that exist, else new ones."""
        experiment_id = store.experiment(self._experiment)
        known = store.runs(experiment_id, report.run_id)
        start_ms, now_ms = self._span_ms(report)[0], int(self._clock() * 1000)

        def writer(key: str | None, name: str, tags: dict[str, str]) -> RunWriter:
            found = known.get(key) or store.attempt(
                store.client.create_run, experiment_id, start_time=start_ms, tags=tags, run_name=_storable(name)
            )
            if found.info.experiment_id != experiment_id:
                raise QuantgateError(f"MLflow put run {found.info.run_id} into experiment {found.info.experiment_id}")
            return RunWriter(store, found, now_ms)

        parent = writer(None, f"{report.model} {report.run_id}", run_tags(report, None))
        children = {v: writer(v, v, variant_tags(report, v, parent.run_id)) for v in _variants(report)}
        return experiment_id, parent, children

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

    def _sentence(self, experiment_id: str, run_id: str, variants: int) -> str:
        """Where a person finds the run."""
        place = f"run {run_id} and {variants} variants in experiment '{self._experiment}' of {_shown(self._uri)}"
        if self._uri.startswith("http"):
            return f"MLflow: {place}; open {_shown(self._uri)}/#/experiments/{experiment_id}/runs/{run_id}"
        return f"MLflow: {place}; open it with: quantgate ui"


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
    parent.inputs(report.golden_sets)
    parent.pages(report, folder)


def _first_line(error: Exception) -> str:
    """What a message needs of an error whose text may be a page of SQL."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _shown(uri: str) -> str:
    """The address without user name and password."""
    return re.sub(r"//[^/@]*@", "//", uri).rstrip("/")
