"""Evidence and decision -> ``Report``: derive the figures a reader wants, once, so that every rendering shows the same.

Nothing is decided here and nothing is read or written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, isfinite
from statistics import fmean, median

from quantgate.answers import is_empty, is_refusal
from quantgate.records import (
    MAIN,
    BaselineReport,
    Capacity,
    CeilingRow,
    Check,
    Decision,
    Evidence,
    FlipCount,
    FlipRow,
    GoldenItem,
    GoldenRow,
    GoldenSet,
    ItemScore,
    MeasurementRow,
    MetricFigure,
    ModelSource,
    Policy,
    Promotion,
    QualityRow,
    ReadingRow,
    Report,
    ScoreSheet,
    SliceRow,
    TextReading,
    VariantEvidence,
)
from quantgate.render.policy import waiver_lines
from quantgate.render.quantities import count, decimal_bytes, ratio
from quantgate.stages import baseline, batching_figures, noise, speculation, speed_figures, timings
from quantgate.stages.canary import LEFT_OUT
from quantgate.stages.cost import cost
from quantgate.stages.diagnose import examine
from quantgate.stages.figures import worth_showing
from quantgate.stages.gate import EXIT_CODES
from quantgate.stages.pairing import Meaning, meaning, paired_items
from quantgate.stages.speed import floor_sentences
from quantgate.stages.subject import one_line
from quantgate.stats.graded import decide_scores
from quantgate.stats.paired import loss_lower, loss_upper
from quantgate.stats.proportions import mcnemar_exact, wilson

LARGEST_EXPONENT = 700.0
MOST_FLIPS = 1_000
"""Flips of a variant on a golden set that a report lists; graded scores may all change a little."""
COLD_START = 2.0
"""A first timed generation this many times the median was not warm."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """What surrounds the evidence: the run's identity, the questions, and what was asked for."""

    run_id: str
    created_at: str
    model: ModelSource
    golden_sets: tuple[GoldenSet, ...]
    policy: Policy
    commands: tuple[str, ...]
    seconds: float


def build(context: Context, evidence: Evidence, decision: Decision, promotion: Promotion | None) -> Report:
    """The whole report. ``exit_code`` follows from the decision alone, whatever happened to sinks and registry."""
    reference = next(one for one in evidence.variants if one.variant.role == "reference")
    flips = list(_flips(evidence, reference, context))
    compared, batched = baseline.compared(evidence), batching_figures.rows_of(evidence.batching)
    drafted = speculation.rows(evidence.speculation, reference.capacity)
    said = (*_sentences(decision, evidence, context, compared), *batching_figures.sentences(batched), *(row.sentence for row in drafted))
    return Report(
        run_id=context.run_id,
        created_at=context.created_at,
        model=context.model.name,
        model_source=_source(context.model, reference),
        model_note=_note(reference),
        device=reference.device,
        outcome=decision.outcome,
        exit_code=EXIT_CODES[decision.outcome],
        headline=_sentence(decision.because),
        sentences=(*said, *speed_figures.sentences(evidence)),
        verdicts=decision.verdicts,
        chosen=decision.chosen,
        measurements=tuple(_measurement(one, reference, evidence, context.policy.alpha) for one in evidence.variants),
        quality=tuple(_quality(evidence, reference, context)),
        flips=tuple(flip for found in flips for flip in found[:MOST_FLIPS]),
        flip_counts=tuple(_flip_count(found) for found in flips if len(found) > MOST_FLIPS),
        golden_sets=tuple(_golden(one, reference, evidence) for one in context.golden_sets),
        policy=context.policy,
        policy_sha256=decision.policy_sha256,
        evidence_sha256=decision.evidence_sha256,
        fingerprint=evidence.fingerprint,
        promotion=promotion,
        commands=context.commands,
        seconds=context.seconds,
        readings=tuple(_readings(evidence, reference)),
        baseline=compared,
        diagnosis=examine(evidence, decision.verdicts),
        batching=batched,
        speculation=drafted,
        roofs=evidence.roofs,
        price=evidence.price,
        budget=evidence.budget,
    )


