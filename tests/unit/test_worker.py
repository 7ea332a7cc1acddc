"""What a worker passes on to the engine, asked without a process."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

import tiny
from quantgate import rundir, worker
from quantgate.errors import MeasureError
from quantgate.records import DeviceConfig, KVCache, ModelSource, Variant


@pytest.mark.parametrize(("dtype", "bytes_"), [(None, 4), ("bfloat16", 2)])
def test_the_type_of_the_device_section_is_the_model_s(tmp_path: Path, dtype: str | None, bytes_: int) -> None:
    """Weights and cache are held in the type that the config asks for; on a CPU in float32 where it asks for none."""
    desk = worker.Desk(out=io.StringIO())
    values = {"artifact": tiny.artifact(tiny.llama(tmp_path / "m")), "device": DeviceConfig(threads=1, dtype=dtype)}
    with desk.stack:
        loaded = worker._open(desk, {**rundir.plain(values), "engine": "transformers"}).loaded
    assert (loaded.dtype, loaded.kv_bytes_per_element) == (dtype or "float32", bytes_)
    assert 1 <= loaded.weight_bytes / (loaded.logical_parameters * bytes_) < 1.01


def test_what_is_opened_beside_a_variant_is_opened_as_it_is() -> None:
    """Threads and type of the device section, the cache and the layout of scores reach every session of a process."""
    device, cache = DeviceConfig(threads=3, dtype="bfloat16"), KVCache(bits=4)
    found = worker._settings(rundir.plain({"device": device, "kv_cache": cache, "cached_scoring": True}))
    assert (found.threads, found.dtype, found.cached_scoring, found.scoring_only) == (3, "bfloat16", True, False)
    assert found.kv_cache is not None and found.kv_cache.bits == 4
    assert worker._settings({"device": rundir.plain(DeviceConfig())}).kv_cache is None


@pytest.mark.parametrize("fault", ["refuse", "crash"])
def test_a_build_that_fails_leaves_nothing(tmp_path: Path, fault: str) -> None:
    """A refused or failed build takes its working folder along: only one that was killed leaves it to the next."""
    variant = Variant(name="v", quantizer="fake", options={"fault": fault})
    values = {"variant": variant, "model": ModelSource(name="m", path="m"), "base": None, "device": DeviceConfig(kind="fake")}
    request = {**rundir.plain(values), "cache": str(tmp_path), "key": "a" * 64, "fresh": False}
    with pytest.raises(MeasureError, match="fake quantizer was told"):
        worker._quantize(worker.Desk(out=io.StringIO()), request)
    assert [one.name for one in (tmp_path / "artifacts").iterdir()] == [f".{'a' * 64}.lock"]
