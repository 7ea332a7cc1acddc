import re
from collections.abc import Callable

import pytest

import samples
from quantgate.errors import UsageError
from quantgate.records import Report
from quantgate.render.terminal import show_variant, variant_lines, verdict_table

BUILDERS = [
    samples.sample_report,
    samples.all_failing,
    samples.unmeasured,
    samples.empty,
    samples.two_golden_sets,
    samples.hostile,
]


def table_of(text: str) -> list[str]:
    return text.split("\n\n")[1].splitlines()


def test_columns_stand_under_their_headers() -> None:
    """Every cell of a left-set column starts where its header starts, of a right-set one ends where it ends."""
    head, *rows = table_of(verdict_table(samples.sample_report()))[:5]
    cells = {
        "float32": ("reference", "62"),
        "int8": ("PASS", "41"),
        "nf4": ("INCONCLUSIVE", "35"),
        "rtn2 control": ("FAIL", "-"),
    }
    end = head.index("tok/s there") + len("tok/s there")
    for row in rows:
        name = next(name for name in cells if row.startswith(name))
        word, speed = cells[name]
        assert row.index(word) == head.index("verdict")
        assert row[:end].endswith(f" {speed}")


def test_decimal_points_of_losses_stand_under_each_other() -> None:
    """Losses and their bounds are aligned over the rows."""
    rows = [row for row in table_of(verdict_table(samples.sample_report())) if "[" in row][1:]
    assert len({row.index("[") for row in rows}) == len({row.index("]") for row in rows}) == 1


def test_the_verdict_is_complete() -> None:
    """Model, sets, policy, every variant, promotion, sentences, where to look and the exit code are all there."""
    report = samples.sample_report()
    text = verdict_table(report)
    for part in (
        report.model,
        "everyday v1 (520 items)",
        "policy default (margin 3.0 points, alpha 0.05, Holm over 2)",
        "cpu, 2 threads",
        "rtn2 control",
        "FAIL, as it must be",
        "-0.4 [ 1.3] <= 3.0",
        "2.9 [ 5.8] vs 3.0",
        "int8 97.5 %, nf4 95 %",
        "int8 is promoted: champion -> version 3",
        "quantgate ui",
        "quantgate show 5f1c --variant nf4",
        "report.html",
    ):
        assert part in text
    assert text.endswith("\nexit 0\n")


def test_colour_is_never_the_only_carrier() -> None:
    """With the escapes taken out, the coloured table is the plain one."""
    for build in BUILDERS:
        coloured = verdict_table(build(), colour=True)
        assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == verdict_table(build())


def test_unmeasured_is_not_green() -> None:
    """No green stands in a run of which nothing passed."""
    assert "\x1b[32m" not in verdict_table(samples.unmeasured(), colour=True)
    assert "\x1b[32m" not in verdict_table(samples.all_failing(), colour=True)


@pytest.mark.parametrize("build", BUILDERS)
def test_a_narrow_terminal_is_kept_to(build: Callable[[], Report]) -> None:
    """At 80 columns no line but the copyable commands is longer, and no figure is lost."""
    lines = verdict_table(build(), width=80).splitlines()
    assert all(len(line) <= 80 for line in lines if not line.startswith("report  "))


def test_nothing_measured_is_no_zero() -> None:
    """A variant of which nothing is known shows dashes only."""
    line = variant_lines(samples.unmeasured())[1]
    shown = (line.loss, line.upper, line.margin, line.flips, line.freed, line.batch, line.tokens_per_s, line.ratio)
    assert set(shown) == {"-"}
    assert line.verdict == "NOT MEASURED"


def test_the_set_is_named_where_there_are_several() -> None:
    """With two golden sets the deciding one stands beside its loss."""
    lines = {line.variant: line for line in variant_lines(samples.two_golden_sets())}
    assert (lines["int8"].golden_set, lines["nf4"].golden_set) == ("tickets", "everyday")
    assert "golden set" in verdict_table(samples.two_golden_sets())


def test_hostile_text_cannot_steer_the_terminal() -> None:
    """No control character of a report reaches the terminal."""
    report = samples.hostile()
    text = verdict_table(report) + "".join(show_variant(report, row.variant) for row in report.measurements)
    assert all(letter.isprintable() or letter == "\n" for letter in text)


def test_show_variant_tells_everything() -> None:
    """Checks, memory, ceiling, speed, slices and the ten worst flips of a variant are shown."""
    text = show_variant(samples.sample_report(), "nf4")
    for part in (
        "quality/everyday",
        "173 MB loaded",
        "confirmed    22, limited by memory",
        "reading",
        "flips: 81, the worst 10",
    ):
        assert part in text
    assert text.count("    prompt ") == 10
    assert "advisory" in show_variant(samples.sample_report(), "int8")
    assert "OutOfMemory" in show_variant(samples.unmeasured(), "int8")


def test_an_unknown_variant_is_refused_with_the_known_ones() -> None:
    """A name that is not in the run is a usage error that lists those that are."""
    with pytest.raises(UsageError, match="it has float32, int8, nf4, rtn2"):
        show_variant(samples.sample_report(), "nf5")
