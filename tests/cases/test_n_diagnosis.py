"""Values of public reports: what a quantized model may cost at batch 1, and what no memory can deliver."""

from __future__ import annotations

import pytest

from quantgate import gains
from quantgate.diagnosis import diagnose
from quantgate.symptoms import Symptoms, Trial

PARAMETERS, BYTES, BANDWIDTH = 8_030_261_248, 2, 3.35e12
ALONE = Symptoms(batch=1, streams=1, weight_bytes=PARAMETERS * BYTES, bandwidth_bytes_per_s=BANDWIDTH)


def test_a_rate_above_the_roof_is_a_measuring_fault() -> None:
    """8,030,261,248 bf16 parameters on 3.35 TB/s make at most 208.6 tokens/s at batch 1: 900 is refused, 208 believed."""
    assert pytest.approx(208.6, abs=0.05) == BANDWIDTH / (PARAMETERS * BYTES)
    impossible = diagnose(Symptoms(batch=1, streams=1, step_s=1 / 900, weight_bytes=PARAMETERS * BYTES, bandwidth_bytes_per_s=BANDWIDTH))
    assert impossible.limit == "abstain" and "faster than" in impossible.contradictions[0].because
    possible = diagnose(Symptoms(batch=1, streams=1, step_s=1 / 208, weight_bytes=PARAMETERS * BYTES, bandwidth_bytes_per_s=BANDWIDTH))
    assert possible.limit == "decode-step-bound"


def test_int8_that_is_slower_at_batch_1_is_said_to_be() -> None:
    """32.9 ms beside 154.6 ms a token at batch 1: dequantization is named, with the ratio, and the lever is not recommended for speed."""
    slow = Trial(lever="quantization", name="int8", gain=None, measured="measured", cost="0.21x at batch 1", alone_gain=32.9 / 154.6)
    found = diagnose(Symptoms(batch=1, streams=1, step_s=0.0329, step_floor_s=0.02), [slow])
    assert found.levers[0].fit == "does not fit"
    assert "0.21x the tokens/s at batch 1: dequantization" in found.levers[0].because
    assert "measured in this run: int8: 0.21x at batch 1" in found.levers[0].cost


def test_the_textbook_of_room() -> None:
    """24 GB with 16 GB of weights hold 7 requests of 2,048 tokens; int8 weights about double them."""
    assert int(8e9 / 1.07e9) == 7
    assert gains.room_ratio(24 * 10**9, 16 * 10**9, 8 * 10**9) == 2.0
