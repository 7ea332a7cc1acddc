"""The golden-set reader: what it accepts, what it refuses, and what it says then."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from quantgate import golden
from quantgate.errors import GoldenSetError
from quantgate.records import GoldenItem

CHOICE: dict[str, Any] = {"id": "c1", "slice": "facts", "prompt": "Sky?", "choices": ["blue", "green"], "answer": 0}
TEXT: dict[str, Any] = {"id": "t1", "slice": "sums", "prompt": "2+2=", "answers": ["4", "four"], "stop": ["\n"]}


def line(row: dict[str, Any]) -> bytes:
    """Write one item as a line."""
    return json.dumps(row).encode() + b"\n"


def bare(folder: Path, data: bytes) -> Path:
    """Write a set without a manifest."""
    path = folder / "faq.jsonl"
    path.write_bytes(data)
    return path


def sealed(folder: Path, data: bytes) -> Path:
    """Write a set with its manifest."""
    home = folder / "faq" / "v1"
    home.mkdir(parents=True)
    (home / "items.jsonl").write_bytes(data)
    golden.write_manifest(home, licence="CC0-1.0")
    return home


def fault(folder: Path, data: bytes) -> GoldenSetError:
    """Load what cannot be loaded."""
    with pytest.raises(GoldenSetError) as caught:
        golden.load(bare(folder, data))
    return caught.value


def test_both_kinds_of_item_are_read(tmp_path: Path) -> None:
    """Every key of both kinds arrives in the record, with its line."""
    chat = {
        **CHOICE,
        "metric": "multiple_choice",
        "cluster": "colours",
        "few_shot": "Grass? green\n",
        "template": "raw",
    }
    text = {**TEXT, "metric": "exact_match", "max_new_tokens": 5}
    found = golden.load(bare(tmp_path, line(chat) + line(text)))
    assert found.label == "faq unversioned"
    assert found.slices == ("facts", "sums")
    assert found.items[0] == GoldenItem(
        item_id="c1",
        slice="facts",
        prompt="Sky?",
        metric="multiple_choice",
        cluster="colours",
        few_shot="Grass? green\n",
        template="raw",
        choices=("blue", "green"),
        answer=0,
        line=1,
    )
    assert found.items[1] == GoldenItem(
        item_id="t1",
        slice="sums",
        prompt="2+2=",
        metric="exact_match",
        answers=("4", "four"),
        stop=("\n",),
        max_new_tokens=5,
        line=2,
    )


def test_what_is_left_out_has_one_meaning(tmp_path: Path) -> None:
    """Without metric, slice and template: choices make it multiple choice, the slice is 'all', the template is chosen by the model."""
    rows = line({"id": "a", "prompt": "p", "answer": "x"}) + line({**CHOICE, "id": "b"})
    first, second = golden.load(bare(tmp_path, rows)).items
    assert (first.metric, first.slice, first.template, first.max_new_tokens) == ("exact_match", "all", "auto", 12)
    assert second.metric == "multiple_choice"


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_line_separators_inside_strings_do_not_split(tmp_path: Path, newline: bytes) -> None:
    """U+2028, U+2029, U+0085 and form feeds inside a string are text, in files with either line end."""
    prompt = "one\u2028two\u2029three\u0085four\x0cfive"
    raw = json.dumps({"id": "a", "prompt": prompt, "answer": "x"}, ensure_ascii=False).encode() + newline
    assert golden.load(bare(tmp_path, raw + line(CHOICE))).items[0].prompt == prompt


def test_byte_order_marks_are_tolerated_everywhere(tmp_path: Path) -> None:
    """A BOM before any line, as in concatenated files, or before the manifest, changes nothing."""
    home = sealed(tmp_path, b"\xef\xbb\xbf" + line(CHOICE) + b"\xef\xbb\xbf" + line(TEXT))
    manifest = home / "manifest.json"
    manifest.write_bytes(b"\xef\xbb\xbf" + manifest.read_bytes())
    assert [item.item_id for item in golden.load(home).items] == ["c1", "t1"]


@pytest.mark.parametrize(
    ("data", "at", "says"),
    [
        (line(CHOICE) + b"\n" + line(TEXT), 2, "blank line"),
        (line(CHOICE) + b'{"id": "b", "prompt": "\xe9"}\n', 2, "not UTF-8 at byte 24"),
        (line(CHOICE) + b'{"id": "b",}\n', 2, "invalid JSON"),
        (b'{"id": "a", "prompt": "p", "answer": NaN}', 1, "NaN is no JSON number"),
        (b'{"id": "a", "prompt": "p", "answer": [-Infinity]}', 1, "-Infinity is no JSON number"),
        (b'{"id": "a", "prompt": "p", "answer": 1e9999999999999999999}', 1, "beyond all measure"),
        (b'{"id": "a", "prompt": "p", "answer": ' + b"9" * 5000 + b"}", 1, "beyond all measure"),
        (b"[" * 100_000, 1, "beyond all measure"),
        (b'{"id": "a", "prompt": "p", "prompt": "q", "answer": "x"}', 1, "prompt: the key stands twice"),
        (b'["id"]\n', 1, "found a list, expected an object"),
        (b'{"id": "a", "prompt": "\\ud83d", "answer": "x"}', 1, "prompt: half of a surrogate pair"),
        (b"\xff\xfe{\x00}\x00", 1, "UTF-16"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, data: bytes, at: int, says: str) -> None:
    """A line that is not one strict JSON object is refused with file, line and cause."""
    error = fault(tmp_path, data)
    assert (error.file, error.line) == (str(tmp_path / "faq.jsonl"), at)
    assert says in str(error)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"id": "a", "promt": "p", "answer": "x"}, "unknown key 'promt' (did you mean 'prompt'?)"),
        ({"id": "a", "prompt": "p", "chioces": ["x", "y"], "answer": 0}, "'chioces' (did you mean 'choices'?)"),
        ({"prompt": "p", "answer": "x"}, "id: missing"),
        ({"id": "a", "answer": "x"}, "prompt: missing"),
        ({"id": "a", "prompt": "p"}, "answers: missing"),
        ({"id": "a", "prompt": " \n", "answer": "x"}, "prompt: empty"),
        ({"id": "a", "prompt": 3, "answer": "x"}, "prompt: found the number 3, expected a string"),
        ({"id": True, "prompt": "p", "answer": "x"}, "id: found a boolean"),
        ({"id": "a", "prompt": "p", "answer": "x", "metric": "exact_mach"}, "(did you mean 'exact_match'?)"),
        (
            {"id": "a", "prompt": "p", "answer": "x", "slice": ["s", "t"]},
            "slice: found a list; an item belongs to exactly",
        ),
        ({"id": "a\nb", "prompt": "p", "answer": "x"}, "id: 'a\\nb' holds a line end"),
        ({"id": "a", "prompt": "p", "answer": "x", "slice": "s\x00"}, "slice: 's\\x00' holds a line end"),
        ({"id": "a", "prompt": "p", "answer": "x", "cluster": None}, "cluster: found null"),
        (
            {"id": "a", "prompt": "p", "answer": "x", "template": "Chat"},
            "template: found 'Chat'; allowed are raw and chat",
        ),
        ({"id": "a", "prompt": "p", "answer": "  "}, "answer: empty"),
        ({"id": "a", "prompt": "p", "answers": []}, "answers: an empty list"),
        ({"id": "a", "prompt": "p", "answers": "x"}, "answers: found the string 'x', expected a list"),
        ({"id": "a", "prompt": "p", "answers": ["x", None]}, "answers[1]: found null"),
        ({"id": "a", "prompt": "p", "answers": ["x"], "answer": "x"}, "answers: given beside answer"),
        ({"id": "a", "prompt": "p", "answer": True}, "answer: found a boolean"),
        ({"id": "a", "prompt": "p", "answer": "x\ny", "stop": ["\n"]}, "holds the stop string"),
        ({"id": "a", "prompt": "p", "answer": "x", "stop": [""]}, "stop[0]: empty"),
        ({"id": "a", "prompt": "p", "answer": "x", "stop": "\n"}, "stop: found the string"),
        (
            {"id": "a", "prompt": "p", "answer": "x", "max_new_tokens": 0},
            "max_new_tokens: found 0, allowed are 1 to 256",
        ),
        ({"id": "a", "prompt": "p", "answer": "x", "max_new_tokens": 257}, "max_new_tokens: found 257"),
        ({"id": "a", "prompt": "p", "answer": "x", "max_new_tokens": 1.5}, "the decimal number 1.5"),
        ({**CHOICE, "choices": ["blue"]}, "choices: found 1, expected at least 2"),
        ({**CHOICE, "choices": ["blue", ""]}, "choices[1]: empty"),
        ({**CHOICE, "choices": ["blue", "blue"]}, "choices[1]: 'blue' stands twice"),
        ({**CHOICE, "choices": ["blue", " green"]}, "choices[1]: ' green' has white space around it"),
        ({**CHOICE, "choices": ["blue", 7]}, "choices[1]: found the number 7"),
        ({**CHOICE, "answer": 2}, "answer: index 2 is out of range"),
        ({**CHOICE, "answer": -1}, "answer: found -1"),
        ({**CHOICE, "answer": "blue"}, "answer: found the string 'blue', expected a whole number"),
        ({**CHOICE, "answer": False}, "answer: found a boolean"),
        ({**CHOICE, "stop": ["\n"]}, "stop: not a key of multiple_choice items"),
        ({**TEXT, "metric": "exact_match", "choices": ["a", "b"]}, "choices: not a key of exact_match items"),
    ],
)
def test_a_faulty_field_is_named(tmp_path: Path, row: dict[str, Any], says: str) -> None:
    """A fault names the line, the field, what was found and what is allowed."""
    error = fault(tmp_path, line({"id": "ok", "prompt": "p", "answer": "x"}) + line(row))
    assert error.line == 2
    assert says in str(error)


def test_faults_are_told_together(tmp_path: Path) -> None:
    """All faulty lines stand in one message, the first one's line in the error."""
    error = fault(tmp_path, line(CHOICE) + b"{}\n" + line(TEXT) + b"nonsense\n")
    assert error.line == 2
    assert ":2: id: missing" in str(error)
    assert "faq.jsonl:4: invalid JSON" in str(error)


