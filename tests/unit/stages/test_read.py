"""Reading texts token by token: which tokens, in which order, and that both ways of having the reference agree."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from quantgate.divergence import stored_row
from quantgate.errors import ConfigError, NotComparable, NumericallyInvalid
from quantgate.records import DivergenceConfig
from quantgate.stages import read
from quantgate.texts import Text, Texts
from sessions import BOS, CharTokenizer, Scripted, quiet

VOCABULARY = 200
CONFIG = DivergenceConfig(path="t.jsonl", tokens_per_text=20, max_texts=50)


class Reader(Scripted):
    """A session whose logits after a token are a fixed function of all tokens so far, plus a bias on one id; blocks of seven rows."""

    def __init__(self, *, bias: float = 0.0, bos: int = 1, broken: bool = False, context: int | None = None) -> None:
        super().__init__(tokenizer=CharTokenizer(bos=bos), context_tokens=context)
        self.shape = replace(self.shape, vocabulary=VOCABULARY)
        self.bias, self.broken = bias, broken
        self.largest = 0

    def distributions(self, contexts: Sequence[tuple[int, ...]], *, every_position: bool = False) -> Iterator[Any]:
        assert every_position
        for tokens in contexts:
            rows = np.stack([self._row(tokens[: at + 1]) for at in range(len(tokens))])
            for start in range(0, len(rows), 7):
                self.largest = max(self.largest, len(rows[start : start + 7]))
                yield rows[start : start + 7]

    def _row(self, seen: tuple[int, ...]) -> Any:
        row = np.random.default_rng(list(seen)).normal(scale=3, size=VOCABULARY).astype(np.float32)
        row[100] += self.bias
        if self.broken and len(seen) == 5:
            row[3] = np.nan
        return row


def texts(count: int = 12, *, stream: bool = False) -> Texts:
    """Texts of unequal lengths in two slices, or one stream of them."""
    each = [
        Text(text_id=f"t{at}", slice="even" if at % 2 == 0 else "odd", text="abcdefghijklm"[: at % 9 + 4] * 2)
        for at in range(count)
    ]
    one = Text(text_id="s", slice="stream", text="".join(text.text for text in each))
    return Texts(name="t", sha256="ab" * 32, texts=(one,) if stream else tuple(each), stream=stream)


def stored(session: Reader, found: tuple[read.Passage, ...], of: Texts) -> read.Stored:
    """What the worker writes and reads back."""
    kept: list[bytes] = []
    read.alone(session, found, of, kept.append, quiet)
    rows = np.frombuffer(b"".join(kept), dtype=stored_row(VOCABULARY))
    at = 0

    def take(count: int) -> Any:
        nonlocal at
        at += count
        return rows[at - count : at]

    return read.Stored(positions=len(rows), vocabulary=VOCABULARY, take=take)


def test_every_token_of_a_text_is_scored_up_to_the_limit() -> None:
    """With a BOS all tokens of a text are scored, without one all but the first; the cut is counted."""
    for bos, lost in ((1, 0), (0, 1)):
        found = read.passages(Reader(bos=bos), texts(), CONFIG)
        lengths = [len(one.text) for one in texts().texts]
        assert [one.scored for one in found] == [min(length - lost, 20) for length in lengths]
        assert sum(one.cut for one in found) == sum(length - lost > 20 for length in lengths)
        assert all(one.tokens.count(BOS) == bos for one in found)


def test_a_stream_is_cut_into_windows_that_score_each_token_once() -> None:
    """Windows follow one another without gap or overlap in what is scored, with a BOS in front of each or a token of context."""
    ids = CharTokenizer().encode(texts(stream=True).texts[0].text, add_bos=False)
    for bos, first in ((1, 0), (0, 1)):
        found = read.passages(Reader(bos=bos), texts(stream=True), CONFIG)
        scored = [token for one in found for token in one.tokens[1:]]
        assert scored == list(ids[first:])
        assert {one.scored for one in found[:-1]} == {20}
    few = read.passages(Reader(), texts(stream=True), replace(CONFIG, max_texts=2))
    assert [one.scored for one in few] == [20, 20]


def test_texts_longer_than_the_context_are_refused() -> None:
    """Nothing is cut to the model's context silently."""
    with pytest.raises(ConfigError, match=r"'tokens_per_text' is 20.*holds 19"):
        read.passages(Reader(context=19), texts(), CONFIG)


