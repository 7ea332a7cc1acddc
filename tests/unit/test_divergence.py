"""KL divergence of next-token distributions, away from the cases of public bug reports."""

import math

import numpy as np
import pytest

from quantgate import divergence
from quantgate.divergence import kl_rows, statistics
from quantgate.errors import NumericallyInvalid


def row(*values: float) -> np.ndarray:
    """Make logits of one row."""
    return np.array([values], dtype=np.float32)


def test_shifted_logits_are_the_same_distribution() -> None:
    """A constant added to all logits of a row changes nothing, even at the ends of float32."""
    assert kl_rows(row(1.0, 2.0, 3.0), row(1001.0, 1002.0, 1003.0))[0] == pytest.approx(0.0, abs=1e-9)
    assert kl_rows(row(3e38, 0.0), row(3e38, 0.0))[0] == 0.0


def test_a_small_divergence_is_not_lost_in_float32() -> None:
    """Two logits that differ by d have KL close to d^2 / 8 at even odds; float64 inside keeps it."""
    assert kl_rows(row(0.0, 0.0), row(0.0, 1e-4))[0] == pytest.approx(1e-8 / 8, rel=1e-3)


def test_no_divergence_is_negative() -> None:
    """Rounding never gives a figure below zero."""
    rng = np.random.default_rng(7)
    logits = rng.normal(size=(200, 50))
    assert (kl_rows(logits, logits + rng.normal(scale=1e-9, size=logits.shape)) >= 0).all()


def test_rows_are_independent() -> None:
    """A broken row leaves its neighbours as they are."""
    reference = np.array([[0.0, 0.0], [np.nan, 0.0], [0.0, 0.0]])
    variant = np.array([[0.0, 0.0], [0.0, 0.0], [0.0, -np.inf]])
    first, second, third = kl_rows(reference, variant)
    assert first == 0.0
    assert math.isnan(second)
    assert third == math.inf


@pytest.mark.parametrize("broken", [math.nan, math.inf])
@pytest.mark.parametrize("side", ["reference", "variant", "both"])
def test_undefined_logits_stay_undefined(broken: float, side: str) -> None:
    """NaN or +inf on either side gives NaN, never a number."""
    good, bad = row(0.0, 1.0), row(0.0, broken)
    reference, variant = (bad if side != "variant" else good), (bad if side != "reference" else good)
    assert math.isnan(kl_rows(reference, variant)[0])


def test_a_row_without_any_token_is_undefined() -> None:
    """Only -inf is no distribution."""
    assert math.isnan(kl_rows(row(-np.inf, -np.inf), row(0.0, 0.0))[0])
    assert math.isnan(kl_rows(row(0.0, 0.0), row(-np.inf, -np.inf))[0])


def test_inputs_are_not_changed() -> None:
    """The caller's arrays are the same afterwards."""
    reference, variant = row(0.0, -np.inf), row(-np.inf, 0.0)
    kl_rows(reference, variant)
    assert (reference == row(0.0, -np.inf)).all()
    assert (variant == row(-np.inf, 0.0)).all()


def test_unlike_vocabularies_are_refused() -> None:
    """Arrays of other shapes are never broadcast."""
    for call in (kl_rows, divergence.same_top):
        with pytest.raises(ValueError, match="one shape"):
            call(row(0.0, 1.0), row(0.0, 1.0, 2.0))
        with pytest.raises(ValueError, match="one shape"):
            call(np.zeros((2, 3)), np.zeros((1, 3)))
        with pytest.raises(ValueError, match="one shape"):
            call(np.zeros(3), np.zeros(3))


def test_same_top_ties_and_broken_rows() -> None:
    """A tie goes to the lowest id on both sides; a row with NaN agrees with nothing, itself included."""
    assert divergence.same_top(row(1.0, 1.0, 0.0), row(1.0, 0.0, 0.0))[0]
    assert not divergence.same_top(row(1.0, 1.0, 0.0), row(0.0, 1.0, 0.0))[0]
    assert not divergence.same_top(row(np.nan, 1.0), row(np.nan, 1.0))[0]


def test_statistics_of_known_values() -> None:
    """Of 1..200: mean and median 100.5, p99 the 198th value, maximum 200; three quarters agree."""
    found = statistics(np.arange(1.0, 201.0), np.arange(200) % 4 > 0)
    assert (found.positions, found.mean, found.median, found.p99) == (200, 100.5, 100.5, 198.0)
    assert (found.maximum, found.top1_agreement) == (200.0, 0.75)