def test_a_hopeless_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    """Twenty faults are told, then reading stops and says so."""
    message = str(fault(tmp_path, b"nonsense\n" * 50))
    assert message.count("invalid JSON") == 20
    assert message.endswith("stopped reading after 20 faults")


@pytest.mark.parametrize("data", [b"", b"\n\n", b"\xef\xbb\xbf", b" \r\n"])
def test_a_set_without_items_is_refused(tmp_path: Path, data: bytes) -> None:
    """Zero items are an error, never an empty list that passes (case B109)."""
    assert "has 0 items" in str(fault(tmp_path, data))


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    """A path that is not there is told as such, with exit code 2."""
    with pytest.raises(GoldenSetError, match="cannot be read") as caught:
        golden.load(tmp_path / "absent.jsonl")
    assert caught.value.exit_code == 2


def test_a_folder_needs_a_manifest(tmp_path: Path) -> None:
    """A folder without a manifest is refused, with the call that makes one."""
    (tmp_path / "items.jsonl").write_bytes(line(CHOICE))
    with pytest.raises(GoldenSetError, match="write_manifest"):
        golden.load(tmp_path)


def test_a_sealed_set_is_read_from_folder_or_file(tmp_path: Path) -> None:
    """Name, version and digest come from the manifest, also when the path names items.jsonl inside the folder."""
    home = sealed(tmp_path, line(CHOICE) + line(TEXT))
    by_folder, by_file = golden.load(home), golden.load(home / "items.jsonl")
    assert by_folder == by_file
    assert by_folder.label == "faq v1"
    assert len(by_folder.sha256) == 64


