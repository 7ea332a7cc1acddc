from collections.abc import Callable
from dataclasses import replace
from itertools import product
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings, strategies as st

import samples
from quantgate.errors import QuantgateError
from quantgate.records import Outcome, Report, Tier, Verdict
from quantgate.render import junit

ORDER: list[Outcome] = ["pass", "inconclusive", "fail", "not_measured"]
EXIT = {"pass": 0, "fail": 1, "inconclusive": 3, "not_measured": 4}
CHECKS = st.lists(st.tuples(st.sampled_from(ORDER), st.sampled_from(["required", "advisory"])), max_size=4)


def root_of(report: Report) -> ElementTree.Element:
    return ElementTree.fromstring(junit.document(report))


def case_of(report: Report, suite: str, name: str) -> list[str]:
    """Return the tags inside one case."""
    for case in root_of(report).iter("testcase"):
        if (case.attrib["classname"], case.attrib["name"]) == (f"quantgate.{suite}", name):
            return [child.tag for child in case]
    raise AssertionError(f"no case {suite}/{name}")


def is_green(report: Report) -> bool:
    root = root_of(report)
    return root.attrib["failures"] == root.attrib["errors"] == "0"


def worst(outcomes: list[Outcome]) -> Outcome:
    return max(outcomes, key=ORDER.index, default="not_measured")


def judged(name: str, role: str, checks: list[tuple[Outcome, Tier]]) -> Verdict:
    """Judge as the gate does: the worst required check, and a control by what it must be."""
    found = [
        samples.check(outcome, name=f"quality/set{index}", tier=tier) for index, (outcome, tier) in enumerate(checks)
    ]
    outcome = worst([item.outcome for item in found if item.tier == "required"])
    must = {"identity": "pass", "known_bad": "fail"}.get(role)
    ok = None if must is None else outcome == must
    return samples.verdict(name, role, outcome, *found, control_ok=ok)  # type: ignore[arg-type]


def decided(verdicts: list[Verdict], require: str) -> Report:
    """Put verdicts together as the gate does."""
    candidates = [item.outcome for item in verdicts if item.role == "candidate"]
    controls = [item for item in verdicts if item.control_ok is not None]
    outcome = worst(candidates)
    if require == "any" and "pass" in candidates:
        outcome = "pass"
    if any(not item.control_ok for item in controls):
        outcome = "not_measured"
    return replace(
        samples.sample_report(),
        verdicts=tuple(verdicts),
        outcome=outcome,
        exit_code=EXIT[outcome],
        policy=samples.policy(require=require),
    )


@settings(max_examples=300, deadline=None)
@given(CHECKS, CHECKS, CHECKS, CHECKS, st.sampled_from(["all", "any"]))
def test_green_exactly_when_the_exit_code_is_0(
    one: list[tuple[Outcome, Tier]],
    two: list[tuple[Outcome, Tier]],
    same: list[tuple[Outcome, Tier]],
    bad: list[tuple[Outcome, Tier]],
    require: str,
) -> None:
    """Whatever came of checks, candidates and controls, the document is green if and only if the run passed."""
    verdicts = [
        judged("one", "candidate", one),
        judged("two", "candidate", two),
        judged("same", "identity", same),
        judged("bad", "known_bad", bad),
    ]
    report = decided(verdicts, require)
    assert is_green(report) == (report.exit_code == 0)


@pytest.mark.parametrize(("first", "second", "require"), list(product(ORDER, ORDER, ["all", "any"])))
def test_green_over_all_pairs_of_outcomes(first: Outcome, second: Outcome, require: str) -> None:
    """Every pair of candidates' outcomes agrees with the exit code in both modes."""
    verdicts = [judged(name, "candidate", [(out, "required")]) for name, out in (("a", first), ("b", second))]
    verdicts.append(judged("bad", "known_bad", [("fail", "required")]))
    report = decided(verdicts, require)
    assert is_green(report) == (report.exit_code == 0)


@pytest.mark.parametrize(
    "build", [samples.sample_report, samples.all_failing, samples.unmeasured, samples.empty, samples.hostile]
)
def test_counts_are_right(build: Callable[[], Report]) -> None:
    """The attributes of each suite and of the whole are the numbers of cases in it."""
    root = root_of(build())
    for element in [root, *root.iter("testsuite")]:
        assert int(element.attrib["tests"]) == len(list(element.iter("testcase")))
        for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(element.attrib[attribute]) == len(list(element.iter(tag)))


def test_a_fail_is_a_failure_and_the_rest_are_errors() -> None:
    """A shown fail is a failure; inconclusive and not measured are errors."""
    report = replace(
        samples.unmeasured(), verdicts=(*samples.all_failing().verdicts[1:2], *samples.unmeasured().verdicts[1:])
    )
    report = replace(report, verdicts=tuple({item.variant: item for item in reversed(report.verdicts)}.values()))
    assert case_of(samples.all_failing(), "int8", "verdict")[0] == "failure"
    assert case_of(report, "nf4", "quality/everyday")[0] == "error"
    assert case_of(samples.unmeasured(), "int8", "verdict")[0] == "error"


def test_losing_candidates_are_skipped_with_the_reason() -> None:
    """Under a passing ladder what the loser missed is skipped and says who won; what it passed stays passed."""
    report = samples.sample_report()
    assert case_of(report, "nf4", "verdict") == ["skipped", "system-out"]
    assert case_of(report, "nf4", "memory/freed_share") == ["system-out"]
    assert "another candidate passed (int8)" in junit.document(report)


def test_advisory_checks_are_never_failures() -> None:
    """An advisory check that does not pass is skipped with its sentence, also in a run that fails."""
    advisory = samples.check("fail", name="output_length/everyday", tier="advisory")
    report = samples.all_failing()
    verdicts = tuple(
        replace(item, checks=(*item.checks, advisory)) if item.role == "candidate" else item for item in report.verdicts
    )
    assert case_of(replace(report, verdicts=verdicts), "int8", "output_length/everyday")[0] == "skipped"


def test_controls() -> None:
    """A control that behaved is passed, its failing checks too; one that did not is an error."""
    assert case_of(samples.sample_report(), "rtn2", "verdict") == ["system-out"]
    assert case_of(samples.sample_report(), "rtn2", "quality/everyday") == ["system-out"]
    assert case_of(samples.unmeasured(), "rtn2", "verdict")[0] == "error"


def test_a_report_that_contradicts_itself_is_refused() -> None:
    """Exit code 0 beside a failing candidate is not turned into a document of either colour."""
    with pytest.raises(QuantgateError, match="contradicts itself"):
        junit.document(replace(samples.all_failing(), exit_code=0))


def test_hostile_text_stays_well_formed() -> None:
    """Control characters and lone surrogates are left out, so the document parses and can be written as UTF-8."""
    text = junit.document(samples.hostile())
    ElementTree.fromstring(text.encode("utf-8"))
    assert "<script>" not in text
