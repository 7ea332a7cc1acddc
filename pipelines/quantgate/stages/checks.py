"""The checks of a policy other than quality, one function a kind, each from evidence to a ``Check`` with its sentence. Pure.

A check never passes on what is missing or broken: each function first asks whether its evidence is there, possible and comparable, and a
demand that cannot be looked at becomes a check that is not measured, never one that is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import inf, isfinite

from quantgate.records import (
    Check,
    CheckRule,
    CostRow,
    GoldenReference,
    ItemEvidence,
    KLStatistics,
    Loaded,
    Outcome,
    ScoreSheet,
    TextReading,
    VariantEvidence,
)
from quantgate.render.quantities import Towards, check_limit, count, fixed, money, percent, significant
from quantgate.stages import batching_figures
from quantgate.stages.cost import cost
from quantgate.stages.lever_checks import SPECULATION, lever_checks
from quantgate.stages.quadruples import KINDS
from quantgate.stages.speed_figures import without_faults
from quantgate.stages.subject import Subject, one_line, sheet_of

LENGTH_FROM_TOKENS = 16
"""Mean output of the reference from which an output-length ratio says anything."""
KL_FROM_POSITIONS = 100
KL_P999_FROM_POSITIONS = 10_000
"""Positions under which a mean divergence is no statistic."""
_KL_ROUNDING = -1e-6
"""A mean divergence is never negative; this much comes from float32 logits."""


# ---------------------------------------------------------------------------------------------- always asked


def demands(subject: Subject) -> list[Check]:
    """What is wrong with the policy's own demands: with none, or with a divergence alone, nothing could be shown. Else nothing."""
    kinds = {rule.kind for rule in subject.policy.checks if rule.tier != "advisory"}
    if not kinds:
        return [_plain("demands", "not_measured", "is not measured: the policy has no required check")]
    if kinds <= _DISTRIBUTIONS.keys():
        because = "is not shown to be good enough: a divergence says how much changed and not which way. Add a quality check to the policy"
        return [_plain("demands", "inconclusive", because)]
    return []


def ran(subject: Subject) -> Check:
    """Every stage of the variant finished. Of scores that another tool wrote only that there are some can be asked."""
    failures = [one for one in subject.variant.failures if not one.numerical]
    if failures:
        because = f"could not be measured: {failures[0].stage} did not finish ({failures[0].kind}): {one_line(failures[0].message)}"
        return _plain("ran", "not_measured", because)
    if subject.variant.source == "file":
        if not any(sheet.items for sheet in subject.variant.sheets):
            return _plain("ran", "not_measured", "is not measured: its results hold no item of the reference's tasks")
        return _plain("ran", "pass", "was scored by another tool")
    if subject.variant.artifact is None or subject.variant.loaded is None:
        return _plain("ran", "not_measured", "could not be measured: it was never built and loaded")
    return _plain("ran", "pass", "was built, loaded and measured")


def finite(subject: Subject) -> Check:
    """No NaN and no infinity in what the variant computed. In a variant that is a fail: the session saw it happen."""
    numerical = next((one for one in subject.variant.failures if one.numerical), None)
    if numerical is not None:
        return _plain("finite", "fail", f"is numerically invalid: {one_line(numerical.message)}")
    bad = [(sheet, item) for sheet in subject.variant.sheets for item in sheet.items if item.evidence.nonfinite]
    if bad:
        sheet, item = bad[0]
        items = "1 item" if len(bad) == 1 else f"{count(len(bad))} items"
        where = f"{items} gave NaN or infinity, the first is item {item.item_id} of the set {sheet.golden_set}"
        if subject.variant.source == "file":
            return _plain("finite", "not_measured", f"is not measured: {where}; nobody saw here how that came about")
        return _plain("finite", "fail", f"is numerically invalid: {where}")
    if not subject.variant.sheets:
        return _plain("finite", "not_measured", "was not scored, so nothing says that its numbers are finite")
    odd = next(
        (item for sheet in subject.variant.sheets for item in sheet.items if not _all_finite(item.evidence)), None
    )
    if odd is not None:
        because = (
            f"is not measured: item {odd.item_id} holds a number that is not finite and that its session did not report"
        )
        return _plain("finite", "not_measured", because)
    return _plain("finite", "pass", "gave finite numbers throughout")


