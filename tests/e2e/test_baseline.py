"""A reference pinned, held, and moved: nights on fakes, from the first one without a baseline to one on which the reference drifted."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from chain import CONTROL, REFERENCE, Chain, Done, candidate, junit_is_green, report_of, verdicts_of
from inline import inline_executor
from quantgate import baselines, provenance, rundir, runs

ROOT = Path(__file__).parents[2]
AGAIN = {**REFERENCE, "name": "float32-again", "role": "identity"}
BASELINE = {"file": "pinned/b.json"}


def nightly(chain: Chain, **changes: Any) -> Done:
    """A night with both controls and a baseline."""
    return chain.run("--ci", **{"variants": [REFERENCE, AGAIN, candidate(), CONTROL], "baseline": BASELINE, **changes})


def accept(chain: Chain, *words: str | Path, run: Path | None = None) -> Done:
    """The last run's reference pinned by Ada."""
    return chain.cli("baseline", "accept", run or chain.last, "--reason", "a test", "--by", "Ada", *words)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, template: Chain) -> Chain:
    """A first night, its reference pinned. Not to be altered: copy it."""
    made = template.copy(tmp_path_factory.mktemp("kept"))
    with inline_executor():
        assert nightly(made).code == 4
        assert accept(made).code == 0
    return made


@pytest.fixture
def pinned(kept: Chain, tmp_path: Path, inline: None) -> Chain:
    """A copy of the first night with its baseline."""
    return kept.copy(tmp_path / "pinned")


def file_of(chain: Chain) -> Path:
    return chain.root / "pinned" / "b.json"


@pytest.mark.slow
def test_nights_from_the_first_to_a_drifted_one(tmp_path: Path, inline: None) -> None:
    """configs/nightly-smoke.yaml: not measured, pinned, passed and promoted, moved and not promoted, judged again to the same."""
    for name in ("configs", "golden_sets/smoke"):
        shutil.copytree(ROOT / name, tmp_path / name)
    path = tmp_path / "configs" / "nightly-smoke.yaml"
    values = {**yaml.safe_load(path.read_text(encoding="utf-8")), "executor": "inline", "cache": "../cache"}
    chain = Chain(root=tmp_path)

    def night() -> Done:
        path.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
        return chain.cli("run", path, "--ci")

    first = night()
    assert (first.code, "there is no file" in first.out, "baseline: there is no file" in first.err) == (4, True, True), first.err
    assert not junit_is_green(chain.last)
    assert accept(chain).code == 0
    second = night()
    assert (second.code, "is where the baseline of run" in second.out) == (0, True), second.out
    assert junit_is_green(chain.last) and report_of(chain.last)["promotion"]["promoted"]

    values["variants"][0]["options"]["error_rate"] = values["variants"][1]["options"]["error_rate"] = 0.24
    third = night()
    report = report_of(chain.last)
    assert third.code == report["exit_code"] == 4
    assert report["headline"].startswith("Promotion is blocked: the baseline moved: the reference moved from the baseline of run ")
    assert "it loses 3.5 points" in report["headline"]
    assert set(verdicts_of(chain.last).values()) == {"not_measured", "fail", "pass"}  # the controls are as they must be
    assert verdicts_of(chain.last)["int8"] == "not_measured"
    assert not report["promotion"]["promoted"] and not junit_is_green(chain.last)
    assert json.loads((tmp_path / "reports" / "registry.json").read_text())  # nothing moved it back either
    assert chain.cli("promote", chain.last).code == 4

    assert accept(chain).code == 0
    assert night().code in (0, 1, 3)
    log = chain.cli("baseline", "show", tmp_path / "configs" / "baselines" / "nightly-smoke.json").out
    assert "before it, oldest first:" in log and "smoke 0.7904" in log


def test_a_night_on_which_nothing_moved(pinned: Chain) -> None:
    """It passes, and report.json, the page and the sentence say where the reference is."""
    done = nightly(pinned)
    assert (done.code, "all 240 items score as they did" in done.out.replace("\n", " ")) == (0, True), done.out
    found = report_of(pinned.last)["baseline"]
    assert (found["accepted_by"], found["rows"][0]["b"], found["rows"][0]["holds"]) == ("Ada", 0, True)
    assert "pinned/b.json: holds" in (pinned.last / "report.html").read_text(encoding="utf-8")