def _source(model: ModelSource, reference: VariantEvidence) -> str:
    if reference.source == "file":
        return f"results {model.path}"
    if model.hub is not None:
        return f"hub {model.hub} at {model.revision}"
    if model.package is not None:
        return f"Python package {model.package}"
    return f"folder {model.path}"


def _sentences(decision: Decision, evidence: Evidence, context: Context, compared: BaselineReport | None) -> Iterator[str]:
    """One sentence for each verdict that is worth reading aloud, then what did not finish, then what else a reader must know."""
    for verdict in decision.verdicts:
        if verdict.role != "reference" or verdict.outcome != "pass":
            yield _sentence(f"{verdict.variant} {verdict.because}")
    said = {verdict.variant: verdict.because for verdict in decision.verdicts}
    for one in evidence.variants:
        for failure in one.failures:
            message = one_line(failure.message)
            if message not in said[one.variant.name]:
                yield _sentence(f"{one.variant.name}: {failure.stage} did not finish ({failure.kind}): {message}")
    for verdict in decision.verdicts:
        for check in verdict.checks:
            if check.tier == "advisory" and check.outcome != "pass" and not _is_small_slice(check) and check.because != LEFT_OUT:
                which = f": {check.name}" if check.outcome == "not_measured" else ""  # its words alone do not tell one from another
                yield _sentence(f"{verdict.variant}{which} {check.because}. This is advisory and decides nothing")
    passing = {verdict.variant for verdict in decision.verdicts if verdict.outcome == "pass"}
    for line in waiver_lines(context.policy, decision.verdicts, context.created_at):
        if line.state != "used" or line.waiver.variant not in passing:  # a verdict that passes has said it
            yield _sentence(line.sentence)
    yield from baseline.sentence(compared)
    reference = next(one for one in evidence.variants if one.variant.role == "reference")
    yield from noise.sentences(evidence, reference)
    for one in (each for each in evidence.variants if each.variant.role == "identity"):
        yield from floor_sentences(one, reference, context.policy)
    for one in evidence.variants:
        yield from _early_stops(one)
        yield from _cold_starts(one)


def _early_stops(one: VariantEvidence) -> Iterator[str]:
    """Where scoring ended before the last item, and why."""
    for sheet in one.sheets:
        if (stop := sheet.stopped) is not None:
            asked = f"{count(stop.asked)} of {count(stop.items)} items of {sheet.golden_set}"
            yield f"{one.variant.name}: scoring stopped after {asked}: {one_line(stop.because)}. The others were not asked."


def _is_small_slice(check: Check) -> bool:
    """A slice that was only looked at and resolves nothing, as small ones do: it stands in the tables."""
    return check.name.startswith("quality/") and check.name.count("/") > 1 and check.outcome == "inconclusive"


def _sentence(text: str) -> str:
    """With its full stop, and one only."""
    return text if text.endswith(("!", "?")) else f"{text.rstrip('. ')}."


def _cold_starts(one: VariantEvidence) -> Iterator[str]:
    """A first timed generation far from the others: the warm-ups did not cover it."""
    timed = [] if one.speed is None else [each for each in one.speed.generations if not each.warmup and each.step_s]
    for batch_size in sorted({each.batch_size for each in timed if each.workload == MAIN}):
        walls = [each.step_s[-1] for each in timed if each.batch_size == batch_size and each.workload == MAIN]
        if walls[0] > COLD_START * median(walls):
            yield (
                f"{one.variant.name}: the first timed generation at batch {batch_size} took {ratio(walls[0] / median(walls))} the "
                "median; give it more warm-ups."
            )


# ---------------------------------------------------------------------------------------------- measurements


