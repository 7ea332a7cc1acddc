"""A session whose next token is a rule of the tokens before it: what speculative decoding must reproduce, without a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from quantgate.records import LayerShape, ModelShape, Request, Step
from sessions import CharTokenizer, loaded

Rule = Callable[[Sequence[int]], int]
VOCABULARY = 1000


class RuleSession:
    """Greedy decoding of a rule. ``reads`` keeps every list of tokens that a trail was given."""

    def __init__(self, rule: Rule, *, eos: int = 2) -> None:
        self.rule = rule
        self.shape = ModelShape(
            layers=(LayerShape(kind="full", kv_heads=1, key_width=8, value_width=8),), hidden=8, vocabulary=VOCABULARY, tied=True
        )
        self.loaded = loaded()
        self.tokenizer: Any = CharTokenizer()
        self.tokenizer.eos_ids = (eos,)
        self.reads: list[list[list[int]]] = []

    def generate(self, requests: Sequence[Request]) -> Iterator[Step]:
        rows = {one.request_id: list(one.tokens) for one in requests}
        asked = {one.request_id: one.max_new_tokens for one in requests}
        written = dict.fromkeys(rows, 0)
        while rows:
            step = {name: self.rule(tokens) for name, tokens in rows.items()}
            for name, token in step.items():
                rows[name].append(token)
                written[name] += 1
                if token in self.tokenizer.eos_ids or written[name] == asked[name]:
                    del rows[name]
            yield Step(ids=step)

    def follow(self, contexts: Sequence[tuple[int, ...]]) -> RuleTrail:
        return RuleTrail(self, contexts)

    def logprobs(self, contexts: Any, continuations: Any) -> Any:
        raise NotImplementedError

    def distributions(self, contexts: Any, *, every_position: bool = False) -> Any:
        raise NotImplementedError


class RuleTrail:
    """The rule, followed from outside."""

    def __init__(self, session: RuleSession, contexts: Sequence[tuple[int, ...]]) -> None:
        self._session = session
        self._rows = [list(one) for one in contexts]
        self.first = [session.rule(row) for row in self._rows]
        self._last: list[list[int]] = [[token] for token in self.first]

    def read(self, tokens: Sequence[Sequence[int]]) -> list[list[int]]:
        self._session.reads.append([list(one) for one in tokens])
        self._last = []
        for row, given in zip(self._rows, tokens, strict=True):
            said = []
            for token in given:
                row.append(token)
                said.append(self._session.rule(row))
            self._last.append(said)
        return self._last

    def last_logits(self) -> Any:
        width = max(map(len, self._last))
        return np.eye(VOCABULARY, dtype=np.float32)[np.array([[*row, *[0] * (width - len(row))] for row in self._last])]

    def take_back(self, counts: Sequence[int]) -> None:
        for row, back in zip(self._rows, counts, strict=True):
            del row[len(row) - back :]

    def keep(self, rows: Sequence[int]) -> None:
        self._rows = [self._rows[at] for at in rows]

    def close(self) -> None:
        """Nothing is held here."""
