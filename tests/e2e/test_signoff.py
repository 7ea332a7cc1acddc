"""Signing off a run, and checking it: what may be signed, and every change after it found and named."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("securesystemslib", reason="the extra 'signing' is not installed")
pytest.importorskip("in_toto_attestation", reason="the extra 'signing' is not installed")

from chain import CONTROL, REFERENCE, Chain, candidate, report_of
from inline import inline_executor
from quantgate import release, rundir
from quantgate.records import Evidence
from quantgate.signers.ed25519 import Ed25519Signer
from signing import PERSON, Signed, edit, reseal, write_keys


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Signed:
    """Signed once; not to be altered."""
    with inline_executor(), pytest.MonkeyPatch.context() as patch:
        for name in ("QUANTGATE_CACHE", "XDG_CACHE_HOME", "MLFLOW_TRACKING_URI"):
            patch.delenv(name, raising=False)
        return Signed.in_folder(tmp_path_factory.mktemp("signed") / "place")


@pytest.fixture
def signed(pristine: Signed, tmp_path: Path, inline: None) -> Signed:
    """A copy to be altered."""
    return pristine.copy(tmp_path / "place")


# ---------------------------------------------------------------------------------------------- every change is named


def _payload(signed: Signed, old: str, new: str, *, sign_with: str | None = None) -> None:
    """Change the statement inside the envelope; with a key, sign it again and keep the key id that stood there."""
    envelope = json.loads(signed.file.read_text(encoding="utf-8"))
    text = base64.b64decode(envelope["payload"]).decode()
    assert old in text
    payload = text.replace(old, new).encode()
    if sign_with is None:
        envelope["payload"] = base64.b64encode(payload).decode()
    else:
        key_id = envelope["signatures"][0]["keyid"]
        envelope = json.loads(Ed25519Signer().sign(payload, str(signed.root / "keys" / f"{sign_with}.key")))
        envelope["signatures"][0]["keyid"] = key_id
    signed.file.write_text(json.dumps(envelope, indent=2) + "\n", encoding="utf-8")


def _envelope(signed: Signed, change: Callable[[dict[str, Any]], object]) -> None:
    envelope = json.loads(signed.file.read_text(encoding="utf-8"))
    change(envelope)
    signed.file.write_text(json.dumps(envelope, indent=2) + "\n", encoding="utf-8")


def _signature(envelope: dict[str, Any]) -> None:
    raw = bytearray(base64.b64decode(envelope["signatures"][0]["sig"]))
    raw[5] ^= 1
    envelope["signatures"][0]["sig"] = base64.b64encode(bytes(raw)).decode()


def _foreign(signed: Signed) -> None:
    file = signed.file
    shutil.rmtree(signed.run / "signoff")
    assert signed.sign("--decision", "approve", "--checkpoint", signed.checkpoint, key="theirs").code == 0
    signed.file.rename(file)


def _weights(signed: Signed) -> None:
    path = next(one for one in signed.checkpoint.iterdir() if one.is_file())
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def _policy_and_card(signed: Signed) -> None:
    """A wider margin, with the run's card saying that it had been so all along."""
    edit(signed.run / "policy.json", '"margin": 0.03', '"margin": 0.2')
    now = rundir.digest(json.loads((signed.run / "policy.json").read_text(encoding="utf-8")))
    card = json.loads((signed.run / "run.json").read_text(encoding="utf-8"))
    edit(signed.run / "run.json", card["policy_sha256"], now)


def _waiver_date(signed: Signed) -> None:
    policy = json.loads((signed.run / "policy.json").read_text(encoding="utf-8"))
    edit(signed.run / "policy.json", policy["waivers"][0]["expires"], "2099-12-31")


def _swap_runs(signed: Signed) -> None:
    kept = signed.root / "kept"
    shutil.copytree(signed.run / "signoff", kept)
    shutil.rmtree(signed.run)
    shutil.copytree(signed.other, signed.run, ignore=shutil.ignore_patterns("signoff"))
    shutil.copytree(kept, signed.run / "signoff")


