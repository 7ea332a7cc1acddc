"""How far a variant's next-token distributions moved: ``KL(reference || variant)`` in nats, position by position.

Of raw logits over the full vocabulary; sampling filters that write -inf into scores do not belong here. The direction
weighs each token by the reference's own probability: it asks what the variant costs a reader of the reference's text.
Zero times log zero is 0, and mass that the variant cannot give at all is an infinite divergence. Nothing is skipped:
``+inf`` stands in the statistics for the gate to refuse, NaN raises.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from quantgate.errors import NumericallyInvalid
from quantgate.records import KLStatistics

Floats: TypeAlias = NDArray[np.float64]
Logits: TypeAlias = NDArray[np.floating[Any]]
MINIMUM_POSITIONS = 100


def kl_rows(reference_logits: Logits, variant_logits: Logits) -> Floats:
    """Sum ``p_v (log p_v - log q_v)`` over the vocabulary of each row, in nats, [rows]; p the reference, q the variant.

    Args:
        reference_logits: [rows, vocabulary], float32 or better; -inf is a token without probability.
        variant_logits: the same shape, the same positions.

    Returns:
        0 or more; ``+inf`` where the variant rules out a token the reference allows; NaN where a row has NaN, +inf or
        only -inf.

    Raises:
        ValueError: not two arrays of one shape [rows, vocabulary].
    """
    _check_shapes(reference_logits, variant_logits)
    log_p, log_q = _log_softmax(reference_logits), _log_softmax(variant_logits)
    possible = log_p > -np.inf
    difference = np.subtract(log_p, log_q, out=np.zeros_like(log_p), where=possible)
    ruled_out = (possible & (log_q == -np.inf)).any(axis=1)
    difference[~np.isfinite(difference)] = 0.0
    kl: Floats = np.maximum(np.einsum("ij,ij->i", np.exp(log_p), difference), 0.0)
    kl[ruled_out] = np.inf
    kl[np.isnan(log_p).any(axis=1) | np.isnan(log_q).any(axis=1)] = np.nan
    return kl


def same_top(reference_logits: Logits, variant_logits: Logits) -> NDArray[np.bool_]:
    """Tell whether both put the same token first, [rows]; a tie goes to the lowest id; a row with NaN never agrees.

    Raises:
        ValueError: not two arrays of one shape [rows, vocabulary].
    """
    _check_shapes(reference_logits, variant_logits)
    undefined = np.isnan(reference_logits).any(axis=1) | np.isnan(variant_logits).any(axis=1)
    agree: NDArray[np.bool_] = reference_logits.argmax(axis=1) == variant_logits.argmax(axis=1)
    return agree & ~undefined


def statistics(kl: Floats, same_top: NDArray[np.bool_]) -> KLStatistics:
    """Summarise ``kl`` [positions], in nats, and the share of positions with the same first token.

    The percentile is the smallest value that at least 99 % of the positions do not exceed, without interpolation, so
    that one infinite position does not turn it into NaN. ``+inf`` stays: mean and maximum are then infinite.

    Raises:
        ValueError: fewer than ``MINIMUM_POSITIONS``, which carry no percentile, or arrays of unlike length.
        NumericallyInvalid: NaN at any position.
    """
    if kl.ndim != 1 or kl.shape != same_top.shape:
        raise ValueError(f"expected two arrays of one length, found {kl.shape} and {same_top.shape}")
    if kl.size < MINIMUM_POSITIONS:
        raise ValueError(f"{kl.size} positions are too few for statistics; at least {MINIMUM_POSITIONS} are needed")
    if (undefined := np.flatnonzero(np.isnan(kl))).size:
        raise NumericallyInvalid(
            f"KL is NaN at {undefined.size} of {kl.size} positions, the first being {undefined[0]}"
        )
    return KLStatistics(
        positions=int(kl.size),
        mean=float(kl.mean()),
        median=float(np.median(kl)),
        p99=float(np.percentile(kl, 99, method="inverted_cdf")),
        maximum=float(kl.max()),
        top1_agreement=float(same_top.mean()),
    )


def _check_shapes(reference_logits: Logits, variant_logits: Logits) -> None:
    if reference_logits.ndim != 2 or reference_logits.shape != variant_logits.shape or reference_logits.shape[1] == 0:
        shapes = f"{reference_logits.shape} and {variant_logits.shape}"
        raise ValueError(f"expected two arrays of one shape [rows, vocabulary], found {shapes}")


def _log_softmax(logits: Logits) -> Floats:
    """Log probabilities in float64; NaN throughout a row that has NaN, +inf, or only -inf."""
    wide = logits.astype(np.float64)
    with np.errstate(invalid="ignore"):
        shifted: Floats = wide - wide.max(axis=1, keepdims=True)
    log_probabilities: Floats = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return log_probabilities
