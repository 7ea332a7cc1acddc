"""The sheet of a sign-off: every text is shown as text, nothing is loaded, and it is the same for the same record."""

from __future__ import annotations

from dataclasses import replace

from publishing import report
from quantgate.records import Signatory, SignOff
from quantgate.render import signoff as sheet
from quantgate.stages import signoff as stage

PERSON = Signatory(
    name="<b>Ada</b>", role='"owner"', decision="reject", signed_at="2026-11-29T10:00:00+00:00", comment="<script>x</script>\u202e"
)


def record(person: Signatory = PERSON) -> SignOff:
    facts = stage.facts(report(), stage.Digests(policy="p" * 64, evidence="e" * 64, report="r" * 64))
    return SignOff(signatory=person, facts=facts, variant=None, checkpoint_sha256=None, checkpoint=(), files=(), verifier="1")


def test_texts_are_escaped() -> None:
    """A name or comment can be no markup and cannot turn the direction of the text."""
    page = sheet.page(record(), "a.intoto.json")
    assert "&lt;b&gt;Ada&lt;/b&gt;" in page and "&lt;script&gt;" in page
    assert "<script" not in page and "\u202e" not in page


def test_the_page_loads_nothing() -> None:
    """No address, no link, and a policy that says so to the browser."""
    page = sheet.page(record(), "a.intoto.json")
    assert "default-src 'none'" in page
    assert "http" not in page.replace("http-equiv", "") and "src=" not in page


def test_what_is_told() -> None:
    """Decision, verdicts, digests; conditions only where there are some; a rejection without a checkpoint says so."""
    page = sheet.page(record(), "a.intoto.json")
    for word in ("Rejected: no variant", "none at hand", "e" * 64, "a.intoto.json", "int8", "nf4", "PASS"):
        assert word in page, word
    assert "Conditions" not in page and "Waivers in use" not in page
    agreed = replace(PERSON, decision="approve_with_conditions", conditions="German only")
    assert "German only" in sheet.page(record(agreed), "a.intoto.json")


def test_the_same_record_gives_the_same_page() -> None:
    """The page's digest is signed, so nothing in it may depend on the day it is drawn."""
    assert sheet.page(record(), "a") == sheet.page(record(), "a")
