"""Serving by script: requests run where a row and room in the cache are free, time passes on the fake device's clock.

The cache is a number of blocks. Under ``admit: whole`` a request runs when its whole length has room, so none ever gives way; under
``prompt`` it runs when its prompt has, and where room runs out the one that came last gives way and is computed again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quantgate.devices.fake import FakeDevice
from quantgate.engines.fake import SERVED_ID
from quantgate.errors import EngineError
from quantgate.quantizers.fake import SCRIPT, fault_of
from quantgate.records import Artifact, Counters, Request, Served, Serving, ServingSettings

BLOCK_TOKENS = 16
STRAY_ID = ord("?") + 2
"""What the fake model itself would say next: far from a tie with what it serves."""


class FakeBatcher:
    """Opens what the fake quantizer wrote."""

    @contextmanager
    def open(self, artifact: Artifact, settings: ServingSettings, device: Any) -> Iterator[FakeStream]:
        if not isinstance(device, FakeDevice):
            raise EngineError("the fake engine serves on the fake device only")
        yield FakeStream(json.loads((Path(artifact.path) / SCRIPT).read_text(encoding="utf-8")), settings, device)


@dataclass(slots=True)
class _Row:
    """A request with what it has so far; ``blocks`` are those it holds."""

    request: Request
    ids: list[int] = field(default_factory=list)
    blocks: int = 0

    @property
    def tokens(self) -> int:
        return len(self.request.tokens) + len(self.ids)


class FakeStream:
    """The scripted engine."""

    def __init__(self, script: Mapping[str, Any], settings: ServingSettings, device: FakeDevice) -> None:
        self._script, self._settings, self._device = script, settings, device
        self._block = int(script.get("block_tokens") or BLOCK_TOKENS)
        tokens = script.get("kv_tokens")
        self._free = None if tokens is None else int(tokens) // self._block
        self._reserves = script.get("admit", "whole") == "whole"
        self._queue: list[_Row] = []
        self._running: list[_Row] = []
        self._last = ""
        self._steps = self._preemptions = self._recomputed = 0
        self.serving = Serving(dtype="float32", library="fake")

    def submit(self, request: Request) -> None:
        self._queue.append(_Row(request=request))
        self._last = request.request_id

    def step(self) -> Served:
        admitted = self._admit()
        self._make_room()
        if not self._running:
            raise EngineError("the fake cache has no room for a single request")
        self._steps += 1
        rows = len(self._running)
        self._device.advance(self._script["step_s"] * (1 + 0.02 * rows + 0.2 * admitted))
        given = {row.request.request_id: self._next(row) for row in self._running}
        ended = [row for row in self._running if len(row.ids) >= self._length(row)]
        for row in ended:
            self._leave(row)
        return Served(ids=given, ended=tuple(row.request.request_id for row in ended))

    def counters(self) -> Counters:
        return Counters(steps=self._steps, preemptions=self._preemptions, recomputed_tokens=self._recomputed)

    def _next(self, row: _Row) -> tuple[int, ...]:
        strays = self._is_last(row) and fault_of(self._script) == "strays" and len(row.ids) == row.request.max_new_tokens // 2
        row.ids.append(STRAY_ID if strays else SERVED_ID)
        return (row.ids[-1],)

    def _length(self, row: _Row) -> int:
        """The tokens it gets: those asked for, unless the script cuts."""
        cut = self._is_last(row) and fault_of(self._script) == "cuts"
        return row.request.max_new_tokens - cut

    def _is_last(self, row: _Row) -> bool:
        return row.request.request_id == self._last

    # ------------------------------------------------------------------------------------------ the cache

    def _admit(self) -> int:
        """Let requests in, in their order, until a row or room is lacking; how many came."""
        came = 0
        while self._queue and len(self._running) < self._settings.rows:
            row = self._queue[0]
            tokens = len(row.request.tokens) + row.request.max_new_tokens if self._reserves else row.tokens + 1
            if not self._hold(row, tokens):
                break
            self._running.append(self._queue.pop(0))
            self._recomputed += row.tokens if row.ids else 0
            came += 1
        return came

    def _make_room(self) -> None:
        """Room for the next token of every row; where there is none, the one that came last gives way."""
        for row in list(self._running):
            while row in self._running and not self._hold(row, row.tokens + 1):
                gives_way = self._running[-1]
                self._leave(gives_way)
                self._queue.insert(0, gives_way)
                self._preemptions += 1

    def _hold(self, row: _Row, tokens: int) -> bool:
        more = max(0, -(-tokens // self._block) - row.blocks)
        if self._free is not None:
            if more > self._free:
                return False
            self._free -= more
        row.blocks += more
        return True

    def _leave(self, row: _Row) -> None:
        self._running.remove(row)
        if self._free is not None:
            self._free += row.blocks
        row.blocks = 0
