"""Distributions after the golden prompts: which, in which batches, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from quantgate.errors import NotComparable, NumericallyInvalid
from quantgate.records import BatchPlan, GoldenItem, GoldenSet
from quantgate.stages import diverge
from sessions import CharTokenizer, Scripted, quiet

PLAN = BatchPlan(max_rows=16)
VOCABULARY = 50


class Speaking(Scripted):
    """A session whose logits are a fixed function of the prompt, plus a bias on one token."""

    def __init__(self, *, bias: float = 0.0, broken_at: int | None = None, vocabulary: int = VOCABULARY) -> None:
        super().__init__(tokenizer=CharTokenizer())
        self.bias, self.broken_at, self.width = bias, broken_at, vocabulary
        self.batches: list[int] = []

    def distributions(self, contexts: Sequence[tuple[int, ...]]) -> Iterator[Any]:
        self.batches.append(len(contexts))
        rows = np.stack([np.random.default_rng(sum(one)).normal(size=self.width) for one in contexts]).astype(np.float32)
        rows[:, 0] += self.bias
        if self.broken_at is not None and len(self.batches) == self.broken_at:
            rows[1, 3] = np.nan
        yield rows


def golden(count: int) -> GoldenSet:
    """Prompts of unequal lengths."""
    items = tuple(
        GoldenItem(item_id=f"i{at}", slice="all", prompt="x" * (at % 7 + 1) + str(at), metric="exact_match", answers=("a",))
        for at in range(count)
    )
    return GoldenSet(name="g", version="v1", sha256="ab" * 32, items=items, path="g")


def stored(session: Speaking, count: int) -> Any:
    """What the worker writes for the reference."""
    rows = np.empty((diverge.positions(count), session.width), dtype=np.float32)
    for places, part in diverge.distributions(session, diverge.Job(golden=golden(count), plan=PLAN), quiet):
        rows[places] = part
    return rows


def shaped(session: Speaking) -> Speaking:
    """The session with the vocabulary of its logits as its shape's."""
    session.shape = type(session.shape)(
        layers=session.shape.layers, hidden=session.shape.hidden, vocabulary=session.width, tied=session.shape.tied
    )
    return session


def test_a_model_does_not_differ_from_itself() -> None:
    """The divergence of the same logits is 0 at every position, and every top token agrees."""
    reference = stored(Speaking(), 300)
    found = diverge.divergence(shaped(Speaking()), diverge.Job(golden=golden(300), plan=PLAN), reference, quiet)
    assert (found.positions, found.mean, found.maximum, found.top1_agreement) == (256, 0.0, 0.0, 1.0)


def test_another_batch_size_finds_the_same_rows() -> None:
    """Rows are put at their item's place, whatever batch they ran in."""
    reference = stored(Speaking(), 150)
    job = diverge.Job(golden=golden(150), plan=BatchPlan(max_rows=4))
    assert diverge.divergence(shaped(Speaking()), job, reference, quiet).maximum == 0.0


def test_a_bias_shows_as_much_as_it_should() -> None:
    """KL(reference || variant) of a biased token equals the value computed from the definition."""
    reference = stored(Speaking(), 120).astype(np.float64)
    found = diverge.divergence(
        shaped(Speaking(bias=2.0)), diverge.Job(golden=golden(120), plan=PLAN), reference.astype(np.float32), quiet
    )
    p = np.exp(reference) / np.exp(reference).sum(axis=1, keepdims=True)
    biased = reference + np.eye(VOCABULARY)[0] * 2.0
    q = np.exp(biased) / np.exp(biased).sum(axis=1, keepdims=True)
    assert found.mean == pytest.approx((p * np.log(p / q)).sum(axis=1).mean(), rel=1e-4)


def test_small_sets_are_not_compared() -> None:
    """Under 100 prompts there are no statistics, above 256 no more than 256 positions."""
    assert [diverge.positions(count) for count in (0, 99, 100, 256, 5000)] == [0, 0, 100, 256, 256]


def test_non_finite_logits_name_their_item() -> None:
    """NaN in a row is an error with the item's id, never a figure."""
    with pytest.raises(NumericallyInvalid, match="i"):
        stored(Speaking(broken_at=2), 120)


def test_another_vocabulary_is_not_comparable() -> None:
    """Distributions over different vocabularies are refused, naming both sizes."""
    reference = stored(Speaking(), 120)
    with pytest.raises(NotComparable, match=r"50.*60"):
        diverge.divergence(
            shaped(Speaking(vocabulary=60)), diverge.Job(golden=golden(120), plan=PLAN), reference, quiet
        )


def test_batches_keep_to_the_plan() -> None:
    """No batch has more rows than the plan allows."""
    session = Speaking()
    stored(session, 256)
    assert max(session.batches) == PLAN.max_rows
    assert sum(session.batches) == 256


def canary(session: Speaking, reference: Speaking, prompts: int = 32) -> Any:
    """What a canary finds on a set of 150."""
    job = diverge.Job(golden=golden(150), plan=PLAN)
    return diverge.canary(shaped(session), job, diverge.canary_rows(shaped(reference), job, prompts, quiet), quiet)


def test_the_canary_compares_as_the_definition_says() -> None:
    """Mean KL and agreement over the prompts it asks, which are spread over the set; a model does not differ from itself."""
    same = canary(Speaking(), Speaking())
    assert (same.mean_kl, same.top1_agreement, same.prompts, same.items, same.nonfinite) == (0.0, 1.0, 32, 150, "")
    found = canary(Speaking(bias=8.0), Speaking())
    job = diverge.Job(golden=golden(150), plan=PLAN)
    base, moved = (diverge.canary_rows(shaped(Speaking(bias=bias)), job, 32, quiet).astype(np.float64) for bias in (0.0, 8.0))
    p, q = (np.exp(rows) / np.exp(rows).sum(axis=1, keepdims=True) for rows in (base, moved))
    assert found.mean_kl == pytest.approx(float((p * np.log(p / q)).sum(axis=1).mean()), rel=1e-4)
    assert found.top1_agreement == float((base.argmax(axis=1) == moved.argmax(axis=1)).mean()) < 0.5


def test_nan_is_the_canarys_finding_and_the_references_error() -> None:
    """A variant's NaN is said; one of the reference leaves nothing to compare with."""
    assert "not finite" in canary(Speaking(broken_at=2), Speaking()).nonfinite
    with pytest.raises(NumericallyInvalid):
        canary(Speaking(), Speaking(broken_at=1))


def test_a_canary_of_another_vocabulary_is_refused() -> None:
    """Rows of unlike length are no distributions of the same tokens."""
    with pytest.raises(NotComparable, match="vocabulary"):
        canary(Speaking(vocabulary=40), Speaking())