def _all_finite(evidence: ItemEvidence) -> bool:
    first = evidence.first_token_logprob
    return all(one is not None and isfinite(one) for one in evidence.loglikelihoods) and (
        first is None or isfinite(first)
    )


def distinct(subject: Subject) -> Check:
    """The variant is not another one under its name: neither its weights nor a set's raw log-likelihoods are bit-equal to another's."""
    loaded = subject.variant.loaded
    if subject.variant.source == "file" and loaded is None:
        return _distinct_in_scores(subject)
    if loaded is None:
        return _plain(
            "distinct", "not_measured", "was not loaded, so its weights are not known to differ from the reference's"
        )
    if not loaded.weights_sha256:
        return _plain(
            "distinct",
            "not_measured",
            "has no digest of its weights, so they are not known to differ from the reference's",
        )
    for other in subject.others:
        if other.loaded is not None and _as_served(other.loaded) == _as_served(loaded):
            return _same(other, "its weights as loaded are bit-equal with those")
        if _raw(subject.variant) & _raw(other):
            return _same(other, "all its raw log-likelihoods on a golden set are bit-equal with those")
    what = "its weights" if loaded.kv_cache is None else "its weights or its cache, and in what it answers"
    return _plain("distinct", "pass", f"differs from the reference and from every other variant in {what}")


def _as_served(loaded: Loaded) -> tuple[object, ...]:
    """The same weights with a cache in other bits are another variant; raw log-likelihoods must show it all the same."""
    return loaded.weights_sha256, loaded.kv_cache


def _distinct_in_scores(subject: Subject) -> Check:
    """Nothing is known of the weights: only raw log-likelihoods can tell, as two models may well have equal scores."""
    raw, own = _raw(subject.variant), _file_digest(subject.variant)
    for other in subject.others:
        if raw & _raw(other):
            return _same(other, "all its raw log-likelihoods on a golden set are bit-equal with those")
        if own is not None and _file_digest(other) == own:
            because = f"is refused: its file is that of {other.variant.name}, byte for byte; name the variant's own results"
            return _plain("distinct", "not_measured", because)
    what = "differs from the others in its raw log-likelihoods" if raw else "has scores alone, and equal ones are no reason to refuse it"
    return _plain("distinct", "pass", f"{what}; its weights are not known")


def _file_digest(one: VariantEvidence) -> object:
    """The digest of the file that scores came from; None where they come from elsewhere."""
    return (one.variant.options or {}).get("sha256") if one.source == "file" else None


def _same(other: VariantEvidence, what: str) -> Check:
    because = f"is refused: {what} of {other.variant.name}; quantization was not applied, or a cache was reused"
    return _plain("distinct", "not_measured", because)


def _raw(one: VariantEvidence) -> set[tuple[object, ...]]:
    """The raw log-likelihoods of each sheet. A sheet without any says nothing: equal answers alone are no reason to refuse."""
    found: set[tuple[object, ...]] = set()
    for sheet in one.sheets:
        rows = [(item.item_id, item.evidence.loglikelihoods, item.evidence.first_token_logprob) for item in sheet.items]
        numbers = tuple(sorted((row for row in rows if row[1] or row[2] is not None), key=lambda row: row[0]))
        if numbers:
            found.add((sheet.golden_sha256, numbers))
    return found


def served(subject: Subject) -> list[Check]:
    """A variant that cannot hold one request is good for nothing, whatever it answers. Nothing is said of one that can."""
    capacity = subject.variant.capacity
    if capacity is None or capacity.confirmed != 0:
        return []
    return [_plain("served", "fail", "does not fit into the memory budget with even one request")]


