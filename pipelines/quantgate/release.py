"""Signing off a stored run, and checking a sign-off against the files: who decided what, on which bytes.

Knows run folders, the chain that judges again, and signers. What an approval needs is decided in ``stages.signoff``. Neither the stored
report nor the stored outcome is believed: evidence and policy are judged again, for the signature and for every check of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from quantgate import golden, pipeline, provenance, rundir, runs
from quantgate.errors import (
    GoldenSetError,
    QuantgateError,
    RunFolderError,
    SignatureError,
    SignOffError,
    UsageError,
)
from quantgate.files import digest_of_files, file_digests
from quantgate.ports import Signer
from quantgate.records import FileDigest, MeasurementRow, Report, Signatory, SignOff
from quantgate.render import signoff as sheet
from quantgate.stages import signoff as stage

FOLDER = "signoff"
SUFFIX = ".intoto.json"
NOT_BOUND = frozenset({FOLDER, "judgements", "logs", "run.log"})
"""What a run folder holds besides the run: what is written later, and what it said while it ran."""


# ---------------------------------------------------------------------------------------------- signing


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What is to be signed, by whom, with what. ``checkpoint``: where the checkpoint lies, where not as the evidence says."""

    run: Path
    signatory: Signatory
    secret: str
    variant: str | None = None
    checkpoint: Path | None = None


def sign_off(asked: Asked, signer: Signer) -> tuple[Path, Path]:
    """Write the signed statement and its page into the run folder. Raises ``SignOffError`` for an approval that nothing carries."""
    if (fault := stage.fault_of(asked.signatory)) is not None:
        raise UsageError(fault)
    with rundir.held(asked.run):
        signed = _bound(asked, _believed(asked.run))
        at = datetime.fromisoformat(asked.signatory.signed_at).strftime("%Y-%m-%dT%H-%M-%SZ")
        stem = f"{at}-{asked.signatory.decision.replace('_', '-')}"
        file, page = (asked.run / FOLDER / f"{stem}{suffix}" for suffix in (SUFFIX, ".html"))
        if file.exists() or page.exists():
            raise SignOffError(f"{file} is there already; a sign-off is never overwritten")
        text = sheet.page(signed, file.name)
        signed = replace(signed, page=FileDigest(name=page.name, sha256=sha256(text.encode()).hexdigest()))
        sealed = signer.sign(_statement(signed), asked.secret)
        rundir.write_text(page, text)
        rundir.write_text(file, sealed)
    return file, page


def _believed(folder: Path) -> Report:
    """The run judged again. Raises ``SignOffError`` where its own report, or its card, says something else than its evidence."""
    info = runs.load_info(folder)
    if info.state != "complete":
        raise SignOffError(f"run {info.run_id} did not come to its end ({info.state}); only a complete run can be signed off")
    judged, stored = pipeline.judge_stored(folder), replace(runs.load_report(folder), promotion=None)
    key = rundir.decode(rundir.Envelope, rundir.read_text(folder / "evidence.json")).key
    if key != info.run_id or judged.fingerprint.config_sha256 != info.config_sha256:
        raise SignOffError(f"{folder / 'evidence.json'} is not the evidence of run {info.run_id}: it was taken in another run")
    _refuse_other_questions(folder, judged)
    if stored != judged:
        names = [field.name for field in fields(Report) if getattr(stored, field.name) != getattr(judged, field.name)]
        what = f"it says something else of {', '.join(names)} than the evidence, judged again under the run's policy"
        raise SignOffError(f"{folder / 'report.json'} cannot be signed: {what}; it was altered, or another version wrote it")
    return judged


def _refuse_other_questions(folder: Path, judged: Report) -> None:
    """The run's copy of a golden set must be the set itself, where that is still there under the digest that was asked."""
    for row in judged.golden_sets:
        copy = runs.load_golden(folder, row.name, row.sha256)
        try:
            original = golden.load(Path(copy.path))
        except (GoldenSetError, OSError):
            continue
        if original.sha256 == copy.sha256 and original.items != copy.items:
            raise SignOffError(f"{folder / 'golden' / f'{row.name}.json'} does not hold the questions of {original.label}: it was altered")


def _bound(asked: Asked, judged: Report) -> SignOff:
    facts = stage.facts(judged, _digests(asked.run))
    variant = asked.variant or facts.chosen
    if asked.variant is not None and asked.variant not in [one.variant for one in facts.verdicts]:
        raise UsageError(f"the run has no variant '{asked.variant}'; it has {', '.join(one.variant for one in facts.verdicts)}")
    rejected = asked.signatory.decision == "reject"
    if not rejected and (why := stage.why_no_approval(facts, variant, asked.signatory.signed_at)) is not None:
        raise SignOffError(f"an approval is refused: {why.rstrip('.')}. A rejection can be signed: --decision reject")
    row = next((one for one in judged.measurements if one.variant == variant), None)
    place, files = _checkpoint(asked, row, needed=not rejected)
    return SignOff(
        signatory=asked.signatory,
        facts=facts,
        variant=variant,
        checkpoint_sha256=digest_of_files(files) if files else None,
        checkpoint=files,
        checkpoint_path=str(place) if files else None,
        files=_files(asked.run),
        verifier=provenance.own_version(),
    )


