"""Durations as people write them."""

from __future__ import annotations

import pytest

from quantgate.durations import seconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [("90s", 90), ("20min", 1200), ("1h", 3600), ("1h30min", 5400), ("1 h 5 min 2 s", 3902), ("0.5min", 30), ("2H", 7200)],
)
def test_durations(text: str, expected: float) -> None:
    """Hours, minutes and seconds, alone or in this order, spaces and capitals as one likes."""
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "20", 20, 1.5, "min", "-5min", "0s", "5min1h", "1h1h", "5 minutes", "1:30", "inf", "1e3s", "5min!"])
def test_what_is_no_duration(text: str | float) -> None:
    """A bare number, nothing, a sign, units twice or out of order: refused with how to write one."""
    with pytest.raises(ValueError, match="for example 90s, 20min or 1h30min"):
        seconds(text)