def unquantized(subject: Subject) -> Check:
    """The reference is the model before quantization: against one that has lost something already, a loss is hidden."""
    one, loaded = subject.reference, subject.reference.loaded
    bits = one.variant.weight_bits
    if (
        bits is not None
        or (loaded is not None and loaded.quantized_parameters > 0)
        or (one.artifact is not None and one.artifact.simulated)
    ):
        how = "" if bits is None else f" ({bits} bits)"
        return _plain("unquantized", "not_measured", f"is itself quantized{how}, so nothing can be measured against it")
    if one.source == "file" and loaded is None:
        return _plain("unquantized", "pass", "is taken for the unquantized model: its results do not say how its weights are stored")
    return _plain("unquantized", "pass", "is not quantized")


def unchanged(subject: Subject) -> Check:
    """The identity control is the reference again: what moves must come from the batches, not from other weights."""
    base, loaded = subject.reference.loaded, subject.variant.loaded
    if base is None or loaded is None or not loaded.weights_sha256:
        return _plain("unchanged", "not_measured", "was not loaded, so it is not known to be the reference again")
    if base.weights_sha256 != loaded.weights_sha256:
        return _plain("unchanged", "not_measured", "is not the reference again: its weights as loaded differ")
    return _plain("unchanged", "pass", "has the weights of the reference")