def test_a_drifted_night(pinned: Chain) -> None:
    """A reference that got worse: exit 4 and the baseline moved, in every place alike; judged again and promoted it stays so."""
    worse = {"weight_bytes": 400_000_000, "error_rate": 0.26}
    variants = [{**REFERENCE, "options": worse}, {**AGAIN, "options": worse}, candidate(), CONTROL]
    done = nightly(pinned, variants=variants)
    report = report_of(pinned.last)
    assert done.code == report["exit_code"] == 4
    assert report["headline"].startswith("Promotion is blocked: the baseline moved: the reference moved from the baseline of run ")
    assert (report["outcome"], verdicts_of(pinned.last)["int8"]) == ("not_measured", "not_measured")
    assert not report["promotion"]["promoted"] and not junit_is_green(pinned.last)
    assert not (pinned.reports / "registry.json").is_file()
    assert pinned.cli("promote", pinned.last).code == 4
    again = pinned.cli("judge", pinned.last, "--policy", pinned.policy("other.yaml", why="another"), "--json")
    assert (again.code, json.loads(again.out)["headline"]) == (4, report["headline"])
    assert accept(pinned).code == 0  # where that was meant: its controls are as they must be


def test_an_altered_file_is_not_measured(pinned: Chain) -> None:
    """The reason is told before and after the run, and a new baseline does not bury the log of the altered one."""
    file_of(pinned).write_text(file_of(pinned).read_text(encoding="utf-8").replace("Ada", "Eve"), encoding="utf-8")
    done = nightly(pinned)
    said = done.out.replace("\n", " ")
    assert (done.code, "it was altered" in said, "take it from version control" in said) == (4, True, True), said
    assert "baseline: " in done.err
    refused = accept(pinned)
    assert (refused.code, "its log would be lost" in refused.err) == (4, True), refused.err
    assert pinned.cli("baseline", "show", file_of(pinned)).code == 4


