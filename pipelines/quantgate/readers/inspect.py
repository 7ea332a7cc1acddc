"""Logs of Inspect (UK AI Security Institute) as JSON: one log a file, or a folder with one of each task.

Written after inspect_ai's log schema, version 2. An item is a sample's ``id``; over several epochs its score is the mean, so that an item
that was asked ten times is not ten items. Values are those that Inspect itself counts with: C = 1, P = 0.5, I and N = 0, booleans and
numbers; NaN and null are its signs for "not scored". The binary ``.eval`` format is left to ``inspect log convert``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from quantgate.errors import BrokenResults, ResultsError
from quantgate.readers import lines
from quantgate.readers.lines import (
    BOM,
    Row,
    digest,
    end_of,
    json_object,
    kind,
    name,
    one_slice,
    read_bytes,
    refuse,
    shortened,
    slice_of,
    stated,
    text_digest,
)
from quantgate.records import ItemEvidence, ItemScore, ReadOptions, Results, Scalar, TaskResults

VALUES: Mapping[str, float] = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
STATED = ("task_version", "task_args")
TRANSPORT = frozenset({"max_retries", "timeout", "attempt_timeout", "max_connections", "batch", "cache"})
"""Generation settings that say how a model is reached and not what it is asked."""
_HEAD_BYTES = 4096


class InspectReader:
    """Reads one log, or a folder of logs."""

    name = "inspect"

    def recognises(self, path: Path) -> bool:
        if path.is_dir():
            logs = sorted(path.glob("*.json")) + sorted(path.glob("*.eval"))
            return bool(logs) and all(self.recognises(log) for log in logs)
        if path.suffix == ".eval":
            return True
        try:
            with path.open("rb") as stream:
                head = stream.read(_HEAD_BYTES).removeprefix(BOM).lstrip()
        except OSError:
            return False
        return head.startswith(b"{") and b'"status"' in head and b'"eval"' in head

    def read(self, path: Path, options: ReadOptions) -> Results:
        files = sorted(path.glob("*.json")) + sorted(path.glob("*.eval")) if path.is_dir() else [path]
        parts, tasks, notes = [], [], []
        for file in files:
            if file.suffix == ".eval":
                how = f"inspect log convert {file.name} --to json --output-dir logs-json"
                raise ResultsError(f"is Inspect's binary format; convert it first: {how}", file=str(file))
            data = read_bytes(file)
            parts.append(data)
            task, said = _task(json_object(data.removeprefix(BOM), str(file)), str(file), options)
            tasks.append(task)
            notes += said
        _refuse_repeated([task.name for task in tasks], path)
        return Results(source=self.name, path=str(path), sha256=digest(parts), tasks=tuple(tasks), notes=tuple(notes))


def _refuse_repeated(names: Sequence[str], path: Path) -> None:
    if repeated := [one for one in names if names.count(one) > 1]:
        raise ResultsError(f"holds several logs of task {repeated[0]}; name one file", file=str(path))
    if not names:
        raise ResultsError("holds no log of Inspect (*.json)", file=str(path))


def _task(log: Row, file: str, options: ReadOptions) -> tuple[TaskResults, list[str]]:
    about, samples = log.get("eval"), log.get("samples")
    if not isinstance(about, dict) or not isinstance(about.get("task"), str):
        refuse("eval.task: missing; this is no log of Inspect", file, None)
    if (status := log.get("status")) != "success":
        raise BrokenResults(
            f"{file}: status: the log's status is {status!r}, not 'success'; finish it with inspect eval-retry"
        )
    if not isinstance(samples, list) or not samples:
        refuse("samples: none; the log was read or written without them", file, None)
    rows = _rows(samples, file)
    scorer = _scorer(rows, file, options.metric)
    epochs = _epochs(about)
    items, unsliced = one_slice(
        [_item(item_id, found, scorer, epochs, file) for item_id, found in _grouped(rows, file)]
    )
    firsts = dict(reversed(rows))
    declared = all(_is_declared(row, scorer) for _, row in rows)
    task = TaskResults(
        name=about["task"].rpartition("/")[2] or about["task"],
        metric=scorer,
        better="higher" if declared else None,
        items=items,
        chance_level=_chance(list(firsts.values())),
        conditions=_conditions(log, about, epochs),
        marks={
            field: {item_id: text_digest(row.get(field)) for item_id, row in firsts.items() if field in row}
            for field in ("input", "target", "choices")
            if any(field in row for row in firsts.values())
        },
        prompts={item_id: end_of(_text(row.get("input"))) for item_id, row in firsts.items()},
    )
    notes = [] if unsliced is None else [f"{task.name}: {unsliced}"]
    if len(items) > len(firsts):
        again = next(item.item_id for place, item in enumerate(items) if place >= len(firsts))
        notes.append(f"{task.name}: sample {again!r} stands twice with the same epoch")
    if epochs > 1:
        notes.append(f"{task.name}: each item's score is the mean over {epochs} epochs")
    return task, notes


def _rows(samples: Sequence[Any], file: str) -> list[tuple[str, Row]]:
    rows = []
    for place, sample in enumerate(samples):
        if not isinstance(sample, dict):
            refuse(f"samples[{place}]: found {kind(sample)}, expected an object", file, None)
        if "id" not in sample:
            refuse(f"samples[{place}].id: missing", file, None)
        rows.append((name(sample["id"], f"samples[{place}].id", file, None), sample))
    return rows


def _grouped(rows: Sequence[tuple[str, Row]], file: str) -> list[tuple[str, list[Row]]]:
    """The epochs of each item. An epoch that stands twice makes the item stand twice, so that whoever compares refuses it."""
    epochs: dict[str, dict[int, Row]] = {}
    again: list[tuple[str, list[Row]]] = []
    for item_id, row in rows:
        epoch = row.get("epoch", 1)
        if not isinstance(epoch, int) or isinstance(epoch, bool):
            refuse(f"sample {item_id}: epoch: found {kind(epoch)}, expected a whole number", file, None)
        if epochs.setdefault(item_id, {}).setdefault(epoch, row) is not row:
            again.append((item_id, [row]))
    return [*((item_id, list(found.values())) for item_id, found in epochs.items()), *again]


def _epochs(about: Row) -> int:
    config = about.get("config")
    epochs = config.get("epochs") if isinstance(config, dict) else None
    return epochs if isinstance(epochs, int) and epochs > 0 else 1


# ---------------------------------------------------------------------------------------------- scores


def _scorer(rows: Sequence[tuple[str, Row]], file: str, wanted: str | None) -> str:
    """The scorer asked for, or the only one; ``scorer.key`` picks one value of a scorer with several."""
    names = list(dict.fromkeys(one for _, row in rows for one in (row.get("scores") or {})))
    if wanted is not None:
        if wanted not in names and wanted.rpartition(".")[0] not in names:
            raise ResultsError(
                f"scores: the log has {', '.join(names) or 'none'}, not {wanted!r}; name one with --metric", file=file
            )
        return wanted
    if len(names) != 1:
        what = (
            "the log has no score" if not names else f"the log has {', '.join(names)}; name one of them with --metric"
        )
        raise ResultsError(f"scores: {what}", file=file)
    return str(names[0])


def _item(item_id: str, rows: Sequence[Row], scorer: str, epochs: int, file: str) -> ItemScore:
    values = [_value(row, scorer, item_id, file) for row in rows]
    known = [one for one in values if one is not None]
    why = None
    if len(known) < max(len(rows), epochs):
        errors = [row["error"] for row in rows if row.get("error")]
        why = "it ended in an error" if errors else f"{len(known)} of {max(len(rows), epochs)} epochs have a score"
    first = rows[0]
    score = (first.get("scores") or {}).get(scorer)
    metadata = first.get("metadata")
    return ItemScore(
        item_id=item_id,
        slice=slice_of(metadata if isinstance(metadata, dict) else None),
        cluster=None,
        value=None if why else fmean(known),
        why_unscored=why,
        answered=shortened(score.get("answer")) if isinstance(score, dict) else "",
        expected=shortened(_text(first.get("target"))),
        evidence=ItemEvidence(item_id=item_id),
    )


def _is_declared(row: Row, scorer: str) -> bool:
    """Whether an epoch's value is one of Inspect's letters or a boolean, for which higher is better; a number may be anything."""
    score = (row.get("scores") or {}).get(scorer)
    value = score.get("value") if isinstance(score, dict) else score
    return value is None or isinstance(value, bool | str)


def _value(row: Row, scorer: str, item_id: str, file: str) -> float | None:
    """One epoch's value; None where Inspect itself did not score it."""
    scores = row.get("scores") or {}
    key = ""
    if scorer not in scores:
        scorer, _, key = scorer.rpartition(".")
    score = scores.get(scorer)
    if score is None:
        return None
    value = score.get("value") if isinstance(score, dict) else score
    if key and isinstance(value, dict):
        value = value.get(key)
    where = f"sample {item_id}: scores.{scorer}.value"
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, bool | int | float):
        return lines.score(value, where, file, None)
    if isinstance(value, str) and value in VALUES:
        return VALUES[value]
    names = f"; name one of them with --metric {scorer}.KEY" if isinstance(value, dict) else ""
    raise ResultsError(f"{where}: found {kind(value)}, expected C, I, P, N or a number{names}", file=file)


