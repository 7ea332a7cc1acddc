"""How far distributions moved, on the page and as a figure."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import samples
from quantgate.records import KLPart, KLStatistics, ReadingRow
from quantgate.render import distance, html


def part(first: int, last: int, mean: float) -> KLPart:
    return KLPart(
        name=f"{first} to {last}",
        positions=last - first + 1,
        mean=mean,
        maximum=2 * mean,
        top1_agreement=0.9,
        first=first,
        last=last,
    )


def kl(scale: float, **fields: object) -> KLStatistics:
    bins = (part(1, 16, 0.4 * scale), part(17, 32, 0.2 * scale), part(33, 64, 0.1 * scale))
    return KLStatistics(
        positions=12_000,
        mean=0.2 * scale,
        median=0.1,
        p99=0.9,
        maximum=2.0,
        top1_agreement=0.93,
        by_position=bins,
        **fields,  # type: ignore[arg-type]
    )


WHOLE = kl(1.0, p999=1.5, rms_dp=0.04, standard_error=0.003, by_slice=(part(1, 2, 0.3), part(3, 4, 0.1)))


def row(variant: str, found: KLStatistics | None, **fields: object) -> ReadingRow:
    values = {
        "count": 100,
        "tokens": 12_000,
        "cut": 3,
        "tokens_per_text": 512,
        "perplexity": 12.345,
        "ratio_to_reference": None,
    }
    values["why_no_kl"] = None  # type: ignore[assignment]
    return ReadingRow(variant=variant, texts="books", kl=found, reference="stored", **{**values, **fields})  # type: ignore[arg-type]


def test_the_figure_says_where_each_variant_differs_most() -> None:
    """The title is the finding, each line has a marker and a dash of its own and its name in text, and the axis its unit."""
    rows = [("int8", kl(0.1)), ("nf4", kl(1.0))]
    svg = distance.position_figure(rows)
    root = ElementTree.fromstring(svg)
    said = " ".join(element.text or "" for element in root.iter())
    for words in (
        "int8 differs most at tokens 1 to 16",
        "nf4 differs most at tokens 1 to 16 (0.40 nats; at the end 0.10)",
        "nats a token",
        "token's number",
    ):
        assert words in said
    dashes = [
        element.get("stroke-dasharray")
        for element in root.iter()
        if element.tag.endswith("polyline") and element.get("stroke-width") == "1.8"
    ]
    assert len(set(dashes)) > 1
    assert not [element for element in root.iter() if element.tag.endswith("script")]


def test_no_positions_no_figure() -> None:
    """After prompts there is one position a text, so nothing is drawn."""
    assert (
        distance.position_figure(
            [("int8", KLStatistics(positions=100, mean=0, median=0, p99=0, maximum=0, top1_agreement=1))]
        )
        == ""
    )


def test_a_variant_that_did_not_move_is_drawn() -> None:
    """Zero everywhere is a line on the axis and no division by zero."""
    assert "polyline" in distance.position_figure([("copy", kl(0.0))])


def test_every_statistic_is_on_the_page() -> None:
    """Perplexity with its ratio, all statistics with units, slices, the cut and how the reference was had."""
    rows = (
        row("float32", None),
        row("nf4", WHOLE, ratio_to_reference=1.0432),
        row("int8", None, why_no_kl=samples.HOSTILE),
    )
    page = html.page(replace(samples.sample_report(), readings=rows, flips=()))
    for words in (
        "Texts books, 100 texts",
        "12,000 tokens",
        "3 were longer",
        "12.3",
        "1.04",
        "p99.9, nats",
        "1.50",
        "4.00",
        "Standard error",
        "KL divergence by slice",
    ):
        assert words in page, words
    assert "<script>" not in page


def test_statistics_after_prompts_have_no_columns_that_are_never_filled() -> None:
    """Without a true next token there is no column for its probability."""
    found = distance.after_prompts(
        [("int8", KLStatistics(positions=100, mean=0, median=0, p99=0, maximum=0, top1_agreement=1))]
    )
    assert "RMS" not in found
    assert "Same top token" in found


def test_a_control_far_off_does_not_press_the_others_on_the_axis() -> None:
    """The known-bad control stands in the table and not in the figure."""
    rows = (row("nf4", WHOLE), row("rtn2", kl(60.0)))
    report = replace(samples.sample_report(), readings=rows)
    page = html.page(report)
    assert "nf4 differs most" in page
    assert "rtn2 differs most" not in page
