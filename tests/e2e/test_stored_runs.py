"""What can be done with a run that is stored: show it, judge it again, promote from it; and what an altered one is good for."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from chain import CONTROL, REFERENCE, Chain, candidate, report_of
from quantgate import rundir

STRICT = Path(__file__).parents[2] / "configs" / "policies" / "strict.yaml"


@pytest.fixture
def stored(passed: Chain, tmp_path: Path, inline: None) -> Chain:
    """A copy of a folder with one run that passed."""
    return passed.copy(tmp_path / "stored")


def words(chain: Chain) -> tuple[str, str, str]:
    """The run, and where it lies."""
    return (chain.last.name, "--reports", str(chain.reports))


def files_of(folder: Path) -> dict[str, str]:
    """Every file of a folder with its digest."""
    return {
        str(one.relative_to(folder)): sha256(one.read_bytes()).hexdigest() for one in folder.rglob("*") if one.is_file()
    }


def alter(path: Path, change: Callable[[str], str]) -> None:
    """Change a file, and be sure that it did change."""
    text = path.read_text(encoding="utf-8")
    assert change(text) != text
    path.write_text(change(text), encoding="utf-8")


# ---------------------------------------------------------------------------------------------- show


def test_show_prints_the_verdict(stored: Chain) -> None:
    """The table of a stored run, by part of its id or by its folder; showing is no judgement, so the code is 0."""
    shown = stored.cli("show", *words(stored))
    assert shown.code == 0
    assert "int8" in shown.out
    assert "PASS" in shown.out
    assert stored.cli("show", stored.last.name[-4:], "--reports", stored.reports).out == shown.out
    assert stored.cli("show", stored.last).out == shown.out


def test_show_json_is_the_report(stored: Chain) -> None:
    """--json prints report.json as it is stored."""
    assert stored.cli("show", *words(stored), "--json").out == (stored.last / "report.json").read_text(encoding="utf-8")


def test_show_variant(stored: Chain) -> None:
    """One variant with its checks; a name the run does not have is answered with those it has."""
    shown = stored.cli("show", *words(stored), "--variant", "int8")
    assert (shown.code, "quality/sums" in shown.out) == (0, True)
    wrong = stored.cli("show", *words(stored), "--variant", "int9")
    assert wrong.code == 2
    assert "has no variant 'int9'; it has float32, int8, int2" in wrong.err


def test_an_unknown_or_ambiguous_run(stored: Chain) -> None:
    """No run and several runs are told apart, and what would help is said."""
    unknown = stored.cli("show", "zzzz", "--reports", stored.reports)
    assert (unknown.code, "no run in" in unknown.err) == (2, True)
    assert stored.cli("show", "x", "--reports", stored.root / "nowhere").code == 2
    stored.run()
    ambiguous = stored.cli("show", "20", "--reports", stored.reports)
    assert ambiguous.code == 2
    assert "2 runs in " in ambiguous.err
    assert all(one.name in ambiguous.err for one in stored.runs)


def test_a_whole_id_is_never_ambiguous(stored: Chain) -> None:
    """An id that is also a part of another id names its own run."""
    stored.run(run_id="nightly")
    stored.run(run_id="nightly-2")
    assert stored.cli("show", "nightly", "--reports", stored.reports).code == 0


def test_a_folder_that_is_no_run(stored: Chain) -> None:
    """A run that never came to its end, and a damaged one, are errors with code 4."""
    (stored.last / "report.json").unlink()
    done = stored.cli("show", *words(stored))
    assert (done.code, "did not come to its end" in done.err) == (4, True)
    (stored.last / "report.json").write_text('{"run_id": 1}', encoding="utf-8")
    done = stored.cli("show", *words(stored))
    assert (done.code, "not a valid Report" in done.err) == (4, True)


# ---------------------------------------------------------------------------------------------- judge


def test_judging_again_under_a_stricter_policy(stored: Chain) -> None:
    """The verdict of the new policy, its exit code, a report of its own; the run's own files stay as they were."""
    before = files_of(stored.last)
    done = stored.cli("judge", *words(stored), "--policy", STRICT)
    folder = next((stored.last / "judgements").iterdir())
    report = report_of(folder)
    assert folder.name.startswith("strict-")
    assert done.code == report["exit_code"] != 0
    assert report["policy"]["name"] == "strict"
    assert report["evidence_sha256"] == report_of(stored.last)["evidence_sha256"]
    after = files_of(stored.last)
    assert {name: after[name] for name in before} == before


