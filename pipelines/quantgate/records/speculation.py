"""Speculative decoding: what drafts, what each pass did, and where the ids part from decoding alone."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import geometric_mean
from typing import Literal

from quantgate.records.asked import ModelSource
from quantgate.records.speed import DecodeTime


@dataclass(frozen=True, kw_only=True, slots=True)
class Drafter:
    """Who drafts tokens for the reference: its own prompt's n-grams, a variant of the run, or another model."""

    kind: Literal["prompt_lookup", "self", "model"]
    variant: str | None = None
    """self: the variant that drafts."""
    model: ModelSource | None = None

    @property
    def name(self) -> str:
        """What reports and checks call it: ``prompt_lookup``, ``self:nf4``, ``model:small``."""
        of = self.variant if self.model is None else self.model.name
        return self.kind if of is None else f"{self.kind}:{of}"


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeculationConfig:
    """How speculative decoding of the reference is measured: greedy, every drafter with every number of drafted tokens at every batch."""

    drafters: tuple[Drafter, ...]
    draft_tokens: tuple[int, ...] = (2, 4, 8)
    batch_sizes: tuple[int, ...] = (1,)
    golden_set: str | None = None
    """The golden set whose items that are answered in words give the prompts; or ``path``."""
    path: str | None = None
    """A file of prompts: JSON lines with ``text`` or ``messages``, or plain text with empty lines between them."""
    max_prompts: int = 16
    output_tokens: int = 48
    repeats: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Parting:
    """Where a speculative output left the plain greedy one: at token ``at`` of the output, from 0."""

    prompt: str
    at: int
    margin: float | None
    """By how much the likeliest token leads the second there, in the plain run's logits; None where it could not be looked up."""
    noise: float | None
    """Largest difference of a logit there between reading the last tokens one by one and reading them together."""

    @property
    def is_rounding(self) -> bool:
        """Reading the same tokens in another way moves logits by enough to turn the two likeliest tokens round."""
        return self.margin is not None and self.noise is not None and self.margin <= 2 * self.noise


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeculationPass:
    """All prompts at one number of drafted tokens and one batch size.

    Counted from ids, over verification steps of single rows: a step emits the drafts it accepts and one token of the target's own, so
    ``emitted == accepted + steps``. Each row's first token comes from its prompt and belongs to no step. No draft reaches past the asked
    length; where an accepted draft ends a row it is counted as the target's own token, which it is, and not among the accepted.
    """

    draft_tokens: int
    batch_size: int
    steps: int
    drafted: int
    accepted: int
    emitted: int
    drafted_at: tuple[int, ...]
    """How often a token was drafted as first, second and so on of its step."""
    accepted_at: tuple[int, ...]
    compared: int
    """Prompts whose output was compared with plain greedy decoding."""
    partings: tuple[Parting, ...]
    plain: tuple[DecodeTime, ...]
    """A repeat each; ``speculative`` beside it, batch by batch in turn."""
    speculative: tuple[DecodeTime, ...]

    @property
    def acceptance(self) -> float | None:
        """Accepted / drafted; None where nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else None

    @property
    def mean_length(self) -> float | None:
        """Tokens a step emits: 1 + accepted / steps."""
        return 1 + self.accepted / self.steps if self.steps else None

    @property
    def acceptance_at(self) -> tuple[float | None, ...]:
        """Of the tokens drafted in each place, the share that was accepted."""
        return tuple(taken / given if given else None for taken, given in zip(self.accepted_at, self.drafted_at, strict=True))

    @property
    def ratios(self) -> tuple[float, ...]:
        """Speculative over plain tokens per second, a repeat each."""
        pairs = [(one.tokens_per_s, other.tokens_per_s) for one, other in zip(self.speculative, self.plain, strict=True)]
        return tuple(ours / theirs for ours, theirs in pairs if ours and theirs)

    @property
    def speed_ratio(self) -> float | None:
        """Geometric mean over the repeats; None without one."""
        return geometric_mean(self.ratios) if self.ratios else None

    @property
    def adds_up(self) -> bool:
        """The counters can be those of one and the same run."""
        places = (sum(self.drafted_at), sum(self.accepted_at)) == (self.drafted, self.accepted)
        return 0 <= self.accepted <= self.drafted and self.emitted == self.accepted + self.steps and places


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeculationRun:
    """Speculative decoding of the reference with one drafter, or why there is none."""

    drafter: str
    dtype: str = ""
    """Of the target's weights."""
    prompts: int = 0
    draft_weight_bytes: int | None = None
    """Bytes of the drafter's weights beside the target's; 0 for a drafter without a model."""
    draft_kv_bytes_per_row: int | None = None
    """The drafter's own cache for a request of the workload's lengths; arithmetic."""
    passes: tuple[SpeculationPass, ...] = ()
    why_not: str | None = None
