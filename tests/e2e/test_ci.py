"""``run --ci``: the same table and sentences, GitHub's summary and annotations where it runs there, and nothing of it elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from chain import CONTROL, REFERENCE, Chain, candidate, report_of
from quantgate import nights, rundir, runs
from quantgate.records import UNDATED

HERE = ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY")


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever CI system runs the tests is not seen by them."""
    for name in HERE:
        monkeypatch.delenv(name, raising=False)


def test_on_github(chain: Chain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Summary and annotations beside table and sentences; the code is the verdict's, also where the summary cannot be written."""
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    done = chain.run("--ci", variants=[REFERENCE, candidate(error_rate=0.32), CONTROL])
    assert done.code == 1
    assert "exit 1" in done.out and "::error title=quantgate%3A FAIL::" in done.out and "::error title=int8%3A FAIL::" in done.out
    assert summary.read_text(encoding="utf-8").startswith("# FAIL: ")
    assert "\033" not in done.out + done.err and "\r" not in done.err
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "no" / "folder" / "s.md"))
    again = chain.run("--ci")
    assert (again.code, "github could not publish the report" in again.err) == (0, True), again.err
    assert "::notice title=quantgate%3A PASS::" in again.out


def test_a_run_without_a_verdict_is_annotated_where_its_file_is_wrong(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt key stands at its file and line; nothing of it without --ci, and the code stays 2."""
    config = chain.config(enigne="fake")
    line = config.read_text(encoding="utf-8").splitlines().index("enigne: fake") + 1
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    done = chain.cli("run", config, "--ci")
    assert done.code == 2 and f"::error file={config},line={line},title=quantgate%3A no verdict::" in done.out, done.out
    assert "did you mean 'engine'?" in done.out.splitlines()[-1] and "enigne" in done.err
    assert "::" not in chain.cli("run", config).out
    gone = chain.cli("run", chain.root / "none.yaml", "--ci")
    assert gone.code == 2 and "none.yaml,title=quantgate%3A no verdict::" in gone.out


def test_elsewhere(chain: Chain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without GitHub no annotation; on it without --ci none either, and no summary. The table is printed though no sink asks for it."""
    done = chain.run("--ci", sinks=["folder", "junit"])
    assert (done.code, "exit 0" in done.out, "::" in done.out) == (0, True, False)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "s.md"))
    quiet = chain.run(sinks=["folder", "junit"])
    assert (quiet.code, quiet.out, (tmp_path / "s.md").exists()) == (0, "", False)


def test_a_reader_that_goes_away(passed: Chain) -> None:
    """Quiet, and with the code that a shell shows of other programs; never one that means something else here."""
    command = [sys.executable, "-m", "quantgate", "show", str(passed.last), "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ})
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    said = process.stderr.read()
    assert (process.wait(), said) == (141, b"")


# ---------------------------------------------------------------------------------------------- nights on the page


def _night(chain: Chain, number: int) -> str:
    """The only real run as one of an earlier night."""
    name, real = f"night-{number}", _real(chain)
    info, evidence = runs.load_info(real), runs.load_evidence(real)
    runs.store_info(chain.reports / name, replace(info, run_id=name, created_at=f"2020-01-0{number}T02:00:00+00:00"))
    rundir.put(chain.reports / name / "evidence.json", kind="evidence", key=name, record=evidence)
    return name


def _real(chain: Chain) -> Path:
    """The newest run that is no made-up night."""
    return [one for one in chain.runs if not one.name.startswith("night-")][-1]


def test_a_page_looks_back_from_the_third_night_on(passed: Chain, tmp_path: Path, inline: None) -> None:
    """Absent without nights before, there with two; promoted later it is still there; another config begins anew."""
    chain = passed.copy(tmp_path / "nights")
    first = _real(chain)
    assert "Nights before" not in (first / "report.html").read_text(encoding="utf-8")
    _night(chain, 1)
    _night(chain, 2)
    first_info = runs.load_info(first)
    assert [one.run_id for one in nights.before(chain.reports, first_info)] == ["night-1", "night-2"]
    assert chain.cli("run", chain.root / "run.yaml").code == 0
    tonight = _real(chain)
    page = (tonight / "report.html").read_text(encoding="utf-8")
    assert 'id="nights"' in page and 'href="#nights"' in page and "nights are too few to tell a change" in page
    assert "tokens/s there" in page
    (tonight / "report.html").unlink()
    assert chain.cli("promote", tonight).code == 0
    assert 'id="nights"' in (tonight / "report.html").read_text(encoding="utf-8")
    assert "nights" not in report_of(tonight)
    other = replace(first_info, config_sha256="0" * 64)
    assert nights.before(chain.reports, other) == []
    assert nights.before(chain.reports, replace(first_info, created_at=UNDATED)) == []


def test_nights_that_cannot_be_read_are_left_out(passed: Chain, tmp_path: Path) -> None:
    """An altered one and one that was interrupted are no nights, and no reason to fail."""
    chain = passed.copy(tmp_path / "nights")
    _night(chain, 1)
    two = chain.reports / _night(chain, 2)
    (two / "evidence.json").write_text("{}", encoding="utf-8")
    three = chain.reports / _night(chain, 3)
    runs.store_info(three, replace(runs.load_info(three), state="interrupted"))
    (chain.reports / "night-4").mkdir()
    (chain.reports / "night-4" / "run.json").write_text("{", encoding="utf-8")
    assert [one.run_id for one in nights.before(chain.reports, runs.load_info(_real(chain)))] == ["night-1"]
