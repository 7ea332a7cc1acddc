"""Sessions and devices by hand: a memory that refuses, a clock that needs the barrier, a tokenizer that adds a BOS."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from quantgate.devices.fake import FakeDevice
from quantgate.errors import OutOfMemory
from quantgate.records import (
    ChoiceLogProbs,
    DeviceConfig,
    GoldenItem,
    LayerShape,
    Loaded,
    ModelShape,
    Request,
    Step,
)

BOS, EOS = 1, 2


def quiet(done: int, total: int, what: str) -> None:
    """Progress that nobody watches."""


def device() -> FakeDevice:
    """A fake device of 1 GB."""
    return FakeDevice(DeviceConfig(kind="fake", threads=1))


class CharTokenizer:
    """One id a character, from 3 on; as many BOS as it is told to add."""

    bos_id: int | None = BOS
    eos_ids: tuple[int, ...] = (EOS,)
    vocabulary_size = 1000
    has_template = False
    digest = "ef" * 32

    def __init__(self, *, bos: int = 1) -> None:
        self._bos = bos

    def encode(self, text: str, *, add_bos: bool) -> tuple[int, ...]:
        return ((BOS,) * self._bos if add_bos else ()) + tuple(ord(one) + 3 for one in text)

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(chr(one - 3) for one in ids if one > EOS)

    def render(self, item: GoldenItem) -> str:
        return item.few_shot + item.prompt


def loaded() -> Loaded:
    """A loaded model of one byte a cache element."""
    return Loaded(
        weight_bytes=1000,
        logical_parameters=1000,
        quantized_parameters=0,
        modules_replaced=0,
        modules_left=(),
        kernels={},
        dtype="float32",
        kv_bytes_per_element=1,
        weights_sha256="ab" * 32,
        tied=False,
        load_s=0.0,
    )


class Scripted:
    """A session whose ``generate`` and ``logprobs`` are given by the test."""

    def __init__(
        self,
        generate: Callable[[Sequence[Request]], Iterator[Step]] | None = None,
        *,
        logprobs: Callable[..., Iterator[ChoiceLogProbs]] | None = None,
        tokenizer: Any = None,
        kv_width: int = 1,
        context_tokens: int | None = None,
    ) -> None:
        layer = LayerShape(kind="full", kv_heads=1, key_width=kv_width, value_width=kv_width)
        self.shape = ModelShape(layers=(layer,), hidden=8, vocabulary=1000, tied=False, context_tokens=context_tokens)
        self.loaded = loaded()
        self.tokenizer = tokenizer or CharTokenizer()
        self._generate, self._logprobs = generate, logprobs

    def generate(self, requests: Sequence[Request]) -> Iterator[Step]:
        assert self._generate is not None
        return self._generate(requests)

    def logprobs(
        self, contexts: Sequence[tuple[int, ...]], continuations: Sequence[Sequence[tuple[int, ...]]]
    ) -> Iterator[ChoiceLogProbs]:
        assert self._logprobs is not None
        return self._logprobs(contexts, continuations)

    def distributions(self, contexts: Sequence[tuple[int, ...]]) -> Iterator[Any]:
        raise NotImplementedError


def full_rows(requests: Sequence[Request]) -> Iterator[Step]:
    """Every row writes as many tokens as it was asked for."""
    for _ in range(requests[0].max_new_tokens):
        yield Step(ids={one.request_id: 50 for one in requests})


class Memory:
    """A session on a fake device whose fills take ``row_bytes`` a row, and whose outcomes a test may script by batch size."""

    def __init__(self, on: FakeDevice, *, row_bytes: int, refuse: Callable[[int], bool] = lambda batch: False) -> None:
        self.device, self.row_bytes, self.refuse = on, row_bytes, refuse
        self.asked: list[int] = []

    def generate(self, requests: Sequence[Request]) -> Iterator[Step]:
        self.asked.append(len(requests))
        if self.refuse(len(requests)):
            raise OutOfMemory("no more")
        size = self.row_bytes * len(requests)
        self.device.allocate(size)
        try:
            for step in full_rows(requests):
                self.device.advance(1.0)
                yield step
        finally:
            self.device.free(size)

    def session(self) -> Scripted:
        """The session."""
        return Scripted(self.generate, kv_width=1)
