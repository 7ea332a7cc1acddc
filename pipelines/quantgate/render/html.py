"""The page of a run: one file that a release owner can open, print and keep.

No network, no fonts from elsewhere, and one script, which filters flips; a content security policy in the page says so to the
browser and names that script by its digest. Every text goes
through ``_el``, which escapes whatever is not markup of our own, so a prompt cannot become a tag. Verdicts are words first;
border and weight repeat them for the eye. What is unknown is ``-`` with its reason where there is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from quantgate.records import (
    Check,
    CheckRule,
    DeviceInfo,
    GoldenRow,
    MeasurementRow,
    Policy,
    QualityRow,
    Report,
    Scale,
    SliceRow,
    Trend,
    Verdict,
)
from quantgate.render import (
    baseline,
    batching,
    diagnosis,
    distance,
    figures,
    flips,
    kv,
    proof,
    quantities as q,
    speculation,
    speed,
    timings,
    trend,
)
from quantgate.render.elements import (
    Cell as _Cell,
    Column as _Column,
    Html as _Html,
    el as _el,
    figure as _figure,
    fold as _fold,
    folded_text as _folded_text,
    inline as _inline,
    join as _join,
    section as _section,
    table as _table,
    with_small as _with_small,
    words as _words,
)
from quantgate.render.policy import waiver_lines
from quantgate.render.terminal import VariantLine, loss_header, promotion_line, variant_lines

# ---------------------------------------------------------------------------------------------- the page


def page(report: Report, looked_back: Trend | None = None) -> str:
    """Render the whole page as HTML text, with the nights before where there are some."""
    nights = trend.section(looked_back)
    measured = [_variants(report), _quality(report), _memory(report), _speed(report), batching.html(report), diagnosis.section(report)]
    sections = [_head(report, bool(nights)), *measured, nights, _evidence(report)]
    title = f"{report.model}: {q.outcome_word(report.outcome)} - quantgate"
    scripts = flips.policy_source() if report.flips else "'none'"
    head = _el(
        "head",
        _el("meta", charset="utf-8"),
        _el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        _Html(
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
            f"script-src {scripts}; form-action 'none'; base-uri 'none'\">"
        ),
        _el("title", q.shortened(title, 120)),
        _el("style", _Html(_STYLE + flips.STYLE)),
    )
    body = _el("body", _el("main", *sections), flips.script() if report.flips else "")
    return f'<!DOCTYPE html>\n<html lang="en">{head}{body}</html>\n'


def _badge(word: str) -> _Html:
    kinds = {"PASS": "pass", "FAIL": "fail", "INCONCLUSIVE": "inconclusive", "CONTROL": "wrong", "NOT": "missing"}
    plain = kinds.get(word.split(" ")[0].strip(","), "plain")
    kind = "control" if ", as it must" in word else "inconclusive" if "(waived)" in word else plain
    return _el("span", word, class_=f"badge {kind}")


# ---------------------------------------------------------------------------------------------- 1 verdict


def _head(report: Report, nights: bool) -> _Html:
    took = q.duration(report.seconds) if report.seconds else q.UNKNOWN
    facts = [
        ("Model", _with_small(report.model, report.model_source)),
        ("Model digest", _digest(report.fingerprint.model_sha256)),
        (
            "Golden sets",
            "; ".join(f"{row.name} {row.version}, {q.count(row.items)} items" for row in report.golden_sets),
        ),
        ("Policy", _with_small(report.policy.name, q.policy_terms(report.policy, _candidates(report)))),
        ("Device", "-" if report.device is None else _device_words(report.device)),
        ("Run", _with_small(_when(report.created_at), f"{report.run_id}, took {took}")),
    ]
    return _el(
        "header",
        _el("p", "quantgate", class_="brand"),
        _el("h1", _badge(q.outcome_word(report.outcome)), " ", report.headline),
        _promotion(report),
        _el("ul", *(_el("li", sentence) for sentence in report.sentences), class_="sentences")
        if report.sentences
        else "",
        _definitions(facts),
        _contents(report, nights),
    )


def _candidates(report: Report) -> int:
    return sum(verdict.role == "candidate" for verdict in report.verdicts)


def _promotion(report: Report) -> _Html:
    promotion = report.promotion
    if promotion is None:
        return _el("p", "No promotion was asked for.", class_="promotion none")
    where = f"{promotion.model} in the registry {promotion.registry}, alias {promotion.alias}."
    kind = "promotion" if promotion.promoted else "promotion none"
    return _el("p", promotion_line(report), _el("small", where), class_=kind)


def _contents(report: Report, nights: bool) -> _Html:
    asked = {"batching": bool(report.batching), "diagnosis": report.diagnosis is not None, "nights": nights}
    names = ("variants", "quality", "memory", "speed", *(name for name, there in asked.items() if there), "evidence")
    return _el("nav", *(_el("a", name.capitalize(), href=f"#{name}") for name in names), aria_label="Contents")


def _definitions(facts: Iterable[tuple[str, str]]) -> _Html:
    return _el("dl", *(_el("div", _el("dt", name), _el("dd", fact or q.UNKNOWN)) for name, fact in facts))


def _digest(sha256: str | None) -> str:
    return q.UNKNOWN if sha256 is None else _el("code", sha256, class_="digest")


def _when(created_at: str) -> str:
    try:
        return datetime.fromisoformat(created_at).strftime("%Y-%m-%d %H:%M UTC")
    except ValueError:
        return created_at


def _device_words(device: DeviceInfo) -> str:
    threads = f"{device.threads} thread{'' if device.threads == 1 else 's'}" if device.threads else ""
    words = [device.name, device.kind, threads, q.decimal_bytes(device.total_bytes), device.driver or ""]
    return ", ".join(word for word in words if word)


# ---------------------------------------------------------------------------------------------- 2 variants


def _variants(report: Report) -> _Html:
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


# ---------------------------------------------------------------------------------------------- 3 quality


def _quality(report: Report) -> _Html:
    parts = [_golden(report, golden, index) for index, golden in enumerate(report.golden_sets)]
    return _section("quality", "Quality", *(parts or [_el("p", "No golden set was used.")]), distance.over_texts(report))


def _golden(report: Report, golden: GoldenRow, index: int) -> _Html:
    rows = [row for row in report.quality if row.golden_set in (golden.name, f"{golden.name} {golden.version}")]
    roles = {line.variant: line.role for line in variant_lines(report)}
    reference = next((variant for variant, role in roles.items() if role == "reference"), "")
    compared = [row for row in rows if row.variant != reference]
    flipped = [flip for flip in report.flips if flip.golden_set in (golden.name, f"{golden.name} {golden.version}")]
    counts = [one for one in report.flip_counts if one.golden_set in (golden.name, f"{golden.name} {golden.version}")]
    drawing = figures.interval_figure(report, golden.name, ident=f"intervals-{index}", heading=False)
    return _join(
        [
            _el("h3", f"{golden.name} {golden.version}, {q.count(golden.items)} items"),
            _figure(drawing, figures.interval_finding(report, golden.name)),
            _answer_table(golden, rows, reference, of_files=report.device is None) if rows else _el("p", "Nothing was scored."),
            _figure_table(rows),
            _slice_table(compared, report.policy) if any(row.slices for row in compared) else "",
            distance.after_prompts([(row.variant, row.kl) for row in rows if row.kl is not None]),
            flips.flips(f"{golden.name} {golden.version}", flipped, roles, counts),
        ]
    )


def _answer_table(golden: GoldenRow, rows: Sequence[QualityRow], measured_on: str, *, of_files: bool) -> _Html:
    """``of_files``: results of other tools, which do not state what was generated; unknown is never 0."""
    reference = next((row.output_tokens for row in rows if row.variant == measured_on), None)
    columns = [
        _words("Variant"),
        _Column(_mean_header([row.scale for row in rows])),
        _Column("Scored"),
        _Column("Unscored"),
        _Column("Truncated"),
        _Column("Empty"),
        _Column("Refusal-like"),
        _Column("Output, tokens"),
        _Column("Output vs reference"),
        _Column("McNemar p"),
    ]
    cells = [
        [
            row.variant,
            q.mean_score(row.accuracy, row.scale),
            f"{q.count(row.scored)} of {q.count(row.items)}",
            q.count(row.unscored),
            q.count(row.truncated if row.output_tokens or not of_files else None),
            q.count(row.empty) if row.texts else q.UNKNOWN,
            q.count(row.refusals) if row.texts else q.UNKNOWN,
            q.count(row.output_tokens if row.output_tokens or not of_files else None),
            q.ratio(row.output_tokens / reference if reference and row.variant != measured_on else None),
            q.p_value(row.mcnemar_p),
        ]
        for row in rows
    ]
    chance = q.percent(golden.chance_level)
    caption = (
        f"Answers on {golden.name} {golden.version}; guessing gives {chance}. McNemar tests a loss of 0; neither it nor a count decides"
    )
    return _table(caption, columns, cells)


def _mean_header(scales: Sequence[Scale]) -> str:
    """What a column of answers' means is called."""
    if "unbounded" in scales:
        return "Mean score"
    return "Mean score, %" if "unit" in scales else "Right, %"
