"""A run under way: what was asked for, the evidence so far, and the stages to come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from quantgate import rundir
from quantgate.config import RunConfig
from quantgate.errors import MeasureError, RunFolderError, UsageError, WorkerFailed
from quantgate.ports import Display, Executor
from quantgate.records import (
    Artifact,
    Distributions,
    Failure,
    Fingerprint,
    GoldenSet,
    Roofs,
    RunInfo,
    Variant,
    VariantEvidence,
)
from quantgate.stages import canary, diverge
from quantgate.stages.speed import rules_of
from quantgate.texts import Texts

SEED = 20240229
T = TypeVar("T")


@dataclass(slots=True)
class Run:
    """A run under way: what was asked for, and the evidence so far."""

    config: RunConfig
    folder: Path
    info: RunInfo
    display: Display
    executor: Executor
    shelf: rundir.Shelf
    goldens: tuple[GoldenSet, ...]
    fingerprint: Fingerprint
    base: Artifact | None = None
    evidence: dict[str, VariantEvidence] = field(default_factory=dict)
    distributions: dict[str, Distributions] = field(default_factory=dict)
    """The reference's stored distributions, by golden set; over texts under the empty name."""
    canaries: dict[str, Distributions] = field(default_factory=dict)
    """What the reference says after the canary's prompts, by golden set."""
    texts: Texts | None = None
    """What divergence is taken over, where it is not the prompts."""
    roofs: Roofs | None = None
    """What the device can do at most; None where nothing is timed."""
    accelerator: Mapping[str, Any] = field(default_factory=dict)
    """What tells the device from another one of its kind, where it is not the CPU that the fingerprint names."""
    environments: dict[str, dict[str, str]] = field(default_factory=dict)
    """Versions of the libraries of each interpreter that variants name, asked once."""


def planned(config: RunConfig, goldens: tuple[GoldenSet, ...]) -> tuple[str, ...]:
    """The stages in the order in which a display will be told of them, if none fails."""
    scored = [
        f"{stage} {one.name}"
        for one in goldens
        for stage in ("score", "kl")
        if stage == "score" or (config.divergence is None and diverge.positions(len(one.items)))
    ]
    scored += [] if config.divergence is None else [f"read {config.divergence.name}"]
    canaries = [f"canary {one.name}" for one in goldens if canary.asked_on(config.policy, len(one.items))]
    each = [
        stage
        for one in config.variants
        for stage in ("load", *(["capacity"] * is_filled(one)), *(canaries * is_filled(one)), *scored)
    ]
    timed = timed_variants(config)
    return ("quantize",) * len(config.variants) + (*each, *["roof"] * bool(timed), *["time"] * len(timed))


def is_filled(variant: Variant) -> bool:
    """Controls are scored, and so is a variant of which only its quality is asked."""
    return variant.role in ("reference", "candidate") and variant.measure == "all"


@contextmanager
def noting_failures(work: Run, variant: Variant, stage: str) -> Iterator[None]:
    """Note a stage's failure as evidence. The caller's mistakes and a full disk end the run instead."""
    try:
        yield
    except (UsageError, RunFolderError):
        raise
    except MeasureError as error:
        failed = error if isinstance(error, WorkerFailed) else None
        if failed is not None and failed.exit_code == UsageError.exit_code:
            raise UsageError(failed.message) from error
        one = work.evidence[variant.name]
        failure = Failure(
            variant=variant.name,
            stage=stage,
            kind=type(error).__name__ if failed is None else failed.kind,
            message=str(error),
            numerical=failed is not None and failed.numerical,
        )
        work.evidence[variant.name] = replace(one, failures=(*one.failures, failure))
        work.display.note(f"{variant.name}: {stage} did not finish: {error}")


def timed_variants(config: RunConfig) -> list[Variant]:
    """Candidates that are measured in full, then, where a policy checks speed, the identity control: the reference against itself."""
    controls = [one for one in config.variants if one.role == "identity"] if rules_of(config.policy) else []
    return [*(one for one in config.variants if one.role == "candidate" and is_filled(one)), *controls]
