"""Strict JSON, writing in one step, digests, and what a resumed run may use."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantgate import rundir
from quantgate.errors import RunFolderError
from quantgate.files import digest_folder
from quantgate.records import Artifact, KLStatistics, Report
from quantgate.rundir import Shelf

KL = KLStatistics(positions=3, mean=0.1, median=0.1, p99=0.2, maximum=0.25, top1_agreement=1.0)
KEY = "k" * 64


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """A record of every plain kind."""

    text: str = ""
    number: float | None = None
    count: int = 0
    yes: bool = False
    parts: tuple[str, ...] = ()


# ---------------------------------------------------------------------------------------------- records as JSON


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_non_finite_numbers_are_not_written(value: float) -> None:
    """NaN and infinity are no JSON, and unknown is None: refused on writing."""
    with pytest.raises(ValueError, match="JSON compliant"):
        rundir.encode(Note(number=value))
    with pytest.raises(ValueError, match="JSON compliant"):
        rundir.digest(Note(number=value))


@pytest.mark.parametrize("token", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_non_finite_numbers_are_not_read(token: str) -> None:
    """A token that is not a finite JSON number is refused on reading, overflow included."""
    with pytest.raises(RunFolderError, match="not a finite JSON number"):
        rundir.decode(Note, rundir.encode(Note(number=1.5)).replace("1.5", token))


@pytest.mark.parametrize("scalar", [np.float32(2 / 3), np.float64(2 / 3), np.bool_(True), np.int64(3), np.str_("x")])
def test_b85_numpy_scalars_are_refused(scalar: Any) -> None:
    """B85: a numpy scalar is an error where it is stored, float64 included, which passes for a float elsewhere."""
    with pytest.raises(TypeError, match=f"{type(scalar).__name__} cannot be stored"):
        rundir.plain({"acc": scalar})


@pytest.mark.parametrize("value", [{1, 2}, b"bytes", Path("x"), object(), Note, 1j])
def test_other_values_are_refused(value: Any) -> None:
    """Only records and JSON values are stored."""
    with pytest.raises(TypeError, match="cannot be stored"):
        rundir.plain([value])


def test_b85_a_number_as_text_is_not_read() -> None:
    """B85: "0.6667" in quotes is text and never taken for a number."""
    with pytest.raises(RunFolderError, match=r"not a valid Note: number"):
        rundir.decode(Note, '{"number": "0.6667"}')


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('{"count": 1.5}', "count"),
        ('{"yes": 1}', "yes"),
        ('{"text": 1}', "text"),
        ('{"parts": "ab"}', "parts"),
        ('{"count": true}', "count"),
    ],
)
def test_types_are_read_strictly(text: str, field: str) -> None:
    """Nothing is turned into the type that is wanted."""
    with pytest.raises(RunFolderError, match=f"not a valid Note: {field}"):
        rundir.decode(Note, text)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"text": "a"} x', "[" * 100_000])
def test_what_is_no_such_record_is_refused(text: str) -> None:
    """Cut, foreign or absurdly nested text is one kind of error."""
    with pytest.raises(RunFolderError, match="not a valid Note"):
        rundir.decode(Note, text)


@pytest.mark.parametrize(
    "note",
    [
        Note(text='ünï "q" \u2028\n\x1b', number=0.1, count=-3, yes=True, parts=("a", "")),
        Note(),
        Note(number=1e-300),
        Note(number=-0.0),
    ],
)
def test_a_record_comes_back_equal(note: Note) -> None:
    """Writing and reading gives the same record, and the same digest."""
    back = rundir.decode(Note, rundir.encode(note))
    assert back == note
    assert rundir.digest(back) == rundir.digest(note)


@dataclass(frozen=True, kw_only=True, slots=True)
class Nested:
    """Records in a record."""

    notes: tuple[Note, ...]
    figures: dict[str, float | int | None]


def test_the_last_digits_of_one_processor_are_left_out() -> None:
    """Two processors give the same figure: twelve digits are kept, at any depth, and nothing but floats is touched."""
    made = [
        Nested(notes=(Note(text="0.1", number=number, count=10**15 + 1),), figures={"a": number, "b": 7, "c": None})
        for number in (0.05927151644120162, 0.05927151644120161)
    ]
    assert made[0] != made[1]
    assert rundir.rounded(made[0]) == rundir.rounded(made[1])
    expected = Note(text="0.1", number=0.0592715164412, count=10**15 + 1)
    assert rundir.rounded(made[0]) == Nested(notes=(expected,), figures={"a": 0.0592715164412, "b": 7, "c": None})
    assert rundir.rounded(1e-300) == 1e-300


def test_a_lone_surrogate_can_be_stored(tmp_path: Path) -> None:
    """Half a character, which a model may write and no UTF-8 file holds, becomes a question mark and stops nothing."""
    rundir.put(tmp_path / "x.json", kind="note", key=KEY, record=Note(text="a\ud800b"))
    assert rundir.get(tmp_path / "x.json", kind="note", key=KEY, record=Note) == Note(text="a?b")


def test_the_digest_does_not_depend_on_order_of_keys() -> None:
    """The same content has the same digest; other content has another."""
    assert rundir.digest({"a": 1, "b": 2}) == rundir.digest({"b": 2, "a": 1})
    assert len({rundir.digest(one) for one in ({"a": 1}, {"a": 1.0}, {"a": "1"}, {"a": True}, {"a": None}, {})}) == 6


def test_the_schema_of_a_report_allows_nothing_else() -> None:
    """Every object of a report has its fields listed and no others."""
    schema = rundir.json_schema(Report)
    assert schema["title"] == "Report"
    for one in (schema, *schema["$defs"].values()):
        assert one["additionalProperties"] is False
        assert one["required"] == list(one["properties"])


# ---------------------------------------------------------------------------------------------- files


def full(*_: Any, **__: Any) -> Any:
    """What the system says when the disk is full."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("broken", ["os.fsync", "pathlib.Path.replace", "tempfile.mkstemp"])
