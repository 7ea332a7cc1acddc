"""What pydantic finds is said in our own words, wherever a record or a config is read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from quantgate import config, rundir
from quantgate.errors import ConfigError, RunFolderError
from quantgate.refusals import allowed


@dataclass(frozen=True, kw_only=True, slots=True)
class Inner:
    count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """A record with a field of each kind."""

    name: str
    share: float
    inner: tuple[Inner, ...]
    how: Literal["fast", "slow"]
    maybe: int | None = None


GOOD = '{"name": "a", "share": 0.5, "inner": [{"count": 1}], "how": "fast"}'


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ('"a"', "3", "name: expected text"),
        ("0.5", '"x"', "share: expected a number"),
        ('{"count": 1}', "7", "inner.0: expected a section of keys"),
        ("1}", "1.5}", "inner.0.count: expected a whole number"),
        ('"fast"', '"fst"', "how: did you mean 'fast'? must be 'fast' or 'slow'"),
        (', "how": "fast"', "", "how: is missing"),
        (GOOD, "[]", "expected a section of keys"),
    ],
)
def test_a_stored_record(old: str, new: str, what: str) -> None:
    """The field and what belongs there, and no word of the library's."""
    with pytest.raises(RunFolderError) as found:
        rundir.decode(Stored, GOOD.replace(old, new, 1))
    assert what in str(found.value)
    assert "Input should" not in str(found.value)


@pytest.mark.parametrize(
    ("variant", "what"),
    [
        ("name: v, granularity: rows", "must be tensor, channel, or group:<size>, for example group:64; found 'rows'"),
        ("name: a b", "a name is letters, digits"),
        ("name: v, bits: 1", "must be greater than or equal to 2; found 1"),
        ("name: v, options: 3", "expected a section of keys; found 3"),
    ],
)
def test_a_config(tmp_path: Path, variant: str, what: str) -> None:
    """A pattern is told as what it means."""
    path = tmp_path / "run.yaml"
    head = "schema_version: 1\nmodel: {name: m, path: .}\ngolden_sets: [x]\npolicy: p.yaml\n"
    path.write_text(f"{head}variants:\n  - {{quantizer: fake, {variant}}}\n", encoding="utf-8")
    with pytest.raises(ConfigError) as found:
        config.load_run(path)
    assert what in str(found.value)


def test_what_nobody_foresaw_is_still_said() -> None:
    """A kind of error without words of ours is told in the library's."""
    assert allowed({"type": "new_kind", "msg": "odd", "input": 1}, {}) == "odd"
