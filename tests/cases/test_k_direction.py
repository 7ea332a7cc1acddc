"""Public bug reports, part K: which way a metric goes is declared, never guessed from its name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evidence import QUALITY, golden, sheet
from quantgate.records import Better
from quantgate.stages.pairing import Meaning, Pairs, meaning, pair


@pytest.mark.parametrize(
    ("better", "before", "after", "loss"),
    [("lower", 0.010, 0.0137, 0.0037), ("lower", 7.46, 243_848.0, 243_840.54), ("higher", 0.71, 0.69, 0.02)],
)
def test_b97_the_declared_direction_gives_the_sign(better: Better, before: float, after: float, loss: float) -> None:
    """B97: 0.010 -> 0.0137 and 7.46 -> 243848 are losses where lower is better, 0.71 -> 0.69 where higher is."""
    assert Meaning(scale="unbounded", better=better).loss(before, after) == pytest.approx(loss)
    assert Meaning(scale="unbounded", better=better).loss(after, before) == pytest.approx(-loss)


def test_b97_an_unknown_direction_is_not_measured() -> None:
    """B97: graded scores of which nobody says which way they go are refused with what to write, whatever they are called."""
    base = replace(sheet(range(160), of="float32"), scale="unit")
    half = replace(base, variant="int8", items=tuple(replace(item, value=0.5) for item in base.items))
    found = meaning(base, half, QUALITY, foreign=True)
    assert isinstance(found, str) and "'better: higher' or 'better: lower'" in found
    stated = pair(base, half, golden(), "candidate", 0.01, foreign=True, rule=replace(QUALITY, better="lower"))
    assert isinstance(stated, Pairs) and stated.losses[0] == -0.5
