"""Figures and tables of speed: each says its finding, names its units, stays in its box, and leaves out what was not measured."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

import samples
import speeds
from quantgate.records import Crossover, DeviceState, MeasurementRow, Report, Roofs
from quantgate.render import html, latency, markdown, plot, quantities as q, roofs, speed, terminal, throughput

SVG = "{http://www.w3.org/2000/svg}"
DASHES = {"float32": None, "int8": "7 4", "nf4": "2 3"}


def _drawn(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def _texts(svg: str) -> list[str]:
    return [text.text or "" for text in _drawn(svg).iter(f"{SVG}text")]


@pytest.fixture(scope="module")
def report() -> Report:
    return speeds.report()


def test_every_figure_has_a_title_and_keeps_its_text_in_the_box(report: Report) -> None:
    """Titles for people who do not see the drawing; nothing is cut off, nothing is not a number."""
    assert list(speed.drawings(report)) == ["throughput", "latency", "roofline"]
    for svg in speed.drawings(report).values():
        root = _drawn(svg)
        _, _, width, height = map(float, root.attrib["viewBox"].split())
        assert root.findtext(f"{SVG}title") and root.attrib["role"] == "img"
        assert "nan" not in svg and "inf" not in svg
        for text in root.iter(f"{SVG}text"):
            length = 0.5 * float(text.attrib["font-size"]) * len(text.text or "")
            start = float(text.attrib["x"]) - {"start": 0.0, "middle": 0.5, "end": 1.0}[text.attrib["text-anchor"]] * length
            assert start > -4 and start + length < width + 4, text.text
            assert 0 < float(text.attrib["y"]) <= height, text.text


def test_variants_are_told_apart_without_colour(report: Report) -> None:
    """One dash a variant, the same in every figure; markers differ too."""
    for svg in speed.drawings(report).values():
        lines = [line for line in _drawn(svg).iter(f"{SVG}polyline") if line.attrib["stroke-width"] == "1.8"]
        dashes = {line.attrib.get("stroke-dasharray") for line in lines if line.attrib["stroke"] != "#c9d0d8"}
        assert dashes == set(DASHES.values())
    assert {style[2] for style in plot.styles(report).values()} == {"circle", "square", "triangle"}


def test_axes_have_units(report: Report) -> None:
    """Tokens/s, ms, operations a second and a byte, requests: each axis is named."""
    drawn = speed.drawings(report)
    assert "tokens/s" in _texts(drawn["throughput"])
    assert {"time per token after the first, ms", "time to the first token, prompts read, ms"} <= set(_texts(drawn["latency"]))
    assert "operations a second, logarithmic" in _texts(drawn["roofline"])
    assert any("operations a byte" in one for one in _texts(drawn["roofline"]))


def test_the_throughput_figure_marks_ceilings_and_the_crossover(report: Report) -> None:
    """A bar at each ceiling, a dashed rule where int8 crosses float32, and the place in words."""
    svg = throughput.throughput_figure(report)
    bars = [line for line in _drawn(svg).iter(f"{SVG}line") if line.attrib["stroke-width"] == "4"]
    assert len(bars) == 3
    assert "int8 crosses at batch 2.8" in _texts(svg)
    assert not any("nf4 crosses" in one for one in _texts(svg))
    assert throughput.throughput_finding(report).endswith("At equal batches it is the faster one below batch 2.8 only.")


def test_an_interval_of_the_crossover_is_a_band(report: Report) -> None:
    """With both ends a shaded band lies behind the rule; without them none does."""
    assert _bands(throughput.throughput_figure(report)) == 0
    rows = tuple(
        replace(row, crossover=replace(row.crossover, low=2.1, high=3.9, level=0.95)) if row.crossover and row.crossover.batch else row
        for row in report.measurements
    )
    assert _bands(throughput.throughput_figure(replace(report, measurements=rows))) == 1


def _bands(svg: str) -> int:
    """Areas as high as the plot; square markers are small."""
    return len([one for one in _drawn(svg).iter(f"{SVG}rect") if float(one.attrib["height"]) > 100])


def _row(report: Report, variant: str) -> MeasurementRow:
    return next(row for row in report.measurements if row.variant == variant)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (Crossover(kind="faster", smallest=1, largest=8),
         "x is faster than ref at every batch that both were timed at (from batch 1 to 8)."),
        (Crossover(kind="slower", smallest=1, largest=8),
         "x is slower than ref at every batch that both were timed at (from batch 1 to 8)."),
        (Crossover(kind="even", smallest=1, largest=8),
         "x is told apart from ref at no batch that both were timed at (from batch 1 to 8)."),
        (Crossover(kind="not_measured", why_not="no batch size was timed beside the reference"),
         "Where x crosses ref is not known: no batch size was timed beside the reference."),
        (Crossover(kind="several", batch=1.6, smallest=1, largest=8),
         "x crosses ref more than once from batch 1 to 8, first near batch 1.6: no one place is told."),
        (Crossover(kind="crosses", batch=2.83, low=2.1, high=3.9, level=0.95, falls=True, smallest=1, largest=8),
         "x is faster than ref below batch 2.8 and slower above it (2.1 to 3.9 at 95 %; both were timed from batch 1 to 8)."),
        (Crossover(kind="crosses", batch=2.83, falls=False, why_no_interval="too few", smallest=1, largest=8),
         "x is slower than ref below batch 2.8 and faster above it (no interval: too few; both were timed from batch 1 to 8)."),
        (Crossover(kind="crosses", batch=2.83, high=3.9, level=0.95, falls=True, why_no_interval="open below", smallest=1, largest=8),
         "x is faster than ref below batch 2.8 and slower above it (below 3.9 at 95 %, open below; both were timed from batch 1 to 8)."),
    ],
)  # fmt: skip
def test_a_crossover_is_said_plainly(report: Report, found: Crossover, said: str) -> None:
    """One sentence a case, with its interval and level, or why there is none."""
    row = replace(_row(report, "int8"), variant="x", crossover=found)
    assert throughput.crossover_sentence(row, "ref") == said


def test_the_latency_figure_says_what_a_token_takes(report: Report) -> None:
    """The chosen candidate and the reference, at the ends of what was timed."""
    assert latency.latency_finding(report) == (
        "A token takes 34.0 ms at batch 1 and 250 ms at 21 with int8; with float32 40.0 ms at batch 1 and 112 ms at 11."
    )
    assert "int8: 250 ms at 21" in _texts(latency.latency_figure(report))


def test_the_roofline_figure_has_measured_roofs_and_shares(report: Report) -> None:
    """Bandwidth, every matrix rate, the ridge, and each variant's share of the bandwidth from its first to its last batch."""
    texts = _texts(roofs.roofline_figure(report))
    assert {"memory 23.0 GB/s", "float32 120 GFLOP/s", "int8 95.0 Gop/s", "ridge 5.2"} <= set(texts)
    assert "float32: MBU 59 % to 23 %" in texts
    assert roofs.roofline_finding(report) == (
        "Memory is the nearer roof at small batches, arithmetic at large ones: "
        "float32 uses 59 % of the bandwidth at batch 1; int8 uses 29 % of the bandwidth at batch 1."
    )