def _statement_of_another(signed: Signed) -> None:
    other = replace(signed, run=signed.other)
    shutil.copy(other.page, signed.page)
    shutil.copy(other.file, signed.file)


def _score(signed: Signed) -> None:
    reseal(signed.run / "evidence.json", ["variants", 2, "sheets", 0, "items", 17, "value"], 0.5)


def _promotion(signed: Signed) -> None:
    edit(signed.run / "report.json", '"promoted": true', '"promoted": false')


def _promoted_and_page(signed: Signed) -> None:
    """A promotion after the sign-off, and a page that was edited under its cover."""
    assert signed.cli("promote", signed.run, "--alias", "other").code == 0
    edit(signed.run / "report.html", "<h1", "<h1 ")


TAMPERED: dict[str, tuple[Callable[[Signed], object], str]] = {
    "weights": (_weights, "checkpoint of int4: fake-model.json was changed"),
    "file of the checkpoint gone": (lambda one: (one.checkpoint / "fake-model.json").unlink(), "fake-model.json is missing"),
    "checkpoint gone": (lambda one: shutil.rmtree(one.checkpoint), "the checkpoint of int4 is missing"),
    "extra file in the checkpoint": (lambda one: (one.checkpoint / "modeling.py").write_text("1"), "modeling.py was added"),
    "one score": (_score, "evidence.json of the run was changed"),
    "one raw score": (
        lambda one: edit(one.run / "variants/int4/scores/smoke.jsonl", "1", "0"),
        "variants/int4/scores/smoke.jsonl of the run was changed",
    ),
    "policy": (lambda one: edit(one.run / "policy.json", '"margin": 0.03', '"margin": 0.2'), "policy.json was altered"),
    "policy and the run's card": (_policy_and_card, "the policy's digest: signed was"),
    "waiver's date": (_waiver_date, "policy.json of the run was changed"),
    "golden item": (
        lambda one: reseal(one.run / "golden/smoke.json", ["items", 3, "prompt"], "2 + 2 ="),
        "golden/smoke.json of the run was changed",
    ),
    "golden set gone": (lambda one: (one.run / "golden/smoke.json").unlink(), "golden/smoke.json of the run is missing"),
    "report": (lambda one: edit(one.run / "report.json", '"outcome": "pass"', '"outcome": "fail"'), "report.json of the run was changed"),
    "what was promoted": (_promotion, "report.json of the run was changed"),
    "page of the report": (lambda one: edit(one.run / "report.html", "<h1", "<h1 "), "report.html of the run was changed"),
    "page under cover of a promotion": (_promoted_and_page, "report.html of the run was changed"),
    "junit": (lambda one: edit(one.run / "junit.xml", "int2", "int3"), "junit.xml of the run was changed"),
    "config": (lambda one: edit(one.run / "config.yaml", "engine: fake", "engine:  fake"), "config.yaml of the run was changed"),
    "run's date": (lambda one: edit(one.run / "run.json", '"created_at": "2', '"created_at": "1'), "run.json of the run was changed"),
    "evidence gone": (lambda one: (one.run / "evidence.json").unlink(), "evidence.json of the run is missing"),
    "run's card gone": (lambda one: (one.run / "run.json").unlink(), "run.json is missing"),
    "extra file in the run": (lambda one: (one.run / "golden/more.json").write_text("{}"), "golden/more.json of the run was added"),
    "swapped run": (_swap_runs, "holds another run"),
    "statement of another run": (_statement_of_another, "holds another run"),
    "payload": (lambda one: _payload(one, "Ada King", "Eve Lynn"), "its signature does not hold"),
    "payload signed by somebody else": (
        lambda one: _payload(one, "Ada King", "Eve Lynn", sign_with="theirs"),
        "its signature does not hold",
    ),
    "summary beside the sign-off": (
        lambda one: _payload(one, '"verificationResult": "PASSED"', '"verificationResult": "FAILED"', sign_with="ours"),
        "its statement contradicts itself",
    ),
    "signature": (lambda one: _envelope(one, _signature), "its signature does not hold"),
    "foreign key": (_foreign, "it was signed with the foreign key"),
    "key id": (
        lambda one: _envelope(one, lambda found: found["signatures"][0].update(keyid="ab" * 32)),
        "it was signed with the foreign key abababababababab",
    ),
    "second signature": (
        lambda one: _envelope(one, lambda found: found["signatures"].append({"keyid": "ab" * 32, "sig": "AAAA"})),
        "it carries 2 signatures",
    ),
    "no signature": (lambda one: _envelope(one, lambda found: found["signatures"].clear()), "it carries 0 signatures"),
    "kind of payload": (lambda one: _envelope(one, lambda found: found.update(payloadType="text/plain")), "it holds 'text/plain'"),
    "space in the envelope": (lambda one: edit(one.file, "{", "{ "), "changed outside of what the signature covers"),
    "half an envelope": (lambda one: one.file.write_bytes(one.file.read_bytes()[:400]), "it is no signed envelope"),
    "no envelope": (lambda one: one.file.write_text("{}"), "it is no signed envelope: key 'payload' is missing"),
    "sheet": (lambda one: edit(one.page, "Approved", "Rejected"), "the page"),
    "sheet gone": (lambda one: one.page.unlink(), "is missing"),
    "trusted key": (
        lambda one: shutil.copy(one.root / "keys/theirs.pub", one.root / "keys/ours.pub"),
        "it was signed with the foreign key",
    ),
}


