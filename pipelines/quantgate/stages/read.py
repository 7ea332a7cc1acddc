"""How a variant reads the texts of a run, token by token, and how far its distributions lie from the reference's there.

A text is run once and alone: ``tokens_per_text`` true tokens at most, each predicted from all before it in its text,
a BOS in front where the model uses one. The reference's rows come from a file or from a second session that reads the
same text at the same time, a block of at most 64 MiB on either side; what is kept is five numbers a token. Perplexity
falls out of the same pass: the sum of the true tokens' log probabilities, text by text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import fsum, isfinite
from typing import Any, Literal

import numpy as np

from quantgate.divergence import (
    MINIMUM_POSITIONS,
    Distances,
    Ids,
    Places,
    by_position,
    distances,
    parts_of,
    standard_error,
    statistics,
    stored_rows,
    true_token,
)
from quantgate.errors import ConfigError, NotComparable, NumericallyInvalid
from quantgate.ports import Progress, Session
from quantgate.records import DivergenceConfig, ItemEvidence, KLStatistics, TextReading
from quantgate.texts import Texts

How = Literal["stored", "recomputed"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Passage:
    """One text as the model is given it; the first token is context only, every other one is scored."""

    text_id: str
    slice: str
    tokens: tuple[int, ...]
    cut: bool

    @property
    def scored(self) -> int:
        """True next tokens."""
        return max(0, len(self.tokens) - 1)

    @property
    def next_ids(self) -> Ids:
        """The true next token after each token but the last."""
        return np.array(self.tokens[1:], dtype=np.intp)


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """Stored rows that are taken in order: ``take(rows)`` gives the next ones. Read and not mapped, so that they leave memory again."""

    positions: int
    vocabulary: int
    take: Callable[[int], Any]


def passages(session: Session, texts: Texts, config: DivergenceConfig) -> tuple[Passage, ...]:
    """The texts in tokens. Raises ``ConfigError`` where a text would be longer than the model's context."""
    limit = session.shape.context_tokens
    if limit is not None and config.tokens_per_text > limit:
        what = f"'tokens_per_text' is {config.tokens_per_text}, and the model's context holds {limit} tokens"
        raise ConfigError(what, file=config.path)
    if texts.stream:
        return tuple(_windows(session, texts, config))
    found = []
    for one in texts.texts:
        ids = session.tokenizer.encode(one.text, add_bos=True)
        kept = ids[: config.tokens_per_text + 1]
        found.append(Passage(text_id=one.text_id, slice=one.slice, tokens=kept, cut=len(ids) > len(kept)))
    return tuple(found)


def _windows(session: Session, texts: Texts, config: DivergenceConfig) -> Iterator[Passage]:
    """The stream in windows that do not overlap in what is scored; without a BOS the last token of one is the context of the next."""
    (stream,) = texts.texts
    ids = session.tokenizer.encode(stream.text, add_bos=False)
    head = session.tokenizer.encode("", add_bos=True)
    behind = 0 if head else 1
    for at in range(config.max_texts):
        start = at * config.tokens_per_text
        kept = (*head, *ids[start : start + config.tokens_per_text + behind])
        if len(kept) < 2:
            return
        yield Passage(text_id=f"window {at + 1}", slice=stream.slice, tokens=kept, cut=False)


def rows_needed(found: tuple[Passage, ...]) -> int:
    """Positions over all texts."""
    return sum(one.scored for one in found)


# ---------------------------------------------------------------------------------------------- reading


def alone(
    session: Session,
    found: tuple[Passage, ...],
    texts: Texts,
    keep: Callable[[bytes], object] | None,
    progress: Progress,
) -> list[float]:
    """Log probability of each true token, in nats; with ``keep`` each block's rows are handed over as bytes to be stored."""
    known: list[float] = []
    for one, at, block in _blocks(session, found, texts, progress):
        next_ids = one.next_ids[at : at + len(block)]
        if keep is None:
            known += true_token(block, next_ids).tolist()
        else:
            rows = stored_rows(block, next_ids)
            keep(rows.tobytes())
            known += rows["true"].tolist()
    return known


