"""The adapter of vLLM: what it asks of the engine, and what it makes of its answers. The library itself has an environment of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

from quantgate.errors import EngineError, OutOfMemory
from quantgate.records import Artifact, ServingSettings
from sessions import device
from streams import request

SETTINGS = ServingSettings(rows=2, context_tokens=40, prompt_tokens=8, suppressed_ids=(2, 3), threads=1)
ARTIFACT = Artifact(variant="float32", path="/model", format="safetensors", stored_bytes=1, sha256="a")


@dataclass
class Output:
    """One request's ids so far."""

    request_id: str
    token_ids: list[int]
    finished: bool

    @property
    def outputs(self) -> list[Output]:
        return [self]


@dataclass
class Counter:
    """One of vLLM's metrics."""

    name: str
    value: int


@dataclass
class Engine:
    """Gives every request one id a step, and all of its ids each time, as vLLM does."""

    arguments: dict[str, Any]
    asked: dict[str, dict[str, Any]] = field(default_factory=dict)
    given: dict[str, list[int]] = field(default_factory=dict)
    broken: Exception | None = None
    preempted: int = 0

    model_config = type("Config", (), {"dtype": "torch.float32"})

    @classmethod
    def from_engine_args(cls, arguments: dict[str, Any]) -> Engine:
        if arguments["model"] == "/large":
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")
        return cls(arguments=arguments)

    def add_request(self, name: str, prompt: dict[str, Any], sampling: dict[str, Any]) -> None:
        self.asked[name] = {**prompt, **sampling}
        self.given[name] = []

    def has_unfinished_requests(self) -> bool:
        return bool(self.given)

    def step(self) -> list[Output]:
        if self.broken is not None:
            raise self.broken
        found = []
        for name, ids in list(self.given.items()):
            ids.append(len(ids) + 5)
            finished = len(ids) == self.asked[name]["max_tokens"]
            found.append(Output(request_id=name, token_ids=list(ids), finished=finished))
            if finished:
                del self.given[name]
        return found

    def get_metrics(self) -> list[Counter]:
        return [Counter(name="vllm:num_requests", value=1), Counter(name="vllm:num_preemptions", value=self.preempted)]


@pytest.fixture
def batcher(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The adapter with a stand-in for the library."""
    for name in ("VLLM_ENABLE_V1_MULTIPROCESSING", "VLLM_CPU_KVCACHE_SPACE", "VLLM_CPU_OMP_THREADS_BIND", "VLLM_NO_USAGE_STATS"):
        monkeypatch.setenv(name, "set before")
    monkeypatch.setenv("VLLM_LOGGING_LEVEL", "DEBUG")
    stub = ModuleType("vllm")
    stub.__dict__.update(EngineArgs=lambda **one: one, LLMEngine=Engine, SamplingParams=lambda **one: one)
    monkeypatch.setitem(sys.modules, "vllm", stub)
    monkeypatch.delitem(sys.modules, "quantgate.levers.vllm", raising=False)
    yield import_module("quantgate.levers.vllm").VllmBatcher()
    sys.modules.pop("quantgate.levers.vllm", None)


def test_lengths_are_exact_and_ends_of_sequence_are_never_chosen(batcher: Any) -> None:
    """Greedy, as many tokens at least as at most, and the model's ends among the ids that vLLM suppresses up to there."""
    with batcher.open(ARTIFACT, SETTINGS, device()) as stream:
        stream.submit(request(0, 3))
        (asked,) = stream._engine.asked.values()
    assert (asked["prompt_token_ids"], asked["temperature"]) == ([10, 11, 12, 13], 0.0)
    assert (asked["max_tokens"], asked["min_tokens"], asked["stop_token_ids"]) == (3, 3, [2, 3])


def test_both_ways_are_given_the_same_means(batcher: Any) -> None:
    """As many rows as asked, no shared prefixes, one step for the prompts of all rows; what a person set in the environment stays."""
    with batcher.open(ARTIFACT, SETTINGS, device()) as stream:
        found = stream._engine.arguments
    assert (found["max_num_seqs"], found["max_model_len"], found["enable_prefix_caching"]) == (2, 40, False)
    assert found["max_num_batched_tokens"] >= 16
    assert os.environ["VLLM_CPU_KVCACHE_SPACE"] == "set before"


def test_steps_give_new_ids_only(batcher: Any) -> None:
    """VLLM repeats all ids of a request in each answer; each is handed on once, and counters are told."""
    with batcher.open(ARTIFACT, SETTINGS, device()) as stream:
        stream.submit(request(0, 2))
        stream.submit(request(1, 3))
        steps = [stream.step() for _ in range(3)]
        counters = stream.counters()
        stream._engine.preempted = 2
        later = stream.counters()
    assert [dict(one.ids) for one in steps] == [{"r1": (5,), "r2": (5,)}, {"r1": (6,), "r2": (6,)}, {"r2": (7,)}]
    assert [one.ended for one in steps] == [(), ("r1",), ("r2",)]
    assert (counters.steps, counters.preemptions, counters.recomputed_tokens) == (3, 0, 0)
    assert (later.preemptions, later.recomputed_tokens) == (2, None)
    assert stream.serving.dtype == "float32"


def test_its_failures_are_translated(batcher: Any) -> None:
    """A load without memory, a step that fails, and an engine that forgot its requests."""
    with pytest.raises(OutOfMemory, match="vLLM could not load float32"), batcher.open(
        Artifact(variant="float32", path="/large", format="safetensors", stored_bytes=1, sha256="a"), SETTINGS, device()
    ):
        pass
    with batcher.open(ARTIFACT, SETTINGS, device()) as stream:
        with pytest.raises(EngineError, match="vLLM has no request left"):
            stream.step()
        stream.submit(request(0, 2))
        stream._engine.broken = ValueError("no such kernel")
        with pytest.raises(EngineError, match="vLLM failed while serving: ValueError: no such kernel"):
            stream.step()
