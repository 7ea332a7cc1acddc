"""The batching lever on a page: every figure in its column, unknown as a dash, nothing where it was not tried."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest

import samples
from quantgate.records import Report
from quantgate.render import batching, html, markdown
from quantgate.sinks.mlflow_figures import figures_of
from quantgate.stages.batching_figures import rows_of
from streams import difference, run


def report(**lost: Any) -> Report:
    """A passing report with static and continuous batching of its reference, and an engine that did not run."""
    name = samples.sample_report().measurements[0].variant
    found = [run("alone", rows=1, steps=5), run("static", steps=5), run(token_s=((0.5, 1.0), (0.5, 1.0, 1.5)), wall_s=1.5)]
    found.append(run(engine="vllm", requests=(), why_not=lost.get("why_not", "not run: no interpreter")))
    return replace(samples.sample_report(), batching=rows_of([replace(one, variant=name) for one in found]))


def test_the_table_has_a_cell_for_every_header() -> None:
    """Engine, way, ratios, tails in milliseconds; a dash where nothing is known, never a 0."""
    rows = [dict(zip(batching.HEADERS, batching.row_cells(row), strict=True)) for row in report().batching]
    assert [row["Way"] for row in rows] == ["alone", "static batches", "continuous", "continuous (no figures)"]
    assert (rows[2]["vs static"], rows[2]["Utilisation"], rows[2]["Steps"], rows[2]["Other ids"]) == ("2.00x", "83 %", "3", "0")
    assert (rows[1]["vs static"], rows[1]["Utilisation"]) == ("-", "50 %")
    assert set(list(rows[3].values())[3:]) == {"-"}


def test_pages_show_the_lever_only_where_it_was_tried() -> None:
    """A section with its place in the contents, a heading in Markdown; without the lever neither."""
    page, text = html.page(report()), markdown.page(report())
    assert 'href="#batching"' in page
    assert "not run: no interpreter" in page
    assert f"## {batching.TITLE}" in text
    assert "no interpreter" in text
    plain = samples.sample_report()
    assert "#batching" not in html.page(plain)
    assert batching.TITLE not in markdown.page(plain)


def test_reasons_cannot_leave_their_place() -> None:
    """Markup and line ends in a reason stay text."""
    page, text = html.page(report(why_not=samples.HOSTILE)), markdown.page(report(why_not=samples.HOSTILE))
    assert "<script>alert" not in page
    assert "<script>alert" not in text


def test_the_schedule_is_a_drawing_of_every_request() -> None:
    """A bar for each request of both ways, hatched where a row was held by one that had ended; nothing without a schedule."""
    rows = report().batching
    root = ElementTree.fromstring(batching.schedule_figure(rows))
    bars = [one for one in root.iter("{http://www.w3.org/2000/svg}rect") if one.get("height") == "11"]
    assert len(bars) == 2 + 2 + 1
    assert sum("hatch" in str(one.get("fill")) for one in bars) == 1
    assert "50 % gave a token; where rows come and go, 83 % did with fake" in batching.schedule_finding(rows)
    assert batching.schedule_figure(rows[:1]) == ""


def test_ties_are_marked() -> None:
    """Other ids that rounding decides are not shown like wrong ones."""
    (row,) = rows_of([run(differences=(difference(1e-6),))])
    assert batching.row_cells(row)[-1] == "1 (ties)"


def test_mlflow_gets_what_was_measured() -> None:
    """Under the variant, by engine and way; an engine that did not run has no figure."""
    made = report()
    names = {one.name: one.value for one in figures_of(made, made.batching[0].variant)}
    assert names["levers/batching/fake/continuous/speed_ratio"] == pytest.approx(2.0)
    assert names["levers/batching/fake/static/utilisation"] == 0.5
    assert "levers/batching/fake/continuous/itl_p99_s" in names
    assert not any("vllm" in name for name in names)
