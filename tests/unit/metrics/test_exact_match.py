"""Exact match: what it forgives, what it does not, and when there is no score."""

import dataclasses

import pytest

from quantgate.metrics.exact_match import ExactMatch, normalise
from quantgate.ports import Metric
from quantgate.records import GoldenItem, ItemEvidence

ITEM = GoldenItem(
    item_id="a",
    slice="s",
    prompt="p",
    metric="exact_match",
    cluster="k",
    answers=("Paris", "City of Light"),
    stop=("\n",),
)


def evidence(text: str | None, *, nonfinite: bool = False, truncated: bool = False) -> ItemEvidence:
    """Give what a model wrote for the item."""
    return ItemEvidence(item_id="a", text=text, nonfinite=nonfinite, truncated=truncated)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  Paris ", "paris"),
        ("PARIS.", "paris"),
        ("Paris!?", "paris"),
        ('"Paris."', "paris"),
        ("`Paris`;", "paris"),
        ("\u201cParis\u201d", "paris"),
        ("'`Paris`'", "paris"),
        ("city\t of\n light", "city of light"),
        ("Stra\u00dfe", "strasse"),
        ("cafe\u0301", "caf\u00e9"),
        ("( B )", "(b)"),
        ("[ 1, 2 ]", "[1, 2]"),
        ("-5", "-5"),
        ("5'", "5'"),
        ('5"', '5"'),
        ("o'clock", "o'clock"),
        ("?", "?"),
        ('"', '"'),
        ('""', '""'),
        ("...", "..."),
        ("", ""),
        (" \n", ""),
    ],
)
def test_normalise_forgives_form(text: str, expected: str) -> None:
    """Case, spacing, Unicode form, surrounding quotes and closing punctuation go; content never does."""
    assert normalise(text) == expected
    assert normalise(expected) == expected


@pytest.mark.parametrize(
    ("text", "stop", "expected"),
    [
        (" Paris\nQ: next", ("\n",), "paris"),
        ("Paris Q: next", ("\n", "Q:"), "paris"),
        ("faq: yes", ("Q:",), "faq: yes"),
        ("cafe\u0301 x", ("\u00e9",), "caf"),
        ("\nParis", ("\n",), ""),
        ("Paris", ("",), "paris"),
    ],
)
def test_normalise_cuts_at_the_first_stop_string(text: str, stop: tuple[str, ...], expected: str) -> None:
    """The earliest stop string ends the text; upper and lower case are told apart, Unicode forms are not."""
    assert normalise(text, stop) == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [(" paris.\nQ: more", 1.0), ("the city of light", 0.0), ("City of  Light", 1.0), ("Paris, France", 0.0), ("", 0.0)],
)
def test_any_right_answer_counts(text: str, value: float) -> None:
    """The whole text must equal one of the answers."""
    score = ExactMatch().score(ITEM, evidence(text))
    assert (score.value, score.why_unscored) == (value, None)


def test_the_score_carries_what_a_reader_needs() -> None:
    """Slice, cluster, the text up to the stop string, all right answers and the evidence are in the score."""
    found = evidence(" Paris\nQ: more")
    score = ExactMatch().score(ITEM, found)
    assert (score.item_id, score.slice, score.cluster) == ("a", "s", "k")
    assert (score.answered, score.expected) == ("Paris", "Paris | City of Light")
    assert score.evidence is found


def test_truncated_text_is_judged_on_its_text() -> None:
    """An answer that is right and cut at the length cap is right."""
    assert ExactMatch().score(ITEM, evidence("Paris", truncated=True)).value == 1.0


@pytest.mark.parametrize(
    ("found", "reason"),
    [(evidence("Paris", nonfinite=True), "non-finite logits"), (evidence(None), "no text was generated")],
)
def test_no_evidence_is_no_score(found: ItemEvidence, reason: str) -> None:
    """Non-finite logits or a missing text give None with the reason, never 0, even where the text would match."""
    score = ExactMatch().score(ITEM, found)
    assert (score.value, score.why_unscored) == (None, reason)


def test_an_empty_text_never_equals_an_answer_of_punctuation() -> None:
    """Normalising '?' does not empty it, so that saying nothing is not right."""
    item = dataclasses.replace(ITEM, answers=("?",))
    assert ExactMatch().score(item, evidence("")).value == 0.0
    assert ExactMatch().score(item, evidence("?")).value == 1.0


def test_evidence_of_another_item_is_refused() -> None:
    """Evidence is joined to its own item only, and an item without answers cannot be scored."""
    with pytest.raises(ValueError, match="was given for item"):
        ExactMatch().score(ITEM, ItemEvidence(item_id="b", text="Paris"))
    with pytest.raises(ValueError, match="no answers"):
        ExactMatch().score(dataclasses.replace(ITEM, answers=()), evidence("Paris"))


def test_the_metric_fits_its_port() -> None:
    """It states its direction and the normalisation that it uses."""
    metric: Metric = ExactMatch()
    assert (metric.info.name, metric.info.needs, metric.info.higher_is_better) == ("exact_match", "text", True)
    assert "NFC" in metric.info.definition
