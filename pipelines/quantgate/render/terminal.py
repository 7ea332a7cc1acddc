"""A report on a terminal: verdicts first, a line per variant, then a sentence for each thing that is not a plain pass.

Everything is readable without colour. Text from elsewhere loses its control characters, so that no prompt can move the
cursor. The lines are also what the Markdown page shows.
"""

from __future__ import annotations

import shlex
import textwrap
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from quantgate.errors import UsageError
from quantgate.records import (
    CeilingRow,
    Check,
    FlipCount,
    FlipRow,
    KLStatistics,
    MeasurementRow,
    QualityRow,
    ReadingRow,
    Report,
    Role,
    Verdict,
)
from quantgate.render import diagnosis, kv, proof, quantities as q, speed, timings

_COLOURS = {"PASS": "32", "FAIL": "31", "INCONCLUSIVE": "33", "NOT MEASURED": "35", "CONTROL WRONG": "1;31"}
_RIGHT = frozenset({"flips", "weights", "freed", "batch fits", "tok/s there", "vs reference"})
_TEXT_WIDTH = 120


@dataclass(frozen=True, kw_only=True, slots=True)
class VariantLine:
    """What every rendering says of one variant; each figure as text, ``-`` where unknown."""

    variant: str
    role: Role
    verdict: str
    golden_set: str
    """The golden set of the loss: the one that decides most; empty without a quality check."""
    loss: str
    """Estimate in ``unit``, positive when worse; a ratio of perplexities as it is."""
    upper: str
    """Upper confidence bound in ``unit``, rounded up."""
    level: str
    """The one-sided confidence of the bound, in percent."""
    relation: str
    margin: str
    flips: str
    weights: str
    freed: str
    batch: str
    tokens_per_s: str
    ratio: str
    unit: str = ""
    """Of loss, bound and margin: points, in score, or times the reference's perplexity; empty without them."""
    cost: str = q.UNKNOWN
    """Of a million output tokens, in the run's currency."""


def variant_lines(report: Report) -> tuple[VariantLine, ...]:
    """Return one line for each variant that was measured or judged, in the order of the run."""
    verdicts = {verdict.variant: verdict for verdict in report.verdicts}
    rows = {row.variant: row for row in report.measurements}
    lines = tuple(_line(name, verdicts.get(name), rows.get(name)) for name in dict.fromkeys([*rows, *verdicts]))
    return lines if loss_unit(lines) else tuple(map(_with_unit, lines))


def loss_unit(lines: tuple[VariantLine, ...]) -> str:
    """The unit that a header can say for every line; empty where they differ, and then each cell says its own."""
    units = {line.unit for line in lines if line.unit}
    return "" if len(units) > 1 else next(iter(units), "points")


def loss_header(name: str, lines: tuple[VariantLine, ...]) -> str:
    """A column's header with the unit of its cells."""
    unit = loss_unit(lines)
    return f"{name}, {unit}" if unit else name


def _with_unit(line: VariantLine) -> VariantLine:
    unit = {"x perplexity": "x"}.get(line.unit, f" {line.unit}")
    loss, upper, margin = (each if each == q.UNKNOWN else f"{each}{unit}" for each in (line.loss, line.upper, line.margin))
    return replace(line, loss=loss, upper=upper, margin=margin)


def _line(name: str, verdict: Verdict | None, row: MeasurementRow | None) -> VariantLine:
    check = None if verdict is None else q.shown_check(verdict)
    role: Role = verdict.role if verdict is not None else row.role if row is not None else "candidate"
    unjudged = "reference" if role == "reference" else q.outcome_word("not_measured")
    return VariantLine(
        variant=name,
        role=role,
        verdict=unjudged if verdict is None else q.verdict_word(verdict),
        golden_set="" if check is None else q.check_set(check),
        loss=q.loss_cell(check, None if check is None else check.estimate),
        upper=q.loss_cell(check, None if check is None else check.bound, towards="up"),
        level=q.level_percent(None if check is None else check.level),
        relation="" if check is None else q.relation(check),
        margin=q.margin_cell(check),
        flips=q.flips(check),
        weights=q.decimal_bytes(None if row is None else row.weight_bytes),
        freed=freed_share(row),
        batch=q.batch_ceiling(None if row is None else row.ceiling),
        tokens_per_s=q.per_s(None if row is None else row.tokens_per_s_at_ceiling),
        ratio=q.ratio(None if row is None else row.ratio_at_ceiling),
        unit="" if check is None or check.estimate is None else q.loss_unit(check),
        cost=speed.cost_cell(row),
    )


