"""What a device is made to do for its roofs: as much as it says, in every way, and never without a reason where it cannot."""

from __future__ import annotations

import pytest
import torch

from quantgate.devices import exercises
from quantgate.errors import EngineError, OutOfMemory


def test_reading_covers_the_size_that_was_asked_for() -> None:
    """Within a row of 16 KiB; each way runs and reads the same bytes."""
    found = exercises.reading("cpu", 1_000_000)
    assert {one.amount for one in found} == {1_000_000 // 16_384 * 16_384}
    assert len({one.way for one in found}) == len(found) > 1
    for one in found:
        one.run()
    assert [one.amount for one in exercises.reading("cpu", 100)] == [100.0] * len(found)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_a_product_says_its_operations(dtype: str) -> None:
    """Two for each element of both: 2 x 64^3."""
    one = exercises.multiplying("cpu", 64, dtype)
    one.run()
    assert one.amount == 2 * 64**3


@pytest.mark.parametrize("dtype", ["float31", "bits8", "nn"])
def test_a_type_that_is_not_multiplied_is_a_reason(dtype: str) -> None:
    """A name that torch does not know, or a type without a product."""
    with pytest.raises(EngineError):
        exercises.multiplying("cpu", 64, dtype)


def test_no_memory_is_out_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A buffer that does not fit is told as such, whatever the backend calls it."""

    def full(*shape: int, **how: object) -> torch.Tensor:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate")

    monkeypatch.setattr(torch, "ones", full)
    with pytest.raises(OutOfMemory, match="no memory for a buffer of 1,000 bytes"):
        exercises.reading("cpu", 1000)