def test_one_infinite_position_shows() -> None:
    """One infinite position makes mean and maximum infinite and leaves median and p99 numbers, none of them NaN."""
    kl = np.zeros(100)
    kl[17] = np.inf
    found = statistics(kl, np.ones(100, dtype=bool))
    assert (found.mean, found.maximum, found.median, found.p99) == (math.inf, math.inf, 0.0, 0.0)


def test_mostly_infinite_positions_are_not_nan() -> None:
    """Infinite everywhere is infinite in every figure."""
    found = statistics(np.full(100, np.inf), np.zeros(100, dtype=bool))
    assert {found.mean, found.median, found.p99, found.maximum} == {math.inf}


def test_too_few_positions_have_no_statistics() -> None:
    """99 positions are refused, 100 are enough."""
    with pytest.raises(ValueError, match="99 positions are too few"):
        statistics(np.zeros(99), np.ones(99, dtype=bool))
    assert statistics(np.zeros(100), np.ones(100, dtype=bool)).positions == 100


def test_undefined_positions_raise() -> None:
    """NaN at any position is an error with its place, never an average."""
    kl = np.zeros(100)
    kl[[3, 5]] = np.nan
    with pytest.raises(NumericallyInvalid, match="NaN at 2 of 100 positions, the first being 3"):
        statistics(kl, np.ones(100, dtype=bool))


def test_arrays_of_unlike_length_are_refused() -> None:
    """A missing agreement flag is not guessed."""
    with pytest.raises(ValueError, match="one length"):
        statistics(np.zeros(100), np.ones(99, dtype=bool))


# ---------------------------------------------------------------------------------------------- true tokens and stored rows


def logits(rows: int, vocabulary: int = 4000, *, scale: float = 4.0, seed: int = 3) -> np.ndarray:
    """Logits about as spread as a language model's, in float32."""
    return np.random.default_rng(seed).normal(scale=scale, size=(rows, vocabulary)).astype(np.float32)


def in_float64(reference: np.ndarray, variant: np.ndarray) -> np.ndarray:
    """The definition in plain float64, a row at a time."""
    found = []
    for p, q in zip(reference.astype(np.float64), variant.astype(np.float64), strict=True):
        log_p, log_q = p - np.logaddexp.reduce(p), q - np.logaddexp.reduce(q)
        found.append(float((np.exp(log_p) * (log_p - log_q)).sum()))
    return np.array(found)


IDS = np.arange(150) * 7 % 4000


def test_stored_rows_lose_less_than_float16_would() -> None:
    """Of a model against itself the stored rows give a mean KL under 1e-6, which 16-bit floats alone exceed, at the same bytes."""
    exact = logits(150)
    stored = divergence.distances(divergence.stored_rows(exact, IDS), exact, IDS)
    log_p = exact - np.logaddexp.reduce(exact.astype(np.float64), axis=1, keepdims=True)
    halves = kl_rows(log_p.astype(np.float16).astype(np.float64), exact)
    assert stored.kl.mean() < 1e-6
    assert stored.kl.mean() < halves.mean() / 10
    assert divergence.stored_row(4000).itemsize == 2 * 4000 + 20


def test_stored_rows_give_the_divergence_of_a_variant_to_one_percent() -> None:
    """Against a variant that moved a little, stored rows and plain float64 agree to one percent at the mean; exact rows to 1e-9."""
    exact = logits(150)
    variant = exact + np.random.default_rng(4).normal(scale=0.05, size=exact.shape).astype(np.float32)
    wanted = in_float64(exact, variant)
    assert wanted.mean() > 1e-4
    stored = divergence.distances(divergence.stored_rows(exact, IDS), variant, IDS)
    assert stored.kl.mean() == pytest.approx(wanted.mean(), rel=0.01)
    np.testing.assert_allclose(divergence.distances(exact, variant, IDS).kl, wanted, rtol=1e-6, atol=1e-9)


