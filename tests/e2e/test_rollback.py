"""Moving a release back, and rehearsing a promotion: by the command line, on the local registry."""

from __future__ import annotations

import json
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from chain import CONTROL, REFERENCE, Chain, Done, candidate
from publishing import store_in
from quantgate.registries.mlflow import MlflowRegistry

WHY = ("--reason", "wrong\ndoses")


def files_of(folder: Path) -> dict[str, str]:
    """Every file of a folder with its digest, lock files left out."""
    files = (one for one in folder.rglob("*") if one.is_file() and not one.name.endswith(".lock"))
    return {str(one.relative_to(folder)): sha256(one.read_bytes()).hexdigest() for one in files}


def registry_of(chain: Chain) -> dict[str, Any]:
    """The fake model in the registry's file."""
    read: dict[str, Any] = json.loads((chain.reports / "registry.json").read_text(encoding="utf-8"))["models"]["fake-model"]
    return read


@pytest.fixture
def two(chain: Chain) -> Chain:
    """Version 1 was out, version 2 is out now, version 3 failed."""
    for weight_bytes, error_rate in ((130_000_000, 0.202), (120_000_000, 0.202), (110_000_000, 0.32)):
        chain.run(variants=[REFERENCE, candidate(error_rate=error_rate, weight_bytes=weight_bytes), CONTROL])
    assert registry_of(chain)["aliases"] == {"champion": "2"}
    assert len(registry_of(chain)["versions"]) == 3
    return chain


def rollback(chain: Chain, *words: str) -> Done:
    return chain.cli("rollback", "--reports", chain.reports, *words)


def test_the_alias_goes_back_with_its_reason(two: Chain) -> None:
    """Version 1 is out again; what happened before stays in the history, the reason on one line."""
    done = rollback(two, "--to", "1", *WHY)
    assert (done.code, "version 2 -> version 1" in done.out) == (0, True), done.err
    found = registry_of(two)
    assert found["aliases"] == {"champion": "1"}
    assert [(one["from"], one["to"], one.get("reason")) for one in found["history"]] == [
        (None, "1", None),
        ("1", "2", None),
        ("2", "1", "wrong doses"),
    ]


@pytest.mark.parametrize(
    ("words", "code", "named"),
    [
        (("--to", "3", *WHY), 4, "its outcome is 'fail', only 'pass' goes out"),
        (("--to", "7", *WHY), 4, "has no version 7"),
        (("--to", "2", *WHY), 4, "points at version 2 already"),
        (("--to", "1", *WHY, "--from", "3"), 4, "another promotion came first"),
        (("--to", "1", *WHY, "--alias", "challenger"), 4, "points nowhere"),
        (("--to", "1", *WHY, "--alias", "latest"), 2, "reserved"),
        (("--to", "1", "--reason", "  "), 2, "needs a reason"),
        (("--to", "1"), 2, "--reason"),
    ],
)
def test_what_is_refused_moves_nothing(two: Chain, words: tuple[str, ...], code: int, named: str) -> None:
    """A version that never passed, none, the same one, a lost race, no reason: said, and every file stays as it was."""
    before = files_of(two.reports)
    done = rollback(two, *words)
    assert (done.code, named in done.err) == (code, True), done.err
    nowhere = two.cli("rollback", "--to", "1", *WHY, "--reports", "nowhere")
    assert (nowhere.code, "no run in nowhere" in nowhere.err) == (2, True), nowhere.err
    assert files_of(two.reports) == before


@pytest.mark.parametrize("what", ["is gone", "was altered"])
def test_a_version_without_its_checkpoint_is_refused(two: Chain, what: str) -> None:
    """Nothing is put out whose bytes are not those that passed."""
    place = Path(registry_of(two)["versions"][0]["tags"]["artifact_path"])
    if what == "is gone":
        shutil.rmtree(place)
    else:
        (place / "more.json").write_text("{}", encoding="utf-8")
    done = rollback(two, "--to", "1", *WHY)
    assert (done.code, f"the checkpoint of version 1 {what}" in done.err) == (4, True), done.err
    assert registry_of(two)["aliases"] == {"champion": "2"}


def test_several_models_need_a_run(two: Chain) -> None:
    """Where the reports hold runs of two models, one of its runs says which is meant."""
    first = two.runs[0]
    two.run(promotion={"registry": "local", "model": "other"})
    done = rollback(two, "--to", "1", *WHY)
    assert (done.code, "several models" in done.err) == (2, True), done.err
    assert rollback(two, "--to", "1", *WHY, "--run", str(first)).code == 0


def test_a_rehearsal_writes_nothing(two: Chain) -> None:
    """--dry-run says what would move, with the exit code of the verdict, and changes no file."""
    before = files_of(two.reports)
    done = two.cli("promote", two.runs[0], "--dry-run")
    assert (done.code, "int8 would be promoted: champion of fake-model would move from version 2" in done.out) == (0, True), done.err
    done = two.cli("promote", two.runs[2], "--dry-run")
    assert (done.code, "Nothing would be promoted: the run fails" in done.out) == (1, True), done.out
    assert files_of(two.reports) == before


def test_on_mlflow(chain: Chain) -> None:
    """The same over MLflow: a rehearsal creates no store; a move back leaves its reason on both versions."""
    promotion = {"registry": "mlflow", "model": "m"}
    chain.run(variants=[REFERENCE, candidate(), CONTROL])
    info = json.loads((chain.last / "run.json").read_text(encoding="utf-8"))
    (chain.last / "run.json").write_text(json.dumps({**info, "registry": "mlflow", "registered_model": "m"}), encoding="utf-8")
    done = chain.cli("promote", chain.last, "--dry-run")
    assert (done.code, "champion of m would move from nothing" in done.out) == (0, True), done.err
    assert not (chain.reports / "mlflow.db").exists()
    uri = store_in(chain.reports)
    assert chain.cli("promote", chain.last).code == 0
    assert chain.run(variants=[REFERENCE, candidate(weight_bytes=120_000_000), CONTROL], promotion=promotion).code == 0
    done = chain.cli("rollback", "--run", chain.last, "--to", "1", *WHY)
    assert (done.code, "champion of m: version 2 -> version 1" in done.out) == (0, True), done.err
    registry = MlflowRegistry(tracking_uri=uri)
    assert registry.alias("m", "champion") == "1"
    for version in ("1", "2"):
        notes = {key: value for key, value in registry.tags("m", version).items() if key.startswith("rollback.")}
        assert list(notes.values()) == ["champion: version 2 -> 1: wrong doses"]
