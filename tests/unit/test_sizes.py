"""Sizes as people write them."""

from __future__ import annotations

import pytest

from quantgate.sizes import size_bytes


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("24GB", 24 * 10**9),
        ("600MiB", 600 * 2**20),
        ("1.5 GiB", 3 * 2**29),
        ("7", 7),
        ("7B", 7),
        (512, 512),
        ("2e3 kb", 2 * 10**6),
        ("0", 0),
    ],
)
def test_sizes(text: str | int, size: int) -> None:
    """Decimal and binary units, any case, with or without a space; no unit is bytes."""
    assert size_bytes(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "nan", "inf", "1e999", "12 horses", "1_GB_", "0x10"])
def test_what_is_no_size(text: str) -> None:
    """One line that shows how a size is written."""
    with pytest.raises(ValueError, match="for example 600MiB"):
        size_bytes(text)


@pytest.mark.parametrize("text", ["-1GB", -5, "-0.5B"])
def test_a_negative_size_is_named_as_such(text: str | int) -> None:
    """Less than nothing, though it be rounded to nothing."""
    with pytest.raises(ValueError, match="is negative"):
        size_bytes(text)


@pytest.mark.parametrize("text", ["1e30GB", "1048577TiB", 2**61])
def test_more_than_any_machine_has_is_refused(text: str | int) -> None:
    """A mistyped exponent is told, not answered with a batch of thirty digits."""
    with pytest.raises(ValueError, match="no machine has"):
        size_bytes(text)
    assert size_bytes("1048576TiB") == 2**60
