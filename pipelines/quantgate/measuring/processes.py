"""A variant's process: started when it is first asked, opened once, ended with its stack."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import Any

from quantgate import rundir
from quantgate.measuring.work import Run, T, is_filled
from quantgate.ports import Worker
from quantgate.records import Opened, Variant


class Process:
    """A worker that is started when first needed and asked in records. It ends with its stack, at once where a person interrupts."""

    def __init__(self, work: Run, variant: Variant, stack: ExitStack, log: str | None = None) -> None:
        """``log``: name of its log, where it is not the variant's."""
        self._work, self._variant, self._stack = work, variant, stack
        self._log = work.folder / "logs" / f"{log or variant.name}.log"
        self._worker: Worker | None = None

    def ask(self, action: str, kind: type[T], **values: Any) -> T:
        """Send one request and decode its reply."""
        request = {"action": action, **rundir.plain(values)}
        reply = self._started().ask(request, self._work.display.progress)
        return rundir.decode(kind, json.dumps(reply))

    def _started(self) -> Worker:
        if self._worker is None:
            self._log.parent.mkdir(parents=True, exist_ok=True)
            self._worker = self._work.executor.open(self._variant, self._log)
            self._stack.callback(self._worker.close)
            self._stack.push(self._kill_on_interrupt)
        return self._worker

    def _kill_on_interrupt(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> bool:
        if kind is not None and self._worker is not None:
            self._worker.kill()
        return False


class LazyProcess(Process):
    """A variant's process, in which a session is opened when first needed: a stage that was kept needs neither."""

    def __init__(self, work: Run, variant: Variant, stack: ExitStack, *, generates: bool | None = None) -> None:
        """``generates``: whether it is to be filled or timed; None where that follows from what is measured of the variant."""
        super().__init__(work, variant, stack)
        self._scoring_only = not (is_filled(variant) if generates is None else generates)
        self._opened: Opened | None = None

    def open(self) -> Opened:
        """The loaded variant, opened once."""
        if self._opened is None:
            config, artifact = self._work.config, self._work.evidence[self._variant.name].artifact
            values = {"artifact": artifact, "engine": config.engine, "device": config.device, **cache_of(self._work, self._variant)}
            self._opened = self.ask("open", Opened, scoring_only=self._scoring_only, **values)
        return self._opened


def cache_of(work: Run, variant: Variant) -> dict[str, Any]:
    """How its cache is kept; where one variant's is kept in fewer bits, all are scored through theirs, so that they are comparable."""
    if all(one.kv_cache is None for one in work.config.variants):
        return {}
    return {"kv_cache": variant.kv_cache, "cached_scoring": True}


def opened(work: Run, variant: Variant, stack: ExitStack) -> LazyProcess:
    """A variant in a process of its own, loaded; the process ends with the stack."""
    lazy = LazyProcess(work, variant, stack, generates=True)
    lazy.open()
    return lazy
