"""Which registry and which MLflow store a run uses, and what MLflow is told when an alias moved.

Knows run.json, plugins and the environment; decides nothing. A user name and password in a store's address are not written into
``run.json``; they are taken from ``MLFLOW_TRACKING_URI`` again where that names the same place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from quantgate import config, plugins, runs
from quantgate.ports import Registry, Sink
from quantgate.records import RunInfo

Warn = Callable[[str], None]


def without_password(uri: str) -> str:
    """The address as it may be stored and shown: no user name, no password."""
    if "@" not in uri or uri.startswith("sqlite:"):
        return uri
    parts = urlsplit(uri)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def with_password(stored: str) -> str:
    """A stored address as it can be used: the environment's, where that is the same place."""
    given = config.tracking_uri_of_environment()
    return given if given is not None and without_password(given) == stored else stored


def registry_of(info: RunInfo, folder: Path) -> Registry:
    """The registry a run promotes into."""
    adapter = plugins.load("registry", info.registry)
    made: Registry = adapter(folder.parent / "registry.json") if info.registry == "local" else adapter(**mlflow(info, folder))
    return made


def mlflow_sink(info: RunInfo, folder: Path, experiment: str | None = None) -> Sink:
    """The sink for a run's own store, or for another experiment in it."""
    made: Sink = plugins.load("sink", "mlflow")(**mlflow(info, folder), experiment=experiment or info.experiment)
    return made


def mlflow(info: RunInfo, folder: Path) -> dict[str, Any]:
    """Address and place for artifacts: without one in the config beside an SQLite file, for another database beside the runs."""
    beside = None if info.tracking_uri.startswith("sqlite:") else str(folder.parent / "mlartifacts")
    return {"tracking_uri": with_password(info.tracking_uri), "artifacts": info.artifacts or beside}


def exists(info: RunInfo) -> bool:
    """Whether asking the store creates nothing: a local one that is not there would be made."""
    store = info.tracking_uri.removeprefix("sqlite:///")
    return store == info.tracking_uri or Path(store).is_file()


def follow(info: RunInfo, folder: Path, versions: Iterable[str | None], warn: Warn, also: str | None = None) -> None:
    """Write into the MLflow runs of these versions which aliases they have now. A fault is reported and changes nothing else.

    ``also``: an alias that was moved and is not one of the config's.
    """
    wanted = list(dict.fromkeys(one for one in versions if one is not None))
    if not wanted or not exists(info):
        return
    try:
        registry = registry_of(info, folder)
        aliases = list(dict.fromkeys(one for one in (info.alias, info.challenger, also) if one is not None))
        holders = {alias: registry.alias(info.registered_model, alias) for alias in aliases}
        marks = plugins.beside("marks", "mlflow")(**mlflow(info, folder), experiment=info.experiment)
        for version in wanted:
            tags = registry.tags(info.registered_model, version)
            held = [alias for alias in aliases if holders[alias] == version]
            marks.mark(_mark(info, version, tags), held, promoted=info.alias in held)
    except Exception as error:
        warn(f"the MLflow runs do not say what is out now: {error}")


def _mark(info: RunInfo, version: str, tags: Mapping[str, str]) -> dict[str, str]:
    """Which run a version belongs to, in the words of the marks."""
    return {
        "run_id": tags.get("run_id", ""),
        "variant": tags.get("variant", ""),
        "model": info.registered_model,
        "version": version,
        "registry": info.registry,
    }


def comparison(uri: str, reports: Path, server: str) -> str:
    """Where the UI at ``server`` shows the variants side by side; its first page where the experiment cannot be found."""
    try:
        experiment = runs.newest(reports).experiment
        found: str = plugins.beside("comparison", "mlflow")(uri, experiment, server)
    except Exception:  # an address that is less exact is no reason not to open the UI
        return server
    return found