def _figure_table(rows: Sequence[QualityRow]) -> _Html:
    """Each metric's own figure; nothing where a share of right answers says it all."""
    if not any(row.figures for row in rows):
        return _Html("")
    columns = [_words("Metric"), _words("Variant"), _Column("Figure")]
    columns += [_Column("From"), _Column("To"), _words("Unit"), _words("Better"), _Column("Scored")]
    names = list(dict.fromkeys(one.metric.name for row in rows for one in row.figures))
    cells = [
        [
            one.metric.name,
            row.variant,
            *(q.significant(figure) for figure in (one.value, one.lower, one.upper)),
            one.metric.unit if one.equal_weights else f"{one.metric.unit}, weighted",
            "lower" if one.metric.figure_lower_is_better else "higher",
            f"{q.count(one.scored)} of {q.count(one.items)}",
        ]
        for name in names
        for row in rows
        for one in row.figures
        if one.metric.name == name
    ]
    return _table("Figures of each metric over the set, shares with 95 % intervals; shown, and no part of any decision", columns, cells)


def _slice_table(rows: Sequence[QualityRow], policy: Policy) -> _Html:
    scales: list[Scale] = [row.scale for row in rows]
    unit = "in score" if "unbounded" in scales else "points"
    columns = [
        _words("Slice"),
        _words("Variant"),
        _Column("Items"),
        _Column(f"Reference {_mean_header(scales)[:1].lower()}{_mean_header(scales)[1:]}"),
        _Column(_mean_header(scales)),
        _Column("Got worse"),
        _Column("Got better"),
        _Column(f"Loss, {unit}"),
        _Column(f"From, {unit}"),
        _Column(f"To, {unit}"),
        _Column("Level"),
    ]
    names = list(dict.fromkeys(part.slice for row in rows for part in row.slices))
    cells = [
        [part.slice, row.variant, *_slice_cells(part)]
        for name in names
        for row in rows
        for part in row.slices
        if part.slice == name
    ]
    named = any(rule.slices for rule in policy.checks)
    decide = "the checks above decide on those that the policy names" if named else "shown and never decided on"
    return _table(f"Slices: {len(names)} looked at, {decide}", columns, cells)


