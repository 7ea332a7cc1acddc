"""How far a variant's distributions are from the reference's: over golden items, over texts, over the canary's prompts."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, fsum
from typing import Literal

from quantgate.records.scores import ItemEvidence


@dataclass(frozen=True, kw_only=True, slots=True)
class KLPart:
    """Divergence over some of the positions: those of a slice, or those from ``first`` to ``last`` of each text."""

    name: str
    positions: int
    mean: float
    maximum: float
    top1_agreement: float
    p99: float | None = None
    """None under 100 positions."""
    first: int | None = None
    """Number of the token in its text, from 1; None for a slice."""
    last: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class KLStatistics:
    """Divergence of a variant's next-token distributions from the reference's, ``KL(reference || variant)`` in nats.

    Full vocabulary, raw logits in float32 or better, every figure finite. One position an item, the one right after its prompt, or every
    position of some texts.
    """

    positions: int
    mean: float
    median: float
    p99: float
    maximum: float
    top1_agreement: float
    p999: float | None = None
    """None under 10,000 positions."""
    rms_dp: float | None = None
    """Root mean square change of the true next token's probability; None where there is no true token, as after a prompt."""
    standard_error: float | None = None
    """Of the mean, with texts as clusters: tokens of one text are not independent. None under ten texts."""
    by_slice: tuple[KLPart, ...] = ()
    """Empty where there is one slice only."""
    by_position: tuple[KLPart, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Distributions:
    """The reference's stored distributions, in NumPy's file format.

    After prompts: a float32 array of logits [positions, vocabulary]. Over texts: a record a position, as ``divergence.stored_row`` has it.
    """

    path: str
    """Empty where nothing is stored and every variant's process runs the reference again."""
    sha256: str
    positions: int
    vocabulary: int
    why_not_stored: str = ""
    reading: TextReading | None = None
    """How the reference itself read the texts; None after prompts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TextReading:
    """How one variant read the texts of a run's divergence, token by token."""

    texts: str
    sha256: str
    """Digest of the texts' file."""
    items: tuple[ItemEvidence, ...]
    """A text each: ``loglikelihoods[0]`` is the sum over its ``scored_tokens`` true next tokens, in nats, BOS left out."""
    slices: tuple[str, ...]
    """The slice of each item."""
    cut: int
    """Texts that were longer than ``tokens_per_text`` and were read up to it."""
    tokens_per_text: int
    kl: KLStatistics | None = None
    """None for the reference, or with ``why_no_kl``."""
    why_no_kl: str | None = None
    reference: Literal["stored", "recomputed"] = "stored"

    @property
    def scored_tokens(self) -> int:
        """True next tokens over all texts."""
        return sum(one.scored_tokens for one in self.items)

    @property
    def nats(self) -> float | None:
        """Minus the log-likelihood of all texts with a token to score; None where one of them has none."""
        found = [one.loglikelihoods[0] for one in self.items if one.scored_tokens]
        known = [value for value in found if value is not None]
        return -fsum(known) if known and len(known) == len(found) else None

    @property
    def perplexity(self) -> float | None:
        """exp(total nats / total tokens), over the corpus and not a mean over texts; None where it is no number."""
        nats = self.nats
        return None if nats is None or not self.scored_tokens or nats / self.scored_tokens > 700 else exp(nats / self.scored_tokens)


@dataclass(frozen=True, kw_only=True, slots=True)
class CanaryReading:
    """A candidate beside the reference right after some prompts of a golden set, before it was scored on it."""

    golden_set: str
    golden_sha256: str
    items: int
    """Items of the golden set."""
    prompts: int
    """Prompts that were asked, spread evenly over the set."""
    mean_kl: float
    """Mean of KL(reference || variant) in nats: the logarithm of how many times the reference's perplexity the variant has there."""
    top1_agreement: float
    nonfinite: str = ""
    """What was not finite; empty where all was."""
    stopped: bool = False
    """It ended the scoring of the candidate."""