def _measurement(one: VariantEvidence, reference: VariantEvidence, evidence: Evidence, alpha: float) -> MeasurementRow:
    one, reference, roofline = speed_figures.without_faults(one, reference, evidence.roofs)
    loaded, artifact = one.loaded, one.artifact
    weight, freed, simulated = _memory(one, reference)
    base = None if reference.loaded is None else reference.loaded.weight_bytes
    there, reference_there = one.tokens_per_s_at_ceiling, reference.tokens_per_s_at_ceiling
    speed, other_speed = ((), ()) if one.speed is None else timings.rows(one.speed, alpha)
    own = timings.at_ceiling(one, reference, alpha)
    paired = None if own is None else own.ratio_to_reference
    return MeasurementRow(
        variant=one.variant.name,
        role=one.variant.role,
        scheme="not known" if one.source == "file" and one.loaded is None else one.variant.scheme,
        quantizer=one.variant.quantizer,
        artifact_path=None if artifact is None else artifact.path,
        artifact_sha256=None if artifact is None else artifact.sha256,
        stored_bytes=None if artifact is None else artifact.stored_bytes,
        weight_bytes=weight,
        freed_bytes=freed,
        freed_share=freed / base if freed is not None and base else None,
        freed_simulated=simulated,
        logical_parameters=None if loaded is None else loaded.logical_parameters,
        share_quantized=None if loaded is None else loaded.share_quantized,
        modules_replaced=None if loaded is None else loaded.modules_replaced,
        modules_left=() if loaded is None else loaded.modules_left,
        kernels={} if loaded is None else loaded.kernels,
        dtype=None if loaded is None else loaded.dtype,
        process_bytes=None if loaded is None else loaded.process_bytes,
        file_backed_bytes=None if loaded is None else loaded.file_backed_bytes,
        ceiling=None if one.capacity is None else _ceiling(one.capacity),
        speed=speed,
        tokens_per_s_at_ceiling=there,
        ratio_at_ceiling=paired or (there / reference_there if there and reference_there and one is not reference else None),
        note=_note(one),
        failures=one.failures,
        reused=one.reused,
        proof=None if artifact is None else artifact.proof,
        other_speed=other_speed,
        speed_left_out=() if one.speed is None else one.speed.left_out,
        at_ceiling=own,
        kv_cache=None if loaded is None else loaded.kv_cache,
        kv_bytes=None if loaded is None else loaded.kv_bytes,
        roofline=roofline,
        cost=cost(one, reference, evidence.price),
        crossover=None if one is reference or one.speed is None else speed_figures.crossover_of(speed),
        build_s=None if artifact is None else artifact.build_s,
    )


def _note(one: VariantEvidence) -> str:
    """What a reader must know of the model, or where its scores came from."""
    if one.artifact is not None:
        return one.artifact.note
    return f"scores from {(one.variant.options or {}).get('file')}" if one.source == "file" else ""


def _memory(one: VariantEvidence, reference: VariantEvidence) -> tuple[int | None, int | None, bool]:
    """Weight bytes, bytes freed against the reference (None for the reference itself), and whether they are arithmetic only."""
    simulated = one.artifact is not None and one.artifact.simulated
    if simulated and one.artifact is not None:
        weight = one.artifact.simulated_weight_bytes
    else:
        weight = None if one.loaded is None else one.loaded.weight_bytes
    if one is reference or weight is None or reference.loaded is None:
        return weight, None, simulated
    return weight, reference.loaded.weight_bytes - weight, simulated


def fill_notes(found: Capacity) -> tuple[str, ...]:
    """What a reader must know of the fills: batches that fitted and then did not, and memory that was held and of no use."""
    said = []
    if found.unsteady:
        batches = " and ".join(str(batch) for batch in found.unsteady)
        said.append(
            f"batch {batches} fitted in one fill and not in another: memory was in pieces, or something else took some; the ceiling is the "
            "largest batch that held every time"
        )
    row = max(found.prefill_bytes_per_row or 0, found.decode_bytes_per_row or 0, found.kv_bytes_per_row or 0)
    if row and (found.stranded_bytes or 0) >= row:
        said.append(
            f"{decimal_bytes(found.stranded_bytes)} were reserved and could not be used when a fill ran out of memory: the allocator's "
            "blocks are fragmented; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True often helps"
        )
    return tuple(said)


