"""Perplexity: is it shown that a variant's perplexity is at most so many times the reference's on the same text? Pure.

Perplexity is exp(nats / tokens) over all of a set, so the ratio is one of sums: total over total, never a mean of the items' own
perplexities. The texts are the items of a golden set, or those that a run takes divergence over. Its uncertainty is that of the texts:
items are compared in pairs, and those that share a source are one text. An item is a text if its evidence says how many tokens its log-
likelihood sums over. One without a token (an empty text) is left out and counted; all else that does not fit together makes the ratio not
measured. Nothing is filled in: no value is known for a text that a variant did not answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import isfinite

from quantgate.records import Check, CheckRule, GoldenReference, ItemEvidence, ItemScore, Outcome, ScoreSheet
from quantgate.render.quantities import count, fixed, level_percent
from quantgate.stages.deciding import known
from quantgate.stages.pairing import conditions_differ
from quantgate.stages.subject import Subject, one_line, sheet_of
from quantgate.stats.inputs import exact
from quantgate.stats.noninferiority import Decision
from quantgate.stats.ratios import PerplexityRatio, perplexity_ratio

_PER = {"word_perplexity": "word", "byte_perplexity": "byte", "bits_per_byte": "byte"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Texts:
    """The ratio, and what it was computed from."""

    ratio: PerplexityRatio
    reference_nats: float
    empty: int
    """Texts without a token, left out."""
    per: str
    """``token``, or what the log-likelihoods of a file are counted by."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PerplexityQuestion:
    """A perplexity rule on one golden set: the texts, or why there are none."""

    rule: CheckRule
    name: str
    where: str
    texts: Texts | None
    why_not: str = ""
    without_texts: Outcome = "not_measured"
    """``fail`` where the variant computed NaN and the reference did not."""
    looked_at: int | None = None

    @property
    def measured(self) -> bool:
        """Whether there is something to decide on."""
        return self.texts is not None

    @property
    def limit(self) -> float:
        """The largest ratio that is allowed; ``ValueError`` for a rule without one, which has no texts either."""
        if self.rule.maximum is None:
            raise ValueError("a perplexity rule has a maximum")
        return self.rule.maximum

    def p_pass(self) -> float:
        """P-value of "the ratio is at least the limit"; 1 where it was not measured."""
        return 1.0 if self.texts is None else self.texts.ratio.p_at_least(self.limit)

    def check(self, alpha: float, power: float) -> Check:
        """The question decided at one-sided level ``alpha``."""
        if self.texts is None:
            return Check(
                name=self.name,
                tier=self.rule.tier,
                outcome=self.without_texts,
                because=self.why_not,
                margin=self.rule.maximum,
            )
        decision = self.texts.ratio.decide(limit=self.limit, alpha=alpha)
        return Check(
            name=self.name,
            tier=self.rule.tier,
            outcome=decision.outcome,
            because=_sentence(decision, self),
            estimate=known(decision.estimate),
            lower=known(decision.lower),
            bound=known(decision.upper),
            margin=self.limit,
            level=float(1 - exact(decision.level)),
            p_value=decision.p_pass,
            n=self.texts.ratio.documents,
        )

    def untested(self, because: str) -> Check:
        """The question left open although there is evidence: a candidate before this one stopped the sequence."""
        if self.texts is None:
            return self.check(0.5, 0.5)
        found = known(self.texts.ratio.ratio)
        return Check(
            name=self.name, tier=self.rule.tier, outcome="inconclusive", because=because, estimate=found, margin=self.limit
        )


def perplexity_questions(subject: Subject) -> Iterator[PerplexityQuestion]:
    """One question a rule and golden set with texts, or the run's own texts; for a rule that finds none, one that is not measured."""
    where = "" if len(subject.golden_sets) == 1 else " on {}"
    read = subject.reference.reading or subject.variant.reading
    for rule in (one for one in subject.policy.checks if one.kind == "perplexity_ratio"):
        chosen = subject.chosen(rule.golden_set)
        asked = [one for one in chosen if rule.golden_set != "*" or _has_texts(subject, one)]
        for golden in asked:
            found = _texts(subject, golden, rule)
            texts, why_not = (found, "") if isinstance(found, Texts) else (None, f"is not measured on {golden.name}: {found}")
            bare = PerplexityQuestion(
                rule=rule, name=f"perplexity_ratio/{golden.name}", where=where.format(golden.name), texts=texts, why_not=why_not
            )
            yield bare if texts is not None or not (bad := _invalid(subject, golden)) else replace(
                bare, why_not=f"is numerically invalid on {golden.name}: {bad}", without_texts="fail"
            )
        over = read is not None and rule.golden_set in ("*", read.texts)
        if read is not None and over:
            yield _over_texts(subject, read.texts, rule)
        if not asked and not over:
            what = "no golden set" if not chosen and rule.golden_set == "*" else f"no golden set named {rule.golden_set}"
            why_not = f"is not measured: the run has {what if not chosen else 'no golden set whose items are texts'}"
            yield PerplexityQuestion(rule=rule, name=f"perplexity_ratio/{rule.golden_set}", where="", texts=None, why_not=why_not)


