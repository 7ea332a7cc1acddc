"""Public bug reports, part K: what belongs to exact match."""

import pytest

from quantgate.metrics.exact_match import ExactMatch
from quantgate.records import GoldenItem, ItemEvidence


def score(gold: str | tuple[str, ...], prediction: str) -> float | None:
    """Score a prediction against one right answer or several."""
    answers = (gold,) if isinstance(gold, str) else gold
    item = GoldenItem(item_id="a", slice="s", prompt="p", metric="exact_match", answers=answers)
    return ExactMatch().score(item, ItemEvidence(item_id="a", text=prediction)).value


@pytest.mark.parametrize(("gold", "prediction"), [("(B)", "( B )"), ("hello world", "hello  world")])
def test_b89_white_space_left_over(gold: str, prediction: str) -> None:
    """B89: blanks inside brackets and doubled blanks do not make an answer wrong."""
    assert score(gold, prediction) == 1.0
    assert score(prediction, gold) == 1.0


@pytest.mark.parametrize(("gold", "prediction"), [("0,1", "01"), ("0,1", "0.1"), ("12,34", "1234"), ("(0, 1)", "(01)")])
def test_b90_commas_are_content(gold: str, prediction: str) -> None:
    """B90: a tuple '0,1' stays '0,1'; no comma is dropped, so '12,34' is not 1234."""
    assert score(gold, gold) == 1.0
    assert score(gold, prediction) == 0.0


@pytest.mark.parametrize(("plain", "written"), [("9500", "$9,500"), ("29", "$29.00"), ("9500", "9{,}500")])
def test_b90_numbers_are_text_here(plain: str, written: str) -> None:
    """B90: exact match reads no numbers; a set that accepts two spellings lists both, and then both are right."""
    assert score(plain, written) == 0.0
    assert score((plain, written), written) == 1.0


def test_b90_a_closing_full_stop_is_no_decimal() -> None:
    """B90: '72.' is 72, while the point inside '7.2' stays."""
    assert score("72", "72.") == 1.0
    assert score("72", "7.2") == 0.0
