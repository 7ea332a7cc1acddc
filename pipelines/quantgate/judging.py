"""Per-item results of other tools -> evidence that the gate can judge: named and read here, matched by ``stages.match``.

Nothing is known of weights, memory or speed. No clock is read and nothing random is made, so the same files, options and policy give the
same bytes.
"""

from __future__ import annotations

import gc
import hashlib
import json
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from quantgate import plugins, provenance, rundir, runs
from quantgate.errors import BrokenResults, ResultsError, UsageError
from quantgate.ports import Reader
from quantgate.readers.lines import refuse_unreadable
from quantgate.records import (
    Evidence,
    Fingerprint,
    GoldenSet,
    ItemScore,
    ReadOptions,
    Results,
    Role,
    Scalar,
    ScoreSheet,
    TaskResults,
    VariantEvidence,
)
from quantgate.stages.match import Side, match

FORMATS = ("lm_eval", "inspect", "nemo", "parquet", "table")
"""In the order in which a file is offered to them: the table takes whatever has a column for ids and one for scores."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LONGEST_NAMES = 80


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What is to be judged: each text is a path, ``NAME=PATH``, or a run as ``RUN`` or ``RUN:VARIANT``."""

    reference: str
    candidates: tuple[str, ...]
    controls: tuple[str, ...] = ()
    """Models known to be bad, which must fail."""
    format: str | None = None
    options: ReadOptions
    chance_level: float | None = None
    reports: Path = Path("reports")


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """Evidence from files, with what surrounds it."""

    evidence: Evidence
    sha256: str
    golden_sets: tuple[GoldenSet, ...]
    notes: tuple[str, ...]
    run_id: str
    commands: tuple[str, ...]
    path: str
    """The reference's."""


def gather(asked: Asked) -> Judged:
    """Read every file and match the items.

    Raises:
        UsageError: two of one name, the same file twice, no such file, a format that is not known.
        ResultsError: a file that cannot be read without a guess.
        BrokenResults: a file that is not whole.
    """
    with _without_collector():
        sides = _sides(asked)
        found = match(sides, asked.chance_level)
    evidence = Evidence(variants=found.variants, golden_sets=found.references, fingerprint=_fingerprint())
    names = "-".join(side.name for side in sides[1:])[:_LONGEST_NAMES].rstrip(".-_")
    return Judged(
        evidence=evidence,
        sha256=_digest(asked, evidence, sides),
        golden_sets=found.golden_sets,
        notes=found.notes,
        run_id=f"judged-{sides[0].name}-{names}",
        commands=(_command(asked),),
        path=sides[0].results.path,
    )


@contextmanager
def _without_collector() -> Iterator[None]:
    """Records have no cycles and stay until the end: walking tens of thousands of them again and again is a tenth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


# ---------------------------------------------------------------------------------------------- names and files


def _sides(asked: Asked) -> tuple[Side, ...]:
    """The reference, then the candidates, then the controls."""
    texts: list[tuple[str, Role]] = [(asked.reference, "reference")]
    texts += [(one, "candidate") for one in asked.candidates]
    texts += [(one, "known_bad") for one in asked.controls]
    named = [(*_named(text), role) for text, role in texts]
    _refuse_same([(name, place) for name, place, _ in named])
    sides = tuple(_side(name, place, role, asked) for name, place, role in named)
    names = [side.name for side in sides]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"two files are named '{repeated[0]}'; give one of them another name with NAME=FILE")
    return sides


def _named(text: str) -> tuple[str | None, str]:
    """``NAME=FILE`` in its parts; a file whose own name holds an equals sign is a file."""
    name, equals, place = text.partition("=")
    if not equals or Path(text).exists():
        return None, text
    if not _NAME.fullmatch(name):
        raise UsageError(f"'{name}' is no name for a variant: letters, digits, '.', '_' and '-', at most 64 of them")
    return name, place


def _refuse_same(named: Sequence[tuple[str | None, str]]) -> None:
    seen: dict[str, str] = {}
    for _, place in named:
        real = str(Path(place).resolve()) if Path(place).exists() else place
        if real in seen:
            raise UsageError(f"{place} is given twice; a file is not judged against itself")
        seen[real] = place


def _side(name: str | None, place: str, role: Role, asked: Asked) -> Side:
    path = Path(place)
    if not path.exists() or path.joinpath("run.json").is_file():
        return _of_run(name, place, role, asked)
    chosen = asked.format
    if chosen == "table" and path.suffix.lower() == ".parquet":
        chosen = "parquet"
    reader = _detected(path) if chosen is None else _reader(chosen)
    results = reader.read(path, asked.options)
    how = f"{'taken for' if asked.format is None else 'read as'} {results.source}"
    return Side(name=name or _plain_name(path), role=role, results=results, how=how)


def _reader(name: str) -> Reader:
    made: Reader = plugins.load("reader", name)()
    return made


def _detected(path: Path) -> Reader:
    """The first reader that knows the file as its own."""
    if path.is_dir() and next(path.iterdir(), None) is None:
        raise ResultsError("is an empty folder", file=str(path))
    if path.is_file():
        refuse_unreadable(path)
    for name in FORMATS:
        if name == "parquet" and path.suffix.lower() != ".parquet":
            continue
        if (reader := _reader(name)).recognises(path):
            return reader
    what = f"is in no format that is known here; name it with --format, one of {', '.join(one for one in FORMATS if one != 'parquet')}"
    raise ResultsError(what, file=str(path))


def _plain_name(path: Path) -> str:
    """The file's stem, with what a name may not hold replaced."""
    stem = path.resolve().name if path.is_dir() else path.stem
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._")[:64] or "results"


