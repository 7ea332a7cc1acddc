"""The nights before as a section of a page: what has a panel, what stands in the table, and nothing where there is nothing."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

from quantgate.records import Trend, TrendChange, TrendPoint, TrendSeries
from quantgate.render.trend import figure, section

NIGHTS = ("night-1", "night-2", "night-3")


def series(variant: str, what: str, values: tuple[float, ...], spread: float | None = None, **fields: object) -> TrendSeries:
    """One figure over the nights, with an interval where there is a spread."""
    points = tuple(
        TrendPoint(
            run_id=night,
            created_at="",
            value=value,
            lower=None if spread is None else value - spread,
            upper=None if spread is None else value + spread,
        )
        for night, value in zip(NIGHTS, values, strict=True)
    )
    made = TrendSeries(variant=variant, role="candidate", what=what, golden_set=None, points=points, changes=())  # type: ignore[arg-type]
    return replace(made, **fields)  # type: ignore[arg-type]


TREND = Trend(
    model="m",
    nights=NIGHTS,
    series=(
        series("int8", "loss", (0.01, 0.01, 0.01), 0.005),
        series("int8", "freed", (1e9, 1e9, 1e9)),
        series("int8", "tokens_per_s", (100.0, 101.0, 99.0), 2.0),
        series("int8", "ceiling", (8.0, 8.0, 7.0)),
    ),
    notes=(),
)


def test_a_section_draws_what_moves_and_lists_all() -> None:
    """Losses, speed and what is not constant have panels; the table has every series, tonight's with its interval."""
    page = section(TREND)
    assert page.startswith('<section id="nights">')
    drawing = page.split("<svg", 1)[1].split("</svg>", 1)[0]
    assert "loss, points" in drawing and "tokens/s there" in drawing and "batch fits" in drawing and "weights freed" not in drawing
    assert "weights freed" in page
    assert "99 [97, 101]" in page
    assert "Over 3 nights nothing got worse" in page


def test_a_change_is_said_with_its_suspects() -> None:
    """Since when, and what else is different; names from elsewhere are escaped."""
    change = TrendChange(
        since="night-2", told="night-3", nights=2, before=0.01, after=0.05, z=9.0, worse=True, suspects=("torch 2.13 -> 2.14", "<b>")
    )
    page = section(replace(TREND, series=(replace(TREND.series[0], changes=(change,)), *TREND.series[1:])))
    assert "1 of 4 series stand worse than before" in page
    assert "torch 2.13 -&gt; 2.14" in page and "&lt;b&gt;" in page and "<b>" not in page


def test_nothing_to_look_back_on() -> None:
    """No trend and no series: no section."""
    assert section(None) == section(replace(TREND, series=())) == ""


def test_the_figure_alone_has_its_finding_as_heading() -> None:
    """In the file of `trend` the finding is drawn; on a page it stands above."""
    texts = [one.text for one in ElementTree.fromstring(figure(TREND)).iter() if one.tag.endswith("text")]
    assert texts[0] == "m: nothing got worse"
    assert "nothing got worse" not in [
        one.text for one in ElementTree.fromstring(figure(TREND, heading=False)).iter() if one.tag.endswith("text")
    ]
