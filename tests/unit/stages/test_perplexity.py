"""Ratios of perplexities: total over total, paired by text, and nothing decided on what is missing or unequal."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from evidence import CONDITIONS, candidate, decided, evidence, failure, golden, item_id, policy, reference, variant
from quantgate.records import BatchPlan, Check, CheckRule, Evidence, ItemEvidence, ItemScore, ScoreSheet, TextReading
from quantgate.stats.ratios import perplexity_ratio

RULE = CheckRule(kind="perplexity_ratio", maximum=1.05)
TEXTS = 60
RNG = np.random.default_rng(11)
TOKENS = RNG.integers(50, 400, TEXTS)
NATS = TOKENS * RNG.normal(2.5, 0.2, TEXTS)
CHANGE = TOKENS * RNG.normal(0.01, 0.01, TEXTS)


def texts(nats: Any, *, of: str, tokens: Any = TOKENS, clusters: int | None = None, **fields: Any) -> ScoreSheet:
    """A sheet of texts with these nats."""
    items = tuple(
        ItemScore(
            item_id=item_id(number),
            slice="all",
            cluster=None if clusters is None else f"book {number % clusters}",
            value=-float(one),
            evidence=ItemEvidence(item_id=item_id(number), loglikelihoods=(-float(one),), scored_tokens=int(tokens[number])),
        )
        for number, one in enumerate(nats)
    )
    known = ScoreSheet(
        variant=of, golden_set="everyday", golden_version="1", golden_sha256=golden().sha256, items=items, batch_plan=BatchPlan(),
        conditions=CONDITIONS, first_prompt="Once", scale="unbounded", better="higher",
    )  # fmt: skip
    return replace(known, **fields)


def run(other: Any = None, base: ScoreSheet | None = None, **fields: Any) -> Evidence:
    """A reference and a candidate on sixty texts."""
    changed = texts(NATS + CHANGE if other is None else other, of="int8", **fields)
    base = base or texts(NATS, of="float32", **{key: one for key, one in fields.items() if key == "clusters"})
    return evidence(reference(base), variant("int8", changed), golden_sets=[golden(items=TEXTS)])


def check(found: Evidence, rule: CheckRule = RULE, **fields: Any) -> Check:
    verdict = decided(found, policy(rule, **{"require_controls": False, "minimum_items": 20, **fields})).verdicts[1]
    return next(one for one in verdict.checks if one.name.startswith("perplexity_ratio"))


def test_the_decision_is_that_of_the_ratio_of_sums() -> None:
    """Estimate, bounds and p-value are those of the statistics; no mean of the texts' own perplexities comes in."""
    made = check(run())
    wanted = perplexity_ratio(reference_nats=NATS, variant_nats=NATS + CHANGE, tokens=TOKENS).decide(limit=1.05, alpha=0.05)
    assert (made.outcome, made.estimate, made.lower, made.bound) == (wanted.outcome, wanted.estimate, wanted.lower, wanted.upper)
    assert made.outcome == "pass"
    assert made.estimate == pytest.approx(math.exp((CHANGE.sum()) / TOKENS.sum()))
    assert "times the reference's perplexity per token, at most 1.0" in made.because


def test_it_can_pass_and_block_a_variant_alone() -> None:
    """It says which way things went, so unlike a divergence it needs no other check beside it."""
    by = policy(RULE, require_controls=False, minimum_items=20)
    assert decided(run(), by).outcome == "pass"
    assert decided(run(NATS + TOKENS * RNG.normal(0.2, 0.02, TEXTS)), by).outcome == "fail"


def test_texts_of_one_source_are_one_text() -> None:
    """Sixty texts of twelve books are twelve; of five books nothing is shown."""
    wanted = perplexity_ratio(
        reference_nats=NATS, variant_nats=NATS + CHANGE, tokens=TOKENS, documents=[n % 12 for n in range(TEXTS)]
    )
    made = check(run(clusters=12))
    assert (made.n, made.bound) == (12, wanted.decide(limit=1.05, alpha=0.05).upper)
    few = check(run(clusters=5))
    assert (few.outcome, few.bound, "at least 10 are needed" in few.because) == ("inconclusive", None, True)