def test_marks_lie_under_the_roofs(report: Report) -> None:
    """Each mark lies below the slope or the level that binds it: y grows downwards."""
    for row in report.measurements:
        for one in row.roofline:
            assert one.flops_per_s is not None and one.intensity is not None
            assert one.flops_per_s < min(23e9 * one.intensity, 120e9)


def test_what_was_not_measured_is_not_drawn() -> None:
    """A run without timing has no figure of speed; one without roofs has no roofline."""
    assert speed.drawings(samples.empty()) == {}
    assert "roofline" not in speed.drawings(samples.sample_report())
    assert roofs.roofline_figure(replace(speeds.report(), roofs=Roofs(why_not=("no memory",)))) == ""


def test_the_page_holds_figures_tables_and_their_reasons(report: Report) -> None:
    """Roofs with their scatter and working set, shares by batch, cost with its lengths and its budget's owner."""
    page = html.page(report)
    for words in (
        "Against the roofs of the device", "reading 538 MB", "16 times the last-level cache of 32.0 MiB", "multiplying in int8",
        "Not known here: this system does not tell the CPU&#x27;s governor.", "2 threads; before the timing clock 2.60 GHz",
        "Cost at 0.4 EUR an hour, 512 prompt and 128 output tokens", "EUR per million output tokens",
        "Budget of A. Berg, platform: at most 1.5 EUR per million output tokens.",
        "At its own ceiling, which decides, int8 decodes 84 tokens/s at 21: 0.86x float32&#x27;s 98 at 11.",
    ):  # fmt: skip
        assert words in page, words
    assert page.count("<svg") == page.count("</svg>")


