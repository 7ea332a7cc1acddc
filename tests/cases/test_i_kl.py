"""Public bug reports, part I: KL divergence."""

import math

import numpy as np
import pytest

from quantgate.divergence import kl_rows, same_top, statistics, true_token
from quantgate.records import ItemEvidence, TextReading

OUT = -math.inf


def kl(reference: list[float], variant: list[float]) -> float:
    """Compute the divergence of one row, in nats."""
    return float(kl_rows(np.array([reference]), np.array([variant]))[0])


@pytest.mark.parametrize(
    ("reference", "variant", "expected"),
    [([0, 0, OUT], [0, 0, OUT], 0.0), ([0, 0, OUT], [0, 0, 0], math.log(1.5)), ([0, 0, 0], [0, 0, OUT], math.inf)],
)
def test_b72_suppressed_tokens(reference: list[float], variant: list[float], expected: float) -> None:
    """B72: 0, ln 1.5 = 0.405465 and +inf; never NaN."""
    assert kl(reference, variant) == pytest.approx(expected, abs=1e-12)


def test_b72_mass_too_small_for_a_float_is_still_mass() -> None:
    """B72: the reference allows a token however unlikely, the variant does not: infinite, not 0 x inf = NaN."""
    assert kl([0, -2000], [0, OUT]) == math.inf


def test_b72_the_infinite_position_reaches_the_statistics() -> None:
    """B72: one +inf of a hundred is neither skipped nor turned into NaN."""
    reference = np.zeros((100, 3))
    variant = reference.copy()
    variant[40, 2] = OUT
    found = statistics(kl_rows(reference, variant), same_top(reference, variant))
    assert (found.mean, found.maximum, found.median) == (math.inf, math.inf, 0.0)


def test_b74_direction() -> None:
    """B74: P = [.7, .2, .1], Q = [.6, .3, .1]: KL(P||Q) = 0.026812, KL(Q||P) = 0.029149 nats."""
    p, q = np.log([0.7, 0.2, 0.1]).tolist(), np.log([0.6, 0.3, 0.1]).tolist()
    assert kl(p, q) == pytest.approx(0.026812, abs=5e-7)
    assert kl(q, p) == pytest.approx(0.029149, abs=5e-7)


@pytest.mark.parametrize(
    ("variant", "expected", "agreement"), [([1.0, 2.0, 0.0], 0.420512, False), ([2.1, 0.9, 0.0], 0.003567, True)]
)
def test_b74_logits_and_first_token(variant: list[float], expected: float, agreement: bool) -> None:
    """B74: logits [2, 1, 0] against [1, 2, 0] and [2.1, 0.9, 0]: 0.420512 and 0.003567 nats, agreement 0 and 1."""
    reference = [2.0, 1.0, 0.0]
    assert kl(reference, variant) == pytest.approx(expected, abs=5e-7)
    assert bool(same_top(np.array([reference]), np.array([variant]))[0]) is agreement


def test_b74_all_figures_are_reported() -> None:
    """B74: mean, median, p99, maximum, agreement and the number of positions, of 99 exact rows and a changed one."""
    reference = np.tile([2.0, 1.0, 0.0], (100, 1))
    variant = reference.copy()
    variant[0] = [1.0, 2.0, 0.0]
    found = statistics(kl_rows(reference, variant), same_top(reference, variant))
    assert found.positions == 100
    assert found.mean == pytest.approx(0.00420512, abs=5e-9)
    assert found.maximum == pytest.approx(0.420512, abs=5e-7)
    assert (found.median, found.p99, found.top1_agreement) == (0.0, 0.0, 0.99)


def document(name: str, tokens: int, nats: float) -> ItemEvidence:
    """A text of so many scored tokens with the sum of their negative log-likelihoods."""
    return ItemEvidence(item_id=name, loglikelihoods=(-nats,) if tokens else (), scored_tokens=tokens)


def test_b76_perplexity_is_weighted_by_tokens() -> None:
    """B76: 2 tokens of 2.0 nats and 8 of 4.0: exp(6 / 10) = 1.8221 and not the documents' mean 2.1835; an empty text adds nothing."""
    items = (document("1", 2, 2.0), document("2", 8, 4.0), document("3", 0, 0.0))
    read = TextReading(texts="t", sha256="ab" * 32, items=items, slices=("x",) * 3, cut=0, tokens_per_text=512)
    assert read.perplexity == pytest.approx(1.8221, abs=5e-5)
    assert read.scored_tokens == 10


def test_b76_a_corpus_without_a_token_has_no_perplexity() -> None:
    """B76: nothing to score is unknown, neither NaN nor 1; so is a text whose sum is not a number."""
    unknown = ItemEvidence(item_id="1", loglikelihoods=(None,), scored_tokens=4)
    for items in ((document("1", 0, 0.0),), (), (unknown, document("2", 8, 4.0))):
        read = TextReading(texts="t", sha256="ab" * 32, items=items, slices=("x",) * len(items), cut=0, tokens_per_text=512)
        assert read.perplexity is None


def test_b76_id_zero_is_scored() -> None:
    """B76: a true token with id 0 is a token like any other and no padding."""
    assert true_token(np.log([[0.25, 0.75]]), np.array([0]))[0] == pytest.approx(math.log(0.25))
