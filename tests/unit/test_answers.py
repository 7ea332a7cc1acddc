"""Answers that say nothing: which are counted, and which must not be."""

import pytest

from quantgate.answers import is_empty, is_refusal


@pytest.mark.parametrize("text", ["", "  \n\t", "\u200b", "\ufeff \u200b"])
def test_empty_answers(text: str) -> None:
    """Nothing that can be seen is empty."""
    assert is_empty(text)


@pytest.mark.parametrize("text", ["0", ".", "None", "\u00e9"])
def test_short_answers_are_not_empty(text: str) -> None:
    """One character is an answer, zero too."""
    assert not is_empty(text)


@pytest.mark.parametrize(
    "text",
    [
        "I can't help with that.",
        "I\u2019m sorry, but I can\u2019t do this",
        "I cannot assist you with this request.",
        "As an AI language model, I have no opinion.",
        "I am unable to provide that information",
        "I'm just an AI",
        "I won't be able to help you",
    ],
)
def test_refusals(text: str) -> None:
    """Usual beginnings of refusals, with either apostrophe and in any case."""
    assert is_refusal(text)
    assert is_refusal(text.upper())


@pytest.mark.parametrize(
    "text",
    [
        "42",
        "Paris",
        "The AI can help.",
        "She said: I can help.",
        "x" * 200 + " I can't help with that.",
        "He cannot swim.",
        "",
    ],
)
def test_answers_that_are_none(text: str) -> None:
    """Answers that mention such words, or say them late, are not counted."""
    assert not is_refusal(text)