# ---------------------------------------------------------------------------------------------- what else a log says


def _conditions(log: Row, about: Row, epochs: int) -> dict[str, Scalar]:
    """What must be alike on both sides: the task and how it was asked, not the model nor how it was reached."""
    found: dict[str, Scalar] = {"epochs": epochs}
    for field in STATED:
        if field in about:
            found[field] = stated(about[field])
    plan = log["plan"] if isinstance(log.get("plan"), dict) else {}
    if "steps" in plan:
        found["plan"] = stated(plan["steps"])
    for field, settings in (
        ("model_generate_config", about.get("model_generate_config")),
        ("plan_config", plan.get("config")),
    ):
        if isinstance(settings, dict):
            found[field] = stated({key: one for key, one in settings.items() if key not in TRANSPORT})
    return found


def _chance(rows: Sequence[Row]) -> float | None:
    choices = [row.get("choices") for row in rows]
    counts = [len(one) for one in choices if isinstance(one, list) and len(one) > 1]
    return sum(1 / one for one in counts) / len(counts) if counts and len(counts) == len(rows) else None


def _text(value: object) -> str:
    """An input or target as text: a string, a list of choices, or the last message of a conversation."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value:
        last = value[-1]
        return _text(last.get("content")) if isinstance(last, dict) else ", ".join(str(one) for one in value)
    return ""
