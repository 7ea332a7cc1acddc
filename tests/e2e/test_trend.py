"""Thirty nights on disk, made from one real run: what changed is told with its night and its suspects; clean nights are silent."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from chain import Chain, Done
from quantgate import rundir, runs
from quantgate.records import Evidence, ScoreSheet, VariantEvidence

NIGHTS, ONSET = 30, 17
Lost = Callable[[int], int]


def nights(chain: Chain, into: Path, *, lost: Lost, flaky: int = 3, slower: float = 1.0, count: int = NIGHTS) -> Path:
    """A folder of runs: each night ``flaky`` items of int8 come out by chance, ``lost(night)`` more are wrong, speed falls."""
    rng = random.Random(5)
    info, evidence = runs.load_info(chain.last), runs.load_evidence(chain.last)
    for night in range(count):
        at = (datetime(2026, 11, 1, 2, tzinfo=UTC) + timedelta(days=night)).isoformat()
        name = f"night-{night + 1:02}"
        variants = tuple(_night(one, rng, lost(night), flaky, slower if night >= ONSET else 1.0) for one in evidence.variants)
        libraries = {**evidence.fingerprint.libraries, "torch": "2.14" if night >= ONSET else "2.13"}
        found = replace(evidence, variants=variants, fingerprint=replace(evidence.fingerprint, libraries=libraries))
        runs.store_info(into / name, replace(info, run_id=name, created_at=at))
        rundir.put(into / name / "evidence.json", kind="evidence", key=name, record=found)
    return into


def _night(one: VariantEvidence, rng: random.Random, lost: int, flaky: int, slower: float) -> VariantEvidence:
    if one.variant.name != "int8":
        return one
    assert one.speed is not None
    timed = tuple(replace(each, step_s=tuple(step / slower for step in each.step_s)) for each in one.speed.generations)
    return replace(one, sheets=tuple(_sheet(each, rng, lost, flaky) for each in one.sheets), speed=replace(one.speed, generations=timed))


def _sheet(sheet: ScoreSheet, rng: random.Random, lost: int, flaky: int) -> ScoreSheet:
    """The first items by chance, the next ones lost; all others as the run had them."""
    right = [index for index, item in enumerate(sheet.items) if item.value == 1.0][: flaky + lost]
    values = {index: float(rng.random() < 0.5) if place < flaky else 0.0 for place, index in enumerate(right)}
    return replace(sheet, items=tuple(replace(item, value=values.get(index, item.value)) for index, item in enumerate(sheet.items)))


def trend(chain: Chain, reports: Path, *words: str) -> Done:
    return chain.cli("trend", "--reports", reports, *words)


def series(chain: Chain, reports: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Every series of the printed JSON by variant and figure."""
    read = json.loads(trend(chain, reports, "--json").out)
    return {(one["variant"], one["what"]): one for one in read["series"]}


@pytest.mark.slow
def test_clean_nights_are_silent(passed: Chain, tmp_path: Path) -> None:
    """Items that come out by chance and constant figures: exit 0, no change is told, and every figure has its row."""
    done = trend(passed, nights(passed, tmp_path / "reports", lost=lambda night: 0))
    assert (done.code, "No change is told" in done.out) == (0, True), done.out
    for row in ("reference wrong", "loss, points", "KL mean", "weights freed", "batch fits", "tokens/s there"):
        if row != "KL mean" or "KL" in done.out:
            assert row in done.out
    assert "int2" not in done.out


def test_a_step_is_told_with_its_night_and_its_suspect(passed: Chain, tmp_path: Path) -> None:
    """4 of 240 items from night 18 on: worse since then, told within five nights, the library that changed named; a figure that parses."""
    reports = nights(passed, tmp_path / "reports", lost=lambda night: 4 if night >= ONSET else 0)
    done = trend(passed, reports)
    assert done.code == 1, done.out
    assert "WORSE int8, loss, points on sums" in done.out
    assert "torch 2.13 -> 2.14" in done.out
    (change,) = series(passed, reports)["int8", "loss"]["changes"]
    assert change["since"] in {"night-17", "night-18", "night-19"}
    assert "night-18" <= change["told"] <= "night-22"
    assert 0.01 < change["after"] - change["before"] < 0.025
    figure = ElementTree.parse(reports / "trend.svg").getroot()
    said = "".join(figure.itertext())
    assert "stand worse than before" in said and "worse since night" in said


