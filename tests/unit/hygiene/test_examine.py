"""A golden set's file looked over: every planted fault is found, with its line and key."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

from quantgate import golden
from quantgate.errors import GoldenSetError
from quantgate.hygiene.examine import examine, files_of, texts_of
from quantgate.hygiene.findings import Finding

NOUNS = ("harbour", "violin", "glacier", "ledger", "orchard", "compass", "furnace", "lantern", "meadow", "turbine")
VERBS = ("repairs", "paints", "measures", "carries", "sells", "hides", "weighs", "sketches", "polishes", "counts")
PEOPLE = ("Amara", "Bjorn", "Chidi", "Dalia", "Emil", "Farah", "Goran", "Hana", "Ivo", "Jun", "Kofi", "Lena")

CALIBRATED = "Calibrated on this very sentence of the nine muses and their many sisters in the hills"


def clean(number: int) -> dict[str, Any]:
    """An item without a fault, unlike every other one."""
    rng = random.Random(number)
    sentence = f"{PEOPLE[number % 12]} {rng.choice(VERBS)} {rng.randint(11, 9999)} of the {rng.choice(NOUNS)}s near the {rng.choice(NOUNS)}"
    return {
        "id": f"item-{number:03}",
        "slice": "who",
        "prompt": f"{sentence} on day {number + 1000}. Which letter stands for it?\nAnswer:",
        "template": "raw",
        "choices": [f"sign {rng.randint(100, 999)}{letter}" for letter in "abcd"],
        "answer": number % 4,
    }


def written(number: int, **changes: Any) -> dict[str, Any]:
    """A generated item without a fault, with changes; None takes a key out."""
    values = {
        "id": f"text-{number:03}",
        "slice": "written",
        "prompt": f"Report {number} of {PEOPLE[number % 12]}: the {NOUNS[number % 10]} {VERBS[number // 10 % 10]} {number * 7}. Its code:",
        "answers": [f"q{number}z"],
        "stop": ["\n"],
        "template": "raw",
    }
    return {key: value for key, value in {**values, **changes}.items() if value is not None}


def planted() -> list[tuple[str | bytes, str, str]]:
    """Lines with one fault each, with the key and a word of the sentence that must be said of it."""

    def row(**changes: Any) -> str:
        count[0] += 1
        return json.dumps(written(count[0], **changes), ensure_ascii=False)

    def choice(**changes: Any) -> str:
        count[0] += 1
        return json.dumps({**clean(count[0] + 400), **changes}, ensure_ascii=False)

    count = [500]
    same = {"prompt": "The keeper of the old lighthouse counts how many ships pass the northern cape in a week. Their number:"}
    almost = {"prompt": "The keeper of the old lighthouse counts how many ships pass the southern cape in a week. Their number:"}
    return [
        # what the reader refuses
        (row(id="item-000"), "id", "stands on lines"),
        (row(prompt="   "), "prompt", "empty"),
        (row(answers=[""]), "answers[0]", "empty"),
        (choice(choices=["left", ""]), "choices[1]", "empty"),
        (row(prompt=17), "prompt", "the number 17"),
        (row(answers=None), "answers", "missing"),
        (row(answers=["a\nb"]), "answers", "stop string"),
        (choice(choices=["left", "left", "right"]), "choices[1]", "twice"),
        (choice(choices=["left"], answer=0), "choices", "at least 2"),
        (choice(answer=4), "answer", "4"),
        (choice(choices=[" left", "right"], answer=0), "choices[0]", "white space"),
        (row(slice=["a", "b"]), "slice", "list"),
        (row(stopp=["\n"]), "stopp", "did you mean 'stop'"),
        (row(max_new_tokens=9999), "max_new_tokens", "9999"),
        (row()[:-1] + ', "prompt": "again"}', "prompt", "twice"),
        (row()[:-1] + ', "cluster": NaN}', "", "NaN"),
        (row()[:-1], "", "invalid JSON"),
        (row().encode().replace(b"Report", b"Rep\xffrt"), "", "not UTF-8"),
        ("", "", "blank line"),
        (row(cluster=None)[:-1] + ', "cluster": null}', "cluster", "null"),
        # what each line alone, or all together, may get wrong
        (row(**same, answers=["twelve"]), "prompt", ""),
        (row(**same, answers=["twelve"]), "prompt", "asks the same"),
        (row(**same, answers=["seventy"]), "answers", "another right answer"),
        (row(**almost, answers=["twelve"]), "prompt", "almost the prompt"),
        (row(prompt="The password is xylophone. What is the password, in one word?", answers=["xylophone"]), "prompt", "right answer"),
        (row(few_shot="Code of report 1: k9\nIts code: q777x\n", answers=["q777x"]), "few_shot", "right answer"),
        (row(prompt="The cafe\u0301 at the corner sells 77 of them each day. Its code:"), "prompt", "composed form"),
        (row(prompt="A bell\u0007 rings at 66 degrees in the tower of the mill. Its code:"), "prompt", "U+0007"),
        (row(prompt="Zero\u200bwidth things hide within 55 words of this kind. Its code:"), "prompt", "U+200B"),
        (row(answers=["caf\u00c3\u00a9"]), "answers[0]", "another encoding"),
        (row(prompt="Fill {{question}} in at the 44th of the places left. Its code:"), "prompt", "not filled in"),
        (row(prompt="Salt &amp; pepper of the 33rd kitchen on the pier. Its code:"), "prompt", "HTML"),
        (row(prompt="A page of its own, number 22. " + "No end of words here at all. " * 90), "prompt", "characters"),
        (choice(choices=["Dark blue", "dark  Blue.", "red", "teal"], answer=2), "choices[1]", "but for case"),
        (choice(choices=["sign of the first kind, a" * 9, "b", "c", "d"], answer=1), "choices[0]", "characters"),
        (row(max_new_tokens=2, answers=["one two three four"]), "max_new_tokens", "4 words"),
        (row(prompt="White space stands behind the 11th of these lines. Its code: "), "prompt", "white space"),
        (row(slice="Written"), "slice", "spelt otherwise"),
        (row(id="ITEM-004"), "id", "case or Unicode"),
        (choice(choices=["up", "down", "in"], answer=1), "choices", "mixes chance levels"),
        (row(prompt=f"{CALIBRATED}. Its code:"), "prompt", "calib"),
    ]  # fmt: skip


@pytest.fixture
def faulty(tmp_path: Path) -> tuple[Path, dict[int, tuple[str, str]]]:
    """A file of clean items among which the faulty ones stand, and what must be said of which line."""
    lines: list[str | bytes] = []
    expected: dict[int, tuple[str, str]] = {}
    more = iter(range(1000))
    for fault, field, word in planted():
        lines += [json.dumps(clean(next(more))), json.dumps(clean(next(more))), json.dumps(written(next(more)))]
        lines.append(fault)
        if word:
            expected[len(lines)] = (field, word)
    file = tmp_path / "faulty.jsonl"
    file.write_bytes(b"\n".join(one if isinstance(one, bytes) else one.encode() for one in lines) + b"\n")
    return file, expected


def test_every_planted_fault_is_found(faulty: tuple[Path, dict[int, tuple[str, str]]]) -> None:
    """Forty different faults, each found on its line under its key; nothing is said of the clean lines between."""
    file, expected = faulty
    texts = [f"Some text. {CALIBRATED}, and more."]
    _, findings = examine(file, [(Path("calib.jsonl"), texts)])
    missing = {line: told for line, told in expected.items() if not any(says(one, line, *told) for one in findings)}
    assert len(expected) >= 40
    assert missing == {}
    assert {one.file for one in findings} == {str(file)}
    assert [one for one in findings if one.line not in {0, *expected}] == []


def says(one: Finding, line: int, field: str, word: str) -> bool:
    return (one.line, one.field) == (line, field) and word in one.what


def test_faults_are_told_from_warnings(faulty: tuple[Path, dict[int, tuple[str, str]]]) -> None:
    """What a run refuses and a contradiction are faults; the rest is for a person. The reader itself agrees on every refused line."""
    file, _ = faulty
    count, findings = examine(file)
    refused = {one.line for one in findings if one.kind == "refused"}
    assert {one.kind for one in findings if one.severity == "fault"} == {"refused", "contradiction"}
    assert len(refused) == 20 == len(golden.examine(file)[1])
    assert count == len(file.read_bytes().splitlines()) - 20


def test_a_clean_file_has_nothing_said_of_it(tmp_path: Path) -> None:
    """A hundred good items give no finding at all."""
    file = tmp_path / "clean.jsonl"
    file.write_text("".join(json.dumps(clean(number)) + "\n" for number in range(120)), encoding="utf-8")
    assert examine(file) == (120, ())


def test_right_choices_at_one_place(tmp_path: Path) -> None:
    """Where nearly all right choices have one index, the first item that has it is named."""
    rows = [{**clean(number), "answer": 2 if number else 0} for number in range(120)]
    file = tmp_path / "set.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    ((one),) = examine(file)[1]
    assert (one.kind, one.line, one.field) == ("unbalanced positions", 2, "answer")


@pytest.mark.parametrize(
    ("change", "kind", "field"),
    [
        (lambda row: {**row, "choices": [f"{one} and more of it" if at == row["answer"] else one for at, one in enumerate(row["choices"])]},
         "length tells", "choices"),
        (lambda row: {**written(int(row["id"][-3:])), "answers": ["no"]}, "one answer", "answers"),
        (lambda row: written(int(row["id"][-3:]), stop=None), "no stop", "stop"),
    ],
)  # fmt: skip
def test_tendencies_of_a_whole_set(tmp_path: Path, change: Any, kind: str, field: str) -> None:
    """Cues that all items share are told once, at the first item that has them."""
    file = tmp_path / "set.jsonl"
    file.write_text("".join(json.dumps(change(clean(number))) + "\n" for number in range(120)), encoding="utf-8")
    ((one),) = examine(file)[1]
    assert (one.kind, one.line, one.field) == (kind, 1, field)


def test_other_numbers_signs_or_answers_make_other_questions(tmp_path: Path) -> None:
    """Sums and capitals are asked in one wording, and are no duplicates of each other."""
    prompts = ["How much is 17 + 25 altogether?", "How much is 17 + 26 altogether?", "How much is 17 - 25 altogether?"]
    prompts += [f"What is the name of the capital city of the country called {one}?" for one in ("Norway", "Sweden", "Finland")]
    rows = [written(at, prompt=one) for at, one in enumerate(prompts)]
    file = tmp_path / "set.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert [one.kind for one in examine(file)[1]] == ["few items"]


def test_items_without_a_right_answer_do_not_contradict_each_other(tmp_path: Path) -> None:
    """Two patterns for one prompt are one question asked twice, which is all that is said."""
    rows = [{"id": one, "prompt": "Name a fruit that is red.", "metric": "regex", "options": {"pattern": f"{one}$"}} for one in "ab"]
    file = tmp_path / "set.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    kinds = [one.kind for one in examine(file)[1]]
    assert "duplicate" in kinds and "contradiction" not in kinds


def test_a_choice_that_the_prompt_offers_is_no_leak(tmp_path: Path) -> None:
    """A prompt that lists its choices, or says how to answer, does not tell which is right."""
    rows = [
        {**clean(1), "prompt": "Is grass green, blue or silver?", "choices": ["green", "blue", "silver"], "answer": 0},
        written(2, prompt="Is ice cold? Answer yes or no.", answers=["yes"]),
    ]
    file = tmp_path / "set.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert "answer in prompt" not in {one.kind for one in examine(file)[1]}


def test_answers_to_be_found_in_the_prompt_are_told_once(tmp_path: Path) -> None:
    """Where a slice asks for what its prompts hold, one sentence says so."""
    prompts = [f"{PEOPLE[at % 12]} lives at {at}zephyr street {at}. Where exactly?" for at in range(120)]
    rows = [written(at, prompt=one, answers=[f"{at}zephyr"]) for at, one in enumerate(prompts)]
    file = tmp_path / "set.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    ((one),) = examine(file)[1]
    assert (one.kind, one.line) == ("answer in prompt", 1) and "120 of 120" in one.what


# ---------------------------------------------------------------------------------------------- folders and texts


def sealed(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "items.jsonl").write_text("".join(json.dumps(clean(at)) + "\n" for at in range(120)), encoding="utf-8")
    golden.write_manifest(folder, "CC0")
    return folder


def test_a_folder_that_was_altered_is_a_fault(tmp_path: Path) -> None:
    """A sealed version whose items changed is told, with faulty lines and without; an unsealed one is a warning."""
    folder = sealed(tmp_path / "faq" / "v1")
    file = folder / "items.jsonl"
    assert examine(file)[1] == ()
    text = file.read_text(encoding="utf-8")
    for changed in (text.replace("Amara", "Anton"), text + "{}\n"):
        file.write_text(changed, encoding="utf-8")
        assert ("altered", "fault", "sha256") in {(one.kind, one.severity, one.field) for one in examine(file)[1]}
    file.write_text(text, encoding="utf-8")
    (folder / "manifest.json").unlink()
    assert [(one.kind, one.severity) for one in examine(file)[1]] == [("not sealed", "warning")]


def test_what_a_path_stands_for(tmp_path: Path) -> None:
    """A file is itself, a version its items, a folder of sets all of them; a folder without any is refused."""
    folder = sealed(tmp_path / "faq" / "v1")
    assert files_of(folder) == files_of(tmp_path) == (folder / "items.jsonl",)
    assert files_of(folder / "items.jsonl") == (folder / "items.jsonl",)
    (tmp_path / "empty").mkdir()
    with pytest.raises(GoldenSetError, match=r"has no items\.jsonl"):
        files_of(tmp_path / "empty")


def test_texts_of_a_calibration_file(tmp_path: Path) -> None:
    """JSON Lines of strings or objects, or paragraphs; a byte-order mark changes nothing, a line without a text is named."""
    lines = tmp_path / "a.jsonl"
    lines.write_bytes(b'\xef\xbb\xbf{"text": "one"}\n"two"\n\n{"prompt": "three", "n": 1}\n')
    assert texts_of(lines) == ("one", "two", "three")
    paragraphs = tmp_path / "a.txt"
    paragraphs.write_bytes(b"one\r\ntwo\r\n\r\nthree\n\n\n")
    assert texts_of(paragraphs) == ("one\ntwo", "three")
    lines.write_text('{"text": "one"}\n{"n": 1}\n', encoding="utf-8")
    with pytest.raises(GoldenSetError, match="no text") as caught:
        texts_of(lines)
    assert caught.value.line == 2


@pytest.mark.parametrize("data", [b"", b"\n\n", b"\xff\xfe{\x00}\x00"])
def test_a_file_without_items_is_a_fault(tmp_path: Path, data: bytes) -> None:
    """Empty, blank, or in another encoding: nothing is there to be measured."""
    file = tmp_path / "set.jsonl"
    file.write_bytes(data)
    count, findings = examine(file)
    assert count == 0 and any(one.severity == "fault" for one in findings)


def test_twenty_thousand_items_take_seconds(tmp_path: Path) -> None:
    """No loop over pairs: ten times the items take about ten times as long, templated wording included."""
    file = tmp_path / "set.jsonl"

    def seconds(count: int) -> float:
        prompts = (f"What is the name of the {NOUNS[at % 10]} that {PEOPLE[at % 12]} {VERBS[at % 7]} at {at}?" for at in range(count))
        rows = (written(at, prompt=one) for at, one in enumerate(prompts))
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        started = time.process_time()
        examine(file)
        return time.process_time() - started

    small = max(seconds(2_000), 0.05)
    assert seconds(20_000) < 25 * small
