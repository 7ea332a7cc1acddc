"""The noise floor in a sentence."""

from __future__ import annotations

from dataclasses import replace

from evidence import candidate, evidence, identity, known_bad, reference, variant
from quantgate.records import KLStatistics, ScoreSheet
from quantgate.stages import noise


def said(*variants: object) -> list[str]:
    base = reference()
    return list(noise.sentences(evidence(base, *variants), base))  # type: ignore[arg-type]


def test_the_identity_control_says_what_batches_alone_move() -> None:
    """Flips both ways, both means, the largest move of a log-likelihood, the KL, and both plans."""
    again = identity([*range(1, 160), 160])
    kl = KLStatistics(positions=100, mean=2e-9, median=0.0, p99=1e-8, maximum=1e-8, top1_agreement=1.0)
    again = replace(again, sheets=tuple(replace(sheet, kl=kl) for sheet in again.sheets))
    (sentence,) = said(candidate(), known_bad(), again)
    assert sentence.startswith("Noise floor on everyday 1: again, the reference in batches of 4 rows instead of 16 rows: ")
    assert "2 of 200 items score otherwise" in sentence
    assert "the mean is 0.8000 against 0.8000" in sentence
    assert "nats," in sentence and "the mean KL divergence is 2e-09 nats a token" in sentence


def test_the_furthest_move_is_the_largest_one_that_both_have() -> None:
    """Half a nat at one choice of one item; an answer that is not finite is no difference."""
    base = reference()
    sheet = base.sheets[0]

    def moved(place: int, values: tuple[float | None, ...]) -> ScoreSheet:
        items = list(sheet.items)
        items[place] = replace(items[place], evidence=replace(items[place].evidence, loglikelihoods=values))
        return replace(sheet, items=tuple(items))

    ours = replace(base, sheets=(moved(3, (-1.0, -2.0)),))
    for values, size in (((-1.0, -2.5), "0.5"), ((-1.0, None), "0")):
        other = variant("again", moved(3, values), role="identity")
        (sentence,) = noise.sentences(evidence(ours, other), ours)
        assert f"no log-likelihood moves by more than {size} nats" in sentence
        assert "0 of 200 items score otherwise" in sentence


def test_no_identity_control_no_sentence() -> None:
    """Nothing was repeated, so nothing is said."""
    assert said(candidate(), known_bad()) == []
