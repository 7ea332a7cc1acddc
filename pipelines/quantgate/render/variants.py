"""The page's table of variants, and every check of each."""

from __future__ import annotations

from collections.abc import Sequence

from quantgate.records import Check, MeasurementRow, Report, Verdict
from quantgate.render import figures, quantities as q, speed
from quantgate.render.elements import (
    Cell as _Cell,
    Column as _Column,
    Html as _Html,
    badge as _badge,
    el as _el,
    fold as _fold,
    inline as _inline,
    section as _section,
    table as _table,
    with_small as _with_small,
    words as _words,
)
from quantgate.render.terminal import VariantLine, loss_header, variant_lines


def section(report: Report) -> _Html:
    """The table of variants with its intervals, and the checks of each, folded."""
    lines = variant_lines(report)
    if not lines:
        return _section("variants", "Variants", _el("p", "No variant was measured."))
    failures = [
        f"{failure.variant}: {failure.stage} did not finish: {failure.kind}: {failure.message}"
        for row in report.measurements
        for failure in row.failures
    ]
    return _section(
        "variants",
        "Variants",
        _variant_table(report, lines),
        _el(
            "p",
            "Loss is positive when the variant is worse. The drawing shows the estimate between its bounds; the shaded "
            "stretch is what the policy allows, up to the margin (dashed). Upper bounds are one-sided, each at the level "
            "at which its variant was tested, and rounded up.",
            class_="note",
        ),
        _el("ul", *(_el("li", failure) for failure in failures), class_="sentences") if failures else "",
        _fold("Every check and what came of it", _check_table(report.verdicts), opened=True),
    )


def _variant_table(report: Report, lines: tuple[VariantLine, ...]) -> _Html:
    checks = {verdict.variant: q.worst_quality(verdict) for verdict in report.verdicts}
    rows = {row.variant: row for row in report.measurements}
    pairs = [(verdict, check) for verdict in report.verdicts if (check := checks[verdict.variant]) is not None]
    drawn = [(verdict, check) for verdict, check in pairs if check.scale != "unbounded"]
    domain = figures.loss_domain(drawn)
    unit, size = q.byte_column(tuple(row.weight_bytes for row in report.measurements))
    margins = {check.margin for _, check in drawn if check.margin is not None}
    axis = figures.strip_axis(domain, margins.pop() if len(margins) == 1 else None, ident="axis")
    columns = [
        _words("Variant"),
        _words("Verdict"),
        _Column("Loss between its bounds", number=False, drawn=_inline(axis)),
        _Column(loss_header("Loss", lines)),
        _Column(loss_header("At most", lines)),
        _Column("Flips"),
        _Column(f"Weights, {unit}"),
        _Column("Freed, %"),
        _Column("Batch fits"),
        _Column("Tokens/s there"),
        _Column("vs reference"),
        *([_Column(cost)] if (cost := speed.cost_header(report)) else []),
    ]
    several = len(report.golden_sets) > 1
    body = []
    for index, line in enumerate(lines):
        check = checks.get(line.variant)
        own = check is not None and check.scale == "unbounded"  # a unit of its own does not lie on the column's axis
        strip = "" if own else figures.interval_strip(check, domain, ident=f"strip-{index}")
        paid = [line.cost] if cost else []
        body.append([*_variant_cells(line, rows.get(line.variant), strip, size, several), *paid])
    return _table("One row per variant; tokens/s at the batch that fits", columns, body, kind="stack variants")


def _variant_cells(line: VariantLine, row: MeasurementRow | None, strip: str, size: int, several: bool) -> list[_Cell]:
    how = "" if row is None else f"{row.scheme}, {row.quantizer}"
    freed = None if row is None else row.freed_share
    simulated = row is not None and row.freed_simulated
    return [
        _with_small(line.variant, f"{line.role.replace('_', '-')} control, {how}" if q.is_control(line.role) else how),
        _badge(line.verdict),
        _inline(strip) if strip else q.UNKNOWN,
        _with_small(line.loss, line.golden_set if several else ""),
        _with_small(line.upper, "" if line.level == q.UNKNOWN else f"at {line.level}"),
        line.flips,
        q.in_unit(None if row is None else row.weight_bytes, size),
        _with_small(q.percent_number(freed), "simulated" if simulated else ""),
        line.batch,
        line.tokens_per_s,
        line.ratio,
    ]


def _check_table(verdicts: Sequence[Verdict]) -> _Html:
    columns = [
        _words("Variant"),
        _words("Check"),
        _words("Outcome"),
        _Column("Estimate"),
        _Column("At least"),
        _Column("At most"),
        _Column("Limit"),
        _Column("Level"),
        _words("In words"),
    ]
    rows = [_check_cells(verdict, check) for verdict in verdicts for check in verdict.checks]
    return _table("Every check; advisory ones never decide", columns, rows, kind="stack checks")


def _check_cells(verdict: Verdict, check: Check) -> list[_Cell]:
    return [
        verdict.variant,
        _with_small(check.name, "" if check.tier == "required" else "advisory"),
        _with_small(q.outcome_word(check.outcome), "" if check.waived_by is None else f"waived by {check.waived_by}"),
        q.check_figure(check, check.estimate),
        q.check_figure(check, check.lower, towards="down"),
        q.check_figure(check, check.bound, towards="up"),
        q.check_limit(check.name, check.margin, check.scale),
        q.level_percent(check.level),
        check.because,
    ]
