"""A text that is scored as it stands: which of its tokens are given and which are scored.

Every token behind the begin of sequence is scored, id 0 like any other; where the model has no BOS the first token is
given, and the number of scored tokens says so. A text longer than the model's context is refused like an overlong
prompt and never cut or windowed: split it into items of one cluster, each of which then loses only its own left
context, alike for the reference and every variant.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from quantgate.errors import EngineError
from quantgate.ports import Tokenizer
from quantgate.records import ChoiceLogProbs, GoldenItem, ItemEvidence


def split(item: GoldenItem, tokenizer: Tokenizer) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Ids that are given, and the ids that are scored behind them: one continuation, or none where the text has no token to score.

    Raises ``EngineError`` for a text that begins with two BOS tokens.
    """
    ids = tokenizer.encode(item.prompt, add_bos=True)
    if tokenizer.bos_id is not None and ids[:2] == (tokenizer.bos_id, tokenizer.bos_id):
        raise EngineError(f"item {item.item_id} (line {item.line}): the text begins with two BOS tokens")
    return ids[:1], (ids[1:],) if len(ids) > 1 else ()


def evidence(item: GoldenItem, scored: Sequence[tuple[int, ...]], answer: ChoiceLogProbs | None) -> ItemEvidence | None:
    """What the model said of a text; None where it was asked and did not answer.

    ``scored``: the continuations of ``split``; a text with none was not asked.
    """
    if not scored:
        return ItemEvidence(item_id=item.item_id, loglikelihoods=(0.0,), scored_tokens=0)
    if answer is None:
        return None
    totals = tuple(total if total is not None and isfinite(total) else None for total in answer.totals)
    return ItemEvidence(
        item_id=item.item_id, loglikelihoods=totals, nonfinite=None in totals, scored_tokens=len(scored[0])
    )
