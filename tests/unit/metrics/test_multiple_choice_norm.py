"""Multiple choice per character and per byte: the length of a choice is divided out, and ties go to the first."""

import json

import pytest

from foreign import LM_EVAL_FILES, real_files
from grading import item
from quantgate.metrics.multiple_choice import MultipleChoice
from quantgate.metrics.multiple_choice_norm import MultipleChoiceNorm
from quantgate.metrics.multiple_choice_norm_bytes import MultipleChoiceNormBytes
from quantgate.records import ItemEvidence

METRICS = (MultipleChoice(), MultipleChoiceNorm(), MultipleChoiceNormBytes())


def chosen(choices: tuple[str, ...], totals: tuple[float | None, ...]) -> list[str]:
    """Which choice each of the three takes."""
    one = item("multiple_choice", choices=choices, answer=0)
    return [metric.score(one, ItemEvidence(item_id="a", loglikelihoods=totals)).answered for metric in METRICS]


def test_the_length_is_divided_out() -> None:
    """-4 over two characters loses to -5 over five, though its sum is larger."""
    assert chosen(("no", "maybe"), (-4.0, -5.0)) == ["no", "maybe", "maybe"]


def test_characters_and_bytes_differ_beyond_ascii() -> None:
    """Two characters of six bytes against three of three: per character the second wins, per byte the first."""
    assert chosen(("\u65e5\u672c", "abc"), (-4.0, -4.5)) == ["\u65e5\u672c", "abc", "\u65e5\u672c"]


def test_a_tie_goes_to_the_first_and_a_missing_number_is_no_score() -> None:
    """As in the plain metric."""
    assert chosen(("ab", "cd"), (-3.0, -3.0)) == ["ab"] * 3
    assert chosen(("ab", "cd"), (-3.0, None)) == [""] * 3


@real_files
@pytest.mark.parametrize("name", ["fp32", "int8", "nf4"])
def test_another_harness_agrees_on_every_item(name: str) -> None:
    """On the log-likelihoods that lm-evaluation-harness stored, acc and acc_norm of all 400 items are the ones it stored."""
    lines = (LM_EVAL_FILES / f"mc400-{name}.jsonl").read_text(encoding="utf-8").splitlines()
    for row in map(json.loads, lines):
        one = item("multiple_choice", choices=tuple(row["doc"]["choices"]), answer=row["doc"]["answer"])
        totals = tuple(float(answer[0][0]) for answer in row["resps"])
        found = [metric.score(one, ItemEvidence(item_id="a", loglikelihoods=totals)).value for metric in METRICS[:2]]
        assert found == [row["acc"], row["acc_norm"]], row["doc"]["id"]
    assert len(lines) == 400
