"""How MLflow's UI opens an experiment: which kind it is, and one saved view with the columns and charts that a comparison needs.

The UI keeps a saved view as a tag of the experiment, ``mlflow.sharedViewState.<id>``: an envelope with a name and the state as JSON.
The form is the UI's own and not part of MLflow's interface: a version that reads another form shows its usual columns, and nothing else
is lost. Every variant of every run is one row, rows of a run stand together, the newest run first.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from quantgate.records import Report
from quantgate.sinks.mlflow_figures import metric_name
from quantgate.sinks.mlflow_store import Store, quiet

KIND = "mlflow.experimentKind"
MODEL_TRAINING = "custom_model_development"
"""The kind whose page is the table of runs; without one the UI opens on traces of an application."""
VIEW = "quantgate"
VIEW_TAG = f"mlflow.sharedViewState.{VIEW}"
LONGEST_TAG = 5000
"""Characters that a database keeps of an experiment's tag."""
WIDE, MIDDLE, NARROW = 230, 190, 110
"""Pixels of a column: a run's id, a metric's whole name, a word."""
_SECTION = "quantgate-decides"
_TAGS = ("verdict", "role", "control_ok", "promoted")
_QUALITY = ("loss", "loss_upper", "margin", "flips_share", "kl_mean")
_OTHER = ("memory/freed_bytes", "memory/freed_share", "ceiling/confirmed_batch", "speed/tokens_per_s_at_ceiling")


def address(server: str, experiment_id: str) -> str:
    """Where a browser finds the comparison, on the UI at ``server``."""
    return f"{server.rstrip('/')}/#/experiments/{experiment_id}/runs?workflowType=machine_learning&viewStateShareKey={VIEW}"


def comparison(uri: str, experiment: str, server: str) -> str:
    """Likewise of an experiment by its name in a store; the UI's first page where the store has none such."""
    with quiet():
        store = Store(uri)
        found = store.attempt(store.client.get_experiment_by_name, experiment)
    return server if found is None else address(server, found.experiment_id)


def view_tag(report: Report, now_ms: int) -> str | None:
    """The saved view for the golden sets of a report, as many of them as fit; None where not even one does."""
    names = [metric_name(golden.name) for golden in report.golden_sets]
    for count in range(len(names), -1, -1):
        state = json.dumps(_state(names[:count]), separators=(",", ":"))
        envelope = {"name": VIEW, "createdAt": now_ms, "updatedAt": now_ms, "state": state}
        if len(found := json.dumps(envelope, separators=(",", ":"))) <= LONGEST_TAG:
            return found
    return None


def same_view(first: str | None, second: str | None) -> bool:
    """Whether two tags hold the same view, whenever they were written."""
    return bool(_state_in(first) == _state_in(second))


def _state_in(tag: str | None) -> Any:
    try:
        return None if tag is None else json.loads(tag)["state"]
    except (ValueError, KeyError, TypeError):
        return None


def _state(golden_sets: Sequence[str]) -> dict[str, Any]:
    """Columns, order and charts in the UI's own terms."""
    columns = [
        "attributes.`Source`",
        *(f"tags.`{name}`" for name in _TAGS),
        *(f"metrics.`{name}`" for name in [*_quality(golden_sets), *_OTHER]),
    ]
    section = {"uuid": _SECTION, "name": "What decides", "display": True, "isReordered": False, "deleted": False, "isGenerated": False}
    return {
        "searchFilter": "tags.`quantgate.kind` = 'variant'",
        "orderByKey": "tags.`mlflow.source.name`",
        "orderByAsc": False,
        "selectedColumns": columns,
        "columnOrder": columns,
        "columnWidths": {one: WIDE if one.startswith("attributes") else NARROW if one.startswith("tags") else MIDDLE for one in columns},
        "compareRunCharts": list(_charts(golden_sets)),
        "compareRunSections": [section],
        "isAccordionReordered": True,
    }


def _quality(golden_sets: Sequence[str]) -> Iterator[str]:
    for name in golden_sets:
        yield from (f"quality/{name}/{figure}" for figure in _QUALITY)


def _charts(golden_sets: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Parallel coordinates over what decides, and what is paid for the memory: freed share against loss, by golden set."""
    bounds = [f"quality/{name}/loss_upper" for name in golden_sets]
    axes = [*bounds, "memory/freed_share", "ceiling/confirmed_batch", "speed/tokens_per_s_at_ceiling"]
    yield {**_chart("PARALLEL", "all"), "selectedParams": [], "selectedMetrics": axes, "showAllRuns": True}
    for index, name in enumerate(golden_sets):
        across, up = ({"key": key, "type": "METRIC"} for key in ("memory/freed_share", f"quality/{name}/loss"))
        yield {**_chart("SCATTER", f"loss-{index}"), "xaxis": across, "yaxis": up}


def _chart(kind: str, name: str) -> dict[str, Any]:
    return {
        "type": kind,
        "uuid": f"quantgate-{name}",
        "runsCountToCompare": 100,
        "metricSectionId": _SECTION,
        "deleted": False,
        "isGenerated": False,
    }