def _slice_cells(part: SliceRow) -> list[_Cell]:
    return [
        q.count(part.n),
        q.mean_score(part.reference_accuracy, part.scale),
        q.mean_score(part.accuracy, part.scale),
        q.count(part.b),
        q.count(part.c),
        q.loss(part.loss, part.scale),
        q.loss(part.lower, part.scale, towards="down"),
        q.loss(part.upper, part.scale, towards="up"),
        q.level_percent(part.level),
    ]


# ---------------------------------------------------------------------------------------------- 4 memory and the ceiling


def _memory(report: Report) -> _Html:
    reference = next((row for row in report.measurements if row.role == "reference"), None)
    chains = [chain for row in report.measurements if (chain := _chain(row, reference))]
    lengths = {(row.ceiling.prompt_tokens, row.ceiling.output_tokens) for row in report.measurements if row.ceiling}
    at = "; ".join(f"{prompt} prompt and {output} output tokens" for prompt, output in sorted(lengths))
    return _section(
        "memory",
        "Memory and the batch that fits",
        _figure(figures.memory_figure(report, heading=False), figures.memory_finding(report)),
        *chains,
        _ceiling_table(report, at) if report.measurements else _el("p", "No memory was measured."),
        kv.part(report),
        _el(
            "p",
            "KV tokens are the tokens of cache that the freed bytes hold. Predicted is arithmetic: room over what one request "
            "takes; confirmed is the largest batch that was really filled at full length, three times. The scoring batch is the ceiling of "
            "reading whole prompts for log-likelihoods.",
            class_="note",
        ),
    )


