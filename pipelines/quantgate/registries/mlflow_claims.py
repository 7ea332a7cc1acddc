"""One change of a registered model at a time, on a store that can neither compare and set nor be locked by a file.

A claim is a tag of the registered model, ``quantgate.claim.<token>``. Whoever wants to change something writes a claim of its own and then
reads all of them: alone, it goes ahead; otherwise it takes its claim back, waits and tries again. Of two that both go ahead each would have
to have read before the other wrote, and each writes before it reads: so there is never more than one, whatever machines they run on.
Knows neither aliases nor verdicts. Commands of MLflow's own that a person types hold no claim.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from uuid import uuid4

from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from quantgate.errors import RegistryError

PREFIX = "quantgate.claim."
STALE_S = 300.0
"""A claim this old was left by a process that died: a change takes about a second."""
WAITS_S = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4)


@contextmanager
def claimed(
    client: MlflowClient,
    model: str,
    *,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
    token: str | None = None,
) -> Iterator[None]:
    """Hold the only claim on a registered model. Raises ``RegistryError`` where others keep theirs all the while."""
    token = token or uuid4().hex
    key = f"{PREFIX}{token}"
    try:
        _claim(client, model, key, clock, sleep)
        yield
    finally:
        with suppress(MlflowException):  # one that stays behind is taken for stale later
            client.delete_registered_model_tag(model, key)


def _claim(client: MlflowClient, model: str, key: str, clock: Callable[[], float], sleep: Callable[[float], None]) -> None:
    apart = 0.5 + int(key[-4:], 16) / 0x10000  # two that met once wait for times of their own
    for wait_s in WAITS_S:
        client.set_registered_model_tag(model, key, f"{clock():.3f}")
        if not _others(client, model, key, clock()):
            return
        client.delete_registered_model_tag(model, key)
        sleep(wait_s * apart)
    raise RegistryError(f"another promotion of '{model}' is under way and does not end; nothing was changed. Run again in a few minutes")


def _others(client: MlflowClient, model: str, key: str, now_s: float) -> list[str]:
    """Claims of others; those of processes that died are cleared away."""
    found = {one: said for one, said in client.get_registered_model(model).tags.items() if one.startswith(PREFIX) and one != key}
    stale = [one for one, said in found.items() if abs(now_s - _seconds(said)) > STALE_S]
    for one in stale:
        client.delete_registered_model_tag(model, one)
    return [one for one in found if one not in stale]


def _seconds(said: str) -> float:
    try:
        return float(said)
    except ValueError:
        return 0.0
