"""Where a model's config.json is: folder, file, GGUF, package, hub; what is missing is said with the place looked at."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import gguf
import numpy as np
import pytest

import tiny
from quantgate.errors import ConfigError, MissingModel
from quantgate.modelconfig import describe, describe_source
from quantgate.records import ModelSource
from quantgate.shapes import shape_of_config
from quantgate.weightbytes import logical_parameters


def write_gguf(file: Path, architecture: str = "llama") -> Path:
    """Two layers of a Llama's tensors, 3,800 weights."""
    writer = gguf.GGUFWriter(str(file), architecture)
    writer.add_block_count(1)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(48)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_context_length(256)
    shapes = {"token_embd.weight": (50, 32), "blk.0.attn_q.weight": (32, 32), "blk.0.attn_k.weight": (16, 32), "output_norm.weight": (32,)}
    for name, shape in shapes.items():
        writer.add_tensor(name, np.zeros(shape, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def test_a_folder_is_read_from_its_headers(tmp_path: Path) -> None:
    """Shapes of a saved model, every weight counted."""
    found = describe(str(tiny.llama(tmp_path / "m", tied=False)))
    assert found.matrices is not None
    assert logical_parameters(found.matrices) == logical_parameters(describe(str(moved(tmp_path / "m"))).matrices or ())


def moved(folder: Path) -> Path:
    """The config alone, away from its weights."""
    return (folder / "config.json").rename(folder.parent / "alone.json")


def test_a_gguf_file_says_the_same_as_a_config(tmp_path: Path) -> None:
    """Layers, heads and widths from its own tables, every tensor counted, the head tied where it has none."""
    found = describe(str(write_gguf(tmp_path / "m.gguf")))
    shape = shape_of_config(found.config)
    assert (len(shape.layers), shape.layers[0].kv_heads, shape.layers[0].key_width) == (1, 2, 8)
    assert (shape.vocabulary, shape.tied, shape.context_tokens) == (50, True, 256)
    assert found.matrices is not None
    assert logical_parameters(found.matrices) == 50 * 32 + 32 * 32 + 16 * 32 + 32


def test_a_gguf_file_that_is_none(tmp_path: Path) -> None:
    """Broken bytes, and an architecture whose cache is not known."""
    (tmp_path / "broken.gguf").write_bytes(b"GGUX" + bytes(64))
    with pytest.raises(ConfigError, match="not a GGUF file"):
        describe(str(tmp_path / "broken.gguf"))
    with pytest.raises(ConfigError, match="mamba"):
        describe(str(write_gguf(tmp_path / "m.gguf", "mamba")))


def test_the_sources_of_a_config(tmp_path: Path) -> None:
    """A folder, a GGUF file in a folder by its pattern, and what is not there."""
    folder = tiny.llama(tmp_path / "m")
    assert describe_source(ModelSource(name="m", path=str(folder))).file == folder / "config.json"
    file = write_gguf(folder / "a.gguf")
    assert describe_source(ModelSource(name="m", path=str(folder), gguf_file="*.gguf")).file == file
    write_gguf(folder / "b.gguf")
    for source in (
        ModelSource(name="m", path=str(folder), gguf_file="*.gguf"),
        ModelSource(name="m", path=str(tmp_path / "nowhere")),
        ModelSource(name="m", package="no-such-package-at-all"),
        ModelSource(name="m", package="numpy", gguf_file="*.gguf"),
    ):
        with pytest.raises(MissingModel):
            describe_source(source)


def test_the_hub_is_asked_at_the_commit_and_only_for_the_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """First the local copy, then the hub, each at the revision; what neither has is one line."""
    asked: list[tuple[str, str | None, bool]] = []

    def download(repository: str, name: str, revision: str | None = None, local_files_only: bool = False) -> str:
        assert name == "config.json"
        asked.append((repository, revision, local_files_only))
        if local_files_only or repository == "a/gone":
            raise OSError("not here")
        return str(moved(tiny.llama(tmp_path / "m")))

    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(hf_hub_download=download))
    found = describe_source(ModelSource(name="m", hub="a/b", revision="c0ffee"))
    assert (found.name, asked) == ("a/b", [("a/b", "c0ffee", True), ("a/b", "c0ffee", False)])
    with pytest.raises(MissingModel, match="a/gone"):
        describe("a/gone")


def test_a_config_with_a_mark_at_its_start(tmp_path: Path) -> None:
    """A byte order mark is not part of the JSON."""
    file = tmp_path / "config.json"
    sizes = {"num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 2, "vocab_size": 5, "intermediate_size": 8}
    fields = {"model_type": "llama", **sizes}
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps(fields).encode())
    assert len(shape_of_config(describe(str(tmp_path)).config).layers) == 1
