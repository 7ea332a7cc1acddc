"""A policy in plain sentences, and what becomes of its waivers."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

import samples
from quantgate import config
from quantgate.records import UNDATED, CheckRule, Policy, Waiver
from quantgate.render import flips, html, junit, markdown, policy, terminal

WAIVER = Waiver(check="quality/everyday", variant="nf4", owner="A. Meyer", reason="a trial", expires="2026-12-31")
KINDS = get_args(config.policy_sections.CheckSection.model_fields["kind"].annotation)


def sentences(by: Policy, candidates: int = 2) -> str:
    return " ".join(" ".join([one.sentence, *one.lines]) for one in policy.paragraphs(by, candidates))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_check_has_its_words(kind: str) -> None:
    """No kind that a file may ask for is unknown to the sentences, and its limit is said where it has one."""
    words = policy.rule_words(CheckRule(kind=kind, margin=0.03, minimum=0.5, maximum=0.75))
    assert "not known" not in words
    said = ("3.0 points", "50 %", "0.5x", "0.75x", "0.75 nats", "75 %", "at most 0.75,")
    assert not config.LIMITS[kind] or any(limit in words for limit in said), words


@pytest.mark.parametrize(
    ("by", "words"),
    [
        (samples.policy(), "Holm's step-down over 2 candidates keeps the chance that a variant beyond the margin passes at 0.05: the best"),
        (samples.policy(family_size=5), "Holm's step-down over 5 candidates"),
        (samples.policy(correction="fixed_sequence", order=("int8", "nf4")), "until one is no pass: int8, then nf4."),
        (samples.policy(correction="none"), "without a correction"),
        (samples.policy(require="all"), "Every candidate must pass, each at alpha 0.05"),
        (samples.policy(require_controls=False), "Controls are not required"),
        (samples.policy(waivers=(WAIVER,)), "quality/everyday of nf4 until 2026-12-31, by A. Meyer: a trial"),
        (samples.policy(objective="smallest_loss"), "the one with the smallest loss goes forward"),
    ],
)
def test_what_is_agreed_is_said(by: Policy, words: str) -> None:
    """Each key of a policy that changes a verdict changes a sentence."""
    assert words in sentences(by)


def test_slices_are_said() -> None:
    """One, several and every slice, of one and of every golden set."""
    rule = CheckRule(kind="quality", margin=0.03)
    assert policy.where(replace(rule, slices=("a",), golden_set="law")) == "slice a of golden set law"
    assert policy.where(replace(rule, slices=("a", "b", "c"))) == "slices a, b and c of every golden set"
    assert policy.where(replace(rule, slices=("*",))) == "every slice of every golden set"


@pytest.mark.parametrize(
    ("waiver", "created_at", "waived", "state", "words"),
    [
        (WAIVER, "2026-12-31T23:00:00", True, "used", "came out as inconclusive and does not block until 2026-12-31"),
        (WAIVER, "2027-01-01T00:00:00", False, "expired", "it held until 2026-12-31 and the run is of 2027-01-01, so it does nothing"),
        (WAIVER, UNDATED, False, "unused", "the day of the run is not known, and then no waiver holds"),
        (WAIVER, "", False, "unused", "the day of the run is not known"),
        (replace(WAIVER, variant="int8"), "2026-12-01", False, "unused", "the check passes without it"),
        (replace(WAIVER, variant="int9"), "2026-12-01", False, "unused", "the run has no such required check"),
        (replace(WAIVER, variant="rtn2"), "2026-12-01", False, "unused", "the run has no such required check"),
    ],
)
def test_what_became_of_a_waiver(waiver: Waiver, created_at: str, waived: bool, state: str, words: str) -> None:
    """Used, unused and expired, each with its reason; an undated run holds none."""
    report = samples.sample_report()
    verdicts = tuple(
        replace(one, checks=tuple(replace(check, waived_by="x") if waived and one.variant == "nf4" else check for check in one.checks))
        for one in report.verdicts
    )
    line = policy.waiver_lines(samples.policy(waivers=(waiver,)), verdicts, created_at)[0]
    assert (line.state, words in line.because) == (state, True), line
    assert line.sentence.startswith(f"The waiver for quality/everyday of {waiver.variant} by A. Meyer (a trial) is {state}: ")


def test_hostile_waivers_break_no_page() -> None:
    """Owner and reason are somebody's text: no page obeys them."""
    hostile = replace(WAIVER, owner=samples.HOSTILE, reason=samples.HOSTILE)
    report = replace(samples.sample_report(), policy=samples.policy(waivers=(hostile,)))
    checks = tuple(replace(one, waived_by=samples.HOSTILE) for one in report.verdicts[2].checks)
    verdicts = (*report.verdicts[:2], replace(report.verdicts[2], checks=checks), report.verdicts[3])
    report = replace(report, verdicts=verdicts)
    assert "<script>" not in html.page(report).replace(flips.script(), "")
    assert "<script>" not in markdown.page(report)
    junit.document(report)
    assert "\x1b" not in terminal.show_variant(report, "nf4") + terminal.verdict_table(report)


def test_long_sentences_are_wrapped() -> None:
    """No line of the explanation is wider than a terminal."""
    shown = policy.text(policy.paragraphs(samples.policy(), 2), width=60)
    assert max(map(len, shown.splitlines())) <= 60
