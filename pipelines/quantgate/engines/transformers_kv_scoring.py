"""Log-likelihoods and logits that have really gone through a cache in fewer bits.

A prompt that is read whole gives its logits from exact keys and values: the cache is filled beside them and not looked at. So a context's
last token is held back and read behind the others, as are the continuation's tokens, in stretches no longer than those that the cache
keeps in float while it writes. A context of one token has nothing before it that could be in a cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from quantgate.engines.transformers_forward import Forward

Tokens = tuple[int, ...]


def held_back(contexts: Sequence[Tokens]) -> tuple[list[Tokens], list[Tokens]]:
    """What of each context is read into the cache, and what is read behind it: its last token, or nothing where there is no other."""
    return [one[:-1] or one for one in contexts], [one[-1:] if len(one) > 1 else () for one in contexts]


def behind(run: Forward, rows: Sequence[Tokens], mask: torch.Tensor, cache: Any) -> Iterator[tuple[int, torch.Tensor]]:
    """Read rows of tokens, padded on the right, behind what a cache holds: (first place, float32 logits [rows, places, vocabulary]).

    ``mask``: which of the cache's slots belong to each row. The cache is altered.
    """
    width, step = max(map(len, rows)), stretch(run)
    ids = torch.tensor([[*tokens, *[0] * (width - len(tokens))] for tokens in rows], device=run.device)
    own = torch.tensor([[1] * len(tokens) + [0] * (width - len(tokens)) for tokens in rows], device=run.device)
    start_at = mask.sum(dim=1, keepdim=True)
    for start in range(0, width, step):
        stop = min(start + step, width)
        attend = torch.cat([mask, own[:, :stop]], dim=1)
        positions = start_at + torch.arange(start, stop, device=run.device)
        yield start, run.last(ids[:, start:stop], attend, positions, cache, keep=stop - start)


def stretch(run: Forward) -> int:
    """Most tokens that may be read at once behind the cache."""
    if run.blocks is None:
        raise ValueError("the cache is kept in float")
    return run.blocks.kv.residual_tokens


def after(run: Forward, contexts: Sequence[Tokens]) -> torch.Tensor:
    """Float32 logits after each context [rows, vocabulary], its last token read behind the cache of the others."""
    found: list[torch.Tensor | None] = [None] * len(contexts)
    single = [at for at, tokens in enumerate(contexts) if len(tokens) == 1]
    if single:
        ids, mask, positions = run.padded([contexts[at] for at in single])
        for at, row in zip(single, run.last(ids, mask, positions, None), strict=True):
            found[at] = row
    longer = [at for at, tokens in enumerate(contexts) if len(tokens) > 1]
    if longer:
        read, held = held_back([contexts[at] for at in longer])
        cache = run.new_cache()
        ids, mask, positions = run.padded(read)
        run.last(ids, mask, positions, cache)
        for _, logits in behind(run, held, mask, cache):
            for at, row in zip(longer, logits[:, -1], strict=True):
                found[at] = row
    return torch.stack([row for row in found if row is not None])