def test_judging_twice_gives_the_same_bytes(stored: Chain) -> None:
    """The same evidence under the same policy gives the same files, and the same output."""
    first = stored.cli("judge", *words(stored), "--policy", STRICT)
    files = files_of(stored.last)
    second = stored.cli("judge", *words(stored), "--policy", STRICT)
    assert second == first
    assert files_of(stored.last) == files


def test_judging_under_the_same_policy_gives_the_same_verdict(stored: Chain) -> None:
    """The run's own policy judges its evidence as it did in the run."""
    done = stored.cli("judge", *words(stored), "--policy", stored.policy())
    judged, own = report_of(next((stored.last / "judgements").iterdir())), report_of(stored.last)
    assert done.code == 0
    assert {**judged, "promotion": None} == {**own, "promotion": None}


def test_evidence_of_a_version_that_knew_less_keeps_its_digest(stored: Chain) -> None:
    """A record that has grown since is judged as it is read, and the verdict names the digest of what was written."""
    before = json.loads((stored.last / "evidence.json").read_text(encoding="utf-8"))
    older = {name: value for name, value in before["body"].items() if name != "batching"}
    sealed = {**before, "body": older, "sha256": rundir.digest(older)}
    (stored.last / "evidence.json").write_text(json.dumps(sealed), encoding="utf-8")
    assert stored.cli("judge", *words(stored), "--policy", stored.policy()).code == 0
    judged = report_of(next((stored.last / "judgements").iterdir()))
    assert judged["evidence_sha256"] == sealed["sha256"] != before["sha256"]
    assert judged["policy_sha256"] == report_of(stored.last)["policy_sha256"]


def test_judging_as_json(stored: Chain) -> None:
    """--json prints the new report and nothing else."""
    done = stored.cli("judge", *words(stored), "--policy", STRICT, "--json")
    assert json.loads(done.out) == report_of(next((stored.last / "judgements").iterdir()))


def test_a_policy_that_cannot_be_used(stored: Chain) -> None:
    """A policy with a misspelt key judges nothing."""
    alter(stored.root / "policy.yaml", lambda text: text.replace("margin:", "margn:"))
    done = stored.cli("judge", *words(stored), "--policy", stored.root / "policy.yaml")
    assert (done.code, "did you mean 'margin'?" in done.err) == (2, True)
    assert not (stored.last / "judgements").exists()


