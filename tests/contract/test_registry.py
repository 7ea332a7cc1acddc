"""What every registry must do, run over all of them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from publishing import report, store_in
from quantgate.errors import ConfigError, RegistryError
from quantgate.ports import Registry
from quantgate.registries.local import LocalRegistry
from quantgate.registries.mlflow import MlflowRegistry

REGISTRIES: dict[str, Callable[[Path], Registry]] = {
    "local": lambda folder: LocalRegistry(folder / "registry.json"),
    "mlflow": lambda folder: MlflowRegistry(tracking_uri=store_in(folder)),
}


@pytest.fixture(params=REGISTRIES)
def registry(request: pytest.FixtureRequest, tmp_path: Path) -> Registry:
    return REGISTRIES[request.param](tmp_path)


def test_versions_count_from_one(registry: Registry) -> None:
    """Different artifacts are versions 1, 2, ..., each model counting for itself."""
    assert registry.register("m", report(), "int8") == "1"
    assert registry.register("m", report(), "nf4") == "2"
    assert registry.register("other", report(), "nf4") == "1"


def test_the_same_artifact_and_evidence_are_one_version(registry: Registry) -> None:
    """Registering again gives the version that exists; new evidence for the artifact gives a new one."""
    first = registry.register("m", report(), "int8")
    assert registry.register("m", report(), "int8") == first
    assert registry.register("m", replace(report(), evidence_sha256="f" * 64), "int8") != first


def test_an_alias_points_nowhere_at_first(registry: Registry) -> None:
    """Neither an unknown model nor an unset alias is an error."""
    assert registry.alias("m", "champion") is None
    registry.register("m", report(), "int8")
    assert registry.alias("m", "champion") is None


def test_a_passing_version_takes_the_alias(registry: Registry) -> None:
    """The alias follows a move from nothing and a move from the version it points at."""
    registry.register("m", report(), "int8")
    registry.register("m", report(), "nf4")
    registry.move("m", "champion", to="1", expecting=None)
    assert registry.alias("m", "champion") == "1"
    registry.move("m", "champion", to="2", expecting="1")
    assert registry.alias("m", "champion") == "2"


@pytest.mark.parametrize("outcome", ["fail", "inconclusive", "not_measured"])
def test_only_a_pass_takes_the_alias(registry: Registry, outcome: str) -> None:
    """A version that did not pass can be registered and never promoted."""
    version = registry.register("m", report(outcome=outcome), "int8")  # type: ignore[arg-type]
    with pytest.raises(RegistryError, match="only 'pass'"):
        registry.move("m", "champion", to=version, expecting=None)
    assert registry.alias("m", "champion") is None


def test_a_later_judgement_of_the_same_evidence_counts(registry: Registry) -> None:
    """A version judged again, under another policy, is promotable by the last judgement only."""
    version = registry.register("m", report(), "int8")
    assert registry.register("m", report(outcome="fail"), "int8") == version
    with pytest.raises(RegistryError):
        registry.move("m", "champion", to=version, expecting=None)
    registry.register("m", report(), "int8")
    registry.move("m", "champion", to=version, expecting=None)


@pytest.mark.parametrize("expecting", [None, "2"])
def test_a_move_from_another_state_is_refused(registry: Registry, expecting: str | None) -> None:
    """Where the alias moved meanwhile, nothing is overwritten."""
    registry.register("m", report(), "int8")
    registry.register("m", report(), "nf4")
    registry.move("m", "champion", to="1", expecting=None)
    with pytest.raises(RegistryError, match="another promotion came first"):
        registry.move("m", "champion", to="2", expecting=expecting)
    assert registry.alias("m", "champion") == "1"


@pytest.mark.parametrize("version", ["7", "x", "", "01"])
def test_an_unknown_version_is_refused(registry: Registry, version: str) -> None:
    """An alias never points at a version that does not exist."""
    registry.register("m", report(), "int8")
    with pytest.raises(RegistryError):
        registry.move("m", "champion", to=version, expecting=None)


def test_a_move_back_keeps_its_reason(registry: Registry) -> None:
    """The alias goes back to a version that passed, by compare-and-set; the versions stay, and the reason can be read."""
    registry.register("m", report(), "int8")
    registry.register("m", report(), "nf4")
    registry.move("m", "champion", to="1", expecting=None)
    registry.move("m", "champion", to="2", expecting="1")
    with pytest.raises(RegistryError, match="another promotion came first"):
        registry.move("m", "champion", to="1", expecting="1", reason="too late")
    registry.move("m", "champion", to="1", expecting="2", reason="wrong doses")
    assert registry.alias("m", "champion") == "1"
    assert registry.tags("m", "2")["variant"] == "nf4"
    if isinstance(registry, LocalRegistry):
        assert [one.get("reason") for one in registry.history("m")] == [None, None, "wrong doses"]
    else:
        for version in ("1", "2"):
            said = [value for key, value in registry.tags("m", version).items() if key.startswith("rollback.")]
            assert said == ["champion: version 2 -> 1: wrong doses"]


def test_tags_of_an_unknown_version_are_refused(registry: Registry) -> None:
    """Neither an unknown version nor an unknown model has tags."""
    registry.register("m", report(), "int8")
    for model, version in (("m", "7"), ("other", "1")):
        with pytest.raises(RegistryError, match="has no version"):
            registry.tags(model, version)


def test_a_reserved_alias_is_refused(registry: Registry) -> None:
    """The name rules hold for a move, too."""
    registry.register("m", report(), "int8")
    with pytest.raises(ConfigError):
        registry.move("m", "latest", to="1", expecting=None)


def test_of_two_moves_at_once_one_wins(registry: Registry) -> None:
    """Two promotions that start from the same state: one error, and the alias stands where the other put it."""
    registry.register("m", report(), "int8")
    registry.register("m", report(), "nf4")

    def moved(version: str) -> str | None:
        try:
            registry.move("m", "champion", to=version, expecting=None)
        except RegistryError:
            return None
        return version

    with ThreadPoolExecutor(2) as pool:
        won = [version for version in pool.map(moved, ("1", "2")) if version]
    assert [registry.alias("m", "champion")] == won
