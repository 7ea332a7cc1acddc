"""An MLflow store with what it lacks: one first use at a time, patience with a locked database, create-or-get.

Sink and registry share it. A store is a local SQLite file, another database that is written to directly (PostgreSQL, MySQL), or a
server's address. A local SQLite store is set up once under a lock file beside it (``<database>.lock``): two first users would otherwise run
the migrations twice. For another database the lock file lies with the artifacts; machines that share none must not be first together.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, ParamSpec, TypeVar
from urllib.parse import urlsplit
from urllib.request import url2pathname

from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from quantgate.errors import ConfigError, MissingExtra, QuantgateError
from quantgate.files import locked

P = ParamSpec("P")
T = TypeVar("T")

_RETRY_WAITS_S = (0.1, 0.2, 0.4, 0.8, 1.6)


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


def is_server(tracking_uri: str) -> bool:
    """Whether the store is reached over HTTP: such a one has artifacts and rules of its own."""
    return tracking_uri.startswith(("http://", "https://"))


def shown(tracking_uri: str) -> str:
    """The address without user name and password."""
    return re.sub(r"//[^/@]*@", "//", tracking_uri).rstrip("/")


class Store:
    """An MLflow store with what it lacks: one first use at a time, patience with a locked database, create-or-get.

    ``artifacts``: folder or address for artifacts of a new experiment; without one beside an SQLite file. A server has its own.
    """

    def __init__(self, tracking_uri: str, *, artifacts: str | None = None, sleep: Callable[[float], None] = time.sleep) -> None:
        """Connect, and create the tables where they are missing, in one process at a time.

        MLflow runs the migrations as soon as a client is made. A file that is no database is refused at once, and a database whose driver
        is not installed is a ``MissingExtra``.
        """
        self._sleep = sleep
        self.database = database_of(tracking_uri)
        self.uri = tracking_uri if self.database is None else f"sqlite:///{self.database}"
        self.artifacts = self._place(artifacts)
        with self.exclusively():
            if self.database is not None:
                _check_database(self.database)
            try:
                self.client: MlflowClient = self.attempt(MlflowClient, tracking_uri=self.uri, registry_uri=self.uri)
            except ModuleNotFoundError as error:
                raise _missing_driver(self.uri, str(error.name)) from error

    @contextmanager
    def exclusively(self) -> Iterator[None]:
        """Hold the lock file beside a local database, or with another one's artifacts; on a server there is none to hold."""
        with nullcontext() if (lock := self._lock()) is None else locked(lock):
            yield

    def _lock(self) -> Path | None:
        if self.database is not None:
            return Path(f"{self.database}.lock")
        if self.artifacts is None or not self.artifacts.startswith("file://"):
            return None
        return Path(url2pathname(urlsplit(self.artifacts).path)) / ".quantgate.lock"

    def _place(self, artifacts: str | None) -> str | None:
        """Where artifacts go; MLflow's own choice without a server, a folder where the process happens to stand, is never taken."""
        if is_server(self.uri):
            return None
        if artifacts is None:
            beside = None if self.database is None else self.database.parent / "mlartifacts"
            return None if beside is None else beside.as_uri()
        return artifacts if "://" in artifacts else Path(artifacts).absolute().as_uri()

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
                if self.artifacts is None and not is_server(self.uri):
                    raise ConfigError(f"MLflow store {shown(self.uri)} needs a place for artifacts: set mlflow.artifacts in the config")
                return str(self.attempt(self.client.create_experiment, name, artifact_location=self.artifacts))
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


def _missing_driver(uri: str, library: str) -> MissingExtra:
    """The driver that a database's address asks for, with how to install it."""
    what = "'quantgate[postgresql]'" if library.startswith("psycopg") else library
    return MissingExtra(f"MLflow store {shown(uri)}", library, install=f"pip install {what}")


def _check_database(database: Path) -> None:
    """Raise ``QuantgateError`` for a file that is no SQLite database: MLflow would retry on it for 100 seconds."""
    if not database.exists():
        return
    with database.open("rb") as handle:
        start = handle.read(15)
    if start not in {b"", b"SQLite format 3"}:
        raise QuantgateError(f"{database} is not an SQLite database: move it away or name another file")


@contextmanager
def quiet() -> Iterator[None]:
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
