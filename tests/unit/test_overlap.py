"""Texts that share words: whole short ones, and thirteen words in a row."""

from __future__ import annotations

import pytest

from quantgate.overlap import RUN_WORDS, runs, shared, words

LONG = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen"


@pytest.mark.parametrize(
    ("question", "text", "found"),
    [
        (LONG, f"before {LONG} after", True),
        (LONG, LONG.upper().replace(" ", ",  "), True),
        (LONG, " ".join(LONG.split()[:12]), False),
        ("What is the capital?", "he asked: WHAT IS the capital of it", True),
        ("Yes or no", "yes or no, yes or no", False),
        ("Caf\u00e9 au lait please", "cafe\u0301 au lait please", True),
        ("", LONG, False),
    ],
)
def test_shared(question: str, text: str, found: bool) -> None:
    """Spelling, case and punctuation do not hide a shared text; fewer words than the run, or a phrase of three, are none."""
    assert (shared({"q": question}, [text]) != {}) is found


def test_every_item_is_named_with_its_words() -> None:
    """Each item that shares words is told with the first run of them, in the order of the items."""
    items = {"b": "what is the answer", "a": f"x {LONG}", "c": "something else entirely here"}
    found = shared(items, ["nothing", f"{LONG} what is the answer"])
    assert list(found) == ["b", "a"]
    assert found["a"] == " ".join(words(LONG)[:RUN_WORDS])


def test_two_items_with_the_same_words_are_both_named() -> None:
    """A long run that two items share is told of both."""
    assert list(shared({"a": LONG, "b": f"again {LONG}"}, [LONG])) == ["a", "b"]


def test_runs_of_a_short_text() -> None:
    """Four to twelve words count as a whole; fewer not at all."""
    assert list(runs("only three words")) == []
    assert list(runs("now there are four")) == [("now", "there", "are", "four")]
