"""BLEU: the library's own figures, for a sentence and for a corpus whose counts were added up."""

import pytest
from sacrebleu import corpus_bleu, sentence_bleu

from grading import item, score, value
from quantgate.metrics.bleu import Bleu

PAIRS = (
    ("the cat sat on the mat near the door", ("the cat is on the mat near a door", "a cat sat on the mat")),
    ("he reads a book", ("he was reading a long book today", "he reads books")),
    ("completely different", ("nothing of the kind stands here", "nothing at all")),
    ("", ("an answer was wanted here", "an answer")),
)


def test_a_sentence_is_as_the_library_has_it() -> None:
    """Sentence BLEU / 100."""
    for text, references in PAIRS:
        assert value(Bleu(), item("bleu", references=references), text) == sentence_bleu(text, list(references)).score / 100


def test_the_corpus_is_as_the_library_has_it() -> None:
    """From the added counts, and neither the mean of sentences nor dependent on the order."""
    scores = [score(Bleu(), item("bleu", references=references), text) for text, references in PAIRS]
    expected = corpus_bleu([text for text, _ in PAIRS], list(zip(*(one for _, one in PAIRS), strict=True))).score
    assert Bleu().combine(scores) == pytest.approx(expected, abs=1e-12)
    assert Bleu().combine(scores[::-1]) == Bleu().combine(scores)
    assert expected != pytest.approx(100 * sum(one.value or 0 for one in scores) / len(scores), abs=0.1)


def test_nothing_scored_is_no_figure() -> None:
    """None, never 0."""
    assert Bleu().combine([score(Bleu(), item("bleu", references=("a",)), None)]) is None
    assert Bleu().combine([]) is None


def test_tokenizer_and_case() -> None:
    """Another tokenizer or lower case is another figure with another name."""
    chinese = item("bleu", references=("\u6211\u7231\u5317\u4eac\u5929\u5b89\u95e8",), options={"tokenize": "char"})
    assert value(Bleu(), chinese, "\u6211\u7231\u5317\u4eac\u5929\u5b89\u95e8") == pytest.approx(1.0)
    lower = item("bleu", references=("THE CAT SAT DOWN",), options={"lowercase": True})
    assert value(Bleu(), lower, "the cat sat down") == pytest.approx(1.0)
    assert {Bleu().info_of(one).name for one in (chinese, lower, item("bleu"))} == {"bleu", "bleu, char", "bleu, 13a, lower case"}


def test_an_item_without_references_is_an_error() -> None:
    """There would be nothing to compare with."""
    with pytest.raises(ValueError, match="no references"):
        score(Bleu(), item("bleu"), "x")
