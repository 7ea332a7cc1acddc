from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

import samples
from quantgate.errors import RegistryError
from quantgate.records import Outcome, Report
from quantgate.stages.promote import Target, promote, rehearsed

TARGET = Target(registry="local", model="m", alias="champion")


@dataclass
class FakeRegistry:
    """Versions by variant; records what was asked of it."""

    points_at: str | None = None
    fails: bool = False
    lost_race: bool = False
    registered: list[str] = field(default_factory=list)
    moved: list[tuple[str, str | None]] = field(default_factory=list)

    def alias(self, model: str, alias: str) -> str | None:
        if self.fails:
            raise RegistryError("it is away.")
        return self.points_at

    def register(self, model: str, report: Report, variant: str) -> str:
        self.registered.append(variant)
        return f"v-{variant}"

    def move(self, model: str, alias: str, *, to: str, expecting: str | None) -> None:
        if self.lost_race:
            raise RegistryError("another promotion came first")
        self.moved.append((to, expecting))


def _report(**fields: Any) -> Report:
    report = samples.sample_report()
    rows = tuple(replace(one, artifact_path=f"/models/{one.variant}") for one in report.measurements)
    return replace(report, measurements=rows, **fields)


def test_a_pass_moves_the_alias_to_the_chosen_variant() -> None:
    """Every judged candidate gets a version, the chosen one the alias, expecting what the alias pointed at."""
    registry = FakeRegistry(points_at="2")
    done = promote(registry, TARGET, _report(), warn=print)
    assert (done.promoted, done.variant, done.version, done.previous) == (True, "int8", "v-int8", "2")
    assert registry.moved == [("v-int8", "2")]
    assert sorted(registry.registered) == ["int8", "nf4"]
    assert done.because.startswith("It frees 59 % of the weight memory")


def test_a_rehearsal_knows_the_version_that_is_out() -> None:
    """The same checkpoint on the same evidence moves nothing, and the rehearsal says so; other bytes or evidence move the alias."""
    report = _report()
    sha256 = next(one.artifact_sha256 for one in report.measurements if one.variant == "int8")
    out = {"artifact_sha256": str(sha256), "evidence_sha256": report.evidence_sha256}
    assert rehearsed(TARGET, report, "2", out) == "int8 is out already: champion of m would stay at version 2."
    for other in ({}, {**out, "artifact_sha256": "0"}, {**out, "evidence_sha256": "0"}):
        assert "champion of m would move from version 2" in rehearsed(TARGET, report, "2", other)


@pytest.mark.parametrize("outcome", ["fail", "inconclusive", "not_measured"])
def test_nothing_but_a_pass_is_promoted(outcome: Outcome) -> None:
    """The alias stays, even if a report names a chosen variant; the reason reads on after "Nothing is promoted:"."""
    registry = FakeRegistry(points_at="2")
    done = promote(registry, TARGET, _report(outcome=outcome), warn=print)
    assert (done.promoted, done.variant, registry.moved) == (False, None, [])
    assert (
        done.because
        == {
            "fail": "the run fails.",
            "inconclusive": "the run is inconclusive.",
            "not_measured": "the run is not measured.",
        }[outcome]
    )


@pytest.mark.parametrize("chosen", [None, "nf4", "rtn2", "nobody"])
def test_a_chosen_variant_that_did_not_pass_itself_is_not_promoted(chosen: str | None) -> None:
    """A loser, a control or an unknown name as the choice of a passing run moves nothing."""
    registry = FakeRegistry()
    assert not promote(registry, TARGET, _report(chosen=chosen), warn=print).promoted
    assert registry.moved == []


def test_a_variant_without_an_artifact_cannot_be_promoted() -> None:
    """A pass without an artifact to point at promotes nothing and says so."""
    report = _report()
    report = replace(report, measurements=tuple(replace(one, artifact_path=None) for one in report.measurements))
    done = promote(FakeRegistry(), TARGET, report, warn=print)
    assert (done.promoted, done.because) == (False, "int8 has no artifact that could be registered.")


@pytest.mark.parametrize("trouble", [{"fails": True}, {"lost_race": True}])
def test_a_registry_in_trouble_is_reported_and_raises_nothing(trouble: dict[str, bool]) -> None:
    """A registry that fails or a lost race is a warning and no promotion."""
    warned: list[str] = []
    done = promote(FakeRegistry(**trouble), TARGET, _report(), warn=warned.append)  # type: ignore[arg-type]
    assert not done.promoted and len(warned) == 1
    assert done.because.startswith("the registry failed: ") and not done.because.endswith("..")


def test_promoting_what_is_out_already_moves_nothing() -> None:
    """The alias points at the version already: promoted, unmoved."""
    registry = FakeRegistry(points_at="v-int8")
    done = promote(registry, TARGET, _report(), warn=print)
    assert (done.promoted, registry.moved, done.version) == (True, [], "v-int8")


TRYING = replace(TARGET, challenger="challenger")


def test_the_runner_up_is_put_on_trial() -> None:
    """After the champion, the challenger's alias moves to the next best; it expects what that alias pointed at."""
    registry = FakeRegistry(points_at="2")
    done = promote(registry, TRYING, _report(), print, "nf4")
    assert registry.moved == [("v-int8", "2"), ("v-nf4", "2")]
    assert done.trial is not None
    assert (done.trial.alias, done.trial.variant, done.trial.version, done.trial.previous) == ("challenger", "nf4", "v-nf4", "2")


@pytest.mark.parametrize(("target", "runner_up"), [(TARGET, "nf4"), (TRYING, None), (TRYING, "float32")])
def test_nobody_is_put_on_trial(target: Target, runner_up: str | None) -> None:
    """Without the alias, without another that passed, or without a version of it, only the champion moves."""
    registry = FakeRegistry()
    assert promote(registry, target, _report(), print, runner_up).trial is None
    assert registry.moved == [("v-int8", None)]


def test_a_trial_that_fails_keeps_the_promotion() -> None:
    """A challenger's alias that cannot be moved is told, and the champion stays promoted."""

    class Half(FakeRegistry):
        def move(self, model: str, alias: str, *, to: str, expecting: str | None) -> None:
            if alias == "challenger":
                raise RegistryError("another promotion came first")
            super().move(model, alias, to=to, expecting=expecting)

    said: list[str] = []
    done = promote(Half(), TRYING, _report(), said.append, "nf4")
    assert (done.promoted, done.trial, said) == (True, None, ["nf4 could not be put on trial: another promotion came first"])


def test_nothing_is_tried_where_nothing_passes() -> None:
    """A run that does not pass moves neither alias."""
    registry = FakeRegistry()
    done = promote(registry, TRYING, _report(outcome="inconclusive", exit_code=3), print, "nf4")
    assert (done.promoted, done.trial, registry.moved) == (False, None, [])
