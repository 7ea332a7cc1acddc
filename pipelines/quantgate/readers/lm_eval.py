"""Samples of lm-evaluation-harness, as ``--log_samples`` writes them: ``samples_<task>_<time>.jsonl``, one object a line.

Written after real files of 0.4.13. An item is its ``doc_id``, its place in the dataset; that both sides asked the same is seen from
``doc_hash``, ``prompt_hash`` and ``target_hash``,
and from the requests in ``arguments``, which files without hashes have too. A task of rolling log-likelihoods gives each metric as a
pair: the log-likelihood of the whole text, and the words or bytes it is counted by.
A task with several filters has a line for each, so one must be named. Numbers of the
responses stand in the file as text; a log-likelihood that is NaN or infinite makes the item's answer meaningless.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from quantgate.errors import ResultsError
from quantgate.readers.lines import (
    Row,
    digest,
    end_of,
    first_object,
    json_lines,
    kind,
    one_slice,
    read_bytes,
    refuse,
    score,
    shortened,
    slice_of,
    text_digest,
    twice,
)
from quantgate.records import ItemEvidence, ItemScore, ReadOptions, Results, TaskResults

PREFERRED = ("acc", "exact_match")
ROLLING = ("word_perplexity", "byte_perplexity", "bits_per_byte")
"""Metrics whose items are pairs of a text's log-likelihood and its weight."""
HIGHER = frozenset({"acc", "acc_norm", "acc_mutual_info", "acc_bytes", "acc_all", "exact_match", "f1", "bleu", "chrf", "mcc", "likelihood"})
LOWER = frozenset({"ter", "brier_score"})
"""Which way the harness's own metrics go, as its registry declares it; of others nothing is known."""
MARKS = ("doc_hash", "prompt_hash", "target_hash", "target")
SETTINGS = "generation_settings"
REQUESTS = "arguments"
"""Every context and continuation of an item: what a file without hashes still says of its prompts."""
_FILE = re.compile(r"samples_(?P<task>.+)_\d{4}-\d{2}-\d{2}T[\d:.-]+\.jsonl")
_NOT_GREEDY = ("False", "True", False, True)


class LmEvalReader:
    """Reads one samples file, or a folder with one of each task."""

    name = "lm_eval"

    def recognises(self, path: Path) -> bool:
        if path.is_dir():
            return next(path.rglob("samples_*.jsonl"), None) is not None
        first = first_object(path)
        return "doc_id" in first and ("resps" in first or "filter" in first)

    def read(self, path: Path, options: ReadOptions) -> Results:
        parts, tasks, notes = [], [], []
        for file, task in _files(path):
            data = read_bytes(file)
            parts.append(data)
            found, said = task_results(data, task, str(file), options)
            tasks.append(found)
            notes += said
        return Results(source=self.name, path=str(path), sha256=digest(parts), tasks=tuple(tasks), notes=tuple(notes))


def _files(path: Path) -> list[tuple[Path, str]]:
    """The files to read with the task of each, which only a file's name says."""
    if not path.is_dir():
        return [(path, _task_of(path))]
    found = sorted(path.rglob("samples_*.jsonl"))
    if not found:
        raise ResultsError("has no samples_<task>_<time>.jsonl; run the harness with --log_samples", file=str(path))
    named = [(file, _task_of(file) or file.stem.removeprefix("samples_")) for file in found]
    seen: dict[str, Path] = {}
    for file, task in named:
        if (other := seen.setdefault(task, file)) is not file:
            both = f"{other.relative_to(path)} and {file.relative_to(path)}"
            what = f"holds task {task} twice, in {both}; name one file, or a folder of one run"
            raise ResultsError(what, file=str(path))
    return named


def _task_of(file: Path) -> str:
    found = _FILE.fullmatch(file.name)
    return "" if found is None else found["task"]


def task_results(data: bytes, task: str, file: str, options: ReadOptions) -> tuple[TaskResults, list[str]]:
    """The samples of one task, and what a person must know of them.

    Each line is cut down to what is needed as soon as it is read: kept whole, a file takes a multiple of the time.
    """
    lines = [_line(row, file, number) for number, row in json_lines(data, file)]
    lines, chosen = _filtered(lines, file, options.filter)
    metric = _metric(lines, file, options.metric)
    make = _rolling if metric in ROLLING and isinstance(lines[0].values[metric], list) else _item
    items, unsliced = one_slice([make(one, metric, file) for one in lines])
    places: dict[str, list[int]] = {}
    for one in lines:
        places.setdefault(one.item_id, []).append(one.number)
    known = TaskResults(
        name=task,
        metric=metric,
        items=items,
        chance_level=_chance_level([one.choices for one in lines]),
        conditions={} if chosen is None else {"filter": chosen},
        marks={
            name: found
            for place, name in enumerate((*MARKS, SETTINGS, REQUESTS))
            if (found := {one.item_id: mark for one in lines if (mark := one.marks[place]) is not None})
        },
        prompts={one.item_id: one.prompt for one in lines if one.prompt},
        better="higher" if make is _rolling or metric in HIGHER else "lower" if metric in LOWER else None,
        scale="unbounded" if make is _rolling else None,
    )
    return known, [f"{task or file}: {one}" for one in (twice(places), unsliced) if one is not None]