def test_what_was_not_touched_is_verified(signed: Signed) -> None:
    """The bar's other side: an untouched copy is verified with exit 0 and nothing is named."""
    done = signed.verify()
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[0].startswith("approve by Ada King, release owner, 2")
    assert "CHANGED" not in done.out


@pytest.mark.parametrize("what", TAMPERED)
def test_every_change_after_the_signature_is_named(signed: Signed, what: str) -> None:
    """Exit 1, and what was changed is named."""
    tamper, named = TAMPERED[what]
    tamper(signed)
    done = signed.verify()
    assert done.code == 1, done.out + done.err
    lines = done.out.splitlines()
    assert any(line.startswith("CHANGED") and named in line for line in lines), done.out
    assert len(set(lines)) == len(lines), "a finding is told twice"


def test_a_promotion_after_the_signature_is_no_change(signed: Signed) -> None:
    """Promoting what was approved writes the report again: told, and no fault."""
    assert signed.cli("promote", signed.run, "--alias", "other").code == 0
    done = signed.verify()
    assert done.code == 0, done.out
    note = next(line for line in done.out.splitlines() if line.startswith("note"))
    assert "report.json" in note
    assert "written again by a promotion after the sign-off; what was promoted is not signed" in note


def test_an_expired_waiver_is_told(signed: Signed) -> None:
    """Every byte is as signed, and the approval rests on a waiver that is over today: exit 3, the waiver named."""
    sought = release.Sought(
        file=signed.file, trusted=(str(signed.root / "keys" / "ours.pub"),), checkpoint=signed.checkpoint
    )
    assert release.verify(sought, Ed25519Signer(), "2026-01-01T00:00:00+00:00").exit_code == 0
    later = release.verify(sought, Ed25519Signer(), "2999-01-01T00:00:00+00:00")
    assert (later.exit_code, [one.kind for one in later.findings]) == (3, ["reservation"])
    assert "a waiver has expired since: quality/smoke of int4, waived by Grace until" in later.findings[0].text


def test_without_a_trusted_key_nothing_is_verified(signed: Signed) -> None:
    """An unchanged run whose signature nobody vouches for is not decided; a change is named all the same."""
    words = ("verify", signed.file, "--checkpoint", signed.checkpoint)
    done = signed.cli(*words)
    assert (done.code, "no trusted key was given" in done.out) == (4, True)
    _weights(signed)
    assert signed.cli(*words).code == 1