def test_a_fault_stands_in_the_table_with_its_reason(report: Report) -> None:
    """The batch is there, its figures are not, and neither is a zero."""
    base = _row(report, "float32")
    faulty = replace(base.roofline[0], fault="it is 1.18 times the measured roof", mbu=None, mfu=None, tpot_s=None, step_bytes=None)
    rows = tuple(replace(row, roofline=(faulty,)) if row is base else row for row in report.measurements)
    page = speed.below_timings(replace(report, measurements=rows))
    assert "it is 1.18 times the measured roof" in page
    assert "against the roofs not known: it is 1.18 times" in terminal.show_variant(replace(report, measurements=rows), "float32")


def test_a_column_of_cost_needs_a_price(report: Report) -> None:
    """Terminal, page and Markdown have it with a price, and none without."""
    unpriced = replace(report, price=None, budget=None, measurements=tuple(replace(row, cost=None) for row in report.measurements))
    for made, there in ((report, True), (unpriced, False)):
        table = terminal.verdict_table(made)
        assert ("EUR per M tokens" in table) is there and ("1.33" in table) is there
        assert ("EUR per M tokens" in markdown.page(made)) is there
        assert ("EUR per M tokens" in html.page(made)) is there
    line = next(row for row in terminal.verdict_table(report).splitlines() if row.startswith("rtn2"))
    assert line.endswith(" -")


def test_a_variant_is_shown_with_its_shares_and_cost(report: Report) -> None:
    """One line a batch, and what a million tokens cost."""
    shown = terminal.show_variant(report, "int8")
    assert "batch 1: 34.0 ms a step, 9.75 ms at least (memory binds), MBU 29 %, MFU 6.8 %" in shown
    assert "1.52 EUR per million output tokens at batch 21, 73 tokens/s with prompts, 1.14x the reference's" in shown


def test_states_of_a_gpu_and_a_governor_are_said(report: Report) -> None:
    """Clocks, heat, and what holds a GPU down, before and after."""
    before = DeviceState(clock_hz=1.98e9, memory_clock_hz=3.2e9, temperature_c=41.0, throttled=())
    after = DeviceState(governor="performance", throttle_events=3, throttled=("software power cap",))
    page = speed.below_timings(replace(report, roofs=replace(speeds.ROOFS, before=before, after=after)))
    assert "before the timing clock 1.98 GHz, memory clock 3.20 GHz, 41 °C, clocks held down by nothing" in page
    assert "governor performance, slowed down by heat 3 times since it was switched on, clocks held down by software power cap" in page


@pytest.mark.parametrize(
    ("value", "towards", "text"),
    [(2.4951, "nearest", "2.50"), (2.5001, "up", "2.51"), (0.32495, "nearest", "0.325"), (0.0123456, "up", "0.0124"), (None, "up", "-")],
)
def test_money_has_two_decimals_or_three_figures(value: float | None, towards: q.Towards, text: str) -> None:
    """A cost over its limit never reads as if it met it."""
    assert q.money(value, towards=towards) == text


@pytest.mark.parametrize(
    ("value", "text"), [(23.1e9, "23.1 GB/s"), (4.8e12, "4.80 TB/s"), (999.6e6, "1.00 GB/s"), (12.0, "12.0 B/s"), (None, "-")]
)
def test_a_rate_has_the_prefix_that_suits_it(value: float | None, text: str) -> None:
    """Powers of a thousand, three figures."""
    assert q.rate(value, "B/s") == text
