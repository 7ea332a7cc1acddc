"""What a sign-off states, when an approval is carried, and how differences are named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from publishing import report
from quantgate.records import FileDigest, Signatory, SignedFacts, SignOff, Waiver
from quantgate.stages import signoff

DIGESTS = signoff.Digests(policy="p" * 64, evidence="e" * 64, report="r" * 64)
WAIVER = Waiver(check="quality/everyday", variant="int8", owner="Grace", reason="pilot", expires="2026-12-31")
FILES = (FileDigest(name="evidence.json", sha256="1" * 64), FileDigest(name="policy.json", sha256="2" * 64))


def facts(outcome: str = "pass", **changes: object) -> SignedFacts:
    return replace(signoff.facts(report(outcome=outcome), DIGESTS), **changes)  # type: ignore[arg-type]


def person(decision: str = "approve", **changes: str) -> Signatory:
    values = {"name": "Ada", "role": "owner", "signed_at": "2026-11-29T10:00:00+00:00", **changes}
    return Signatory(decision=decision, **values)  # type: ignore[arg-type]


def test_facts_are_those_of_the_report() -> None:
    """Outcome, verdicts and digests; a waiver is stated only where it kept a check from blocking."""
    found = report()
    waived = replace(found.verdicts[0], checks=(replace(found.verdicts[0].checks[0], outcome="fail", waived_by="Grace"),))
    other = replace(WAIVER, variant="nf4")
    judged = replace(found, verdicts=(waived, *found.verdicts[1:]), policy=replace(found.policy, waivers=(WAIVER, other)))
    stated = signoff.facts(judged, DIGESTS)
    assert (stated.outcome, stated.chosen, stated.evidence_sha256) == ("pass", "int8", "e" * 64)
    assert [one.variant for one in stated.verdicts] == ["int8", "nf4"]
    assert stated.waivers == (WAIVER,)


@pytest.mark.parametrize(("day", "over"), [("2026-12-31", 0), ("2027-01-01", 1), ("2026-01-01", 0)])
def test_a_waiver_holds_through_its_last_day(day: str, over: int) -> None:
    """The last day is included, the next one is not."""
    assert len(signoff.expired((WAIVER,), f"{day}T23:59:59+00:00")) == over


@pytest.mark.parametrize(
    ("found", "variant", "at", "named"),
    [
        (facts("fail"), "int8", "2026-11-29", "the run's outcome is 'fail'"),
        (facts("not_measured"), "int8", "2026-11-29", "the run's outcome is 'not_measured'"),
        (facts(exit_code=4), "int8", "2026-11-29", "the run's outcome"),
        (facts(), None, "2026-11-29", "chose no variant"),
        (facts(), "int9", "2026-11-29", "no variant 'int9'"),
        (facts(waivers=(WAIVER,)), "int8", "2027-01-01", "rests on a waiver that is over: quality/everyday of int8"),
    ],
)
def test_what_carries_no_approval(found: SignedFacts, variant: str | None, at: str, named: str) -> None:
    """Anything but a pass of run and variant, and a waiver that is over."""
    assert named in (signoff.why_no_approval(found, variant, at) or "")


def test_a_pass_carries_one() -> None:
    """A pass, also one with a waiver that holds."""
    assert signoff.why_no_approval(facts(waivers=(WAIVER,)), "int8", "2026-12-31") is None


@pytest.mark.parametrize(
    ("found", "right"),
    [
        (person(), True),
        (person("reject", comment="no"), True),
        (person("approve_with_conditions", conditions="c"), True),
        (person("reject"), False),
        (person("approve_with_conditions", conditions=" "), False),
        (person("reject", comment="no", conditions="c"), False),
        (person(name=""), False),
        (person(role=" "), False),
    ],
)
def test_what_a_person_must_say(found: Signatory, right: bool) -> None:
    """Name, role, a reason for a rejection, conditions exactly where the decision has them."""
    assert (signoff.fault_of(found) is None) == right


def signed(decision: str, checkpoint: tuple[FileDigest, ...]) -> SignOff:
    said = person(decision, comment="no")
    return SignOff(
        signatory=said, facts=facts(), variant="int8", checkpoint_sha256=None, checkpoint=checkpoint, files=FILES, verifier="1"
    )


def test_the_subject_is_the_checkpoint_or_else_the_evidence() -> None:
    """Each file of the checkpoint under the variant's name; a rejection without one is about the evidence, and says FAILED."""
    made = signoff.statement(signed("approve", (FileDigest(name="a/b.bin", sha256="3" * 64),)), {})
    assert made["subject"] == [{"name": "int8/a/b.bin", "digest": {"sha256": "3" * 64}}]
    assert (made["predicate"]["verificationResult"], made["predicate"]["policy"]["digest"]["sha256"]) == ("PASSED", "2" * 64)
    made = signoff.statement(signed("reject", ()), {})
    assert made["subject"] == [{"name": "evidence.json", "digest": {"sha256": "1" * 64}}]
    assert made["predicate"]["verificationResult"] == "FAILED"


def test_files_are_named_with_what_became_of_them() -> None:
    """Changed, missing and added, in order of their names; equal ones are not named."""
    before = (FileDigest(name="a", sha256="1"), FileDigest(name="b", sha256="1"), FileDigest(name="c", sha256="1"))
    after = (FileDigest(name="d", sha256="1"), FileDigest(name="c", sha256="1"), FileDigest(name="a", sha256="2"))
    assert list(signoff.different_files(before, after)) == [
        ("a", "was changed after the sign-off"),
        ("b", "is missing"),
        ("d", "was added after the sign-off"),
    ]


def test_facts_that_came_out_otherwise_are_named() -> None:
    """Outcomes and digests are; other words for the same outcome are not."""
    before = facts()
    words = tuple(replace(one, because="in other words") for one in before.verdicts)
    assert list(signoff.different_facts(before, replace(before, verdicts=words))) == []
    found = list(signoff.different_facts(before, replace(facts("fail"), evidence_sha256="0" * 64)))
    said = "the verdicts: signed was int8 pass, nf4 pass, judged again from the files it is int8 fail, nf4 fail"
    assert said in found
    assert any(one.startswith("the evidence's digest") for one in found)