@pytest.mark.parametrize("before", [None, "old"])
def test_a_full_disk_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str, before: str | None
) -> None:
    """A write that fails leaves the old state, whole, and no temporary file; the error says what to do."""
    path = tmp_path / "a" / "x.json"
    if before is not None:
        rundir.write_text(path, before)
    with monkeypatch.context() as patch:
        patch.setattr(broken, full)
        with pytest.raises(
            RunFolderError, match=r"cannot write .*x\.json: No space left on device; free some space"
        ) as caught:
            rundir.write_text(path, "new")
    assert caught.value.exit_code == 4
    assert [(one.name, one.read_text()) for one in path.parent.iterdir()] == (
        [] if before is None else [("x.json", "old")]
    )


def test_a_write_that_is_interrupted_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C between writing and renaming leaves no temporary file."""

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        rundir.write_text(tmp_path / "x.json", "new")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_below_a_file_cannot_be_written(tmp_path: Path) -> None:
    """A path that leads through a regular file is an error that names it."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(RunFolderError, match=r"cannot write .*file/x\.json: .*/file is a file and no folder"):
        rundir.write_text(tmp_path / "file" / "x.json", "")


def test_line_ends_and_encoding_stay(tmp_path: Path) -> None:
    """Text is written as it is, in UTF-8, readable for others."""
    rundir.write_text(tmp_path / "x", "a\r\nü\u2028")
    assert (tmp_path / "x").read_bytes() == "a\r\nü\u2028".encode()
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o644
    with pytest.raises(RunFolderError, match="cannot read"):
        rundir.read_text(tmp_path / "nothing")


# ---------------------------------------------------------------------------------------------- stored results


