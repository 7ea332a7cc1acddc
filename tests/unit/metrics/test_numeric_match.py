"""Numeric match: which number counts, and when two are equal."""

import pytest

from grading import item, score, value
from quantgate.metrics.numeric_match import NumericMatch

METRIC = NumericMatch()


def right(answer: str, text: str, **options: object) -> float | None:
    """Score a text against one answer."""
    return value(METRIC, item("numeric_match", answers=(answer,), options=options), text)


@pytest.mark.parametrize(
    ("answer", "text", "expected"),
    [
        ("18", "She makes 9 * 2 = $18 every day.", 1.0),
        ("18", "18 is not it, 19 is.", 0.0),
        ("18", "No idea.", 0.0),
        ("18", "", 0.0),
        ("18", "so 3 + 4 = 7\n#### 18", 1.0),
        ("18", "#### 18\nbut then 5 more words", 1.0),
        ("18", "#### unknown", 0.0),
        ("18", "first #### 17, no: #### 18 apples of 20", 1.0),
        ("0.1", "0.10", 1.0),
        ("100000000000000000000000000001", "100000000000000000000000000000", 0.0),
    ],
)
def test_which_number_counts(answer: str, text: str, expected: float) -> None:
    """The last one, or the first behind the last marker; no number is wrong, never unscored."""
    assert right(answer, text) == expected


def test_the_first_number_counts_where_the_item_says_so() -> None:
    """``take: first``; the marker goes before it, another marker may be named."""
    assert right("3", "3 of 4", take="first") == 1.0
    assert right("3", "3 of 4") == 0.0
    assert right("5", r"so 3, then \boxed{5} of 7", marker="\\boxed{") == 1.0
    assert right("7", "#### 5 of 7", marker="") == 1.0


@pytest.mark.parametrize(
    ("options", "text", "expected"),
    [
        ({}, "3.1416", 0.0),
        ({"tolerance": 0.01}, "3.1416", 1.0),
        ({"tolerance": 0.01}, "3.15", 1.0),
        ({"tolerance": 0.01}, "3.1501", 0.0),
        ({"relative_tolerance": 0.1}, "3.454", 1.0),
        ({"relative_tolerance": 0.1}, "3.4541", 0.0),
    ],
)
def test_tolerance(options: dict[str, float], text: str, expected: float) -> None:
    """Equal to the last digit, within an absolute or a relative tolerance, its limit included, free of float noise."""
    assert right("3.14", text, **options) == expected


def test_any_answer_counts_and_the_text_ends_at_the_stop_string() -> None:
    """Two right answers; what stands behind the stop string is not read."""
    one = item("numeric_match", answers=("5", "7"), stop=("\n",))
    assert [value(METRIC, one, text) for text in ("7", "5", "6", "7\n8")] == [1.0, 1.0, 0.0, 1.0]


def test_the_number_taken_is_shown() -> None:
    """The report shows the number, not the whole solution; and the tuple where one is wanted."""
    found = score(METRIC, item("numeric_match", answers=("9500",)), "about $9,500.00 in all")
    assert (found.answered, found.expected) == ("9500.00", "9500")
    assert score(METRIC, item("numeric_match", answers=("0,1",)), "it is (0, 1)").answered == "0, 1"


def test_no_text_is_no_score_and_an_unfit_item_is_an_error() -> None:
    """Without a text there is nothing to judge; answers that are none are refused."""
    found = score(METRIC, item("numeric_match", answers=("1",)), None)
    assert (found.value, found.why_unscored) == (None, "no text was generated")
    for answers in ((), ("one",)):
        with pytest.raises(ValueError, match=r"no answers|no number"):
            score(METRIC, item("numeric_match", answers=answers), "1")