@pytest.mark.parametrize(
    ("harm", "what"),
    [
        (lambda text: "", "cannot be used"),
        (lambda text: text[: len(text) // 2], "cannot be used"),
        (lambda text: text.replace('"kind": "baseline"', '"kind": "evidence"'), "expected baseline"),
        (lambda text: text.replace('"schema_version": 1', '"schema_version": 9', 1), "of schema version 9"),
    ],
    ids=["empty", "cut", "another kind", "another version"],
)
def test_a_file_that_is_not_as_it_was_written(pinned: Chain, harm: Any, what: str) -> None:
    """Whatever is wrong with it becomes evidence with its reason and what to do."""
    file_of(pinned).write_text(harm(file_of(pinned).read_text(encoding="utf-8")), encoding="utf-8")
    found = baselines.read(file_of(pinned), "b.json", (), "r1")
    assert found.pinned is None
    assert what in found.why_not and "take it from version control" in found.why_not


def test_another_golden_set_under_the_name(pinned: Chain) -> None:
    """Its digest differs: told before anything is measured, and the run is not measured."""
    kept = baselines.load(file_of(pinned))
    other = replace(kept, golden_sets=(replace(kept.golden_sets[0], sha256="0" * 64),))
    rundir.put(file_of(pinned), kind="baseline", key="x", record=other)
    done = nightly(pinned)
    assert (done.code, "it pins sums v1 (000000000000)" in done.err) == (4, True), done.err


def test_a_resumed_run_keeps_its_baseline(pinned: Chain) -> None:
    """The file as it was when the run began counts, whatever became of it since."""
    assert nightly(pinned).code == 0
    runs.store_info(pinned.last, replace(runs.load_info(pinned.last), state="interrupted"))
    file_of(pinned).unlink()
    assert pinned.cli("run", pinned.root / "run.yaml", "--resume", pinned.last, "--reports", pinned.reports).code == 0


def test_a_plan_says_what_a_baseline_lacks(chain: Chain) -> None:
    """Before hours are spent: there is no file yet."""
    done = chain.cli("plan", chain.config(variants=[REFERENCE, candidate(), CONTROL], baseline=BASELINE))
    assert (done.code, "baseline: there is no file" in done.out) == (0, True), done.out


# ---------------------------------------------------------------------------------------------- accepting


@pytest.mark.parametrize(
    ("variants", "what"),
    [
        ([REFERENCE, candidate()], "no known-bad control"),
        ([REFERENCE, candidate(), {**CONTROL, "options": {"error_rate": 0.2}}], "is a control that must fail"),
        ([REFERENCE, candidate(), {**CONTROL, "options": {"error_rate": 0.97, "fault": "crash"}}], "is a control that must fail"),
    ],
    ids=["no control", "a control that passes", "a control that broke"],
)
def test_a_run_without_a_working_control_is_not_pinned(chain: Chain, variants: list[Any], what: str) -> None:
    """A gate that was not seen to block vouches for nothing."""
    chain.policy(require_controls=False)
    nightly(chain, variants=variants)
    done = accept(chain)
    assert (done.code, what in done.err, file_of(chain).exists()) == (4, True, False), done.err


def test_a_quantized_reference_is_not_pinned(pinned: Chain) -> None:
    """Stored evidence whose reference turns out to be quantized, by a digest that fits: refused."""
    evidence = runs.load_evidence(pinned.last)
    assert evidence.variants[0].loaded is not None
    reference = replace(evidence.variants[0], loaded=replace(evidence.variants[0].loaded, quantized_parameters=100))
    found = replace(evidence, variants=(reference, *evidence.variants[1:]))
    rundir.put(pinned.last / "evidence.json", kind="evidence", key=pinned.last.name, record=found)
    done = accept(pinned, "--into", pinned.root / "other.json")
    assert (done.code, "is itself quantized" in done.err) == (4, True), done.err


def test_a_run_that_did_not_end_is_not_pinned(pinned: Chain) -> None:
    """An interrupted run, and one that is pinned already."""
    done = accept(pinned)
    assert (done.code, "already; nothing was written" in done.err) == (4, True), done.err
    runs.store_info(pinned.last, replace(runs.load_info(pinned.last), state="interrupted"))
    done = accept(pinned, "--into", pinned.root / "other.json")
    assert (done.code, "did not come to its end" in done.err) == (4, True), done.err


def test_somebody_says_why(pinned: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a reason, a name or a place nothing is written, and the message says what to give."""
    words = ("baseline", "accept", pinned.last)
    assert pinned.cli(*words).code == 2
    assert "must not be empty" in pinned.cli(*words, "--reason", " ", "--by", "Ada").err
    monkeypatch.setattr(provenance, "author", lambda: None)
    assert "say who accepts the baseline with --by NAME" in pinned.cli(*words, "--reason", "x").err
    assert nightly(pinned, baseline=None).code == 0
    done = accept(pinned)
    assert (done.code, "--into FILE" in done.err) == (2, True), done.err
    done = pinned.cli("baseline", "show", pinned.root / "nowhere.json")
    assert (done.code, "there is no baseline" in done.err) == (2, True), done.err


def test_replacing_one_keeps_its_log(pinned: Chain) -> None:
    """Run, name, reason and mean score of the earlier one stay in the file, which is small enough to be read in a review."""
    assert nightly(pinned).code == 0
    done = accept(pinned)
    assert (done.code, "in the one before" in done.out) == (0, True), done.err
    found = baselines.load(file_of(pinned))
    assert [one.run_id for one in found.earlier] == [pinned.runs[0].name]
    assert (found.earlier[0].accepted_by, found.earlier[0].reason) == ("Ada", "a test")
    assert file_of(pinned).stat().st_size < 8000
    shown = pinned.cli("baseline", "show", file_of(pinned)).out
    assert "accepted by Ada" in shown and pinned.runs[0].name in shown
    assert json.loads(pinned.cli("baseline", "show", file_of(pinned), "--json").out)["run_id"] == found.run_id


# ---------------------------------------------------------------------------------------------- the config


@pytest.mark.parametrize(
    ("section", "what"),
    [
        ({"file": "b.json", "max_los": 0.01}, "unknown key 'max_los': did you mean 'max_loss'?"),
        ({"max_loss": 0.01}, "key 'baseline.file' is missing"),
        ({"file": "b.json", "max_loss": 1.5}, "a share is at most 1; found 1.5; write 0.015 for 1.5 %"),
        ({"file": "b.json", "max_flips": -0.1}, "must be greater than or equal to 0"),
        ({"file": "b.json", "max_loss": "1e-2"}, "write 0.01"),
        ({"file": "b.json", "limits": {"other": {"max_loss": 0.1}}}, "the run has no golden set 'other'; its own are sums"),
        ({"file": "b.json", "limits": {"sums": {"max_flips": 3}}}, "a share is at most 1"),
    ],
)
def test_a_section_that_cannot_be_meant(chain: Chain, section: dict[str, Any], what: str) -> None:
    """Refused with file and line before anything is measured."""
    done = nightly(chain, baseline=section)
    assert (done.code, what in done.err, chain.reports.exists()) == (2, True, False), done.err