# ---------------------------------------------------------------------------------------------- limits on plain figures


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A measured figure, or None with the reason. ``sentence`` holds ``{}`` where the figure is said."""

    name: str
    value: float | None = None
    sentence: str = ""
    why_not: str = ""
    invalid: bool = False
    """There is no figure because the variant showed NaN or infinity where the reference was finite: that is a fail."""


def plain_checks(subject: Subject) -> tuple[Check, ...]:
    """Every check of the policy that compares a measured figure with a limit. A kind that is not known is not measured."""
    return (*_plain_checks(subject), *lever_checks(subject))


def _plain_checks(subject: Subject) -> Iterator[Check]:
    for rule in (one for one in subject.policy.checks if one.kind not in ("quality", "perplexity_ratio", *KINDS, *SPECULATION)):
        figures = _FIGURES.get(rule.kind)
        if figures is None:
            why_not = f"the policy asks for '{rule.kind}', which is not known here"
            yield _limit(rule, Figure(name=rule.kind, why_not=why_not))
            continue
        for figure in figures(rule, subject):
            yield _limit(rule, figure)


def _freed_share(_: CheckRule, subject: Subject) -> Iterator[Figure]:
    name, artifact = "memory/freed_share", subject.variant.artifact
    base, loaded = subject.reference.loaded, subject.variant.loaded
    if base is None or loaded is None or base.weight_bytes <= 0 or loaded.weight_bytes <= 0:
        who = "the reference's" if base is None or base.weight_bytes <= 0 else "its"
        yield Figure(name=name, why_not=f"{who} weights were not measured after load")
    elif artifact is not None and artifact.simulated:
        yield Figure(name=name, why_not="its rounded weights are kept in float, so it frees nothing")
    elif (reason := _other_weights(subject) or _other_device(subject)) is not None:
        yield Figure(name=name, why_not=reason)
    else:
        share = (base.weight_bytes - loaded.weight_bytes) / base.weight_bytes
        yield Figure(name=name, value=share, sentence="frees {} of the weight memory")


def _share_quantized(_: CheckRule, subject: Subject) -> Iterator[Figure]:
    name, loaded = "memory/share_quantized", subject.variant.loaded
    if (
        loaded is None
        or not 0 <= loaded.quantized_parameters <= loaded.logical_parameters
        or not loaded.logical_parameters
    ):
        yield Figure(name=name, why_not="how many of its parameters are quantized is not known")
    elif (reason := _other_weights(subject)) is not None:
        yield Figure(name=name, why_not=reason)
    else:
        yield Figure(name=name, value=loaded.share_quantized, sentence="has {} of its parameters quantized")


def _ceiling_ratio(_: CheckRule, subject: Subject) -> Iterator[Figure]:
    """A reference that reached the search cap has no known ceiling; a variant that did holds at least what it reached."""
    name, base, found = "ceiling/ratio", subject.reference.capacity, subject.variant.capacity
    if base is None or not base.confirmed or base.confirmed < 0 or base.limited_by != "memory":
        beyond = base is not None and base.confirmed and base.limited_by == "search cap"
        hint = f": its search stopped at {base.confirmed}; raise 'max_batch' in the workload" if base is not None and beyond else ""
        yield Figure(name=name, why_not=f"the reference's batch ceiling is not known{hint}")
    elif found is None or found.confirmed is None or found.confirmed < 0:
        yield Figure(name=name, why_not="its batch ceiling is not known")
    elif (reason := _other_workload(subject) or _other_device(subject)) is not None:
        yield Figure(name=name, why_not=reason)
    else:
        at_least = "" if found.limited_by == "memory" else "at least "
        yield Figure(
            name=name, value=found.confirmed / base.confirmed, sentence=f"holds {at_least}{{}} the reference's batch"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _OfDistributions:
    """A figure of how far the next-token distributions moved, and the values it can have."""

    figure: Callable[[KLStatistics], float | None]
    lowest: float
    highest: float
    sentence: str
    impossible: str
    missing: str = ""
    """Why statistics may lack it."""


_DISTRIBUTIONS = {
    "kl_mean": _OfDistributions(
        figure=lambda kl: kl.mean,
        lowest=_KL_ROUNDING,
        highest=inf,
        sentence="differs from the reference by {} a token",
        impossible="a mean divergence of {} nats is not possible",
    ),
    "kl_p99": _OfDistributions(
        figure=lambda kl: kl.p99,
        lowest=_KL_ROUNDING,
        highest=inf,
        sentence="differs from the reference by {} or less at 99 of 100 tokens",
        impossible="a 99th percentile of {} nats is not possible",
    ),
    "kl_p999": _OfDistributions(
        figure=lambda kl: kl.p999,
        lowest=_KL_ROUNDING,
        highest=inf,
        sentence="differs from the reference by {} or less at 999 of 1,000 tokens",
        impossible="a 99.9th percentile of {} nats is not possible",
        missing=f"a 99.9th percentile takes {count(KL_P999_FROM_POSITIONS)} tokens",
    ),
    "rms_probability_change": _OfDistributions(
        figure=lambda kl: kl.rms_dp,
        lowest=0.0,
        highest=1.0,
        sentence="changes the true next token's probability by {} (root mean square)",
        impossible="a change of a probability by {} is not possible",
        missing="after a prompt there is no true next token; give the config texts under 'divergence'",
    ),
    "top1_agreement": _OfDistributions(
        figure=lambda kl: kl.top1_agreement,
        lowest=0.0,
        highest=1.0,
        sentence="has the reference's likeliest token at {} of the positions",
        impossible="an agreement of {} is not possible",
    ),
}


OF_DISTRIBUTIONS = frozenset(_DISTRIBUTIONS)
"""Kinds of checks on how far the next-token distributions moved."""


def _of_distributions(rule: CheckRule, subject: Subject) -> Iterator[Figure]:
    """Over the run's texts where it had some, else after the prompts of each golden set."""
    if (read := subject.reference.reading or subject.variant.reading) is not None:
        yield _over_texts(rule, subject, read)
        return
    for golden in subject.chosen(rule.golden_set):
        sheet = sheet_of(subject.variant, golden)
        kl, why = (None, None) if sheet is None else (sheet.kl, sheet.why_no_kl)
        yield _invalid(rule, subject, f"kl {golden.name}", golden.name) or _moved(rule, golden.name, kl, why)
    yield from _no_set(rule, subject)