def test_what_must_be_exact_is_stored_exactly() -> None:
    """First token and true token's log probability are the same from stored rows as from logits, ties and near ties included."""
    exact = logits(150)
    exact[:, 11] = exact.max(axis=1) * np.float32(1 + 1e-7)
    whole, stored = (divergence.distances(one, exact, IDS) for one in (exact, divergence.stored_rows(exact, IDS)))
    assert whole.same_top.all() and stored.same_top.all()
    np.testing.assert_array_equal(whole.reference, stored.reference)
    np.testing.assert_array_equal(divergence.true_token(exact, IDS), whole.variant)


def test_rows_are_the_same_whatever_chunk_they_come_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """One row at a time or all at once: the same figures."""
    exact, variant = logits(150, 300), logits(150, 300, seed=5)
    ids = IDS % 300
    once = divergence.distances(exact, variant, ids)
    monkeypatch.setattr(divergence, "CHUNK_BYTES", 1)
    np.testing.assert_array_equal(once.kl, divergence.distances(exact, variant, ids).kl)
    np.testing.assert_array_equal(divergence.stored_rows(exact, ids), divergence.stored_rows(exact, ids))


@pytest.mark.parametrize("ids", [np.array([0, 1]), np.array([0, 1, 3]), np.array([0, -1, 1])])
def test_ids_that_no_row_has_are_refused(ids: np.ndarray) -> None:
    """Too few ids, an id beyond the vocabulary, or a negative one is never wrapped around."""
    rows = np.zeros((3, 3), dtype=np.float32)
    calls = (divergence.true_token, lambda rows, ids: divergence.distances(rows, rows, ids), divergence.stored_rows)
    for call in calls:
        with pytest.raises(ValueError, match="ids under 3"):
            call(rows, ids)


def test_stored_rows_of_another_vocabulary_are_refused() -> None:
    """Stored rows are never cut or stretched to fit."""
    stored = divergence.stored_rows(np.zeros((2, 5), dtype=np.float32), np.array([0, 1]))
    with pytest.raises(ValueError, match="2 rows of 5"):
        divergence.distances(stored, np.zeros((2, 4), dtype=np.float32), np.array([0, 1]))


# ---------------------------------------------------------------------------------------------- parts of the positions


def test_bins_of_positions_cover_every_token_once() -> None:
    """For any length the bins follow one another from 1 to the last, at most nine of them up to 2,048 tokens."""
    for last in (1, 2, 7, 100, 512, 513, 2048, 5000):
        position = np.arange(1, last + 1)
        parts = divergence.by_position(np.ones(last), np.ones(last, dtype=bool), position)
        assert [part.first for part in parts] == [1, *(part.last + 1 for part in parts[:-1] if part.last is not None)]
        assert (parts[-1].last, sum(part.positions for part in parts)) == (last, last)
        assert len(parts) <= (9 if last <= 2048 else 10)


def test_parts_add_up_to_the_whole() -> None:
    """Slices in order of first appearance; the weighted mean of their means is the mean; one slice alone is no part."""
    kl, same = np.arange(200.0), np.arange(200) % 2 == 0
    parts = divergence.parts_of(kl, same, ["b"] * 120 + ["a"] * 80)
    assert [(part.name, part.positions) for part in parts] == [("b", 120), ("a", 80)]
    assert sum(part.mean * part.positions for part in parts) / 200 == kl.mean()
    assert (parts[0].p99, parts[1].p99) == (118.0, None)
    assert divergence.parts_of(kl, same, ["b"] * 200) == ()


def test_the_standard_error_takes_texts_as_clusters() -> None:
    """Tokens copied within their text add no certainty: the error stays that of the texts. Under ten texts there is none."""
    means = np.random.default_rng(1).normal(size=40)
    once = divergence.standard_error(means, np.arange(40))
    copied = divergence.standard_error(np.repeat(means, 50), np.repeat(np.arange(40), 50))
    assert once == pytest.approx(means.std(ddof=1) / np.sqrt(40))
    assert copied == pytest.approx(once)
    assert divergence.standard_error(means[:9], np.arange(9)) is None


def test_the_far_percentile_takes_ten_thousand_positions() -> None:
    """p99.9 of 1..10,000 is the 9,990th value; of one position fewer it is not known."""
    assert statistics(np.arange(1.0, 10_001.0), np.ones(10_000, dtype=bool)).p999 == 9990.0
    assert statistics(np.arange(1.0, 10_000.0), np.ones(9_999, dtype=bool)).p999 is None
