"""A policy in plain sentences: what it demands, how it counts several candidates, and what became of its waivers.

The same words stand in ``quantgate policy explain`` and in the reports, so that what was agreed can be read without knowing the file.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from quantgate.records import MAIN, UNDATED, Canary, Check, CheckRule, Policy, Verdict, Waiver
from quantgate.render import quantities as q

_OBJECTIVES = {
    "freed_bytes": "the one that frees the most memory",
    "ceiling": "the one with the largest batch ceiling",
    "tokens_per_s_at_ceiling": "the one with the most tokens per second at its own batch ceiling",
    "smallest_loss": "the one with the smallest loss",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Paragraph:
    """A sentence and, where it ends in a colon, the lines that belong to it."""

    sentence: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class WaiverLine:
    """What became of a waiver in a run."""

    waiver: Waiver
    state: Literal["used", "unused", "expired"]
    because: str

    @property
    def sentence(self) -> str:
        """For readers who see nothing else of the policy."""
        one = self.waiver
        return f"The waiver for {one.check} of {one.variant} by {one.owner} ({one.reason}) is {self.state}: {self.because}."


# ---------------------------------------------------------------------------------------------- what is demanded


def paragraphs(policy: Policy, candidates: int) -> tuple[Paragraph, ...]:
    """The policy for a run with that many candidates, in full."""
    return tuple(_paragraphs(policy, candidates))


def _paragraphs(policy: Policy, candidates: int) -> Iterator[Paragraph]:
    tiers = {"required": "A variant passes only if all of this is shown:", "advisory": "This is shown and never decides:"}
    for tier, sentence in tiers.items():
        lines = tuple(rule_words(rule) for rule in policy.checks if rule.tier == tier)
        if lines:
            yield Paragraph(sentence=sentence, lines=lines)
    yield Paragraph(sentence=_several(policy, candidates))
    yield Paragraph(sentence=f"Of several that pass, {_OBJECTIVES[policy.objective]} goes forward{_else(policy)}.")
    yield Paragraph(sentence=_items(policy))
    if early := _early(policy):
        yield Paragraph(sentence=early)
    if (rule := policy.canary) is not None:
        yield Paragraph(sentence=_canary(rule))
    yield Paragraph(
        sentence="The run needs a known-bad control, which must be shown to fail on all that is required of quality."
        if policy.require_controls
        else "Controls are not required; those that a run has must come out as they must."
    )
    if policy.waivers:
        sentence = "These checks do not block in a run of a known day, each until its day; results in files have no day:"
        yield Paragraph(sentence=sentence, lines=tuple(map(waiver_words, policy.waivers)))


def _else(policy: Policy) -> str:
    return "" if policy.objective == "smallest_loss" else "; where that is known of none, the one with the smallest loss"


def rule_words(rule: CheckRule) -> str:
    """A demand as half a sentence about a variant."""
    low, high = q.check_limit(rule.kind, rule.minimum), q.check_limit(rule.kind, rule.maximum)
    match rule.kind:
        case "quality":
            fewest = "" if rule.minimum_items is None else f" (at least {q.count(rule.minimum_items)} items)"
            way = "" if rule.better is None else f", where {rule.better} scores are better"
            most = q.check_limit("quality", rule.margin, rule.scale)
            return f"it loses at most {most} against the reference on {where(rule)}{fewest}{way}"
        case "perplexity_ratio":
            return f"its perplexity is at most {high} the reference's on the texts of {where(rule)}"
        case "freed_share":
            return f"it frees at least {low} of the weight memory"
        case "share_quantized":
            return f"at least {low} of its parameters are quantized"
        case "ceiling_ratio":
            return f"its batch ceiling is at least {low} the reference's"
        case "cost_ratio":
            return f"an output token costs at most {high} what it does with the reference, each at its best batch"
        case "cost_per_million_tokens":
            return f"a million output tokens cost at most {high}, in the currency of the device's price"
        case "kl_mean":
            return f"its next tokens diverge from the reference's by at most {high} in the mean, on {where(rule)}"
        case "kl_p99":
            return f"they diverge by at most {high} at 99 of 100 positions, on {where(rule)}"
        case "kl_p999":
            return f"they diverge by at most {high} at 999 of 1,000 positions, on {where(rule)}"
        case "rms_probability_change":
            return f"the true next token's probability changes by at most {high} (root mean square), on {where(rule)}"
        case "top1_agreement":
            return f"its likeliest token is the reference's at {low} of the positions at least, on {where(rule)}"
        case "min_speed_ratio":
            return f"it is shown to decode at least at {low} the reference's speed, {at(rule)}"
        case "max_ttft_ratio":
            return f"it is shown to take at most {high} the reference's time to the first token, {at(rule)}"
        case "max_itl_p99_ratio":
            return f"the 99th percentile of its waits between tokens is shown to be at most {high} the reference's, {at(rule)}"
        case "output_length":
            return f"it writes {low} to {high} the tokens of the reference on {where(rule)}"
        case "batching_utilisation_gain":
            return f"its utilisation under continuous batching is at least {low} that of static batches, with {_engines(rule)}"
        case "batching_itl_p99_ratio":
            return f"its 99th percentile of the time between tokens is at most {high} that of static batches, with {_engines(rule)}"
        case "speculation_acceptance":
            return f"at least {low} of what each drafter drafts is accepted, at its fastest setting"
        case "speculation_lossless":
            return "speculative outputs are token-identical to plain greedy decoding, with every drafter"
        case "speculation_speed_ratio":
            return f"with each drafter the reference decodes at {low} its plain speed at least, at its fastest setting"
        case _:
            return f"{rule.kind}, which is not known here"


def at(rule: CheckRule) -> str:
    """Where a rule on speed is decided."""
    place = "each at its own batch ceiling" if rule.at == "ceiling" else f"both at batch {rule.at}"
    return place if rule.workload == MAIN else f"{place} of workload {rule.workload}"
def _engines(rule: CheckRule) -> str:
    return "every engine that the run tries" if rule.engine is None else rule.engine


def where(rule: CheckRule) -> str:
    """The golden sets and slices that a rule is for."""
    golden = "every golden set" if rule.golden_set == "*" else f"golden set {rule.golden_set}"
    if not rule.slices:
        return golden
    slices = "every slice" if "*" in rule.slices else f"{'slices' if len(rule.slices) > 1 else 'slice'} {q.listed(rule.slices)}"
    return f"{slices} of {golden}"


def _several(policy: Policy, candidates: int) -> str:
    alpha = q.significant(policy.alpha, 1)
    if policy.require == "all":
        return f"Every candidate must pass, each at alpha {alpha}; that needs no correction."
    if policy.correction == "holm":
        family = policy.family(candidates)
        return (
            f"One candidate must pass. Holm's step-down over {q.count(family)} candidate{'s' if family > 1 else ''} keeps the chance that "
            f"a variant beyond the margin passes at {alpha}: the best is tested at level {policy.alpha / family:.3g}."
        )
    if policy.correction == "fixed_sequence":
        order = ", then ".join(policy.order)
        return f"One candidate must pass. They are tested in this order, each at alpha {alpha}, until one is no pass: {order}."
    return f"One candidate must pass, each tested at alpha {alpha} without a correction."


def _items(policy: Policy) -> str:
    return (
        f"A quality check needs at least {q.count(policy.minimum_items)} item{'s' if policy.minimum_items > 1 else ''}, of which the "
        f"reference may leave {q.percent(policy.max_absent_reference, digits=1)} unanswered."
    )


def _early(policy: Policy) -> str:
    """How often quality is looked at, where it is more than once."""
    if policy.sequential is not None:
        one = policy.sequential
        return (
            f"Quality is looked at after every item, in the order of seed {one.seed}, with a bet of {one.bet:g} against a loss of the "
            "margin, and a pass is declared from the fewest items of a check on; scoring ends where a pass is shown, and "
            "alpha holds wherever it ends."
        )
    if policy.looks is None:
        return ""
    return (
        f"Quality is looked at {q.count(policy.looks)} times at equal distances, in the order of seed {policy.looks_seed}; early looks ask "
        "for so much more that alpha holds over all of them (O'Brien-Fleming). Looks at fewer items than a check needs are left out. "
        "Scoring ends where a pass is shown."
    )


def _canary(rule: Canary) -> str:
    return (
        f"A candidate is not scored, and fails, where {q.count(rule.items)} prompts of a golden set show it broken: more than "
        f"{rule.perplexity_ratio:g} times the reference's perplexity, its likeliest token at less than {q.percent(rule.top1_agreement)} of "
        "them, or numbers that are not finite. Controls are scored whole."
    )


def text(shown: Sequence[Paragraph], *, width: int = 120) -> str:
    """The paragraphs for a terminal."""
    return "\n".join(line for one in shown for line in _lines(one, width))


def _lines(one: Paragraph, width: int) -> Iterator[str]:
    yield from textwrap.wrap(one.sentence, width, break_long_words=False, break_on_hyphens=False)
    for line in one.lines:
        yield from textwrap.wrap(
            line, width, initial_indent="  - ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
        )


# ---------------------------------------------------------------------------------------------- waivers


def waiver_words(waiver: Waiver) -> str:
    """A waiver as it was agreed."""
    return f"{waiver.check} of {waiver.variant} until {waiver.expires}, by {waiver.owner}: {waiver.reason}"


def waiver_lines(policy: Policy, verdicts: Sequence[Verdict], created_at: str) -> tuple[WaiverLine, ...]:
    """What became of each waiver in a run of that time."""
    return tuple(_waiver_line(one, verdicts, created_at) for one in policy.waivers)


def _waiver_line(waiver: Waiver, verdicts: Sequence[Verdict], created_at: str) -> WaiverLine:
    if created_at in ("", UNDATED):
        return WaiverLine(waiver=waiver, state="unused", because="the day of the run is not known, and then no waiver holds")
    if not waiver.holds(created_at):
        because = f"it held until {waiver.expires} and the run is of {created_at[:10]}, so it does nothing"
        return WaiverLine(waiver=waiver, state="expired", because=because)
    found = [
        check
        for verdict in verdicts
        if verdict.variant == waiver.variant and verdict.role == "candidate"
        for check in verdict.checks
        if check.name == waiver.check and check.tier == "required"
    ]
    used = [check for check in found if check.waived_by is not None]
    if used:
        because = f"the check came out as {q.outcome_word(used[0].outcome).lower()} and does not block until {waiver.expires}"
        return WaiverLine(waiver=waiver, state="used", because=because)
    return WaiverLine(waiver=waiver, state="unused", because=_why_unused(found))


def _why_unused(found: Sequence[Check]) -> str:
    if not found:
        return "the run has no such required check"
    if any(check.outcome == "not_measured" for check in found):
        return "the check was not measured, and no waiver reaches that"
    return "the check passes without it" if all(check.outcome == "pass" for check in found) else "the check cannot be waived"