def get(path: Path, *, kind: str = "kl", key: str | None = KEY) -> KLStatistics | None:
    return rundir.get(path, kind=kind, key=key, record=KLStatistics)


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A stored result."""
    rundir.put(tmp_path / "kl.json", kind="kl", key=KEY, record=KL)
    return tmp_path / "kl.json"


def test_a_stored_result_is_found_under_its_key(stored: Path) -> None:
    """The same kind and key give the record back; key None asks for the file whatever its key."""
    assert get(stored) == get(stored, key=None) == KL


def test_another_key_or_kind_is_not_used(stored: Path) -> None:
    """A result that depends on something else does not count."""
    assert get(stored, key="j" * 64) is None
    assert get(stored, kind="load") is None


def change(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda envelope: envelope.update(values)


ALTERATIONS = {
    "a figure": lambda envelope: envelope["body"].update(mean=0.05),
    "a field less": lambda envelope: envelope["body"].pop("p99"),
    "a field more": lambda envelope: envelope["body"].update(extra=1),
    "a number as text": lambda envelope: envelope["body"].update(mean="0.1"),
    "the digest": change(sha256="0" * 64),
    "the schema version": change(schema_version=2),
    "the body": change(body=None),
}


@pytest.mark.parametrize("what", ALTERATIONS)
def test_an_altered_result_is_found(stored: Path, what: str) -> None:
    """A file that was changed is measured again where a key is asked for, and an error where this very file is."""
    envelope = json.loads(stored.read_text(encoding="utf-8"))
    ALTERATIONS[what](envelope)
    stored.write_text(json.dumps(envelope), encoding="utf-8")
    assert get(stored) is None
    with pytest.raises(RunFolderError):
        get(stored, key=None)


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"[]"])
def test_a_damaged_result_is_found(stored: Path, data: bytes) -> None:
    """Half a file is no result."""
    stored.write_bytes(data)
    assert get(stored) is None
    with pytest.raises(RunFolderError):
        get(stored, key=None)


def test_a_missing_result_is_none(tmp_path: Path) -> None:
    """What is not there was not measured yet."""
    assert get(tmp_path / "nothing.json") is None
    assert get(tmp_path / "nothing.json", key=None) is None


def test_shelf_finds_in_the_run_then_in_the_cache(tmp_path: Path) -> None:
    """A result is found in its own run, by a later run through the cache, which keeps its own copy; a fresh run reads neither."""
    first = Shelf(run=tmp_path / "run1", cache=tmp_path / "cache")
    assert first.find("v/kl", kind="kl", key=KEY, record=KLStatistics) is None
    first.keep("v/kl", kind="kl", key=KEY, record=KL)
    second = Shelf(run=tmp_path / "run2", cache=tmp_path / "cache")
    assert second.find("v/kl", kind="kl", key=KEY, record=KLStatistics) == KL
    assert get(tmp_path / "run2" / "v" / "kl.json") == KL
    fresh = Shelf(run=tmp_path / "run1", cache=tmp_path / "cache", fresh=True)
    assert fresh.find("v/kl", kind="kl", key=KEY, record=KLStatistics) is None


def test_shelf_does_not_share_what_is_only_for_its_run(tmp_path: Path) -> None:
    """With share off a later run does not find it."""
    Shelf(run=tmp_path / "run1", cache=tmp_path / "cache").keep("v/kl", kind="kl", key=KEY, record=KL, share=False)
    assert (
        Shelf(run=tmp_path / "run2", cache=tmp_path / "cache").find("v/kl", kind="kl", key=KEY, record=KLStatistics)
        is None
    )


def test_shelf_falls_back_to_the_cache_where_the_run_was_altered(tmp_path: Path) -> None:
    """An altered file of the run is replaced by the unaltered one of the cache; with both altered it is measured again."""
    shelf = Shelf(run=tmp_path / "run", cache=tmp_path / "cache")
    shelf.keep("v/kl", kind="kl", key=KEY, record=KL)
    mine, shared = tmp_path / "run" / "v" / "kl.json", tmp_path / "cache" / "results" / "kl" / f"{KEY}.json"
    mine.write_text(mine.read_text(encoding="utf-8").replace("0.1", "0.2"), encoding="utf-8")
    assert shelf.find("v/kl", kind="kl", key=KEY, record=KLStatistics) == KL
    for path in (mine, shared):
        path.write_text(path.read_text(encoding="utf-8").replace("0.1", "0.2"), encoding="utf-8")
    assert shelf.find("v/kl", kind="kl", key=KEY, record=KLStatistics) is None


# ---------------------------------------------------------------------------------------------- artifacts


def artifact(path: Path) -> Artifact:
    return Artifact(variant="int8", path=str(path), format="fake", stored_bytes=0, sha256="")


def build(cache: Path, *, content: str = "weights", pause_s: float = 0.0) -> tuple[Artifact, bool]:
    """Build an artifact, or find it; the second value says whether it was built now."""
    with rundir.artifact_slot(cache, KEY) as slot:
        if (found := rundir.stored_artifact(slot)) is not None:
            return found, False
        into = rundir.working_folder(slot)
        time.sleep(pause_s)
        (into / "model.bin").write_text(content, encoding="utf-8")
        return rundir.settle(slot, into, artifact(into)), True


def test_an_artifact_is_built_once(tmp_path: Path) -> None:
    """The second who asks finds the first's, with digest and size filled in, and nothing else is left."""
    first, built = build(tmp_path)
    assert built
    assert (first.stored_bytes, len(first.sha256)) == (7, 64)
    assert build(tmp_path) == (first, False)
    assert sorted(one.name for one in (tmp_path / "artifacts").iterdir()) == [f".{KEY}.lock", KEY, f"{KEY}.json"]