@pytest.mark.slow
def test_a_slow_decline_is_told(passed: Chain, tmp_path: Path) -> None:
    """One item more every second night, which no night shows alone: told before it has cost two points."""
    reports = nights(passed, tmp_path / "reports", lost=lambda night: max(0, (night - 9) // 2), flaky=1)
    changes = series(passed, reports)["int8", "loss"]["changes"]
    assert changes and changes[0]["worse"]
    assert changes[0]["told"] <= "night-20"


@pytest.mark.slow
def test_a_fall_of_speed_is_told(passed: Chain, tmp_path: Path) -> None:
    """A tenth fewer tokens a second is worse; the loss beside it is not touched."""
    found = series(passed, nights(passed, tmp_path / "reports", lost=lambda night: 0, slower=0.9))
    assert [one["since"] for one in found["int8", "tokens_per_s"]["changes"]] == ["night-18"]
    assert found["int8", "tokens_per_s"]["changes"][0]["worse"]
    assert found["int8", "loss"]["changes"] == []


def test_intervals_are_those_of_the_night(passed: Chain, tmp_path: Path) -> None:
    """A loss has exact bounds around it, a speed the range of its blocks."""
    found = series(passed, nights(passed, tmp_path / "reports", lost=lambda night: 2, count=3))
    for what in ("loss", "tokens_per_s"):
        for point in found["int8", what]["points"]:
            assert point["lower"] <= point["value"] <= point["upper"]


def test_what_is_left_out_is_said(passed: Chain, tmp_path: Path) -> None:
    """An altered night, one that did not end and another golden set's scores are left out with a word, never read as they are."""
    reports = nights(passed, tmp_path / "reports", lost=lambda night: 0, count=9)
    text = (reports / "night-03" / "evidence.json").read_text(encoding="utf-8")
    (reports / "night-03" / "evidence.json").write_text(text.replace("130000000", "130000001"), encoding="utf-8")
    runs.store_info(reports / "night-04", replace(runs.load_info(reports / "night-04"), state="interrupted"))
    other = runs.load_evidence(reports / "night-05")
    sheets = [tuple(replace(sheet, golden_sha256="0" * 64) for sheet in one.sheets) for one in other.variants]
    moved = tuple(replace(one, sheets=each) for one, each in zip(other.variants, sheets, strict=True))
    rundir.put(reports / "night-05" / "evidence.json", kind="evidence", key="night-05", record=replace(other, variants=moved))
    done = trend(passed, reports)
    assert "7 nights" in done.out
    assert "left out: " in done.out and "night-03" in done.out
    assert "1 runs that are undated or did not come to their end" in done.out
    assert "int8 on sums v1: 6 of 7 nights hold scores of these very items" in done.out


def test_another_variant_of_the_same_name_is_no_drift(passed: Chain, tmp_path: Path) -> None:
    """Three nights on which int8 was quantized otherwise are out of its series, and two with another budget out of ceiling and speed."""
    reports = nights(passed, tmp_path / "reports", lost=lambda night: 0, count=9)
    for number in range(1, 6):
        name, otherwise = f"night-0{number}", number <= 3
        found = runs.load_evidence(reports / name)
        other = next(one for one in found.variants if one.variant.name == "int8")
        assert other.capacity is not None
        filled = other.capacity if otherwise else replace(other.capacity, budget_bytes=1)
        options = {**(other.variant.options or {}), **({"threshold": 0} if otherwise else {})}
        now = replace(other, variant=replace(other.variant, options=options), capacity=filled)
        kept = tuple(now if one is other else one for one in found.variants)
        rundir.put(reports / name / "evidence.json", kind="evidence", key=name, record=replace(found, variants=kept))
    done = trend(passed, reports)
    assert "int8: 3 of 9 nights are of another variant of that name; not comparable: threshold is 0" in " ".join(done.out.split())
    points = {what: len(one["points"]) for (name, what), one in series(passed, reports).items() if name == "int8"}
    assert (points["loss"], points["freed"], points["ceiling"], points["tokens_per_s"]) == (6, 6, 4, 4)
    assert {len(one["points"]) for (name, _), one in series(passed, reports).items() if name == "float32"} == {9}


@pytest.mark.parametrize(
    ("words", "code", "named"),
    [
        (("--model", "other"), 2, "no run in"),
        (("--last", "1"), 2, "--last must be 2 or more"),
    ],
)
def test_bad_input(passed: Chain, tmp_path: Path, words: tuple[str, ...], code: int, named: str) -> None:
    """A model that is not there, a row of one, no folder."""
    done = trend(passed, nights(passed, tmp_path / "reports", lost=lambda night: 0, count=2), *words)
    assert (done.code, named in done.err) == (code, True), done.err
    nowhere = trend(passed, Path("nowhere"))
    assert (nowhere.code, "there is no run in nowhere" in nowhere.err) == (2, True)


def test_one_night_is_no_trend(passed: Chain, tmp_path: Path) -> None:
    """A single night is not measured: exit 4."""
    done = trend(passed, nights(passed, tmp_path / "reports", lost=lambda night: 0, count=1))
    assert (done.code, "needs two nights" in done.err) == (4, True), done.err


def test_several_models_are_not_mixed(passed: Chain, tmp_path: Path) -> None:
    """Runs of two models: refused until one is named."""
    reports = nights(passed, tmp_path / "reports", lost=lambda night: 0, count=3)
    info = runs.load_info(reports / "night-03")
    runs.store_info(reports / "night-03", replace(info, model=replace(info.model, name="other")))
    done = trend(passed, reports)
    assert (done.code, "of 2 models: fake-model, other" in done.err) == (2, True), done.err
    assert "2 nights" in trend(passed, reports, "--model", "fake-model").out


def test_evidence_is_that_of_the_nights(passed: Chain, tmp_path: Path) -> None:
    """What the nights of this file are made of is evidence that reads back."""
    reports = nights(passed, tmp_path / "reports", lost=lambda night: 0, count=2)
    assert isinstance(runs.load_evidence(reports / "night-01"), Evidence)
