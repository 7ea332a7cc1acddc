"""Rows of a dataset as golden items: a local file (CSV, JSON, JSON Lines, Parquet), or a pinned revision of the hub's.

The library reads the rows, always anew: its own store of prepared data goes by the files' times, so it is given an empty one. Its columns
have one type each, which would refuse or change what a hand-written file mixes; so JSON Lines are read line by line here, and every cell of
a CSV file is text. A mapping makes the items, and the golden set's own reader checks them, so that what a hand-written set may not hold a
mapped one may not either. What is written is the set: its digest is the items' and not the upstream's.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr
from decimal import Decimal
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Never

import datasets
from datasets.exceptions import DatasetNotFoundError

from quantgate import golden
from quantgate.errors import ConfigError, GoldenSetError, ResultsError
from quantgate.files import write_whole
from quantgate.readers.lines import json_lines, read_bytes
from quantgate.records import DatasetSource, GoldenSet

LINES = (".jsonl", ".ndjson")
BUILDERS = {".csv": "csv", ".tsv": "csv", ".json": "json", ".parquet": "parquet"}
LISTS = ("answers", "choices", "stop", "references")
"""Keys of an item that hold a list: a single value becomes a list of one."""
TEXTS = (*LISTS, "answer", "id", "cluster")
"""Keys where a number stands for its text, digits as written."""
_AS_WRITTEN = json.JSONDecoder(parse_float=Decimal)
IN_BRACES = re.compile(r"\{([^{}]+)\}")
Row = Mapping[str, Any]


class DatasetsSource:
    """Makes a golden set from rows that the library ``datasets`` reads."""

    name = "datasets"

    def gather(self, asked: DatasetSource, into: Path) -> GoldenSet:
        """The mapped items, written to ``into`` as JSON Lines under their digest, and read back by the golden set's own reader."""
        _refuse_unusable(asked)
        text = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in _items(asked))
        sha256 = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        file = into / f"{sha256[:16]}.jsonl"
        try:
            write_whole(file, text)
        except OSError as error:
            raise ConfigError(f"golden set {asked.name}: cannot write {file}: {error.strerror}") from error
        made = golden.load(file)
        version = asked.revision[:12] if asked.revision else "unversioned"
        return GoldenSet(name=asked.name, version=version, sha256=made.sha256, items=made.items, path=str(file))


def _refuse_unusable(asked: DatasetSource) -> None:
    """What would otherwise show only after a download, or never."""
    if (asked.path is None) == (asked.hub is None):
        _refuse(asked, "needs exactly one of path and hub")
    if asked.hub is not None and not re.fullmatch(r"[0-9a-f]{40}", asked.revision or ""):
        found = "none" if asked.revision is None else repr(asked.revision)
        _refuse(asked, f"a hub dataset needs 'revision', the 40 digits of a commit; found {found}: a branch or tag may move")
    if asked.path is not None and Path(asked.path).suffix.lower() not in (*BUILDERS, *LINES):
        _refuse(asked, f"{asked.path} is none of {', '.join((*BUILDERS, *LINES))}")
    if asked.path is not None and not Path(asked.path).is_file():
        _refuse(asked, f"there is no file {asked.path}")
    mapped = (asked.columns, asked.format or {}, asked.constants or {})
    twice = [key for key in mapped[0] if key in mapped[1]] + [key for key in mapped[2] if key in mapped[0] or key in mapped[1]]
    if twice:
        _refuse(asked, f"{twice[0]!r} is given in two of columns, format and constants; keep one of them")
    for key, pattern in (asked.extract or {}).items():
        if key not in asked.columns and key not in (asked.format or {}):
            _refuse(asked, f"extract: {key!r} is neither in columns nor in format")
        try:
            if re.compile(pattern).groups == 0:
                _refuse(asked, f"extract: {pattern!r} has no group; put parentheses around what is to be taken")
        except re.error as error:
            _refuse(asked, f"extract: {pattern!r} is no regular expression: {error}")


def _refuse(asked: DatasetSource, what: str) -> Never:
    raise ConfigError(f"golden set {asked.name}: {what}")


def _items(asked: DatasetSource) -> Iterator[dict[str, Any]]:
    count = 0
    with TemporaryDirectory() as scratch:
        for number, row in enumerate(_rows(asked, scratch)):
            count += 1
            yield {"id": str(number), **_item(asked, row, number)}
    if count == 0:
        raise GoldenSetError("has 0 rows, so nothing could be measured", file=asked.path or asked.hub or asked.name)


def _rows(asked: DatasetSource, scratch: str) -> Sequence[Row]:
    """The rows of one split, the first ``limit`` of them."""
    if asked.path is not None and Path(asked.path).suffix.lower() in LINES:
        return _lines(asked, asked.path)[: asked.limit]
    try:
        found = _loaded(asked, scratch)
    except GoldenSetError:
        raise
    except DatasetNotFoundError as error:
        _refuse(asked, f"the hub has no such dataset, or it is not open: {error}")
    except Exception as error:  # the library raises what its readers raise
        reason = error.__cause__ or error
        where = asked.path or f"{asked.hub} at {asked.revision}"
        said = str(reason).splitlines()[0] if str(reason) else "no reason given"
        _refuse(asked, f"{where} cannot be read: {type(reason).__name__}: {said}")
    rows: Sequence[Row] = found if asked.limit is None else found.select(range(min(asked.limit, len(found))))
    return rows