def test_a_corrupted_byte_is_found(tmp_path: Path) -> None:
    """An artifact with one byte changed is built again."""
    first, _ = build(tmp_path)
    (Path(first.path) / "model.bin").write_text("weightz", encoding="utf-8")
    assert build(tmp_path) == (first, True)


@pytest.mark.parametrize("how", ["more", "less", "renamed"])
def test_other_files_are_found(tmp_path: Path, how: str) -> None:
    """A file more, less or under another name is another artifact."""
    first, _ = build(tmp_path)
    model = Path(first.path) / "model.bin"
    match how:
        case "more":
            model.with_name("more.bin").write_text("", encoding="utf-8")
        case "less":
            model.unlink()
        case "renamed":
            model.rename(model.with_name("model2.bin"))
    with rundir.artifact_slot(tmp_path, KEY) as slot:
        assert rundir.stored_artifact(slot) is None


def test_a_half_built_artifact_is_not_accepted(tmp_path: Path) -> None:
    """A build that ended in the middle leaves no artifact, and its leavings are cleared away by the next."""
    with pytest.raises(RuntimeError), rundir.artifact_slot(tmp_path, KEY) as slot:
        (rundir.working_folder(slot) / "model.bin").write_text("wei", encoding="utf-8")
        raise RuntimeError
    assert len(list((tmp_path / "artifacts").glob("*.tmp"))) == 1
    assert build(tmp_path)[1]
    assert list((tmp_path / "artifacts").glob("*.tmp")) == []


def test_a_folder_without_its_record_is_not_accepted(tmp_path: Path) -> None:
    """A crash between moving the folder and storing its record leaves nothing that counts."""
    first, _ = build(tmp_path)
    (tmp_path / "artifacts" / f"{KEY}.json").unlink()
    assert build(tmp_path) == (first, True)


def test_an_artifact_that_lies_elsewhere_stays_there(tmp_path: Path) -> None:
    """An unquantized folder is used in place; when it changes it is no longer the artifact."""
    model = tmp_path / "model"
    model.mkdir()
    (model / "weights").write_text("w", encoding="utf-8")
    with rundir.artifact_slot(tmp_path, KEY) as slot:
        found = rundir.settle(slot, rundir.working_folder(slot), artifact(model))
        assert (found.path, found.stored_bytes) == (str(model), 1)
        assert rundir.stored_artifact(slot) == found
        (model / "weights").write_text("v", encoding="utf-8")
        assert rundir.stored_artifact(slot) is None


