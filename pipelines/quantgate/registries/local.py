"""A registry in one JSON file: versions 1, 2, ..., aliases, and the history of every move.

Knows what a judged candidate is (``Candidate``) and when it may go out; the MLflow registry asks the same two
questions here. Every change reads, decides and writes under one lock file and replaces the file in one step, so that a
reader sees the state before or after and a crash in between loses nothing. Needs a file system with ``flock`` (Linux,
macOS); a network share may not have it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from quantgate.errors import RegistryError
from quantgate.files import locked, write_whole
from quantgate.names import check_alias
from quantgate.records import MeasurementRow, Report, Verdict

SCHEMA_VERSION = 1

# --------------------------------------------------------------------------- what may be registered and what may go out


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A judged candidate as a registry keeps it. ``tags`` say by which evidence and policy it was judged."""

    artifact_path: str
    tags: Mapping[str, str]

    @property
    def identity(self) -> tuple[str, str]:
        """Digests of artifact and evidence: two registrations that share both are one version."""
        return identity(self.tags)


def identity(tags: Mapping[str, str]) -> tuple[str, str]:
    """Digests of artifact and evidence in a version's tags."""
    return tags.get("artifact_sha256", ""), tags.get("evidence_sha256", "")


def candidate_of(report: Report, variant: str) -> Candidate:
    """The variant as it will be registered. Raises ``RegistryError`` where nothing can be registered."""
    row = _row(report, variant)
    verdict = _verdict(report, variant)
    if not row.artifact_path or not row.artifact_sha256:
        raise RegistryError(
            f"'{variant}' has no stored artifact with a digest, so there is nothing that a version could point at"
        )
    tags = {
        "artifact_path": row.artifact_path,
        "artifact_sha256": row.artifact_sha256,
        "evidence_sha256": report.evidence_sha256,
        "policy_sha256": report.policy_sha256,
        "outcome": _outcome(report, verdict),
        "verdict": verdict.outcome,
        "waivers": _waived(verdict),
        "waived_until": _waived_until(report, verdict),
        "report": _report_location(report, row.artifact_path),
        "run_id": report.run_id,
        "variant": variant,
        "scheme": row.scheme,
        "quantizer": row.quantizer,
    }
    return Candidate(artifact_path=row.artifact_path, tags=tags)


def _waived(verdict: Verdict) -> str:
    """Which checks did not pass and were waived, by whom, why and until when; ``none`` said aloud, so that no older one stays."""
    said = [f"{check.name}: {check.outcome}, {check.waived_by}" for check in verdict.checks if check.waived_by]
    return "; ".join(said) or "none"


def _waived_until(report: Report, verdict: Verdict) -> str:
    """The first day on which a waiver that this pass rests on ends, as an ISO date; ``none`` where it rests on none."""
    waived = {check.name for check in verdict.checks if check.waived_by}
    days = [one.expires for one in report.policy.waivers if one.variant == verdict.variant and one.check in waived]
    return min(days, default="none")


def check_promotable(model: str, version: str, tags: Mapping[str, str], now_s: float) -> None:
    """Raise ``RegistryError`` where the version did not pass, or passed by a waiver that has ended; no outcome is not a pass.

    ``now_s``: seconds since 1970. A waiver holds up to and including its day.
    """
    until, today = tags.get("waived_until", "none"), datetime.fromtimestamp(now_s, UTC).date().isoformat()
    if until != "none" and until < today:
        what = f"it passed by a waiver that held until {until}, and today is {today}"
        raise RegistryError(f"version {version} of '{model}' may not receive an alias: {what}; judge it anew under a policy that holds")
    outcome = tags.get("outcome")
    if outcome != "pass":
        found = f"its outcome is '{outcome}'" if outcome else "it carries no outcome"
        raise RegistryError(f"version {version} of '{model}' may not receive an alias: {found}, only 'pass' goes out")


def check_expected(model: str, alias: str, found: str | None, expecting: str | None) -> None:
    """Raise ``RegistryError`` where the alias does not point at what the promotion started from."""
    if found != expecting:
        raise RegistryError(
            f"alias '{alias}' of '{model}' points at {_shown(found)}, expected was {_shown(expecting)}: another "
            "promotion came first; nothing was moved. Run again to be compared with the version that is out now"
        )


def _shown(version: str | None) -> str:
    """A version for a message."""
    return "nothing" if version is None else f"version {version}"


def _row(report: Report, variant: str) -> MeasurementRow:
    """The variant's measurements; raises ``RegistryError`` without."""
    for row in report.measurements:
        if row.variant == variant:
            return row
    known = ", ".join(row.variant for row in report.measurements) or "none"
    raise RegistryError(f"the report of run {report.run_id} knows no variant '{variant}'; known are {known}")


def _verdict(report: Report, variant: str) -> Verdict:
    """The variant's verdict; raises ``RegistryError`` where there is none or the variant is no candidate."""
    for verdict in report.verdicts:
        if verdict.variant == variant:
            if verdict.role != "candidate":
                raise RegistryError(f"'{variant}' is a {verdict.role} variant; only a candidate can be registered")
            return verdict
    raise RegistryError(f"'{variant}' was not judged in run {report.run_id}; only a judged candidate can be registered")


