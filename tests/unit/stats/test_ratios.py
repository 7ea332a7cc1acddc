"""The perplexity ratio: estimate, uncertainty over documents, and when nothing is shown."""

from math import exp, inf, log

import numpy as np
import pytest
from scipy import special

from quantgate.stats.ratios import perplexity_ratio


def documents(n: int = 40, change: float = 0.01, spread: float = 0.02, seed: int = 1) -> dict[str, np.ndarray]:
    """Documents of several lengths whose nats per token change by about `change`."""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(200, 400, n).astype(float)
    reference = tokens * rng.normal(2.5, 0.3, n)
    return {
        "reference_nats": reference,
        "variant_nats": reference + tokens * rng.normal(change, spread, n),
        "tokens": tokens,
    }


def test_the_estimate_is_the_ratio_of_the_corpus_perplexities() -> None:
    """Total nats over total tokens, then exp; not a mean over documents."""
    rows = documents()
    perplexity = {side: exp(rows[f"{side}_nats"].sum() / rows["tokens"].sum()) for side in ("reference", "variant")}
    assert perplexity_ratio(**rows).ratio == pytest.approx(perplexity["variant"] / perplexity["reference"])


def test_the_documents_own_difficulty_drops_out() -> None:
    """Pairs: the same change on harder text has the same uncertainty."""
    rows = documents()
    harder = {**rows, **{side: rows[side] + 5 * rows["tokens"] for side in ("reference_nats", "variant_nats")}}
    assert perplexity_ratio(**harder).standard_error == pytest.approx(perplexity_ratio(**rows).standard_error)


def test_documents_of_one_length_are_a_t_interval() -> None:
    """Degrees of freedom are documents - 1, and Student's bounds where the changes are symmetrical."""
    change = np.tile([-0.02, 0.0, 0.02, 0.04], 5)
    found = perplexity_ratio(
        reference_nats=np.full(20, 250.0), variant_nats=250 + 100 * change, tokens=np.full(20, 100.0)
    )
    half = special.stdtrit(19, 0.95) * change.std(ddof=1) / 20**0.5
    assert found.studentised.degrees_of_freedom == pytest.approx(19)
    assert found.standard_error == pytest.approx(change.std(ddof=1) / 20**0.5)
    assert log(found.bounds(0.05).upper) == pytest.approx(0.01 + half)
    assert log(found.bounds(0.05).lower) == pytest.approx(0.01 - half)


@pytest.mark.parametrize("limit", [0.99, 1.0, 1.008, 1.012, 1.02, 1.1])
def test_bounds_agree_with_the_outcome(limit: float) -> None:
    """Pass, fail and inconclusive, each with its bound and p-value."""
    found = perplexity_ratio(**documents()).decide(limit=limit, alpha=0.05)
    assert (found.outcome == "pass") == (found.upper <= limit) == (found.p_pass <= 0.05)
    assert (found.outcome == "fail") == (found.lower >= limit) == (found.p_fail <= 0.05)
    assert found.lower < found.estimate < found.upper


def test_a_loss_within_the_limit_says_so() -> None:
    """Shown above 1 and below the limit."""
    found = perplexity_ratio(**documents(n=200, spread=0.01)).decide(limit=1.05, alpha=0.05)
    assert (found.outcome, found.loss_shown) == ("pass", True)


def test_windows_of_one_document_are_not_documents() -> None:
    """Rows that share a document are summed: fewer units, and as wide as they are."""
    rows, ids = documents(n=120), np.repeat(np.arange(30), 4)
    apart, together = perplexity_ratio(**rows), perplexity_ratio(**rows, documents=ids)
    assert (apart.documents, together.documents) == (120, 30)
    assert together.log_ratio == pytest.approx(apart.log_ratio)


def test_under_ten_documents_show_nothing() -> None:
    """Nine documents: inconclusive however alike they are, and no bound."""
    found = perplexity_ratio(**documents(n=9, spread=1e-6))
    decided = found.decide(limit=1.5, alpha=0.05)
    assert (decided.outcome, decided.p_pass, decided.p_fail) == ("inconclusive", 1.0, 1.0)
    assert (decided.lower, decided.upper) == (0.0, inf)
    assert "at least 10 are needed" in str(decided.reason)


def test_ten_documents_of_one_length_are_enough() -> None:
    """The limit is inclusive, and counts by length."""
    rows = {"reference_nats": np.full(10, 70.0), "variant_nats": np.linspace(69, 71, 10), "tokens": np.full(10, 7.0)}
    assert perplexity_ratio(**rows).reason is None
    assert perplexity_ratio(**{**rows, "tokens": np.array([7.0] * 9 + [700.0])}).reason is not None


@pytest.mark.parametrize("change", [0.0, 0.25])
def test_changes_that_are_all_alike_leave_nothing_to_judge_by(change: float) -> None:
    """Never an interval of width zero."""
    tokens = np.arange(100.0, 150.0)
    found = perplexity_ratio(reference_nats=2 * tokens, variant_nats=(2 + change) * tokens, tokens=tokens)
    assert found.decide(limit=2, alpha=0.05).outcome == "inconclusive"
    assert "changed by the same" in str(found.reason)


def test_a_ruined_variant_fails_without_an_overflow() -> None:
    """Thousands of nats a token."""
    rows = documents()
    found = perplexity_ratio(**{**rows, "variant_nats": rows["variant_nats"] * 1_000}).decide(limit=1.02, alpha=0.05)
    assert (found.outcome, found.estimate, found.upper) == ("fail", inf, inf)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"tokens": []}, "at least one document"),
        ({"tokens": [1.0, 2.0]}, "at least one document"),
        ({"variant_nats": [1.0, float("nan"), 1.0]}, "finite"),
        ({"reference_nats": [1.0, float("inf"), 1.0]}, "finite"),
        ({"tokens": [1.0, 0.0, 1.0]}, "needs a token"),
        ({"documents": ["a", "b"]}, "one cluster per item"),
    ],
)
def test_bad_input_is_refused(changed: dict[str, list[object]], message: str) -> None:
    """Nothing, unequal lengths, NaN and empty documents raise."""
    rows: dict[str, list[object]] = {side: [1.0, 2.0, 3.0] for side in ("reference_nats", "variant_nats", "tokens")}
    with pytest.raises(ValueError, match=message):
        perplexity_ratio(**{**rows, **changed})  # type: ignore[arg-type]


@pytest.mark.parametrize("limit", [0, -1, float("nan"), float("inf")])
def test_impossible_limits_are_refused(limit: float) -> None:
    """A limit of a ratio is above 0 and finite."""
    with pytest.raises(ValueError, match="found"):
        perplexity_ratio(**documents()).decide(limit=limit, alpha=0.05)