def test_a_moved_statement_finds_its_run(signed: Signed, tmp_path: Path) -> None:
    """Outside of the run folder the run is named with --run; without it the run is missing."""
    shutil.copytree(signed.run / "signoff", tmp_path / "mail" / "box")
    file = tmp_path / "mail" / "box" / signed.file.name
    assert signed.verify(file=file).code == 1
    done = signed.verify("--run", signed.run, file=file)
    assert done.code == 0, done.out


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("nowhere.json", "--key", "keys/ours.pub"), "there is no file nowhere.json"),
        (("FILE", "--key", "keys/none.pub"), "cannot read the key"),
        (("FILE", "--key", "keys/ours.key"), "is a private key"),
        (("FILE", "--key", "configs/policy.yaml"), "holds no public key"),
    ],
)
def test_bad_input_of_verify(signed: Signed, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], named: str) -> None:
    """Usage, exit 2: no such file, no such key, a private key, no key at all."""
    monkeypatch.chdir(signed.root)
    done = signed.cli("verify", *(str(signed.file) if word == "FILE" else word for word in words))
    assert (done.code, named in done.err) == (2, True), done.err


# ---------------------------------------------------------------------------------------------- what may be signed


def test_the_statement_and_the_sheet(signed: Signed) -> None:
    """An in-toto statement whose subject is the checkpoint and whose predicate names policy, inputs and result; a sheet with the person."""
    envelope = json.loads(signed.file.read_text(encoding="utf-8"))
    statement = json.loads(base64.b64decode(envelope["payload"]))
    assert envelope["payloadType"] == "application/vnd.in-toto+json"
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert [one["name"] for one in statement["subject"]] == ["int4/fake-model.json"]
    predicate = statement["predicate"]
    assert predicate["verificationResult"] == "PASSED"
    bound = {one["uri"] for one in predicate["inputAttestations"]}
    assert {"config.yaml", "policy.json", "evidence.json", "report.json", "run.json", "golden/smoke.json"} <= bound
    facts = predicate["signOff"]["facts"]
    assert [one["check"] for one in facts["waivers"]] == ["quality/smoke"]
    assert facts["environment"]["source_sha256"]
    page = signed.page.read_text(encoding="utf-8")
    assert all(word in page for word in ("Ada King", "release owner", "Approved", "int4", facts["evidence_sha256"], signed.file.name))
    assert "<script" not in page


def test_a_rejection_is_signed_and_is_no_approval(signed: Signed) -> None:
    """A passing run can be rejected with a reason; checking it holds, and ends in 3."""
    done = signed.sign("--decision", "reject", "--comment", "wait for <legal>", "--checkpoint", signed.checkpoint)
    assert done.code == 0, done.err
    file = next((signed.run / "signoff").glob("*-reject.intoto.json"))
    checked = signed.verify(file=file)
    assert (checked.code, "it is a rejection: wait for <legal>" in checked.out) == (3, True), checked.out
    assert "wait for &lt;legal&gt;" in next((signed.run / "signoff").glob("*-reject.html")).read_text(encoding="utf-8")


def test_an_approval_with_conditions(signed: Signed) -> None:
    """Conditions are signed and told at every check."""
    done = signed.sign("--decision", "approve-with-conditions", "--conditions", "German only", "--checkpoint", signed.checkpoint)
    assert done.code == 0, done.err
    checked = signed.verify(file=next((signed.run / "signoff").glob("*conditions.intoto.json")))
    assert (checked.code, "approved with conditions: German only" in checked.out) == (0, True), checked.out


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """A key pair for runs of the chain."""
    write_keys(tmp_path / "keys", "ours")
    return tmp_path / "keys"


def _signoff(chain: Chain, keys: Path, *words: str) -> Any:
    person = ("--name", " ", *PERSON[2:]) if "nameless" in words else PERSON
    return chain.cli("signoff", chain.last, "--key", keys / "ours.key", *person, *(word for word in words if word != "nameless"))


