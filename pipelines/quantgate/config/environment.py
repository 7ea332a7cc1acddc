"""What is read from environment variables, and nowhere else."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class ContinuousIntegration:
    """What a CI system offers besides the exit code. ``summary``: a file that job summaries are appended to."""

    summary: Path | None
    annotations: bool
    """GitHub's workflow commands on standard output are read."""


def ci_of_environment() -> ContinuousIntegration:
    """What GitHub Actions says of itself: ``GITHUB_STEP_SUMMARY`` names a file, ``GITHUB_ACTIONS`` is ``true``."""
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    return ContinuousIntegration(
        summary=Path(summary) if summary else None, annotations=os.environ.get("GITHUB_ACTIONS") == "true"
    )


def tracking_uri_of_environment() -> str | None:
    """``MLFLOW_TRACKING_URI``, None where it is unset or empty."""
    return os.environ.get("MLFLOW_TRACKING_URI") or None


def default_cache() -> Path:
    """Where artifacts and results are kept for later runs: ``QUANTGATE_CACHE``, else the user's cache folder."""
    if configured := os.environ.get("QUANTGATE_CACHE"):
        return Path(configured).expanduser().resolve()
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "quantgate"
