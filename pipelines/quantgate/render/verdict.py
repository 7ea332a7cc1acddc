"""The head of the page: the verdict, why, and what a release owner asks first."""

from __future__ import annotations

from datetime import datetime

from quantgate.records import DeviceInfo, Report
from quantgate.render import quantities as q
from quantgate.render.elements import (
    Html as _Html,
    badge as _badge,
    definitions as _definitions,
    digest as _digest,
    el as _el,
    with_small as _with_small,
)
from quantgate.render.terminal import promotion_line


def section(report: Report, nights: bool) -> _Html:
    """The verdict, what was promoted, what ran where and when, and the contents."""
    took = q.duration(report.seconds) if report.seconds else q.UNKNOWN
    facts = [
        ("Model", _with_small(report.model, report.model_source)),
        ("Model digest", _digest(report.fingerprint.model_sha256)),
        (
            "Golden sets",
            "; ".join(f"{row.name} {row.version}, {q.count(row.items)} items" for row in report.golden_sets),
        ),
        ("Policy", _with_small(report.policy.name, q.policy_terms(report.policy, candidates(report)))),
        ("Device", "-" if report.device is None else _device_words(report.device)),
        ("Run", _with_small(_when(report.created_at), f"{report.run_id}, took {took}")),
    ]
    return _el(
        "header",
        _el("p", "quantgate", class_="brand"),
        _el("h1", _badge(q.outcome_word(report.outcome)), " ", report.headline),
        _promotion(report),
        _el("ul", *(_el("li", sentence) for sentence in report.sentences), class_="sentences")
        if report.sentences
        else "",
        _definitions(facts),
        _contents(report, nights),
    )


def candidates(report: Report) -> int:
    """How many variants compete for promotion."""
    return sum(verdict.role == "candidate" for verdict in report.verdicts)


def _promotion(report: Report) -> _Html:
    promotion = report.promotion
    if promotion is None:
        return _el("p", "No promotion was asked for.", class_="promotion none")
    where = f"{promotion.model} in the registry {promotion.registry}, alias {promotion.alias}."
    kind = "promotion" if promotion.promoted else "promotion none"
    return _el("p", promotion_line(report), _el("small", where), class_=kind)


def _contents(report: Report, nights: bool) -> _Html:
    asked = {"batching": bool(report.batching), "diagnosis": report.diagnosis is not None, "nights": nights}
    names = ("variants", "quality", "memory", "speed", *(name for name, there in asked.items() if there), "evidence")
    return _el("nav", *(_el("a", name.capitalize(), href=f"#{name}") for name in names), aria_label="Contents")


def _when(created_at: str) -> str:
    try:
        return datetime.fromisoformat(created_at).strftime("%Y-%m-%d %H:%M UTC")
    except ValueError:
        return created_at


def _device_words(device: DeviceInfo) -> str:
    threads = f"{device.threads} thread{'' if device.threads == 1 else 's'}" if device.threads else ""
    words = [device.name, device.kind, threads, q.decimal_bytes(device.total_bytes), device.driver or ""]
    return ", ".join(word for word in words if word)