@pytest.mark.parametrize(("error_rate", "outcome"), [(0.32, "fail"), (0.245, "inconclusive")])
def test_only_a_pass_is_approved(chain: Chain, keys: Path, error_rate: float, outcome: str) -> None:
    """A run that failed or is inconclusive cannot be approved, by any decision that approves; its rejection can be signed."""
    chain.run(variants=[REFERENCE, candidate(error_rate=error_rate), CONTROL])
    for words in (("approve",), ("approve-with-conditions", "--conditions", "c"), ("approve", "--variant", "int8")):
        done = _signoff(chain, keys, "--decision", *words)
        assert (done.code, f"an approval is refused: the run's outcome is '{outcome}'" in done.err) == (4, True), done.err
    assert not (chain.last / "signoff").exists()
    assert _signoff(chain, keys, "--decision", "reject", "--comment", "too lossy").code == 0
    file = next((chain.last / "signoff").glob("*.intoto.json"))
    assert chain.cli("verify", file, "--key", keys / "ours.pub").code == 3


def test_a_control_is_never_approved(passed: Chain, tmp_path: Path, keys: Path, inline: None) -> None:
    """In a run that passed, a variant that did not pass cannot be approved, nor one that the run does not have."""
    chain = passed.copy(tmp_path / "stored")
    done = _signoff(chain, keys, "--decision", "approve", "--variant", "int2")
    assert (done.code, "int2 is a known_bad variant; only a candidate goes out" in done.err) == (4, True), done.err
    done = _signoff(chain, keys, "--decision", "approve", "--variant", "float32")
    assert (done.code, "float32 is a reference variant" in done.err) == (4, True), done.err
    assert _signoff(chain, keys, "--decision", "approve", "--variant", "int9").code == 2


def test_an_edited_report_is_not_signed(chain: Chain, keys: Path) -> None:
    """Evidence and policy are judged again: a report and a card that were edited to pass are refused, for a rejection as well."""
    chain.run(variants=[REFERENCE, candidate(error_rate=0.32), CONTROL])
    text = (chain.last / "report.json").read_text(encoding="utf-8")
    (chain.last / "report.json").write_text(text.replace('"fail"', '"pass"').replace('"exit_code": 1', '"exit_code": 0'))
    for words in (("approve",), ("reject", "--comment", "no")):
        done = _signoff(chain, keys, "--decision", *words)
        assert (done.code, "report.json cannot be signed: it says something else of outcome" in done.err) == (4, True), done.err


def test_evidence_of_another_run_is_not_signed(chain: Chain, keys: Path) -> None:
    """Whole evidence of a better run, put into a worse one, is told by its key."""
    chain.run()
    better = chain.last
    chain.run(variants=[REFERENCE, candidate(error_rate=0.32), CONTROL])
    for name in ("evidence.json", "report.json"):
        shutil.copy(better / name, chain.last / name)
    edit(chain.last / "report.json", better.name, chain.last.name)
    done = _signoff(chain, keys, "--decision", "approve")
    assert (done.code, "it was taken in another run" in done.err) == (4, True), done.err


def test_other_questions_are_not_signed(passed: Chain, tmp_path: Path, keys: Path, inline: None) -> None:
    """A run's copy of the golden set with another question in it is told from the set itself."""
    chain = passed.copy(tmp_path / "stored")
    reseal(chain.last / "golden" / "sums.json", ["items", 3, "prompt"], "2 + 2 =")
    done = _signoff(chain, keys, "--decision", "approve")
    assert (done.code, "does not hold the questions of sums v1" in done.err) == (4, True), done.err


def test_an_altered_or_absent_checkpoint_is_not_approved(passed: Chain, tmp_path: Path, keys: Path, inline: None) -> None:
    """The bytes that would go out must be those that were judged."""
    chain = passed.copy(tmp_path / "stored")
    (tmp_path / "empty").mkdir()
    done = _signoff(chain, keys, "--decision", "approve", "--checkpoint", str(tmp_path / "empty"))
    assert (done.code, "is not the one that was judged" in done.err) == (4, True), done.err
    done = _signoff(chain, keys, "--decision", "approve", "--checkpoint", str(tmp_path / "nowhere"))
    assert (done.code, "there is no checkpoint at" in done.err) == (4, True), done.err
    place = tmp_path / "copy"
    report = report_of(chain.last)
    shutil.copytree(next(row["artifact_path"] for row in report["measurements"] if row["variant"] == "int8"), place)
    assert _signoff(chain, keys, "--decision", "approve", "--checkpoint", str(place)).code == 0
    (place / "more.json").write_text("{}")
    done = _signoff(chain, keys, "--decision", "reject", "--comment", "no", "--checkpoint", str(place))
    assert (done.code, "is not the one that was judged" in done.err) == (4, True), done.err


