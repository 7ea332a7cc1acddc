"""What publishing and promoting must do on every store that MLflow may have: one file, a server over HTTP, PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from mlflow_stores import KINDS, store_of
from publishing import report, report_folder
from quantgate.errors import RegistryError
from quantgate.records import Check, Promotion, Report, Waiver
from quantgate.registries.mlflow import POINTER_EXPERIMENT, MlflowRegistry
from quantgate.registries.mlflow_claims import PREFIX, STALE_S
from quantgate.sinks.mlflow import MlflowSink
from quantgate.sinks.mlflow_marks import MlflowMarks

DAY_S = 86400.0
BEFORE_S, AFTER_S = 1_796_000_000.0, 1_796_000_000.0 + 40 * DAY_S
UNTIL = "2026-12-20"


@dataclass(frozen=True)
class Place:
    """A store, and a folder for what is published into it."""

    uri: str
    folder: Path

    def registry(self, **more: Any) -> MlflowRegistry:
        return MlflowRegistry(tracking_uri=self.uri, artifacts=str(self.folder / "artifacts"), **more)

    def publish(self, run: Report) -> str:
        sink = MlflowSink(tracking_uri=self.uri, experiment="gate", artifacts=str(self.folder / "artifacts"))
        folder = self.folder / run.run_id
        return sink.publish(run, folder if folder.exists() else report_folder(folder, scored=["int8"]))

    @property
    def client(self) -> MlflowClient:
        return MlflowClient(tracking_uri=self.uri, registry_uri=self.uri)

    def runs(self, experiment: str = "gate") -> list[Any]:
        return list(self.client.search_runs([self.client.get_experiment_by_name(experiment).experiment_id]))


@pytest.fixture(scope="module", params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp(request.param)
    with store_of(request.param, folder) as uri:
        yield Place(uri, folder)


def run_named(run_id: str, **changes: Any) -> Report:
    return replace(report(), run_id=run_id, evidence_sha256=run_id.encode().hex().ljust(64, "0")[:64], **changes)


def test_publishing_twice_leaves_one_of_everything(place: Place) -> None:
    """The run and its variants are there once, each metric with one value a step, each artifact once, in the place that was asked for."""
    run = run_named("twice")
    assert place.publish(run) == place.publish(run)
    found = {one.data.tags.get("quantgate.variant"): one for one in place.runs() if one.data.tags["quantgate.run_id"] == "twice"}
    assert set(found) == {None, "float32", "int8", "nf4"}
    assert len([one for one in place.runs() if one.data.tags["quantgate.run_id"] == "twice"]) == 4
    steps = place.client.get_metric_history(found["int8"].info.run_id, "speed/output_tokens_per_s")
    assert sorted(one.step for one in steps) == [1, 8]
    assert "report.html" in {one.path for one in place.client.list_artifacts(found[None].info.run_id)}
    if not place.uri.startswith("http"):
        assert found[None].info.artifact_uri.startswith((place.folder / "artifacts").as_uri())


def test_of_two_promotions_at_once_one_wins(place: Place) -> None:
    """Both start from the same state: one moves the alias and the other one says that it came too late; nothing stays claimed."""
    registry, run = place.registry(), run_named("race")
    versions = [registry.register("race", run, name) for name in ("int8", "nf4")]

    def moved(version: str) -> str | Exception:
        try:
            place.registry().move("race", "champion", to=version, expecting=None)
        except RegistryError as error:
            return error
        return version

    with ThreadPoolExecutor(2) as pool:
        ends = list(pool.map(moved, versions))
    won = [one for one in ends if isinstance(one, str)]
    assert won == [registry.alias("race", "champion")]
    (lost,) = [one for one in ends if isinstance(one, Exception)]
    assert "another promotion" in str(lost)
    assert not [key for key in place.client.get_registered_model("race").tags if key.startswith(PREFIX)]


def test_registering_at_once_makes_one_version(place: Place) -> None:
    """Three processes that register the same candidate get the same version, and on a server one pointer run stands behind it."""
    run = run_named("same")
    place.registry().register("same", run_named("earlier"), "int8")
    with ThreadPoolExecutor(3) as pool:
        found = set(pool.map(lambda _: place.registry().register("same", run, "int8"), range(3)))
    assert found == {"2"}
    if place.uri.startswith("http"):
        pointers = [one for one in place.runs(POINTER_EXPERIMENT) if one.data.tags["registered_model"] == "same"]
        assert len(pointers) == 2


@pytest.mark.parametrize("outcome", ["fail", "inconclusive", "not_measured"])
def test_nothing_but_a_pass_takes_an_alias(place: Place, outcome: Any) -> None:
    """The alias stays where it was, whatever a version that did not pass is called."""
    registry, name = place.registry(), f"only-{outcome}"
    good = registry.register(name, run_named(f"good-{outcome}"), "int8")
    registry.move(name, "champion", to=good, expecting=None)
    bad = registry.register(name, replace(run_named(outcome), outcome=outcome, exit_code=1), "int8")
    for alias in ("champion", "challenger"):
        with pytest.raises(RegistryError, match="only 'pass'"):
            registry.move(name, alias, to=bad, expecting=registry.alias(name, alias))
    assert (registry.alias(name, "champion"), registry.alias(name, "challenger")) == (good, None)


def waived(run: Report) -> Report:
    """The run with a check of int8 that fails and is waived until a day."""
    check = Check(name="quality/everyday", tier="required", outcome="fail", because="lost too much", waived_by=f"Ada: known, until {UNTIL}")
    verdicts = tuple(replace(one, checks=(*one.checks, check)) if one.variant == "int8" else one for one in run.verdicts)
    waiver = Waiver(variant="int8", check="quality/everyday", owner="Ada", reason="known", expires=UNTIL)
    return replace(run, verdicts=verdicts, policy=replace(run.policy, waivers=(waiver,)))


def test_a_waiver_carries_an_alias_until_its_day(place: Place) -> None:
    """A version that passed by a waiver takes the alias while the waiver holds, and not afterwards, however it once came out."""
    early, late = (place.registry(clock=lambda at=at: at) for at in (BEFORE_S, AFTER_S))
    version = early.register("waived", waived(run_named("waived")), "int8")
    with pytest.raises(RegistryError, match=f"held until {UNTIL}"):
        late.move("waived", "champion", to=version, expecting=None)
    assert late.alias("waived", "champion") is None
    early.move("waived", "champion", to=version, expecting=None)
    assert early.alias("waived", "champion") == version


def test_a_claim_of_a_dead_process_does_not_hold_for_ever(place: Place) -> None:
    """A claim that was left behind is cleared away once it is old; a fresh one of somebody else is respected and nothing is changed."""
    if place.uri.startswith("sqlite"):
        pytest.skip("an SQLite file is locked, not claimed")
    now_s = BEFORE_S
    registry = place.registry(clock=lambda: now_s)
    version = registry.register("claims", run_named("claims"), "int8")
    place.client.set_registered_model_tag("claims", f"{PREFIX}dead", str(now_s - STALE_S - 1))
    registry.move("claims", "champion", to=version, expecting=None)
    assert not [key for key in place.client.get_registered_model("claims").tags if key.startswith(PREFIX)]


def test_runs_say_what_is_out(place: Place) -> None:
    """The mark goes to the run of the version that an alias reached and leaves that of the one it left; versions lead to report and run."""
    registry = place.registry()
    first, second = run_named("first"), run_named("second")
    versions = [registry.register("out", run, "int8") for run in (first, second)]
    for run, version in zip((first, second), versions, strict=True):
        promotion = Promotion(
            promoted=True, registry="mlflow", model="out", alias="champion", variant="int8", version=version, previous=None, because=""
        )
        place.publish(replace(run, promotion=promotion))
    marks = MlflowMarks(tracking_uri=place.uri, experiment="gate", artifacts=str(place.folder / "artifacts"))

    def mark(run: Report, version: str, aliases: list[str]) -> None:
        of = {"run_id": run.run_id, "variant": "int8", "model": "out", "version": version, "registry": "mlflow"}
        assert marks.mark(of, aliases, promoted="champion" in aliases)

    mark(first, versions[0], [])
    mark(second, versions[1], ["champion", "challenger"])
    tags = {(one.data.tags["quantgate.run_id"], one.data.tags.get("quantgate.variant")): one.data.tags for one in place.runs()}
    assert (tags["first", "int8"]["promoted"], tags["second", "int8"]["promoted"]) == ("false", "true")
    assert (tags["first", None]["promoted"], tags["second", None]["promoted"]) == ("false", "true")
    assert tags["second", "int8"]["aliases"] == "champion, challenger" and "aliases" not in tags["first", "int8"]
    found = registry.tags("out", versions[1])
    assert found["report"].startswith("runs:/") and found["report"].endswith("/report.html")
    assert (found["evidence_sha256"], found["policy_sha256"]) == (second.evidence_sha256, "p" * 64)
    assert place.client.get_run(found["mlflow_run"]).data.tags["quantgate.variant"] == "int8"
    of = {"run_id": "never published", "variant": "int8", "model": "out", "version": "1", "registry": "mlflow"}
    assert not marks.mark(of, [], promoted=False)
