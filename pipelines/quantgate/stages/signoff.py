"""What a sign-off states, when an approval is carried by the evidence, and what differs between what was signed and what is found.

Pure: digests come in as values, nothing is read or written, and time is an argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date
from typing import Any

from quantgate.records import (
    FileDigest,
    Report,
    Signatory,
    SignedFacts,
    SignedGolden,
    SignedVerdict,
    SignOff,
    Verdict,
    Waiver,
)

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:quantgate:release-summary:v1"
VERIFIER = "urn:quantgate"
PROMOTED_LATER = frozenset({"report.json", "report.html", "report.md", "junit.xml"})
"""Files that a promotion after the sign-off writes again."""

_SAID: Mapping[str, str] = {
    "outcome": "the outcome of the run",
    "chosen": "the chosen variant",
    "verdicts": "the verdicts",
    "waivers": "the waivers in use",
    "golden_sets": "the golden sets",
    "policy_sha256": "the policy's digest",
    "evidence_sha256": "the evidence's digest",
    "report_sha256": "the report's digest, what was promoted left out",
    "environment": "the environment",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Digests:
    """Digests of what the files hold, as it is written: a later version that reads more fields finds the same ones."""

    policy: str
    evidence: str
    report: str
    """Of the report without what was promoted."""


def facts(judged: Report, digests: Digests) -> SignedFacts:
    """What is stated of a run, from a report that was judged again."""
    return SignedFacts(
        run_id=judged.run_id,
        created_at=judged.created_at,
        model=judged.model,
        outcome=judged.outcome,
        exit_code=judged.exit_code,
        headline=judged.headline,
        chosen=judged.chosen,
        verdicts=tuple(
            SignedVerdict(variant=one.variant, role=one.role, outcome=one.outcome, because=one.because) for one in judged.verdicts
        ),
        waivers=tuple(_used(judged.policy.waivers, judged.verdicts)),
        golden_sets=tuple(
            SignedGolden(name=one.name, version=one.version, sha256=one.sha256, items=one.items) for one in judged.golden_sets
        ),
        policy_name=judged.policy.name,
        policy_sha256=digests.policy,
        evidence_sha256=digests.evidence,
        report_sha256=digests.report,
        environment=judged.fingerprint,
    )


def _used(waivers: Iterable[Waiver], verdicts: Sequence[Verdict]) -> Iterator[Waiver]:
    waived = {(one.variant, check.name) for one in verdicts for check in one.checks if check.waived_by}
    return (waiver for waiver in waivers if (waiver.variant, waiver.check) in waived)


# ---------------------------------------------------------------------------------------------- may it be signed


def fault_of(signatory: Signatory) -> str | None:
    """What is missing or too much in what the person said; None where nothing is."""
    if not signatory.name.strip() or not signatory.role.strip():
        return "a sign-off needs the name and the role of the person who signs"
    if (signatory.decision == "approve_with_conditions") != bool(signatory.conditions.strip()):
        what = "no condition was given" if not signatory.conditions.strip() else f"the decision is '{signatory.decision}'"
        return f"conditions belong to an approval with conditions, and to no other decision: {what}"
    if signatory.decision == "reject" and not signatory.comment.strip():
        return "a rejection needs a comment that says why"
    return None


def why_no_approval(signed: SignedFacts, variant: str | None, at: str) -> str | None:
    """Why the evidence carries no approval of the variant on that day; None where it does."""
    if signed.outcome != "pass" or signed.exit_code != 0:
        return f"the run's outcome is '{signed.outcome}', judged again from its evidence: {signed.headline}"
    found = next((one for one in signed.verdicts if one.variant == variant), None)
    if found is None:
        return "the run chose no variant" if variant is None else f"the run has no variant '{variant}'"
    if found.role != "candidate":
        return f"{variant} is a {found.role} variant; only a candidate goes out"
    if found.outcome != "pass":
        return f"{variant} is '{found.outcome}', judged again from its evidence: it {found.because}"
    lapsed = expired(signed.waivers, at)
    return f"it rests on a waiver that is over: {waiver_words(lapsed[0])}" if lapsed else None


def expired(waivers: Iterable[Waiver], at: str) -> tuple[Waiver, ...]:
    """The waivers whose last day is before the day of ``at`` (ISO 8601, UTC)."""
    return tuple(one for one in waivers if not date.fromisoformat(at[:10]) <= date.fromisoformat(one.expires))


def waiver_words(waiver: Waiver) -> str:
    """A waiver in one line."""
    return f"{waiver.check} of {waiver.variant}, waived by {waiver.owner} until {waiver.expires} ({waiver.reason})"


# ---------------------------------------------------------------------------------------------- the statement


def statement(signed: SignOff, plain: Any) -> dict[str, Any]:
    """The in-toto statement: its predicate is laid out as SLSA's verification summary, with the whole sign-off beside it.

    ``plain`` is the sign-off as JSON values. The subject is the checkpoint; where a rejection had none, the evidence.
    """
    policy, evidence = _file(signed.files, "policy.json"), _file(signed.files, "evidence.json")
    subjects = [FileDigest(name=f"{signed.variant}/{one.name}", sha256=one.sha256) for one in signed.checkpoint]
    return {
        "_type": STATEMENT_TYPE,
        "subject": [_descriptor("name", one) for one in subjects or [evidence]],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "verifier": {"id": VERIFIER, "version": {"quantgate": signed.verifier}},
            "timeVerified": signed.signatory.signed_at,
            "resourceUri": f"{VERIFIER}:run:{signed.facts.run_id}",
            "policy": _descriptor("uri", policy),
            "inputAttestations": [_descriptor("uri", one) for one in signed.files],
            "verificationResult": "FAILED" if signed.signatory.decision == "reject" else "PASSED",
            "signOff": plain,
        },
    }


def _file(files: Iterable[FileDigest], name: str) -> FileDigest:
    return next((one for one in files if one.name == name), FileDigest(name=name, sha256=""))


def _descriptor(key: str, file: FileDigest) -> dict[str, Any]:
    return {key: file.name, "digest": {"sha256": file.sha256}}


# ---------------------------------------------------------------------------------------------- signed and found


def different_facts(signed: SignedFacts, found: SignedFacts) -> Iterator[str]:
    """What is not as it was signed when the evidence is judged again, a line each."""
    for field in fields(SignedFacts):
        before, now = (_bare(getattr(one, field.name)) for one in (signed, found))
        if before != now and field.name in _SAID:
            yield f"{_SAID[field.name]}: signed was {_short(before)}, judged again from the files it is {_short(now)}"


def _bare(value: Any) -> Any:
    """Verdicts by their outcomes: another version may say them in other words."""
    if isinstance(value, tuple) and value and isinstance(value[0], SignedVerdict):
        return ", ".join(f"{one.variant} {one.outcome}" for one in value)
    return value


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def different_files(signed: Iterable[FileDigest], found: Iterable[FileDigest]) -> Iterator[tuple[str, str]]:
    """Name of each file that is not as it was signed, with what became of it: changed, missing or added."""
    before = {one.name: one.sha256 for one in signed}
    now = {one.name: one.sha256 for one in found}
    for name in sorted(before.keys() | now.keys()):
        if name not in now:
            yield name, "is missing"
        elif name not in before:
            yield name, "was added after the sign-off"
        elif before[name] != now[name]:
            yield name, "was changed after the sign-off"