def test_stored_and_recomputed_agree_with_the_definition() -> None:
    """Both ways give the divergence of the definition, and the true tokens' log probabilities of the variant."""
    found, of = read.passages(Reader(), texts(), CONFIG), texts()
    beside = read.beside(Reader(bias=2.0), Reader(), found, of, quiet)
    file = read.beside_stored(Reader(bias=2.0), found, of, stored(Reader(), found, of), quiet)
    wanted, true = [], []
    for one in found:
        for at in range(one.scored):
            p, q = (session._row(one.tokens[: at + 1]).astype(np.float64) for session in (Reader(), Reader(bias=2.0)))
            p, q = p - np.logaddexp.reduce(p), q - np.logaddexp.reduce(q)
            wanted.append(float((np.exp(p) * (p - q)).sum()))
            true.append(float(q[one.tokens[at + 1]]))
    np.testing.assert_allclose(beside.kl, wanted, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(beside.variant, true, rtol=1e-6)
    assert file.kl.mean() == pytest.approx(np.mean(wanted), rel=0.001)
    np.testing.assert_array_equal(file.variant, beside.variant)
    np.testing.assert_allclose(file.reference, beside.reference, rtol=1e-12)


def test_a_model_does_not_differ_from_itself() -> None:
    """Recomputed 0 exactly, stored under 1e-6; the ratio of perplexities is 1 exactly."""
    found, of = read.passages(Reader(), texts(), CONFIG), texts()
    assert read.beside(Reader(), Reader(), found, of, quiet).kl.max() == 0.0
    file = read.beside_stored(Reader(), found, of, stored(Reader(), found, of), quiet)
    assert file.kl.mean() < 1e-6
    assert (file.reference == file.variant).all()


def test_the_record_has_every_figure() -> None:
    """Statistics, slices and positions of what was read; per text the sum of its true tokens, over the text's tokens."""
    found, of = read.passages(Reader(), texts(), CONFIG), texts()
    compared = read.beside(Reader(bias=2.0), Reader(), found, of, quiet)
    got = read.reading(found, (of, CONFIG), compared.variant.tolist(), compared, "recomputed")
    assert got.kl is not None
    assert got.kl.positions == got.scored_tokens == sum(one.scored for one in found)
    assert {part.name for part in got.kl.by_slice} == {"even", "odd"}
    assert sum(part.positions for part in got.kl.by_position) == got.kl.positions
    change = np.exp(compared.variant) - np.exp(compared.reference)
    assert got.kl.rms_dp == pytest.approx(math.sqrt((change**2).mean()))
    assert got.kl.standard_error is not None
    assert got.nats == pytest.approx(-compared.variant.sum())
    assert got.perplexity == pytest.approx(math.exp(-compared.variant.mean()))
    assert [one.scored_tokens for one in got.items] == [one.scored for one in found]


def test_too_few_tokens_have_no_statistics_and_a_reason() -> None:
    """Under 100 tokens there is no divergence, and the record says why."""
    of = texts(3)
    found = read.passages(Reader(), of, CONFIG)
    compared = read.beside(Reader(), Reader(), found, of, quiet)
    got = read.reading(found, (of, CONFIG), compared.variant.tolist(), compared, "recomputed")
    assert got.kl is None
    assert got.why_no_kl is not None and "too few" in got.why_no_kl


def test_a_text_of_one_token_is_left_out_of_perplexity() -> None:
    """A text without a token to score has no sum and is no NaN; the others count."""
    of = Texts(
        name="t",
        sha256="ab" * 32,
        texts=(Text(text_id="a", slice="x", text="a"), Text(text_id="b", slice="x", text="abc")),
        stream=False,
    )
    found = read.passages(Reader(bos=0), of, CONFIG)
    got = read.reading(found, (of, CONFIG), read.alone(Reader(bos=0), found, of, None, quiet), None, "stored")
    assert [one.scored_tokens for one in got.items] == [0, 2]
    assert got.items[0].loglikelihoods == ()
    assert got.perplexity is not None


def test_non_finite_logits_name_their_text() -> None:
    """NaN along a text is an error with the text's id, never a figure."""
    found, of = read.passages(Reader(), texts(), CONFIG), texts()
    with pytest.raises(NumericallyInvalid, match="t0"):
        read.alone(Reader(broken=True), found, of, None, quiet)


def test_stored_rows_of_other_texts_are_not_comparable() -> None:
    """A file with another number of positions is refused before anything is compared."""
    of = texts()
    found = read.passages(Reader(), of, CONFIG)
    other = stored(Reader(), found[:-1], of)
    with pytest.raises(NotComparable, match="tokens of the texts"):
        read.beside_stored(Reader(), found, of, other, quiet)
