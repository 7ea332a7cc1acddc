"""Move the alias to the variant that passed, or say why not. Never on anything but a pass.

Every candidate that was judged gets a version, so that a refusal can be looked up; the alias moves by compare-and-set. A registry that
fails is reported and changes neither the verdict nor the exit code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from quantgate.ports import Registry
from quantgate.records import Promotion, Report

Warn = Callable[[str], None]


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
        if report.outcome != "pass" or report.chosen is None:
            return _result(target, previous=previous, because=f"nothing is promoted: the run is {report.outcome.replace('_', ' ')}")
        version = versions[report.chosen]
        if version != previous:
            registry.move(target.model, target.alias, to=version, expecting=previous)
    except Exception as error:
        warn(f"the registry failed: {error}")
        return failed(target, error, previous)
    moved = f"{target.alias} -> version {version}" if version != previous else f"{target.alias} stays at version {version}"
    return _result(target, variant=report.chosen, version=version, previous=previous, because=f"{report.chosen} is promoted: {moved}")


def failed(target: Target, error: Exception, previous: str | None = None) -> Promotion:
    """The promotion that did not happen because the registry could not be used."""
    return _result(target, previous=previous, because=f"nothing is promoted: the registry failed: {error}")


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
