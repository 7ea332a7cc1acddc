"""``quantgate golden``: exit codes, what is printed, and help that teaches."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quantgate import cli, golden

ITEM = {"prompt": "How far is it to the third house?", "answers": ["near"], "stop": ["\n"], "template": "raw"}


def written(file: Path, *rows: dict[str, object]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
    return file


def test_check_ends_with_faults_as_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Warnings alone are 0, with --strict 2; a fault is 2; the line reads file:line: severity: key: what."""
    file = written(tmp_path / "a.jsonl", {"id": "1", **ITEM})
    assert cli.main(["golden", "check", str(file)]) == 0
    assert "1 items read, 0 faults, 1 warning" in capsys.readouterr().out
    assert cli.main(["golden", "check", str(file), "--strict"]) == 2
    written(file, {"id": "1", **ITEM}, {"id": "2", **ITEM, "answers": [""]})
    capsys.readouterr()
    assert cli.main(["golden", "check", str(file)]) == 2
    assert f"{file}:2: fault: answers[0]: empty" in capsys.readouterr().out


def test_check_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every finding with file, line, field, kind, severity, what and advice."""
    file = written(tmp_path / "a.jsonl", {"id": "1", **ITEM}, {"id": "2", **ITEM})
    calibration = written(tmp_path / "c.jsonl", {"text": f"x {ITEM['prompt']} y"})
    assert cli.main(["golden", "check", str(file), "--json", "--calibration", str(calibration)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["files"] == [{"file": str(file), "items": 2}]
    assert {(one["kind"], one["line"], one["field"]) for one in found["findings"]} == {
        ("few items", 0, ""), ("duplicate", 2, "prompt"), ("calibration", 1, "prompt"), ("calibration", 2, "prompt")
    }  # fmt: skip
    assert all(set(one) == {"severity", "kind", "file", "line", "field", "what", "advice"} for one in found["findings"])


def test_add_refuses_what_sealing_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An item that its metric cannot score, and scores of another scale than the set's: no next version is made."""
    home = tmp_path / "faq"
    written(home / "v1" / "items.jsonl", {"id": "1", **ITEM})
    assert cli.main(["golden", "seal", str(home / "v1"), "--licence", "CC0"]) == 0
    unfit = {"id": "2", "metric": "json_schema", "prompt": "As JSON:", "options": {"schema": {"type": "nothing"}}}
    other = {"id": "2", "metric": "perplexity", "text": "And a text."}
    for row, what in (unfit, "'nothing'"), (other, "give each kind a golden set of its own"):
        new = written(tmp_path / "new.jsonl", row)
        capsys.readouterr()
        assert cli.main(["golden", "add", str(home), "--from", str(new), "--reason", "more"]) == 2
        assert what in capsys.readouterr().err
        assert not (home / "v2").exists()


def test_from_sealing_to_the_third_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """seal, add, retire and log in the order of a set's life; each prints the digest that a report will show."""
    home = tmp_path / "faq"
    written(home / "v1" / "items.jsonl", {"id": "1", **ITEM})
    assert cli.main(["golden", "seal", str(home / "v1"), "--licence", "CC0"]) == 0
    new = written(tmp_path / "new.jsonl", {"id": "2", **ITEM, "prompt": "And to the ninth?"})
    assert cli.main(["golden", "add", str(home), "--from", str(new), "--reason", "more houses", "--by", "Ada"]) == 0
    assert cli.main(["golden", "retire", str(home), "1", "--reason", "torn down", "--by", "Ben"]) == 0
    capsys.readouterr()
    assert cli.main(["golden", "log", str(home)]) == 0
    shown = capsys.readouterr().out
    assert "Ada  add 2: more houses" in shown and "Ben  retire 1: torn down" in shown
    assert golden.load(home / "v3").sha256 in shown
    assert cli.main(["golden", "check", str(home / "v3")]) == 0


def test_refusals_are_two_and_change_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An altered version, an unknown id, a folder of another name."""
    home = tmp_path / "faq"
    items = written(home / "v1" / "items.jsonl", {"id": "1", **ITEM}, {"id": "2", **ITEM})
    golden.write_manifest(home / "v1", "CC0")
    assert cli.main(["golden", "retire", str(home), "3", "--reason", "r"]) == 2
    items.write_text(items.read_text(encoding="utf-8").replace("third", "fourth"), encoding="utf-8")
    assert cli.main(["golden", "retire", str(home), "2", "--reason", "r"]) == 2
    assert "changed under an old manifest" in capsys.readouterr().err
    assert cli.main(["golden", "seal", str(tmp_path), "--licence", "CC0"]) == 2
    assert [one.name for one in home.iterdir()] == ["v1"]


@pytest.mark.parametrize("action", ["check", "seal", "add", "retire", "log"])
def test_help_teaches(action: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each action has an example and its own exit codes."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["golden", action, "--help"])
    shown = capsys.readouterr().out
    assert ended.value.code == 0
    assert f"quantgate golden {action} " in shown.split("example:")[1]
    assert "2    faults were found" in shown and "130" not in shown


@pytest.mark.parametrize("words", [[], ["chek"], ["add", "x"], ["retire", "x", "--reason", "r"], ["seal", "x"]])
def test_wrong_usage_is_two(words: list[str]) -> None:
    """A missing or misspelt word is usage."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["golden", *words])
    assert ended.value.code == 2


@pytest.mark.parametrize(
    ("metric", "options"),
    [
        ("json_schema", {"schema": {"$schema": 5}}),
        ("json_schema", {"schema": {"type": "objekt"}}),
        ("instructions", {"min_words": 5, "max_words": 3}),
    ],
)
def test_what_a_run_refuses_is_neither_checked_nor_sealed(tmp_path: Path, metric: str, options: dict[str, object]) -> None:
    """The metric itself is asked, so that a sealed set can be measured."""
    file = written(tmp_path / "faq" / "v1" / "items.jsonl", {"id": "1", "prompt": "Write.", "metric": metric, "options": options})
    assert cli.main(["golden", "check", str(file)]) == 2
    assert cli.main(["golden", "seal", str(file.parent), "--licence", "CC0"]) == 2
    assert not (file.parent / "manifest.json").exists()


def test_a_sealed_set_keeps_its_licence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another licence is another version; the same one again is harmless."""
    folder = written(tmp_path / "faq" / "v1" / "items.jsonl", {"id": "1", **ITEM}).parent
    assert cli.main(["golden", "seal", str(folder), "--licence", "CC0"]) == 0
    assert cli.main(["golden", "seal", str(folder), "--licence", "CC0"]) == 0
    assert cli.main(["golden", "seal", str(folder), "--licence", "MIT"]) == 2
    assert "make a new version (v2)" in capsys.readouterr().err
    assert "CC0" in (folder / "manifest.json").read_text(encoding="utf-8")


def test_patterns_that_hardly_match_are_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """(?!) never matches, and behind a stop string nothing is read."""
    never = {"id": "1", "prompt": "Write.", "metric": "regex", "options": {"pattern": "(?!)"}}
    behind = {"id": "2", "prompt": "Write it.", "metric": "regex", "options": {"pattern": r"a\nb"}, "stop": ["\n"]}
    assert cli.main(["golden", "check", str(written(tmp_path / "a.jsonl", never, behind))]) == 0
    shown = capsys.readouterr().out
    assert "holds (?!)" in shown and "holds the stop string" in shown
