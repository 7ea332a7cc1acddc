"""What the runs in MLflow say of the registry: which of them is out now, under which alias and version.

A run is published once and aliases move later, so whoever moves one has these marks written again, on the version that was left and on the
one that was reached. Only runs that exist are marked: nothing is created. Where the versions are MLflow's own, each gets the address of its
report and the id of its run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from quantgate.sinks.mlflow_store import Store, quiet

ALIASES, VERSION = "aliases", "registered_version"


class MlflowMarks:
    """Marks runs of one experiment."""

    def __init__(self, *, tracking_uri: str, experiment: str, artifacts: str | None = None) -> None:
        self._uri, self._experiment, self._artifacts = tracking_uri, experiment, artifacts

    def mark(self, of: Mapping[str, str], aliases: Sequence[str], *, promoted: bool) -> bool:
        """Write what a version's run is now; False where no such run was published.

        ``of``: run_id, variant, model, version and registry of the version. ``promoted`` is what holds for the alias of what is out.
        """
        with quiet():
            store = Store(self._uri, artifacts=self._artifacts)
            experiment = store.attempt(store.client.get_experiment_by_name, self._experiment)
            runs = {} if experiment is None else store.runs(experiment.experiment_id, of["run_id"])
            if of["variant"] not in runs:
                return False
            _tag(store, runs, of, aliases, promoted)
            if of["registry"] == "mlflow" and None in runs:
                _link(store, runs[None].info.run_id, runs[of["variant"]].info.run_id, of)
            return True


def _tag(store: Store, runs: Mapping[str | None, object], of: Mapping[str, str], aliases: Sequence[str], promoted: bool) -> None:
    """Tags of the variant's run, and of the run as a whole."""
    said = {"promoted": "true" if promoted else "false", VERSION: f"{of['model']} {of['version']}", ALIASES: ", ".join(aliases)}
    for key, value in said.items():
        _set(store, runs[of["variant"]], key, value)
    if None in runs:
        others = [run for variant, run in runs.items() if variant not in (None, of["variant"])]
        any_out = promoted or any(run.data.tags.get("promoted") == "true" for run in others)  # type: ignore[attr-defined]
        _set(store, runs[None], "promoted", "true" if any_out else "false")


def _set(store: Store, run: object, key: str, value: str) -> None:
    """Set a tag; an empty one is taken away, since the UI would show a name without anything."""
    tags, run_id = run.data.tags, run.info.run_id  # type: ignore[attr-defined]
    if value and tags.get(key) != value:
        store.attempt(store.client.set_tag, run_id, key, value)
    elif not value and key in tags:
        store.attempt(store.client.delete_tag, run_id, key)


def _link(store: Store, run_id: str, variant_run_id: str, of: Mapping[str, str]) -> None:
    """Where a person who looks at the version finds the report, and the figures it was judged by."""
    for key, value in (("report", f"runs:/{run_id}/report.html"), ("mlflow_run", variant_run_id)):
        store.attempt(store.client.set_model_version_tag, of["model"], of["version"], key, value)
