"""Calibration texts from a dataset, read with the library ``datasets``: a column of text, or of turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from datasets import load_dataset

from quantgate.calibration import Sample
from quantgate.errors import ConfigError
from quantgate.records import Calibration

_LOCAL = {".json": "json", ".jsonl": "json", ".csv": "csv", ".parquet": "parquet", ".txt": "text"}


def of_dataset(chosen: Calibration) -> tuple[Sample, ...]:
    """Every row of the split that holds text. Raises ``ConfigError`` where it cannot be read or holds none."""
    try:
        rows = load_dataset(**_arguments(chosen), split=chosen.split)
    except ConfigError:
        raise
    except Exception as error:  # the library raises many kinds; all mean that the set is not here
        why = error.__cause__ or error  # of what it generates it tells no more than that it failed
        raise ConfigError(f"calibration dataset {chosen.dataset} cannot be read: {type(why).__name__}: {why}") from error
    if chosen.column not in rows.column_names:
        raise ConfigError(f"calibration dataset {chosen.dataset} has no column '{chosen.column}'; it has {', '.join(rows.column_names)}")
    found = tuple(made for row in rows if (made := _sample(row[chosen.column], chosen)) is not None)
    if not found:
        raise ConfigError(f"calibration dataset {chosen.dataset}, split {chosen.split}: no row of column '{chosen.column}' holds text")
    return found


def _arguments(chosen: Calibration) -> dict[str, Any]:
    path = Path(chosen.dataset or "")
    if path.is_file():
        if path.suffix not in _LOCAL:
            raise ConfigError(f"calibration dataset {path}: a file ends in {', '.join(_LOCAL)}")
        return {"path": _LOCAL[path.suffix], "data_files": {chosen.split: str(path)}}
    return {"path": chosen.dataset, "name": chosen.config, "revision": chosen.revision}


def _sample(value: Any, chosen: Calibration) -> Sample | None:
    """A row's text; None for an empty one, which datasets of documents have between them."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, str):
        return Sample(text=value)
    if isinstance(value, list) and all(_is_turn(turn) for turn in value):
        made = Sample(messages=tuple((turn["role"], turn["content"]) for turn in value))
        return made if made.plain.strip() else None
    found = f"calibration dataset {chosen.dataset}: column '{chosen.column}'"
    raise ConfigError(f"{found} holds neither text nor turns of role and content in text")


def _is_turn(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(key), str) for key in ("role", "content"))
