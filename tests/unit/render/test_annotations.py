"""Annotations: one line each, escaped, at the level that the exit code says."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

import samples
from quantgate.records import Promotion
from quantgate.render.annotations import command, lines

FORM = re.compile(r"::(error|warning|notice) title=([^:,\r\n]*)::([^\r\n]*)")


def test_what_would_end_a_command_is_escaped() -> None:
    """Per cent, line ends, and in a title colons and commas; a text from elsewhere cannot start a command of its own."""
    made = command("error", "a: b, 5 %", "5 % of\r\n::error::x, y: z")
    assert made == "::error title=a%3A b%2C 5 %25::5 %25 of ::error::x, y: z"
    assert FORM.fullmatch(made)


@pytest.mark.parametrize(
    ("outcome", "level"), [("pass", "notice"), ("fail", "error"), ("inconclusive", "warning"), ("not_measured", "error")]
)
def test_the_run_comes_first_at_its_level(outcome: str, level: str) -> None:
    """Whatever the run came to is the first annotation, and every line has the form that GitHub reads."""
    report = samples.sample_report()
    made = lines(replace(report, outcome=outcome))
    assert all(FORM.fullmatch(one) for one in made)
    assert made[0].startswith(f"::{level} title=quantgate%3A ")
    assert report.run_id in made[0]


def test_losing_candidates_of_a_won_ladder_are_notices() -> None:
    """They block nothing; where nothing passed they are errors, and controls that behaved say nothing."""
    sample = samples.sample_report()
    verdicts = (replace(one, outcome="fail") if one.outcome == "inconclusive" else one for one in sample.verdicts)
    report = replace(sample, verdicts=tuple(verdicts))
    lost = [one.variant for one in report.verdicts if one.role == "candidate" and one.outcome == "fail"]
    controls = [one.variant for one in report.verdicts if one.role == "known_bad"]
    assert lost and controls
    won = replace(report, outcome="pass", policy=replace(report.policy, require="any"))
    for found, level in ((won, "notice"), (replace(won, outcome="fail"), "error")):
        made = lines(found)
        assert [one for one in made if one.startswith(f"::{level} title={lost[0]}%3A FAIL")]
        assert not [one for one in made if f"title={controls[0]}" in one]


def test_a_control_that_came_out_wrong_is_an_error() -> None:
    """It invalidates the run."""
    report = samples.sample_report()
    verdicts = tuple(replace(one, control_ok=False) if one.role == "known_bad" else one for one in report.verdicts)
    wrong = next(one for one in verdicts if one.role == "known_bad")
    assert any(line.startswith(f"::error title={wrong.variant}%3A ") for line in lines(replace(report, verdicts=verdicts)))


def test_a_pass_that_was_not_promoted_is_told() -> None:
    """The gate passed and the registry refused: a warning."""
    refused = Promotion(
        promoted=False, registry="local", model="m", alias="champion", variant="int8", version=None, previous=None, because="it is locked"
    )
    made = lines(replace(samples.sample_report(), outcome="pass", promotion=refused))
    assert made[-1] == "::warning title=quantgate%3A nothing is promoted::it is locked"
