"""The file that pins a reference: written when a person accepts a run, read before anything is measured.

It is a small JSON file for version control: digests of what was asked, a mark an item, who accepted it and why, and a log of every one
before it. Accepting is a person's act and never a run's: a baseline that followed the reference by itself would follow it anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from quantgate import rundir, runs
from quantgate.errors import BaselineError, RunFolderError, UsageError
from quantgate.records import (
    Baseline,
    BaselineEvidence,
    BaselineLimits,
    BaselineMark,
    BaselinePast,
    Decision,
    Evidence,
    Policy,
    RunInfo,
    VariantEvidence,
    Verdict,
)
from quantgate.stages import gate
from quantgate.stages.marks import packed, scores
from quantgate.stages.subject import one_line, sheet_of

KIND = "baseline"


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """Whose reference is to be pinned, into which file (None: the one that the run was asked for with), by whom, when and why."""

    run: Path
    into: Path | None
    by: str
    reason: str
    at: str
    """UTC, ISO 8601."""


# ---------------------------------------------------------------------------------------------- reading


def load(path: Path) -> Baseline:
    """A baseline file. Raises ``UsageError`` where there is none, ``RunFolderError`` where it is damaged or was altered."""
    found = rundir.get(path, kind=KIND, key=None, record=Baseline)
    if found is None:
        raise UsageError(f"there is no baseline {path}; pin the reference of a stored run: quantgate baseline accept RUN --reason TEXT")
    return found


def read(path: Path, shown: str, limits: tuple[BaselineLimits, ...], run_id: str) -> BaselineEvidence:
    """The baseline of a run as evidence: one that cannot be used is evidence, too, and says what to do."""
    try:
        found = load(path)
        for one in found.golden_sets:
            scores(one)
    except UsageError:
        how = f"look at this run's reference, then pin it: quantgate baseline accept {run_id} --reason TEXT, and commit the file"
        return BaselineEvidence(file=shown, limits=limits, why_not=f"there is no file {shown} yet; {how}")
    except (RunFolderError, ValueError) as error:
        why = one_line(str(error)).replace(str(path), shown)
        how = "take it from version control again, or pin a reference anew with quantgate baseline accept into another file"
        return BaselineEvidence(file=shown, limits=limits, why_not=f"{why}; {how}")
    return BaselineEvidence(file=shown, limits=limits, pinned=found, sha256=rundir.digest(found))


# ---------------------------------------------------------------------------------------------- accepting


def accept(asked: Asked) -> tuple[Path, Baseline, Baseline | None]:
    """Pin a stored run's reference: the file, the new baseline, and the one it replaces.

    Raises ``BaselineError`` for a run that did not end, whose reference is quantized or was not measured, whose controls are not all as
    they must be, or that has no known-bad one; and where the file that is there cannot be read, so that its log would be lost.
    """
    if not asked.reason.strip() or not asked.by.strip():
        raise UsageError("a baseline needs a reason and a name: --reason TEXT and --by NAME must not be empty")
    info, sealed, policy = runs.load_info(asked.run), runs.sealed_evidence(asked.run), runs.load_policy(asked.run)
    _refuse(info, sealed[0], policy)
    into = asked.into or _own_file(info, sealed[0])
    before = _before(into, info)
    made = _pinned(asked, info, sealed, policy)
    if before is not None:
        made = replace(made, earlier=(*before.earlier, _past(before)))
    rundir.put(into, kind=KIND, key=info.run_id, record=rundir.rounded(made), indent=1)
    return into, made, before


def _refuse(info: RunInfo, evidence: Evidence, policy: Policy) -> None:
    """Judged without its own baseline: a run in which the reference moved is the one that is accepted after a meant change."""
    if info.state != "complete":
        raise BaselineError(f"run {info.run_id} did not come to its end ({info.state}); go on with it, then accept it")
    alone = replace(evidence, baseline=None)
    decision = gate.judge(alone, policy, policy_sha256=info.policy_sha256, evidence_sha256="", created_at=info.created_at)
    if (why := next(_faults(decision), None)) is not None:
        raise BaselineError(f"the reference of run {info.run_id} cannot be pinned: {why}")


def _faults(decision: Decision) -> Iterator[str]:
    reference = next(one for one in decision.verdicts if one.role == "reference")
    if reference.outcome != "pass":
        yield f"{reference.variant} {reference.because}"
    controls = [one for one in decision.verdicts if one.role in ("identity", "known_bad")]
    yield from (f"{one.variant} {one.because}" for one in controls if one.control_ok is not True)
    if not any(_is_known_bad(one) for one in controls):
        yield "the run has no known-bad control, so nothing shows that its golden sets can tell a loss; add one to the config"


def _is_known_bad(one: Verdict) -> bool:
    return one.role == "known_bad"


def _own_file(info: RunInfo, evidence: Evidence) -> Path:
    """The file that the run's config named, where its folder is on this machine."""
    if evidence.baseline is None:
        raise UsageError(f"the config of run {info.run_id} names no baseline; say where it goes with --into FILE")
    path = Path(evidence.baseline.file)
    if not path.is_absolute() or not path.parent.parent.is_dir():
        raise UsageError(f"the run names {path} as its baseline, which is not a place on this machine; name the file with --into FILE")
    return path


