"""Public bug reports, part N (levers): speculative decoding."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

import chain
import toys
from quantgate.config import load_run
from quantgate.errors import ConfigError
from quantgate.kvcache import kv_bytes_per_token
from quantgate.records import Capacity, LayerShape, ModelShape
from quantgate.stages import speculate
from quantgate.stages.draft import DraftModel, PromptLookup
from quantgate.stages.speculate import Prompt
from quantgate.stages.speculation import ceiling_beside
from sessions import device

A, B = 11, 12
TARGET = {A: 0.3, B: 0.5}
DRAFT = {A: 0.6, B: 0.2}


def test_b120_the_first_drafted_token_is_verified() -> None:
    """B120: the drafter proposes a, the target says b: b goes out."""
    target = toys.RuleSession(lambda row: max(TARGET, key=lambda token: TARGET[token]))
    draft = DraftModel(toys.RuleSession(lambda row: max(DRAFT, key=lambda token: DRAFT[token])), vocabulary=1000, eos_ids=(2,))
    prompt = [Prompt(name="p", tokens=(1, 1, 1))]
    written, counted = speculate.speculative(target, device(), prompt, draft, (3, 6))
    assert written.outputs == ((B,) * 6,)
    assert sum(counted.accepted_at) == 0


@pytest.mark.parametrize("seed", range(20))
def test_b120_an_n_gram_drafter_changes_no_output(seed: int) -> None:
    """B120: [1, 1, 1] and other prompts, under rules that repeat and break off: every output is plain greedy decoding's."""
    rng = Random(seed)
    table = {(left, right): rng.choice((1, 1, 3, 4, 5)) for left in range(6) for right in range(6)}
    session = toys.RuleSession(lambda row: table[row[-2] % 6, row[-1] % 6])
    batch = [Prompt(name=str(at), tokens=tokens) for at, tokens in enumerate([(1, 1, 1), (3, 4, 5, 3, 4), (5, 5), (1, 3)])]
    expected = speculate.plain(session, device(), batch, 40).outputs
    for draft_tokens in (1, 3, 8):
        written, counted = speculate.speculative(session, device(), batch, PromptLookup(), (draft_tokens, 40))
        assert written.outputs == expected
        assert counted.emitted == sum(counted.accepted_at) + counted.steps


def test_b121_sampling_is_refused_without_the_drafts_distribution(tmp_path: Path) -> None:
    """B121: accepting by another distribution than the one drawn from changes the output; greedy decoding has no such choice."""
    made = chain.Chain.in_folder(tmp_path)
    asked = {"drafters": ["prompt_lookup"], "prompts": {"golden_set": "sums"}, "decoding": "sampling"}
    with pytest.raises(ConfigError, match="accepted by the very distribution that it was drawn from") as caught:
        load_run(made.config(levers={"speculation": asked}, executor="process"))
    assert caught.value.line is not None


def test_b125_the_drafters_weights_and_cache_count() -> None:
    """B125: (131,072 + 12,288) x 1,000 x 8 = 1,146,880,000 bytes beside both sets of weights: 8 requests, one byte less holds 7."""
    draft = ModelShape(
        layers=(LayerShape(kind="full", kv_heads=2, key_width=64, value_width=64),) * 24, hidden=1, vocabulary=1, tied=True
    )
    assert kv_bytes_per_token(draft, 2) == 12_288
    weights, draft_weights = 16_000_000_000, 1_000_000_000

    def ceiling(budget_bytes: int) -> int | None:
        known = Capacity(
            prompt_tokens=500, output_tokens=500, budget_bytes=budget_bytes, fixed_bytes=weights, prefill_bytes_per_row=None,
            decode_bytes_per_row=None, kv_bytes_per_row=131_072 * 1000, predicted=None, confirmed=None, limited_by=None,
        )  # fmt: skip
        return ceiling_beside(known, draft_weights, kv_bytes_per_token(draft, 2) * 1000)

    assert ceiling(weights + draft_weights + 1_146_880_000) == 8
    assert ceiling(weights + draft_weights + 1_146_880_000 - 1) == 7
