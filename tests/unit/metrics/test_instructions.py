"""Instructions: each of them, and all of them together."""

from typing import Any

import pytest

from grading import item, score, value
from quantgate.metrics.instructions import Instructions


def follows(text: str, **options: Any) -> float | None:
    """Score a text against instructions."""
    return value(Instructions(), item("instructions", options=options), text)


@pytest.mark.parametrize(
    ("options", "good", "bad"),
    [
        ({"min_words": 3}, "one two three", "one two"),
        ({"max_words": 3}, " one two  three ", "one two three four"),
        ({"min_characters": 3}, "\u6211\u7231\u4f60", "\u6211\u7231"),
        ({"max_characters": 4}, " cafe\u0301 ", "cafes"),
        ({"contains": ("alpha", "beta")}, "Alphabetic BETA", "alpha"),
        ({"contains": ("strasse",)}, "Stra\u00dfe", "Strase"),
        ({"excludes": ("sorry", "cannot")}, "fine", "I CANNOT do it"),
        ({"starts_with": "Dear"}, "dear all", "All, dear"),
        ({"ends_with": "Bye."}, "so long, bye.\n", "bye. Then"),
        ({"bullets": 2}, "List:\n- a\n * b", "- a\n- b\n- c"),
        ({"bullets": 3}, "1. a\n2) b\n\u2022 c", "1.a\n2.b\n3.c"),
        ({"bullets": 0}, "none - at all", "- one"),
        ({"no_comma": True}, "a and b", "a, b"),
        ({"no_comma": False}, "a, b", "a and b"),
        ({"json": True}, '{"a": [1]}', "{'a': 1}"),
        ({"json": True}, "3", "NaN"),
        ({"json": False}, "plain words", "3"),
    ],
)
def test_each_instruction(options: dict[str, Any], good: str, bad: str) -> None:
    """One text follows it, another does not, and an empty one follows nothing."""
    assert (follows(good, **options), follows(bad, **options), follows(" ", **options)) == (1.0, 0.0, 0.0)


def test_all_must_hold() -> None:
    """One broken instruction is enough."""
    assert follows("a b", max_words=2, no_comma=True) == 1.0
    assert follows("a, b", max_words=2, no_comma=True) == 0.0
    assert follows("a b c", max_words=2, no_comma=True) == 0.0


def test_the_report_says_what_was_asked() -> None:
    """Names and values of the instructions."""
    one = item("instructions", options={"max_words": 2, "contains": ("x", "y")})
    assert score(Instructions(), one, "x").expected == "max_words: 2; contains: 'x', 'y'"


def test_instructions_that_exclude_each_other_are_told_before_a_run() -> None:
    """No text has at least five and at most three words."""
    one = item("instructions", options={"min_words": 5, "max_words": 3})
    assert "no text can follow both" in str(Instructions().why_unfit(one))
    assert Instructions().why_unfit(item("instructions", options={"min_words": 3, "max_words": 3})) is None


def test_an_item_without_instructions_is_an_error() -> None:
    """Everything would be right."""
    with pytest.raises(ValueError, match="no instructions"):
        score(Instructions(), item("instructions"), "x")


@pytest.mark.parametrize(
    "options",
    [
        {"contains": ("a",), "excludes": ("A",)},
        {"contains": ("a,b",), "no_comma": True},
        {"max_characters": 3, "contains": ("abcdef",)},
        {"starts_with": "abc", "excludes": ("b",)},
        {"max_words": 0},
    ],
)
def test_instructions_that_no_text_can_follow_are_told_before_a_run(options: dict[str, Any]) -> None:
    """What must stand in the output may not be forbidden, nor longer than the output."""
    assert Instructions().why_unfit(item("instructions", options=options)) is not None
    assert Instructions().why_unfit(item("instructions", options={"contains": ("a",), "excludes": ("ab",), "max_words": 9})) is None