def _ceiling(capacity: Capacity) -> CeilingRow:
    return CeilingRow(
        predicted=capacity.predicted,
        confirmed=capacity.confirmed,
        limited_by=capacity.limited_by,
        probes=capacity.probe_count,
        prompt_tokens=capacity.prompt_tokens,
        output_tokens=capacity.output_tokens,
        budget_bytes=capacity.budget_bytes,
        fixed_bytes=capacity.fixed_bytes,
        prefill_bytes_per_row=capacity.prefill_bytes_per_row,
        decode_bytes_per_row=capacity.decode_bytes_per_row,
        kv_bytes_per_row=capacity.kv_bytes_per_row,
        why_not=capacity.why_not,
        prediction_error=capacity.prediction_error,
        scoring=None if capacity.scoring is None else capacity.scoring.confirmed,
        scoring_limited_by=None if capacity.scoring is None else capacity.scoring.limited_by,
        notes=fill_notes(capacity),
    )


# ---------------------------------------------------------------------------------------------- quality


Both = tuple[ItemScore | None, ItemScore | None]
"""An item as the reference and as a variant answered it; None where one of them did not."""


def _quality(evidence: Evidence, reference: VariantEvidence, context: Context) -> Iterator[QualityRow]:
    for one in evidence.variants:
        for sheet in one.sheets:
            base = _sheet_of(reference, sheet)
            found = _meaning(base or sheet, sheet, context.policy, foreign=one.source == "file")
            paired = [] if base is None or one is reference or found is None else _all_items(base, sheet)
            yield QualityRow(
                variant=one.variant.name,
                golden_set=sheet.golden_set,
                items=len(sheet.items),
                scored=len(sheet.scored),
                accuracy=sheet.mean if found is not None else None,
                truncated=sum(item.evidence.truncated for item in sheet.items),
                output_tokens=sheet.output_tokens,
                unscored=len(sheet.items) - len(sheet.scored),
                kl=sheet.kl,
                mcnemar_p=_mcnemar(paired, found),
                slices=() if found is None else tuple(_slices(sheet, base, paired, (context.policy.alpha, found))),
                scale="binary" if found is None else found.scale,
                figures=tuple(map(with_interval, sheet.figures)) if worth_showing(sheet.figures) else (),
                asked=None if sheet.stopped is None else sheet.stopped.asked,
                why_no_kl=sheet.why_no_kl,
                **_words(sheet),
            )


def _meaning(base: ScoreSheet, sheet: ScoreSheet, policy: Policy, *, foreign: bool) -> Meaning | None:
    """What a sheet's scores are by the first quality rule of its set under which they are anything; None where they fit none."""
    rules = [rule for rule in policy.checks if rule.kind == "quality" and rule.golden_set in ("*", sheet.golden_set)]
    every = (meaning(base, sheet, rule, foreign=foreign) for rule in (*rules, None))
    return next((one for one in every if isinstance(one, Meaning)), None)


def with_interval(figure: MetricFigure) -> MetricFigure:
    """A share of right answers with its interval; any other figure as it is. Weights that differ have no such interval."""
    if figure.value is None or figure.metric.scale != "binary" or not figure.equal_weights:
        return figure
    found = wilson(k=round(figure.value * figure.scored), n=figure.scored, alpha=0.05)
    return replace(figure, lower=found.lower, upper=found.upper)


def _words(sheet: ScoreSheet) -> dict[str, int]:
    """How many items were answered in words, and of these how many say nothing or read like a refusal."""
    said = [item.evidence.text for item in sheet.items if item.evidence.text is not None]
    return {"texts": len(said), "empty": sum(map(is_empty, said)), "refusals": sum(map(is_refusal, said))}


def _readings(evidence: Evidence, reference: VariantEvidence) -> Iterator[ReadingRow]:
    """Each variant over the texts, its perplexity beside the reference's where both read the same tokens."""
    base = reference.reading
    for one in evidence.variants:
        if (read := one.reading) is None:
            continue
        same = base is not None and one is not reference and _same_tokens(base, read)
        nats, theirs = read.nats, None if base is None else base.nats
        known = same and nats is not None and theirs is not None and read.scored_tokens
        yield ReadingRow(
            variant=one.variant.name,
            texts=read.texts,
            count=len(read.items),
            tokens=read.scored_tokens,
            cut=read.cut,
            tokens_per_text=read.tokens_per_text,
            perplexity=read.perplexity,
            ratio_to_reference=_ratio_of(nats, theirs, read.scored_tokens) if known else None,
            kl=read.kl,
            why_no_kl=read.why_no_kl,
            reference=read.reference,
        )


