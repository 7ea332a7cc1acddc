"""MLflow's model registry: versions that point at the stored artifact, and the alias that says which one is out.

MLflow has no compare-and-set. Over a local SQLite store a change is made under the lock file beside the database, over
any other store under a claim (``mlflow_claims``); every quantgate process does so (``mlflow`` commands typed by a person
do not). The alias is read, set and read back, so that what somebody else did in between is reported.

A database takes the artifact's own ``file:`` address as a version's source. A server refuses local paths outside
of a run's artifacts, so there the source is a small pointer file, logged to a run of the experiment ``quantgate-
registry``; the tag ``artifact_path`` holds the path in both cases. Weights are never copied.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from quantgate.errors import RegistryError, UsageError
from quantgate.names import check_alias
from quantgate.records import Report
from quantgate.registries.local import Candidate, candidate_of, check_expected, check_promotable, identity
from quantgate.registries.mlflow_claims import claimed
from quantgate.sinks.mlflow_store import Store, database_of, is_server, quiet, shown

POINTER_EXPERIMENT = "quantgate-registry"
_POINTER_FOLDER = "checkpoint"


class MlflowRegistry:
    """The registry port over MLflow. ``tracking_uri``: ``sqlite:///<file>.db``, another database, or the address of a server."""

    def __init__(self, *, tracking_uri: str, artifacts: str | None = None, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._database = database_of(tracking_uri)
        self._uri, self._artifacts = tracking_uri, artifacts

    def register(self, model: str, report: Report, variant: str) -> str:
        """Record a judged candidate and return its version. Raises ``RegistryError``.

        The same artifact and evidence give the version that exists, with the tags of the last judgement.
        """
        candidate = candidate_of(report, variant)
        with self._open() as client:
            _create_model(client, model)
            with self._alone(client, model):
                for found in _versions(client, model):
                    if identity(found.tags) == candidate.identity:
                        _retag(client, found, candidate)
                        return str(found.version)
                return self._create_version(client, model, candidate)

    def alias(self, model: str, alias: str) -> str | None:
        """The version the alias points at, None where it points nowhere. Raises ``RegistryError``."""
        with self._open() as client:
            return _alias(client, model, alias)

    def move(self, model: str, alias: str, *, to: str, expecting: str | None, reason: str | None = None) -> None:
        """Compare, set, read back. Raises ``RegistryError`` on a refusal or a lost race.

        The reason of a move back becomes a tag of both versions, ``rollback.<time>.<alias>``; tags of earlier ones stay.
        """
        check_alias(alias)
        with self._open() as client, self._alone(client, model, version=to):
            check_promotable(model, to, _found(client, model, to).tags, self._clock())
            check_expected(model, alias, _alias(client, model, alias), expecting)
            client.set_registered_model_alias(model, alias, to)
            found = _alias(client, model, alias)
            if found != to:
                raise RegistryError(
                    f"alias '{alias}' of '{model}' was set to version {to} and points at {found or 'nothing'} now: "
                    "another promotion came in between; run again to be compared with the version that is out"
                )
            if reason is not None:
                self._note(client, model, alias, (expecting, to), reason)

    def tags(self, model: str, version: str) -> Mapping[str, str]:
        """What a version was registered with. Raises ``RegistryError`` where there is no such version."""
        with self._open() as client:
            return dict(_found(client, model, version).tags)

    @contextmanager
    def _alone(self, client: MlflowClient, model: str, *, version: str | None = None) -> Iterator[None]:
        """Keep others from changing the model meanwhile. A ``version`` that does not exist is refused before anything is claimed."""
        if version is not None:
            _found(client, model, version)
        with nullcontext() if self._database is not None else claimed(client, model, clock=self._clock):
            yield

    def _note(self, client: MlflowClient, model: str, alias: str, move: tuple[str | None, str], reason: str) -> None:
        """Why an alias went back, on the version it left and on the one it points at."""
        at = datetime.fromtimestamp(self._clock(), UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
        said = f"{alias}: version {move[0]} -> {move[1]}: {reason}"
        for version in (one for one in move if one is not None):
            try:
                client.set_model_version_tag(model, version, f"rollback.{at}.{alias}", said)
            except MlflowException as error:
                raise RegistryError(f"{alias} was moved to version {move[1]}, and the reason could not be recorded: {error}") from error

    def _create_version(self, client: MlflowClient, model: str, candidate: Candidate) -> str:
        """A new version, which points at the artifact where it lies."""
        source, run_id = Path(candidate.artifact_path).absolute().as_uri(), None
        if is_server(self._uri):
            source, run_id = _pointer(client, model, candidate, source)
        about = f"{candidate.tags['variant']} of quantgate run {candidate.tags['run_id']}: {candidate.tags['outcome']}"
        created = client.create_model_version(
            model, source, run_id=run_id, tags=dict(candidate.tags), description=about, await_creation_for=0
        )
        return str(created.version)

    @contextmanager
    def _open(self) -> Iterator[MlflowClient]:
        """A client whose store exists, under the lock of a local one; every other error becomes ``RegistryError``."""
        try:
            with quiet():
                store = Store(self._uri, artifacts=self._artifacts)
                with store.exclusively():
                    yield store.client
        except (RegistryError, UsageError):
            raise
        except Exception as error:  # the library's errors have no common class
            why = str(error).strip().partition("\n")[0] or type(error).__name__
            raise RegistryError(f"MLflow registry at {shown(self._uri)}: {why.replace(self._uri, shown(self._uri))}") from error


def _alias(client: MlflowClient, model: str, alias: str) -> str | None:
    """The version of an alias; None where the model or the alias does not exist."""
    try:
        found = client.get_registered_model(model).aliases.get(alias)
    except MlflowException as error:
        if error.error_code == "RESOURCE_DOES_NOT_EXIST":
            return None
        raise
    return None if found is None else str(found)


def _found(client: MlflowClient, model: str, version: str) -> Any:
    """A version. Raises ``RegistryError`` where there is none such."""
    try:
        found = client.get_model_version(model, version)
    except MlflowException as error:
        raise RegistryError(f"'{model}' has no version {version}, so no alias can point at it") from error
    if str(found.version) != version:  # MLflow reads '01' as 1
        raise RegistryError(f"'{model}' has no version {version}; the nearest is {found.version}")
    return found


def _create_model(client: MlflowClient, model: str) -> None:
    """The registered model, where it is missing."""
    try:
        client.create_registered_model(model)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise


def _versions(client: MlflowClient, model: str) -> Iterator[Any]:
    """Every version of the model, page by page."""
    quoted = f"name={_quoted(model)}"
    token: str | None = None
    while True:
        page = client.search_model_versions(quoted, page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def _quoted(text: str) -> str:
    """The text as MLflow's filters take it."""
    return f'"{text}"' if "'" in text else f"'{text}'"


def _retag(client: MlflowClient, found: Any, candidate: Candidate) -> None:
    """Give a version the tags of the last judgement; ``pass`` is set last and any other outcome first."""
    passed = candidate.tags["outcome"] == "pass"
    for key, value in sorted(candidate.tags.items(), key=lambda tag: (tag[0] == "outcome") == passed):
        if found.tags.get(key) != value:
            client.set_model_version_tag(found.name, str(found.version), key, value)


def _pointer(client: MlflowClient, model: str, candidate: Candidate, address: str) -> tuple[str, str]:
    """Source and run id for a server: a pointer file as the artifact of a run of its own, or of one that was left half done."""
    experiment_id = _experiment(client)
    wanted = {"artifact_sha256": candidate.identity[0], "evidence_sha256": candidate.identity[1], "registered_model": model}
    query = " and ".join(f"tags.{key} = {_quoted(value)}" for key, value in wanted.items())
    found = client.search_runs([experiment_id], query, max_results=1)
    name, tags = f"{model} {candidate.tags['variant']}", {**candidate.tags, "registered_model": model}
    run = found[0] if found else client.create_run(experiment_id, run_name=name, tags=tags)
    run_id = str(run.info.run_id)
    content = {"artifact": address, "sha256": candidate.tags["artifact_sha256"], "note": "weights lie at this address"}
    client.log_dict(run_id, content, f"{_POINTER_FOLDER}/pointer.json")
    client.update_run(run_id, status="FINISHED")
    return f"runs:/{run_id}/{_POINTER_FOLDER}", run_id


def _experiment(client: MlflowClient) -> str:
    """The experiment of pointers, created where it is missing; the loser of a race takes the winner's."""
    for _ in range(3):
        found = client.get_experiment_by_name(POINTER_EXPERIMENT)
        if found is not None:
            return str(found.experiment_id)
        try:
            return str(client.create_experiment(POINTER_EXPERIMENT))
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
    raise RegistryError(f"MLflow experiment '{POINTER_EXPERIMENT}' can be neither found nor created")
