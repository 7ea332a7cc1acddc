"""Names of adapters: near names, missing libraries, entry points of others."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest

from quantgate import plugins, signers
from quantgate.errors import MissingExtra, QuantgateError, UnknownPlugin, UsageError


@pytest.fixture
def entered(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Entry points of the group quantgate.sink, as another distribution would add them."""
    entries: dict[str, str] = {}

    def points(group: str) -> list[EntryPoint]:
        return [EntryPoint(name, value, group) for name, value in entries.items() if group == "quantgate.sink"]

    monkeypatch.setattr(plugins, "entry_points", points)
    return entries


def test_unknown_name_gives_the_nearest() -> None:
    """A misspelt name is an error that carries the nearest names and lists all."""
    with pytest.raises(
        UnknownPlugin, match=r"unknown quantizer 'bitsandbyte': did you mean bitsandbytes\? known are .*rtn"
    ) as caught:
        plugins.check("quantizer", "bitsandbyte")
    assert caught.value.nearest == ("bitsandbytes",)
    assert caught.value.exit_code == 2


def test_nothing_near_gives_no_hint() -> None:
    """A name that resembles none is answered with the list alone."""
    with pytest.raises(UnknownPlugin, match=r"unknown engine 'zzz': known are fake, transformers$"):
        plugins.load("engine", "zzz")


def test_every_built_in_module_is_named_inside_the_package() -> None:
    """A built-in target is module:Class inside quantgate, so that a name never loads foreign code."""
    targets = [target for names in plugins.BUILT_IN.values() for target in names.values()]
    assert all(target.startswith("quantgate.") and target.count(":") == 1 for target in targets)


def test_load_gives_the_class() -> None:
    """A known name gives the adapter's class itself."""
    assert plugins.load("device", "fake") is import_module("quantgate.devices.fake").FakeDevice


def test_entry_points_add_names(entered: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Another distribution adds a sink under its own name."""
    module = ModuleType("their_sinks")
    module.Slack = type("Slack", (), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "their_sinks", module)
    entered["slack"] = "their_sinks:Slack"
    assert plugins.load("sink", "slack") is module.Slack
    with pytest.raises(UnknownPlugin, match="did you mean slack"):
        plugins.check("sink", "slak")


def test_entry_points_do_not_replace_built_in_names(entered: dict[str, str]) -> None:
    """A foreign entry named like a built-in adapter is never used."""
    entered["junit"] = "their_sinks:Junit"
    assert plugins.known("sink")["junit"] == "quantgate.sinks.junit:JUnitSink"
    assert plugins.load("sink", "junit").__module__ == "quantgate.sinks.junit"


def test_missing_library_names_the_install_line(
    entered: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An adapter whose library is not installed says which one and how to get it."""
    (tmp_path / "needs_more.py").write_text("import surely_not_installed.deep\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    entered["more"] = "needs_more:Sink"
    with pytest.raises(
        MissingExtra, match=r"sink 'more' needs the library 'surely_not_installed'.*pip install surely_not_installed$"
    ):
        plugins.load("sink", "more")


def test_missing_module_of_quantgate_itself_is_no_missing_extra(entered: dict[str, str]) -> None:
    """A hole in this package is a fault of ours and is not answered with an install line."""
    entered["hole"] = "quantgate.sinks.surely_not_there:Sink"
    with pytest.raises(ModuleNotFoundError):
        plugins.load("sink", "hole")


def test_entry_without_such_a_class(entered: dict[str, str]) -> None:
    """An entry point that names a class its module lacks says so."""
    entered["wrong"] = "json:Sink"
    with pytest.raises(UsageError, match=r"sink 'wrong' is entered as json:Sink, and json has no such class") as caught:
        plugins.load("sink", "wrong")
    assert isinstance(caught.value, QuantgateError)


def test_a_signer_without_its_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes with an extra of quantgate is installed through it."""
    monkeypatch.setitem(sys.modules, "securesystemslib.dsse", None)
    for module in ("envelope", "ed25519"):
        monkeypatch.delitem(sys.modules, f"quantgate.signers.{module}", raising=False)
        monkeypatch.delattr(signers, module, raising=False)
    with pytest.raises(MissingExtra, match=r"needs the library '\w+'.*pip install 'quantgate\[signing\]'$"):
        plugins.load("signer", "ed25519")