def _same_tokens(base: TextReading, read: TextReading) -> bool:
    return base.sha256 == read.sha256 and [one.scored_tokens for one in base.items] == [one.scored_tokens for one in read.items]


def _ratio_of(nats: float | None, theirs: float | None, tokens: int) -> float | None:
    """Quotient of two perplexities over the same tokens; None where it is too large for a number."""
    if nats is None or theirs is None or abs(nats - theirs) / tokens > LARGEST_EXPONENT:
        return None
    return exp((nats - theirs) / tokens)


def _sheet_of(one: VariantEvidence, like: ScoreSheet) -> ScoreSheet | None:
    return next((sheet for sheet in one.sheets if sheet.golden_sha256 == like.golden_sha256), None)


def _all_items(reference: ScoreSheet, variant: ScoreSheet) -> list[Both]:
    """Every item that either side has: one that crashed and vanished is shown as the gate counts it, one that was not asked is not."""
    left, right = ({item.item_id: item for item in sheet.items} for sheet in (reference, variant))
    return [(left.get(one), right.get(one)) for one in (right if variant.stopped is not None else {**left, **right})]


def _mcnemar(paired: Sequence[Both], found: Meaning | None) -> float | None:
    if not paired or found is None or found.scale != "binary":
        return None
    b, c = _counts(paired, found)
    return mcnemar_exact(b=b, c=c).two_sided


def _counts(paired: Sequence[Both], found: Meaning) -> tuple[int, int]:
    """Regressions and recoveries, missing answers counted as the gate counts them."""
    losses = [found.loss(*(None if one is None else one.value for one in both)) for both in paired]
    return sum(one > 0 for one in losses), sum(one < 0 for one in losses)


def _slices(
    sheet: ScoreSheet, base: ScoreSheet | None, paired: Sequence[Both], by: tuple[float, Meaning | None]
) -> Iterator[SliceRow]:
    """Slices are shown with bounds at alpha / k over the k slices looked at; they decide nothing."""
    alpha, found = by
    names = list(dict.fromkeys([_slice(both) for both in paired] or [item.slice for item in sheet.items]))
    level = alpha / max(1, len(names))
    for name in names:
        pairs = [both for both in paired if _slice(both) == name]
        n = len(pairs) or sum(item.slice == name for item in sheet.items)
        if found is not None and found.scale != "binary":
            yield _graded_slice(name, (base, sheet), pairs, found, level)
            continue
        b, c = (0, 0) if found is None else _counts(pairs, found)
        yield SliceRow(
            slice=name,
            n=n,
            reference_accuracy=None if base is None else _accuracy(base, name),
            accuracy=_accuracy(sheet, name),
            b=b,
            c=c,
            loss=(b - c) / n if pairs else None,
            lower=loss_lower(b=b, c=c, n=n, alpha=level) if pairs else None,
            upper=loss_upper(b=b, c=c, n=n, alpha=level) if pairs else None,
            level=1 - level,
        )


def _graded_slice(
    name: str, sheets: tuple[ScoreSheet | None, ScoreSheet], pairs: Sequence[Both], found: Meaning, level: float
) -> SliceRow:
    """Bounds by the rule that decides on graded scores; of unbounded ones only items that both sides have are looked at."""
    scores = [tuple(None if one is None else one.value for one in both) for both in pairs]
    if found.scale == "unbounded":
        scores = [both for both in scores if None not in both]
    losses = [found.loss(*both) for both in scores]
    bounds = (
        decide_scores(losses=losses, margin=0.5, alpha=level, bounded=found.scale == "unit").decision if losses else None
    )
    base, sheet = sheets
    return SliceRow(
        slice=name,
        n=len(losses) or sum(item.slice == name for item in sheet.items),
        reference_accuracy=None if base is None else _accuracy(base, name),
        accuracy=_accuracy(sheet, name),
        b=sum(one > 0 for one in losses),
        c=sum(one < 0 for one in losses),
        loss=fmean(losses) if losses else None,
        lower=None if bounds is None or not isfinite(bounds.lower) else bounds.lower,
        upper=None if bounds is None or not isfinite(bounds.upper) else bounds.upper,
        level=1 - level,
        scale=found.scale,
    )