def _over_texts(rule: CheckRule, subject: Subject, read: TextReading) -> Figure:
    """Both must have read the same tokens of the same file, else nothing is compared."""
    base, found, name = subject.reference.reading, subject.variant.reading, f"{rule.kind}/{read.texts}"
    if rule.golden_set not in ("*", read.texts):
        name = f"{rule.kind}/{rule.golden_set}"
        return Figure(name=name, why_not=f"divergence was taken over the texts {read.texts} and not on {rule.golden_set}")
    if (invalid := _invalid(rule, subject, f"read {read.texts}", read.texts)) is not None:
        return invalid
    if base is None or found is None:
        who = "the reference" if base is None else "the variant"
        return Figure(name=name, why_not=f"{who} did not read the texts {read.texts}")
    if base.sha256 != found.sha256 or [one.scored_tokens for one in base.items] != [one.scored_tokens for one in found.items]:
        return Figure(name=name, why_not="not comparable: the reference and the variant did not read the same tokens")
    return _moved(rule, read.texts, found.kl, found.why_no_kl)


def _invalid(rule: CheckRule, subject: Subject, stage: str, over: str) -> Figure | None:
    """The figure of a variant that gave NaN in a stage which the reference finished; None where it gave none."""
    if any(one.stage == stage for one in subject.reference.failures):
        return None
    found = next((one for one in subject.variant.failures if one.numerical and one.stage == stage), None)
    if found is None:
        return None
    why = f"is numerically invalid on {over}: {one_line(found.message)}"
    return Figure(name=f"{rule.kind}/{over}", why_not=why, invalid=True)


def _moved(rule: CheckRule, over: str, kl: KLStatistics | None, why_no_kl: str | None) -> Figure:
    asked, name = _DISTRIBUTIONS[rule.kind], f"{rule.kind}/{over}"
    if kl is None:
        why = f": {one_line(why_no_kl)}" if why_no_kl else ""
        return Figure(name=name, why_not=f"its divergence from the reference on {over} is not known{why}")
    if kl.positions < KL_FROM_POSITIONS:
        few = f"{count(kl.positions)} tokens of {over} are no statistic, at least {KL_FROM_POSITIONS} are needed"
        return Figure(name=name, why_not=few)
    if (value := asked.figure(kl)) is None:
        return Figure(name=name, why_not=f"{asked.missing}, and there are {count(kl.positions)} positions of {over}")
    if not asked.lowest <= value <= asked.highest:
        return Figure(name=name, why_not=asked.impossible.format(value))
    return Figure(name=name, value=value, sentence=asked.sentence)


def _cost_ratio(_: CheckRule, subject: Subject) -> Iterator[Figure]:
    """Each at its own best batch. Neither rate is paired with the other, so there is no interval."""
    found, missing = _cost(subject)
    if not missing and found.ratio_to_reference is None:
        missing = "the reference's cost is not known"
    sentence = "costs {} what the reference does for an output token, each at its best batch"
    yield Figure(name="cost/ratio", value=None if missing else found.ratio_to_reference, sentence=sentence, why_not=missing)


def _cost_per_million(_: CheckRule, subject: Subject) -> Iterator[Figure]:
    found, missing = _cost(subject)
    sentence = f"costs {{}} {found.currency} for a million output tokens at batch {found.batch_size}"
    yield Figure(
        name="cost/per_million_tokens", value=None if missing else found.per_million_tokens, sentence=sentence, why_not=missing
    )


def _cost(subject: Subject) -> tuple[CostRow, str]:
    """A variant's cost, and why nothing can be said of it; empty where something can."""
    variant, reference, _ = without_faults(subject.variant, subject.reference, subject.roofs)
    found = cost(variant, reference, subject.price)
    if found is None:
        return CostRow(), "the device has no price: give the config 'price_per_hour' under 'device'"
    if subject.reference.capacity is None or subject.variant.capacity is None:
        return found, found.why_not or "the reference's batch ceiling is not known"
    return found, found.why_not or _other_workload(subject) or _other_device(subject) or ""


