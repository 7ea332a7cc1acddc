"""Claims on a registered model: one holder at a time, the dead do not hold, and nothing stays behind."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from quantgate.errors import RegistryError
from quantgate.registries.mlflow_claims import PREFIX, STALE_S, WAITS_S, claimed


class Model:
    """A registered model's tags, as a server keeps them."""

    def __init__(self, **tags: str) -> None:
        self.tags, self._lock = dict(tags), threading.Lock()

    def set_registered_model_tag(self, model: str, key: str, value: str) -> None:
        with self._lock:
            self.tags[key] = value

    def delete_registered_model_tag(self, model: str, key: str) -> None:
        with self._lock:
            self.tags.pop(key, None)

    def get_registered_model(self, model: str) -> Any:
        with self._lock:
            return SimpleNamespace(tags=dict(self.tags))


def test_a_claim_is_held_and_taken_back() -> None:
    """Within the block there is one claim, after it none, also where the block fails; other tags stay."""
    model = Model(owner="Ada")
    with pytest.raises(ZeroDivisionError), claimed(model, "m"):
        assert len([key for key in model.tags if key.startswith(PREFIX)]) == 1
        raise ZeroDivisionError
    assert model.tags == {"owner": "Ada"}


def test_somebody_elses_claim_is_waited_for() -> None:
    """While another one holds its claim this one waits, longer each time, and goes ahead when that is gone."""
    model, waits = Model(**{f"{PREFIX}other": "100.0"}), []

    def wait(seconds: float) -> None:
        assert [key for key in model.tags if key.startswith(PREFIX)] == [f"{PREFIX}other"]
        waits.append(seconds)
        if len(waits) == 3:
            model.tags.clear()

    with claimed(model, "m", clock=lambda: 101.0, sleep=wait):
        pass
    assert waits == sorted(waits) and len(waits) == 3


def test_a_claim_that_is_never_taken_back_is_told() -> None:
    """After all waits nothing is changed, and the message says what is under way."""
    model, waits = Model(**{f"{PREFIX}other": "100.0"}), []
    with pytest.raises(RegistryError, match="under way"), claimed(model, "m", clock=lambda: 101.0, sleep=waits.append):
        raise AssertionError("held beside another one")
    assert len(waits) == len(WAITS_S) and model.tags == {f"{PREFIX}other": "100.0"}


@pytest.mark.parametrize("said", [str(100.0), "not a number"])
def test_a_claim_of_the_dead_is_cleared_away(said: str) -> None:
    """One that is older than any change takes, or that nobody wrote in this way, does not hold."""
    model = Model(**{f"{PREFIX}dead": said})
    with claimed(model, "m", clock=lambda: 101.0 + STALE_S, sleep=lambda _: None):
        assert f"{PREFIX}dead" not in model.tags
    assert model.tags == {}


def test_many_at_once_are_one_after_the_other() -> None:
    """Four threads each hold the claim, and never two of them at the same time."""
    model, inside, most, done = Model(), [0], [0], []

    def work() -> None:
        with claimed(model, "m"):
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            threading.Event().wait(0.01)
            inside[0] -= 1
            done.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert (most[0], len(done), model.tags) == (1, 4, {})