def _over_texts(subject: Subject, name: str, rule: CheckRule) -> PerplexityQuestion:
    """The question on the texts that divergence is taken over."""
    found = _read_texts(subject, name, rule)
    bare = PerplexityQuestion(rule=rule, name=f"perplexity_ratio/{name}", where=f" on {name}", texts=None)
    if isinstance(found, Texts):
        return replace(bare, texts=found)
    invalid = [one for one in subject.variant.failures if one.numerical and one.stage == f"read {name}"]
    if invalid and subject.reference.reading is not None:
        return replace(bare, why_not=f"is numerically invalid on {name}: {one_line(invalid[0].message)}", without_texts="fail")
    return replace(bare, why_not=f"is not measured on {name}: {found}")


def _read_texts(subject: Subject, name: str, rule: CheckRule) -> Texts | str:
    """Both must have read the same tokens of the same file, text by text."""
    base, other = subject.reference.reading, subject.variant.reading
    if base is None or other is None:
        return f"{'the reference' if base is None else 'the variant'} did not read the texts {name}"
    if (base.texts, base.sha256, base.tokens_per_text) != (other.texts, other.sha256, other.tokens_per_text):
        return "not comparable: the reference and the variant did not read the same texts up to the same length"
    ids = [one.item_id for one in base.items]
    if len(set(ids)) < len(ids) or ids != [one.item_id for one in other.items]:
        return "not comparable: the reference and the variant did not read the same texts in the same order"
    if (reason := _why_few(rule, subject, len(ids), "texts")) is not None:
        return reason
    rows = []
    for left, right in zip(base.items, other.items, strict=True):
        empty = not any((left.scored_tokens, right.scored_tokens, left.loglikelihoods, right.loglikelihoods))
        row = (0.0, 0.0, 0) if empty else _nats_row(left.item_id, (left, right), "token")
        if isinstance(row, str):
            return row
        rows.append(row)
    return _of_rows(rows, [f"text\0{one}" for one in ids], "token")


def _why_few(rule: CheckRule, subject: Subject, items: int, what: str) -> str | None:
    """Why nothing could be decided whatever was measured."""
    if rule.maximum is None or not 1 <= rule.maximum < float("inf"):
        return f"the policy's maximum is {rule.maximum}; it must be 1 or more"
    fewest = rule.minimum_items or subject.policy.minimum_items
    if not items or items < fewest:
        return f"it has {count(items)} {what} and the policy asks for at least {count(fewest)}"
    return None


def _invalid(subject: Subject, golden: GoldenReference) -> str:
    """Where a session saw the variant compute NaN on a text that the reference could do; empty where it did not."""
    reference, variant = sheet_of(subject.reference, golden), sheet_of(subject.variant, golden)
    if reference is None or variant is None or subject.variant.source == "file":
        return ""
    if any(item.evidence.nonfinite for item in reference.items):
        return ""
    bad = [item.item_id for item in variant.items if item.evidence.nonfinite]
    return f"{count(len(bad))} {'text' if len(bad) == 1 else 'texts'} gave NaN or infinity, the first is {bad[0]}" if bad else ""


def _has_texts(subject: Subject, golden: GoldenReference) -> bool:
    sheets = [sheet_of(one, golden) for one in (subject.reference, subject.variant)]
    return any(item.evidence.scored_tokens for sheet in sheets if sheet is not None for item in sheet.items)