def _chain(row: MeasurementRow, reference: MeasurementRow | None) -> _Html:
    """Write a candidate's way from freed bytes to tokens per second, beside the reference's figures."""
    if row.role != "candidate" or row.freed_bytes is None or row.ceiling is None or reference is None:
        return _Html("")
    steps = [
        (f"{q.decimal_bytes(row.freed_bytes)} freed", f"{q.percent(row.freed_share)} of the weights"),
        (f"{q.count(row.kv_tokens_freed)} KV tokens", "more in the cache"),
        (
            f"batch {q.batch_ceiling(row.ceiling)}",
            f"instead of {q.batch_ceiling(reference.ceiling)}; {q.count(row.ceiling.predicted)} were predicted",
        ),
        (
            f"{q.per_s(row.tokens_per_s_at_ceiling)} tokens/s",
            f"instead of {q.per_s(reference.tokens_per_s_at_ceiling)}",
        ),
    ]
    boxes = [_el("li", _el("span", big), _el("small", small)) for big, small in steps]
    return _el("div", _el("strong", row.variant), _el("ol", *boxes), class_="chain")


def _ceiling_table(report: Report, lengths: str) -> _Html:
    unit, size = q.byte_column(tuple(row.weight_bytes for row in report.measurements))
    columns = [
        _words("Variant"),
        _Column(f"Weights, {unit}"),
        _Column(f"Freed, {unit}"),
        _Column("KV tokens freed"),
        _Column(f"Fixed, {unit}"),
        _Column(f"Room, {unit}"),
        _Column(f"A request, {unit}"),
        _Column("Batch predicted"),
        _Column("Batch confirmed"),
        _words("Limited by"),
        _Column("Probes"),
        _Column("Scoring batch"),
        _Column("Tokens/s there"),
        _Column("vs reference"),
    ]
    budgets = {row.ceiling.budget_bytes for row in report.measurements if row.ceiling and row.ceiling.budget_bytes}
    budget = "; ".join(f"{q.decimal_bytes(value)} ({q.binary_bytes(value)})" for value in sorted(budgets))
    caption = (
        "From freed bytes to tokens/s"
        + (f" at {lengths}" if lengths else "")
        + (f"; budget {budget}" if budget else "")
    )
    table = _table(caption, columns, [_ceiling_cells(row, size) for row in report.measurements], kind="ceilings")
    reasons = [
        f"{row.variant}: {row.ceiling.why_not}" for row in report.measurements if row.ceiling and row.ceiling.why_not
    ]
    fills = [f"{row.variant}: {line}" for row in report.measurements if row.ceiling for line in row.ceiling.notes]
    notes = [f"{row.variant}: {row.note}" for row in report.measurements if row.note]
    lines = [*reasons, *fills, *notes, *proof.report_lines(report)]
    return _join([table, _el("ul", *(_el("li", line) for line in lines), class_="sentences")])


def _ceiling_cells(row: MeasurementRow, size: int) -> list[_Cell]:
    ceiling = row.ceiling
    room = request = None
    if ceiling is not None and ceiling.budget_bytes is not None and ceiling.fixed_bytes is not None:
        room = ceiling.budget_bytes - ceiling.fixed_bytes
    prefill = None if ceiling is None else ceiling.prefill_bytes_per_row
    decode = None if ceiling is None else ceiling.decode_bytes_per_row or ceiling.kv_bytes_per_row
    if prefill is not None or decode is not None:
        request = max(prefill or 0, decode or 0)
    binds = "" if prefill is None or decode is None else "prefill binds" if prefill > decode else "decode binds"
    freed, error = row.freed_bytes, None if ceiling is None else ceiling.prediction_error
    return [
        row.variant,
        q.in_unit(row.weight_bytes, size),
        _with_small(q.in_unit(freed, size), "simulated" if row.freed_simulated and freed is not None else ""),
        q.count(row.kv_tokens_freed),
        q.in_unit(None if ceiling is None else ceiling.fixed_bytes, size),
        q.in_unit(room, size),
        _with_small(q.in_unit(request, size), binds),
        _with_small(q.count(None if ceiling is None else ceiling.predicted), "" if error is None else f"{q.percent(error, digits=1)} off"),
        q.batch_ceiling(ceiling),
        (ceiling.limited_by if ceiling is not None else None) or q.UNKNOWN,
        q.count(None if ceiling is None else ceiling.probes),
        q.scoring_ceiling(ceiling),
        q.per_s(row.tokens_per_s_at_ceiling),
        q.ratio(row.ratio_at_ceiling),
    ]


# ---------------------------------------------------------------------------------------------- 5 speed


def _speed(report: Report) -> _Html:
    if not any(row.speed for row in report.measurements):
        return _section("speed", "Speed", _el("p", "No speed was measured."), speculation.part(report))
    return _section(
        "speed",
        "Speed",
        speed.above_timings(report),
        timings.page(report),
        speed.below_timings(report),
        speculation.part(report),
    )


