"""Log-likelihoods of continuations with as little work as the model allows.

Where every layer is softmax attention that takes a mask as it is, a batch is a forest (``forest``): one forward, each distinct token once,
logits at the positions that predict something and nowhere else. Whether a model really takes such a mask is tried on a dozen tokens when
it is opened, and which way was taken is part of a score's conditions. Any other model scores with a cache: each context once, padded on the
left, then its continuations after it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from quantgate.devices.oom import is_out_of_memory
from quantgate.engines import forest, transformers_kv_scoring as kv_scoring
from quantgate.engines.transformers_forward import Forward
from quantgate.records import ChoiceLogProbs, ModelShape

FOREST, CACHED = "forest", "cached"
Tokens = tuple[int, ...]
_Choices = Sequence[Sequence[Tokens]]
_Totals = list[list[float]]

_LOGITS_BYTES = 128 * 2**20
"""Most bytes of float32 logits that one forward may produce."""

_MOST_MASK_TOKENS = 4096
"""A longer row's mask of width x width would weigh more than its computation: 4,096 x 4,096 x 4 bytes = 67 MB."""

_LOGSUMEXP_ROWS = 64
"""The sum over the vocabulary goes by blocks that stay in the cache and need no second array of the logits' size."""

_SUB_BATCH_ROWS = 16
_SUB_BATCH_POSITIONS = 256
"""With a cache, continuations go in sub-batches: all their positions need logits, 256 x 49,152 x 4 bytes = 50 MB."""

_HONOURED = 0.3
"""A mask counts as honoured where what it hides moves the logits by less than this share of what it moves unhidden: rounding in half
precision stays well under it, and a model that does not look at the mask comes out near 1."""
_NO_DIFFERENCE = 1e-3
_TRIAL_TOKENS = 100


def layout(run: Forward, shape: ModelShape) -> str:
    """``forest`` where the model's layers and a trial allow it, else ``cached``."""
    kinds = {layer.kind for layer in shape.layers}
    config = run.model.config
    if run.blocks is not None:  # a forest has no cache, and what is asked is what the cache does
        return CACHED
    fit = (
        kinds <= {"full", "window", "latent", "shared"}
        and run.accepts("position_ids", "logits_to_keep")
        and getattr(config, "_attn_implementation", None) in ("sdpa", "eager")
        and not getattr(config, "alibi", False)
    )
    return FOREST if fit and _honours_a_forest(run, shape) else CACHED


def logprobs(
    run: Forward, shape: ModelShape, how: str, contexts: Sequence[Tokens], continuations: _Choices
) -> list[ChoiceLogProbs]:
    """Each continuation's log-likelihood in the order of the contexts; None where it is not finite."""
    longest = max(len(context) + max(map(len, choices), default=0) for context, choices in zip(contexts, continuations, strict=True))
    fits = longest <= min([_MOST_MASK_TOKENS, *(layer.window for layer in shape.layers if layer.window)])
    totals = _in_forests(run, shape, contexts, continuations) if how == FOREST and fits else _cached(run, contexts, continuations)
    return [
        ChoiceLogProbs(index=at, totals=tuple(value if math.isfinite(value) else None for value in choices))
        for at, choices in enumerate(totals)
    ]


# ---------------------------------------------------------------------------------------------- forests


