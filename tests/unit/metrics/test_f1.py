"""F1 over words: the published definition, and what it does to empty and other scripts' text."""

import pytest

from grading import item, score, value
from quantgate.metrics.f1 import F1, f1


@pytest.mark.parametrize(
    ("answer", "reference", "expected"),
    [
        ("eiffel tower in paris", "eiffel tower", 2 / 3),
        ("The Eiffel Tower!", "eiffel tower", 1.0),
        ("a cat and a dog", "dog cat", 0.8),
        ("the the", "cat", 0.0),
        ("yes yes", "yes", 2 / 3),
        ("$5.00", "500", 1.0),
        ("", "foo", 0.0),
        ("the", "an", 1.0),
        ("\u201cParis\u201d\u3002", "paris", 1.0),
        ("\u6211\u7231\u5317\u4eac", "\u6211\u7231\u5317\u4eac", 1.0),
        ("\u6211\u7231\u5317\u4eac", "\u5317\u4eac", 2 / 3),
        ("\u041c\u043e\u0441\u043a\u0432\u0430", "\u041c\u043e\u0441\u043a\u0432\u0430", 1.0),
        ("cafe\u0301", "caf\u00e9", 1.0),
    ],
)
def test_f1_of_two_texts(answer: str, reference: str, expected: float) -> None:
    """Words as a bag; articles, case and punctuation are form; no script is dropped."""
    assert f1(answer, reference) == pytest.approx(expected, abs=1e-12)


def test_the_best_reference_counts() -> None:
    """As published: the maximum over references."""
    assert value(F1(), item("f1", references=("x", "blue sky")), "blue sky") == 1.0
    assert score(F1(), item("f1", references=("x", "y")), "z").expected == "x | y"


def test_an_item_without_references_is_an_error() -> None:
    """There would be nothing to compare with."""
    with pytest.raises(ValueError, match="no references"):
        score(F1(), item("f1"), "x")


@pytest.mark.parametrize("reference", ["+", "the", "?"])
def test_a_reference_without_a_word_is_told_before_a_run(reference: str) -> None:
    """An empty output would equal it."""
    assert "an empty output would be right" in (F1().why_unfit(item("f1", references=("Paris", reference))) or "")
    assert F1().why_unfit(item("f1", references=("Paris",))) is None