def _sealed(envelope: dict[str, Any]) -> str:
    """An envelope with the digest of its altered body: what somebody would write who knows the format."""
    text = json.dumps(envelope["body"], ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return json.dumps({**envelope, "sha256": sha256(text.encode()).hexdigest()})


ALTERED: dict[str, Callable[[str], str]] = {
    "a byte": lambda text: text.replace("130000000", "130000001", 1),
    "NaN": lambda text: text.replace('"error_rate": 0.202', '"error_rate": NaN', 1),
    "Infinity": lambda text: text.replace('"error_rate": 0.202', '"error_rate": Infinity', 1),
    "1e999": lambda text: text.replace('"error_rate": 0.202', '"error_rate": 1e999', 1),
    "a number as text": lambda text: _sealed(
        json.loads(text.replace('"weight_bytes": 130000000', '"weight_bytes": "130000000"'))
    ),
    "half": lambda text: text[: len(text) // 2],
    "nothing": lambda text: "",
}


@pytest.mark.parametrize("what", ALTERED)
@pytest.mark.parametrize("command", ["judge", "promote"])
def test_altered_evidence_is_not_judged(stored: Chain, command: str, what: str) -> None:
    """Evidence that was changed, cut, or holds NaN is not measured: exit 4, nothing is written, nothing moves."""
    alter(stored.last / "evidence.json", ALTERED[what])
    before = files_of(stored.reports)
    more = ["--policy", STRICT] if command == "judge" else []
    done = stored.cli(command, *words(stored), *more)
    assert done.code == 4, done.out
    assert "evidence.json" in done.err
    assert "unexpected" not in done.err
    assert files_of(stored.reports) == before


@pytest.mark.parametrize("name", ["golden/sums.json", "run.json"])
def test_other_altered_files_of_a_run(stored: Chain, name: str) -> None:
    """The stored questions and the run's own card are checked as well."""
    alter(stored.last / name, lambda text: text[:-20])
    assert stored.cli("judge", *words(stored), "--policy", STRICT).code == 4
    assert stored.cli("promote", *words(stored)).code == 4


# ---------------------------------------------------------------------------------------------- promote


def registry_of(chain: Chain) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((chain.reports / "registry.json").read_text(encoding="utf-8"))
    return read


def test_promoting_a_run_that_passed(stored: Chain) -> None:
    """The alias moves to the variant that passed; doing it again changes nothing; another alias can be named."""
    (stored.reports / "registry.json").unlink()
    done = stored.cli("promote", *words(stored))
    assert (done.code, "int8 is promoted" in done.out) == (0, True)
    first = registry_of(stored)
    again = stored.cli("promote", *words(stored))
    assert (again.code, registry_of(stored)) == (0, first)
    other = stored.cli("promote", *words(stored), "--alias", "candidate-nf4")
    assert (other.code, "candidate-nf4 -> version" in other.out) == (0, True)


def test_promoting_a_run_that_failed(chain: Chain) -> None:
    """A run that did not pass promotes nothing, with its own exit code, whatever stood there before."""
    for error_rate, code in ((0.32, 1), (0.245, 3)):
        assert chain.run(variants=[REFERENCE, candidate(error_rate=error_rate), CONTROL]).code == code
        done = chain.cli("promote", chain.last.name, "--reports", chain.reports)
        assert done.code == code
        assert "Nothing is promoted" in done.out
    assert registry_of(chain)["models"]["fake-model"].get("aliases", {}) == {}


def test_an_edited_report_promotes_nothing(chain: Chain) -> None:
    """The verdict is found again from the evidence: a report that was edited to pass is not believed."""
    assert chain.run(variants=[REFERENCE, candidate(error_rate=0.32), CONTROL]).code == 1
    alter(
        chain.last / "report.json",
        lambda text: text.replace('"fail"', '"pass"').replace('"exit_code": 1', '"exit_code": 0'),
    )
    alter(chain.last / "report.json", lambda text: text.replace('"chosen": null', '"chosen": "int8"'))
    done = chain.cli("promote", chain.last.name, "--reports", chain.reports)
    assert (done.code, "Nothing is promoted" in done.out) == (1, True)


def test_an_edited_policy_promotes_nothing(chain: Chain) -> None:
    """The policy is the one that was set before anything was measured."""
    assert chain.run(variants=[REFERENCE, candidate(error_rate=0.32), CONTROL]).code == 1
    alter(chain.last / "policy.json", lambda text: text.replace("0.06", "0.6"))
    done = chain.cli("promote", chain.last.name, "--reports", chain.reports)
    assert (done.code, "policy.json was altered" in done.err) == (4, True)


@pytest.mark.parametrize("alias", ["latest", "v1", "prod/eu", ""])
def test_an_alias_that_no_registry_takes(stored: Chain, alias: str) -> None:
    """A reserved name is refused before anything is looked at."""
    done = stored.cli("promote", *words(stored), "--alias", alias)
    assert (done.code, "alias" in done.err) == (2, True)


def test_a_registry_that_fails_changes_no_verdict(chain: Chain) -> None:
    """A registry that cannot be written is reported: the run passes, nothing is promoted, and promoting alone says 4."""
    chain.reports.mkdir()
    (chain.reports / "registry.json").mkdir()
    done = chain.run()
    assert done.code == 0
    assert report_of(chain.last)["promotion"]["promoted"] is False
    assert "the registry failed" in report_of(chain.last)["promotion"]["because"]
    assert chain.cli("promote", chain.last.name, "--reports", chain.reports).code == 4
