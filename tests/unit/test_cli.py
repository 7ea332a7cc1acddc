"""The command line: help that teaches, and an exit code for whatever happens."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from quantgate import cli, errors

COMMANDS = {
    "run": ("CONFIG", "--resume", "--fresh", "--ci", "--allow-underpowered", "quantgate run configs/demo.yaml"),
    "show": ("RUN", "--variant", "--json", "--reports", "quantgate show"),
    "judge": ("RUN", "--policy", "quantgate judge 5f1c --policy configs/policies/strict.yaml"),
    "promote": ("RUN", "--alias", "quantgate promote"),
    "ui": ("--port", "--reports", "quantgate ui"),
}


def helped(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What --help prints."""
    with pytest.raises(SystemExit) as ended:
        cli.main([*words, "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    """The first page names every command, a first step and every exit code."""
    text = helped(capsys)
    for name in COMMANDS:
        assert f"quantgate {name}" in text
    for code in (
        "0    pass",
        "1    blocked",
        "2    usage",
        "3    inconclusive",
        "4    not measured",
        "130  interrupted",
    ):
        assert code in text


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_teaches(capsys: pytest.CaptureFixture[str], name: str) -> None:
    """Its arguments, an example that can be copied, and the exit codes."""
    text = helped(capsys, name)
    for part in (*COMMANDS[name], "example:", "exit codes:"):
        assert part in text


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    """--version prints the installed version."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert (ended.value.code, capsys.readouterr().out.split()[0]) == (0, "quantgate")


@pytest.mark.parametrize(
    "words",
    [[], ["rnu"], ["run"], ["show"], ["judge", "x"], ["ui", "--port", "x"], ["run", "x", "--fresh", "--resume", "y"]],
)
def test_wrong_usage_is_two(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    """The parser's refusals have the exit code of usage errors and say what is wrong."""
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    assert ended.value.code == 2
    found = capsys.readouterr()
    assert found.out == "" and found.err.startswith("quantgate: ") and found.err.count("\n") == 1
    command = f" {words[0]}" if words and words[0] in COMMANDS else ""
    assert f"; quantgate{command} --help shows" in found.err


def test_what_a_command_does_not_know_points_to_its_own_help(capsys: pytest.CaptureFixture[str]) -> None:
    """An option that is misspelt is named, with the help of the command that was asked, nested ones too."""
    for words, command in (["show", "x", "--jsn"], "show"), (["golden", "check", "x", "--jsn"], "golden check"):
        with pytest.raises(SystemExit) as ended:
            cli.main(words)
        assert ended.value.code == 2
        assert capsys.readouterr().err.startswith(f"quantgate: not known here: --jsn; quantgate {command} --help")


def test_a_negative_value_is_the_option_s(capsys: pytest.CaptureFixture[str]) -> None:
    """What follows an option and begins with a minus and a digit is its value, whatever unit it has; words behind -- stay."""
    assert cli._joined(["x", "--a", "-1GB", "--b", "-.5"]) == ["x", "--a=-1GB", "--b=-.5"]
    for words in ["--c=1", "-2"], ["--d", "-x"], ["--a", "--", "--b", "-1"], ["-1"]:
        assert cli._joined(words) == words
    assert cli.main(["policy", "explain", "configs/policies/default.yaml", "--candidates", "-1"]) == 2
    assert "--candidates must be 1 or more, found -1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "option"), [("judge x", "--policy"), ("run x", "--reports"), ("diagnose", "--symptoms"), ("golden add x", "--from")]
)
def test_an_option_of_one_value_is_not_given_twice(capsys: pytest.CaptureFixture[str], command: str, option: str) -> None:
    """Two policies, say, are refused: the first would be dropped without a word. An option that may be repeated still may."""
    with pytest.raises(SystemExit) as ended:
        cli.main([*command.split(), option, "a", f"{option}=b"])
    assert ended.value.code == 2
    assert f"{option}: given twice; it takes one value" in capsys.readouterr().err
    assert cli._arguments(["diagnose", "--metrics", "a", "--metrics", "b"]).metrics == [Path("a"), Path("b")]


def ends(monkeypatch: pytest.MonkeyPatch, action: Callable[[Any], int], *words: str) -> int:
    """The exit code of a command that does this."""
    monkeypatch.setattr(cli, "_show", action)
    return cli.main([*words, "show", "x"])


def raising(error: BaseException) -> Callable[[Any], int]:
    def action(_: Any) -> int:
        raise error

    return action


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ConfigError("wrong", file="a.yaml", line=3), 2),
        (errors.GoldenSetError("wrong", file="a.jsonl", line=3), 2),
        (errors.MissingModel("wrong"), 2),
        (errors.RunFolderError("wrong"), 4),
        (errors.RegistryError("wrong"), 4),
        (errors.WorkerDied("wrong"), 4),
        (errors.NotComparable("threads", 1, 2), 4),
        (ValueError("wrong"), 4),
        (MemoryError(), 4),
        (OSError(errno.ENOSPC, "wrong"), 4),
        (KeyboardInterrupt(), 130),
        (BrokenPipeError(), 141),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_every_error_has_its_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, code: int
) -> None:
    """No exception ends in a pass, none in a traceback."""
    assert ends(monkeypatch, raising(error)) == code
    shown = capsys.readouterr().err
    assert "Traceback" not in shown
    if isinstance(error, errors.QuantgateError):
        assert shown == f"quantgate: {error}\n"


def test_an_unexpected_error_can_be_looked_into(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is named as unexpected with what to do; --traceback shows where it came from, and the code stays 4."""
    assert ends(monkeypatch, raising(ValueError("odd"))) == 4
    assert "quantgate: unexpected ValueError; run again with --traceback" in capsys.readouterr().err
    assert ends(monkeypatch, raising(ValueError("odd")), "--traceback") == 4
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("code", [0, 1, 3, 4])
def test_the_code_of_a_command_is_the_code(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """What a command returns is what the process ends with."""
    assert ends(monkeypatch, lambda _: code) == code


def test_a_reader_that_went_away_changes_no_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Output that cannot be flushed at the end leaves the verdict's code (here: the one letter that was written)."""
    reading, writing = os.pipe()
    os.close(reading)
    stream = io.TextIOWrapper(os.fdopen(writing, "wb", buffering=1 << 16), write_through=False)
    monkeypatch.setattr(sys, "stdout", stream)
    assert ends(monkeypatch, lambda _: sys.stdout.write("x")) == 1


def test_letters_that_the_terminal_lacks_are_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal without UTF-8 shows a replacement."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)

    assert ends(monkeypatch, lambda _: sys.stdout.write("\u00b7")) == 1


def test_the_ui_needs_a_store(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """Without a run there is nothing to show: exit 2 and what to do."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert cli.main(["ui", "--reports", str(tmp_path)]) == 2
    assert "run a config first" in capsys.readouterr().err


def test_the_ui_is_started_on_this_machine_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """MLflow's own UI, on the store of the reports, reachable from here alone."""
    started = SimpleNamespace(words=[])
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setattr(os, "execv", lambda _, words: started.words.extend(words) or sys.exit(0))
    (tmp_path / "mlflow.db").touch()
    with pytest.raises(SystemExit):
        cli.main(["ui", "--reports", str(tmp_path), "--port", "5050"])
    assert started.words[1:4] == ["-m", "mlflow", "ui"]
    assert started.words[started.words.index("--host") + 1] == "127.0.0.1"
    assert f"sqlite:///{tmp_path / 'mlflow.db'}" in started.words
    assert "http://127.0.0.1:5050" in capsys.readouterr().out
