"""Regular expression: found anywhere, or the whole text."""

import json

import pytest

from grading import item, score, value
from quantgate.errors import GoldenSetError
from quantgate.golden_items import parse
from quantgate.metrics.regex import Regex


def right(text: str, **options: object) -> float | None:
    """Score a text against a pattern."""
    return value(Regex(), item("regex", options=options, stop=("\n",)), text)


def test_search_and_full_match() -> None:
    """Search finds inside, full wants all of the text but for white space at its ends."""
    assert right("code AB-12 it is", pattern=r"[A-Z]{2}-\d+") == 1.0
    assert right("code AB-12 it is", pattern=r"[A-Z]{2}-\d+", where="full") == 0.0
    assert right(" AB-12 ", pattern=r"[A-Z]{2}-\d+", where="full") == 1.0


def test_case_counts_unless_the_item_says_otherwise() -> None:
    """``ignore_case`` makes upper and lower case one."""
    assert (right("ab-12", pattern="AB"), right("ab-12", pattern="AB", ignore_case=True)) == (0.0, 1.0)


def test_the_text_ends_at_the_stop_string() -> None:
    """What stands behind it is not searched."""
    assert right("no\nAB", pattern="AB") == 0.0


def test_an_item_without_a_pattern_is_an_error() -> None:
    """It would match everything."""
    with pytest.raises(ValueError, match="no pattern"):
        score(Regex(), item("regex"), "x")


@pytest.mark.parametrize(("pattern", "where"), [(".*", "search"), ("x*", "search"), ("a|", "search"), ("^$", "full"), ("b?", "full")])
def test_a_pattern_that_the_empty_text_matches_is_refused(pattern: str, where: str) -> None:
    """A model that writes nothing would be right; the line is named."""
    row = {"id": "1", "prompt": "p", "metric": "regex", "options": {"pattern": pattern, "where": where}}
    with pytest.raises(GoldenSetError, match="empty text") as caught:
        parse(json.dumps(row).encode(), "f")
    assert caught.value.line == 1
