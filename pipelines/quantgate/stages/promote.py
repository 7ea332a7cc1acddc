"""Move the alias to the variant that passed, or say why not. Never on anything but a pass.

Every candidate that was judged gets a version, so that a refusal can be looked up; the alias moves by compare-and-set. A registry that
fails is reported and changes neither the verdict nor the exit code. ``because`` follows "Nothing is promoted:", or the sentence that
says what was promoted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from quantgate.ports import Registry
from quantgate.records import MeasurementRow, Outcome, Promotion, Report, Trial
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
    challenger: str | None = None
    """Alias for the best other candidate that passed; None: nobody is put on trial."""


def promote(registry: Registry, target: Target, report: Report, warn: Warn, runner_up: str | None = None) -> Promotion:
    """Register the judged candidates and move the alias where the run passed; put ``runner_up`` on trial where the target says so."""
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
    done = _result(target, variant=chosen, version=version, previous=previous, because=because)
    return replace(done, trial=_trial(registry, target, versions.get(runner_up or ""), runner_up, warn))


def _trial(registry: Registry, target: Target, version: str | None, runner_up: str | None, warn: Warn) -> Trial | None:
    """Move the challenger's alias. It never fails the promotion, which stands already; where it cannot be moved it stays where it was."""
    if target.challenger is None or runner_up is None or version is None:
        return None
    try:
        previous = registry.alias(target.model, target.challenger)
        if version != previous:
            registry.move(target.model, target.challenger, to=version, expecting=previous)
    except Exception as error:
        warn(f"{runner_up} could not be put on trial: {error}")
        return None
    return Trial(alias=target.challenger, variant=runner_up, version=version, previous=previous)


def rehearsed(target: Target, report: Report, previous: str | None, out: Mapping[str, str]) -> str:
    """What ``promote`` would do, in a sentence or two. ``out``: the tags of the version that is out, by which it knows its own."""
    chosen = _chosen(report)
    if chosen is None:
        return f"Nothing would be promoted: the run {_OUTCOMES[report.outcome]}."
    if previous is not None and _is_out(report, chosen, out):
        return f"{chosen} is out already: {target.alias} of {target.model} would stay at version {previous}."
    was = "nothing" if previous is None else f"version {previous}"
    return f"{chosen} would be promoted: {target.alias} of {target.model} would move from {was}. {_gain(report, chosen)}".rstrip()


def _is_out(report: Report, chosen: str, out: Mapping[str, str]) -> bool:
    """Registered again it would be the same version: the same checkpoint on the same evidence."""
    row = next((one for one in report.measurements if one.variant == chosen), None)
    wanted = None if row is None else (row.artifact_sha256, report.evidence_sha256)
    return wanted == (out.get("artifact_sha256", ""), out.get("evidence_sha256", ""))


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
    return " ".join(part for part in (f"{gain}{_batch_gain(row, base)}.", _speed_gain(row)) if part)


def _batch_gain(row: MeasurementRow, base: MeasurementRow | None) -> str:
    """Against a reference whose ceiling is known; a variant that reached the search cap holds at least that."""
    ours, theirs = row.ceiling, None if base is None else base.ceiling
    if ours is None or theirs is None or not ours.confirmed or not theirs.confirmed or theirs.limited_by != "memory":
        return ""
    at_least = "" if ours.limited_by == "memory" else "at least "
    return f" and holds {at_least}{fixed(ours.confirmed / theirs.confirmed, 1, towards='down')} times the reference's batch"


def _speed_gain(row: MeasurementRow) -> str:
    """The price or the gain in speed: at a batch that both hold, and at each one's own largest."""
    shared = max((one for one in row.speed if one.ratio_to_reference), key=lambda one: one.batch_size, default=None)
    parts = []
    if shared is not None and shared.ratio_to_reference:
        parts.append(f"{fixed(shared.ratio_to_reference, 2)} times the reference's speed at batch {shared.batch_size}")
    if row.ratio_at_ceiling:
        parts.append(f"{fixed(row.ratio_at_ceiling, 2)} times at each one's own largest batch")
    return f"It decodes at {' and '.join(parts)}." if parts else ""


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
