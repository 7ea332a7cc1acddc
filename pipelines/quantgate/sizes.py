"""Sizes in bytes as people write them: ``24GB``, ``600MiB``, ``1.5 GiB``; a number without a unit is bytes."""

from __future__ import annotations

SIZE_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
EXPECTED = "write a number with B, KB, MB, GB, KiB, MiB or GiB, for example 600MiB"


def size_bytes(value: str | int | float) -> int:
    """Whole bytes, at least 0. Raises ``ValueError`` for text that is no size."""
    text = str(value).replace(" ", "").upper()
    unit = next((one for one in sorted(SIZE_UNITS, key=len, reverse=True) if text.endswith(one)), "")
    number = text.removesuffix(unit) if unit else text
    try:
        size = int(float(number) * SIZE_UNITS.get(unit, 1))
    except (ValueError, OverflowError):
        size = -1
    if size < 0:
        raise ValueError(f"'{value}' is not a size; {EXPECTED}")
    return size
