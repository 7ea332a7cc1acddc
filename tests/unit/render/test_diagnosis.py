"""A diagnosis on the terminal, in Markdown and on the page: limit, numbers, levers with their costs, and nothing that breaks out."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

import samples
from quantgate.diagnosis import diagnose
from quantgate.records import Report
from quantgate.render import diagnosis, html, markdown, terminal
from quantgate.symptoms import FIELDS, Symptoms, Timing, Trial

SEEN = Symptoms(
    memory_total_bytes=24 * 10**9, batch=8, failed_batch=16, compute_utilisation_share=0.4, step_s=0.031, bandwidth_bytes_per_s=9e11,
    out_of_memory=True, draft_cost_ratio=0.1, timings=(Timing(batch=1, step_s=0.03), Timing(batch=8, step_s=0.031)),
)  # fmt: skip
TRIAL = Trial(lever="quantization", name="<b>int8</b>|`x`\x1b[31m", gain=0.66, measured="batch 8 -> 16", cost="loss | <i>")


def report() -> Report:
    """A report with a diagnosis, whose trial has a name that would like to be markup."""
    return replace(samples.sample_report(), diagnosis=diagnose(SEEN, [TRIAL], ["a note"]))


def test_the_text_holds_everything() -> None:
    """Sentence, symptoms with units, every rule, lever, cost, threshold and note; no line longer than a page is wide."""
    found = diagnose(SEEN, [TRIAL], ["a note"])
    text = diagnosis.text(found)
    for part in ("We are memory-bound", "memory total: 24.0 GB", "compute utilisation: 40 %", "step time: 31.0 ms", "bandwidth: 900 GB/s",
                 "out of memory: yes", "decode steps: 30.0 ms at batch 1, 31.0 ms at batch 8", "a note", "0.66x"):  # fmt: skip
        assert part in re.sub(r"\s+", " ", text), part
    flat = re.sub(r"\s+", " ", text)
    assert all(f"{one.state}" in text and one.name in flat for one in found.rules)
    assert all(one.why in flat for one in found.thresholds)
    assert max(map(len, text.splitlines())) <= 116


@pytest.mark.parametrize("field", FIELDS, ids=lambda one: one.key)
def test_every_symptom_has_its_unit(field: object) -> None:
    """A value of each kind is written without an exponent, and never as unknown."""
    small = {"bytes": 1, "rate": 1.0, "share": 0.001, "count": 0, "rows": 1, "seconds": 1e-6, "ratio": 0.0, "cost": 1.0, "flag": False}
    text = diagnosis.value(field, small[field.kind])  # type: ignore[arg-type,attr-defined]
    assert text != "-" and "e-" not in text


def test_an_abstention_says_what_to_measure() -> None:
    """Contradictions and wanted measurements stand in every form."""
    found = diagnose(replace(SEEN, batch=20))
    assert found.limit == "abstain"
    shown = replace(samples.sample_report(), diagnosis=found)
    flat = [re.sub(r"\s+", " ", text) for text in (diagnosis.text(found), markdown.page(shown), html.page(shown))]
    for text in flat:
        assert "contradiction: batch 20 fits and batch 16 does not" in text
        assert "measure next: fills of both again, in fresh processes" in text


def test_the_line_at_the_terminal() -> None:
    """One sentence that begins with Limit, readable without colour, without control characters."""
    shown = report()
    assert diagnosis.limit_line(shown) == (
        "Limit: memory-bound at batch 8 with compute to spare; quantizing fits (more requests, slower), speculative decoding does not "
        "(it would add a second KV cache)."
    )
    text = terminal.verdict_table(shown)
    assert re.search(r"^Limit: memory-bound at batch 8", text, re.MULTILINE)
    assert "\x1b" not in text


def test_pages_keep_text_as_text() -> None:
    """Names of variants become neither markup nor columns."""
    text, page = markdown.page(report()), html.page(report())
    assert "<b>" not in text and "<i>" not in text and "<b>int8" not in page and "&lt;b&gt;int8" in page
    assert "\x1b" not in text and "\x1b" not in page
    assert 'id="diagnosis"' in page and 'href="#diagnosis"' in page
    assert "## Which limit binds" in text


def test_reports_of_earlier_versions() -> None:
    """Without a diagnosis there is no line, no section and no link to one."""
    old = samples.sample_report()
    assert old.diagnosis is None
    assert diagnosis.limit_line(old) == "" and "Limit:" not in terminal.verdict_table(old)
    assert "diagnosis" not in html.page(old) and "Which limit" not in markdown.page(old)
