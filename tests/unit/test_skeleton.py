"""The first files for somebody's own model: they load as they stand, fit the model, and overwrite nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from chain import Chain, Done
from quantgate import config, golden
from quantgate.hygiene.examine import examine

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model folder with a name that needs quoting."""
    return write_model(tmp_path / "models" / 'odd: "name" #1', hidden_size=128, intermediate_size=256, max_position_embeddings=2048)


def write_model(path: Path, **values: object) -> Path:
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps({"model_type": "llama", **values}), encoding="utf-8")
    return path


def init(root: Path, *words: str | Path) -> Done:
    return Chain(root=root).cli("init", *words)


def test_a_folder_becomes_a_config_that_loads(folder: Path, tmp_path: Path) -> None:
    """Config and policy pass the project's own reader; the model is found from where the config lies."""
    done = init(tmp_path, folder, "--into", tmp_path / "gate")
    assert done.code == 0, done.err
    found = config.load_run(tmp_path / "gate" / "run.yaml")
    assert found.model.path == str(folder.resolve())
    assert found.model.name == "odd-name-1"
    assert [one.role for one in found.variants] == ["reference", "candidate", "candidate", "known_bad"]
    assert found.policy.require_controls
    assert found.golden_sets == (tmp_path / "gate" / "golden_sets" / "faq" / "v1",)
    assert {one.granularity for one in found.variants if one.quantizer == "rtn"} == {"group:64"}
    for word in ("next:", "Seal the set", "quantgate policy explain", "quantgate run"):
        assert word in done.out


def test_the_items_load_and_the_set_can_be_sealed(folder: Path, tmp_path: Path) -> None:
    """The two items show both forms, are read without a fault, and are far too few to pass anything."""
    assert init(tmp_path, folder, "--into", tmp_path / "gate", "--golden-set", "support.v2").code == 0
    place = tmp_path / "gate" / "golden_sets" / "support.v2" / "v1"
    golden.write_manifest(place, "CC-BY-4.0")
    found = golden.load(place)
    assert sorted(item.metric for item in found.items) == ["exact_match", "multiple_choice"]
    assert not [one for one in examine(place / golden.ITEMS_FILE)[1] if one.severity == "fault"]
    done = Chain(root=tmp_path).cli("run", tmp_path / "gate" / "run.yaml")
    assert (done.code, "2 items" in done.err) == (2, True), done.err


def test_what_the_model_allows(tmp_path: Path) -> None:
    """Columns that 64 does not divide take the control by channel; a short context shortens the workload."""
    place = write_model(tmp_path / "small", hidden_size=100, intermediate_size=256, max_position_embeddings=64)
    assert init(tmp_path, place, "--into", tmp_path / "gate").code == 0
    found = config.load_run(tmp_path / "gate" / "run.yaml")
    assert next(one for one in found.variants if one.quantizer == "rtn").granularity == "channel"
    assert found.workload.prompt_tokens + found.workload.output_tokens <= 64


def test_a_gguf_file_alone_or_in_a_folder(tmp_path: Path) -> None:
    """The file itself, or a folder with one such file."""
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "Tiny-Q8.gguf").write_bytes(b"GGUF")
    assert init(tmp_path, tmp_path / "m" / "Tiny-Q8.gguf", "--into", tmp_path / "a").code == 0
    assert init(tmp_path, tmp_path / "m", "--into", tmp_path / "b").code == 0
    alone, inside = (config.load_run(tmp_path / name / "run.yaml").model for name in "ab")
    assert (alone.name, alone.path) == ("Tiny-Q8", str(tmp_path / "m" / "Tiny-Q8.gguf"))
    assert (inside.path, inside.gguf_file) == (str(tmp_path / "m"), "Tiny-Q8.gguf")


@pytest.mark.parametrize("words", [(f"owner/some.model@{COMMIT}",), ("owner/some.model", "--revision", COMMIT)])
def test_a_hub_model_with_its_commit(tmp_path: Path, words: tuple[str, ...]) -> None:
    """A hub id is written with the commit that is to be measured."""
    assert init(tmp_path, *words, "--into", tmp_path / "gate").code == 0
    found = config.load_run(tmp_path / "gate" / "run.yaml").model
    assert (found.name, found.hub, found.revision) == ("some.model", "owner/some.model", COMMIT)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("owner/model",), "needs the commit"),
        (("owner/model@abc1234",), "found 'abc1234'"),
        (("owner/model", "--revision", "main"), "found 'main'"),
        (("nowhere",), "there is no model at nowhere"),
        (("a/b/c",), "there is no model at a/b/c"),
        (("empty",), "neither config.json nor a GGUF file"),
        (("several",), "2 GGUF files"),
        (("packed",), "is quantized already"),
        (("broken",), "cannot be read"),
        (("list",), "holds a list"),
        (("notes.txt",), "neither a model folder nor a GGUF file"),
        (("good", "--revision", COMMIT), "--revision means nothing"),
        (("good", "--golden-set", "a/b"), "cannot be named 'a/b'"),
        (("good", "--golden-set", ""), "cannot be named ''"),
    ],
)
def test_what_is_no_model_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], named: str
) -> None:
    """Exit 2 with what was found and what is allowed; no file is left."""
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    write_model(Path("good"))
    write_model(Path("packed"), quantization_config={"bits": 4})
    Path("several").mkdir()
    for name in "ab":
        Path("several", f"{name}.gguf").write_bytes(b"GGUF")
    for name, text in (("broken", "{"), ("list", "[]")):
        Path(name).mkdir()
        Path(name, "config.json").write_text(text)
    Path("notes.txt").write_text("no model")
    done = init(tmp_path, *words, "--into", "gate")
    assert (done.code, named in done.err) == (2, True), done.err
    assert not Path("gate").exists()


@pytest.mark.parametrize("name", ["run.yaml", "policy.yaml", "golden_sets/faq/v1/items.jsonl"])
def test_nothing_is_overwritten(folder: Path, tmp_path: Path, name: str) -> None:
    """One file that is there already stops everything: it stays as it is and none of the others is written."""
    place = tmp_path / "gate" / name
    place.parent.mkdir(parents=True)
    place.write_text("mine", encoding="utf-8")
    done = init(tmp_path, folder, "--into", tmp_path / "gate")
    assert (done.code, "nothing is overwritten" in done.err) == (2, True), done.err
    assert place.read_text(encoding="utf-8") == "mine"
    assert [one for one in (tmp_path / "gate").rglob("*") if one.is_file()] == [place]


def test_a_place_that_cannot_be_written(folder: Path, tmp_path: Path) -> None:
    """A file where the folder should be is an error with its path."""
    (tmp_path / "gate").write_text("a file")
    done = init(tmp_path, folder, "--into", tmp_path / "gate")
    assert (done.code, "cannot write into" in done.err) == (2, True), done.err
    shutil.rmtree(folder)
