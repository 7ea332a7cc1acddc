"""What a run folder says of itself, what it ran on, and which stages did not finish."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from quantgate.records.asked import ModelSource
from quantgate.records.devices import DeviceInfo


@dataclass(frozen=True, kw_only=True, slots=True)
class RunInfo:
    """run.json: what a run folder says of itself, enough to resume it and to promote from it."""

    run_id: str
    created_at: str
    state: Literal["running", "complete", "interrupted", "failed"]
    config_sha256: str
    policy_sha256: str
    model: ModelSource
    registry: str
    registered_model: str
    alias: str
    tracking_uri: str
    experiment: str
    schema_version: int = 1
    artifacts: str | None = None
    """Where MLflow's artifacts go, where the config names a place."""
    challenger: str | None = None
    """The alias of the candidate on trial, where the config names one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """A variant's stage that did not finish."""

    variant: str
    stage: str
    kind: str
    """Class name of the error."""
    message: str
    numerical: bool = False
    """The variant produced non-finite numbers while the reference was finite."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fingerprint:
    """What the run ran on and with."""

    quantgate_version: str
    source_sha256: str
    commit: str | None
    python: str
    platform: str
    cpu: str
    libraries: Mapping[str, str]
    model_sha256: str | None = None
    config_sha256: str | None = None
    device: DeviceInfo | None = None
