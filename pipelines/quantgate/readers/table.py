"""Tables of per-item scores that anybody can write: JSON Lines or CSV with the columns ``id`` and ``score``.

``slice`` and ``cluster`` are read where they are there; other columns are left alone. A score is 0 or 1, true or false, anything
between for graded scores, or any finite number where the policy says that scores have no bounds. CSV has only text, so a number is read
from it; in JSON a number that stands as text is refused. An item whose score is empty or null was not scored.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from quantgate.errors import ResultsError
from quantgate.readers.lines import (
    BOM,
    Row,
    digest,
    first_object,
    item,
    json_lines,
    name,
    one_slice,
    read_bytes,
    refuse,
    score,
    twice,
)
from quantgate.records import ItemScore, ReadOptions, Results, TaskResults

TEXT_SUFFIXES = (".csv", ".tsv")
NO_SCORE = "its score is empty"
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_WORDS = {"true": 1.0, "false": 0.0}


class TableReader:
    """Reads CSV, TSV and JSON Lines."""

    name = "table"

    def recognises(self, path: Path) -> bool:
        return path.is_file() and (path.suffix.lower() in TEXT_SUFFIXES or bool(first_object(path)))

    def read(self, path: Path, options: ReadOptions) -> Results:
        data = read_bytes(path)
        text = path.suffix.lower() in TEXT_SUFFIXES
        rows = _text_rows(data, path, options.score) if text else json_lines(data, str(path))
        return results(rows, path, data, options)


def results(rows: Iterator[tuple[int, Row]], path: Path, data: bytes, options: ReadOptions) -> Results:
    """Numbered rows as results. Raises ``ResultsError`` for a missing column or a score that is none."""
    items: list[ItemScore] = []
    lines: dict[str, list[int]] = {}
    for line, row in rows:
        made = _item(row, options, str(path), line)
        lines.setdefault(made.item_id, []).append(line)
        items.append(made)
    if not items:
        raise ResultsError("has 0 items, so nothing could be judged", file=str(path))
    sliced, unsliced = one_slice(items)
    task = TaskResults(name="", metric=options.score, items=sliced, conditions={}, marks={}, prompts={})
    notes = tuple(f"{path}: {one}" for one in (twice(lines), unsliced) if one is not None)
    return Results(source="table", path=str(path), sha256=digest([data]), tasks=(task,), notes=notes)


def _item(row: Row, options: ReadOptions, file: str, line: int) -> ItemScore:
    for column in (options.id, options.score):
        if column not in row:
            option = "--id" if column == options.id else "--score"
            refuse(
                f"{column}: missing; the row has {', '.join(map(str, row)) or 'nothing'}; name the column with {option}",
                file,
                line,
            )
    for column, option in ((options.slice, "slice"), (options.cluster, "cluster")):
        if column != option and column not in row:
            refuse(f"{column}: missing; the row has {', '.join(map(str, row))}, and --{option} asks for it", file, line)
    value = row[options.score]
    slice_name, cluster = row.get(options.slice), row.get(options.cluster)
    empty = value is None or value == ""
    return item(
        name(row[options.id], options.id, file, line),
        None if empty else score(value, options.score, file, line),
        why=NO_SCORE if empty else None,
        slice_name="all" if slice_name in (None, "") else name(slice_name, options.slice, file, line),
        cluster=None if cluster in (None, "") else name(cluster, options.cluster, file, line),
    )


# ---------------------------------------------------------------------------------------------- rows of CSV


def _text_rows(data: bytes, path: Path, column: str) -> Iterator[tuple[int, Row]]:
    """Rows of a CSV file under its header, the score as a number; the line is the one a row ends on."""
    file = str(path)
    try:
        text = data.removeprefix(BOM).decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ResultsError(
            f"not UTF-8 at byte {error.start + 1}; save the file as UTF-8", file=file, line=line
        ) from error
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        header = next(reader)
        _check_header(header, file)
        for cells in reader:
            if cells:
                yield reader.line_num, _row(header, cells, column, (file, reader.line_num))
    except csv.Error as error:
        raise ResultsError(f"not valid CSV: {error}", file=file, line=reader.line_num) from error


def _check_header(header: Sequence[str], file: str) -> None:
    repeated = [column for column, times in Counter(header).items() if times > 1]
    if repeated:
        refuse(f"{repeated[0]}: the column stands twice", file, 1)
    if len(header) == 1 and ";" in header[0]:
        refuse("one column only, with semicolons in it; separate the columns with commas", file, 1)


def _row(header: Sequence[str], cells: Sequence[str], column: str, place: tuple[str, int]) -> Row:
    if len(cells) != len(header):
        refuse(f"{len(cells)} cell{'' if len(cells) == 1 else 's'}, and the header has {len(header)}", *place)
    row: Row = dict(zip(header, cells, strict=True))
    if column in row:
        row[column] = _meant(cells[header.index(column)])
    return row


def _meant(cell: str) -> float | str:
    """The number or truth value that a cell means; its text where it means none."""
    text = cell.strip()
    return float(text) if _NUMBER.fullmatch(text) else _WORDS.get(text.lower(), text)