def freed_share(row: MeasurementRow | None) -> str:
    """Write the share of the reference's weight bytes that is freed; simulated variants say so."""
    if row is None or row.freed_share is None:
        return q.UNKNOWN
    return f"{q.percent(row.freed_share)}{' simulated' if row.freed_simulated else ''}"


def subtitle(report: Report) -> str:
    """Write in one line which model was judged on what, by which policy and where."""
    candidates = sum(verdict.role == "candidate" for verdict in report.verdicts)
    sets = [f"{row.name} {row.version} ({q.count(row.items)} items)" for row in report.golden_sets]
    policy = f"policy {report.policy.name} ({q.policy_terms(report.policy, candidates)})"
    return plain(" · ".join([report.model, *sets, policy, *_device(report)]))


def _device(report: Report) -> list[str]:
    device = report.device
    if device is None:
        return []
    name = [device.kind if device.kind == "cpu" else device.name]
    return [", ".join([*name, *([f"{device.threads} thread{'' if device.threads == 1 else 's'}"] if device.threads else [])])]


def promotion_line(report: Report) -> str:
    """Write what was promoted where, or why nothing was."""
    promotion = report.promotion
    if promotion is None:
        return report.headline
    if not promotion.promoted:
        return f"Nothing is promoted: {promotion.because}"
    was = "" if promotion.previous is None else f" (before: version {promotion.previous})"
    moved = f"{promotion.alias} -> version {promotion.version}{was}"
    trial = "" if (one := promotion.trial) is None else f" {one.variant} is on trial: {one.alias} -> version {one.version}."
    return f"{promotion.variant} is promoted: {moved}. {promotion.because}".rstrip() + trial


def plain(text: str) -> str:
    """Put text on one line, without anything that a terminal would obey: control, direction and private code points."""
    return "".join("\ufffd" if _obeyed(letter) else letter for letter in " ".join(text.split()))


def _obeyed(letter: str) -> bool:
    return unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Co") and letter not in "\u200c\u200d"


# ---------------------------------------------------------------------------------------------- the end of a run


def verdict_table(report: Report, *, width: int | None = None, colour: bool = False, folder: Path | None = None) -> str:
    """Render what stands at the end of a run: table, promotion, sentences, where to look, exit code.

    ``width`` is the number of columns to keep to (a table that does not fit is stacked; commands never wrap), None for
    the natural one. ``folder`` is where the report lies, None for ``reports/<run id>``.
    """
    lines = variant_lines(report)
    table = _table(report, lines, width, colour)
    said = [promotion_line(report), *report.sentences, plain(diagnosis.limit_line(report))]
    sentences = [_wrapped(sentence, width or _TEXT_WIDTH) for sentence in said if sentence]
    blocks = [_wrapped(subtitle(report), width or 10**6), table, "\n".join(sentences), _where(report, folder)]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _table(report: Report, lines: tuple[VariantLine, ...], width: int | None, colour: bool) -> str:
    if not lines:
        return "No variant was measured."
    columns = _columns(report, lines)
    rows = _aligned(columns, right=_RIGHT | {speed.cost_header(report)})
    if width is not None and max(map(_cells, rows)) > width:
        rows = _stacked(columns)
    rows = [rows[0], *(_coloured(row, lines) for row in rows[1:])] if colour else rows
    return "\n".join([*rows, *_levels(lines)])


def _columns(report: Report, lines: tuple[VariantLine, ...]) -> dict[str, list[str]]:
    columns = {
        "variant": [f"{plain(line.variant)}{' control' if q.is_control(line.role) else ''}" for line in lines],
        "verdict": [line.verdict for line in lines],
        loss_header("loss [upper bound]", lines): _losses(lines),
        "golden set": [plain(line.golden_set) or q.UNKNOWN for line in lines],
        "flips": [line.flips for line in lines],
        "weights": [line.weights for line in lines],
        "freed": [line.freed for line in lines],
        "batch fits": [line.batch for line in lines],
        "tok/s there": [line.tokens_per_s for line in lines],
        "vs reference": [line.ratio for line in lines],
    }
    if len(report.golden_sets) < 2:
        del columns["golden set"]
    if cost := speed.cost_header(report):
        columns[cost] = [line.cost for line in lines]
    return columns


