"""A report as annotations of a CI job, in the form of GitHub's workflow commands: ``::error title=...::...``, a line each.

The level follows what the exit code says: a fail and what was not measured are errors, what is inconclusive is a warning, a pass is a
notice. Of a ladder that another candidate won, the losing ones are notices. A control that behaved says nothing. GitHub shows the first
ten of a kind, so the run comes first. Only the run's own words are in it, never a prompt or an answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

from quantgate.records import Outcome, Report, Verdict
from quantgate.render import quantities as q
from quantgate.render.terminal import plain

Level: TypeAlias = Literal["error", "warning", "notice"]
_LEVELS: Mapping[Outcome, Level] = {"pass": "notice", "fail": "error", "inconclusive": "warning", "not_measured": "error"}
_IN_TEXT = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_IN_TITLE = {**_IN_TEXT, ":": "%3A", ",": "%2C"}


def lines(report: Report) -> list[str]:
    """The run, then each variant that is no plain pass, then a promotion that a passing run did not come to."""
    return [*_run(report), *(line for one in report.verdicts for line in _variant(report, one)), *_not_promoted(report)]


def refused(error: Exception, text: str) -> str:
    """A run that ended before a report: at the line of the config or policy where that is what was wrong."""
    file, line = getattr(error, "file", None), getattr(error, "line", None)
    place = {"file": file, "line": line if file else None}
    return command("error", "quantgate: no verdict", text, {key: str(value) for key, value in place.items() if value})


def command(level: Level, title: str, text: str, place: Mapping[str, str] | None = None) -> str:
    """One workflow command; whatever would end its title, its text or its line is escaped."""
    properties = {**(place or {}), "title": title}
    written = ",".join(f"{key}={_escaped(value, _IN_TITLE)}" for key, value in properties.items())
    return f"::{level} {written}::{_escaped(text, _IN_TEXT)}"


def _escaped(text: str, marks: Mapping[str, str]) -> str:
    return "".join(marks.get(letter, letter) for letter in plain(text))


def _run(report: Report) -> Iterator[str]:
    title = f"quantgate: {q.outcome_word(report.outcome)}"
    yield command(_LEVELS[report.outcome], title, f"{report.headline} Run {report.run_id}, exit code {report.exit_code}.")


def _variant(report: Report, verdict: Verdict) -> Iterator[str]:
    word = q.verdict_word(verdict)
    title, text = f"{verdict.variant}: {word}", f"{verdict.variant} {verdict.because.rstrip('.')}."
    if q.is_control(verdict.role):
        if verdict.control_ok is not True:
            yield command("error", title, text)
    elif verdict.outcome != "pass":
        lost = verdict.role == "candidate" and report.policy.require == "any" and report.outcome == "pass"
        yield command("notice" if lost else _LEVELS[verdict.outcome], title, text)
    elif any(check.waived_by for check in verdict.checks):
        yield command("warning", title, text)


def _not_promoted(report: Report) -> Iterator[str]:
    if report.outcome == "pass" and report.promotion is not None and not report.promotion.promoted:
        yield command("warning", "quantgate: nothing is promoted", report.promotion.because)
