"""The saved view of MLflow's UI: which columns and charts, and that it fits into a tag."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from publishing import report
from quantgate.sinks.mlflow_figures import figures_of, variant_tags
from quantgate.sinks.mlflow_view import LONGEST_TAG, same_view, view_tag


def state(tag: str | None) -> dict[str, Any]:
    assert tag is not None
    found: dict[str, Any] = json.loads(json.loads(tag)["state"])
    return found


def test_the_columns_are_what_is_published() -> None:
    """Each metric of the view is one that a candidate has, and each tag one that a run may have."""
    run = report()
    metrics = {one.name for one in figures_of(run, "int8")}
    columns = state(view_tag(run, 1))["selectedColumns"]
    shown = {one.split("`")[1] for one in columns if one.startswith("metrics")}
    assert shown and shown <= metrics
    tags = {one.split("`")[1] for one in columns if one.startswith("tags")}
    assert tags - {"control_ok"} <= variant_tags(run, "int8", "parent").keys()


def test_the_charts_are_over_published_metrics() -> None:
    """Parallel coordinates and one scatter a golden set name metrics that a candidate has."""
    run = report()
    metrics = {one.name for one in figures_of(run, "int8")}
    parallel, scatter = state(view_tag(run, 1))["compareRunCharts"]
    assert set(parallel["selectedMetrics"]) <= metrics and len(parallel["selectedMetrics"]) == 4
    assert {scatter["xaxis"]["key"], scatter["yaxis"]["key"]} <= metrics


def test_more_golden_sets_than_fit_are_left_out() -> None:
    """A tag holds 5,000 characters: sets beyond that lose their columns, and the view stays valid."""
    run = report()
    many = tuple(replace(run.golden_sets[0], name=f"set-with-a-long-name-{number}") for number in range(40))
    tag = view_tag(replace(run, golden_sets=many), 1)
    assert tag is not None and len(tag) <= LONGEST_TAG
    assert "set-with-a-long-name-0/loss" in tag and "set-with-a-long-name-39" not in tag


def test_a_view_is_the_same_whenever_it_was_written() -> None:
    """Only what it shows is compared; a tag of another form is another view."""
    assert same_view(view_tag(report(), 1), view_tag(report(), 2))
    assert not same_view("{}", view_tag(report(), 1)) and not same_view(None, view_tag(report(), 1))
