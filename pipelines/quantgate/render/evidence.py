"""The page's last section: the policy, controls, digests, the machine, what did not finish."""

from __future__ import annotations

from collections.abc import Sequence

from quantgate.records import CheckRule, DeviceInfo, MeasurementRow, Policy, Report
from quantgate.render import baseline, quantities as q
from quantgate.render.elements import (
    Cell as _Cell,
    Column as _Column,
    Html as _Html,
    badge as _badge,
    definitions as _definitions,
    digest as _digest,
    el as _el,
    fold as _fold,
    folded_text as _folded_text,
    join as _join,
    section as _section,
    table as _table,
    with_small as _with_small,
    words as _words,
)
from quantgate.render.policy import waiver_lines
from quantgate.render.verdict import candidates


def section(report: Report) -> _Html:
    """What a person needs to check the verdict or to run it again."""
    return _section(
        "evidence",
        "Evidence",
        _policy(report),
        _controls(report),
        baseline.folded(report.baseline),
        _el("h3", "Digests"),
        _digests(report),
        _el("h3", "Machine and versions"),
        _machine(report),
        _el("h3", "Artifacts"),
        _artifact_table(report.measurements) if report.measurements else _el("p", "None."),
        _failures(report),
        _prompts(report),
        _el("h3", "Reproduce"),
        _el("pre", "\n".join(report.commands)) if report.commands else _el("p", "No command was recorded."),
    )


def _policy(report: Report) -> _Html:
    policy = report.policy
    facts = [
        ("Name", policy.name),
        ("Why this margin", policy.why),
        ("Candidates", "one must pass" if policy.require == "any" else "every one must pass"),
        ("Correction", _correction(policy, candidates(report))),
        ("Alpha, one-sided", q.significant(policy.alpha, 1)),
        ("Power, at a flip rate of", f"{q.percent(policy.power)}, {q.percent(policy.planning_flip_rate, digits=1)}"),
        ("Fewest items", q.count(policy.minimum_items)),
        ("Absent from the reference, at most", q.percent(policy.max_absent_reference, digits=1)),
        ("Goes forward", policy.objective.replace("_", " ")),
        ("Controls required", "yes" if policy.require_controls else "no"),
    ]
    columns = [
        _words("Check"),
        _words("Tier"),
        _words("Golden set"),
        _Column("Margin"),
        _Column("At least"),
        _Column("At most"),
        _Column("Fewest items"),
    ]
    rules = _table("What the policy demands", columns, [_rule_cells(rule) for rule in policy.checks])
    return _join([_el("h3", "Policy"), _definitions(facts), rules, _waivers(report)])


def _correction(policy: Policy, candidates: int) -> str:
    if policy.require == "all":
        return "none needed"
    if policy.correction == "fixed_sequence":
        return f"one after the other: {', '.join(policy.order)}"
    return f"Holm over {policy.family(candidates)}" if policy.correction == "holm" else "none"


def _waivers(report: Report) -> _Html:
    lines = waiver_lines(report.policy, report.verdicts, report.created_at)
    if not lines:
        return _el("p", "No check is waived.", class_="note")
    columns = [_words(one) for one in ("Variant", "Check", "In this run", "Owner", "Reason", "Until", "In words")]
    cells = [
        [one.variant, one.check, line.state, one.owner, one.reason, one.expires, line.because]
        for line in lines
        for one in (line.waiver,)
    ]
    return _table("Waivers: checks that do not block one variant, until a day", columns, cells, kind="stack checks")


def _rule_cells(rule: CheckRule) -> list[_Cell]:
    golden = "every" if rule.golden_set == "*" else rule.golden_set
    slices = "" if not rule.slices else f"slices: {', '.join('every' if one == '*' else one for one in rule.slices)}"
    limits = [q.check_limit(rule.kind, limit) for limit in (rule.margin, rule.minimum, rule.maximum)]
    return [rule.kind, rule.tier, _with_small(golden, slices), *limits, q.count(rule.minimum_items)]


def _controls(report: Report) -> _Html:
    controls = [verdict for verdict in report.verdicts if q.is_control(verdict.role)]
    if not controls:
        return _join([_el("h3", "Controls"), _el("p", "None were run: this gate was not seen to block anything here.")])
    columns = [_words("Control"), _words("Must"), _words("Came out"), _words("In words")]
    must = {"identity": "pass: the reference again", "known_bad": "fail: known to be bad"}
    cells = [
        [verdict.variant, must.get(verdict.role, q.UNKNOWN), _badge(q.verdict_word(verdict)), verdict.because]
        for verdict in controls
    ]
    return _join([_el("h3", "Controls"), _table("Variants that test the gate itself", columns, cells)])


