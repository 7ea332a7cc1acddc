"""A model that can only add, plays its script, and is the same to the byte everywhere.

It reads sums such as ``17 + 25 =`` out of the prompt, knows the answer, and gives a wrong one for the share of prompts that its script
names; which prompts is decided by a digest of prompt and seed. Time passes on the fake device's clock, memory on its counter.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from quantgate.devices.fake import FakeDevice
from quantgate.errors import EngineError, OutOfMemory
from quantgate.quantizers.fake import CRAMPED_TOKENS, SCRIPT, fault_of
from quantgate.records import (
    Artifact,
    ChoiceLogProbs,
    EngineSettings,
    GoldenItem,
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
            yield FakeSession(script, device)
        finally:
            device.free(int(script["weight_bytes"]))


class FakeSession:
    """The scripted model, loaded."""

    def __init__(self, script: dict[str, Any], device: FakeDevice) -> None:
        self._script, self._device = script, device
        self.shape = SHAPE
        self.tokenizer = FakeTokenizer()
        self.loaded = _loaded(script)

    def generate(self, requests: Sequence[Request]) -> Iterator[Step]:
        self._misbehave()
        rows = len(requests)
        prefill = PREFILL_BYTES_PER_TOKEN * sum(len(one.tokens) for one in requests)
        self._device.allocate(prefill)
        self._device.free(prefill)
        self._device.advance(self._script["step_s"] * (1 + 0.2 * rows))
        answers = {one.request_id: self._ids(one) for one in requests}
        taken = 0
        try:
            for index in range(max(len(ids) for ids in answers.values())):
                taken += self._take(rows, requests[0].tokens if index == 0 else (0,))
                self._device.advance(self._script["step_s"] * (1 + 0.02 * rows))
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
        size = (
            rows
            * len(tokens)
            * sum(one.kv_heads * (one.key_width + one.value_width) for one in SHAPE.layers)
            * KV_BYTES_PER_ELEMENT
        )
        self._device.allocate(size)
        return size

    def _ids(self, request: Request) -> tuple[int, ...]:
        if request.min_new_tokens:
            return (ord("x") + 2,) * request.max_new_tokens
        text = self._answer(self.tokenizer.decode(request.tokens))
        return (*self.tokenizer.encode(f" {text}", add_bos=False), EOS)[: request.max_new_tokens]

    def _first(self, running: dict[str, int], index: int) -> dict[str, float] | None:
        return dict.fromkeys(running, -0.1 - self._script["error_rate"]) if index == 0 and not self._bad else None

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
        return -(0.2 if choice == answer else 3.0) * len(choice) - float(self._script["error_rate"])

    def _logits(self, prompt: str) -> np.ndarray[Any, Any]:
        logits = np.zeros(SHAPE.vocabulary, dtype=np.float32)
        logits[ord(self._answer(prompt)[0]) + 2] = 5.0
        return logits


def _draw(prompt: str, seed: int) -> float:
    """A number in [0, 1) that depends on prompt and seed alone. Thresholding one draw makes a lower error rate's mistakes a subset."""
    return int.from_bytes(hashlib.sha256(f"{seed}\0{prompt}".encode()).digest()[:8], "big") / 2**64


def _loaded(script: dict[str, Any]) -> Loaded:
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
        shape=SHAPE,
        used=WeightsUsed(
            read_bytes=int(script["weight_bytes"]),
            row_bytes=0,
            body_parameters=PARAMETERS - SHAPE.hidden * SHAPE.vocabulary,
            head_parameters=SHAPE.hidden * SHAPE.vocabulary,
        ),
    )