def _outcome(report: Report, verdict: Verdict) -> str:
    """``pass`` only where the candidate and the run it was judged in both passed; else what stood in the way.

    A candidate that passes in a run whose controls misbehaved is not a pass: the run's word is kept.
    """
    if verdict.outcome != "pass":
        return verdict.outcome
    if report.outcome == "pass":
        return "pass" if report.exit_code == 0 else "not_measured"
    return report.outcome


def _report_location(report: Report, artifact_path: str) -> str:
    """The page of the run: beside the artifact where that lies in the run's folder, else the run's id."""
    for folder in Path(artifact_path).absolute().parents:
        if folder.name == report.run_id:
            return (folder / "report.html").as_uri()
    return f"run {report.run_id}"


# -------------------------------------------------------------------------------------------------------- lock and file


# --------------------------------------------------------------------------------------------------------- the registry


class LocalRegistry:
    """The registry port over one JSON file. ``clock`` gives seconds since 1970, for the history."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._path = path.absolute()
        self._clock = clock

    def register(self, model: str, report: Report, variant: str) -> str:
        """Record a judged candidate and return its version. Raises ``RegistryError``.

        The same artifact and evidence give the version that exists, with the tags of the last judgement.
        """
        candidate = candidate_of(report, variant)
        with self._changing() as state:
            versions = _model(state, model)["versions"]
            entry = next((v for v in versions if identity(v["tags"]) == candidate.identity), None)
            if entry is None:
                entry = {"version": str(len(versions) + 1), "registered_at": self._now()}
                versions.append(entry)
            entry["source"] = Path(candidate.artifact_path).absolute().as_uri()
            entry["tags"] = dict(candidate.tags)
            return str(entry["version"])

    def alias(self, model: str, alias: str) -> str | None:
        """The version the alias points at, None where it points nowhere."""
        found = self._read()["models"].get(model, {}).get("aliases", {}).get(alias)
        return None if found is None else str(found)

    def move(self, model: str, alias: str, *, to: str, expecting: str | None, reason: str | None = None) -> None:
        """Compare-and-set, kept in the history. Raises ``RegistryError`` and changes nothing on any doubt."""
        check_alias(alias)
        with self._changing() as state:
            entry = _model(state, model)
            check_promotable(model, to, _version(entry, model, to)["tags"], self._clock())
            found = entry["aliases"].get(alias)
            check_expected(model, alias, found, expecting)
            entry["aliases"][alias] = to
            why = {} if reason is None else {"reason": reason}
            entry["history"].append({"at": self._now(), "alias": alias, "from": found, "to": to, **why})

    def tags(self, model: str, version: str) -> Mapping[str, str]:
        """What a version was registered with. Raises ``RegistryError`` where there is no such version."""
        entry = self._read()["models"].get(model, {"versions": []})
        return dict(_version(entry, model, version)["tags"])

    def history(self, model: str) -> tuple[dict[str, str | None], ...]:
        """Every move of the model's aliases, oldest first: ``at`` (UTC), ``alias``, ``from``, ``to``, and ``reason`` where it went back."""
        return tuple(self._read()["models"].get(model, {}).get("history", ()))

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Any]]:
        """The state under the lock, written back unless the block raises."""
        try:
            with locked(self._path.with_name(f"{self._path.name}.lock")):
                state = self._read()
                yield state
                write_whole(self._path, json.dumps(state, indent=2, ensure_ascii=False) + "\n")
        except OSError as error:
            raise RegistryError(f"{self._path} could not be written: {error}") from error

    def _read(self) -> dict[str, Any]:
        """The state; an absent file is an empty registry, an unreadable one a ``RegistryError``."""
        try:
            state = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {"schema_version": SCHEMA_VERSION, "models": {}}
        except (OSError, ValueError) as error:
            raise RegistryError(
                f"{self._path} is not a readable registry: {error}; restore it from a copy or move it away"
            ) from error
        if not isinstance(state, dict) or state.get("schema_version") != SCHEMA_VERSION or "models" not in state:
            raise RegistryError(f"{self._path} is not a registry of schema version {SCHEMA_VERSION}")
        return state

    def _now(self) -> str:
        """The time for people and machines: UTC, ISO 8601, to the second."""
        return datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="seconds")


def _model(state: dict[str, Any], model: str) -> dict[str, Any]:
    """The model's entry, created empty where there is none."""
    entry: dict[str, Any] = state["models"].setdefault(model, {"versions": [], "aliases": {}, "history": []})
    return entry


def _version(entry: dict[str, Any], model: str, version: str) -> dict[str, Any]:
    """One version's entry; raises ``RegistryError`` for a version that does not exist."""
    for found in entry["versions"]:
        if found["version"] == version:
            return dict(found)
    raise RegistryError(f"'{model}' has no version {version}, so no alias can point at it")
