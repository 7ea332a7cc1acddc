"""The ratio of two perplexities on the same text, and its uncertainty.

Perplexity is exp(nats / tokens) over a whole corpus, so the logarithm of the ratio is a ratio of two sums, and what
varies is the document. Documents are compared in pairs: the text's own difficulty drops out. One continuous stream
counts by non-overlapping windows, each a "document" here.

Documents that suffer far more than most give the change per token a long tail, so the studentised mean is corrected for
skewness (`studentised`). Documents of unequal length count for fewer than their number, as clusters do.

Source: Cochran, Sampling Techniques (1977) chapter 6, ratio estimators; the jackknife of `studentised`.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import exp, fsum, inf, log, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quantgate.stats.clusters import ENOUGH, membership
from quantgate.stats.inputs import Number, checked_share, exact
from quantgate.stats.noninferiority import Decision
from quantgate.stats.proportions import Interval
from quantgate.stats.studentised import Studentised, pseudo_values

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class PerplexityRatio:
    """ln(perplexity of the variant / perplexity of the reference) with its uncertainty over documents."""

    log_ratio: float
    standard_error: float
    studentised: Studentised
    """The change per token, one value a document."""
    tokens: float
    documents: int
    effective_documents: float
    """(sum of tokens)^2 / sum of squared tokens: what documents of unequal length amount to."""
    reason: str | None
    """Why nothing can be shown; None where it can."""

    @property
    def ratio(self) -> float:
        """Perplexity of the variant / perplexity of the reference."""
        return _exp(self.log_ratio)

    def bounds(self, alpha: float) -> Interval:
        """Both one-sided (1 - alpha) bounds of the ratio; [0, infinity] where nothing can be shown."""
        level = checked_share(alpha, "alpha")
        if self.reason is not None:
            return Interval(lower=0.0, upper=inf)
        bounds = self.studentised.bounds(level)
        return Interval(lower=_exp(bounds.lower), upper=_exp(bounds.upper))

    def p_at_least(self, limit: Number) -> float:
        """P-value of "the ratio is at least the limit"; 1.0 if nothing can be shown or the estimate is not below it."""
        at_least = _checked_limit(limit)
        return self.studentised.p_at_least(at_least) if self.reason is None else 1.0

    def p_at_most(self, limit: Number) -> float:
        """P-value of "the ratio is at most the limit"; 1.0 if nothing can be shown or the estimate is not above it."""
        at_most = _checked_limit(limit)
        return self.studentised.p_at_most(at_most) if self.reason is None else 1.0

    def decide(self, *, limit: Number, alpha: float) -> Decision:
        """Decide whether it is shown that the ratio is at most the limit; estimate and bounds are ratios.

        Raises:
            ValueError: limit not above 0 or infinite; alpha outside (0, 1).
        """
        at_most, level = float(exact(limit)), checked_share(alpha, "alpha")
        bounds, p_pass, p_fail = self.bounds(level), self.p_at_least(limit), self.p_at_most(limit)
        return Decision(
            outcome="pass" if p_pass <= level else "fail" if p_fail <= level else "inconclusive",
            estimate=self.ratio,
            lower=_on_its_side(bounds.lower, at_most, beyond=p_fail <= level, sign=1),
            upper=_on_its_side(bounds.upper, at_most, beyond=p_pass <= level, sign=-1),
            p_pass=p_pass,
            p_fail=p_fail,
            level=level,
            reason=self.reason,
            unchanged=1.0,
        )


def perplexity_ratio(
    *,
    reference_nats: ArrayLike,
    variant_nats: ArrayLike,
    tokens: ArrayLike,
    documents: Sequence[Hashable] | NDArray[Any] | None = None,
) -> PerplexityRatio:
    """Compare two models on the same tokens, shape (rows,) each: negative log-likelihoods in nats, and token counts.

    Args:
        reference_nats: sum over the row's tokens under the reference.
        variant_nats: the same under the variant.
        tokens: tokens of the row, the same for both.
        documents: the document of each row; without it every row is a document (or window) of its own.

    Nothing can be shown, and `reason` says so, with under ten documents (counted by length: `effective_documents`), or
    where all changed by exactly as much a token, which leaves no uncertainty to judge by.

    Raises:
        ValueError: no rows (not measured), lengths that differ, nats not finite, tokens not above 0.
    """
    changes, lengths = _per_document(reference_nats, variant_nats, tokens, documents)
    total = fsum(lengths)
    log_ratio, effective = fsum(changes) / total, total * total / float(lengths @ lengths)
    found = Studentised.of(pseudo_values(changes, lengths, log_ratio), mean=log_ratio, degrees_of_freedom=effective - 1)
    return PerplexityRatio(
        log_ratio=log_ratio,
        standard_error=found.deviation / sqrt(found.n),
        studentised=found,
        tokens=total,
        documents=lengths.size,
        effective_documents=effective,
        reason=_why_nothing(effective, found.deviation > 0),
    )


def _per_document(reference: ArrayLike, variant: ArrayLike, tokens: ArrayLike, documents: Any) -> tuple[Floats, Floats]:
    """Change in nats and number of tokens, one entry per document."""
    rows = [np.asarray(row, dtype=float) for row in (reference, variant, tokens)]
    if any(row.ndim != 1 or row.shape != rows[2].shape for row in rows) or rows[2].size == 0:
        raise ValueError(f"expected nats and tokens of at least one document each, found {[row.shape for row in rows]}")
    if not all(np.all(np.isfinite(row)) for row in rows):
        raise ValueError("nats and tokens must be finite, found NaN or infinity")
    if float(rows[2].min()) <= 0:
        raise ValueError(f"every document needs a token, found {float(rows[2].min())}")
    if documents is None:
        return rows[1] - rows[0], rows[2]
    member = membership(documents, rows[2].size)
    changes: Floats = np.bincount(member, weights=rows[1] - rows[0]).astype(np.float64)
    lengths: Floats = np.bincount(member, weights=rows[2]).astype(np.float64)
    return changes, lengths


def _why_nothing(effective: float, varies: bool) -> str | None:
    if effective < ENOUGH * (1 - 1e-12):
        return f"{effective:.1f} effective documents, at least {ENOUGH} are needed"
    return None if varies else "every document changed by the same a token, which leaves no uncertainty to judge by"


def _checked_limit(limit: Number) -> float:
    """Return the logarithm of the limit."""
    found = exact(limit)
    if found <= 0:
        raise ValueError(f"a limit of a ratio must lie above 0 (1.02 is 2 % worse), found {limit}")
    return log(found)


def _on_its_side(end: float, limit: float, beyond: bool, sign: int) -> float:
    """Undo rounding: sign * bound at or above sign * limit exactly when the p-value says so."""
    if (sign * end >= sign * limit) == beyond:
        return end
    return limit if beyond else float(np.nextafter(limit, -sign * inf))


def _exp(value: float) -> float:
    return exp(value) if value < 700 else inf
