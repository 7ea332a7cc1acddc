"""The page of a run: one file that a release owner can open, print and keep.

No network, no fonts from elsewhere, and one script, which filters flips; a content security policy in the page says so to the
browser and names that script by its digest. Every text goes through ``el``, which escapes whatever is not markup of our own, so
a prompt cannot become a tag. Verdicts are words first; border and weight repeat them for the eye. What is unknown is ``-`` with
its reason where there is one.
"""

from __future__ import annotations

from quantgate.records import Report, Trend
from quantgate.render import (
    answers,
    batching,
    diagnosis,
    evidence,
    flips,
    memory,
    quantities as q,
    speculation,
    speed,
    timings,
    trend,
    variants,
    verdict,
)
from quantgate.render.elements import Html as _Html, el as _el, section as _section
from quantgate.render.style import STYLE


def page(report: Report, looked_back: Trend | None = None) -> str:
    """Render the whole page as HTML text, with the nights before where there are some."""
    nights = trend.section(looked_back)
    sections = [
        verdict.section(report, bool(nights)),
        variants.section(report),
        answers.section(report),
        memory.section(report),
        _speed(report),
        batching.html(report),
        diagnosis.section(report),
        nights,
        evidence.section(report),
    ]
    title = f"{report.model}: {q.outcome_word(report.outcome)} - quantgate"
    scripts = flips.policy_source() if report.flips else "'none'"
    head = _el(
        "head",
        _el("meta", charset="utf-8"),
        _el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        _Html(
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
            f"script-src {scripts}; form-action 'none'; base-uri 'none'\">"
        ),
        _el("title", q.shortened(title, 120)),
        _el("style", _Html(STYLE + flips.STYLE)),
    )
    body = _el("body", _el("main", *sections), flips.script() if report.flips else "")
    return f'<!DOCTYPE html>\n<html lang="en">{head}{body}</html>\n'


def _speed(report: Report) -> _Html:
    if not any(row.speed for row in report.measurements):
        return _section("speed", "Speed", _el("p", "No speed was measured."), speculation.part(report))
    return _section(
        "speed",
        "Speed",
        speed.above_timings(report),
        timings.page(report),
        speed.below_timings(report),
        speculation.part(report),
    )
