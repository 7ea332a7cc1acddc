"""Tasks of lm-evaluation-harness as a golden set: its code makes the requests and scores, a variant's own session answers.

A set is known by the digest of what decides a score: the configs with their functions' source, the version of the harness, and each
document's requests as the model will see them. Where a worker finds another digest than was gathered, nothing is scored. Samples go
through the same reading as files that the harness wrote itself, so a metric, a filter and a broken number mean the same on both ways.
Refused: metrics for which less is better, tasks that draw their answers at random, tasks that run the code a model wrote.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import replace
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from lm_eval import __version__ as harness_version, tasks as tasks_package
from lm_eval.api.model import LM
from lm_eval.evaluator import evaluate
from lm_eval.tasks import TaskManager

from quantgate.errors import BrokenResults, ConfigError, GoldenSetError
from quantgate.ports import Answers, Written
from quantgate.readers.lm_eval import PREFERRED, task_results
from quantgate.records import (
    Better,
    GoldenItem,
    GoldenSet,
    HarnessSource,
    ItemEvidence,
    ItemScore,
    ReadOptions,
    Scale,
    TaskResults,
)

SEED = 1234
"""Of the draw of few-shot examples; the harness's own default."""
LOCAL = ("json", "csv", "parquet", "text", "arrow")
DEFAULT_NEW_TOKENS = 256
OWN_TASKS = Path(tasks_package.__file__).resolve().parent
"""Where the tasks lie that the harness brings."""
YAML = (".yaml", ".yml")
PLACES = ("data_files", "data_dir", "cache_dir")
LENGTHS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
SHARES = frozenset({"acc", "acc_norm", "acc_bytes", "acc_mutual_info", "exact_match"})
"""Metrics whose score of an item lies in [0, 1]: right or wrong, or a mean over several answers."""
IGNORED = ("temperature", "top_p", "top_k", "do_sample", "until")
"""Settings that greedy decoding does not read, or that are read apart."""


class LmEvalSource:
    """Gathers and scores tasks of lm-evaluation-harness."""

    name = "lm_eval"

    def gather(self, asked: HarnessSource, into: Path) -> GoldenSet:
        """The tasks' documents as items: prompts and choices as the model sees them outside a chat template."""
        tasks = _tasks(asked)
        metric = _metric(asked, tasks)
        settled = replace(asked, metric=metric, filter=_filter(asked, tasks), scale=_scale(metric, tasks), better=_better(metric, tasks))
        requests = _requests(settled, tasks)
        items = tuple(_item(settled, tasks[name], _id(name, doc_id, tasks), group) for (name, doc_id), group in requests.items())
        if not items:
            raise GoldenSetError("the tasks have no documents", file=asked.name)
        version = settled.metric or ""
        sha256 = _digest(settled, tasks, requests)
        return GoldenSet(name=asked.name, version=version, sha256=sha256, items=items, path=str(into), harness=settled)

    def score(self, golden: GoldenSet, answers: Answers) -> tuple[ItemScore, ...]:
        asked = golden.harness
        if asked is None:
            raise GoldenSetError("is no golden set of lm-evaluation-harness", file=golden.path)
        tasks = _tasks(asked)
        if (found := _digest(asked, tasks, _requests(asked, tasks))) != golden.sha256:
            what = f"the tasks or their data changed while the run was going on ({found[:12]}, gathered {golden.sha256[:12]})"
            raise GoldenSetError(f"{what}; start the run again", file=golden.name)
        model = HarnessModel(answers, greedy=frozenset(name for name, task in tasks.items() if _needs_greedy(task)))
        with _quiet():
            done = evaluate(
                model,
                {"tasks": tasks},
                limit=asked.limit,
                bootstrap_iters=0,
                log_samples=True,
                apply_chat_template=asked.chat,
            )
        return tuple(_sheet(golden, asked, done["samples"], model.written))


# ---------------------------------------------------------------------------------------------- the model that the harness asks


