"""A person's decision about a report, and the facts that it was made on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from quantgate.records.asked import Role
from quantgate.records.policy import Outcome, Waiver
from quantgate.records.runs import Fingerprint

SignOffDecision: TypeAlias = Literal["approve", "approve_with_conditions", "reject"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Signatory:
    """The person who signs, and what they decided."""

    name: str
    role: str
    decision: SignOffDecision
    signed_at: str
    """UTC, ISO 8601."""
    comment: str = ""
    conditions: str = ""
    """What must be kept, where the decision is to approve with conditions; empty otherwise."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FileDigest:
    """A file by its name inside a folder and the digest of its bytes."""

    name: str
    sha256: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SignedVerdict:
    """The gate's word on one variant, as it was signed."""

    variant: str
    role: Role
    outcome: Outcome
    because: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SignedGolden:
    """A golden set as it was signed: ``sha256`` is the digest of its items file."""

    name: str
    version: str
    sha256: str
    items: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SignedFacts:
    """What a sign-off states of a run besides digests of files: all of it can be found again from evidence and policy."""

    run_id: str
    created_at: str
    model: str
    outcome: Outcome
    exit_code: int
    headline: str
    chosen: str | None
    verdicts: tuple[SignedVerdict, ...]
    waivers: tuple[Waiver, ...]
    """Those that kept a check from blocking."""
    golden_sets: tuple[SignedGolden, ...]
    policy_name: str
    policy_sha256: str
    evidence_sha256: str
    report_sha256: str
    """Digest of the report without what was promoted, which may be written later."""
    environment: Fingerprint


@dataclass(frozen=True, kw_only=True, slots=True)
class SignOff:
    """Who decided what about which run, and the digest of every file that the decision rests on."""

    signatory: Signatory
    facts: SignedFacts
    variant: str | None
    """The variant that was signed for; None where a run is rejected that chose none."""
    checkpoint_sha256: str | None
    checkpoint: tuple[FileDigest, ...]
    """Every file of the variant's checkpoint; empty where a rejection had none at hand."""
    checkpoint_path: str | None = None
    """Where the checkpoint lay when it was signed for."""
    files: tuple[FileDigest, ...]
    """Every file of the run folder: config, policy, evidence, report, pages, golden sets, raw results."""
    page: FileDigest | None = None
    """The page for people, beside the signed statement."""
    verifier: str = ""
    """The version of quantgate that judged again and signed."""
    schema_version: int = 1
