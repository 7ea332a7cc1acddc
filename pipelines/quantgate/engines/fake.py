"""A model that can only add, plays its script, and is the same to the byte everywhere.

It reads sums such as ``17 + 25 =`` out of the prompt, knows the answer, and gives a wrong one for the share of prompts that its script
names; which prompts is decided by a digest of prompt and seed. Time passes on the fake device's clock, memory on its counter.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from quantgate.devices.fake import FakeDevice
from quantgate.errors import EngineError, NumericallyInvalid, OutOfMemory
from quantgate.kvcache import kv_bytes_per_row, quantized_bytes
from quantgate.quantizers.fake import CRAMPED_TOKENS, SCRIPT, fault_of
from quantgate.records import (
    Artifact,
    ChoiceLogProbs,
    EngineSettings,
    GoldenItem,
    KVBytes,
    KVCache,
    LayerShape,
    Loaded,
    ModelShape,
    Request,
    Step,
    WeightsUsed,
)

PARAMETERS = 100_000_000
EOS, BOS = 0, 1
SHAPE = ModelShape(
    layers=(LayerShape(kind="full", kv_heads=2, key_width=64, value_width=64, query_heads=4),) * 10,
    hidden=256,
    vocabulary=0x3000,
    tied=True,
    context_tokens=4096,
)
KV_BYTES_PER_ELEMENT = 4
PREFILL_BYTES_PER_TOKEN = 6_000
SERVED_ID = ord("x") + 2
"""What it writes where only the length is asked for."""
LONGEST = 1024
"""Tokens of an answer that is followed."""
SUM = re.compile(r"(\d+) \+ (\d+) =")


class FakeTokenizer:
    """One id a character: its code point plus two."""

    bos_id: int | None = BOS
    eos_ids: tuple[int, ...] = (EOS,)
    vocabulary_size = SHAPE.vocabulary
    has_template = False
    digest = hashlib.sha256(b"one id a character").hexdigest()

    def encode(self, text: str, *, add_bos: bool) -> tuple[int, ...]:
        return ((BOS,) if add_bos else ()) + tuple(ord(one) + 2 for one in text)

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(chr(one - 2) for one in ids if one > BOS)

    def pieces(self) -> Sequence[str]:
        return ["", "<s>", *(chr(one - 2) for one in range(2, self.vocabulary_size))]

    def render(self, item: GoldenItem) -> str:
        return item.few_shot + item.prompt


class FakeEngine:
    """Opens what the fake quantizer wrote."""

    @contextmanager
    def open(self, artifact: Artifact, settings: EngineSettings, device: Any) -> Iterator[FakeSession]:
        if not isinstance(device, FakeDevice):
            raise EngineError("the fake engine runs on the fake device only")
        script = json.loads((Path(artifact.path) / SCRIPT).read_text(encoding="utf-8"))
        device.allocate(int(script["weight_bytes"]))
        try:
            yield FakeSession(script, device, settings.kv_cache)
        finally:
            device.free(int(script["weight_bytes"]))


class FakeSession:
    """The scripted model, loaded."""

    def __init__(self, script: dict[str, Any], device: FakeDevice, kv: KVCache | None) -> None:
        self._script, self._device, self._kv = script, device, kv
        self.shape = SHAPE
        self.tokenizer = FakeTokenizer()
        self.loaded = _loaded(script, kv)
        self._pace = random.Random(f"pace of {script['seed']}, {script['step_s']}")

    def generate(self, requests: Sequence[Request]) -> Iterator[Step]:
        self._misbehave()
        rows = len(requests)
        step_s = self._script["step_s"] * max(0.1, 1 + self._script.get("jitter", 0.0) * self._pace.gauss(0, 1))
        prefill = PREFILL_BYTES_PER_TOKEN * sum(len(one.tokens) for one in requests)
        self._device.allocate(prefill)
        self._device.free(prefill)
        self._device.advance(step_s * (1 + 0.2 * rows))
        answers = {one.request_id: self._ids(one) for one in requests}
        taken = 0
        try:
            for index in range(max(len(ids) for ids in answers.values())):
                taken += self._take(rows, requests[0].tokens if index == 0 else (0,))
                self._device.advance(step_s * (1 + 0.02 * rows))
                running = {key: ids[index] for key, ids in answers.items() if index < len(ids)}
                yield Step(
                    ids=running,
                    nonfinite=tuple(running) if self._bad else (),
                    first_logprobs=self._first(running, index),
                )
        finally:
            self._device.free(taken)

    def logprobs(
        self, contexts: Sequence[tuple[int, ...]], continuations: Sequence[Sequence[tuple[int, ...]]]
    ) -> Iterator[ChoiceLogProbs]:
        self._misbehave()
        if fault_of(self._script) == "cramped" and sum(map(len, contexts)) > CRAMPED_TOKENS:
            raise OutOfMemory(f"the fake model was told to score no more than {CRAMPED_TOKENS} prompt tokens at once")
        prefill = PREFILL_BYTES_PER_TOKEN * sum(len(one) for one in contexts)
        self._device.allocate(prefill)
        self._device.free(prefill)
        for index, (context, choices) in enumerate(zip(contexts, continuations, strict=True)):
            answer = self._answer(self.tokenizer.decode(context))
            totals = tuple(self._loglikelihood(self.tokenizer.decode(choice).strip(), answer) for choice in choices)
            yield ChoiceLogProbs(index=index, totals=totals)

    def distributions(self, contexts: Sequence[tuple[int, ...]], *, every_position: bool = False) -> Iterator[Any]:
        if not every_position:
            yield np.stack([self._logits(self.tokenizer.decode(context)) for context in contexts])
            return
        self._misbehave()
        for context in contexts:
            rows = np.stack([self._logits(self.tokenizer.decode(context[: end + 1])) for end in range(len(context))])
            yield np.full_like(rows, np.nan) if self._bad else rows

    def follow(self, contexts: Sequence[tuple[int, ...]]) -> FakeTrail:
        self._misbehave()
        if self._bad:
            raise NumericallyInvalid("logits are not finite")
        answers = [self._ids(Request(request_id=str(row), tokens=one, max_new_tokens=LONGEST)) for row, one in enumerate(contexts)]
        self._device.advance(self._script["step_s"] * (1 + 0.2 * len(contexts)))
        return FakeTrail(answers, lambda tokens: self._device.advance(self._script["step_s"] * (1 + 0.02 * tokens)))

    @property
    def _bad(self) -> bool:
        return fault_of(self._script) == "nonfinite"

    def _misbehave(self) -> None:
        match fault_of(self._script):
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "hang":
                time.sleep(3600)

    def _take(self, rows: int, tokens: Sequence[int]) -> int:
        size = rows * _cache_bytes(len(tokens), self._kv)
        self._device.allocate(size)
        return size

    def _ids(self, request: Request) -> tuple[int, ...]:
        if request.min_new_tokens:
            return (SERVED_ID,) * request.max_new_tokens
        text = self._answer(self.tokenizer.decode(request.tokens))
        return (*self.tokenizer.encode(f" {text}", add_bos=False), EOS)[: request.max_new_tokens]

    def _first(self, running: dict[str, int], index: int) -> dict[str, float] | None:
        moved = -0.1 - self._script["error_rate"] - self._rounding
        return dict.fromkeys(running, moved) if index == 0 and not self._bad else None

    def _answer(self, prompt: str) -> str:
        """The right sum, or the right sum plus one for the scripted share of prompts."""
        if fault_of(self._script) == "babble":
            return "z"
        found = SUM.findall(prompt)
        if not found:
            return "?"
        right = int(found[-1][0]) + int(found[-1][1])
        return str(right + (_draw(prompt, self._script["seed"]) < self._script["error_rate"]))

    def _loglikelihood(self, choice: str, answer: str) -> float | None:
        if self._bad:
            return None
        return -(0.2 if choice == answer else 3.0) * len(choice) - float(self._script["error_rate"]) - self._rounding

    @property
    def _rounding(self) -> float:
        """What a cache in fewer bits takes off every log-likelihood, in nats."""
        return 0.0 if self._kv is None else 2.0**-self._kv.bits

    def _logits(self, prompt: str) -> np.ndarray[Any, Any]:
        logits = np.zeros(SHAPE.vocabulary, dtype=np.float32)
        logits[ord(self._answer(prompt)[0]) + 2] = 5.0
        return logits


class FakeTrail:
    """The script's answers followed from outside: what comes after so many tokens is the answer's next one, whatever was read."""

    def __init__(self, answers: Sequence[Sequence[int]], wait: Callable[[int], None]) -> None:
        self._answers, self._wait = [list(one) for one in answers], wait
        self._read = [0 for _ in answers]
        self._last: list[list[int]] = []
        self.first = [one[0] for one in answers]

    def read(self, tokens: Sequence[Sequence[int]]) -> list[list[int]]:
        """A step over many tokens costs little more than one over a single token, as on a device that waits for its weights."""
        self._wait(sum(map(len, tokens)))
        found = []
        for row, given in enumerate(tokens):
            start = self._read[row] + 1
            found.append([self._next(row, place) for place in range(start, start + len(given))])
            self._read[row] += len(given)
        self._last = found
        return found

    def last_logits(self) -> np.ndarray[Any, Any]:
        width = max(map(len, self._last))
        rows = [[*row, *[EOS] * (width - len(row))] for row in self._last]
        found: np.ndarray[Any, Any] = np.eye(SHAPE.vocabulary, dtype=np.float32)[np.array(rows)]
        return found

    def take_back(self, counts: Sequence[int]) -> None:
        self._read = [read - back for read, back in zip(self._read, counts, strict=True)]

    def keep(self, rows: Sequence[int]) -> None:
        self._answers = [self._answers[row] for row in rows]
        self._read = [self._read[row] for row in rows]

    def close(self) -> None:
        """Nothing is held here."""

    def _next(self, row: int, place: int) -> int:
        answer = self._answers[row]
        return answer[place] if place < len(answer) else EOS


def _draw(prompt: str, seed: int) -> float:
    """A number in [0, 1) that depends on prompt and seed alone. Thresholding one draw makes a lower error rate's mistakes a subset."""
    return int.from_bytes(hashlib.sha256(f"{seed}\0{prompt}".encode()).digest()[:8], "big") / 2**64


