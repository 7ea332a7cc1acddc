"""Durations as people write them: ``90s``, ``20min``, ``1h``, ``1h 30min``. A number without a unit is refused: nobody knows of what."""

from __future__ import annotations

import re

UNITS_S = {"s": 1.0, "min": 60.0, "h": 3600.0}
EXPECTED = "write a number with s, min or h, for example 90s, 20min or 1h30min"
_PART = re.compile(r"(\d+(?:\.\d+)?)(h|min|s)")


def seconds(value: str | int | float) -> float:
    """Seconds, above 0. Raises ``ValueError`` for what is no duration: no unit, a unit twice or out of order, a sign."""
    text = "".join(str(value).split()).lower()
    parts = _PART.findall(text)
    units = [unit for _, unit in parts]
    order = [unit for unit in ("h", "min", "s") if unit in units]
    if not parts or "".join(number + unit for number, unit in parts) != text or units != order:
        raise ValueError(f"'{value}' is not a duration; {EXPECTED}")
    found = sum(float(number) * UNITS_S[unit] for number, unit in parts)
    if found <= 0:
        raise ValueError(f"'{value}' is no time at all; {EXPECTED}")
    return found