def budget(subject: Subject) -> list[Check]:
    """What a run's budget says of a candidate: tracked, with its owner's name, and never decided on. None without a budget."""
    if subject.budget is None:
        return []
    found, missing = _cost(subject)
    limit, owner = subject.budget.max_cost_per_million_tokens, one_line(subject.budget.owner)
    held = f"the budget of {owner} allows {check_limit('cost/budget', limit)} {found.currency}"
    value = found.per_million_tokens
    unknown = Check(
        name="cost/budget", tier="advisory", outcome="not_measured", because=f"is not measured: {missing}; {held}", margin=limit
    )
    if missing or value is None:
        return [unknown]
    over = value > limit
    said = f"costs {money(value, towards='up' if over else 'nearest')} {found.currency} for a million output tokens; {held}"
    return [replace(unknown, outcome="fail" if over else "pass", because=said, estimate=value)]


def _output_length(rule: CheckRule, subject: Subject) -> Iterator[Figure]:
    """Total output tokens against the reference's, on sets with outputs long enough to say anything."""
    found = [_length(golden, subject) for golden in subject.chosen(rule.golden_set)]
    yield from (one for one in found if one is not None)
    if found and rule.tier != "advisory" and all(one is None for one in found):
        why_not = f"the reference writes fewer than {LENGTH_FROM_TOKENS} tokens an answer, too few to compare lengths"
        yield Figure(name=f"output_length/{rule.golden_set}", why_not=why_not)
    yield from _no_set(rule, subject)


def _length(golden: GoldenReference, subject: Subject) -> Figure | None:
    """None for a set whose answers are too short, or which asks for none."""
    name, base, sheet = (
        f"output_length/{golden.name}",
        sheet_of(subject.reference, golden),
        sheet_of(subject.variant, golden),
    )
    if base is None or sheet is None:
        who = "the reference" if base is None else "the variant"
        return Figure(name=name, why_not=f"{who} was not scored on {golden.name}")
    asked = base if sheet.stopped is None else _asked_alike(base, sheet)
    answers = sum(item.evidence.text is not None for item in asked.items)
    if not answers or asked.output_tokens < LENGTH_FROM_TOKENS * answers:
        return None
    return Figure(
        name=name, value=sheet.output_tokens / asked.output_tokens, sentence="writes {} as many tokens as the reference"
    )


def _asked_alike(base: ScoreSheet, sheet: ScoreSheet) -> ScoreSheet:
    """The reference's sheet without the items that a variant was not asked, as its scoring ended early."""
    ids = {item.item_id for item in sheet.items}
    return replace(base, items=tuple(item for item in base.items if item.item_id in ids))


def _no_set(rule: CheckRule, subject: Subject) -> Iterator[Figure]:
    """A demand on a golden set that the run does not have is not measured; it does not vanish."""
    if not subject.chosen(rule.golden_set):
        which = "golden set" if rule.golden_set == "*" else f"golden set named {rule.golden_set}"
        yield Figure(name=f"{rule.kind}/{rule.golden_set}", why_not=f"the run has no {which}")


def _batching(rule: CheckRule, subject: Subject) -> Iterator[Figure]:
    """Of the continuous batching lever, where the run tried it on this variant."""
    for one in batching_figures.limited(rule.kind, rule.engine, subject.batching):
        yield Figure(name=one.name, value=one.value, sentence=one.sentence, why_not=one_line(one.why_not))


_FIGURES: dict[str, Callable[[CheckRule, Subject], Iterator[Figure]]] = {
    "freed_share": _freed_share,
    "share_quantized": _share_quantized,
    "ceiling_ratio": _ceiling_ratio,
    **dict.fromkeys(_DISTRIBUTIONS, _of_distributions),
    "output_length": _output_length,
    "batching_utilisation_gain": _batching,
    "batching_itl_p99_ratio": _batching,
    "cost_ratio": _cost_ratio,
    "cost_per_million_tokens": _cost_per_million,
}