def _in_forests(run: Forward, shape: ModelShape, contexts: Sequence[Tokens], continuations: _Choices) -> _Totals:
    totals = [[math.nan] * len(choices) for choices in continuations]
    most = min(_MOST_MASK_TOKENS, max(1, _LOGITS_BYTES // (4 * shape.vocabulary)))
    # A layer multiplies some 12 x hidden^2 weights a token, and 2 x hidden a token attended to: even at 6 x hidden.
    made = forest.rows(contexts, continuations, even_tokens=6 * shape.hidden, most_tokens=most)
    for part in forest.forwards(made, most):
        for ask, value in _answers(run, part):
            totals[ask.item][ask.choice] = value
    return totals


def _answers(run: Forward, part: list[forest.Row]) -> Iterator[tuple[forest.Ask, float]]:
    """One forward over rows of like length."""
    logits, places = _predicted(run, part)
    tokens = [token for row in part for ask in row.asks for token in ask.tokens]
    found = iter(_log_probabilities(logits, places, tokens))
    for row in part:
        for ask in row.asks:
            yield ask, _sum([next(found) for _ in ask.tokens])


def _predicted(run: Forward, part: list[forest.Row]) -> tuple[torch.Tensor, list[int]]:
    """Logits wherever something is asked, and for each node of each question, in order, the row of them that answers it."""
    width = max(map(len, part))
    wanted = np.zeros((len(part), width), dtype=bool)
    for at, row in enumerate(part):
        wanted[at, [node for ask in row.asks for node in ask.nodes]] = True
    logits = run.chosen(*_inputs(run, part, width), torch.from_numpy(wanted).to(run.device))
    rank = np.cumsum(wanted.ravel()).reshape(wanted.shape) - 1
    return logits, [int(rank[at, node]) for at, row in enumerate(part) for ask in row.asks for node in ask.nodes]


def _inputs(run: Forward, part: list[forest.Row], width: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Ids and positions [rows, width] padded on the right, and the additive mask [rows, 1, width, width].

    Each token sees its ancestors and itself. Padding sees itself, because attention to nothing is not a number.
    """
    ids = np.zeros((len(part), width), dtype=np.int64)
    positions = np.zeros((len(part), width), dtype=np.int64)
    sees = np.zeros((len(part), width, width), dtype=bool)
    sees[:, np.arange(width), np.arange(width)] = True
    for at, row in enumerate(part):
        ids[at, : len(row)], positions[at, : len(row)] = row.tokens, row.depths
        for node, parent in enumerate(row.parents):
            if parent >= 0:
                sees[at, node, : parent + 1] |= sees[at, parent, : parent + 1]
    shown = torch.from_numpy(sees).to(run.device)[:, None]
    mask = torch.zeros(shown.shape, dtype=run.dtype, device=run.device).masked_fill_(~shown, torch.finfo(run.dtype).min)
    return torch.from_numpy(ids).to(run.device), mask, torch.from_numpy(positions).to(run.device)


def _log_probabilities(logits: torch.Tensor, places: list[int], tokens: list[int]) -> list[float]:
    """Float32 log probability of one token at each place [rows of ``logits``]."""
    norms = torch.cat([block.float().logsumexp(dim=-1) for block in logits.split(_LOGSUMEXP_ROWS)])
    rows = torch.tensor(places, device=logits.device)
    values: list[float] = (logits[rows, torch.tensor(tokens, device=logits.device)].float() - norms[rows]).tolist()
    return values


def _sum(values: list[float]) -> float:
    return math.fsum(values) if all(map(math.isfinite, values)) else math.nan


def _honours_a_forest(run: Forward, shape: ModelShape) -> bool:
    """Try it: two branches after one context must not see each other, nor another tree of their row.

    The second branch is read beside the first, alone, truly after the first, and without the context; what counts is how far its
    next-token logits move, all of them together. The tokens are ordinary ones: special ones may take no notice of what precedes them. A
    ruined model's numbers that are not finite say nothing about masks, so they do not count against it: the scores will show them.
    """
    one, two, three, four, five, six, seven = (shape.vocabulary * place // 9 for place in range(1, 8))
    context, branch, ask = (one, two, three), (four, five, six), (seven, one)
    try:
        beside = _beside(run, context, (*branch, one), ask)
        alone, after, without = (_after(run, (*before, seven)) for before in (context, (*context, *branch), ()))
    except Exception as error:
        if is_out_of_memory(error):
            raise
        return False
    would_move = min(_apart(after, alone), _apart(without, alone))
    return not _apart(beside, alone) > max(_NO_DIFFERENCE, _HONOURED * would_move)


def _beside(run: Forward, context: Tokens, branch: Tokens, ask: Tokens) -> torch.Tensor:
    """Logits after the last token read of ``ask``, a branch of ``context`` beside another one and an unrelated tree."""
    made = forest.rows([context, branch[:2]], [[branch, ask], [ask]], even_tokens=math.inf, most_tokens=_TRIAL_TOKENS)
    logits, places = _predicted(run, made)
    at = 0
    for each in made[0].asks:
        at += len(each.nodes)
        if (each.item, each.choice) == (0, 1):
            break
    return logits[places[at - 1]].float()


def _after(run: Forward, tokens: Tokens) -> torch.Tensor:
    ids, mask, positions = run.padded([tokens])
    return run.last(ids, mask, positions, None)[0]


def _apart(left: torch.Tensor, right: torch.Tensor) -> float:
    return float((left - right).pow(2).mean().sqrt())


# ---------------------------------------------------------------------------------------------- with a cache


def _cached(run: Forward, contexts: Sequence[Tokens], continuations: _Choices) -> _Totals:
    """Contexts of like length together, longest first."""
    totals: _Totals = [[] for _ in contexts]
    for part in _alike(contexts):
        score = _cached_part if run.blocks is None else _through_blocks
        found = score(run, [contexts[at] for at in part], [continuations[at] for at in part])
        for at, values in zip(part, found, strict=True):
            totals[at] = values
    return totals


def _alike(contexts: Sequence[Tokens]) -> Iterator[list[int]]:
    part: list[int] = []
    for at in sorted(range(len(contexts)), key=lambda at: -len(contexts[at])):
        if part and len(contexts[at]) < forest.FILL * len(contexts[part[0]]):
            yield part
            part = []
        part.append(at)
    yield part


def _cached_part(run: Forward, contexts: Sequence[Tokens], continuations: _Choices) -> _Totals:
    pairs = [
        (row, place, tokens)
        for row, choices in enumerate(continuations)
        for place, tokens in enumerate(choices)
        if len(tokens) > 1
    ]
    cache = run.new_cache() if pairs else None
    ids, mask, positions = run.padded(contexts)
    logits = run.last(ids, mask, positions, cache)
    rows = [row for row, choices in enumerate(continuations) for _ in choices]
    firsts = iter(_log_probabilities(logits, rows, [tokens[0] for choices in continuations for tokens in choices]))
    totals = [[next(firsts) for _ in choices] for choices in continuations]
    for part in _sub_batches(pairs):
        for (row, place, _), more in zip(part, _rest(run, part, cache, mask), strict=True):
            totals[row][place] += more
    return totals


def _through_blocks(run: Forward, contexts: Sequence[Tokens], continuations: _Choices) -> _Totals:
    """Every log-likelihood from logits that saw the cache in fewer bits; see ``transformers_kv_scoring``."""
    read, held = kv_scoring.held_back(contexts)
    cache = run.new_cache()
    ids, mask, positions = run.padded(read)
    logits = run.last(ids, mask, positions, cache)
    totals: _Totals = [[0.0] * len(choices) for choices in continuations]
    for row, choices in enumerate(continuations):
        if not held[row] and choices:
            firsts = _log_probabilities(logits, [row] * len(choices), [tokens[0] for tokens in choices])
            totals[row] = list(firsts)
    # A row's place in ``pairs`` says what is read: the held token and all of the continuation but its last one.
    pairs = [
        (row, place, (*held[row], *tokens))
        for row, choices in enumerate(continuations)
        for place, tokens in enumerate(choices)
        if len(held[row]) + len(tokens) > 1
    ]
    for part in _sub_batches(pairs):
        rows = torch.tensor([row for row, _, _ in part], device=run.device)
        found: list[list[float]] = [[] for _ in part]
        for start, block in kv_scoring.behind(run, [tokens[:-1] for _, _, tokens in part], mask[rows], _selected(cache, rows)):
            width = block.shape[1]
            asked = [
                (at, at * width + place, tokens[start + place + 1])
                for at, (_, _, tokens) in enumerate(part)
                for place in range(min(width, len(tokens) - 1 - start))
            ]
            values = _log_probabilities(block.reshape(-1, block.shape[-1]), [one for _, one, _ in asked], [one for _, _, one in asked])
            for (at, _, _), value in zip(asked, values, strict=True):
                found[at].append(value)
        for (row, place, _), values in zip(part, found, strict=True):
            totals[row][place] = _sum([totals[row][place], *values])
    return totals


def _rest(run: Forward, part: list[tuple[int, int, Tokens]], cache: Any, mask: torch.Tensor) -> list[float]:
    """Log-likelihood of each continuation's second token and those after it, given its context's cache and its first token."""
    rows = torch.tensor([row for row, _, _ in part], device=run.device)
    inputs = [tokens[:-1] for _, _, tokens in part]
    width = max(len(tokens) for tokens in inputs)
    # Padded on the right: causal attention never lets a token see what comes after it.
    ids = torch.tensor([[*tokens, *[0] * (width - len(tokens))] for tokens in inputs], device=run.device)
    own = torch.tensor([[1] * len(tokens) + [0] * (width - len(tokens)) for tokens in inputs], device=run.device)
    positions = mask[rows].sum(dim=1, keepdim=True) + torch.arange(width, device=run.device)
    attend = torch.cat([mask[rows], own], dim=1)
    logits = run.last(ids, attend, positions, _selected(cache, rows), keep=width)
    places = [at * width + place for at, tokens in enumerate(inputs) for place in range(len(tokens))]
    wanted = [token for _, _, tokens in part for token in tokens[1:]]
    found = iter(_log_probabilities(logits.reshape(-1, logits.shape[-1]), places, wanted))
    return [_sum([next(found) for _ in tokens]) for tokens in inputs]


def _sub_batches(pairs: list[tuple[int, int, Tokens]]) -> Iterator[list[tuple[int, int, Tokens]]]:
    """Continuations of like length together, bounded in rows and in rows x padded length. The order depends on the batch only."""
    part: list[tuple[int, int, Tokens]] = []
    for pair in sorted(pairs, key=lambda pair: (len(pair[2]), pair[0], pair[1])):
        if part and (len(part) >= _SUB_BATCH_ROWS or (len(part) + 1) * (len(pair[2]) - 1) > _SUB_BATCH_POSITIONS):
            yield part
            part = []
        part.append(pair)
    if part:
        yield part


def _selected(cache: Any, rows: torch.Tensor) -> Any:
    """A cache with the given rows of another, which stays as it is."""
    chosen = copy.copy(cache)
    chosen.layers = [copy.copy(layer) for layer in cache.layers]
    for layer in chosen.layers:
        layer.batch_select_indices(rows)
    return chosen