@pytest.mark.parametrize("path", ["", "items.jsonl"])
def test_a_changed_file_under_an_old_manifest_is_refused(tmp_path: Path, path: str) -> None:
    """One changed byte is enough; the message says to make a new version."""
    home = sealed(tmp_path, line(CHOICE))
    (home / "items.jsonl").write_bytes(line({**CHOICE, "answer": 1}))
    with pytest.raises(GoldenSetError, match=r"changed under an old manifest.*new version"):
        golden.load(home / path)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("count", 2, "it has 1 items, the manifest has 2"),
        ("count", "1", "count: found the string '1'"),
        ("slices", {"facts": 2}, "its slices are"),
        ("slices", ["facts"], "slices: found a list"),
        ("schema_version", 2, "schema_version: found 2, this quantgate reads 1"),
        ("license", "MIT", "unknown key 'license' (did you mean 'licence'?)"),
        ("licence", "", "licence: empty"),
        ("sha256", "0" * 64, "its digest is"),
    ],
)
def test_a_faulty_manifest_is_refused(tmp_path: Path, key: str, value: object, says: str) -> None:
    """A manifest that does not fit the file, or the schema, is refused with the field."""
    home = sealed(tmp_path, line(CHOICE))
    path = home / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}), encoding="utf-8")
    with pytest.raises(GoldenSetError) as caught:
        golden.load(home)
    assert says in str(caught.value)