def _checkpoint(asked: Asked, row: MeasurementRow | None, *, needed: bool) -> tuple[Path | None, tuple[FileDigest, ...]]:
    """The checkpoint's files, every byte as it was judged. Raises ``SignOffError`` where an approval needs one and has none."""
    place = asked.checkpoint or (None if row is None or row.artifact_path is None else Path(row.artifact_path))
    if place is None or row is None or not place.is_dir():
        if needed or asked.checkpoint is not None:
            raise SignOffError(f"there is no checkpoint at {place}; say where it lies with --checkpoint DIR, or run the config again")
        return None, ()
    files = file_digests(place)
    if digest_of_files(files) != row.artifact_sha256:
        if not needed and asked.checkpoint is None:
            return None, ()  # a rejection needs none, least of all one that was altered
        raise SignOffError(f"the checkpoint at {place} is not the one that was judged: a file was changed, added or taken away")
    return place.resolve(), files


def _files(folder: Path) -> tuple[FileDigest, ...]:
    return tuple(one for one in file_digests(folder) if one.name.split("/")[0] not in NOT_BOUND)


def _digests(folder: Path) -> stage.Digests:
    """Of policy, evidence and report as they are written. Raises ``RunFolderError`` where one cannot be read."""
    evidence = rundir.decode(rundir.Envelope, rundir.read_text(folder / "evidence.json"))
    return stage.Digests(
        policy=rundir.digest(_json(folder / "policy.json")),
        evidence=evidence.sha256,
        report=rundir.digest({**_json(folder / "report.json"), "promotion": None}),
    )


