"""What scoring gives of each item, and the figures of tasks over them."""

from __future__ import annotations

from dataclasses import dataclass

from quantgate.records.golden import MetricInfo


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricFigure:
    """One metric over all its items of a golden set, combined as the metric is: a corpus figure is not a mean of items'."""

    metric: MetricInfo
    value: float | None
    """In the metric's unit and direction; None where no item was scored."""
    items: int
    scored: int
    equal_weights: bool = True
    lower: float | None = None
    """Wilson's 95 % interval of a share of items that are right or wrong, of equal weight, in a report; None for any other figure."""
    upper: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ItemEvidence:
    """What a model produced for one item. A non-finite number is stored as None and counted in ``nonfinite``."""

    item_id: str
    loglikelihoods: tuple[float | None, ...] = ()
    """Natural log of the probability of each choice, summed over its tokens, in the order of the item's choices."""
    text: str | None = None
    output_tokens: int = 0
    truncated: bool = False
    """The output ended at the length cap, neither at a stop string nor at an end-of-sequence token."""
    nonfinite: bool = False
    first_token_logprob: float | None = None
    """Log probability of the first generated token: tells two variants apart that answer alike."""
    scored_tokens: int = 0
    """How many tokens (of a file: words or bytes) ``loglikelihoods[0]`` sums over, where the item's own text is scored; else 0."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ItemScore:
    """One item's score on its metric's scale, or None with the reason; the evidence it was computed from stays beside it."""

    item_id: str
    slice: str
    cluster: str | None
    value: float | None
    why_unscored: str | None = None
    answered: str = ""
    expected: str = ""
    evidence: ItemEvidence
    weight: float = 1.0
    parts: tuple[float, ...] = ()
    """What adds up over items where the corpus figure is no mean: nats and tokens, n-gram counts."""
