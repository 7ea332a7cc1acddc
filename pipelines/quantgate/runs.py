"""Stored runs: found by id, read back, refused where they were altered."""

from __future__ import annotations

import json
from pathlib import Path

from quantgate import rundir
from quantgate.errors import RunFolderError, UsageError
from quantgate.records import Evidence, GoldenSet, Policy, Report, RunInfo


def find_run(text: str, reports: Path, *, holds: str = "run.json") -> Path:
    """A run folder by path, id, or a part of its id that only one run has; or another folder that holds a file of a name."""
    if (direct := Path(text)).joinpath(holds).is_file():
        return direct.resolve()
    if (exact := reports / text).joinpath(holds).is_file():
        return exact.resolve()
    found = sorted(path.parent for path in reports.glob(f"*/{holds}") if text in path.parent.name)
    if len(found) == 1:
        return found[0].resolve()
    judged = [Path(text)] if holds == "run.json" and Path(text, "report.json").is_file() else _judgements(text, reports, holds)
    if not found and judged:
        what = f"{judged[0].name} is a report on files, without evidence of its own: it can be shown, not judged, compared or promoted"
        raise UsageError(f"{what}; judge its files again with judge --reference FILE --candidate FILE")
    names = ", ".join(path.name for path in found[:5]) + (" and others" if len(found) > 5 else "")
    what = f"no run in {reports} matches '{text}'" if not found else f"{len(found)} runs in {reports} match '{text}' ({names})"
    raise UsageError(f"{what}; give a run folder or more of its id, or name the folder with --reports")


def _judgements(text: str, reports: Path, holds: str) -> list[Path]:
    """Folders with a report that are no runs, where a run is asked for."""
    if holds != "run.json":
        return []
    found = (path.parent for path in sorted(reports.glob("*/report.json")) if text in path.parent.name)
    return [folder for folder in found if not (folder / "run.json").is_file()]


def find_report(text: str, reports: Path) -> Path:
    """A folder with a report: a run, or else a judgement of files, which is no run."""
    try:
        return find_run(text, reports)
    except UsageError:
        if not any(reports.glob("*/report.json")) and not Path(text, "report.json").is_file():
            raise
        return find_run(text, reports, holds="report.json")


def store_info(folder: Path, info: RunInfo) -> None:
    """Write run.json."""
    rundir.write_text(folder / "run.json", rundir.encode(info, indent=2) + "\n")


def load_info(folder: Path) -> RunInfo:
    """What a run folder says of itself. Raises ``RunFolderError`` where it is none."""
    if not (folder / "run.json").is_file():
        raise RunFolderError(f"{folder} is not a run folder: it has no run.json")
    return rundir.decode(RunInfo, rundir.read_text(folder / "run.json"))


def load_report(folder: Path) -> Report:
    """The stored report of a run. Raises ``RunFolderError`` where the run did not come to its end."""
    if not (folder / "report.json").is_file():
        how = f"go on with quantgate run CONFIG --resume {folder.name}"
        raise RunFolderError(f"{folder} has no report: the run did not come to its end ({load_info(folder).state}); {how}")
    return rundir.decode(Report, rundir.read_text(folder / "report.json"))


def load_evidence(folder: Path) -> Evidence:
    """The stored evidence of a run. Raises ``RunFolderError`` where it is missing or was altered."""
    return sealed_evidence(folder)[0]


def sealed_evidence(folder: Path) -> tuple[Evidence, str]:
    """The same, with the digest that it was written with."""
    found = rundir.sealed(folder / "evidence.json", kind="evidence", key=None, record=Evidence)
    if found is None:
        how = f"quantgate run CONFIG --resume {folder.name}"
        raise RunFolderError(f"{folder} holds no evidence: the run did not come to its end; go on with {how}")
    return found


def load_policy(folder: Path) -> Policy:
    """The policy a run was judged by. Raises ``RunFolderError`` where it is not the one that was fixed before measuring."""
    text = rundir.read_text(folder / "policy.json")
    policy = rundir.decode(Policy, text)
    if rundir.digest(json.loads(text)) != load_info(folder).policy_sha256:  # as written: a newer record may have more fields
        raise RunFolderError(f"{folder / 'policy.json'} was altered since the run was started")
    return policy


def load_golden(folder: Path, name: str, sha256: str) -> GoldenSet:
    """The run's own copy of a golden set."""
    found = rundir.get(folder / "golden" / f"{name}.json", kind="golden", key=sha256, record=GoldenSet)
    if found is None:
        raise RunFolderError(f"{folder} holds no unaltered copy of golden set {name}")
    return found


def only_model(reports: Path) -> Path:
    """The newest run of a folder whose runs all register the same model in the same place. Raises ``UsageError`` for any other."""
    found = sorted(reports.glob("*/run.json"), key=lambda path: path.stat().st_mtime)
    places = {(one.registry, one.registered_model, one.tracking_uri) for one in (load_info(path.parent) for path in found)}
    if not found:
        raise UsageError(f"there is no run in {reports}; name the folder with --reports")
    if len(places) > 1:
        models = ", ".join(sorted({f"{model} ({registry})" for registry, model, _ in places}))
        raise UsageError(f"the runs in {reports} are of several models or registries: {models}; name a run of the one meant with --run")
    return found[-1].parent.resolve()


def newest(reports: Path) -> RunInfo:
    """The run of a folder that was written to last. Raises ``UsageError`` where there is none."""
    found = max(reports.glob("*/run.json"), key=lambda path: path.stat().st_mtime, default=None)
    if found is None:
        raise UsageError(f"there is no run in {reports}; name the folder with --reports")
    return load_info(found.parent)


def tracking_uri(reports: Path) -> str:
    """The MLflow store in a folder of reports; where there is none, the one that the newest run there names."""
    here = (reports / "mlflow.db").resolve()
    newest = max(reports.glob("*/run.json"), key=lambda path: path.stat().st_mtime, default=None)
    return f"sqlite:///{here}" if here.is_file() or newest is None else load_info(newest.parent).tracking_uri