def test_an_artifact_of_a_moved_cache_lies_beside_its_record(tmp_path: Path) -> None:
    """What is verified is the folder in the slot, and that is where the artifact points; the place it was built at says nothing."""
    first, _ = build(tmp_path / "built")
    shutil.copytree(tmp_path / "built", tmp_path / "moved")
    slot = tmp_path / "moved" / "artifacts" / KEY
    assert rundir.stored_artifact(slot) == replace(first, path=str(slot))
    (slot / "model.bin").write_text("weightz", encoding="utf-8")
    assert rundir.stored_artifact(slot) is None
    (slot / "model.bin").write_text("weights", encoding="utf-8")
    (Path(first.path) / "model.bin").write_text("weightz", encoding="utf-8")
    assert rundir.stored_artifact(slot) is not None


def test_hidden_files_are_no_part_of_a_model(tmp_path: Path) -> None:
    """Bookkeeping of a download beside the model, with its dates, does not change the digest; other files do."""
    (tmp_path / "weights").write_text("w", encoding="utf-8")
    before = digest_folder(tmp_path)
    (tmp_path / ".cache" / "huggingface").mkdir(parents=True)
    (tmp_path / ".cache" / "huggingface" / "weights.metadata").write_text("today", encoding="utf-8")
    assert digest_folder(tmp_path) == before
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    assert digest_folder(tmp_path)[0] != before[0]


def test_links_are_followed(tmp_path: Path) -> None:
    """A hub snapshot is a folder of links; its digest is that of the contents."""
    for name in ("real", "linked"):
        (tmp_path / name).mkdir()
    (tmp_path / "real" / "weights").write_text("w", encoding="utf-8")
    (tmp_path / "linked" / "weights").symlink_to(tmp_path / "real" / "weights")
    assert digest_folder(tmp_path / "real") == digest_folder(tmp_path / "linked")


def _build_in_process(cache: Path, results: Any) -> None:
    results.put(build(cache, pause_s=0.3)[1])


def test_two_processes_build_one_artifact(tmp_path: Path) -> None:
    """Of two that want the same artifact at once, one builds and the other waits and finds it."""
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    processes = [context.Process(target=_build_in_process, args=(tmp_path, results)) for _ in range(2)]
    for one in processes:
        one.start()
    assert sorted(results.get(timeout=30) for _ in processes) == [False, True]
    for one in processes:
        one.join()


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """A cache below a regular file is an error with exit code 4, not a crash."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    with (
        pytest.raises(RunFolderError, match=r"cannot write .*file/artifacts"),
        rundir.artifact_slot(tmp_path / "file", KEY),
    ):
        pass


def test_a_run_folder_is_held_alone(tmp_path: Path) -> None:
    """A second run in the same folder is refused while the first works in it, and not after."""
    with (
        rundir.held(tmp_path / "run"),
        pytest.raises(RunFolderError, match="in use by another run or command; wait until that has ended"),
        rundir.held(tmp_path / "run"),
    ):
        pass
    with rundir.held(tmp_path / "run"):
        pass


def test_settling_takes_the_place_of_an_older_artifact(tmp_path: Path) -> None:
    """A fresh build of the same key replaces the old folder and record together."""
    build(tmp_path)
    with rundir.artifact_slot(tmp_path, KEY) as slot:
        into = rundir.working_folder(slot)
        (into / "model.bin").write_text("other", encoding="utf-8")
        found = rundir.settle(slot, into, replace(artifact(into), note="fresh"))
        assert rundir.stored_artifact(slot) == found
    assert (found.stored_bytes, found.note) == (5, "fresh")


def test_settling_the_same_bytes_leaves_the_folder(tmp_path: Path) -> None:
    """A fresh build that came out equal takes nothing away from a run that is reading the old one."""
    first, _ = build(tmp_path)
    inode = Path(first.path).stat().st_ino
    with rundir.artifact_slot(tmp_path, KEY) as slot:
        into = rundir.working_folder(slot)
        (into / "model.bin").write_text("weights", encoding="utf-8")
        assert rundir.settle(slot, into, artifact(into)) == first
    assert Path(first.path).stat().st_ino == inode
    assert not into.exists()
