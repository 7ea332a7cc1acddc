"""ROUGE: the library's figures on English, and every script kept."""

import pytest
from rouge_score.rouge_scorer import RougeScorer

from grading import item, score, value
from quantgate.metrics.rouge import Rouge

FOX = ("The quick brown fox jumps over the lazy dog.", "The quick-brown dog jumps on the log!")


@pytest.mark.parametrize("kind", ["rouge1", "rouge2", "rougeL"])
def test_english_is_as_the_library_has_it(kind: str) -> None:
    """On plain English the tokenizer of ours and the library's own give the same figure."""
    target, prediction = FOX
    expected = RougeScorer([kind]).score(target, prediction)[kind].fmeasure
    assert 0 < expected < 1
    assert value(Rouge(), item("rouge", references=(target,), options={"kind": kind}), prediction) == expected


def test_left_out_the_kind_is_rouge_l_and_the_best_reference_counts() -> None:
    """The longest common subsequence, the largest over references."""
    one = item("rouge", references=("nothing alike", FOX[0]))
    assert value(Rouge(), one, FOX[1]) == RougeScorer(["rougeL"]).score(*FOX)["rougeL"].fmeasure


CHINESE, RUSSIAN = "\u6211\u4eec\u5728\u5317\u4eac\u5403\u70e4\u9e2d\u5427", "\u0417\u0434\u0440\u0430\u0432\u0441\u0442\u0432\u0443\u0439"
FRENCH, HINDI = "na\u00efve caf\u00e9", "\u0939\u093f\u0928\u094d\u0926\u0940"


@pytest.mark.parametrize("text", [CHINESE, RUSSIAN, FRENCH, HINDI])
def test_other_scripts_are_not_dropped(text: str) -> None:
    """Equal texts score 1 in any script, and another text less."""
    one = item("rouge", references=(text,), options={"kind": "rouge1"})
    assert value(Rouge(), one, text) == 1.0
    assert value(Rouge(), one, "x") == 0.0


def test_an_empty_answer_is_wrong() -> None:
    """0, neither a crash nor no score."""
    assert value(Rouge(), item("rouge", references=("foo",)), "") == 0.0


def test_kinds_are_told_apart() -> None:
    """Figures of two kinds have two names, so that they are never averaged."""
    names = [Rouge().info_of(item("rouge", references=("a",), options={"kind": kind})).name for kind in ("rouge1", "rougeL")]
    assert names == ["rouge1", "rougeL"]


def test_a_reference_that_nothing_can_match_is_refused_before_a_run() -> None:
    """No word at all, or one word where pairs of words are counted."""
    assert "references[0] holds no word" in str(Rouge().why_unfit(item("rouge", references=("...",))))
    one = item("rouge", references=("two words", "one"), options={"kind": "rouge2"})
    assert "references[1] holds fewer than 2 words" in str(Rouge().why_unfit(one))
    assert Rouge().why_unfit(item("rouge", references=("one",))) is None
    with pytest.raises(ValueError, match="no references"):
        score(Rouge(), item("rouge"), "x")
