"""Weight bytes: packed matrices with scales, float parts beside them, and the files as stored."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path

import pytest

import tiny
from quantgate.errors import ConfigError
from quantgate.modelconfig import describe
from quantgate.parameters import Matrices
from quantgate.ports import QuantizePlan
from quantgate.quantizers.bitsandbytes import BitsAndBytesQuantizer
from quantgate.records import DeviceConfig, ModelSource, Variant
from quantgate.weightbytes import (
    Packing,
    bytes_of_count,
    matrices_of_folder,
    share_quantized,
    stored_bytes,
    usual_packing,
    weight_bytes,
)

MODEL = (
    Matrices(part="embedding", rows=100, columns=64),
    Matrices(part="linear", rows=10, columns=64, count=2),
    Matrices(part="expert", rows=4, columns=64, count=3),
    Matrices(part="other", rows=64),
)
FLOATS = 6400 + 64


def test_only_linear_layers_and_experts_are_packed() -> None:
    """Embeddings and norms stay in 16 bit; a row's scale and a group's scale are counted."""
    packed = 2 * 640 + 3 * 256
    assert weight_bytes(MODEL, usual_packing(16)) == 2 * (FLOATS + packed)
    assert weight_bytes(MODEL, usual_packing(32)) == 4 * (FLOATS + packed)
    assert weight_bytes(MODEL, usual_packing(8)) == 2 * FLOATS + packed + 4 * (20 + 12)
    assert weight_bytes(MODEL, usual_packing(4)) == 2 * FLOATS + packed // 2 + 4 * packed // 64
    assert share_quantized(MODEL, usual_packing(4)) == packed / (FLOATS + packed)
    assert share_quantized(MODEL, usual_packing(16)) == 0.0


def test_experts_that_are_not_recognised_stay_in_float() -> None:
    """Fused experts that a quantizer does not see keep their 16 bits."""
    seen, unseen = (weight_bytes(MODEL, replace(usual_packing(4), experts=known)) for known in (True, False))
    assert unseen - seen == 768 * 2 - (384 + 48)


def test_uneven_sizes_are_rounded_up() -> None:
    """A row of 65 at 3 bits takes 25 bytes and two groups."""
    odd = (Matrices(part="linear", rows=1, columns=65),)
    assert weight_bytes(odd, Packing(bits=3, group=64, scale_bytes=2)) == 25 + 4


@pytest.mark.parametrize("bits", [0, 1, 9, 12, 64, -4])
def test_widths_that_nobody_stores_are_refused(bits: int) -> None:
    """2 to 8, 16 and 32, and nothing else."""
    with pytest.raises(ConfigError, match="bits"):
        usual_packing(bits)
    with pytest.raises(ConfigError, match="bits"):
        bytes_of_count(10, bits)


def test_a_folder_s_headers_say_every_shape(tmp_path: Path) -> None:
    """The headers of a saved model give what config.json gives, and no weight is read."""
    folder = tiny.llama(tmp_path / "llama")
    stored = matrices_of_folder(folder, tied=True)
    assert stored is not None
    by_config = describe(str((folder / "config.json").rename(tmp_path / "alone.json")))
    assert by_config.matrices is not None
    for bits in (32, 16, 8, 4):
        assert weight_bytes(stored, usual_packing(bits)) == weight_bytes(by_config.matrices, usual_packing(bits))
    assert stored_bytes(folder) == weight_bytes(stored, usual_packing(32))


@pytest.mark.parametrize("bits", [8, 4])
def test_arithmetic_within_one_percent_of_what_is_stored(tmp_path: Path, bits: int) -> None:
    """int8 and nf4 as bitsandbytes saves them: the tensors in the files are within 1 % of the arithmetic on the float model."""
    folder = tiny.wide_llama(tmp_path / "float")
    (into := tmp_path / "packed").mkdir()
    plan = QuantizePlan(
        model=ModelSource(name="tiny", path=str(folder)),
        variant=Variant(name="v", quantizer="bitsandbytes", weight_bits=bits, granularity="channel" if bits == 8 else "group:64"),
        base=tiny.artifact(folder),
        device=DeviceConfig(),
    )
    BitsAndBytesQuantizer().quantize(plan, into, lambda done, total, what: None)
    found = describe(str(folder)).matrices
    assert found is not None
    predicted = weight_bytes(found, replace(usual_packing(bits), float_bytes=4))
    assert predicted == pytest.approx(stored_bytes(into), rel=0.01)
    assert matrices_of_folder(into, tied=True) is None, "packed tensors say nothing of the model's shapes"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"short",
        struct.pack("<Q", 2**60),
        struct.pack("<Q", 4) + b"{{{{",
        struct.pack("<Q", 9) + b'{"a": {}}',
        struct.pack("<Q", 2) + b"[]",
    ],
)
def test_a_broken_header_is_one_line(tmp_path: Path, content: bytes) -> None:
    """A file that is no safetensors file is named, with exit code 2 behind it."""
    (tmp_path / "model.safetensors").write_bytes(content)
    (tmp_path / "config.json").write_text(json.dumps({}), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"model\.safetensors: not a safetensors file"):
        matrices_of_folder(tmp_path, tied=False)