# ---------------------------------------------------------------------------------------------- 7 evidence


def _evidence(report: Report) -> _Html:
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
        ("Correction", _correction(policy, _candidates(report))),
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


_STYLE = """
:root { --ink: #1c2430; --muted: #56616e; --rule: #d7dde3; --band: #f5f7f9; --accent: #1d4f91; color-scheme: light; }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: #fff; color: var(--ink); font: 15px/1.5 system-ui, "Segoe UI", "Helvetica Neue", Arial, sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 32px 28px 72px; }
header, section { min-width: 0; }
section { margin-top: 52px; }
p, li, dd, td, th, h1, h2, h3, pre, summary, figcaption, small { unicode-bidi: isolate; overflow-wrap: anywhere; }
td, th, td small, th small { overflow-wrap: break-word; }
h1 { font-size: 26px; line-height: 1.3; font-weight: 650; letter-spacing: -0.01em; margin: 4px 0 20px; max-width: 46em; }
h2 { font-size: 20px; font-weight: 650; margin: 0 0 16px; padding-bottom: 8px; border-bottom: 2px solid var(--ink); }
h3 { font-size: 16px; font-weight: 650; margin: 32px 0 10px; }
p { margin: 10px 0; max-width: 48em; }
small { display: block; font-size: 12px; line-height: 1.35; color: var(--muted); font-weight: 400; }
a { color: var(--accent); }
code, pre { font: 12.5px/1.5 ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
pre { margin: 8px 0; padding: 10px 12px; background: var(--band); border-radius: 4px; white-space: pre-wrap; }
.brand { margin: 0; font-size: 13px; font-weight: 600; letter-spacing: 0.04em; color: var(--muted); }
.note { font-size: 13px; color: var(--muted); }
.digest { overflow-wrap: anywhere; }
.badge { display: inline-block; padding: 1px 8px; border: 1.5px solid; border-radius: 4px; font-size: 12px; line-height: 1.5;
  font-weight: 650; letter-spacing: 0.02em; max-width: 15em; }
h1 .badge { font-size: 17px; padding: 2px 12px; margin-right: 6px; vertical-align: 2px; }
.badge.pass { color: #14602b; border-color: #14602b; background: #eef7f0; }
.badge.fail { color: #fff; border-color: #98231c; background: #98231c; }
.badge.wrong { color: #fff; border-color: #5c1010; background: #5c1010; border-style: double; border-width: 4px; }
.badge.inconclusive { color: #7a4a00; border-style: dashed; background: #fff8e8; }
.badge.missing { color: #4d3a66; border-style: dotted; background: #f6f3fa; }
.badge.control { color: var(--muted); border-color: var(--muted); }
.badge.plain { color: var(--muted); border-color: transparent; padding-left: 0; font-weight: 500; }
.promotion { margin: 0 0 14px; padding: 12px 16px; border-left: 4px solid #14602b; background: var(--band); font-size: 16px; }
.promotion.none { border-left-color: var(--muted); border-left-style: double; border-left-width: 6px; }
.sentences { margin: 12px 0; padding-left: 20px; max-width: 50em; }
.sentences li { margin: 4px 0; }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 300px), 1fr)); gap: 12px 28px; margin: 18px 0; }
dl > div { min-width: 0; }
dt { font-size: 12px; color: var(--muted); }
dd { margin: 0; }
nav { display: flex; flex-wrap: wrap; gap: 4px 20px; margin-top: 24px; padding-top: 12px; border-top: 1px solid var(--rule); }
.scroll { overflow-x: auto; margin: 14px 0; }
.scroll:focus-visible, summary:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-size: 13px; color: var(--muted); padding: 0 0 8px; }
caption > span { display: inline-block; position: sticky; left: 0; max-width: min(100%, calc(100vw - 32px)); }
th, td { padding: 7px 10px; border-bottom: 1px solid var(--rule); vertical-align: top; text-align: left; }
th:first-child, td:first-child { padding-left: 0; }
th:last-child, td:last-child { padding-right: 0; }
thead th { font-size: 12px; line-height: 1.3; font-weight: 600; color: var(--muted); vertical-align: bottom;
  border-bottom: 1.5px solid var(--ink); overflow-wrap: normal; }
tbody th { font-weight: 600; }
.n { text-align: right; white-space: nowrap; overflow-wrap: normal; }
thead .n { white-space: normal; }
.w { min-width: 5.5em; }
.variants th.w { min-width: 8.5em; }
.variants .w:nth-child(2) { min-width: 12.6em; }
.variants tr > :last-child { padding-right: 0 !important; }
.artifacts td:last-child, .artifacts td:last-child small { min-width: 16em; overflow-wrap: anywhere; }
td.w { max-width: 26em; }
.variants td, .variants tbody th { vertical-align: middle; }
.variants svg { display: block; width: 156px; height: auto; }
.variants th:not(:first-child), .variants td { padding-left: 7px; padding-right: 7px; }
.checks td:last-child { min-width: 16em; }
.checks td:nth-child(3) { white-space: nowrap; }
.flips td:nth-child(4) { min-width: 15em; }
.flips tbody th, .flips td:nth-child(2) { min-width: 7em; }
figure { margin: 20px 0; }
figcaption { font-weight: 650; margin-bottom: 8px; }
.drawing svg { display: block; width: 100%; min-width: 560px; max-width: 800px; height: auto; }
.chain { display: flex; flex-wrap: wrap; align-items: center; gap: 6px 16px; margin: 12px 0; }
.chain strong { min-width: 4.5em; }
.chain ol { display: flex; flex-wrap: wrap; gap: 8px 0; list-style: none; margin: 0; padding: 0; }
.chain li { padding: 6px 14px; background: var(--band); border-radius: 4px; }
.chain li + li { margin-left: 34px; position: relative; }
.chain li + li::before { content: "\\2192"; position: absolute; left: -25px; top: 10px; color: var(--muted); }
.chain li > span { font-weight: 600; }
details { margin: 12px 0; }
td details { margin: 0; }
summary { cursor: pointer; }
section > details > summary, section > details > details > summary { font-weight: 600; }
.text { white-space: pre-wrap; }
.mark { display: block; width: fit-content; margin-top: 2px; padding: 0 6px; border: 1px solid var(--rule); border-radius: 3px;
  font-size: 11.5px; color: var(--muted); }
.mark.right { border-color: var(--ink); color: var(--ink); font-weight: 650; }
@media screen and (max-width: 760px) {
  main { padding: 20px 16px 48px; }
  h1 { font-size: 21px; }
  .stack thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  .stack, .stack caption, .stack tbody, .stack tr, .stack th, .stack td { display: block; width: auto; }
  .stack tr { padding: 12px 0; border-bottom: 1.5px solid var(--ink); }
  .stack tbody th { font-size: 15px; border: 0; padding: 0 0 6px; }
  .stack td { display: grid; grid-template-columns: 9.5em minmax(0, 1fr); gap: 0 12px; border: 0; padding: 3px 0; max-width: none;
    text-align: left; white-space: normal; min-width: 0; }
  .stack td::before { content: attr(data-label); color: var(--muted); font-size: 12.5px; }
  .stack td > small, .stack td > .mark { grid-column: 2; justify-self: start; }
  .stack td > .badge { justify-self: start; }
  .checks td.none, .flips td.none { display: none; }
  .chain li + li { margin-left: 0; }
  .chain ol { flex-direction: column; gap: 22px 0; width: 100%; }
  .chain li + li::before { content: "\\2193"; left: 14px; top: -22px; }
}
@media print {
  @page { size: A4; margin: 14mm 12mm; }
  body { font-size: 9.5pt; }
  main { max-width: none; padding: 0; }
  nav { display: none; }
  section { margin-top: 22pt; }
  h1 { font-size: 16pt; }
  h2 { font-size: 13pt; }
  h2, h3, caption, figcaption, summary { break-after: avoid; page-break-after: avoid; }
  tr, figure, .chain, dl > div { break-inside: avoid; page-break-inside: avoid; }
  thead { display: table-header-group; }
  table { font-size: 7.8pt; }
  thead th, small, caption { font-size: 7pt; }
  th, td { padding: 3pt 4pt; }
  .scroll { overflow: visible; }
  .w, .variants th.w, .variants .w:nth-child(2) { min-width: 0; }
  .checks td:last-child, .flips td:nth-child(4) { min-width: 10em; }
  .variants svg { width: 84px; }
  .variants th:not(:first-child), .variants td { padding-left: 2pt; padding-right: 2pt; }
  .promotion { font-size: 11pt; }
  .note { font-size: 8pt; }
  .mark { font-size: 7pt; }
  .badge { font-size: 7pt; padding: 0 4px; }
  .drawing svg { min-width: 0; max-width: 165mm; }
  details::details-content { display: block; content-visibility: visible; }
  pre { font-size: 7.5pt; }
  * { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
}
"""