def beside_stored(
    session: Session, found: tuple[Passage, ...], texts: Texts, stored: Stored, progress: Progress
) -> Distances:
    """Compare with stored rows, a block at a time."""
    there, here = (stored.positions, stored.vocabulary), (rows_needed(found), session.shape.vocabulary)
    if there != here:
        raise NotComparable("tokens of the texts and vocabulary size", str(there), str(here))
    parts = []
    for one, at, block in _blocks(session, found, texts, progress):
        parts.append(distances(stored.take(len(block)), block, one.next_ids[at : at + len(block)]))
    return _joined(parts)


def beside(
    session: Session, reference: Session, found: tuple[Passage, ...], texts: Texts, progress: Progress
) -> Distances:
    """Compare with a second session that reads the same tokens at the same time."""
    if session.shape.vocabulary != reference.shape.vocabulary:
        raise NotComparable("vocabulary size", reference.shape.vocabulary, session.shape.vocabulary)
    parts = []
    theirs = _blocks(reference, found, texts, lambda done, total, what: None)
    for (one, at, block), (_, _, base) in zip(_blocks(session, found, texts, progress), theirs, strict=True):
        parts.append(distances(base, block, one.next_ids[at : at + len(block)]))
    return _joined(parts)


def _blocks(
    session: Session, found: tuple[Passage, ...], texts: Texts, progress: Progress
) -> Iterator[tuple[Passage, int, Any]]:
    """Each text's rows, with the number of its first. Raises ``NumericallyInvalid`` at the first that is not finite."""
    for number, one in enumerate(found, start=1):
        at = 0
        if one.scored:
            for block in session.distributions([one.tokens[:-1]], every_position=True):
                rows = np.asarray(block)
                if not np.isfinite(rows).all():
                    raise NumericallyInvalid("logits along the text are not finite", item_id=one.text_id)
                yield one, at, rows
                at += len(rows)
        progress(number, len(found), f"reading {texts.name}")


def _joined(parts: list[Distances]) -> Distances:
    def column(name: str) -> Any:
        return np.concatenate([getattr(one, name) for one in parts]) if parts else np.empty(0)

    return Distances(column("kl"), column("same_top").astype(bool), column("reference"), column("variant"))


# ---------------------------------------------------------------------------------------------- what is kept


def reading(
    found: tuple[Passage, ...],
    job: tuple[Texts, DivergenceConfig],
    true_logprobs: list[float],
    compared: Distances | None,
    how: How,
) -> TextReading:
    """The record of one variant's reading; ``compared`` is None for the reference."""
    texts, config = job
    items, at = [], 0
    for one in found:
        total = fsum(true_logprobs[at : at + one.scored])
        at += one.scored
        sums = (total if isfinite(total) else None,) if one.scored else ()
        items.append(ItemEvidence(item_id=one.text_id, loglikelihoods=sums, scored_tokens=one.scored))
    few = at < MINIMUM_POSITIONS
    why = f"{at} tokens are too few for statistics; at least {MINIMUM_POSITIONS} are needed"
    return TextReading(
        texts=texts.name,
        sha256=texts.sha256,
        items=tuple(items),
        slices=tuple(one.slice for one in found),
        cut=sum(one.cut for one in found),
        tokens_per_text=config.tokens_per_text,
        kl=None if compared is None or few else _statistics(compared, _places(found)),
        why_no_kl=why if compared is not None and few else None,
        reference=how,
    )


def _places(found: tuple[Passage, ...]) -> Places:
    text = np.repeat(np.arange(len(found)), [one.scored for one in found])
    position = np.concatenate([np.arange(1, one.scored + 1) for one in found])
    return Places(text, position.astype(np.intp), tuple(one.slice for one in found))


def _statistics(compared: Distances, places: Places) -> KLStatistics:
    whole = statistics(compared.kl, compared.same_top)
    names = [places.slices[text] for text in places.text.tolist()]
    change = compared.probability_change
    return KLStatistics(
        positions=whole.positions,
        mean=whole.mean,
        median=whole.median,
        p99=whole.p99,
        maximum=whole.maximum,
        top1_agreement=whole.top1_agreement,
        p999=whole.p999,
        rms_dp=float(np.sqrt(np.mean(change**2))),
        standard_error=standard_error(compared.kl, places.text),
        by_slice=parts_of(compared.kl, compared.same_top, names),
        by_position=by_position(compared.kl, compared.same_top, places.position),
    )
