"""Public bug reports, part E: padding, batching, determinism."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import tiny
from evidence import candidate, decided, evidence, identity, known_bad, reference
from quantgate.devices.cpu import CpuDevice
from quantgate.engines.transformers import TransformersEngine
from quantgate.metrics.multiple_choice import MultipleChoice
from quantgate.records import BatchPlan, ChoiceLogProbs, DeviceConfig, EngineSettings, GoldenItem, GoldenSet
from quantgate.stages.score import Job, score
from sessions import Scripted, device, quiet


def _minus_one_a_token(
    contexts: Sequence[tuple[int, ...]], continuations: Sequence[Sequence[tuple[int, ...]]]
) -> Iterator[ChoiceLogProbs]:
    for index, choices in enumerate(continuations):
        yield ChoiceLogProbs(index=index, totals=tuple(-1.0 * len(one) for one in choices))


@pytest.mark.parametrize("max_rows", [1, 2])
def test_b46_a_score_does_not_depend_on_the_batch(max_rows: int) -> None:
    """A model of -1.0 a token: documents of 3 and 5 tokens score -3 and -5, singly and as one batch."""
    items = tuple(
        GoldenItem(item_id=name, slice="s", prompt="q", metric="multiple_choice", choices=(name, "zz"), answer=0, template="chat")
        for name in ("abc", "abcde")
    )
    golden = GoldenSet(name="g", version="1", sha256="0" * 64, items=items, path="")
    job = Job(
        variant="v", golden=golden, metrics={"multiple_choice": MultipleChoice()}, plan=BatchPlan(max_rows=max_rows)
    )
    sheet = score(Scripted(logprobs=_minus_one_a_token), device(), job, quiet)
    assert [one.evidence.loglikelihoods[0] for one in sheet.items] == [-3.0, -5.0]
    assert sheet.batch_plan.max_rows == max_rows


def test_b47_the_reference_under_other_batches_is_the_noise_floor_and_must_pass() -> None:
    """A variant under other batches is refused; the identity control under other batches shows what batching alone moves."""
    noisy = identity([*range(1, 160), 160])
    decision = decided(evidence(reference(), candidate(), known_bad(), noisy))
    check = decision.verdicts[-1].checks[3]
    assert (decision.outcome, check.b, check.c) == ("pass", 1, 1)


def test_b49_a_model_without_a_pad_token_is_scored_as_it_is(tmp_path: Path) -> None:
    """Two lengths in a batch: no token is added, the embedding keeps its rows, and the scores are those of the items alone."""
    folder = tiny.llama(tmp_path / "model")
    texts = [f"a prompt of its own length {'x' * n}" for n in (1, 30)]
    items = tuple(
        GoldenItem(item_id=text, slice="s", prompt=text, metric="multiple_choice", choices=("yes", "no"), answer=0)
        for text in texts
    )
    artifact, settings, cpu = tiny.artifact(folder), EngineSettings(threads=1), CpuDevice(DeviceConfig(threads=1))
    with TransformersEngine().open(artifact, settings, cpu) as session:
        assert session.tokenizer._tokenizer.pad_token_id is None
        found = []
        for rows in (1, 2):
            golden = GoldenSet(name="g", version="1", sha256="0" * 64, items=items, path="")
            plan = BatchPlan(max_rows=rows)
            job = Job(variant="v", golden=golden, metrics={"multiple_choice": MultipleChoice()}, plan=plan)
            found.append([one.evidence.loglikelihoods for one in score(session, cpu, job, quiet).items])
        assert session._run.model.get_input_embeddings().num_embeddings == tiny.VOCABULARY
        assert session.tokenizer.vocabulary_size == tiny.VOCABULARY
    for alone, together in zip(*found, strict=True):
        assert alone == pytest.approx(together, abs=1e-4)