def _before(into: Path, info: RunInfo) -> Baseline | None:
    """The baseline that stands there. Raises ``BaselineError`` where it cannot be read, or is of this very run."""
    if not into.exists():
        return None
    try:
        found = load(into)
    except RunFolderError as error:
        what = f"{one_line(str(error))}; its log would be lost: take it from version control again, or name another file with --into"
        raise BaselineError(what) from error
    if found.run_id == info.run_id:
        raise BaselineError(f"{into} pins the reference of run {info.run_id} already; nothing was written")
    return found


def _pinned(asked: Asked, info: RunInfo, sealed: tuple[Evidence, str], policy: Policy) -> Baseline:
    evidence, evidence_sha256 = sealed
    reference = next(one for one in evidence.variants if one.variant.role == "reference")
    try:
        sets = tuple(packed(golden, sheet) for golden in evidence.golden_sets if (sheet := sheet_of(reference, golden)))
    except ValueError as error:
        raise BaselineError(f"the reference of run {info.run_id} cannot be pinned: {error}") from error
    if (why := _why_not_whole(reference, evidence)) is not None:
        raise BaselineError(f"the reference of run {info.run_id} cannot be pinned: {why}")
    return Baseline(
        run_id=info.run_id,
        created_at=info.created_at,
        accepted_at=asked.at,
        accepted_by=one_line(asked.by),
        reason=one_line(asked.reason),
        model=info.model.name,
        model_sha256=evidence.fingerprint.model_sha256,
        reference=reference.variant.name,
        weights_sha256=None if reference.loaded is None else reference.loaded.weights_sha256,
        dtype=None if reference.loaded is None else reference.loaded.dtype,
        policy=policy.name,
        policy_sha256=info.policy_sha256,
        evidence_sha256=evidence_sha256,
        environment=evidence.fingerprint,
        golden_sets=sets,
    )


def _why_not_whole(reference: VariantEvidence, evidence: Evidence) -> str | None:
    """Every golden set has one whole sheet."""
    for golden in evidence.golden_sets:
        sheet = sheet_of(reference, golden)
        if sheet is None or sheet.stopped is not None:
            return f"it was not scored on all of {golden.name}"
        if not sheet.scored:
            return f"it answered no item of {golden.name}"
    return None if evidence.golden_sets else "the run has no golden set"


def _past(before: Baseline) -> BaselinePast:
    """A replaced baseline in the log: enough to see from file to file where the reference went."""
    return BaselinePast(
        run_id=before.run_id,
        created_at=before.created_at,
        accepted_at=before.accepted_at,
        accepted_by=before.accepted_by,
        reason=before.reason,
        sha256=rundir.digest(before),
        model_sha256=before.model_sha256,
        marks=tuple(
            BaselineMark(golden_set=one.name, sha256=one.sha256, items=one.items, mean=one.mean) for one in before.golden_sets
        ),
    )
