"""Sizes in bytes as people write them: ``24GB``, ``600MiB``, ``1.5 GiB``; a number without a unit is bytes."""

from __future__ import annotations

SIZE_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
EXPECTED = "write a number with B, KB, MB, GB, TB, KiB, MiB, GiB or TiB, for example 600MiB"
LARGEST_TIB = 2**20


def size_bytes(value: str | int | float) -> int:
    """Whole bytes, at least 0. Raises ``ValueError`` for text that is no size, and for more than any machine has."""
    text = str(value).replace(" ", "").upper()
    unit = next((one for one in sorted(SIZE_UNITS, key=len, reverse=True) if text.endswith(one)), "")
    number = text.removesuffix(unit) if unit else text
    try:
        exact = float(number) * SIZE_UNITS.get(unit, 1)
        size = int(exact)
    except (ValueError, OverflowError):
        raise ValueError(f"'{value}' is not a size; {EXPECTED}") from None
    if exact < 0:
        raise ValueError(f"'{value}' is negative, and a size is at least 0; {EXPECTED}")
    if size > LARGEST_TIB * 2**40:
        raise ValueError(f"'{value}' is more than {LARGEST_TIB:,} TiB, which no machine has; check the number and its unit")
    return size
