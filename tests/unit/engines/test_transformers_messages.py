"""Conversations and texts on a real tokenizer and engine: roles in the template, and log-likelihoods token by token."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import tiny
from quantgate.devices.cpu import CpuDevice
from quantgate.engines.transformers import TransformersEngine
from quantgate.engines.transformers_tokenizer import TransformersTokenizer
from quantgate.errors import ConfigError
from quantgate.metrics.perplexity import Perplexity
from quantgate.records import BatchPlan, ChatMessage, DeviceConfig, EngineSettings, GoldenItem, GoldenSet
from quantgate.stages.score import Job, score
from sessions import quiet

TALK = (
    ChatMessage(role="system", content="Be brief."),
    ChatMessage(role="user", content="Hi"),
    ChatMessage(role="assistant", content="Hello"),
    ChatMessage(role="user", content="2+2="),
)


def test_every_turn_keeps_its_role() -> None:
    """The template gets the conversation as it stands; the readable prompt is not put in as well."""
    item = GoldenItem(item_id="a", slice="s", prompt="system: Be brief. ...", metric="exact_match", messages=TALK)
    rendered = TransformersTokenizer(tiny.tokenizer(), None).render(item)
    assert rendered == "<s>[system]Be brief.\n[user]Hi\n[assistant]Hello\n[user]2+2=\n[assistant]"


def test_a_conversation_needs_a_template() -> None:
    """A model without one is refused with the item's name."""
    item = GoldenItem(item_id="a", slice="s", prompt="p", metric="exact_match", messages=TALK)
    with pytest.raises(ConfigError, match="item a asks for the chat template"):
        TransformersTokenizer(tiny.tokenizer(chat_template=None), None).render(item)


@pytest.mark.parametrize("adds_bos", [True, False])
def test_a_text_has_the_models_own_log_likelihood(tmp_path: Path, adds_bos: bool) -> None:
    """Total nats and tokens of texts of different lengths in one batch are those of a plain forward pass over each."""
    texts = ("It was a dark night.", "Rain fell.", "x" * 60)
    items = tuple(
        GoldenItem(item_id=f"t{n}", slice="s", prompt=text, metric="perplexity", template="raw") for n, text in enumerate(texts)
    )
    device = CpuDevice(DeviceConfig(threads=1))
    artifact = tiny.artifact(tiny.llama(tmp_path / "model", adds_bos=adds_bos))
    with TransformersEngine().open(artifact, EngineSettings(threads=1), device) as session:
        golden = GoldenSet(name="g", version="1", sha256="0" * 64, items=items, path="")
        job = Job(variant="v", golden=golden, metrics={"perplexity": Perplexity()}, plan=BatchPlan())
        sheet = score(session, device, job, quiet)
        for item, found in zip(items, sheet.items, strict=True):
            ids = torch.tensor([session.tokenizer.encode(item.prompt, add_bos=True)])
            with torch.no_grad():
                logprobs = session._run.model(ids).logits[0, :-1].double().log_softmax(-1)
            total = float(logprobs.gather(1, ids[0, 1:, None]).sum())
            assert found.evidence.scored_tokens == ids.shape[1] - 1 == len(item.prompt) - (not adds_bos)
            assert found.evidence.loglikelihoods[0] == pytest.approx(total, abs=1e-3)
