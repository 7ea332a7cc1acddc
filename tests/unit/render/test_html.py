import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser

import pytest

import samples
from quantgate.records import Report
from quantgate.render import flips, html

BUILDERS = [
    samples.sample_report,
    samples.all_failing,
    samples.unmeasured,
    samples.empty,
    samples.two_golden_sets,
    samples.hostile,
]
VOID = {"meta", "br", "input"}


class Page(HTMLParser):
    """Collects tags, attributes and text, and refuses tags that do not close in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.mark.parametrize("build", BUILDERS)
def test_the_page_is_well_formed(build: Callable[[], Report]) -> None:
    """Every element closes in order, ids are unique, every reference within the page has its target."""
    page = Page(html.page(build()))
    assert not page.open
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    wanted = {
        (value or "").removeprefix("#")
        for _, attributes in page.tags
        for name, value in attributes.items()
        if name in ("href", "aria-labelledby")
    }
    assert wanted <= set(ids)


@pytest.mark.parametrize("build", BUILDERS)
def test_nothing_comes_from_elsewhere(build: Callable[[], Report]) -> None:
    """The page holds no script but the filter of its flips, no handler, and no address that a browser would fetch."""
    report = build()
    text = html.page(report)
    page = Page(text)
    assert [tag for tag, _ in page.tags].count("script") == bool(report.flips)
    assert not {tag for tag, _ in page.tags} & {"link", "img", "iframe", "object", "embed", "base"}
    for _, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on") or name in ("src", "action", "style")]
        assert (attributes.get("href") or "#").startswith("#")
    style = re.findall(r"<style>(.*?)</style>", text, re.S)
    assert len(style) == 1
    assert not re.search(r"url\(|@import|https?:", style[0])


def test_hostile_text_is_shown_not_obeyed() -> None:
    """Markup in prompts, answers, names and sentences is text; the page can be written as UTF-8."""
    text = html.page(samples.hostile())
    assert "<script" not in text.replace(flips.script(), "")
    assert text.count("&lt;script&gt;") > 20
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\u202a-\u202e\u2066-\u2069]", text)
    assert "alert('x')" in "".join(Page(text).text)
    text.encode("utf-8")


def test_every_section_is_there() -> None:
    """Verdict, promotion, variants, quality, flips, chain, speed and evidence with digests and commands are all shown."""
    report = samples.sample_report()
    text = "".join(Page(html.page(report)).text)
    for part in (
        "PASS",
        report.headline,
        "int8 is promoted: champion -> version 3",
        "Every check and what came of it",
        "everyday facts",
        "nf4: 54 items got worse, 27 got better",
        "0.0189",
        "6,905 KV tokens",
        "instead of 11",
        "FAIL, as it must be",
        report.policy.why,
        report.evidence_sha256,
        report.policy_sha256,
        "quantgate run configs/demo.yaml",
        "Mara keeps her bicycle",
    ):
        assert part in text


def test_numbers_are_right_aligned_and_tables_captioned() -> None:
    """Each table has a caption and a scroll container of its own; figures carry the class that sets them right."""
    text = html.page(samples.sample_report())
    assert text.count("<table") == text.count("<caption>") == text.count('class="scroll" tabindex')
    assert '<td class="n" data-label="Loss, points">-0.4</td>' in text


def test_unknown_is_a_dash_with_its_reason() -> None:
    """What was not measured is a dash in the table, and the reason stands on the page."""
    text = html.page(samples.unmeasured())
    assert "the worker died before a fill" in text
    assert "OutOfMemory: wanted 2.1 GB" in text
    row = re.findall(r"<tr><th[^>]*>int8<small>.*?</tr>", text)[0]
    cells = re.findall(r'<td class="n[^"]*" data-label="([^"]*)">([^<]*)', row)
    assert {name: cell for name, cell in cells if cell != "-"} == {"Weights, MB": "220"}


def test_many_flips_do_not_flood_the_page() -> None:
    """Beyond two hundred flips of a variant the page says how many are left to report.json."""
    report = samples.sample_report()
    many = tuple(replace(report.flips[0], item_id=f"x-{index}") for index in range(250))
    text = html.page(replace(report, flips=many))
    assert "50 more are in report.json and not searched here." in text
    assert text.count('<th scope="row" class="w">x-') == 200
