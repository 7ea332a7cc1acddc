"""Questions that stand in calibration texts."""

from __future__ import annotations

from quantgate.hygiene.overlap import overlap
from quantgate.records import GoldenItem

LONG = "A farmer has seventeen sheep and all but nine of them run away through the broken gate at night."
SHORT = "Which river flows through Cologne?"


def item(number: int, prompt: str) -> GoldenItem:
    return GoldenItem(item_id=f"i{number}", slice="s", prompt=prompt, metric="exact_match", answers=("x",), line=number)


def found(prompt: str, *texts: str) -> list[tuple[str, int, bool]]:
    return [(one.item_id, one.text, one.whole) for one in overlap([item(1, prompt)], texts)]


def test_the_same_text_in_another_spelling() -> None:
    """Case, punctuation, white space and Unicode form do not hide a question."""
    assert found("Caf\u00e9, OPEN?", "nothing", "  cafe\u0301   open ") == [("i1", 1, True)]


def test_a_run_of_thirteen_words() -> None:
    """Thirteen words in a row are found within a longer text, twelve are not."""
    said = LONG.split()
    assert found(LONG, "He said: " + " ".join(said[3:16]).upper() + " and left.") == [("i1", 0, False)]
    assert found(LONG, "He said: " + " ".join(said[3:15]) + " and left.") == []


def test_a_short_question_must_stand_there_whole() -> None:
    """Five words are found as a whole; fewer only where they are the whole text."""
    assert found(SHORT, f"Quiz. {SHORT} The Rhine.") == [("i1", 0, True)]
    assert found(SHORT, "Which river flows through Basel?") == []
    assert found("How tall?", "He asked: how tall? Nobody knew.") == []
    assert found("How tall?", "how tall") == [("i1", 0, True)]


def test_common_wording_is_no_overlap() -> None:
    """A run that many items share says nothing; each pair of item and text is told once."""
    wording = "Read the following text with care and then answer in one word without any explanation at all"
    items = [item(number, f"{wording} number {number}") for number in range(20)]
    assert overlap(items, [wording]) == ()
    assert [one.item_id for one in overlap(items, [f"{wording} number 7. {wording} number 7."])] == ["i7"]


def test_where_it_was_found() -> None:
    """The item's line, the text's place and the shared words are told."""
    (one,) = overlap([item(4, LONG)], ["", LONG])
    assert (one.line, one.text, one.whole) == (4, 1, True)
    assert one.shared.startswith("a farmer has seventeen sheep")


def test_nothing_in_nothing() -> None:
    """No items, no texts, and prompts without a word give no finding."""
    assert overlap([], [LONG]) == overlap([item(1, LONG)], []) == overlap([item(1, "?!")], ["?!", ""]) == ()