def _other_weights(subject: Subject) -> str | None:
    """A variant holds as many weights as its reference; another count means that bytes or modules were miscounted."""
    base, loaded = subject.reference.loaded, subject.variant.loaded
    if base is None or loaded is None or base.logical_parameters == loaded.logical_parameters:
        return None
    return (
        f"not comparable: the number of weights is {count(base.logical_parameters)} for the reference and "
        f"{count(loaded.logical_parameters)} for the variant"
    )


def _other_device(subject: Subject) -> str | None:
    base, found = subject.reference.device, subject.variant.device
    if base is None or found is None:
        return f"not comparable: the device is not known for the {'reference' if base is None else 'variant'}"
    for field in ("kind", "name", "driver", "threads"):
        ours, theirs = getattr(base, field), getattr(found, field)
        if ours != theirs:
            what = field if field in ("driver", "threads") else f"the device's {field}"
            return f"not comparable: {what} is {ours!r} for the reference and {theirs!r} for the variant"
    return None


def _other_workload(subject: Subject) -> str | None:
    base, found = subject.reference.capacity, subject.variant.capacity
    for field in ("prompt_tokens", "output_tokens", "budget_bytes"):
        ours, theirs = getattr(base, field), getattr(found, field)
        if ours != theirs:
            return f"not comparable: {field.replace('_', ' ')} is {ours!r} for the reference and {theirs!r} for the variant"
    return None


def _limit(rule: CheckRule, figure: Figure) -> Check:
    """A figure against its limits, both inclusive. A figure that is only known to be "at least" so much can pass and never fail."""
    given = [one for one in (rule.minimum, rule.maximum) if one is not None]
    value = figure.value
    low = value is not None and rule.minimum is not None and value < rule.minimum
    limit = rule.minimum if rule.minimum is not None and (rule.maximum is None or low) else rule.maximum
    if reason := _why_no_limit(figure, given, low):
        if figure.invalid:
            return Check(name=figure.name, tier=rule.tier, outcome="fail", because=reason, margin=limit)
        because = f"is not measured: {reason}{f'; {_asked(figure.name, rule)}' if given else ''}"
        return Check(name=figure.name, tier=rule.tier, outcome="not_measured", because=because, margin=limit)
    high = value is not None and rule.maximum is not None and value > rule.maximum
    said = figure.sentence.format(_said(rule.kind, value, "down" if low else "up" if high else "nearest"))
    outcome: Outcome = "fail" if low or high else "pass"
    because = f"{said}; {_asked(figure.name, rule)}"
    return Check(name=figure.name, tier=rule.tier, outcome=outcome, because=because, estimate=value, margin=limit)


def _why_no_limit(figure: Figure, given: list[float], low: bool) -> str:
    if figure.value is None or not isfinite(figure.value):
        return figure.why_not or "its figure is not a number"
    if not given or not all(isfinite(one) for one in given):
        return "the policy gives no limit for it"
    if low and "at least" in figure.sentence:
        return "its batch ceiling lies beyond the search; a larger 'max_batch' in the workload would find it"
    return ""


def _said(kind: str, value: float | None, towards: Towards) -> str:
    """The figure with its unit, rounded so that it does not seem to meet a limit that it misses."""
    if kind in ("freed_share", "share_quantized", "top1_agreement"):
        return percent(value, digits=1, towards=towards)
    if kind == "cost_per_million_tokens":
        return money(value, towards=towards)
    if kind == "rms_probability_change":
        return percent(value, digits=2, towards=towards)
    return f"{significant(value)} nats" if kind in ("kl_mean", "kl_p99", "kl_p999") else f"{fixed(value, 2, towards=towards)} times"


def _asked(name: str, rule: CheckRule) -> str:
    low, high = check_limit(name, rule.minimum), check_limit(name, rule.maximum)
    if rule.maximum is None:
        return f"at least {low} is asked for"
    return f"at most {high} is allowed" if rule.minimum is None else f"{low} to {high} is allowed"


def _plain(name: str, outcome: Outcome, because: str) -> Check:
    return Check(name=name, tier="required", outcome=outcome, because=because)