def test_an_unfinished_run_is_not_signed(passed: Chain, tmp_path: Path, keys: Path, inline: None) -> None:
    """A run that was interrupted is refused."""
    chain = passed.copy(tmp_path / "stored")
    edit(chain.last / "run.json", '"complete"', '"interrupted"')
    done = _signoff(chain, keys, "--decision", "reject", "--comment", "no")
    assert (done.code, "did not come to its end" in done.err) == (4, True), done.err


def test_a_waiver_that_is_over_carries_no_approval(signed: Signed) -> None:
    """A waiver that held when the run was made and is over when it is signed: refused, the waiver named."""
    person = release.Signatory(name="Ada", role="owner", decision="approve", signed_at="2999-01-01T00:00:00+00:00")
    asked = release.Asked(
        run=signed.run, signatory=person, secret=str(signed.root / "keys/ours.key"), checkpoint=signed.checkpoint
    )
    with pytest.raises(release.SignOffError, match="rests on a waiver that is over: quality/smoke of int4"):
        release.sign_off(asked, Ed25519Signer())


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--decision", "reject"), "a rejection needs a comment"),
        (("--decision", "approve", "--conditions", "c"), "conditions belong to an approval with conditions"),
        (("--decision", "approve-with-conditions"), "no condition was given"),
        (("--decision", "approve", "nameless"), "needs the name and the role"),
        (("--decision", "maybe"), "invalid choice"),
    ],
)
def test_bad_input_of_signoff(passed: Chain, tmp_path: Path, keys: Path, capfd: Any, words: tuple[str, ...], named: str) -> None:
    """Usage, exit 2, and nothing is written."""
    chain = passed.copy(tmp_path / "stored")
    done = _signoff(chain, keys, *words)
    assert (done.code, named in done.err) == (2, True), done.err
    assert not (chain.last / "signoff").exists()


def test_keys_that_do_not_sign(passed: Chain, tmp_path: Path, keys: Path) -> None:
    """A missing key, a public one, and one that others may read: two errors and a warning."""
    chain = passed.copy(tmp_path / "stored")
    words = ("signoff", chain.last, *PERSON, "--decision", "approve", "--key")
    assert "cannot read the key" in chain.cli(*words, keys / "none.key").err
    assert "holds no private key" in chain.cli(*words, keys / "ours.pub").err
    (keys / "ours.key").chmod(0o644)
    done = chain.cli(*words, keys / "ours.key")
    assert (done.code, "others may read" in done.err) == (0, True)


def test_sigstore_without_its_library_is_told(passed: Chain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the library is not installed, the error names it and how to get it."""
    monkeypatch.setitem(__import__("sys").modules, "sigstore", None)
    monkeypatch.delitem(__import__("sys").modules, "quantgate.signers.sigstore", raising=False)
    chain = passed.copy(tmp_path / "stored")
    done = chain.cli("signoff", chain.last, *PERSON, "--decision", "approve", "--identity", "a@b@@https://issuer")
    assert (done.code, "needs the library 'sigstore'" in done.err) == (2, True), done.err


def test_a_sign_off_reads_back_as_it_was_written(signed: Signed) -> None:
    """The payload decodes to the record and encodes to the same bytes; the evidence it names is that of the run."""
    found = release._read(Ed25519Signer(), signed.file)
    assert found.facts.outcome == report_of(signed.run)["outcome"] == "pass"
    evidence = rundir.get(signed.run / "evidence.json", kind="evidence", key=found.facts.run_id, record=Evidence)
    assert rundir.digest(evidence) == found.facts.evidence_sha256