def test_b76_an_empty_text_is_left_out_and_counted() -> None:
    """B76: a text without a token is no NaN; the others decide, by tokens."""
    tokens, nats, more = TOKENS.copy(), NATS.copy(), NATS + CHANGE
    tokens[3], nats[3], more[3] = 0, 0.0, 0.0
    made = check(run(more, texts(nats, of="float32", tokens=tokens), tokens=tokens))
    assert (made.n, "1 text has no token and is left out" in made.because) == (TEXTS - 1, True)


def test_b76_perplexity_is_total_over_total() -> None:
    """B76: two texts of 2 and 8 tokens with 2.0 and 4.0 nats have exp(6/10) = 1.8221, not the mean 2.1835."""
    found = perplexity_ratio(reference_nats=[0.0, 0.0], variant_nats=[2.0, 4.0], tokens=[2, 8])
    assert found.ratio == pytest.approx(1.8221, abs=5e-5)


def changed(number: int, **fields: Any) -> Callable[[ScoreSheet], ScoreSheet]:
    """A sheet with the evidence of one item changed."""

    def change(sheet: ScoreSheet) -> ScoreSheet:
        items = list(sheet.items)
        items[number] = replace(items[number], evidence=replace(items[number].evidence, **fields))
        return replace(sheet, items=tuple(items))

    return change


