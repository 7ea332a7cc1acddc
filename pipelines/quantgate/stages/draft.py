"""Who drafts: the prompt's own n-grams, or a second model followed greedily. Knows ports; refuses a vocabulary that is not the target's.

A draft is a guess and never has to be right: what the target would not have said is taken back. So a drafter may not sample either: a draft
that was drawn would have to be accepted by the probability it was drawn with, and only greedy decoding is offered here.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Protocol

from quantgate.ports import Session, Tokenizer, Trail
from quantgate.stages.score import alike

LONGEST_NGRAM = 3
"""Tokens at the end of a row that are looked up in it, fewer where so many are not found."""


class Drafts(Protocol):
    """Proposes tokens for the rows of one batch."""

    def begin(self, contexts: Sequence[tuple[int, ...]]) -> None:
        """Start a batch. Whatever this costs is part of the price of drafting."""

    def propose(self, outputs: Sequence[Sequence[int]], most: Sequence[int]) -> list[list[int]]:
        """At most ``most`` tokens for each row, given what the target has written in it so far; none is an answer too."""

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with these rows, in this order."""

    def close(self) -> None:
        """The batch is over."""


class PromptLookup:
    """What followed the row's last tokens the last time that they stood in it."""

    def __init__(self) -> None:
        self._contexts: list[tuple[int, ...]] = []

    def begin(self, contexts: Sequence[tuple[int, ...]]) -> None:
        self._contexts = list(contexts)

    def propose(self, outputs: Sequence[Sequence[int]], most: Sequence[int]) -> list[list[int]]:
        rows = zip(self._contexts, outputs, most, strict=True)
        return [looked_up((*context, *output), count) for context, output, count in rows]

    def keep(self, rows: Sequence[int]) -> None:
        self._contexts = [self._contexts[row] for row in rows]

    def close(self) -> None:
        self._contexts = []


def looked_up(tokens: Sequence[int], most: int) -> list[int]:
    """The tokens after the latest earlier place of the longest n-gram at the end that has one; empty where none has."""
    for length in range(min(LONGEST_NGRAM, len(tokens) - 1), 0, -1):
        tail = tuple(tokens[len(tokens) - length :])
        for start in range(len(tokens) - length - 1, -1, -1):
            if tuple(tokens[start : start + length]) == tail:
                return list(tokens[start + length : start + length + most])
    return []


class DraftModel:
    """A second model, greedy, with a cache of its own. It ends a draft at an end of sequence and before an id that the target lacks."""

    def __init__(self, session: Session, *, vocabulary: int, eos_ids: Sequence[int]) -> None:
        self._session, self._vocabulary, self._eos = session, vocabulary, frozenset(eos_ids)
        self._trail: Trail | None = None
        self._read: list[list[int]] = []
        """What the cache holds of each row behind its context."""

    def begin(self, contexts: Sequence[tuple[int, ...]]) -> None:
        self._trail = self._session.follow(contexts)
        self._read = [[] for _ in contexts]

    def propose(self, outputs: Sequence[Sequence[int]], most: Sequence[int]) -> list[list[int]]:
        trail = self._followed()
        kept = [alike(read, output) for read, output in zip(self._read, outputs, strict=True)]
        trail.take_back([len(read) - same for read, same in zip(self._read, kept, strict=True)])
        self._read = [read[:same] for read, same in zip(self._read, kept, strict=True)]
        # The target's last token is never in the cache yet, so each row that may draft has one to read.
        unread = [list(output[same:]) if count else [] for output, same, count in zip(outputs, kept, most, strict=True)]
        drafts: list[list[int]] = [[] for _ in outputs]
        while any(unread):
            found = trail.read(unread)
            for read, tokens in zip(self._read, unread, strict=True):
                read.extend(tokens)
            unread = [self._next(draft, row, count) for draft, row, count in zip(drafts, found, most, strict=True)]
        return drafts

    def keep(self, rows: Sequence[int]) -> None:
        self._followed().keep(rows)
        self._read = [self._read[row] for row in rows]

    def close(self) -> None:
        if self._trail is not None:
            self._trail.close()
        self._trail = None

    def _next(self, draft: list[int], found: Sequence[int], most: int) -> list[int]:
        """Take the likeliest token into the draft; what is to be read next, nothing where the draft is done."""
        if not found or found[-1] >= self._vocabulary:
            return []
        draft.append(found[-1])
        return [found[-1]] if len(draft) < most and found[-1] not in self._eos else []

    def _followed(self) -> Trail:
        if self._trail is None:
            raise ValueError("no batch was begun")
        return self._trail


def why_other_vocabulary(target: Tokenizer, draft: Tokenizer) -> str | None:
    """Where the two vocabularies first differ, or None. An embedding with more rows than the vocabulary has pieces is no difference."""
    for number, (ours, theirs) in enumerate(zip_longest(_pieces(target), _pieces(draft))):
        if ours != theirs:
            return f"id {number} is {_said(ours)} to the target and {_said(theirs)} to the drafter"
    return None


def _pieces(tokenizer: Tokenizer) -> Sequence[str]:
    """Without the ids at the end that stand for nothing."""
    found = list(tokenizer.pieces())
    while found and not found[-1]:
        found.pop()
    return found


def _said(piece: str | None) -> str:
    return "nothing" if not piece else repr(piece)