class HarnessModel(LM):  # type: ignore[misc]
    """The harness's interface to a model, answered by a session of ours.

    ``greedy`` names the tasks whose metric asks whether greedy decoding would write the continuation; for others the harness gets False.
    """

    def __init__(self, answers: Answers, *, greedy: frozenset[str] = frozenset()) -> None:
        super().__init__()
        self._answers, self._greedy = answers, greedy
        self.written: dict[tuple[str, int], ItemEvidence] = {}
        """What was generated for each document: its text, its tokens, and whether it was cut."""

    def loglikelihood(self, requests: list[Any]) -> list[tuple[float, bool]]:
        """Nats of the second argument after the first, in the order asked."""
        found: dict[int, tuple[float, bool]] = {}
        for greedy in (False, True):
            part = [(at, one.args) for at, one in enumerate(requests) if (one.task_name in self._greedy) is greedy]
            answers = self._answers.loglikelihoods([(args[0], args[1]) for _, args in part], greedy=greedy) if part else []
            found |= {at: answer for (at, _), answer in zip(part, answers, strict=True)}
        return [found[at] for at in range(len(requests))]

    def loglikelihood_rolling(self, requests: list[Any]) -> list[float]:
        """Nats of the whole text."""
        return self._answers.rolling([one.args[0] for one in requests])

    def generate_until(self, requests: list[Any]) -> list[str]:
        """Greedy text up to the first stop string, without it."""
        asked = [_written(one) for one in requests]
        texts: list[str] = []
        for one, request, evidence in zip(requests, asked, self._answers.generate(asked), strict=True):
            self.written[one.task_name, one.doc_id] = evidence
            texts.append(_cut(evidence.text or "", request.stop))
        return texts

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """Not used: the messages are rendered by the session when it answers."""
        raise ConfigError("tasks inside the chat template are not supported; leave 'chat' out")


def _written(instance: Any) -> Written:
    context, settings = instance.args
    where = f"{instance.task_name}/{instance.doc_id}"
    _refuse_settings(settings, where)
    stop = settings.get("until") or []
    length = next((settings[key] for key in LENGTHS if settings.get(key) is not None), DEFAULT_NEW_TOKENS)
    texts = [stop] if isinstance(stop, str) else stop
    return Written(item_id=where, context=context, stop=tuple(one for one in texts if one), max_new_tokens=int(length))


def _refuse_settings(settings: Mapping[str, Any], where: str) -> None:
    """Fail closed: answers drawn at random are not paired, and a setting that is not followed would be another task."""
    if settings.get("do_sample") and settings.get("temperature") != 0:
        raise ConfigError(f"{where} asks for answers drawn at random (do_sample); set generation_kwargs to do_sample: false")
    unknown = [key for key in settings if key not in (*LENGTHS, *IGNORED) and not _is_greedy(key, settings[key])]
    if unknown:
        allowed = ", ".join((*LENGTHS, *IGNORED))
        raise ConfigError(f"{where} sets {unknown[0]} in generation_kwargs, which is not followed here; allowed are {allowed}")


def _is_greedy(key: str, value: object) -> bool:
    """A setting that is at the value at which it does nothing."""
    return (key, value) in (("num_beams", 1), ("repetition_penalty", 1.0), ("num_return_sequences", 1))


def _cut(text: str, stop: Sequence[str]) -> str:
    for one in stop:
        text = text.split(one)[0]
    return text


# ---------------------------------------------------------------------------------------------- the tasks


def _tasks(asked: HarnessSource) -> dict[str, Any]:
    """Name -> task, built anew: a task keeps its requests and few-shot draw. Raises ``ConfigError`` for what cannot be loaded."""
    try:
        with _quiet(), TemporaryDirectory() as scratch:
            named = any(Path(one).suffix not in YAML for one in asked.tasks)
            manager = TaskManager(include_path=asked.include_path, include_defaults=named)  # reading all of its own takes seconds
            _refuse_unknown(asked, manager)
            specs = [_spec(_file_of(one, manager), Path(scratch)) for one in asked.tasks]
            found = dict(manager.load(specs)["tasks"])
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(f"golden set {asked.name}: the tasks cannot be loaded: {type(error).__name__}: {error}") from error
    for name, task in found.items():
        _refuse_task(name, task)
        if asked.num_fewshot is not None:
            task.set_config("num_fewshot", asked.num_fewshot)
        task.set_fewshot_seed(SEED)
    return found


def _refuse_unknown(asked: HarnessSource, manager: Any) -> None:
    for one in asked.tasks:
        if not (Path(one).is_file() if Path(one).suffix in YAML else one in manager.task_index):
            what = "name a task, a group, a tag, or the path of a YAML file, or set include_path"
            raise ConfigError(f"golden set {asked.name}: there is no task {one!r}; {what}")


def _file_of(text: str, manager: Any) -> str:
    """The YAML file of a task that the harness does not bring itself; else the name as it is."""
    entry = manager.task_index.get(text)
    file = None if entry is None or entry.kind.name != "TASK" else entry.yaml_path
    return text if file is None or OWN_TASKS in file.resolve().parents else str(file)