def _texts(subject: Subject, golden: GoldenReference, rule: CheckRule) -> Texts | str:
    reference, variant = sheet_of(subject.reference, golden), sheet_of(subject.variant, golden)
    if reference is None or variant is None:
        return f"{'the reference' if reference is None else 'the variant'} was not scored on it, or twice"
    if (few := _why_few(rule, subject, len(golden.item_ids), "items")) is not None:
        return few
    if reference.stopped is not None or variant.stopped is not None:
        return "its scoring stopped early, and this check needs all items; score it in full"
    role, foreign = subject.variant.variant.role, subject.variant.source == "file"
    reason = conditions_differ(reference, variant, golden, role, foreign=foreign)
    return reason or _ratio(reference, variant, golden)


def _ratio(reference: ScoreSheet, variant: ScoreSheet, golden: GoldenReference) -> Texts | str:
    left, right = ({item.item_id: item for item in sheet.items} for sheet in (reference, variant))
    per = _PER.get(str(reference.conditions.get("metric")), "token")
    rows, names = [], []
    for one in golden.item_ids:
        found = _row(one, left.get(one), right.get(one), per)
        if isinstance(found, str):
            return found
        rows.append(found)
        cluster = left[one].cluster or right[one].cluster
        names.append(f"item\0{one}" if cluster is None else f"cluster\0{cluster}")
    return _of_rows(rows, names, per)


def _of_rows(rows: Sequence[tuple[float, float, int]], names: Sequence[str], per: str) -> Texts | str:
    """The ratio over texts of which each has a name; equal names are one text."""
    kept = [place for place, row in enumerate(rows) if row[2]]
    if not kept:
        return "none of its items has a token"
    clusters = [names[place] for place in kept]
    base, other, tokens = zip(*(rows[place] for place in kept), strict=True)
    shared = max(Counter(clusters).values()) > 1
    ratio = perplexity_ratio(reference_nats=base, variant_nats=other, tokens=tokens, documents=clusters if shared else None)
    return Texts(ratio=ratio, reference_nats=sum(base), empty=len(rows) - len(kept), per=per)


def _row(item_id: str, reference: ItemScore | None, variant: ItemScore | None, per: str) -> tuple[float, float, int] | str:
    """Nats of both sides and tokens of one item, or why the set cannot be used."""
    if reference is None or variant is None:
        who = "the reference" if reference is None else "the variant"
        return f"{who} did not answer item {item_id}, and no value is known for a text that was not answered"
    return _nats_row(item_id, (reference.evidence, variant.evidence), per)


def _nats_row(item_id: str, both: tuple[ItemEvidence, ItemEvidence], per: str) -> tuple[float, float, int] | str:
    nats = []
    for who, found in zip(("the reference", "the variant"), both, strict=True):
        logs, tokens = found.loglikelihoods, found.scored_tokens
        if found.nonfinite or len(logs) != 1 or logs[0] is None or not isfinite(logs[0]):
            return f"item {item_id} of {who} has no log-likelihood of its text"
        if logs[0] > 0 or tokens < 0 or (not tokens and logs[0] != 0):
            return f"item {item_id} of {who} has a log-likelihood of {logs[0]:g} over {tokens} {per}s, which is not possible"
        nats.append((-logs[0], tokens))
    (base, ours), (other, theirs) = nats
    if ours != theirs:
        units = f"{count(ours)} {per}{'' if ours == 1 else 's'}"
        return f"not comparable: item {item_id} has {units} for the reference and {count(theirs)} for the variant"
    return base, other, ours


def _sentence(decision: Decision, question: PerplexityQuestion) -> str:
    texts = question.texts
    if texts is None:
        return question.why_not
    digits = max(4, len(repr(float(question.limit)).partition(".")[2]) + 1)
    confidence = f"with {level_percent(float(1 - exact(decision.level)))} confidence"
    head = f"has {fixed(decision.estimate, digits)} times the reference's perplexity per {texts.per}{question.where}"
    allowed = f"allowed {fixed(question.limit, digits)}{_empty(texts)}"
    if decision.reason is not None:
        return f"{head}; {allowed}. Nothing can be shown: {decision.reason}"
    if decision.outcome == "fail":
        return f"{head}, at least {fixed(decision.lower, digits, towards='down')} {confidence}; {allowed}"
    said = f"{head}, at most {fixed(decision.upper, digits, towards='up')} {confidence}; {allowed}"
    return f"{said}. More text would show which" if decision.outcome == "inconclusive" else said


def _empty(texts: Texts) -> str:
    if not texts.empty:
        return ""
    if texts.empty == 1:
        return f"; 1 text has no {texts.per} and is left out"
    return f"; {count(texts.empty)} texts have no {texts.per} and are left out"