def _losses(lines: tuple[VariantLine, ...]) -> list[str]:
    """Set estimate, bound and margin in columns of their own, so that decimal points stand under each other."""
    estimate = max(len(line.loss) for line in lines)
    upper = max(len(line.upper) for line in lines)
    return [
        q.UNKNOWN.rjust(estimate)
        if line.loss == q.UNKNOWN
        else f"{line.loss:>{estimate}} [{line.upper:>{upper}}] {line.relation:>2} {line.margin}"
        for line in lines
    ]


def _levels(lines: tuple[VariantLine, ...]) -> list[str]:
    """Name the confidence of each bound: no interval without its level."""
    levels = [f"{plain(line.variant)} {line.level}" for line in lines if line.level != q.UNKNOWN]
    return [f"upper bounds are one-sided: {', '.join(levels)}"] if levels else []


def _where(report: Report, folder: Path | None) -> str:
    short = report.run_id.rsplit("-", 1)[-1]
    place = folder or Path("reports", report.run_id)
    parts = {"report": str(place / "report.html")}
    if report.promotion is not None and report.promotion.registry == "mlflow":
        parts["compare"] = f"quantgate ui{elsewhere(place)}"
    if place.name == report.run_id:  # a judgement has no run folder of its own
        asked = _worth_asking(report)
        parts["why"] = f"quantgate show {short}" + (f" --variant {asked}" if asked else "") + elsewhere(place)
    line = "        ".join(f"{label}  {plain(part)}" for label, part in parts.items())
    return f"{line}\nexit {report.exit_code}"


def elsewhere(place: Path) -> str:
    """What a command needs to find runs that do not lie in ``reports`` of the working directory."""
    parent = place.parent.absolute()
    return "" if parent == Path("reports").absolute() else f" --reports {shlex.quote(str(parent))}"


def _worth_asking(report: Report) -> str | None:
    """Find the variant that a reader will ask about: the first candidate that is no plain pass, else the chosen one."""
    candidates = [verdict for verdict in report.verdicts if verdict.role == "candidate" or verdict.control_ok is False]
    return next((verdict.variant for verdict in candidates if verdict.outcome != "pass"), report.chosen)


# ---------------------------------------------------------------------------------------------- one variant