def _lines(asked: DatasetSource, file: str) -> list[Row]:
    if asked.split != "train":
        _refuse(asked, f"a local file has the one split 'train'; found {asked.split!r}")
    try:
        return [row for _, row in json_lines(read_bytes(Path(file)), file, decoder=_AS_WRITTEN)]
    except ResultsError as error:
        raise GoldenSetError(error.what, file=file, line=error.line) from error


def _loaded(asked: DatasetSource, scratch: str) -> Any:
    with redirect_stderr(StringIO()):  # its progress bars know no other place
        if asked.path is None:
            return datasets.load_dataset(asked.hub, asked.config, split=asked.split, revision=asked.revision)
        suffix = Path(asked.path).suffix.lower()
        more = _all_text(Path(asked.path), "\t" if suffix == ".tsv" else ",") if BUILDERS[suffix] == "csv" else {}
        return datasets.load_dataset(BUILDERS[suffix], data_files=asked.path, split=asked.split, cache_dir=scratch, **more)


def _all_text(file: Path, delimiter: str) -> dict[str, Any]:
    """Read every cell as the text it is: a guessed type makes 8.540 another number, and the answers ``NA`` and ``None`` nothing.

    Raises ``GoldenSetError`` for a line with a cell too many or too few: the library would move the cells of that line, or of all.
    """
    with file.open(encoding="utf-8-sig", newline="") as stream:
        rows = csv.reader(stream, delimiter=delimiter, strict=True)
        names = next(rows, [])
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise GoldenSetError(f"two columns are named {twice[0]!r}", file=str(file), line=1)
        for row in rows:
            if row and len(row) != len(names):
                what = f"{len(row)} cells, and there are {len(names)} columns; quote cells that hold {delimiter!r}"
                raise GoldenSetError(what, file=str(file), line=rows.line_num)
    features = datasets.Features({name: datasets.Value("string") for name in names})
    return {"delimiter": delimiter, "features": features, "keep_default_na": False, "encoding": "utf-8-sig"}


def _item(asked: DatasetSource, row: Row, number: int) -> dict[str, Any]:
    """One row as the keys of a golden item. A cell without a value leaves its key out, so that the reader names what is missing."""
    made: dict[str, Any] = {key: list(one) if isinstance(one, tuple) else one for key, one in (asked.constants or {}).items()}
    for key, column in asked.columns.items():
        cells = [_cell(asked, row, one) for one in ((column,) if isinstance(column, str) else column)]
        value = cells[0] if isinstance(column, str) else [one for one in cells if one not in (None, "")]
        if value not in (None, ""):
            made[key] = _value(key, value)
    for key, pattern in (asked.format or {}).items():
        made[key] = IN_BRACES.sub(lambda found: str(_cell(asked, row, found[1])), pattern)
    for key, pattern in (asked.extract or {}).items():
        if key in made:
            made[key] = _extracted(asked, made[key], key, pattern, number)
    if asked.labels is not None and "answer" in made:
        made["answer"] = _place(asked, row, made["answer"], number)
    elif "choices" in made and isinstance(made.get("answer"), str) and made["answer"].isascii() and made["answer"].isdigit():
        made["answer"] = int(made["answer"])  # the index of a choice, from a file in which all is text
    return {key: [one] if key in LISTS and not isinstance(one, list) else one for key, one in made.items()}


def _value(key: str, value: Any) -> Any:
    """What JSON can hold, numbers as written where they stand for a text."""
    match value:
        case list() | tuple():
            return [_value(key, one) for one in value]
        case Decimal():
            return str(value) if key in TEXTS else float(value)
        case Mapping():
            return {name: _value(key, one) for name, one in value.items()}
        case _:
            return value


def _cell(asked: DatasetSource, row: Row, column: str) -> Any:
    """The value of a column, or of a field within it."""
    value: Any = row
    for part in (column,) if column in row else column.split("."):
        if not isinstance(value, Mapping) or part not in value:
            _refuse(asked, f"there is no column {column!r}; the data have {', '.join(row)}")
        value = value[part]
    return value


def _extracted(asked: DatasetSource, value: Any, key: str, pattern: str, number: int) -> Any:
    """Of the last match the first group. In a list, of each text."""
    if isinstance(value, list):
        return [_extracted(asked, one, key, pattern, number) for one in value]
    found = list(re.finditer(pattern, str(value)))
    if not found:
        _refuse(asked, f"row {number}: extract finds nothing in {key}: {pattern!r} does not match {str(value)[-60:]!r}")
    text: str = found[-1][1]
    return text


def _place(asked: DatasetSource, row: Row, answer: Any, number: int) -> int:
    """Index of the right choice from what the data call it."""
    labels = [*asked.labels] if isinstance(asked.labels, tuple) else _cell(asked, row, asked.labels or "")
    names = [str(one) for one in labels] if isinstance(labels, list) else []
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        _refuse(asked, f"row {number}: labels has {twice[0]!r} twice; each choice needs a label of its own")
    if str(answer) not in names:
        _refuse(asked, f"row {number}: the answer {answer!r} is none of the labels {', '.join(names)}")
    return names.index(str(answer))
