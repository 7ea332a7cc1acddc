"""Public bug reports, part K: graded metrics, numbers, intervals, weights, directions, and whose answers are used."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from chain import CONTROL, REFERENCE, Chain, candidate, report_of, reused_of
from grading import item, score, value
from quantgate import golden
from quantgate.errors import GoldenSetError, ResultsError
from quantgate.metrics.exact_match import ExactMatch
from quantgate.metrics.f1 import F1
from quantgate.metrics.library import Library
from quantgate.metrics.numeric_match import NumericMatch
from quantgate.metrics.perplexity import Perplexity
from quantgate.metrics.rouge import Rouge
from quantgate.metrics.scored import weighted_mean
from quantgate.readers.table import TableReader
from quantgate.records import ItemEvidence, ItemScore, ReadOptions
from quantgate.stages.figures import figures
from quantgate.stages.report import with_interval
from quantgate.stats.noninferiority import decide_paired
from quantgate.stats.proportions import standard_error, wilson


def numeric(gold: str, prediction: str) -> float | None:
    """Score a prediction against a number or a tuple."""
    return value(NumericMatch(), item("numeric_match", answers=(gold,)), prediction)


@pytest.mark.parametrize(
    ("gold", "prediction", "expected"),
    [
        ("9500", "$9,500", 1.0),
        ("29", "$29.00", 1.0),
        ("72", "The total is 72 clips, altogether.", 1.0),
        ("9500", "9{,}500", 1.0),
        ("0,1", "0,1", 1.0),
        ("0,1", "(0, 1)", 1.0),
        ("0,1", "01", 0.0),
        ("1", "0,1", 0.0),
        ("1234", "12,34", 0.0),
        ("12", "12,34", 0.0),
        ("34", "12,34", 0.0),
    ],
)
def test_b90_numbers_are_read_as_numbers(gold: str, prediction: str, expected: float) -> None:
    """B90: separators, currency and trailing zeros are form; a tuple stays one; 12,34 is no number, nor is a part of it."""
    assert numeric(gold, prediction) == expected


NINE = "\u4eca\u5929\u5929\u6c14\u5f88\u597d\u6211\u4eec\u5403"


@pytest.mark.parametrize("metric", [F1(), Rouge()])
@pytest.mark.parametrize(("prediction", "gold", "expected"), [(NINE, NINE, 1.0), ("", "foo", 0.0)])
def test_b91_empty_and_other_scripts(metric: Any, prediction: str, gold: str, expected: float) -> None:
    """B91: nine Chinese characters equal themselves, and an empty answer is 0."""
    assert value(metric, item(metric.info.name.lower().rstrip("l"), references=(gold,)), prediction) == expected


def test_b91_an_empty_reference_is_a_data_error(tmp_path: Path) -> None:
    """B91: empty against empty never comes up: the reader refuses the reference with its line."""
    path = tmp_path / "set.jsonl"
    path.write_text(json.dumps({"id": "a", "prompt": "p", "metric": "f1", "references": [""]}), encoding="utf-8")
    with pytest.raises(GoldenSetError, match=r"set.jsonl:1: references\[0\]: empty"):
        golden.load(path)


def test_b91_f1_of_a_longer_answer() -> None:
    """B91: 'eiffel tower in paris' against 'eiffel tower' is 2/3."""
    found = value(F1(), item("f1", references=("eiffel tower",)), "eiffel tower in paris")
    assert found == pytest.approx(2 / 3, abs=1e-12)


def test_b94_a_standard_error() -> None:
    """B94: 263 of 307 is 0.856678 +- 0.020031; of one item there is none."""
    assert pytest.approx(0.856678, abs=5e-7) == 263 / 307
    assert standard_error(k=263, n=307) == pytest.approx(0.020031, abs=5e-7)
    assert standard_error(k=1, n=1) is None


@pytest.mark.parametrize(("n", "upper"), [(25, 0.1332), (5000, 0.00077)])
def test_b94_none_right_is_no_certainty(n: int, upper: float) -> None:
    """B94: 0 of 25 and 0 of 5000 have upper bounds, never +-0.0000; the figure that is shown carries them."""
    assert wilson(k=0, n=n, alpha=0.05).upper == pytest.approx(upper, rel=5e-3)
    assert wilson(k=0, n=n, alpha=0.05).lower == 0.0
    items = [item("exact_match", answers=("x",))] * n
    scores = [score(ExactMatch(), one, "y") for one in items]
    (figure,) = figures(items, scores, {"exact_match": ExactMatch()})
    figure = with_interval(figure)
    assert (figure.value, figure.lower, figure.upper) == (0.0, 0.0, wilson(k=0, n=n, alpha=0.05).upper)


def test_b94_one_item_cannot_pass() -> None:
    """B94: on one item that both answer rightly nothing is shown, whatever the margin."""
    for margin in (0.01, 0.05, 0.5):
        assert decide_paired(b=0, c=0, n=1, margin=margin, alpha=0.05).outcome == "inconclusive"


def test_b94_words_in_a_column_of_numbers(tmp_path: Path) -> None:
    """B94: 'N/A' where a number belongs is refused with its line."""
    path = tmp_path / "scores.csv"
    path.write_text("id,score\na,1\nb,N/A\n", encoding="utf-8")
    with pytest.raises(ResultsError, match=r"scores\.csv:3: score: found the string 'N/A'"):
        TableReader().read(path, ReadOptions())


def scored(values: list[tuple[float, float]]) -> list[ItemScore]:
    """Scores of these values and weights."""
    return [
        ItemScore(item_id=str(n), slice="s", cluster=None, value=one, weight=weight, evidence=ItemEvidence(item_id=str(n)))
        for n, (one, weight) in enumerate(values)
    ]


def test_b95_a_mean_and_its_error_use_the_same_weights() -> None:
    """B95: 100 items at .9 and 10 at .4 are 0.8545 by size and 0.65 by slice; beside weights that differ stands no interval."""
    rows = [(1.0, 1.0)] * 90 + [(0.0, 1.0)] * 10 + [(1.0, 1.0)] * 4 + [(0.0, 1.0)] * 6
    assert weighted_mean(scored(rows)) == pytest.approx(0.8545, abs=5e-5)
    by_slice = [(one, 1.0 if n < 100 else 10.0) for n, (one, _) in enumerate(rows)]
    assert weighted_mean(scored(by_slice)) == pytest.approx(0.65, abs=1e-12)
    items = [item("exact_match", answers=("x",))] * len(rows)
    metrics = {"exact_match": ExactMatch()}
    equal, unequal = (with_interval(figures(items, scored(one), metrics)[0]) for one in (rows, by_slice))
    assert equal.lower is not None and equal.upper is not None and equal.lower < 0.8545 < equal.upper
    assert (unequal.value, unequal.lower, unequal.upper) == (pytest.approx(0.65), None, None)


def test_b95_four_means_by_size() -> None:
    """B95: 24.21, 23.82, 21.71, 21.31 of 4705, 3077, 3107, 3153: 22.920 by size, 22.7625 unweighted."""
    means, sizes = (24.21, 23.82, 21.71, 21.31), (4705.0, 3077.0, 3107.0, 3153.0)
    assert weighted_mean(scored(list(zip(means, sizes, strict=True)))) == pytest.approx(22.920, abs=5e-4)
    assert weighted_mean(scored([(one, 1.0) for one in means])) == pytest.approx(22.7625, abs=1e-9)


def test_b97_lower_is_better_where_it_is_declared() -> None:
    """B97: 0.0137 after 0.010 of a metric declared 'lower' is the worse score, whatever its name says."""
    metric = Library()
    metric._metric = lambda one: type("Theirs", (), {"compute": lambda self, **given: {"kl_mean": float(given["predictions"][0])}})()  # type: ignore[method-assign]
    declared = {"path": "kl_mean.py", "key": "kl_mean", "scale": "unbounded"}
    for direction, worse in (("lower", True), ("higher", False)):
        one = item("library", options={**declared, "direction": direction})
        before, after = value(metric, one, "0.010"), value(metric, one, "0.0137")
        assert before is not None and after is not None and (after < before) is worse


def test_b97_a_perplexity_that_explodes_is_worse() -> None:
    """B97: 7.46 -> 243848 is a fall of the item's score, though the figure rises."""
    before, after = (
        Perplexity().score(item("perplexity"), ItemEvidence(item_id="a", loglikelihoods=(-math.log(ppl) * 10,), scored_tokens=10))
        for ppl in (7.46, 243848.0)
    )
    assert Perplexity().combine([after]) == pytest.approx(243848.0)
    assert before.value is not None and after.value is not None and after.value < before.value


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"metric": "mean_rmsd"}, "metric: found 'mean_rmsd'"),
        ({"metric": "library", "options": {"name": "rmsd", "key": "rmsd", "scale": "unbounded"}}, "options.direction: missing"),
    ],
)
def test_b97_no_direction_is_guessed(tmp_path: Path, row: dict[str, Any], says: str) -> None:
    """B97: a metric that is not known, or whose direction is not declared, is an error before anything runs."""
    path = tmp_path / "set.jsonl"
    path.write_text(json.dumps({"id": "a", "prompt": "p", **row}), encoding="utf-8")
    with pytest.raises(GoldenSetError) as caught:
        golden.load(path)
    assert says in str(caught.value)


def test_b98_answers_belong_to_the_model_that_gave_them(chain: Chain) -> None:
    """B98: under one cache path a worse model of the same name gets its own answers, and only an equal one reuses them."""
    assert chain.run().code == 0
    good = report_of(chain.last)
    assert chain.run(variants=[REFERENCE, candidate(error_rate=0.9), CONTROL]).code == 1
    bad = report_of(chain.last)
    right = [next(row["accuracy"] for row in one["quality"] if row["variant"] == "int8") for one in (good, bad)]
    assert right[0] > 0.7 and right[1] < 0.3
    assert not reused_of(chain.last)["int8"]
    assert [one for one in reused_of(chain.last)["float32"] if one.startswith("score")]
