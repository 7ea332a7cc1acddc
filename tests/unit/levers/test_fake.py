"""The scripted engine: rows and cache are never overdrawn, and every request gets its length."""

from __future__ import annotations

import pytest

from quantgate.errors import EngineError
from sessions import device
from streams import request, stream


def test_a_request_that_no_cache_holds_is_an_error() -> None:
    """It would wait for ever."""
    engine = stream(device(), rows=2, kv_tokens=16)
    engine.submit(request(0, 40))
    with pytest.raises(EngineError, match="no room for a single request"):
        engine.step()


def test_never_more_rows_than_there_are() -> None:
    """Of five requests two run; the others come when these end, in their order."""
    engine = stream(device(), rows=2)
    for index in range(5):
        engine.submit(request(index, 3))
    ended: list[str] = []
    while len(ended) < 5:
        found = engine.step()
        assert len(found.ids) <= 2
        ended += found.ended
    assert ended == ["r1", "r2", "r3", "r4", "r5"]
    assert engine.counters().steps == 9
