"""The nights before as a section of a page: what has a panel, what stands in the table, and nothing where there is nothing."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

from quantgate.records import Trend, TrendChange, TrendPoint, TrendSeries
from quantgate.render.trend import figure, section, text

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
    assert "3 nights are too few to tell a change" in page


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
    assert texts[0] == "m: 3 nights are too few to tell a change"
    assert texts[0] not in [one.text for one in ElementTree.fromstring(figure(TREND, heading=False)).iter() if one.tag.endswith("text")]


def test_silence_means_something_only_from_the_sixth_night_on() -> None:
    """With five nights no change could be told however large, and text, page and figure say that; with six they say that none is there."""
    five, six = (_long(nights) for nights in (5, 6))
    assert "No change can be told yet: that takes 6 nights of one series, and the longest here has 5." in text(five)
    assert "within the noise" not in text(five) and "nothing got worse" not in section(five) + figure(five)
    assert "No change is told: every series of 6 nights or more stays within the noise of its nights." in text(six)
    assert "Over 6 nights nothing got worse" in section(six) and "over 6 nights nothing got worse" in figure(six)


def _long(nights: int) -> Trend:
    names = tuple(f"night-{number}" for number in range(nights))
    points = tuple(TrendPoint(run_id=name, created_at="", value=0.01, lower=None, upper=None) for name in names)
    return replace(TREND, nights=names, series=(replace(TREND.series[0], points=points),))