BROKEN: dict[str, tuple[Callable[[ScoreSheet], ScoreSheet], str]] = {
    "unequal tokens": (changed(4, scored_tokens=7), "tokens for the reference and 7 for the variant"),
    "NaN": (changed(4, loglikelihoods=(math.nan,)), "has no log-likelihood of its text"),
    "no log-likelihood": (changed(4, loglikelihoods=()), "has no log-likelihood of its text"),
    "above zero": (changed(4, loglikelihoods=(3.0,)), "which is not possible"),
    "nats without tokens": (changed(4, scored_tokens=0), "which is not possible"),
    "tokens below zero": (changed(4, scored_tokens=-2), "which is not possible"),
    "an item missing": (lambda sheet: replace(sheet, items=sheet.items[1:]), "did not answer item i0000"),
    "an item twice": (lambda sheet: replace(sheet, items=(*sheet.items, sheet.items[0])), "more than once"),
    "another tokenizer": (lambda sheet: replace(sheet, conditions={**CONDITIONS, "tokenizer": "other"}), "not comparable: tokenizer"),
    "not scored": (lambda sheet: replace(sheet, golden_sha256="0" * 64), "was not scored on it"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_does_not_fit_together_is_not_measured(case: str) -> None:
    """No value is filled in for a text, whoever lacks it."""
    change, words = BROKEN[case]
    found = run()
    one = found.variants[1]
    odd = replace(one, sheets=(change(one.sheets[0]),))
    made = check(replace(found, variants=(found.variants[0], odd)), replace(RULE, golden_set="everyday"))
    assert (made.outcome, words in made.because) == ("not_measured", True), made.because


def test_nan_that_a_session_saw_is_a_fail() -> None:
    """The variant's own NaN, while the reference was finite, is no missing evidence."""
    found = run()
    one = found.variants[1]
    bad = changed(4, loglikelihoods=(None,), nonfinite=True)(one.sheets[0])
    made = check(replace(found, variants=(found.variants[0], replace(one, sheets=(bad,)))))
    assert (made.outcome, "numerically invalid" in made.because) == ("fail", True)


@pytest.mark.parametrize(
    ("rule", "items", "words"),
    [
        (replace(RULE, maximum=None), 20, "the policy's maximum is None"),
        (replace(RULE, maximum=0.9), 20, "it must be 1 or more"),
        (RULE, 100, "asks for at least 100"),
        (replace(RULE, golden_set="law"), 20, "no golden set named law"),
    ],
)
def test_a_rule_that_cannot_be_looked_at(rule: CheckRule, items: int, words: str) -> None:
    """A demand that finds nothing does not vanish."""
    made = check(run(), rule, minimum_items=items)
    assert (made.outcome, words in made.because) == ("not_measured", True), made.because


def test_a_run_without_texts_does_not_meet_it() -> None:
    """Sets of other items are left out; where none is left the check is not measured."""
    none = np.zeros(TEXTS, dtype=int)
    bare = [texts(NATS, of=of, tokens=none) for of in ("float32", "int8")]
    made = check(evidence(reference(bare[0]), variant("int8", bare[1]), golden_sets=[golden(items=TEXTS)]))
    assert (made.outcome, "no golden set whose items are texts" in made.because) == ("not_measured", True)


# ---------------------------------------------------------------------------------------------- the texts that divergence is taken over


def reading(nats: Any, tokens: Any = TOKENS, **fields: Any) -> TextReading:
    """Sixty texts as one side read them."""
    items = tuple(
        ItemEvidence(item_id=f"t{at}", loglikelihoods=(None if one is None else -float(one),), scored_tokens=int(tokens[at]))
        for at, one in enumerate(nats)
    )
    values = {"texts": "books", "sha256": "ab" * 32, "items": items, "slices": ("all",) * len(items), "cut": 0, "tokens_per_text": 512}
    return TextReading(**{**values, **fields})


def over_texts(base: TextReading | None, other: TextReading | None, name: str = "books") -> Check:
    """The check on the texts of a run that was scored on a golden set without any."""
    run_ = evidence(replace(reference(), reading=base), replace(candidate(), reading=other))
    return check(run_, replace(RULE, golden_set=name))


@pytest.mark.parametrize("name", ["books", "*"])
def test_the_texts_of_divergence_are_decided_on_too(name: str) -> None:
    """By the same rule as a golden set's, under the texts' name."""
    made = over_texts(reading(NATS), reading(NATS + CHANGE), name)
    wanted = perplexity_ratio(reference_nats=NATS, variant_nats=NATS + CHANGE, tokens=TOKENS).decide(limit=1.05, alpha=0.05)
    assert (made.name, made.outcome, made.estimate, made.bound) == ("perplexity_ratio/books", "pass", wanted.estimate, wanted.upper)
    assert over_texts(reading(NATS), reading(NATS + TOKENS * np.linspace(0.15, 0.25, TEXTS)), name).outcome == "fail"


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (None, "the variant did not read the texts books"),
        (reading(NATS, sha256="cd" * 32), "did not read the same texts"),
        (reading(NATS, tokens_per_text=256), "did not read the same texts"),
        (reading(NATS[:-1]), "in the same order"),
        (reading(NATS, TOKENS + 1), "tokens for the reference"),
        (reading([None, *NATS[1:]]), "item t0 of the variant has no log-likelihood"),
        (reading(-NATS), "which is not possible"),
    ],
)
def test_readings_that_do_not_fit_are_not_measured(other: TextReading | None, words: str) -> None:
    """Another file, length, number of texts or of tokens, or a text without its number: nothing is decided."""
    made = over_texts(reading(NATS), other)
    assert (made.outcome, words in made.because) == ("not_measured", True), made.because
    if other is not None:
        assert over_texts(other, reading(NATS)).outcome == "not_measured"


def test_a_text_of_one_token_is_left_out_and_counted() -> None:
    """It was read and has nothing to score, which is no missing number."""
    rows = [reading(nats) for nats in (NATS, NATS + CHANGE)]
    empty = ItemEvidence(item_id="t0")
    made = over_texts(*(replace(one, items=(empty, *one.items[1:])) for one in rows))
    assert (made.n, "1 text has no token and is left out" in made.because) == (TEXTS - 1, True)
    one_sided = over_texts(rows[0], replace(rows[1], items=(empty, *rows[1].items[1:])))
    assert one_sided.outcome == "not_measured"


def test_too_few_texts_and_nan_while_reading() -> None:
    """The policy's fewest items count texts; a variant that gave NaN where the reference did not fails."""
    few = reading(NATS[:19])
    assert "it has 19 texts and the policy asks for at least 20" in over_texts(few, few).because
    bad = replace(candidate(), failures=(failure("int8", "read books", numerical=True),))
    run_ = evidence(replace(reference(), reading=reading(NATS)), bad)
    assert check(run_, replace(RULE, golden_set="books")).outcome == "fail"