def _json(path: Path) -> dict[str, Any]:
    """A file's JSON object. Raises ``RunFolderError`` for anything else."""
    try:
        found = json.loads(rundir.read_text(path))
    except ValueError as error:
        raise RunFolderError(f"{path} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise RunFolderError(f"{path} is no JSON object")
    return found


def _statement(signed: SignOff) -> bytes:
    return rundir.encode(stage.statement(signed, rundir.plain(signed))).encode()


# ---------------------------------------------------------------------------------------------- checking


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing that a check found. ``fault``: not as signed; ``reservation``: as signed, and no approval today."""

    kind: Literal["fault", "reservation", "note"]
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Verification:
    """What came of checking a sign-off. ``key_id`` is None where no trusted key vouches for it."""

    signed: SignOff | None
    key_id: str | None
    findings: tuple[Finding, ...]
    trusted: bool

    @property
    def exit_code(self) -> int:
        """0 an approval that holds; 1 something was changed; 3 as signed, and no approval; 4 nobody was given to trust."""
        kinds = {one.kind for one in self.findings}
        if "fault" in kinds:
            return 1
        if not self.trusted:
            return 4
        return 3 if "reservation" in kinds else 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Sought:
    """What is to be checked: the signed file, whom to trust, and where things lie where not beside the file."""

    file: Path
    trusted: tuple[str, ...] = ()
    run: Path | None = None
    checkpoint: Path | None = None


def verify(sought: Sought, signer: Signer, now: str) -> Verification:
    """Check everything a sign-off states, from the files. ``now``: UTC, ISO 8601. Raises ``UsageError`` where there is no such file."""
    if not sought.file.is_file():
        raise UsageError(f"there is no file {sought.file}")
    key_id, signature = _signature(sought, signer)
    try:
        signed = _read(signer, sought.file)
    except (SignatureError, RunFolderError) as error:
        findings = [*signature, _fault(f"{sought.file.name}: {error}")]
        return _verification(None, key_id, list(dict.fromkeys(findings)), sought)
    folder = sought.run or sought.file.resolve().parent.parent
    parts = (_page(signed, sought.file), _run(signed, folder), _weights(signed, sought.checkpoint), _standing(signed, now))
    return _verification(signed, key_id, [*signature, *(one for part in parts for one in part)], sought)


def _verification(signed: SignOff | None, key_id: str | None, findings: Sequence[Finding], sought: Sought) -> Verification:
    return Verification(signed=signed, key_id=key_id, findings=tuple(findings), trusted=bool(sought.trusted))


def _fault(text: str) -> Finding:
    return Finding(kind="fault", text=text)


def _signature(sought: Sought, signer: Signer) -> tuple[str | None, list[Finding]]:
    if not sought.trusted:
        text = "no trusted key was given, so nobody vouches for the signature: name the public key with --key FILE"
        return None, [Finding(kind="reservation", text=text)]
    try:
        return signer.check(_text(sought.file), sought.trusted), []
    except SignatureError as error:
        return None, [_fault(f"{sought.file.name}: {error}")]


def _read(signer: Signer, file: Path) -> SignOff:
    """The sign-off in a file. Raises ``SignatureError`` for a statement of another kind or form."""
    payload = signer.payload(_text(file))
    predicate = json.loads(payload)
    if predicate.get("predicateType") != stage.PREDICATE_TYPE:
        raise SignatureError(f"its statement is of type {predicate.get('predicateType')!r}; expected is {stage.PREDICATE_TYPE!r}")
    stated = predicate["predicate"].get("signOff")
    signed = rundir.decode(SignOff, json.dumps(stated))
    if rundir.encode(stage.statement(signed, stated)).encode() != payload:
        raise SignatureError("its statement contradicts itself: the summary is not that of the sign-off in it")
    return signed


def _text(file: Path) -> str:
    try:
        return file.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise SignatureError(f"it cannot be read: {error}") from error


def _page(signed: SignOff, file: Path) -> Iterator[Finding]:
    """The sheet beside the file."""
    if signed.page is None:
        yield _fault("the statement names no page")
        return
    found = [one for one in file_digests(file.parent) if one.name == signed.page.name]
    for name, what in stage.different_files([signed.page], found):
        yield _fault(f"the page {name} {what}")


def _run(signed: SignOff, folder: Path) -> Iterator[Finding]:
    """The run folder: the right run, every file, and the same verdict judged again."""
    if not (folder / "run.json").is_file():
        yield _fault(f"{folder} holds no run: run.json is missing; name the folder of run {signed.facts.run_id} with --run")
        return
    yield from _identity(signed, folder)
    changes = list(stage.different_files(signed.files, _files(folder)))
    names = {name for name, _ in changes}
    if names and names <= stage.PROMOTED_LATER and _promoted_later(signed, folder):
        text = f"{', '.join(sorted(names))}: written again by a promotion after the sign-off; what was promoted is not signed"
        yield Finding(kind="note", text=text)
    else:
        yield from (_fault(f"{name} of the run {what}") for name, what in changes)
    yield from _judged_again(signed, folder)


def _identity(signed: SignOff, folder: Path) -> Iterator[Finding]:
    try:
        found = runs.load_info(folder).run_id
    except RunFolderError as error:
        yield _fault(f"run.json of the run: {error}")
        return
    if found != signed.facts.run_id:
        yield _fault(f"{folder} holds another run: {found}; the statement is of run {signed.facts.run_id}")


def _judged_again(signed: SignOff, folder: Path) -> Iterator[Finding]:
    try:
        now = stage.facts(pipeline.judge_stored(folder), _digests(folder))
    except QuantgateError as error:
        yield _fault(f"the run cannot be judged again: {error}")
        return
    yield from (_fault(text) for text in stage.different_facts(signed.facts, now))


def _promoted_later(signed: SignOff, folder: Path) -> bool:
    """Whether report and pages are as signed but for what was promoted since, to the byte as this version writes them."""
    try:
        report = runs.load_report(folder)
        if _digests(folder).report != signed.facts.report_sha256:
            return False
    except RunFolderError:
        return False
    with TemporaryDirectory() as name:
        again = Path(name)
        rundir.write_text(again / "report.json", rundir.encode(report, indent=2) + "\n")
        for sink in pipeline.pages():
            sink.publish(report, again)
        written = file_digests(again)
    there = {one for one in _files(folder) if one.name in stage.PROMOTED_LATER}
    return there == {one for one in written if one.name in stage.PROMOTED_LATER}


def _weights(signed: SignOff, checkpoint: Path | None) -> Iterator[Finding]:
    """The checkpoint, file by file."""
    if not signed.checkpoint:
        if checkpoint is not None:
            yield _fault("the statement binds no checkpoint, so the one that was given is not what was signed for")
        return
    place = checkpoint or Path(signed.checkpoint_path or "")
    if not place.is_dir():
        yield _fault(f"the checkpoint of {signed.variant} is missing: {place}; say where it lies with --checkpoint DIR")
        return
    for name, what in stage.different_files(signed.checkpoint, file_digests(place)):
        yield _fault(f"checkpoint of {signed.variant}: {name} {what}")


def _standing(signed: SignOff, now: str) -> Iterator[Finding]:
    """Whether it is an approval that can be relied on today."""
    person, facts = signed.signatory, signed.facts
    if person.decision == "reject":
        yield Finding(kind="reservation", text=f"it is a rejection: {person.comment}")
        return
    if person.decision == "approve_with_conditions":
        yield Finding(kind="note", text=f"approved with conditions: {person.conditions}")
    for waiver in stage.expired(facts.waivers, now):
        yield Finding(kind="reservation", text=f"a waiver has expired since: {stage.waiver_words(waiver)}")
    if (why := stage.why_no_approval(facts, signed.variant, person.signed_at)) is not None:
        yield _fault(f"the evidence does not carry the approval: {why}")
