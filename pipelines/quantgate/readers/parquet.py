"""Tables of per-item scores in Parquet, with the same columns as ``table``. The only reader that needs a library."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow
import pyarrow.parquet

from quantgate.errors import ResultsError
from quantgate.readers.lines import Row, read_bytes
from quantgate.readers.table import results
from quantgate.records import ReadOptions, Results


class ParquetReader:
    """Reads the four columns of a Parquet file; the line of a message is the row, counted from 1."""

    name = "parquet"

    def recognises(self, path: Path) -> bool:
        return path.suffix.lower() == ".parquet"

    def read(self, path: Path, options: ReadOptions) -> Results:
        data = read_bytes(path)
        return replace(results(_rows(data, path, options), path, data, options), source="table")


def _rows(data: bytes, path: Path, options: ReadOptions) -> Iterator[tuple[int, Row]]:
    try:
        file = pyarrow.parquet.ParquetFile(io.BytesIO(data))
        there = file.schema_arrow.names
        wanted = [one for one in (options.id, options.score, options.slice, options.cluster) if one in there]
        if missing := [one for one in (options.id, options.score) if one not in there]:
            what = f"{missing[0]}: missing; the columns are {', '.join(there)}; name them with --id and --score"
            raise ResultsError(what, file=str(path))
        rows = file.read(columns=wanted).to_pylist()
    except pyarrow.ArrowException as error:
        raise ResultsError(f"not a valid Parquet file: {error}", file=str(path)) from error
    yield from enumerate(rows, start=1)