def _slice(both: Both) -> str:
    item = both[0] or both[1]
    return "" if item is None else item.slice


def _accuracy(sheet: ScoreSheet, name: str) -> float | None:
    values = [item.value for item in sheet.scored if item.slice == name and item.value is not None]
    return sum(values) / len(values) if values else None


def _flips(evidence: Evidence, reference: VariantEvidence, context: Context) -> Iterator[list[FlipRow]]:
    """The flips of each variant and golden set, regressions first, and of these first where the right choice lost most to the others."""
    for one in evidence.variants:
        if one is reference:
            continue
        for golden in context.golden_sets:
            yield _flips_of(one, reference, golden, context.policy)


def _flip_count(found: Sequence[FlipRow]) -> FlipCount:
    worse = sum(flip.direction == "regression" for flip in found)
    return FlipCount(
        variant=found[0].variant,
        golden_set=found[0].golden_set,
        regressions=worse,
        recoveries=len(found) - worse,
        listed=MOST_FLIPS,
    )


def _flips_of(one: VariantEvidence, reference: VariantEvidence, golden: GoldenSet, policy: Policy) -> list[FlipRow]:
    sheet = next((sheet for sheet in one.sheets if sheet.golden_sha256 == golden.sha256), None)
    base = None if sheet is None else _sheet_of(reference, sheet)
    found = None if sheet is None or base is None else _meaning(base, sheet, policy, foreign=one.source == "file")
    if sheet is None or base is None or found is None:
        return []
    graded = found.scale != "binary"
    items: Mapping[str, GoldenItem] = {item.item_id: item for item in golden.items}
    rows = [
        FlipRow(
            variant=one.variant.name,
            golden_set=golden.name,
            item_id=right.item_id,
            slice=right.slice,
            prompt=items[right.item_id].few_shot + items[right.item_id].prompt if right.item_id in items else "",
            expected=right.expected,
            reference_answer=left.answered,
            variant_answer=right.answered,
            direction="regression" if found.loss(left.value, right.value) > 0 else "recovery",
            severity=abs(right.value - left.value) if graded else _severity(left, right, items.get(right.item_id)),
            reference_score=left.value if graded else None,
            variant_score=right.value if graded else None,
        )
        for left, right in paired_items(base, sheet)
        if left.value is not None and right.value is not None and left.value != right.value
    ]
    return sorted(rows, key=lambda row: (row.direction == "recovery", -row.severity))


def _severity(left: ItemScore, right: ItemScore, item: GoldenItem | None) -> float:
    """How far the lead of the right choice over the best wrong one moved, in nats; 0 without log-likelihoods of all choices.

    Where the right choice is not known, as in results of other tools: the largest change of a choice against the mean change of all.
    """
    pairs = list(zip(left.evidence.loglikelihoods, right.evidence.loglikelihoods, strict=False))
    both = [(a, b) for a, b in pairs if a is not None and b is not None]
    at = None if item is None else item.answer
    if at is not None and 0 <= at < len(both) == len(pairs) > 1:
        before, after = _lead([a for a, _ in both], at), _lead([b for _, b in both], at)
        return abs(before - after)
    changes = [b - a for a, b in both]
    mean = sum(changes) / len(changes) if changes else 0.0
    return max((abs(change - mean) for change in changes), default=0.0)


def _lead(values: Sequence[float], at: int) -> float:
    return values[at] - max(value for place, value in enumerate(values) if place != at)


def _golden(golden: GoldenSet, reference: VariantEvidence, evidence: Evidence) -> GoldenRow:
    sheet = next((one for one in reference.sheets if one.golden_sha256 == golden.sha256), None)
    known = next(one for one in evidence.golden_sets if one.sha256 == golden.sha256)
    return GoldenRow(
        name=golden.name,
        version=golden.version,
        sha256=golden.sha256,
        items=len(golden.items),
        slices=golden.slices,
        chance_level=known.chance_level,
        first_prompt="" if sheet is None else sheet.first_prompt,
    )