# ---------------------------------------------------------------------------------------------- one line


class _Line(NamedTuple):
    """What is needed of a line."""

    number: int
    item_id: str
    filter: str | None
    values: dict[str, Any]
    """The metrics that the line has."""
    marks: tuple[str | None, ...]
    numbers: tuple[float, ...]
    """Log-likelihoods as they stand, which may be NaN."""
    choices: int
    slice: str
    prompt: str
    answered: str
    expected: str


def _line(row: Row, file: str, number: int) -> _Line:
    if "doc_id" not in row:
        refuse("doc_id: missing; this is no samples file of lm-evaluation-harness", file, number)
    doc_id, doc = row["doc_id"], row.get("doc")
    if not isinstance(doc_id, int) or isinstance(doc_id, bool):
        refuse(f"doc_id: found {kind(doc_id)}, expected a whole number", file, number)
    names = _metrics(row)
    requests = _requests(row.get("arguments"))
    numbers = _loglikelihoods(row, file, number)
    twice_asked = "acc_mutual_info" in names  # each choice once more, without its question
    answered, expected = _answers(row, requests, numbers)
    return _Line(
        number=number,
        item_id=str(doc_id),
        filter=None if row.get("filter") is None else str(row["filter"]),
        values={name: row[name] for name in names},
        marks=(
            *[None if (mark := row.get(name)) is None else str(mark) for name in MARKS],
            _settings(row),
            text_digest("\0".join([part for pair in requests for part in pair])) if requests else None,
        ),
        numbers=numbers,
        choices=len(numbers) // 2 if twice_asked else len(numbers),
        slice=slice_of(doc if isinstance(doc, dict) else None),
        prompt=end_of(requests[0][0]) if requests else "",
        answered=answered,
        expected=expected,
    )


def _metrics(row: Mapping[str, Any]) -> list[str]:
    listed = row.get("metrics")
    if isinstance(listed, list) and set(map(type, listed)) <= {str}:
        return [one for one in listed if one in row]
    return [key for key, value in row.items() if key != "doc_id" and isinstance(value, bool | int | float)]


def _item(one: _Line, metric: str, file: str) -> ItemScore:
    if metric not in one.values:
        refuse(f"{metric}: missing", file, one.number)
    value = one.values[metric]
    broken = not all(map(math.isfinite, one.numbers)) or (isinstance(value, float) and not math.isfinite(value))
    known = tuple(number if math.isfinite(number) else None for number in one.numbers) if broken else one.numbers
    return ItemScore(
        item_id=one.item_id,
        slice=one.slice,
        cluster=None,
        value=None if broken else score(value, metric, file, one.number),
        why_unscored="a number of its response is not finite" if broken else None,
        answered=one.answered,
        expected=one.expected,
        evidence=ItemEvidence(item_id=one.item_id, loglikelihoods=known, nonfinite=broken),
    )


def _rolling(one: _Line, metric: str, file: str) -> ItemScore:
    """A text: its score is its log-likelihood, in nats, and its tokens are the words or bytes that the file counts by."""
    if metric not in one.values:
        refuse(f"{metric}: missing", file, one.number)
    pair = one.values[metric]
    if not isinstance(pair, list) or len(pair) != 2 or isinstance(pair[1], bool) or not isinstance(pair[1], int):
        refuse(f"{metric}: found {kind(pair)}, expected a log-likelihood and a whole number of words or bytes", file, one.number)
    nats, weight = pair
    if isinstance(nats, bool) or not isinstance(nats, int | float) or weight < 0:
        refuse(f"{metric}: found {pair!r:.80}, expected a log-likelihood and its weight", file, one.number)
    broken = not math.isfinite(nats)
    return ItemScore(
        item_id=one.item_id,
        slice=one.slice,
        cluster=None,
        value=None if broken else float(nats),
        why_unscored="its log-likelihood is not finite" if broken else None,
        answered="",
        expected=one.expected,
        evidence=ItemEvidence(
            item_id=one.item_id,
            loglikelihoods=(None if broken else float(nats),),
            nonfinite=broken,
            scored_tokens=weight,
        ),
    )


