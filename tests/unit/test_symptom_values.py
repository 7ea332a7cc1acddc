"""Symptoms as people write them: units are read, and nothing is guessed."""

from __future__ import annotations

from typing import Any

import pytest

from quantgate.symptom_values import field_of, read

GOOD: list[tuple[str, Any, Any]] = [
    ("memory_total", "24GB", 24 * 10**9),
    ("memory_total", "24 GiB", 24 * 2**30),
    ("memory_total", 1000, 1000),
    ("bandwidth", "900GB/s", 900e9),
    ("bandwidth", "3.35TB/s", 3.35e12),
    ("compute_utilisation", "40%", 0.4),
    ("compute_utilisation", "40 %", 0.4),
    ("compute_utilisation", 0.4, 0.4),
    ("compute_utilisation", "0", 0.0),
    ("compute_utilisation", 1, 1.0),
    ("step_time", "31ms", 0.031),
    ("step_time", "0.031 s", 0.031),
    ("step_time", "250us", 0.00025),
    ("batch", "8", 8),
    ("queue", 0, 0),
    ("draft_cost", "0.1", 0.1),
    ("out_of_memory", "yes", True),
    ("out_of_memory", False, False),
]


@pytest.mark.parametrize(("key", "written", "value"), GOOD)
def test_units_are_read(key: str, written: Any, value: Any) -> None:
    """Sizes, rates, shares, times, counts and yes or no."""
    found = read(field_of(key), written)
    assert found == pytest.approx(value) and isinstance(found, type(value))


BAD: list[tuple[str, Any, str]] = [
    ("memory_total", "0GB", "a size"),
    ("memory_total", "-1GB", "a size"),
    ("memory_total", "nanGB", "a size"),
    ("memory_total", "1e400GB", "a size"),
    ("memory_total", True, "a size"),
    ("bandwidth", "fast", "a rate"),
    ("compute_utilisation", "140%", "a share"),
    ("compute_utilisation", 40, "a share"),
    ("compute_utilisation", "-4%", "a share"),
    ("compute_utilisation", "nan%", "a share"),
    ("compute_utilisation", float("nan"), "a share"),
    ("step_time", 31, "a time with its unit"),
    ("step_time", "31", "a time with its unit"),
    ("step_time", "0ms", "a time with its unit"),
    ("step_time", "31min", "a time with its unit"),
    ("batch", "8.5", "a whole number, 1 or more"),
    ("batch", 0, "a whole number, 1 or more"),
    ("batch", "eight", "a whole number, 1 or more"),
    ("batch", "9" * 30, "a whole number, 1 or more"),
    ("queue", -1, "a whole number, 0 or more"),
    ("draft_cost", "inf", "a number"),
    ("out_of_memory", "perhaps", "yes or no"),
    ("out_of_memory", None, "yes or no"),
    ("batch", None, "a whole number"),
    ("batch", [8], "a whole number"),
]


@pytest.mark.parametrize(("key", "written", "expected"), BAD)
def test_nonsense_is_refused(key: str, written: Any, expected: str) -> None:
    """By its key, with what was found and what is allowed."""
    with pytest.raises(ValueError, match=rf"^{key}: found .*, expected {expected}"):
        read(field_of(key), written)


def test_a_misspelt_key_has_a_neighbour() -> None:
    """The nearest symptom is offered."""
    with pytest.raises(ValueError, match="did you mean 'compute_utilisation'"):
        field_of("compute_utilization")