def _spec(text: str, scratch: Path) -> str:
    """A task's name, or its file. Data files that a local task names are looked for beside its YAML file first.

    For that a file is written into ``scratch`` which includes the task's own, so that the harness finds functions beside it as ever. The
    library behind it keeps prepared data by the files' times, so it is given a place of its own: an edited file is always read anew.
    """
    path = Path(text)
    if path.suffix not in YAML:
        return text
    try:
        plain = yaml.load(path.read_text(encoding="utf-8"), Loader=_Lenient)
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return text  # whoever reads it next says what is wrong with it
    kwargs = plain.get("dataset_kwargs") if isinstance(plain, dict) else None
    if not isinstance(kwargs, dict) or plain.get("dataset_path") not in LOCAL or "data_files" not in kwargs:
        return text
    around = {
        "include": str(path.resolve()),
        "task": plain.get("task", path.stem),
        "dataset_kwargs": {
            **kwargs,
            "data_files": _beside(kwargs["data_files"], path.resolve().parent),
            "cache_dir": str(scratch / "data"),
        },
    }
    written = scratch / f"{len(list(scratch.glob('*.yaml')))}.yaml"
    written.write_text(json.dumps(around), encoding="utf-8")
    return str(written)


class _Lenient(yaml.SafeLoader):
    """Reads a task's plain keys and lets the harness's own tags be."""


_Lenient.add_multi_constructor("!", lambda loader, suffix, node: None)


def _beside(files: Any, folder: Path) -> Any:
    match files:
        case str():
            return str(folder / files) if (folder / files).is_file() else files
        case list():
            return [_beside(one, folder) for one in files]
        case dict():
            return {key: _beside(one, folder) for key, one in files.items()}
        case _:
            return files


def _refuse_task(name: str, task: Any) -> None:
    if getattr(task, "UNSAFE_CODE", False):
        raise ConfigError(f"task {name} runs the code that a model wrote; quantgate does not run it")
    if getattr(task, "MULTIMODAL", False):
        raise ConfigError(f"task {name} needs images or sound, and only text is asked here")


def _metric(asked: HarnessSource, tasks: Mapping[str, Any]) -> str:
    """The metric that every task has: the one asked for, else ``acc`` or ``exact_match``, else the only one."""
    better = {name: dict(task.higher_is_better()) for name, task in tasks.items()}
    shared = [key for key in next(iter(better.values()), {}) if all(key in one for one in better.values())]
    listed = "; ".join(f"{name}: {', '.join(one) or 'none'}" for name, one in better.items())
    chosen = asked.metric or next((one for one in PREFERRED if one in shared), shared[0] if len(shared) == 1 else None)
    if chosen is None or (chosen not in shared and not _scores_itself(tasks)):
        what = "name one that every task has in 'metric'" if asked.metric is None else f"not every task has {asked.metric!r}"
        raise ConfigError(f"golden set {asked.name}: {what}; the tasks have {listed}")
    if not all(one.get(chosen, True) for one in better.values()):
        raise ConfigError(f"golden set {asked.name}: less is better for {chosen}, and a golden set's scores are better when larger")
    return chosen


def _scale(metric: str, tasks: Mapping[str, Any]) -> Scale | None:
    """Known of the harness's own metrics of an item only; a task's own function may call anything by their names."""
    return "unit" if metric in SHARES and not _scores_itself(tasks) else None


def _better(metric: str, tasks: Mapping[str, Any]) -> Better | None:
    """As every task states it; ``_metric`` has refused those that state the other way."""
    return "higher" if all(dict(task.higher_is_better()).get(metric) is True for task in tasks.values()) else None


def _scores_itself(tasks: Mapping[str, Any]) -> bool:
    """Whether a task's own function decides what metrics there are."""
    return any(callable(getattr(task.config, "process_results", None)) for task in tasks.values())


def _filter(asked: HarnessSource, tasks: Mapping[str, Any]) -> str | None:
    for name, task in tasks.items():
        known = [one["name"] for one in task.config.filter_list or ()]
        if asked.filter is None and len(known) > 1:
            raise ConfigError(f"golden set {asked.name}: task {name} has the filters {', '.join(known)}; name one in 'filter'")
        if asked.filter is not None and asked.filter not in (known or ["none"]):
            found = ", ".join(known) or "none"
            raise ConfigError(f"golden set {asked.name}: task {name} has no filter {asked.filter!r}; it has {found}")
    return asked.filter


def _needs_greedy(task: Any) -> bool:
    metrics = task.higher_is_better()
    return task.OUTPUT_TYPE == "loglikelihood" or (task.OUTPUT_TYPE == "multiple_choice" and "exact_match" in metrics)


# ---------------------------------------------------------------------------------------------- documents, requests and their digest


def _requests(asked: HarnessSource, tasks: Mapping[str, Any]) -> dict[tuple[str, int], list[Any]]:
    """Task and document -> requests, as the harness makes them."""
    found: dict[tuple[str, int], list[Any]] = {}
    for name, task in tasks.items():
        with _quiet():
            task.build_all_requests(limit=asked.limit)
        for one in task.instances:
            if asked.chat or one.request_type == "loglikelihood_rolling":
                what = "'chat' is not supported" if asked.chat else f"task {name} measures perplexity, which is no score of items"
                raise ConfigError(f"golden set {asked.name}: {what}")
            if one.request_type == "generate_until":
                _written(one)
            found.setdefault((name, one.doc_id), []).append(one)
        task.set_fewshot_seed(SEED)
    return found