def test_the_manifest_is_written_as_laid_down(tmp_path: Path) -> None:
    """The manifest has the seven keys of schema version 1 and nothing is left beside it."""
    home = sealed(tmp_path, line(CHOICE) + line(TEXT))
    manifest = json.loads((home / "manifest.json").read_text(encoding="utf-8"))
    assert manifest == {
        "schema_version": 1,
        "name": "faq",
        "version": "v1",
        "sha256": golden.load(home).sha256,
        "count": 2,
        "slices": {"facts": 1, "sums": 1},
        "licence": "CC0-1.0",
    }
    assert sorted(path.name for path in home.iterdir()) == ["items.jsonl", "manifest.json"]


def test_sealing_twice_is_harmless_and_resealing_is_refused(tmp_path: Path) -> None:
    """The same bytes may be sealed again; other bytes under the same version may not."""
    home = sealed(tmp_path, line(CHOICE))
    golden.write_manifest(home, licence="CC0-1.0")
    (home / "items.jsonl").write_bytes(line(TEXT))
    with pytest.raises(GoldenSetError, match="put the changed items into v2"):
        golden.write_manifest(home, licence="CC0-1.0")


@pytest.mark.parametrize("version", ["1", "v0", "draft", "v1.2"])
def test_only_a_version_folder_is_sealed(tmp_path: Path, version: str) -> None:
    """The folder must be named v1, v2 and so on, since name and version come from the path."""
    home = tmp_path / "faq" / version
    home.mkdir(parents=True)
    (home / "items.jsonl").write_bytes(line(CHOICE))
    with pytest.raises(GoldenSetError, match="expected <name>/v<N>"):
        golden.write_manifest(home, licence="MIT")


def test_a_faulty_set_is_not_sealed(tmp_path: Path) -> None:
    """Neither faulty items nor an empty licence get a manifest."""
    home = tmp_path / "faq" / "v1"
    home.mkdir(parents=True)
    (home / "items.jsonl").write_bytes(b"{}\n")
    with pytest.raises(GoldenSetError, match="id: missing"):
        golden.write_manifest(home, licence="MIT")
    (home / "items.jsonl").write_bytes(line(CHOICE))
    with pytest.raises(GoldenSetError, match="licence: empty"):
        golden.write_manifest(home, licence=" ")
    assert not (home / "manifest.json").exists()


def test_chance_level_counts_generated_answers_as_zero(tmp_path: Path) -> None:
    """One item of two choices, one of four and two generated: (1/2 + 1/4) / 4."""
    four = {**CHOICE, "id": "c2", "choices": ["a", "b", "c", "d"]}
    rows = [CHOICE, four, TEXT, {**TEXT, "id": "t2"}]
    found = golden.load(bare(tmp_path, b"".join(map(line, rows))))
    assert golden.chance_level(found.items) == 0.1875
    with pytest.raises(ValueError, match="no items"):
        golden.chance_level(())


def test_the_gate_gets_ids_and_digest_but_no_questions(tmp_path: Path) -> None:
    """The reference has name, version, digest, ids in order and chance level."""
    found = golden.load(sealed(tmp_path, line(CHOICE) + line(TEXT)))
    reference = golden.reference_of(found)
    assert (reference.name, reference.version, reference.sha256) == ("faq", "v1", found.sha256)
    assert reference.item_ids == ("c1", "t1")
    assert reference.chance_level == 0.25


def test_a_large_set_is_read_fast(tmp_path: Path) -> None:
    """20,000 items load within a second of processor time."""
    rows = b"".join(line({**TEXT, "id": f"t{index}", "prompt": f"{index} + 2 ="}) for index in range(20_000))
    path = bare(tmp_path, rows)
    started = time.process_time()
    assert len(golden.load(path).items) == 20_000
    assert time.process_time() - started < 1.0
