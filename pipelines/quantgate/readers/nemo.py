"""Results of NeMo Evaluator: ``results.jsonl``, one problem (or one repeat of it) a line, beside its ``eval-*.json`` bundle.

Written after NVIDIA's published result format (what its own ``nel compare`` reads): ``problem_idx`` and ``reward``, optionally ``repeat``,
``expected_answer``, ``model_response``, ``metadata.category``. Repeats of a problem become one item with their mean. The bundle names the
benchmark and the settings it was run with. Aggregated results (``results.yml`` of the launcher) hold no items and cannot be judged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from quantgate.errors import ResultsError
from quantgate.readers.lines import (
    EVERYTHING,
    Row,
    digest,
    end_of,
    first_object,
    json_lines,
    json_object,
    kind,
    one_slice,
    read_bytes,
    refuse,
    score,
    shortened,
    slice_of,
    stated,
    text_digest,
    twice,
)
from quantgate.records import ItemEvidence, ItemScore, ReadOptions, Results, Scalar, TaskResults

RESULTS = "results.jsonl"
BUNDLES = "eval-*.json"
STATED = ("temperature", "max_tokens", "top_p", "seed", "system_prompt", "repeats", "max_problems", "shuffle_seed")
"""Settings of a bundle that must be alike; model and address belong to the variant."""
MARKS = ("expected_answer", "prompt")


class NemoReader:
    """Reads a results file, or a folder with one of each benchmark."""

    name = "nemo"

    def recognises(self, path: Path) -> bool:
        if path.is_dir():
            return bool(_files(path)) or next(path.rglob("results.yml"), None) is not None
        if path.match(BUNDLES):
            return path.with_name(RESULTS).is_file()
        first = first_object(path)
        return "problem_idx" in first and "reward" in first

    def read(self, path: Path, options: ReadOptions) -> Results:
        if path.is_dir() and not (files := _files(path)):
            what = f"holds no {RESULTS}; its results.yml has sums over all items, and those cannot be paired"
            raise ResultsError(what, file=str(path))
        if not path.is_dir():
            files = [path.with_name(RESULTS) if path.match(BUNDLES) else path]
        if options.metric not in (None, "reward"):
            raise ResultsError(f"metric: a results file has the reward alone, not {options.metric!r}", file=str(path))
        parts, tasks, notes = [], [], []
        for file in files:
            data = read_bytes(file)
            bundle = _bundle(file)
            parts += [data, *([] if bundle is None else [bundle[0]])]
            task, said = _task(data, {} if bundle is None else bundle[1], file)
            tasks.append(task)
            notes += said
        names = [task.name for task in tasks]
        if repeated := [one for one in names if names.count(one) > 1]:
            raise ResultsError(
                f"holds benchmark {repeated[0] or 'without a name'} twice; name one file", file=str(path)
            )
        return Results(source=self.name, path=str(path), sha256=digest(parts), tasks=tuple(tasks), notes=tuple(notes))


def _files(path: Path) -> list[Path]:
    """The results in a folder, or in its subfolders of one benchmark each."""
    return [path / RESULTS] if (path / RESULTS).is_file() else sorted(path.glob(f"*/{RESULTS}"))


def _bundle(file: Path) -> tuple[bytes, Row] | None:
    """The one bundle beside a results file, as it is and as an object."""
    found = sorted(file.parent.glob(BUNDLES))
    if len(found) != 1:
        return None
    data = read_bytes(found[0])
    return data, json_object(data, str(found[0]))


def _task(data: bytes, bundle: Row, file: Path) -> tuple[TaskResults, list[str]]:
    rows: dict[str, dict[int, Row]] = {}
    lines: dict[str, list[int]] = {}
    again: list[tuple[str, list[Row]]] = []
    for line, row in json_lines(data, str(file)):
        item_id, repeat = _identity(row, str(file), line)
        row["reward"] = _reward(row, str(file), line)
        lines.setdefault(f"{item_id} repeat {repeat}", []).append(line)
        if rows.setdefault(item_id, {}).setdefault(repeat, row) is not row:
            again.append((item_id, [row]))
    repeats = max((len(found) for found in rows.values()), default=0)
    if not repeats:
        raise ResultsError("has 0 items, so nothing could be judged", file=str(file))
    grouped = [*((item_id, list(found.values())) for item_id, found in rows.items()), *again]
    items, unsliced = one_slice([_item(item_id, found, repeats) for item_id, found in grouped])
    firsts = {item_id: next(iter(found.values())) for item_id, found in rows.items()}
    benchmark, config = bundle.get("benchmark"), bundle.get("config")
    task = TaskResults(
        name=str(benchmark.get("name") or "") if isinstance(benchmark, dict) else "",
        metric="reward",
        better="higher",
        items=items,
        conditions=_conditions(config if isinstance(config, dict) else {}, repeats),
        marks={
            field: _marks(field, firsts)
            for field in MARKS
            if any(row.get(field) is not None for row in firsts.values())
        },
        prompts={
            item_id: end_of(row["prompt"]) for item_id, row in firsts.items() if isinstance(row.get("prompt"), str)
        },
    )
    notes = [f"{task.name or file}: {one}" for one in (twice(lines), unsliced) if one is not None]
    if repeats > 1:
        notes.append(f"{task.name or file}: each item's score is the mean over {repeats} repeats")
    return task, notes


def _identity(row: Row, file: str, line: int) -> tuple[str, int]:
    if "problem_idx" not in row:
        refuse("problem_idx: missing; this is no results file of NeMo Evaluator", file, line)
    for field in ("problem_idx", "repeat"):
        if field in row and (not isinstance(row[field], int) or isinstance(row[field], bool)):
            refuse(f"{field}: found {kind(row[field])}, expected a whole number", file, line)
    return str(row["problem_idx"]), int(row.get("repeat", 0))


def _reward(row: Row, file: str, line: int) -> float | None:
    """The reward; None for null, NaN where the file has it, which is no score either."""
    if "reward" not in row:
        refuse("reward: missing", file, line)
    value = row["reward"]
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return value
    return score(value, "reward", file, line)


def _item(item_id: str, rows: Sequence[Row], repeats: int) -> ItemScore:
    values = [row["reward"] for row in rows]
    broken = any(one is not None and not math.isfinite(one) for one in values)
    known = [one for one in values if one is not None and math.isfinite(one)]
    why = (
        "its reward is not finite"
        if broken
        else None
        if len(known) >= repeats
        else f"{len(known)} of {repeats} repeats have a reward"
    )
    first = rows[0]
    answer = first.get("model_response") or first.get("extracted_answer")
    return ItemScore(
        item_id=item_id,
        slice=_slice(first),
        cluster=None,
        value=None if why else fmean(known),
        why_unscored=why,
        answered=shortened(answer),
        expected=shortened(first.get("expected_answer")),
        evidence=ItemEvidence(item_id=item_id, nonfinite=broken),
    )


def _slice(row: Row) -> str:
    for field in ("metadata", "scoring_details"):
        fields: Any = row.get(field)
        if isinstance(fields, dict) and (found := slice_of(fields)) != EVERYTHING:
            return found
    return EVERYTHING


def _marks(field: str, rows: dict[str, Row]) -> dict[str, str]:
    return {item_id: text_digest(row[field]) for item_id, row in rows.items() if row.get(field) is not None}


def _conditions(config: Row, repeats: int) -> dict[str, Scalar]:
    found = {field: stated(value) for field in STATED if (value := config.get(field)) is not None}
    return {**found, "repeats": repeats}
