"""What cannot fit is told from shapes alone, and nothing else is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quantgate import fitting
from quantgate.parameters import Matrices
from quantgate.records import DeviceConfig, ModelSource, Variant

LINEAR, EMBEDDING = 1000 * 64, 100 * 64
MATRICES = (Matrices(part="linear", rows=1000, columns=64), Matrices(part="embedding", rows=100, columns=64))
REFERENCE = Variant(name="float32", quantizer="reference", role="reference")
INT8 = Variant(name="int8", quantizer="bitsandbytes", weight_bits=8)
RTN = Variant(name="rtn2", quantizer="rtn", weight_bits=2, granularity="group:64", role="known_bad")


def least(bits: int) -> int:
    """Bytes of the weights without scales, the embedding in float32."""
    return LINEAR * bits // 8 + EMBEDDING * 4


def test_the_least_that_weights_take_must_be_under_the_limit() -> None:
    """One byte more than the payload is room enough to try; the payload alone is none, and the width that fits with its scales is named."""
    assert fitting.too_large(INT8, MATRICES, least(8) + 1, 4) is None
    told = fitting.too_large(INT8, MATRICES, least(8), 4)
    assert told is not None
    assert told.startswith("its weights alone take at least 89.6 kB at 8 bits, and there are 89.6 kB: ")
    assert "the largest width whose weights fit is 7 bits" in told
    seven = LINEAR * 7 // 8 + LINEAR // 64 * 4 + EMBEDDING * 4
    assert "fit is 6 bits" in (fitting.too_large(INT8, MATRICES, seven, 4) or "")
    assert "not even 2-bit weights fit" in (fitting.too_large(INT8, MATRICES, EMBEDDING * 4, 4) or "")


def test_float_weights_are_counted_as_the_engine_holds_them() -> None:
    """A reference in half precision takes two bytes a weight; what is simulated takes what the reference takes."""
    whole = (LINEAR + EMBEDDING) * 4
    assert fitting.too_large(REFERENCE, MATRICES, whole // 2 + 1, 2) is None
    assert "at 32 bits" in (fitting.too_large(REFERENCE, MATRICES, whole, 4) or "")
    assert fitting.too_large(RTN, MATRICES, whole, 4) is not None
    assert fitting.too_large(RTN, MATRICES, whole + 1, 4) is None


@pytest.mark.parametrize(
    ("variant", "kind", "limit"),
    [
        (INT8, "cpu", 10),
        (REFERENCE, "cpu", None),
        (replace(INT8, measure="quality"), "cpu", None),
        (RTN, "cpu", None),
        (REFERENCE, "cuda", 10),
        (RTN, "cuda", 10),
    ],
)
def test_whom_a_budget_binds(variant: Variant, kind: str, limit: int | None) -> None:
    """On a GPU everybody; on a CPU the candidates that are filled, and the others have the machine."""
    assert fitting.budget_bytes(variant, DeviceConfig(kind=kind, memory_budget_bytes=10)) == limit
    assert fitting.budget_bytes(variant, DeviceConfig(kind=kind)) is None


def test_a_model_without_shapes_is_not_refused(tmp_path: Path) -> None:
    """A folder that says nothing, or a device whose memory is not known, refuses nobody; a config that tells does."""
    small = DeviceConfig(memory_budget_bytes=1)
    assert fitting.refusal(INT8, ModelSource(name="m", path=str(tmp_path / "nothing")), small, None) is None
    config: dict[str, Any] = {
        "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": 100, "tie_word_embeddings": True,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = ModelSource(name="m", path=str(tmp_path))
    ready = replace(INT8, quantizer="checkpoint", options={"path": "p"})
    assert fitting.refusal(ready, model, small, None) is None, "a checkpoint may hold its embedding in fewer bits too"
    assert "not even 2-bit weights fit; or raise device.memory_budget" in (fitting.refusal(INT8, model, small, None) or "")
    assert "not even 2-bit weights fit; the device has no more" in (fitting.refusal(REFERENCE, model, small, 1) or "")
    assert fitting.refusal(INT8, model, DeviceConfig(), None) is None
