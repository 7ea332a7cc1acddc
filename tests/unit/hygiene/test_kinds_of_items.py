"""Conversations, references, patterns, schemas and texts: each kind of item is looked over in its own terms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from quantgate.hygiene.examine import examine
from quantgate.hygiene.findings import Finding

SENTENCE = "describe the harbour of the old town with its nine lanterns and the two boats that lie there"
PATTERN = {"metric": "regex", "options": {"pattern": r"(\d+) boats"}, "prompt": f"Please {SENTENCE}", "stop": ["\n\n"]}
SCHEMA = {"metric": "json_schema", "options": {"schema": {"type": "object"}}, "prompt": f"As JSON {SENTENCE}", "stop": ["\n\n"]}
SUMMARY = {"metric": "rouge", "references": ["Nine lanterns light the old harbour and its boats."], "prompt": f"Sum up: {SENTENCE}"}
TALK = {
    "messages": [{"role": "system", "content": "You are terse."}, {"role": "user", "content": f"Please {SENTENCE}"}],
    "answers": ["with pleasure"],
}
TEXT = {"metric": "perplexity", "text": f"They {SENTENCE}."}
EVERY = {"pattern": PATTERN, "schema": SCHEMA, "summary": SUMMARY, "talk": TALK, "text": TEXT}


def look(tmp_path: Path, *rows: dict[str, Any], calibration: tuple[str, ...] = ()) -> list[Finding]:
    """What is said of these items."""
    path = tmp_path / "set.jsonl"
    numbered = [{"id": f"i{at}", **row} for at, row in enumerate(rows)]
    path.write_text("".join(json.dumps(row) + "\n" for row in numbered), encoding="utf-8")
    count, found = examine(path, [(Path("texts.txt"), calibration)] if calibration else ())
    assert not [one.sentence() for one in found if one.kind == "refused"]
    assert count == len(rows)
    return [one for one in found if one.kind not in ("few items", "small slice", "no stop")]


def kinds(found: list[Finding]) -> list[tuple[str, str, int]]:
    return [(one.kind, one.field, one.line) for one in found]


def changed(row: dict[str, Any], old: str, new: str) -> dict[str, Any]:
    """The row with a word of it changed wherever it stands."""
    made: dict[str, Any] = json.loads(json.dumps(row).replace(old, new))
    return made


@pytest.mark.parametrize("kind", EVERY)
def test_each_kind_alone_is_clean(tmp_path: Path, kind: str) -> None:
    """An item of any kind is no reason for doubt by itself."""
    assert kinds(look(tmp_path, {"slice": "a", **EVERY[kind]})) == []


def test_all_kinds_together_are_only_said_to_be_mixed(tmp_path: Path) -> None:
    """They ask in other words for other things; none is another one's duplicate or contradiction."""
    found = look(tmp_path, *({"slice": name, **row} for name, row in EVERY.items()))
    assert {one.kind for one in found} <= {"near-duplicate"}
    assert not [one for one in found if one.severity == "fault"]


@pytest.mark.parametrize(
    ("kind", "field"), [("pattern", "prompt"), ("schema", "prompt"), ("summary", "prompt"), ("talk", "messages"), ("text", "text")]
)
def test_duplicates_and_near_ones_of_each_kind(tmp_path: Path, kind: str, field: str) -> None:
    """The same again is a duplicate, a word changed is a near one, each under the key that holds the question."""
    row = EVERY[kind]
    assert ("duplicate", field, 2) in kinds(look(tmp_path, row, row))
    near = look(tmp_path, row, changed(row, "nine lanterns and", "nine torches and"))
    assert ("near-duplicate", field, 2) in kinds(near)
    assert not [one for one in near if one.severity == "fault"]


def test_other_references_are_no_contradiction(tmp_path: Path) -> None:
    """Two wordings of a summary may both be right; two answers that are matched exactly may not."""
    other = {**SUMMARY, "references": ["A quiet port at night."]}
    found = look(tmp_path, SUMMARY, other)
    assert [one.kind for one in found] == ["duplicate"]
    asked = {"prompt": f"Please {SENTENCE}", "stop": ["\n"]}
    found = look(tmp_path, {**asked, "answers": ["with pleasure"]}, {**asked, "answers": ["with regret"]})
    assert ("contradiction", "answers", 2) in kinds(found)


def test_another_demand_on_an_almost_equal_prompt_is_another_question(tmp_path: Path) -> None:
    """What a pattern asks for belongs to the question."""
    other = {**changed(PATTERN, "nine lanterns and", "nine torches and"), "options": {"pattern": r"(\d+) lanterns"}}
    assert look(tmp_path, PATTERN, other) == []


def test_a_conversation_is_compared_by_what_was_said(tmp_path: Path) -> None:
    """Who said it is no part of a calibration text, and an odd character is told once, with its message."""
    said = TALK["messages"][1]["content"]  # type: ignore[index]
    alone = {**TALK, "messages": [{"role": "user", "content": said}]}
    found = look(tmp_path, alone, calibration=(said,))
    assert [(one.kind, one.field) for one in found] == [("calibration", "messages")]
    assert "stands whole in text 1" in found[0].what
    odd = changed(TALK, "old town", "old&nbsp;town")
    assert kinds(look(tmp_path, odd)) == [("html", "messages[1]", 1)]
    telling = {**TALK, "messages": [{"role": "user", "content": "The answer is: with pleasure. Say it."}]}
    assert ("answer in prompt", "messages", 1) in kinds(look(tmp_path, telling))


def test_a_reference_far_longer_than_the_others(tmp_path: Path) -> None:
    """A page that slipped in is found by its key."""
    rows = [{**SUMMARY, "prompt": f"Sum up page {at} of {at * 7} about {at * 13}", "references": [f"Page {at}."]} for at in range(30)]
    rows[7] = {**rows[7], "references": ["A whole page. " * 60]}
    assert ("length outlier", "references[0]", 8) in kinds(look(tmp_path, *rows))