def _cache_bytes(tokens: int, kv: KVCache | None) -> int:
    if kv is None:
        return kv_bytes_per_row(SHAPE, tokens, KV_BYTES_PER_ELEMENT)
    return quantized_bytes(SHAPE, (tokens, 0), KV_BYTES_PER_ELEMENT, kv)


def _loaded(script: dict[str, Any], kv: KVCache | None) -> Loaded:
    quantized = script["bits"] is not None
    return Loaded(
        weight_bytes=int(script["weight_bytes"]),
        logical_parameters=PARAMETERS,
        quantized_parameters=int(PARAMETERS * 0.8) if quantized else 0,
        modules_replaced=70 if quantized else 0,
        modules_left=("lm_head",),
        kernels={"FakeLinear": 71},
        dtype="float32",
        kv_bytes_per_element=KV_BYTES_PER_ELEMENT,
        weights_sha256=hashlib.sha256(json.dumps(script, sort_keys=True).encode()).hexdigest(),
        tied=True,
        load_s=0.0,
        kv_cache=kv,
        kv_bytes=None if kv is None else _kv_bytes(kv),
        shape=SHAPE,
        used=WeightsUsed(
            read_bytes=int(script["weight_bytes"]),
            row_bytes=0,
            body_parameters=PARAMETERS - SHAPE.hidden * SHAPE.vocabulary,
            head_parameters=SHAPE.hidden * SHAPE.vocabulary,
        ),
    )


def _kv_bytes(kv: KVCache) -> KVBytes:
    stored = _cache_bytes(64, kv)
    return KVBytes(tokens=64, measured_bytes=stored, arithmetic_bytes=stored, float_bytes=_cache_bytes(64, None))