def _digests(report: Report) -> _Html:
    sets = [(f"Golden set {row.name} {row.version}", _digest(row.sha256)) for row in report.golden_sets]
    facts = [
        ("Evidence", _digest(report.evidence_sha256)),
        ("Policy", _digest(report.policy_sha256)),
        ("Model", _digest(report.fingerprint.model_sha256)),
        ("Configuration", _digest(report.fingerprint.config_sha256)),
        ("quantgate's source", _digest(report.fingerprint.source_sha256)),
        *sets,
    ]
    return _definitions(facts)


def _machine(report: Report) -> _Html:
    mark, device = report.fingerprint, report.device
    rates = [] if device is None else _peaks(device)
    facts = [
        ("quantgate", f"{mark.quantgate_version}, commit {mark.commit or q.UNKNOWN}"),
        ("Python", f"{mark.python}, {mark.platform}"),
        ("CPU", mark.cpu),
        *rates,
        ("Libraries", ", ".join(f"{name} {version}" for name, version in sorted(mark.libraries.items()))),
        ("Model", _with_small(report.model_source, report.model_note)),
    ]
    return _definitions(facts)


def _peaks(device: DeviceInfo) -> list[tuple[str, str]]:
    bandwidth = None if device.peak_bytes_per_s is None else round(device.peak_bytes_per_s)
    operations = None if device.peak_flops_per_s is None else device.peak_flops_per_s / 1e9
    others = device.other_processes
    return [
        ("Memory bandwidth, as the vendor states it", q.UNKNOWN if bandwidth is None else f"{q.decimal_bytes(bandwidth)}/s"),
        ("Arithmetic, as the vendor states it", q.UNKNOWN if operations is None else f"{q.significant(operations)} GFLOP/s"),
        ("Other processes on the device", q.count(others)),
        *([("Memory of the other processes", q.decimal_bytes(device.other_bytes))] if device.other_bytes else []),
        *([("Allocator", device.allocator)] if device.allocator else []),
    ]


def _artifact_table(rows: Sequence[MeasurementRow]) -> _Html:
    columns = [
        _words("Variant"),
        _Column("Built in"),
        _Column("Stored, MB"),
        _Column("Parameters, millions"),
        _Column("Quantized, %"),
        _Column("Modules replaced"),
        _words("Left"),
        _words("Kernels"),
        _words("Dtype"),
        _words("Reused stages"),
        _words("Path and digest"),
    ]
    return _table("What was built and loaded", columns, [_artifact_cells(row) for row in rows], kind="artifacts")


def _artifact_cells(row: MeasurementRow) -> list[_Cell]:
    parameters = None if row.logical_parameters is None else row.logical_parameters / 1e6
    left = ", ".join(row.modules_left)
    return [
        row.variant,
        q.duration(row.build_s),
        q.in_unit(row.stored_bytes, 10**6),
        q.significant(parameters, 4),
        q.percent_number(row.share_quantized, digits=1),
        q.count(row.modules_replaced),
        _folded_text(left) if left else q.UNKNOWN,
        ", ".join(f"{number} x {name}" for name, number in row.kernels.items()) or q.UNKNOWN,
        row.dtype or q.UNKNOWN,
        ", ".join(row.reused) or "none",
        _with_small(row.artifact_path or q.UNKNOWN, row.artifact_sha256 or ""),
    ]


def _failures(report: Report) -> _Html:
    failures = [failure for row in report.measurements for failure in row.failures]
    if not failures:
        return _join([_el("h3", "Failures"), _el("p", "Every stage finished.")])
    columns = [_words("Variant"), _words("Stage"), _words("Error"), _words("Message"), _words("Non-finite numbers")]
    cells = [
        [failure.variant, failure.stage, failure.kind, failure.message, "yes" if failure.numerical else "no"]
        for failure in failures
    ]
    return _join([_el("h3", "Failures"), _table("Stages that did not finish", columns, cells)])


def _prompts(report: Report) -> _Html:
    folds = [
        _fold(f"First prompt of {row.name} {row.version}, as the model saw it", _el("pre", row.first_prompt))
        for row in report.golden_sets
    ]
    return _join([_el("h3", "Prompts"), *folds]) if folds else _Html("")
