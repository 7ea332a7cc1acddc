"""The next version of a golden set: made whole, logged, and only from one that is what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from quantgate import golden
from quantgate.errors import GoldenSetError
from quantgate.golden_versions import CHANGES_FILE, Author, add, changes, check_log, newest, retire

AUTHOR = Author(who="Ada", when="2026-01-02T03:04:05+00:00", reason="the tariff changed")


def row(number: int, **changes: Any) -> dict[str, Any]:
    return {"id": f"i{number}", "prompt": f"question {number}?", "answers": ["yes"], **changes}


def lines(file: Path, *rows: dict[str, Any]) -> Path:
    file.write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
    return file


@pytest.fixture
def v1(tmp_path: Path) -> Path:
    """A sealed set of three items, written in a hand of its own, with a card."""
    folder = tmp_path / "faq" / "v1"
    folder.mkdir(parents=True)
    text = '{"id": "i1",  "prompt": "question 1?", "answers": ["8.540"]}\r\n' + json.dumps(row(2)) + "\n" + json.dumps(row(3))
    (folder / "items.jsonl").write_bytes(b"\xef\xbb\xbf" + text.encode())
    (folder / "CARD.md").write_text("origin: us\n", encoding="utf-8")
    golden.write_manifest(folder, "CC0")
    return folder


def test_items_are_added_behind_the_old_ones(v1: Path, tmp_path: Path) -> None:
    """Old lines stay byte for byte; manifest, card and log are there; the old version is untouched."""
    before = (v1 / "items.jsonl").read_bytes()
    made, change = add(v1, lines(tmp_path / "new.jsonl", row(4), row(5)), AUTHOR)
    assert made == v1.parent / "v2"
    loaded = golden.load(made)
    assert [item.item_id for item in loaded.items] == ["i1", "i2", "i3", "i4", "i5"]
    assert (made / "items.jsonl").read_bytes().startswith(b'{"id": "i1",  "prompt": "question 1?", "answers": ["8.540"]}\n')
    assert json.loads((made / "manifest.json").read_text(encoding="utf-8"))["licence"] == "CC0"
    assert (made / "CARD.md").read_text(encoding="utf-8") == "origin: us\n"
    assert (v1 / "items.jsonl").read_bytes() == before
    assert sorted(one.name for one in v1.parent.iterdir()) == ["v1", "v2"]
    assert change == changes(made)[0]
    assert (change.who, change.when, change.reason, change.ids) == ("Ada", AUTHOR.when, AUTHOR.reason, ("i4", "i5"))
    assert (change.sha256_before, change.sha256) == (golden.load(v1).sha256, loaded.sha256)


def test_items_are_retired(v1: Path) -> None:
    """The items named are gone, the others stay as they were."""
    made, change = retire(v1, ["i2", "i2"], AUTHOR)
    assert [item.item_id for item in golden.load(made).items] == ["i1", "i3"]
    assert (change.action, change.ids) == ("retire", ("i2",))


def test_the_log_grows(v1: Path, tmp_path: Path) -> None:
    """Each version has the whole history, and each digest follows from the one before."""
    second, _ = add(v1, lines(tmp_path / "new.jsonl", row(4)), AUTHOR)
    third, _ = retire(second, ["i1"], AUTHOR)
    assert [(one.version, one.before, one.action) for one in changes(third)] == [("v2", "v1", "add"), ("v3", "v2", "retire")]
    check_log(third, golden.load(third).sha256)
    assert newest(v1.parent).name == "v3" and newest(v1) == v1


def test_an_altered_old_version_is_refused(v1: Path, tmp_path: Path) -> None:
    """Nothing is made from a file that changed under its manifest, and nothing is left behind."""
    with (v1 / "items.jsonl").open("a", encoding="utf-8") as stream:
        stream.write("\n" + json.dumps(row(9)))
    for act in (lambda: add(v1, lines(tmp_path / "new.jsonl", row(4)), AUTHOR), lambda: retire(v1, ["i1"], AUTHOR)):
        with pytest.raises(GoldenSetError, match="changed under an old manifest"):
            act()
    assert [one.name for one in v1.parent.iterdir()] == ["v1"]


def test_only_the_newest_version_goes_on(v1: Path) -> None:
    """Two next versions of one would be two sets of one name."""
    retire(v1, ["i1"], AUTHOR)
    with pytest.raises(GoldenSetError, match="not the newest version: there is v2"):
        retire(v1, ["i2"], AUTHOR)


@pytest.mark.parametrize(
    ("rows", "what", "line"),
    [
        ([row(2)], "'i2' is taken by line 2 of faq v1", 1),
        ([row(4), row(4)], "'i4' stands on lines 1 and 2", 2),
        ([row(4), row(5, answers=[])], "answers: an empty list", 2),
        ([], "0 items", None),
    ],
)
def test_faulty_new_items_are_refused_where_they_stand(
    v1: Path, tmp_path: Path, rows: list[dict[str, Any]], what: str, line: int | None
) -> None:
    """The error names the new file and its line, and no version is made."""
    new = lines(tmp_path / "new.jsonl", *rows)
    with pytest.raises(GoldenSetError, match=what) as caught:
        add(v1, new, AUTHOR)
    assert (caught.value.file, caught.value.line) == (str(new), line)
    assert not (v1.parent / "v2").exists()


def test_a_contradiction_is_refused(v1: Path, tmp_path: Path) -> None:
    """A new item that asks what an old one asks and answers otherwise makes no version."""
    new = lines(tmp_path / "new.jsonl", row(4, prompt="Question 2", answers=["no"]))
    with pytest.raises(GoldenSetError, match="asks the same as item 'i2'"):
        add(v1, new, AUTHOR)
    assert not (v1.parent / "v2").exists()


def test_unknown_and_last_items_are_not_retired(v1: Path) -> None:
    """A misspelt id has its nearest name; a set of nothing is none."""
    with pytest.raises(GoldenSetError, match="no item 'i22'; did you mean 'i2'"):
        retire(v1, ["i22"], AUTHOR)
    with pytest.raises(GoldenSetError, match="nothing would be left"):
        retire(v1, ["i1", "i2", "i3"], AUTHOR)


@pytest.mark.parametrize("field", ["who", "reason"])
@pytest.mark.parametrize("text", ["", "  ", "two\nlines"])
def test_a_change_needs_an_author_and_a_reason(v1: Path, field: str, text: str) -> None:
    """Both are one line of text."""
    author = Author(**{"who": "Ada", "when": AUTHOR.when, "reason": "why", field: text})
    with pytest.raises(GoldenSetError, match=f"{field}: one line of text"):
        retire(v1, ["i1"], author)


def test_an_altered_log_is_noticed(v1: Path, tmp_path: Path) -> None:
    """A line taken out, one altered, and one that is no line are told with their place."""
    second, _ = add(v1, lines(tmp_path / "new.jsonl", row(4), row(5)), AUTHOR)
    third, _ = retire(second, ["i4"], AUTHOR)
    fourth, _ = retire(third, ["i5"], AUTHOR)
    sha256, log = golden.load(fourth).sha256, fourth / CHANGES_FILE
    kept = log.read_text(encoding="utf-8").splitlines(keepends=True)
    for text, what in (
        (kept[0] + kept[2], "does not follow from line 1"),
        (kept[0] + kept[1], "tells of v3"),
        ("{}\n", "is no line of a log"),
        (kept[0] + "nonsense\n", "is no line of a log"),
    ):
        log.write_text(text, encoding="utf-8")
        with pytest.raises(GoldenSetError, match=what):
            check_log(fourth, sha256)
        with pytest.raises(GoldenSetError, match=what):
            retire(fourth, ["i1"], AUTHOR)


def test_a_bare_file_or_another_folder_has_no_versions(tmp_path: Path) -> None:
    """The folder must be <name>/v<N>, or hold one."""
    with pytest.raises(GoldenSetError, match="is no golden set"):
        newest(tmp_path)
    with pytest.raises(GoldenSetError, match="expected <name>/v<N>"):
        retire(tmp_path, ["i1"], AUTHOR)


def test_a_version_that_is_there_is_never_overwritten(v1: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two that make the same version at once, the later one is refused and the first one stays whole."""
    seal = golden.write_manifest

    def slow(folder: Path, licence: str) -> Path:
        other = v1.parent / "v2"
        other.mkdir()
        (other / "items.jsonl").write_text("theirs", encoding="utf-8")
        return seal(folder, licence)

    monkeypatch.setattr(golden, "write_manifest", slow)
    with pytest.raises(GoldenSetError, match="cannot be put in place"):
        retire(v1, ["i1"], AUTHOR)
    assert (v1.parent / "v2" / "items.jsonl").read_text(encoding="utf-8") == "theirs"
    assert sorted(one.name for one in v1.parent.iterdir()) == ["v1", "v2"]