def show_variant(report: Report, name: str) -> str:
    """Render everything the report knows of one variant. Raises ``UsageError`` for a name that is not in the report."""
    names = [line.variant for line in variant_lines(report)]
    if name not in names:
        raise UsageError(f"run {report.run_id} has no variant '{name}': it has {', '.join(names) or 'none'}")
    row = next((row for row in report.measurements if row.variant == name), None)
    verdict = next((verdict for verdict in report.verdicts if verdict.variant == name), None)
    blocks = [
        _heading(report, name, row, verdict),
        _checks(verdict),
        *([] if row is None else [_measurements(row), _proof(row), _cache(row), _ceiling(row.ceiling), _speed(row)]),
        *([] if row is None else [_beside(report, row), _failures(row)]),
        *(_quality(report, quality) for quality in report.quality if quality.variant == name),
        *(_reading(one) for one in report.readings if one.variant == name),
        _flips([flip for flip in report.flips if flip.variant == name], [one for one in report.flip_counts if one.variant == name]),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _proof(row: MeasurementRow) -> str:
    found = [textwrap.indent(_wrapped(plain(one), _TEXT_WIDTH - 2), "  ") for one in proof.sentences(row)]
    return "\n".join(["artifact", *found]) if found else ""


def _cache(row: MeasurementRow) -> str:
    found = kv.sentence(row)
    return f"cache\n{textwrap.indent(_wrapped(found, _TEXT_WIDTH - 2), '  ')}" if found else ""


def _heading(report: Report, name: str, row: MeasurementRow | None, verdict: Verdict | None) -> str:
    word = q.outcome_word("not_measured") if verdict is None else q.verdict_word(verdict)
    how = [] if row is None else [f"{row.scheme}, {row.quantizer}", *([row.note] if row.note else [])]
    first = plain(" · ".join([name, word, *how]))
    return "\n".join([first, subtitle(report), *([] if verdict is None else [_wrapped(verdict.because, _TEXT_WIDTH)])])


def _checks(verdict: Verdict | None) -> str:
    if verdict is None or not verdict.checks:
        return "checks\n  none"
    return "\n".join(["checks", *(line for check in verdict.checks for line in _check(check))])


def _check(check: Check) -> list[str]:
    tier = "" if check.tier == "required" else " (advisory)"
    waived = "" if check.waived_by is None else f", waived by {plain(check.waived_by)}"
    words = f"  {q.outcome_word(check.outcome):<13} {plain(check.name)}{tier}{waived}"
    figures = check_figures(check)
    indent = " " * 16
    because = textwrap.indent(_wrapped(check.because, _TEXT_WIDTH - 16), indent)
    return [words, because, *([textwrap.indent(_wrapped(figures, _TEXT_WIDTH - 16), indent)] if figures else [])]


def check_figures(check: Check) -> str:
    """Write a check's figures in one line, bounds rounded outward; what is unknown is left out."""
    figures = {
        "estimate": q.check_figure(check, check.estimate),
        "lower bound": q.check_figure(check, check.lower, towards="down"),
        "upper bound": q.check_figure(check, check.bound, towards="up"),
        "allowed" if q.is_quality(check) or q.is_speed(check.name) else "limit": q.check_limit(check.name, check.margin, check.scale),
        "confidence": q.level_percent(check.level),
        "p": q.p_value(check.p_value),
        "quadruples" if q.is_speed(check.name) else "items": q.count(check.n),
        "got worse": q.count(check.b),
        "got better": q.count(check.c),
    }
    return ", ".join(f"{name} {figure}" for name, figure in figures.items() if figure != q.UNKNOWN)


def _measurements(row: MeasurementRow) -> str:
    figures = {
        "weights": f"{q.decimal_bytes(row.weight_bytes)} loaded, {q.decimal_bytes(row.stored_bytes)} stored",
        "freed": f"{q.decimal_bytes(row.freed_bytes)} ({freed_share(row)})",
        "parameters": f"{q.count(row.logical_parameters)}, {q.percent(row.share_quantized)} of them quantized",
        "modules": f"{q.count(row.modules_replaced)} replaced, left: {_some(row.modules_left)}",
        "kernels": ", ".join(f"{number} x {name}" for name, number in row.kernels.items()) or q.UNKNOWN,
        "dtype": row.dtype or q.UNKNOWN,
        "process": f"{q.binary_bytes(row.process_bytes)}, file-backed {q.binary_bytes(row.file_backed_bytes)}",
        "artifact": f"{row.artifact_path or q.UNKNOWN}, sha256 {row.artifact_sha256 or q.UNKNOWN}",
        "reused": ", ".join(row.reused) or "nothing",
    }
    return _listed("measured", figures)


def _ceiling(ceiling: CeilingRow | None) -> str:
    if ceiling is None:
        return ""
    figures = {
        "predicted": q.count(ceiling.predicted)
        + ("" if ceiling.prediction_error is None else f", {q.percent(ceiling.prediction_error, digits=1)} off"),
        "confirmed": f"{q.batch_ceiling(ceiling)}, limited by {ceiling.limited_by or q.UNKNOWN}",
        "probes": q.count(ceiling.probes),
        "budget": f"{q.decimal_bytes(ceiling.budget_bytes)} ({q.binary_bytes(ceiling.budget_bytes)})",
        "fixed": q.decimal_bytes(ceiling.fixed_bytes),
        "per request": f"prefill {q.decimal_bytes(ceiling.prefill_bytes_per_row)}, "
        f"last decode step {q.decimal_bytes(ceiling.decode_bytes_per_row)}, "
        f"of which KV cache {q.decimal_bytes(ceiling.kv_bytes_per_row)}",
        **({"scoring": q.scoring_ceiling(ceiling)} if ceiling.scoring is not None else {}),
        **({"not confirmed": ceiling.why_not} if ceiling.why_not else {}),
        **({"fills": "; ".join(ceiling.notes)} if ceiling.notes else {}),
    }
    return _listed(
        f"batch ceiling at {ceiling.prompt_tokens} prompt and {ceiling.output_tokens} output tokens", figures
    )


def _speed(row: MeasurementRow) -> str:
    tables = [
        "\n".join([head, *(f"  {line}" for line in _aligned(columns, right=frozenset(columns)))]) for head, columns in timings.tables(row)
    ]
    said = [textwrap.indent(_wrapped(plain(line), _TEXT_WIDTH - 2), "  ") for line in timings.left_out(row)]
    return "\n".join([*(tables or ["speed\n  not measured"]), *said])


def _beside(report: Report, row: MeasurementRow) -> str:
    """Crossover, shares of the roofs, cost."""
    lines = speed.lines_of(report, row)
    return "\n".join(["speed against roofs, reference and price", *(f"  {plain(line)}" for line in lines)]) if lines else ""


def _failures(row: MeasurementRow) -> str:
    lines = [f"  {failure.stage}: {failure.kind}: {failure.message}" for failure in row.failures]
    return "\n".join(["did not finish", *(f"  {plain(line)}" for line in lines)]) if lines else ""


def _quality(report: Report, row: QualityRow) -> str:
    head = (
        f"quality on {plain(q.golden_label(report, row.golden_set))}: {_right(row)}, "
        f"{q.count(row.scored)} of {q.count(row.items)} items scored, {q.count(row.truncated)} truncated, "
        f"{q.count(row.output_tokens)} output tokens{_said_nothing(row)}"
    )
    parts = row.slices
    columns = {
        "slice": [plain(part.slice) for part in parts],
        "items": [q.count(part.n) for part in parts],
        "loss, in score" if row.scale == "unbounded" else "loss, points": [q.loss(part.loss, row.scale) for part in parts],
        "from": [q.loss(part.lower, row.scale, towards="down") for part in parts],
        "to": [q.loss(part.upper, row.scale, towards="up") for part in parts],
        "level": [q.level_percent(part.level) for part in parts],
        "worse": [q.count(part.b) for part in parts],
        "better": [q.count(part.c) for part in parts],
    }
    slices = _aligned(columns, right=frozenset(columns) - {"slice"}) if parts else []
    return "\n".join([head, *(f"  {line}" for line in [*_figures(row), *_divergence(row), *slices])])


def _figures(row: QualityRow) -> list[str]:
    """Each metric's own figure, where the set has any that a share of right answers does not tell."""
    return [
        f"{plain(one.metric.name)}: {q.significant(one.value)} ({plain(one.metric.unit)}; "
        f"{'lower' if one.metric.figure_lower_is_better else 'higher'} is better{'' if one.equal_weights else '; weighted'}), "
        f"{q.count(one.scored)} of {q.count(one.items)} items"
        for one in row.figures
    ]


def _right(row: QualityRow) -> str:
    """What it scores, in words."""
    if row.scale == "binary":
        return f"{q.percent(row.accuracy, digits=1)} right"
    return f"mean score {q.mean_score(row.accuracy, row.scale)}{' %' if row.scale == 'unit' and row.accuracy is not None else ''}"


def moved(flip: FlipRow) -> str:
    """How far an item moved, with its unit: its score where scores are graded, else the preference in nats."""
    if flip.reference_score is None or flip.variant_score is None:
        return f"{q.significant(flip.severity)} nats"
    return f"from {q.significant(flip.reference_score)} to {q.significant(flip.variant_score)} in score"


def _said_nothing(row: QualityRow) -> str:
    """Answers in words that are empty or read like a refusal, where there are answers in words."""
    return f", {q.count(row.empty)} empty, {q.count(row.refusals)} refusal-like" if row.texts else ""


def _divergence(row: QualityRow) -> list[str]:
    if row.kl is None:
        return [f"no KL from the reference: {plain(row.why_no_kl)}"] if row.why_no_kl else []
    return [_kl_words(row.kl)]


def _kl_words(kl: KLStatistics) -> str:
    far = "" if kl.p999 is None else f"p99.9 {q.significant(kl.p999)}, "
    change = "" if kl.rms_dp is None else f"; true token's probability moved by {q.percent(kl.rms_dp, digits=2)} (root mean square)"
    return (
        f"KL from the reference, nats: mean {q.significant(kl.mean)}, median {q.significant(kl.median)}, "
        f"p99 {q.significant(kl.p99)}, {far}largest {q.significant(kl.maximum)}; same top token "
        f"{q.percent(kl.top1_agreement, digits=1)} of {q.count(kl.positions)} positions{change}"
    )


def _reading(row: ReadingRow) -> str:
    against = "" if row.ratio_to_reference is None else f", {q.significant(row.ratio_to_reference, 4)}x the reference's"
    head = f"texts {plain(row.texts)}: perplexity {q.significant(row.perplexity, 4)} over {q.count(row.tokens)} tokens{against}"
    missing = f"no KL from the reference: {plain(row.why_no_kl)}" if row.why_no_kl else ""
    below = _kl_words(row.kl) if row.kl is not None else missing
    return f"{head}\n  {below}" if below else head


def worst_first(flips: Sequence[FlipRow]) -> list[FlipRow]:
    """Sort flips: what got worse first, and of these what moved farthest."""
    return sorted(flips, key=lambda flip: (flip.direction != "regression", -flip.severity, flip.item_id))


def _flips(flips: Sequence[FlipRow], counts: Sequence[FlipCount]) -> str:
    if not flips:
        return ""
    shown = worst_first(flips)[:10]
    every = len(flips) + sum(one.regressions + one.recoveries - one.listed for one in counts)
    head = f"flips: {q.count(every)}, the worst {len(shown)} of them" if len(flips) > len(shown) else "flips"
    return "\n".join([head, *(line for flip in shown for line in _flip(flip))])


def _flip(flip: FlipRow) -> list[str]:
    worse = flip.direction == "regression"
    return [
        f"  {'got worse' if worse else 'got better':<10} {plain(flip.item_id)} ({plain(flip.slice)}), moved {moved(flip)}",
        *(f"    {label:<10} {q.shortened(plain(text), _TEXT_WIDTH - 15)}" for label, text in _answers(flip)),
    ]


def _answers(flip: FlipRow) -> tuple[tuple[str, str], ...]:
    return (
        ("prompt", flip.prompt),
        ("right", flip.expected),
        ("reference", flip.reference_answer),
        ("variant", flip.variant_answer),
    )


# ---------------------------------------------------------------------------------------------- columns


def _cells(text: str) -> int:
    """Count the terminal cells of a text: wide letters take two, combining ones none."""
    return sum(
        0 if unicodedata.combining(letter) else 1 + (unicodedata.east_asian_width(letter) in "WF") for letter in text
    )


def _padded(text: str, width: int, right: bool) -> str:
    gap = " " * (width - _cells(text))
    return gap + text if right else text + gap


def _aligned(columns: dict[str, list[str]], *, right: frozenset[str]) -> list[str]:
    widths = {name: max(map(_cells, [name, *cells])) for name, cells in columns.items()}
    rows = [list(columns), *map(list, zip(*columns.values(), strict=True))]
    return [
        "  ".join(_padded(cell, widths[name], name in right) for name, cell in zip(columns, row, strict=True)).rstrip()
        for row in rows
    ]


def _stacked(columns: dict[str, list[str]]) -> list[str]:
    """Set one figure a line, for a terminal that is too narrow for the table."""
    label = max(map(len, columns))
    rows = zip(*columns.values(), strict=True)
    return [
        f"{name}: {cell}" if index == 0 else f"  {name:<{label}}  {cell}"
        for row in rows
        for index, (name, cell) in enumerate(zip(columns, row, strict=True))
    ]


def _listed(head: str, figures: dict[str, str]) -> str:
    label = max(map(len, figures))
    return "\n".join([head, *(f"  {name:<{label}}  {plain(figure)}" for name, figure in figures.items())])


def _wrapped(text: str, width: int) -> str:
    """Fill lines of ``width``; a percent sign stays with its number."""
    tied = plain(text).replace(" %", "\u00a0%")
    return textwrap.fill(tied, width, break_long_words=False, break_on_hyphens=False).replace("\u00a0%", " %")


def _coloured(row: str, lines: tuple[VariantLine, ...]) -> str:
    """Colour the verdict of a row; the word stays, so colour says nothing of its own."""
    for verdict in sorted({line.verdict for line in lines}, key=len, reverse=True):
        code = next((code for word, code in reversed(_COLOURS.items()) if verdict.startswith(word)), None)
        if code is not None and f"  {verdict}" in row:
            return row.replace(f"  {verdict}", f"  \x1b[{code}m{verdict}\x1b[0m", 1)
    return row


def _some(names: Sequence[str], most: int = 4) -> str:
    """Name a few modules and say how many more there are; report.json has all."""
    if len(names) <= most:
        return ", ".join(names) or "none"
    return f"{', '.join(names[:most])} and {q.count(len(names) - most)} more"
