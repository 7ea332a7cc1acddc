"""What an artifact's and a result's keys depend on."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import chain as chains
from chain import Chain
from quantgate import provenance
from quantgate.measuring import building, keys
from quantgate.records import Artifact, DeviceConfig, Variant

WORKLOAD = {"prompt_tokens": 8, "output_tokens": 8, "batch_sizes": [1], "max_batch": 2, "fill_repeats": 1}


def key(variant: Variant, **device: Any) -> str:
    config = SimpleNamespace(device=DeviceConfig(**device))
    work = SimpleNamespace(fingerprint=provenance.fixed(), config=config, environments={})
    return building._built_key(cast(Any, work), variant, None, "m" * 64)


def test_another_checkpoint_at_the_same_place_is_another_variant(tmp_path: Path) -> None:
    """A GGUF file or folder that was replaced is not taken for the one that was there; one that was only read again is."""
    file, folder = tmp_path / "m.gguf", tmp_path / "folder"
    folder.mkdir()
    (folder / "config.json").write_text("{}", encoding="utf-8")
    for place, inside in ((file, file), (folder, folder / "model.safetensors")):
        variant = Variant(name="ready", quantizer="checkpoint", weight_bits=8, options={"path": str(place)})
        inside.write_bytes(b"one model")
        before = key(variant)
        assert key(variant) == before
        inside.write_bytes(b"another model")
        assert key(variant) != before


def test_the_type_of_float_weights_is_part_of_what_is_built() -> None:
    """What was quantized from bfloat16 holds other codes and a rounded embedding, and is not used in float32; threads change nothing."""
    variant = Variant(name="int8", quantizer="bitsandbytes", weight_bits=8)
    assert key(variant, threads=1) == key(variant, threads=2) != key(variant, dtype="bfloat16")


def test_where_it_lies_and_how_long_it_took_is_no_part_of_a_result_s_key() -> None:
    """A cache that was moved, and an artifact that was built again with the same bytes, keep what was measured; other bytes do not."""
    work = cast(Any, SimpleNamespace(fingerprint=provenance.fixed()))
    built = Artifact(variant="int8", path="/here", format="rtn", stored_bytes=1, sha256="a" * 64, build_s=4.0)
    same = replace(built, path="/there", build_s=9.0)
    assert keys.key_of(work, artifact=built) == keys.key_of(work, artifact=same)
    assert keys.key_of(work, artifact=built) != keys.key_of(work, artifact=replace(built, sha256="b" * 64))


def test_a_checkpoint_that_is_not_there_has_a_key() -> None:
    """Its quantizer says that it is missing, not whoever looks it up in the cache."""
    assert key(Variant(name="ready", quantizer="checkpoint", weight_bits=8, options={"path": "/nowhere/at/all"}))


def test_libraries_of_its_own_interpreter(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where another library is installed for an interpreter, the variants that name it are built and measured again, and no others."""
    variants = [chains.REFERENCE, {**chains.candidate(), "python": sys.executable}, chains.CONTROL]
    for libraries, reused in (({"torch": "1"}, False), ({"torch": "1"}, True), ({"torch": "2"}, False)):
        monkeypatch.setattr(provenance, "environment", lambda libraries=libraries: libraries)
        done = chain.run(variants=variants, workload=WORKLOAD)
        assert done.code == 0, done.err
        stages = chains.reused_of(chain.last)
        assert all((stage in stages["int8"]) is reused for stage in ("quantize", "load", "score sums")), stages
    assert "load" in chains.reused_of(chain.last)["float32"]


def test_naming_an_interpreter_measures_anew(chain: Chain) -> None:
    """What was loaded and scored by the run's own interpreter says nothing of another one, though the artifact is the same to the byte."""
    assert chain.run(workload=WORKLOAD).code == 0
    variants = [chains.REFERENCE, {**chains.candidate(), "python": sys.executable}, chains.CONTROL]
    assert chain.run(variants=variants, workload=WORKLOAD).code == 0
    assert not {"load", "score sums"} & set(chains.reused_of(chain.last)["int8"])