# ---------------------------------------------------------------------------------------------- runs of our own


def _of_run(name: str | None, place: str, role: Role, asked: Asked) -> Side:
    """The scores of a variant in a stored run: ``RUN:VARIANT``, or the run's reference or only candidate."""
    run, _, variant = (place, "", "") if Path(place).exists() or ":" not in place else place.rpartition(":")
    try:
        folder = runs.find_run(run, asked.reports)
    except UsageError as error:
        raise UsageError(f"{place}: no such file or folder, and {error}") from error
    evidence = runs.load_evidence(folder)
    found = _variant_of(evidence, variant, role, folder)
    chances = {one.sha256: one.chance_level for one in evidence.golden_sets}
    tasks = tuple(_task_of(sheet, chances.get(sheet.golden_sha256)) for sheet in found.sheets)
    if not tasks:
        raise BrokenResults(f"{place}: {found.variant.name} was not scored in this run")
    sha256 = rundir.digest([[task.name, _rows_digest(task.items)] for task in tasks])
    results = Results(source="run", path=place, sha256=sha256, tasks=tasks)
    return Side(
        name=name or found.variant.name,
        role=role,
        results=results,
        how=f"variant {found.variant.name} of a run",
        known=found,
    )


def _variant_of(evidence: Evidence, name: str, role: Role, folder: Path) -> VariantEvidence:
    names = [one.variant.name for one in evidence.variants]
    if name:
        if name not in names:
            raise UsageError(f"run {folder.name} has no variant '{name}'; it has {', '.join(names)}")
        return next(one for one in evidence.variants if one.variant.name == name)
    found = [one for one in evidence.variants if one.variant.role == role]
    if len(found) != 1:
        what = f"run {folder.name} has {len(found)} variants of role {role}"
        raise UsageError(f"{what}; name one as {folder.name}:VARIANT, of {', '.join(names)}")
    return found[0]


def _task_of(sheet: ScoreSheet, chance_level: float | None) -> TaskResults:
    plan = sheet.batch_plan
    stated: dict[str, Scalar] = {
        **sheet.conditions,
        "golden_sha256": sheet.golden_sha256,
        "batch_plan": f"{plan.max_rows} rows, {plan.token_budget} tokens, {plan.order}",
        "first_prompt": sheet.first_prompt,
    }
    return TaskResults(
        name=sheet.golden_set,
        metric="",
        items=sheet.items,
        chance_level=chance_level,
        conditions=stated,
        marks={},
        prompts={},
        scale=sheet.scale or "binary",
        better=sheet.better,
        stopped=sheet.stopped,
    )


# ---------------------------------------------------------------------------------------------- what surrounds the evidence


def _fingerprint() -> Fingerprint:
    """Nothing but the version of this program: the verdict depends on no machine, and the files do not say theirs."""
    return replace(provenance.fixed(), quantgate_version=provenance.own_version(), device=None)


def _digest(asked: Asked, evidence: Evidence, sides: Sequence[Side]) -> str:
    """Of every byte that was read, and of how it was read: encoding each item would take as long as judging."""
    variants = [
        [
            one.variant.name,
            one.variant.role,
            side.results.source,
            side.results.sha256,
            [sheet.conditions for sheet in one.sheets],
        ]
        for one, side in zip(evidence.variants, sides, strict=True)
    ]
    sets = [[one.name, one.sha256, one.chance_level] for one in evidence.golden_sets]
    known = {
        "schema_version": evidence.schema_version,
        "options": asked.options,
        "golden_sets": sets,
        "variants": variants,
    }
    return rundir.digest(known)


def _rows_digest(items: Sequence[ItemScore]) -> str:
    rows = [
        [
            one.item_id, one.slice, one.cluster, one.value, one.evidence.nonfinite, one.evidence.loglikelihoods,
            one.evidence.scored_tokens,
        ]
        for one in items
    ]
    return hashlib.sha256(json.dumps(rows, ensure_ascii=True, separators=(",", ":")).encode()).hexdigest()


def _command(asked: Asked) -> str:
    """The command that judges the same files again."""
    words = ["judge", "--reference", asked.reference]
    for option, values in (("--candidate", asked.candidates), ("--control", asked.controls)):
        words += [word for value in values for word in (option, value)]
    words += ["--policy", "POLICY.yaml"]
    given = {
        "--format": asked.format,
        **{
            f"--{field}": getattr(asked.options, field)
            for field in ("id", "score", "slice", "cluster", "metric", "filter")
        },
        "--chance": None if asked.chance_level is None else f"{asked.chance_level:g}",
    }
    usual = ReadOptions()
    for option, value in given.items():
        if value is not None and value != getattr(usual, option[2:], None):
            words += [option, value]
    return shlex.join(words)
