"""A report as JUnit XML, for CI systems: a suite per variant, a case per check and one for the verdict, and the run itself.

The document is green exactly when the exit code is 0. ``failure`` is a shown fail, ``error`` what is inconclusive or not
measured, ``skipped`` what does not decide: advisory checks, and the losing candidates of a passing ``require: any``. A
control that came out as it must is passed, whatever its checks say; one that did not is an error. A check that a waiver
keeps from blocking is skipped with the reason, and every waiver of the policy is a skipped case of a suite of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias
from xml.etree import ElementTree

from quantgate.errors import QuantgateError
from quantgate.records import Check, Failure, Outcome, Report, Verdict
from quantgate.render import quantities as q
from quantgate.render.policy import waiver_lines

_State: TypeAlias = Literal["passed", "failure", "error", "skipped"]
_STATES: dict[Outcome, _State] = {
    "pass": "passed",
    "fail": "failure",
    "inconclusive": "error",
    "not_measured": "error",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Case:
    """One test case: its state, the type and sentence that go with it, and what else was printed."""

    suite: str
    name: str
    state: _State
    kind: str
    sentence: str
    output: str = ""


def document(report: Report) -> str:
    """Render the XML document. Raises ``QuantgateError`` where a passing run holds a case that is not green."""
    suites = [*(_variant_cases(report, verdict) for verdict in report.verdicts), _waiver_cases(report), [_run_case(report)]]
    _refuse_contradiction(report, [case for cases in suites for case in cases])
    root = ElementTree.Element("testsuites", {"name": "quantgate", "time": f"{report.seconds:.3f}"})
    _count(root, [case for cases in suites for case in cases])
    for cases in filter(None, suites):
        _suite(root, report, cases)
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _refuse_contradiction(report: Report, cases: list[_Case]) -> None:
    red = [case for case in cases if case.state in ("failure", "error")]
    if bool(red) == (report.exit_code == 0):
        raise QuantgateError(
            f"run {report.run_id} contradicts itself: exit code {report.exit_code}, yet {len(red)} cases are not green, "
            f"first {red[0].suite}/{red[0].name}: judge it again with `quantgate gate`"
            if red
            else f"run {report.run_id} contradicts itself: exit code {report.exit_code}, yet every case is green"
        )


# ---------------------------------------------------------------------------------------------- cases


def _variant_cases(report: Report, verdict: Verdict) -> list[_Case]:
    failures = [failure for row in report.measurements if row.variant == verdict.variant for failure in row.failures]
    checks = [_check_case(report, verdict, check) for check in verdict.checks]
    return [*checks, _verdict_case(report, verdict, failures)]


def _check_case(report: Report, verdict: Verdict, check: Check) -> _Case:
    state = _STATES[check.outcome]
    if q.is_control(verdict.role):
        state = _control_state(verdict, check)
    elif state != "passed" and (check.tier == "advisory" or check.waived_by is not None or _lost(report, verdict)):
        state = "skipped"
    return _Case(
        suite=verdict.variant,
        name=check.name,
        state=state,
        kind=f"{check.tier} {check.outcome}",
        sentence=_skipped_because(report, verdict, check, state),
        output=check.because,
    )


def _control_state(verdict: Verdict, check: Check) -> _State:
    """Pass the checks of a control that behaved; of one that did not, those that are not as they must be are errors."""
    if verdict.control_ok or check.tier == "advisory":
        return "passed"
    if verdict.role == "known_bad":
        return "error" if q.is_quality(check) and check.outcome != "fail" else "passed"
    return "passed" if check.outcome == "pass" else "error"


def _skipped_because(report: Report, verdict: Verdict, check: Check, state: _State) -> str:
    if state != "skipped":
        return check.because
    if check.tier == "advisory":
        return f"advisory, does not decide: {check.because}"
    if check.waived_by is not None:
        return f"{check.outcome.replace('_', ' ')}, waived by {check.waived_by}: {check.because}"
    return f"another candidate passed ({report.chosen}): {check.because}"


def _verdict_case(report: Report, verdict: Verdict, failures: list[Failure]) -> _Case:
    state, sentence = _STATES[verdict.outcome], verdict.because
    if q.is_control(verdict.role):
        state = "passed" if verdict.control_ok else "error"
        sentence = f"{q.verdict_word(verdict)}: {verdict.because}"
    elif state != "passed" and _lost(report, verdict):
        state, sentence = "skipped", f"another candidate passed ({report.chosen}): {verdict.because}"
    words = [f"{failure.stage}: {failure.kind}: {failure.message}" for failure in failures]
    return _Case(
        suite=verdict.variant,
        name="verdict",
        state=state,
        kind=verdict.outcome,
        sentence=sentence,
        output="\n".join([sentence, *words]),
    )


def _lost(report: Report, verdict: Verdict) -> bool:
    """Tell whether a candidate lost a ladder that another one won."""
    ladder_won = report.policy.require == "any" and report.outcome == "pass"
    return ladder_won and verdict.role == "candidate" and verdict.outcome != "pass"


def _waiver_cases(report: Report) -> list[_Case]:
    lines = waiver_lines(report.policy, report.verdicts, report.created_at)
    return [
        _Case(
            suite="waivers",
            name=f"{line.waiver.variant}: {line.waiver.check}",
            state="skipped",
            kind=line.state,
            sentence=line.sentence,
        )
        for line in lines
    ]


def _run_case(report: Report) -> _Case:
    """Repeat the exit code as a case, so that the document agrees with it whatever the variants say."""
    states: dict[int, _State] = {0: "passed", 1: "failure"}
    sentence = f"exit code {report.exit_code}: {report.headline}"
    return _Case(
        suite="run",
        name="outcome",
        state=states.get(report.exit_code, "error"),
        kind=report.outcome,
        sentence=sentence,
        output="\n".join([sentence, *report.sentences]),
    )


# ---------------------------------------------------------------------------------------------- XML


def _suite(root: ElementTree.Element, report: Report, cases: list[_Case]) -> None:
    suite = ElementTree.SubElement(root, "testsuite", {"name": q.storable(cases[0].suite)})
    suite.set("timestamp", q.storable(report.created_at.removesuffix("Z")))
    _count(suite, cases)
    for case in cases:
        _case(suite, case)


def _count(element: ElementTree.Element, cases: list[_Case]) -> None:
    element.set("tests", str(len(cases)))
    for attribute, state in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        element.set(attribute, str(sum(case.state == state for case in cases)))


def _case(suite: ElementTree.Element, case: _Case) -> None:
    name = {"classname": q.storable(f"quantgate.{case.suite}"), "name": q.storable(case.name)}
    element = ElementTree.SubElement(suite, "testcase", name)
    if case.state != "passed":
        reason = ElementTree.SubElement(element, case.state, {"message": q.storable(case.sentence)})
        if case.state != "skipped":
            reason.set("type", case.kind)
    if case.output:
        ElementTree.SubElement(element, "system-out").text = q.storable(case.output)
