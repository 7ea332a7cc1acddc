"""Serving with vLLM, its engine in this process and driven a step at a time.

Its pins seldom fit into another environment, so its worker usually has an interpreter of its own, which needs NumPy and pydantic besides.
Prefixes are not shared between requests, and one step takes the prompts of all rows: static batches do the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from vllm import EngineArgs, LLMEngine, SamplingParams

from quantgate.devices.oom import is_out_of_memory
from quantgate.errors import EngineError, OutOfMemory
from quantgate.ports import Device
from quantgate.records import Artifact, Counters, Request, Served, Serving, ServingSettings

FEWEST_BATCH_TOKENS = 64
PREEMPTIONS = "vllm:num_preemptions"
SETTINGS = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # the engine in this process: a step of ours is then one step of its
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # as many threads as the run says, on whatever cores
    "VLLM_CPU_KVCACHE_SPACE": "2",  # GiB
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
}
"""What vLLM reads from the environment when an engine is made; what stands there already wins."""


class VllmBatcher:
    """Opens artifacts with vLLM: float32 on a CPU, the artifact's own type elsewhere."""

    @contextmanager
    def open(self, artifact: Artifact, settings: ServingSettings, device: Device) -> Iterator[VllmStream]:
        """Load and hand the stream out. Raises ``EngineError`` or ``OutOfMemory``, also for a kind of artifact that vLLM cannot load."""
        for name, value in SETTINGS.items():
            os.environ.setdefault(name, value)
        try:
            engine = LLMEngine.from_engine_args(_arguments(artifact, settings, on_cpu=device.info.kind == "cpu"))
        except Exception as error:
            kind = OutOfMemory if is_out_of_memory(error) else EngineError
            raise kind(f"vLLM could not load {artifact.variant} ({artifact.format}): {type(error).__name__}: {error}") from error
        try:
            yield VllmStream(engine, settings)
        finally:
            del engine
            device.release()


def _arguments(artifact: Artifact, settings: ServingSettings, *, on_cpu: bool) -> EngineArgs:
    return EngineArgs(
        model=artifact.path,
        dtype=settings.dtype or ("float32" if on_cpu else "auto"),  # type: ignore[arg-type, unused-ignore]
        max_num_seqs=settings.rows,
        max_model_len=settings.context_tokens,
        max_num_batched_tokens=max(FEWEST_BATCH_TOKENS, settings.context_tokens, settings.rows * settings.prompt_tokens),
        enable_prefix_caching=False,
        enforce_eager=on_cpu,  # compiling for a CPU takes minutes
        async_scheduling=False,
        skip_tokenizer_init=True,
        disable_log_stats=False,  # else it does not count preemptions
        seed=0,
    )


class VllmStream:
    """The engine, asked in steps."""

    def __init__(self, engine: Any, settings: ServingSettings) -> None:
        self._engine, self._ends = engine, list(settings.suppressed_ids)
        self._seen: dict[str, int] = {}
        self._steps = 0
        dtype = str(engine.model_config.dtype).removeprefix("torch.")
        self.serving = Serving(dtype=dtype, library=_library())

    def submit(self, request: Request) -> None:
        self._seen[request.request_id] = 0
        tokens = request.max_new_tokens
        # Up to min_tokens vLLM never chooses an id at which it would stop.
        sampling = SamplingParams(temperature=0.0, max_tokens=tokens, min_tokens=tokens, stop_token_ids=self._ends, detokenize=False)
        self._engine.add_request(request.request_id, {"prompt_token_ids": list(request.tokens)}, sampling)

    def step(self) -> Served:
        if not self._engine.has_unfinished_requests():
            raise EngineError("vLLM has no request left although some have not ended")
        try:
            outputs = self._engine.step()
        except Exception as error:
            kind = OutOfMemory if is_out_of_memory(error) else EngineError
            raise kind(f"vLLM failed while serving: {type(error).__name__}: {error}") from error
        self._steps += 1
        ids = {one.request_id: self._new(one.request_id, one.outputs[0].token_ids) for one in outputs}
        return Served(ids=ids, ended=tuple(one.request_id for one in outputs if one.finished))

    def _new(self, name: str, found: Any) -> tuple[int, ...]:
        seen, self._seen[name] = self._seen[name], len(found)
        return tuple(int(one) for one in found[seen:])

    def counters(self) -> Counters:
        """Steps of ours, preemptions by vLLM's own count. It does not count what it computes again; without preemptions that is nothing."""
        values = [int(one.value) for one in self._engine.get_metrics() if one.name == PREEMPTIONS]
        preemptions = sum(values) if values else None
        return Counters(steps=self._steps, preemptions=preemptions, recomputed_tokens=0 if preemptions == 0 else None)


def _library() -> str:
    for name in ("vllm", "vllm-cpu"):
        try:
            return f"{name} {version(name)}"
        except PackageNotFoundError:
            continue
    return "vllm"
