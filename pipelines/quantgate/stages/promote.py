"""Move the alias to the variant that passed, or say why not. Never on anything but a pass.

Every candidate that was judged gets a version, so that a refusal can be looked up; the alias moves by compare-and-set. A registry that
fails is reported and changes neither the verdict nor the exit code. ``because`` follows "Nothing is promoted:", or the sentence that
says what was promoted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from quantgate.ports import Registry
from quantgate.records import MeasurementRow, Outcome, Promotion, Report
from quantgate.render.quantities import fixed, percent
from quantgate.stages.subject import one_line

Warn = Callable[[str], None]
_OUTCOMES: Mapping[Outcome, str] = {
    "pass": "passes, and no candidate of it was chosen",
    "fail": "fails",
    "inconclusive": "is inconclusive",
    "not_measured": "is not measured",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """Where a promotion goes."""

    registry: str
    model: str
    alias: str


def promote(registry: Registry, target: Target, report: Report, warn: Warn) -> Promotion:
    """Register the judged candidates and move the alias where the run passed."""
    previous: str | None = None
    try:
        previous = registry.alias(target.model, target.alias)
        versions = _register(registry, target, report)
        chosen = _chosen(report)
        if chosen is None:
            return _result(target, previous=previous, because=f"the run {_OUTCOMES[report.outcome]}.")
        if chosen not in versions:
            return _result(target, previous=previous, because=f"{chosen} has no artifact that could be registered.")
        version = versions[chosen]
        if version != previous:
            registry.move(target.model, target.alias, to=version, expecting=previous)
    except Exception as error:
        warn(f"the registry failed: {error}")
        return failed(target, error, previous)
    because = _gain(report, chosen) if version != previous else "It was the one that is out already."
    return _result(target, variant=chosen, version=version, previous=previous, because=because)


def failed(target: Target, error: Exception, previous: str | None = None) -> Promotion:
    """The promotion that did not happen because the registry could not be used."""
    return _result(target, previous=previous, because=f"the registry failed: {one_line(str(error))}.")


def _chosen(report: Report) -> str | None:
    """The candidate to promote: only where the run passed, and only one that passed itself."""
    if report.outcome != "pass":
        return None
    passing = [one.variant for one in report.verdicts if one.role == "candidate" and one.outcome == "pass"]
    return report.chosen if report.chosen in passing else None


def _gain(report: Report, chosen: str) -> str:
    """What the promoted variant is good for, as far as it was measured."""
    row = next((one for one in report.measurements if one.variant == chosen), None)
    base = next((one for one in report.measurements if one.role == "reference"), None)
    if row is None or row.freed_share is None:
        return ""
    gain = f"It frees {percent(row.freed_share)} of the weight memory"
    ours, theirs = _batch(row), _batch(base)
    return f"{gain} and holds {fixed(ours / theirs, 1)} times the reference's batch." if ours and theirs else f"{gain}."


def _batch(row: MeasurementRow | None) -> int | None:
    """A batch ceiling that is known, not only from below."""
    known = row is not None and row.ceiling is not None and row.ceiling.limited_by == "memory"
    return row.ceiling.confirmed if known and row is not None and row.ceiling is not None else None


def _register(registry: Registry, target: Target, report: Report) -> dict[str, str]:
    measured = {row.variant for row in report.measurements if row.artifact_path is not None}
    judged = [one.variant for one in report.verdicts if one.role == "candidate" and one.outcome != "not_measured"]
    return {name: registry.register(target.model, report, name) for name in judged if name in measured}


def _result(
    target: Target, *, because: str, previous: str | None, variant: str | None = None, version: str | None = None
) -> Promotion:
    return Promotion(
        promoted=variant is not None,
        registry=target.registry,
        model=target.model,
        alias=target.alias,
        variant=variant,
        version=version,
        previous=previous,
        because=because,
    )
