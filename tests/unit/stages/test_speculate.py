"""Speculative decoding gives plain greedy decoding's output, whoever drafts, and counts so that it adds up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import saved_families
import speculators
import tiny
import toys
from quantgate.devices.cpu import CpuDevice
from quantgate.engines.transformers import TransformersEngine, TransformersSession
from quantgate.errors import EngineError
from quantgate.records import DeviceConfig, EngineSettings, GoldenItem
from quantgate.stages import speculate
from quantgate.stages.draft import DraftModel, Drafts, PromptLookup, why_other_vocabulary
from quantgate.stages.speculate import Job, Prompt
from sessions import device, quiet

PROMPTS, OUTPUT_TOKENS = 50, 12
DEVICE = CpuDevice(DeviceConfig(threads=1))


class Fixed:
    """Drafts the same tokens in every step."""

    def __init__(self, *tokens: int) -> None:
        self._tokens = tokens

    def begin(self, contexts: Sequence[tuple[int, ...]]) -> None:
        """Nothing to do."""

    def propose(self, outputs: Sequence[Sequence[int]], most: Sequence[int]) -> list[list[int]]:
        return [list(self._tokens[:count]) for count in most]

    def keep(self, rows: Sequence[int]) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do."""


# ---------------------------------------------------------------------------------------------- rules


def test_the_last_step_is_cut_at_the_end_of_sequence_and_still_adds_up() -> None:
    """An accepted draft that ends the row is the target's own token; what was drafted behind it goes out to nobody."""
    session = toys.RuleSession(lambda row: 2 if len(row) == 4 else 7)
    written, counted = speculate.speculative(session, device(), [Prompt(name="p", tokens=(5,))], Fixed(7, 7, 2, 9), (4, 20))
    assert written.outputs == ((7, 7, 7, 2),)
    assert (counted.steps, counted.emitted, sum(counted.accepted_at), sum(counted.drafted_at)) == (1, 3, 2, 4)


def test_no_draft_reaches_past_the_asked_length() -> None:
    """With one token left nothing is drafted, and the output has exactly the asked length."""
    session = toys.RuleSession(lambda row: 7)
    written, counted = speculate.speculative(session, device(), [Prompt(name="p", tokens=(5,))], Fixed(7, 7, 7), (3, 6))
    assert written.outputs == ((7,) * 6,)
    assert (counted.drafted_at, counted.accepted_at) == ([1, 1, 1], [1, 1, 1])
    assert (counted.steps, counted.emitted) == (2, 5)


def test_rows_end_and_accept_apart_from_each_other() -> None:
    """Each row is decoded as if it were alone."""
    session = toys.RuleSession(lambda row: 2 if len(row) > 3 + row[0] % 5 else row[-1] + 1)
    batch = [Prompt(name=str(start), tokens=(start, start)) for start in (10, 11, 14)]
    written, _ = speculate.speculative(session, device(), batch, Fixed(12, 13), (2, 9))
    alone = [speculate.plain(session, device(), [one], 9).outputs[0] for one in batch]
    assert list(written.outputs) == alone


def test_a_parting_is_found_with_its_place() -> None:
    """Outputs that differ are told with the first token that does."""
    found = speculate.parting(toys.RuleSession(lambda row: 7), Prompt(name="p", tokens=(5,)), ((7, 8, 9), (7, 8, 1)), 2)
    assert (found.prompt, found.at, found.margin, found.noise) == ("p", 2, 1.0, 0.0)
    assert not found.is_rounding


class Rounding(toys.RuleTrail):
    """Logits that move by a hundredth with each token that is read along; the likeliest leads by a tenth."""

    def last_logits(self) -> Any:
        logits = 0.1 * super().last_logits()
        logits[..., 9] += 0.01 * (logits.shape[1] - 1)
        return logits


@pytest.mark.parametrize(("draft_tokens", "explained"), [(2, False), (8, True)])
def test_what_reading_together_moves_is_held_against_the_lead(
    monkeypatch: pytest.MonkeyPatch, draft_tokens: int, explained: bool
) -> None:
    """Noise is what the same tokens' logits move when more are read at once; a lead of at most twice that may turn round."""
    session = toys.RuleSession(lambda row: 7)
    monkeypatch.setattr(session, "follow", lambda contexts: Rounding(session, contexts))
    found = speculate.parting(session, Prompt(name="p", tokens=(5,)), ((7, 7, 7), (7, 7, 9)), draft_tokens)
    assert found.margin == pytest.approx(0.1)
    assert found.noise == pytest.approx(0.01 * draft_tokens)
    assert found.is_rounding is explained


def test_a_prompt_that_does_not_fit_is_refused(pair: tuple[TransformersSession, TransformersSession]) -> None:
    """Prompt and output together are longer than the model holds: told, and never cut."""
    item = GoldenItem(item_id="long", slice="", prompt="x" * 250, metric="", template="raw")
    with pytest.raises(EngineError, match="prompt long needs 250 tokens and 16 of output, and the model holds 256"):
        speculate.prompts(pair[0], [item], 16)


# ---------------------------------------------------------------------------------------------- a trained pair


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TransformersSession, TransformersSession]]:
    """A target and a smaller drafter whose embedding is padded further."""
    folder = tmp_path_factory.mktemp("pair")
    target = speculators.train(folder / "target", hidden=32, layers=2, steps=60)
    draft = speculators.train(folder / "draft", hidden=16, layers=1, steps=60, vocabulary=320)
    with ExitStack() as stack:
        yield opened(stack, target), opened(stack, draft)


def opened(stack: ExitStack, folder: Path, **settings: str) -> TransformersSession:
    asked = EngineSettings(threads=1, dtype=settings.get("dtype", "float32"))
    return stack.enter_context(TransformersEngine().open(tiny.artifact(folder), asked, DEVICE))


@pytest.mark.parametrize("drafter", ["prompt_lookup", "model"])
def test_fifty_outputs_are_those_of_plain_greedy_decoding(
    pair: tuple[TransformersSession, TransformersSession], drafter: str
) -> None:
    """In float32, at batch 1 and 4: no output parts, the counters add up, and drafts are neither always right nor always wrong."""
    target, draft = pair
    assert why_other_vocabulary(target.tokenizer, draft.tokenizer) is None
    drafts: Drafts = PromptLookup()
    if drafter == "model":
        drafts = DraftModel(draft, vocabulary=target.shape.vocabulary, eos_ids=target.tokenizer.eos_ids)
    items = [
        GoldenItem(item_id=str(number), slice="", prompt=text, metric="", template="raw")
        for number, text in enumerate(speculators.prompts(PROMPTS))
    ]
    job = Job(
        prompts=speculate.prompts(target, items, OUTPUT_TOKENS), draft_tokens=(4,), batch_sizes=(1, 4),
        output_tokens=OUTPUT_TOKENS, repeats=1,
    )  # fmt: skip
    for found in speculate.measure(target, DEVICE, job, drafts, quiet):
        assert (found.compared, found.partings) == (PROMPTS, ())
        assert found.adds_up
        assert 0.2 < (found.acceptance or 0) < 0.98
        assert found.mean_length == 1 + found.accepted / found.steps
        assert found.emitted == sum(one.tokens for one in found.speculative) == sum(one.tokens for one in found.plain)


def test_a_model_that_cannot_forget_is_refused(tmp_path: Path) -> None:
    """A window that slides has lost what a refused draft pushed out."""
    with ExitStack() as stack:
        session = opened(stack, saved_families.build("mistral", tmp_path / "mistral"))
        with pytest.raises(EngineError, match="layers of kind window"):
            session.follow([(5, 6, 7)])
