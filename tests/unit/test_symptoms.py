"""Symptoms: what nothing can have is refused by its name, and one record lies over another."""

from __future__ import annotations

from dataclasses import fields, replace
from math import inf, nan
from typing import Any

import pytest

from quantgate.errors import UsageError
from quantgate.symptoms import FIELDS, Symptoms, Timing, given, overlaid, refuse


def test_every_field_has_a_name() -> None:
    """Each field of the record but the timings stands in the table once, and no key stands there twice."""
    assert sorted(one.attribute for one in FIELDS) == sorted({one.name for one in fields(Symptoms)} - {"timings"})
    assert len({one.key for one in FIELDS}) == len(FIELDS)


WRONG = {
    "bytes": [0, -1, 1.5, True, nan],
    "rate": [0, -1.0, nan, inf, True],
    "share": [-0.01, 1.01, nan, inf, True, "0.4"],
    "seconds": [0, -0.1, nan, inf],
    "count": [-1, 0.5, nan, True],
    "rows": [0, -1, 2.0, True],
    "ratio": [-0.1, nan, inf],
    "cost": [0.0, 1e-9, -1.0, nan, inf],
    "flag": [0, 1, "yes"],
}


@pytest.mark.parametrize(("field", "value"), [(one, value) for one in FIELDS for value in WRONG[one.kind]], ids=str)
def test_nonsense_is_refused_by_name(field: Any, value: Any) -> None:
    """The message begins with the field's key and says what was found."""
    with pytest.raises(UsageError, match=rf"^{field.key}: found "):
        refuse(replace(Symptoms(), **{field.attribute: value}))


@pytest.mark.parametrize(
    ("part", "whole"), [("memory_used_bytes", "memory_total_bytes"), ("useful_tokens", "row_steps"), ("accepted_tokens", "drafted_tokens")]
)
def test_a_part_is_not_more_than_the_whole(part: str, whole: str) -> None:
    """More used than there is, more useful than taken, more accepted than drafted: refused; equal is allowed."""
    refuse(replace(Symptoms(), **{part: 10, whole: 10}))
    with pytest.raises(UsageError, match="more than"):
        refuse(replace(Symptoms(), **{part: 11, whole: 10}))


@pytest.mark.parametrize(
    "timings",
    [
        (Timing(batch=8, step_s=1.0), Timing(batch=1, step_s=1.0)),
        (Timing(batch=8, step_s=1.0), Timing(batch=8, step_s=1.0)),
        (Timing(batch=0, step_s=1.0),),
        (Timing(batch=1, step_s=nan),),
        (Timing(batch=1, step_s=0.0),),
    ],
)
def test_timings_ascend(timings: tuple[Timing, ...]) -> None:
    """Batches that do not ascend, and times that are none, are refused."""
    with pytest.raises(UsageError, match=r"^timings: "):
        refuse(Symptoms(timings=timings))


def test_what_is_known_lies_over_what_was_known() -> None:
    """The upper record's figures win where it has them, a zero and a no among them."""
    below = Symptoms(batch=8, waiting_requests=3, out_of_memory=True, timings=(Timing(batch=1, step_s=1.0),))
    found = overlaid(below, Symptoms(waiting_requests=0, out_of_memory=False, mfu_share=0.2))
    assert found == replace(below, waiting_requests=0, out_of_memory=False, mfu_share=0.2)
    assert [one.key for one in given(found)] == ["out_of_memory", "mfu", "batch", "queue"]
