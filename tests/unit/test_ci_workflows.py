"""The workflows in docs/ci: YAML that a CI system takes, with command lines that quantgate takes."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import yaml

from quantgate import cli, config

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "ci"
WORKFLOWS = ("github-actions.yml", "gitlab-ci.yml")


def read(name: str) -> dict[Any, Any]:
    found = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def scripts(value: Any) -> Iterator[str]:
    """Every text in a workflow that a shell runs."""
    if isinstance(value, dict):
        for key, one in value.items():
            if key in ("run", "script", "before_script", "after_script"):
                yield from [one] if isinstance(one, str) else one
            else:
                yield from scripts(one)
    elif isinstance(value, list):
        for one in value:
            yield from scripts(one)


def commands(text: str) -> Iterator[list[str]]:
    """The words of every quantgate command in a shell script, up to an operator."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.shlex(line, posix=True, punctuation_chars="|&;")
        words.whitespace_split = True
        for operator, part in groupby(words, key=lambda word: set(word) <= set("|&;")):
            if not operator and (found := list(part))[0] == "quantgate":
                yield found[1:]


@pytest.mark.parametrize("name", WORKFLOWS)
def test_every_command_line_parses(name: str) -> None:
    """Each quantgate command is one that the argument parser takes, and each config it names loads."""
    found = [words for text in scripts(read(name)) for words in commands(text)]
    assert {words[0] for words in found} == {"plan", "run", "trend"}
    assert any("--ci" in words for words in found) and any("--fresh" in words for words in found)
    for words in found:
        arguments = cli._parser().parse_args(words)
        if words[0] in ("run", "plan"):
            assert config.load_run(ROOT / arguments.config).baseline is not None


def test_the_commands_of_the_page_parse() -> None:
    """The fenced commands of the page as well."""
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    found = [words for block in re.findall(r"^```sh\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL) for words in commands(block)]
    assert {words[0] for words in found} >= {"baseline", "signoff"}
    for words in found:
        cli._parser().parse_args(words)


def test_github_keeps_what_a_failed_night_made() -> None:
    """A schedule, read-only rights, report and cache kept whether the gate passed or not, and no step that hides the gate's code."""
    found = read("github-actions.yml")
    assert found[True]["schedule"] and found["permissions"] == {"contents": "read"}  # YAML reads the key 'on' as true
    steps = found["jobs"]["nightly"]["steps"]
    for used in ("actions/upload-artifact", "actions/cache/save"):
        assert "always()" in next(one["if"] for one in steps if one.get("uses", "").startswith(used))
    gates = [one for one in steps if "quantgate run" in one.get("run", "")]
    assert len(gates) == 2 and not any("continue-on-error" in one for one in gates)
    crons = {one["cron"] for one in found[True]["schedule"]}
    assert all(any(cron in one["if"] for cron in crons) for one in gates)
    assert "QUANTGATE_CACHE" in found["jobs"]["nightly"]["env"]


def test_gitlab_keeps_what_a_failed_night_made() -> None:
    """JUnit, report and cache of every night, and a schedule's rule for each job."""
    found = read("gitlab-ci.yml")
    shared = found[".quantgate"]
    assert shared["artifacts"]["when"] == shared["cache"]["when"] == "always"
    assert shared["artifacts"]["reports"]["junit"].startswith(shared["artifacts"]["paths"][0])
    assert {".quantgate-cache", "reports"} <= set(shared["cache"]["paths"])
    jobs = [one for name, one in found.items() if name.startswith("nightly")]
    assert len(jobs) == 2
    for job in jobs:
        assert job["extends"] == ".quantgate" and "allow_failure" not in job
        assert "schedule" in job["rules"][0]["if"]


def test_the_nightly_configs_are_whole() -> None:
    """Both have a reference, both controls, a baseline, and a policy that requires controls; the one on fakes needs no model."""
    for name in ("nightly.yaml", "nightly-smoke.yaml"):
        found = config.load_run(ROOT / "configs" / name)
        assert {one.role for one in found.variants} == {"reference", "candidate", "identity", "known_bad"}
        assert found.baseline is not None and found.policy.require_controls
        assert {"folder", "junit"} <= set(found.sinks)


@pytest.mark.parametrize("name", WORKFLOWS)
@pytest.mark.parametrize("began", [True, False])
def test_an_earlier_night_never_stands_for_tonight(name: str, began: bool, tmp_path: Path) -> None:
    """The folder that is kept is one of a run that began after the job did; where the run never began, none is."""
    (tmp_path / "reports" / "2020-01-01T02-00-00Z-aaaa").mkdir(parents=True)
    (tmp_path / "reports" / "2020-01-01T02-00-00Z-aaaa" / "junit.xml").write_text("earlier", encoding="utf-8")
    lines = [line for line in scripts(read(name)) if "date -u" in line or "reports/20" in line or "$folder" in line]
    first, *after = lines
    run = "d=reports/2099-01-01T02-00-00Z-bbbb; mkdir $d; echo tonight > $d/junit.xml" if began else "true"
    environment = {"PATH": os.defpath, "GITHUB_ENV": "env", "GITHUB_OUTPUT": "out"}
    script = "\n".join([first, "if [ -f env ]; then . ./env; fi", run, *after])
    subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, env=environment, check=True, timeout=60)
    if name == "github-actions.yml":
        kept = (tmp_path / "out").read_text(encoding="utf-8").strip()
        assert kept == ("folder=reports/2099-01-01T02-00-00Z-bbbb" if began else "folder=")
    else:
        assert (tmp_path / "tonight" / "junit.xml").exists() == began
