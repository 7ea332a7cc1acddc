"""What every test may use: the chain on fakes, in a folder of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from chain import Chain
from inline import inline_executor


@pytest.fixture
def inline() -> Iterator[None]:
    """The executor without processes, for one test."""
    with inline_executor():
        yield


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Chain:
    """Golden set and policy, written once."""
    return Chain.in_folder(tmp_path_factory.mktemp("template"))


@pytest.fixture
def chain(tmp_path: Path, template: Chain, inline: None, monkeypatch: pytest.MonkeyPatch) -> Chain:
    """The chain in an empty folder, without processes, blind to the settings of whoever runs the tests."""
    for name in ("QUANTGATE_CACHE", "XDG_CACHE_HOME", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    return template.copy(tmp_path / "chain")


@pytest.fixture(scope="session")
def passed(tmp_path_factory: pytest.TempPathFactory, template: Chain) -> Chain:
    """A folder with one run that passed, not to be altered: copy it."""
    made = template.copy(tmp_path_factory.mktemp("passed"))
    with inline_executor():
        done = made.run()
    assert done.code == 0, done.err
    return made