def _chance_level(choices: Sequence[int]) -> float | None:
    """Mean of 1 / choices; None for a task without choices. An item with a single one is always guessed."""
    if min(choices, default=0) < 1 or max(choices) < 2:
        return None
    return sum(1 / one for one in choices) / len(choices)


# ---------------------------------------------------------------------------------------------- which lines, which metric


def _filtered(lines: list[_Line], file: str, wanted: str | None) -> tuple[list[_Line], str | None]:
    """The lines of one filter, and its name where the file has one."""
    names = list(dict.fromkeys(one.filter for one in lines if one.filter is not None))
    if wanted is None:
        if len(names) > 1:
            raise ResultsError(f"filter: the file has {', '.join(names)}; name one of them with --filter", file=file)
        return lines, names[0] if names else None
    if wanted not in names:
        raise ResultsError(f"filter: the file has {', '.join(names) or 'none named'}, not {wanted!r}", file=file)
    return [one for one in lines if one.filter == wanted], wanted


def _metric(lines: Sequence[_Line], file: str, wanted: str | None) -> str:
    """The metric asked for; else ``acc``, ``exact_match``, the first that is 0 or 1 throughout, or of rolling ones the first."""
    names = list(lines[0].values)
    if wanted is not None:
        if wanted not in names:
            what = f"metric: the file has {', '.join(names) or 'none'}, not {wanted!r}; name one with --metric"
            raise ResultsError(what, file=file)
        return wanted
    for name in (*PREFERRED, *names):
        if name in names and (name in PREFERRED or all(_is_right_or_wrong(one.values.get(name)) for one in lines)):
            return name
    if rolling := [name for name in ROLLING if isinstance(lines[0].values.get(name), list)]:
        return rolling[0]
    what = f"metric: none of {', '.join(names) or 'the file'} is 0 or 1 for every item; name one with --metric"
    raise ResultsError(what, file=file)


def _is_right_or_wrong(value: object) -> bool:
    return isinstance(value, bool | int | float) and value in (0, 1)


# ---------------------------------------------------------------------------------------------- responses


def _requests(arguments: object) -> list[tuple[str, str]]:
    """Context and continuation of each request, from both layouts that the harness has written; empty for any other."""
    if isinstance(arguments, dict):
        pairs = [(one.get("arg_0"), one.get("arg_1")) for one in arguments.values() if isinstance(one, dict)]
    else:
        rows = arguments if isinstance(arguments, list) else ()
        pairs = [(one[0], one[1] if len(one) > 1 else "") for one in rows if isinstance(one, list) and one]
    return [(first, second if isinstance(second, str) else "") for first, second in pairs if isinstance(first, str)]


def _settings(row: Row) -> str | None:
    """Digest of how text was to be generated (stop strings, length, sampling); None for a task that generates none."""
    arguments = row.get("arguments")
    first = next(iter(arguments.values()), None) if isinstance(arguments, dict) else None
    settings = first.get("arg_1") if isinstance(first, dict) else None
    return text_digest(settings) if isinstance(settings, dict) else None


def _loglikelihoods(row: Row, file: str, line: int) -> tuple[float, ...]:
    """Nats of each choice, in the order of the requests; empty for a task that generates text."""
    responses = _pairs(row.get("filtered_resps"))
    if responses is None:
        raw = row.get("resps")
        single = isinstance(raw, list) and all(isinstance(one, list) and len(one) == 1 for one in raw)
        responses = _pairs([one[0] for one in raw] if single and raw is not None else raw)
    if responses is None:
        return ()
    try:
        return tuple([float(number) for number, _ in responses])
    except (TypeError, ValueError, OverflowError):
        refuse(f"filtered_resps: found {responses!r:.80}, expected log-likelihoods", file, line)


def _pairs(responses: object) -> list[list[Any]] | None:
    """A list of pairs of log-likelihood and whether it was the greedy choice; None for anything else."""
    if not isinstance(responses, list) or not responses:
        return None
    for one in responses:
        if not isinstance(one, list) or len(one) != 2 or one[1] not in _NOT_GREEDY:
            return None
    return responses


def _answers(row: Row, requests: Sequence[tuple[str, str]], numbers: Sequence[float]) -> tuple[str, str]:
    """What the model answered and what is right, as a person reads them."""
    target = row.get("target")
    if len(numbers) > 1 and len(requests) >= len(numbers):
        right = int(target) if isinstance(target, int | str) and str(target).isdigit() else len(requests)
        said = requests[numbers.index(max(numbers))][1]
        return shortened(said.strip()), shortened(requests[right][1].strip() if right < len(requests) else target)
    found = row.get("filtered_resps")
    first = found[0] if isinstance(found, list) and found else found
    return shortened(first if isinstance(first, str) else ""), shortened(target)