def _digest(asked: HarnessSource, tasks: Mapping[str, Any], requests: Mapping[tuple[str, int], Sequence[Any]]) -> str:
    sha = hashlib.sha256()
    settings = [harness_version, asked.metric, asked.filter, asked.chat, asked.limit, asked.num_fewshot]
    for part in (settings, *({"task": name, "config": _config(task)} for name, task in tasks.items())):
        sha.update(_line(part))
    for (name, doc_id), group in requests.items():
        sha.update(_line([name, doc_id, group[0].doc, [[one.request_type, one.args] for one in group]]))
    return sha.hexdigest()


def _config(task: Any) -> dict[str, Any]:
    """What decides a score; where config and data lie is left out, what they hold is in the rest and in the requests."""
    config: dict[str, Any] = task.dump_config()
    kwargs = {key: value for key, value in (config.get("dataset_kwargs") or {}).items() if key not in PLACES}
    metadata = {key: value for key, value in (config.get("metadata") or {}).items() if key != "config_source"}
    return {**config, "dataset_kwargs": kwargs, "metadata": metadata}


def _line(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False, sort_keys=True, default=repr) + "\n").encode("utf-8", "backslashreplace")


def _item(asked: HarnessSource, task: Any, item_id: str, group: Sequence[Any]) -> GoldenItem:
    """One document. Choices stand as they are asked; two requests for each choice (mutual information) count once."""
    contexts = list(dict.fromkeys(one.args[0] for one in group))
    choices = [one.args[1] for one in group if len(contexts) > 2 or one.args[0] == contexts[0]]
    return GoldenItem(
        item_id=item_id,
        slice=group[0].task_name,
        prompt=contexts[0],
        metric=asked.metric or "",
        template="raw",
        choices=tuple(choices) if task.OUTPUT_TYPE == "multiple_choice" else (),
    )


def _id(task: str, doc_id: int, tasks: Mapping[str, Any]) -> str:
    """The document's place in its task, and the task before it where there are several."""
    return str(doc_id) if len(tasks) == 1 else f"{task}/{doc_id}"


# ---------------------------------------------------------------------------------------------- scores


def _sheet(
    golden: GoldenSet, asked: HarnessSource, samples: Mapping[str, Any], written: Mapping[tuple[str, int], ItemEvidence]
) -> Iterator[ItemScore]:
    """One score a golden item, read as the harness's own files are, with what was generated beside it."""
    scores: dict[str, ItemScore] = {}
    for name, rows in samples.items():
        for one in _read(asked, name, rows).items:
            item_id = _id(name, int(one.item_id), samples)
            evidence = _evidence(one, written.get((name, int(one.item_id))), item_id)
            broken = evidence.nonfinite
            why = one.why_unscored or ("a number of its answer is not finite" if broken else None)
            scores[item_id] = replace(
                one, item_id=item_id, slice=name, value=None if broken else one.value, why_unscored=why, evidence=evidence
            )
    for item in golden.items:
        if item.item_id not in scores:
            raise BrokenResults(f"item {item.item_id} of {golden.label} was asked and has no sample")
        yield scores[item.item_id]


def _read(asked: HarnessSource, name: str, rows: Sequence[Mapping[str, Any]]) -> TaskResults:
    data = b"".join(_line(_row(one)) for one in rows)
    found, _ = task_results(data, name, f"samples of {name}", ReadOptions(metric=asked.metric, filter=asked.filter))
    return found


def _row(sample: Mapping[str, Any]) -> dict[str, Any]:
    """A sample as the harness writes it to a file: numbers of the responses as text, a target as text."""
    arguments = {
        f"gen_args_{at}": {f"arg_{place}": one for place, one in enumerate(args)} for at, args in enumerate(sample["arguments"])
    }
    texts = {key: _texts(sample[key]) for key in ("resps", "filtered_resps")}
    return {**sample, **texts, "arguments": arguments, "target": str(sample["target"])}


def _texts(value: Any) -> Any:
    return [_texts(one) for one in value] if isinstance(value, list | tuple) else str(value)


def _evidence(one: ItemScore, written: ItemEvidence | None, item_id: str) -> ItemEvidence:
    if written is None:
        return replace(one.evidence, item_id=item_id)
    return replace(written, item_id=item_id, nonfinite=written.nonfinite or one.evidence.nonfinite)


@contextmanager
def _quiet() -> Iterator[None]:
    """The harness tells every step of its own; errors are still said."""
    logger = logging.getLogger("lm_eval")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with redirect_stderr(StringIO()):  # its progress bars know no other place
            yield
    finally:
        logger.setLevel(before)
