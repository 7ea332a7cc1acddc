"""A report as Markdown: report.md in the run folder and the summary of a CI job.

The cells are those of the terminal's table. Text from elsewhere is put on one line and loses every mark that Markdown or
HTML would read, so that it can break neither a table nor the page around it. Prompts and answers stay on the HTML page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from quantgate.records import Check, Report, Verdict
from quantgate.render import batching, diagnosis, proof, quantities as q, speculation, speed, timings
from quantgate.render.policy import paragraphs, waiver_lines
from quantgate.render.terminal import (
    VariantLine,
    check_figures,
    loss_header,
    plain,
    promotion_line,
    subtitle,
    variant_lines,
)

_MARKS = re.compile(r"([\\`*_\[\]|~#!$])")


def page(report: Report) -> str:
    """Render verdict, table, promotion, sentences, every check, failures, digests and commands."""
    blocks = [
        *_top(report),
        "## Checks",
        *(_checks(verdict) for verdict in report.verdicts),
        *_batching(report),
        *_artifacts(report),
        *_speed(report),
        *_speculation(report),
        *_failures(report),
        *diagnosis.markdown(report, _text),
        f"## Policy {_text(report.policy.name)}",
        *_policy(report),
        "## Evidence",
        _table(("What", "SHA-256"), "ll", _digests(report)),
        *_commands(report),
        f"Run {_text(report.run_id)}, {_text(report.created_at)}, quantgate "
        f"{_text(report.fingerprint.quantgate_version)}, exit code {report.exit_code}.",
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def summary(report: Report) -> str:
    """Render the table of variants and what was promoted: what stands where there is room for one table only."""
    promoted = f"**{_text(promotion_line(report))}**" if report.promotion is not None else ""
    return "\n\n".join(block for block in (_text(report.headline), _variants(report), promoted) if block)


def brief(report: Report) -> str:
    """Verdict, table, promotion and sentences alone, for a place that has no room for more."""
    where = "This is the beginning of the report; the whole is report.md in the run's folder."
    return "\n\n".join(block for block in (*_top(report), where) if block) + "\n"


def _top(report: Report) -> list[str]:
    return [
        f"# {q.outcome_word(report.outcome)}: {_text(report.headline)}",
        _text(subtitle(report)),
        _variants(report),
        f"**{_text(promotion_line(report))}**" if report.promotion is not None else "",
        _bullets(report.sentences),
    ]


def _text(text: str) -> str:
    """Escape what Markdown and HTML would read, on one line."""
    marked = _MARKS.sub(r"\\\1", plain(text))
    return marked.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("://", ":&#47;/")


def _table(header: Sequence[str], sides: str, rows: Iterable[Sequence[str]]) -> str:
    rule = ["--:" if side == "r" else ":--" for side in sides]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *rows))


def _speculation(report: Report) -> Sequence[str]:
    rows = [[_text(cell) for cell in speculation.cells(row, one)] for row in report.speculation for one in row.figures]
    return ["## Speculative decoding", _table(speculation.HEADER, "lrrrrrrrr", rows)] if rows else []


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {_text(line)}" for line in lines)


def _variants(report: Report) -> str:
    lines = variant_lines(report)
    if not lines:
        return "No variant was measured."
    several = len(report.golden_sets) > 1
    header = [
        "Variant",
        "Verdict",
        loss_header("Loss", lines),
        loss_header("At most", lines),
        loss_header("Margin", lines),
        "Level",
        *(["Golden set"] if several else []),
        "Flips",
        "Weights",
        "Freed",
        "Batch fits",
        "Tokens/s there",
        "vs reference",
        *([cost] if (cost := speed.cost_header(report)) else []),
    ]
    sides = "llrrrr" + ("l" if several else "") + "rrrrrr" + ("r" if cost else "")
    return _table(header, sides, [[*_variant_cells(line, several), *([_text(line.cost)] if cost else [])] for line in lines])


def _variant_cells(line: VariantLine, several: bool) -> list[str]:
    name = f"{_text(line.variant)}{' (control)' if q.is_control(line.role) else ''}"
    figures = [
        line.loss,
        line.upper,
        line.margin,
        line.level,
        *([line.golden_set or q.UNKNOWN] if several else []),
        line.flips,
        line.weights,
        line.freed,
        line.batch,
        line.tokens_per_s,
        line.ratio,
    ]
    return [name, f"**{_text(line.verdict)}**", *map(_text, figures)]


def _checks(verdict: Verdict) -> str:
    if not verdict.checks:
        return ""
    rows = [_check_cells(check) for check in verdict.checks]
    head = f"### {_text(verdict.variant)}: {_text(q.verdict_word(verdict))}"
    return f"{head}\n\n{_table(('Check', 'Outcome', 'In words', 'Figures'), 'llll', rows)}"


def _check_cells(check: Check) -> list[str]:
    name = f"{_text(check.name)}{'' if check.tier == 'required' else ' (advisory)'}"
    waived = "" if check.waived_by is None else f", waived by {_text(check.waived_by)}"
    return [name, q.outcome_word(check.outcome) + waived, _text(check.because), _text(check_figures(check)) or q.UNKNOWN]


def _batching(report: Report) -> list[str]:
    """The continuous batching lever: a table for each variant and pattern of arrivals."""
    blocks = [f"## {batching.TITLE}"] if report.batching else []
    for caption, rows, reasons in batching.markdown(report):
        sides = "ll" + "r" * (len(batching.HEADERS) - 2)
        blocks += [_text(caption), _table(batching.HEADERS, sides, [list(map(_text, row)) for row in rows]), _bullets(reasons)]
    return blocks


def _artifacts(report: Report) -> list[str]:
    found = proof.report_lines(report)
    return ["## What the artifacts hold", _bullets(found)] if found else []


def _speed(report: Report) -> list[str]:
    header, rows = timings.markdown_rows(report)
    if not rows:
        return []
    shown = _table([_text(one) for one in header], "l" * (len(header) - 12) + "r" * 12, [[_text(cell) for cell in row] for row in rows])
    return ["## Speed", _text(timings.CAPTION), shown, *([_bullets(found)] if (found := timings.markdown_lines(report)) else [])]


def _failures(report: Report) -> list[str]:
    failures = [
        f"{failure.variant}: {failure.stage} did not finish: {failure.kind}: {failure.message}"
        for row in report.measurements
        for failure in row.failures
    ]
    return ["## Failures", _bullets(failures)] if failures else []


def _policy(report: Report) -> list[str]:
    """The policy in full, and what became of its waivers."""
    candidates = sum(verdict.role == "candidate" for verdict in report.verdicts)
    blocks = [_text(report.policy.why)]
    for one in paragraphs(report.policy, candidates):
        blocks += [_text(one.sentence), *([_bullets(one.lines)] if one.lines else [])]
    lines = waiver_lines(report.policy, report.verdicts, report.created_at)
    return [*blocks, *([_bullets(line.sentence for line in lines)] if lines else [])]


def _digests(report: Report) -> list[tuple[str, str]]:
    digests = [
        ("Evidence", report.evidence_sha256),
        (f"Policy {report.policy.name}", report.policy_sha256),
        ("Model", report.fingerprint.model_sha256),
        *((f"Golden set {row.name} {row.version}", row.sha256) for row in report.golden_sets),
        *((f"Artifact {row.variant}", row.artifact_sha256) for row in report.measurements),
    ]
    return [(_text(name), _text(digest or q.UNKNOWN)) for name, digest in digests]


def _commands(report: Report) -> list[str]:
    """Fence the commands with more backticks than any of them holds."""
    if not report.commands:
        return []
    commands = [plain(command) for command in report.commands]
    longest = max((len(run) for command in commands for run in re.findall("`+", command)), default=0)
    fence = "`" * max(3, longest + 1)
    return ["\n".join([f"{fence}sh", *commands, fence])]
