from collections.abc import Iterator
from dataclasses import replace
from xml.etree import ElementTree

import samples
from quantgate.records import Report
from quantgate.render import figures, throughput

SVG = "{http://www.w3.org/2000/svg}"


def drawn(report: Report) -> Iterator[ElementTree.Element]:
    for text in (
        figures.interval_figure(report, "everyday"),
        throughput.throughput_figure(report),
        figures.memory_figure(report),
    ):
        if text:
            yield ElementTree.fromstring(text)


def test_each_figure_is_titled_and_within_its_box() -> None:
    """Every figure is well-formed, says its finding in a title, and places its text inside the view box."""
    for build in (samples.sample_report, samples.all_failing, samples.unmeasured, samples.two_golden_sets):
        for root in drawn(build()):
            assert root.findtext(f"{SVG}title")
            _, _, width, height = map(float, root.attrib["viewBox"].split())
            for text in root.iter(f"{SVG}text"):
                assert 0 <= float(text.attrib["x"]) <= width
                assert 0 < float(text.attrib["y"]) <= height


def test_labels_do_not_overlap() -> None:
    """Two texts on one line of a figure keep apart, by a generous estimate of their widths."""
    for root in drawn(samples.sample_report()):
        boxes = [box for text in root.iter(f"{SVG}text") for box in [_box(text)]]
        for index, first in enumerate(boxes):
            for second in boxes[index + 1 :]:
                assert not (_meet(first[0], second[0]) and _meet(first[1], second[1])), (first, second)


def _box(text: ElementTree.Element) -> tuple[tuple[float, float], tuple[float, float], str]:
    size, words = float(text.attrib["font-size"]), text.text or ""
    x, y, width = float(text.attrib["x"]), float(text.attrib["y"]), 0.55 * size * len(words)
    start = x - {"start": 0.0, "middle": 0.5, "end": 1.0}[text.attrib["text-anchor"]] * width
    return (start, start + width), (y - 0.75 * size, y), words


def _meet(first: tuple[float, float], second: tuple[float, float]) -> bool:
    return first[0] < second[1] and second[0] < first[1]


def test_close_lines_keep_their_labels_apart() -> None:
    """Four variants of equal speed get labels on four lines."""
    report = samples.sample_report()
    row = report.measurements[1]
    same = tuple(replace(row, variant=f"v{index}") for index in range(4))
    root = ElementTree.fromstring(throughput.throughput_figure(replace(report, measurements=same)))
    heights = sorted(float(text.attrib["y"]) for text in root.iter(f"{SVG}text") if (text.text or "").startswith("v"))
    gaps = [below - above for above, below in zip(heights[-4:], heights[-3:], strict=False)]
    assert all(gap >= 17 for gap in gaps)


def test_findings_say_what_was_found() -> None:
    """Titles name who is within the margin, who is not decided, and what the chosen variant reaches."""
    report = samples.sample_report()
    assert (
        figures.interval_finding(report, "everyday")
        == "Loss on everyday v1. int8: within the margin; nf4: not decided."
    )
    assert throughput.throughput_finding(report).startswith("int8 reaches 41 tokens/s at batch 21, 0.66x")
    assert figures.memory_finding(report) == "int8 frees 318 MB of weights: 21 requests fit instead of 11."


def test_nothing_measured_draws_nothing() -> None:
    """Without figures there is no drawing, and no zero is drawn in its place."""
    report = samples.empty()
    assert figures.interval_figure(report, "everyday") == ""
    assert throughput.throughput_figure(report) == ""
    assert figures.memory_figure(report) == ""
    assert figures.interval_strip(None, (-0.03, 0.06), ident="x") == ""


def test_hostile_names_stay_text() -> None:
    """A variant's name cannot become an element."""
    report = samples.sample_report()
    rows = tuple(replace(row, variant=samples.HOSTILE) for row in report.measurements)
    verdicts = tuple(replace(item, variant=samples.HOSTILE) for item in report.verdicts)
    for root in drawn(replace(report, measurements=rows, verdicts=verdicts)):
        assert not [element for element in root.iter() if element.tag.endswith("script")]


def test_a_far_control_does_not_squeeze_the_rest() -> None:
    """The stretch that is drawn ends at five margins, however far a control is beyond it."""
    report = samples.sample_report()
    pairs = [(item, item.checks[0]) for item in report.verdicts if item.checks]
    low, high = figures.loss_domain(pairs)
    assert low <= -0.03
    assert 0.06 <= high <= 0.17


def test_odd_figures_are_drawn_all_the_same() -> None:
    """A margin of zero, missing bounds, a single batch and a batch of nothing break no figure."""
    report = samples.sample_report()
    odd = [
        samples.check("inconclusive", estimate=0.0, lower=0.0, bound=0.0, margin=0.0, level=0.95),
        samples.check("inconclusive", estimate=None, lower=None, bound=0.4, margin=None, level=0.95),
        samples.check("fail", estimate=1.0, lower=None, bound=1.0, margin=0.001, level=0.95),
    ]
    row = report.measurements[1]
    for check in odd:
        changed = replace(
            report,
            verdicts=(samples.verdict("int8", "candidate", check.outcome, check),),
            measurements=(replace(row, speed=row.speed[:1], ceiling=None), replace(row, weight_bytes=0, variant="b")),
        )
        assert len(list(drawn(changed))) == 3
