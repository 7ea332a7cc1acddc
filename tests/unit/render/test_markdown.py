import re
from collections.abc import Callable
from dataclasses import replace

import pytest

import samples
from quantgate.records import Report
from quantgate.render import markdown

BUILDERS = [
    samples.sample_report,
    samples.all_failing,
    samples.unmeasured,
    samples.empty,
    samples.two_golden_sets,
    samples.hostile,
]


@pytest.mark.parametrize("build", BUILDERS)
def test_tables_keep_their_columns(build: Callable[[], Report]) -> None:
    """Every row of a table has as many cells as its header, whatever the texts hold."""
    for table in re.findall(r"(?:^\|.*\n)+", markdown.page(build()), re.M):
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}) == 1


def test_hostile_text_stays_text() -> None:
    """No tag, link, code span or control character of a report's texts survives."""
    text = markdown.page(samples.hostile())
    outside = re.sub(r"(`{3,})sh\n.*?\n\1", "", text, flags=re.S)
    assert "<" not in outside
    assert not re.search(r"(?<!\\)[`\[\]]|https?://", outside)
    assert all(letter.isprintable() or letter == "\n" for letter in text)


def test_the_page_is_complete() -> None:
    """Verdict, table, promotion, sentences, checks, failures, digests and exit code are shown."""
    report = samples.sample_report()
    text = markdown.page(report)
    for part in (
        "# PASS: int8 passes",
        "| int8 | **PASS** | -0.4 | 1.3 | 3.0 | 97.5 % |",
        report.evidence_sha256,
        "exit code 0",
    ):
        assert part in text
    assert "**int8 is promoted: champion -&gt; version 3" in text
    assert "did not finish: OutOfMemory" in markdown.page(samples.unmeasured())


def test_commands_cannot_leave_their_fence() -> None:
    """The fence is longer than any run of backticks in a command."""
    text = markdown.page(replace(samples.sample_report(), commands=("echo ````",)))
    assert "`````sh\necho ````\n`````" in text
