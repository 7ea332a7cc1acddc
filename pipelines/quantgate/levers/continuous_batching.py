"""Serving with the continuous batching of transformers itself: its manager runs the model in a thread, results come through its queue.

The cache holds ``rows`` requests of the longest length twice over, so that nothing is ever offloaded, and one step takes all their
prompts. Blocks are not shared between requests: static batches share none either.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from math import ceil
from typing import Any

import torch
from transformers import ContinuousBatchingConfig, GenerationConfig

from quantgate.engines.transformers import load_model
from quantgate.errors import EngineError
from quantgate.ports import Device
from quantgate.records import Artifact, Counters, EngineSettings, Request, Served, Serving, ServingSettings

PAGE_TOKENS = 32
FEWEST_BATCH_TOKENS = 64
POLL_S = 1.0
NO_END = -1
"""An end of sequence that no id is."""


class TransformersBatcher:
    """Opens artifacts with transformers and serves them through its continuous batching."""

    @contextmanager
    def open(self, artifact: Artifact, settings: ServingSettings, device: Device) -> Iterator[TransformersStream]:
        """Load, start the manager's thread, hand the stream out, and end the thread. Raises ``EngineError`` or ``OutOfMemory``."""
        if settings.threads is not None and device.info.kind != "cuda":
            torch.set_num_threads(settings.threads)
        logging.getLogger("ContinuousBatchingLogger").setLevel(logging.ERROR)  # it warns of what is set here on purpose
        model = load_model(artifact, EngineSettings(threads=settings.threads, dtype=settings.dtype), device)
        with torch.inference_mode():
            manager = model.init_continuous_batching(_generation(settings), _batching(settings, on_cuda=device.info.kind == "cuda"))
            manager.start()
        try:
            yield TransformersStream(manager, str(model.dtype).removeprefix("torch."))
        finally:
            manager.stop(block=True, hard_stop=True)
            manager.destroy()
            device.release()


def _generation(settings: ServingSettings) -> GenerationConfig:
    """Greedy decoding to the length asked for: ends of sequence are never chosen."""
    return GenerationConfig(
        do_sample=False,
        max_new_tokens=settings.context_tokens,
        eos_token_id=NO_END,
        suppress_tokens=list(settings.suppressed_ids) or None,
    )


def _batching(settings: ServingSettings, *, on_cuda: bool) -> ContinuousBatchingConfig:
    return ContinuousBatchingConfig(
        page_size=PAGE_TOKENS,
        num_blocks=2 * settings.rows * ceil(settings.context_tokens / PAGE_TOKENS),
        max_batch_tokens=max(FEWEST_BATCH_TOKENS, settings.rows * settings.prompt_tokens),
        max_requests_per_batch=settings.rows,
        allow_block_sharing=False,
        use_cuda_graph=None if on_cuda else False,
        use_async_batching=None if on_cuda else False,
    )


class TransformersStream:
    """The manager, asked in steps. What one forward gave may come in two steps, a moment apart: its results are queued one by one."""

    def __init__(self, manager: Any, dtype: str) -> None:
        self._manager = manager
        self._seen: dict[str, int] = {}
        self.serving = Serving(dtype=dtype, library=f"transformers {version('transformers')}")

    def submit(self, request: Request) -> None:
        self._seen[request.request_id] = 0
        self._manager.add_request(
            list(request.tokens),
            request_id=request.request_id,
            max_new_tokens=request.max_new_tokens,
            streaming=True,
            eos_token_id=NO_END,
        )

    def step(self) -> Served:
        ids: dict[str, tuple[int, ...]] = {}
        ended: list[str] = []
        result = self._first()
        while result is not None:
            self._take(result, ids, ended)
            result = self._manager.get_result(timeout=0)
        return Served(ids=ids, ended=tuple(ended))

    def _first(self) -> Any:
        """Wait for a result. The manager's thread ends where it fails, and says why in the result of a request."""
        while (result := self._manager.get_result(timeout=POLL_S)) is None:
            if not self._manager.is_running():
                raise EngineError("continuous batching of transformers ended without an answer; its own words are in the log")
        return result

    def _take(self, result: Any, ids: dict[str, tuple[int, ...]], ended: list[str]) -> None:
        name = result.request_id
        if result.error is not None:
            raise EngineError(f"continuous batching of transformers failed at request {name}: {result.error}")
        seen = self._seen[name]
        ids[name] = (*ids.get(name, ()), *result.generated_tokens[seen:])
        self._seen[name] = len(result.generated_tokens)
        if result.is_finished():
            ended.append(name)

    def counters(self) -> Counters:
        """Forwards since the start; the manager does not tell of requests that had to give way."""
        return Counters(steps=int(self._manager.current_batch))
