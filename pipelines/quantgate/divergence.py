"""How far a variant's next-token distributions moved: ``KL(reference || variant)`` in nats, position by position.

Of raw logits over the full vocabulary; sampling filters that write -inf into scores do not belong here. The direction
weighs each token by the reference's own probability: it asks what the variant costs a reader of the reference's text.
Zero times log zero is 0, and mass that the variant cannot give at all is an infinite divergence. Nothing is skipped:
``+inf`` stands in the statistics for the gate to refuse, NaN raises.

Rows are worked on a few at a time: no array of more than ``CHUNK_BYTES`` is made, however many rows come in.

A stored row keeps log probabilities as 16-bit codes on a straight line between the row's largest and smallest one, the
smallest at most ``SPAN_NATS`` below. That takes the bytes of float16 and errs by SPAN / 65535 / 2 at most, everywhere,
where float16 errs by up to 0.004 at -8 nats and 0.008 beyond -16. What has to be exact, the first token and the true
token's log probability, stands beside the codes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from quantgate.errors import NumericallyInvalid
from quantgate.records import KLPart, KLStatistics

Floats: TypeAlias = NDArray[np.float64]
Logits: TypeAlias = NDArray[np.floating[Any]]
Ids: TypeAlias = NDArray[np.intp]
MINIMUM_POSITIONS = 100
MINIMUM_FOR_P999 = 10_000
MINIMUM_CLUSTERS = 10
CHUNK_BYTES = 8 * 2**20
SPAN_NATS = 64.0
CODES = 65_535
POSITION_BINS = 8


@dataclass(frozen=True, slots=True)
class Distances:
    """What two models say at each of [rows] positions whose true next token is known."""

    kl: Floats
    same_top: NDArray[np.bool_]
    reference: Floats
    """Log probability of the true next token, in nats, by the reference."""
    variant: Floats

    @property
    def probability_change(self) -> Floats:
        """Change of the true token's probability, -1..1."""
        change: Floats = np.exp(self.variant) - np.exp(self.reference)
        return change


@dataclass(frozen=True, slots=True)
class Places:
    """Where each of [rows] positions stands: number of its text, number of the token in it from 1, and its text's slice."""

    text: Ids
    position: Ids
    slices: tuple[str, ...]
    """By text."""


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
    kl = np.empty(len(reference_logits))
    for part in _chunks(*reference_logits.shape):
        kl[part] = _kl(_log_softmax(reference_logits[part]), _log_softmax(variant_logits[part]))
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


def true_token(logits: Logits, next_ids: Ids) -> Floats:
    """Log probability of each row's true next token, in nats, [rows]. Raises ``ValueError`` for an id beyond the vocabulary."""
    _check_ids(next_ids, logits.shape)
    found = np.empty(len(logits))
    for part in _chunks(*logits.shape):
        found[part] = _picked(_log_softmax(logits[part]), next_ids[part])
    return found


def distances(reference: Any, variant_logits: Logits, next_ids: Ids) -> Distances:
    """Compare row by row. ``reference``: logits of the same shape, or rows as ``stored_rows`` made them.

    Raises:
        ValueError: unlike shapes, or an id beyond the vocabulary.
    """
    stored = reference.dtype.names is not None
    if stored and (reference.shape[0], reference["codes"].shape[1]) != variant_logits.shape:
        raise ValueError(
            f"expected {reference.shape[0]} rows of {reference['codes'].shape[1]}, found {variant_logits.shape}"
        )
    if not stored:
        _check_shapes(reference, variant_logits)
    _check_ids(next_ids, variant_logits.shape)
    kl, theirs, ours = (np.empty(len(variant_logits)) for _ in range(3))
    agree = np.empty(len(variant_logits), dtype=bool)
    for part in _chunks(*variant_logits.shape):
        rows, ids = variant_logits[part], next_ids[part]
        log_p, log_q = _log_softmax(_decoded(reference[part]) if stored else reference[part]), _log_softmax(rows)
        kl[part], ours[part] = _kl(log_p, log_q), _picked(log_q, ids)
        theirs[part] = reference["true"][part] if stored else _picked(log_p, ids)
        top = reference["top"][part] if stored else reference[part].argmax(axis=1)
        agree[part] = top == rows.argmax(axis=1)
    return Distances(kl, agree, theirs, ours)


# ---------------------------------------------------------------------------------------------- stored rows


def stored_row(vocabulary: int) -> np.dtype[Any]:
    """The form of one stored position: ``low`` + ``step`` x code is a log probability."""
    head = [("low", "<f4"), ("step", "<f4"), ("top", "<i4"), ("true", "<f8")]
    return np.dtype([*head, ("codes", "<u2", (vocabulary,))])


def stored_rows(logits: Logits, next_ids: Ids) -> NDArray[Any]:
    """Rows [rows] to be stored, of finite logits [rows, vocabulary]. Raises ``ValueError`` for an id beyond the vocabulary."""
    _check_ids(next_ids, logits.shape)
    rows = np.empty(len(logits), dtype=stored_row(logits.shape[1]))
    rows["top"] = logits.argmax(axis=1)
    for part in _chunks(*logits.shape):
        log_p = _log_softmax(logits[part])
        rows["true"][part] = _picked(log_p, next_ids[part])
        high = log_p.max(axis=1)
        low = np.maximum(log_p.min(axis=1), high - SPAN_NATS).astype(np.float32)
        step = (np.maximum(high - low, 1e-30) / CODES).astype(np.float32)
        rows["low"][part], rows["step"][part] = low, step
        codes = np.rint((log_p - low[:, None].astype(np.float64)) / step[:, None])
        rows["codes"][part] = np.clip(codes, 0, CODES)
    return rows


def _decoded(rows: Any) -> Floats:
    """Log probabilities [rows, vocabulary], not quite summing to one: the softmax that follows puts that right."""
    found: Floats = rows["low"][:, None].astype(np.float64) + rows["codes"] * rows["step"][:, None].astype(np.float64)
    return found


# ---------------------------------------------------------------------------------------------- statistics


def statistics(kl: Floats, same_top: NDArray[np.bool_]) -> KLStatistics:
    """Summarise ``kl`` [positions], in nats, and the share of positions with the same first token.

    A percentile is the smallest value that at least so many of the positions do not exceed, without interpolation, so
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
        p99=_percentile(kl, 990),
        maximum=float(kl.max()),
        top1_agreement=float(same_top.mean()),
        p999=_percentile(kl, 999) if kl.size >= MINIMUM_FOR_P999 else None,
    )


def parts_of(kl: Floats, same_top: NDArray[np.bool_], names: Sequence[str]) -> tuple[KLPart, ...]:
    """The same figures by slice, ``names`` [positions], in order of first appearance; empty where there is one slice only."""
    known = list(dict.fromkeys(names))
    labels = np.array([known.index(name) for name in names], dtype=np.intp)
    return tuple(_part(kl, same_top, labels == at, name) for at, name in enumerate(known)) if len(known) > 1 else ()


def by_position(kl: Floats, same_top: NDArray[np.bool_], position: Ids) -> tuple[KLPart, ...]:
    """The same figures by the token's number in its text, in bins that double in width: the first tokens differ most."""
    last, found = int(position.max(initial=0)), []
    for first, end in _bins(last):
        chosen = (position >= first) & (position <= end)
        if chosen.any():
            found.append(_part(kl, same_top, chosen, f"{first} to {end}", (first, end)))
    return tuple(found)


def standard_error(kl: Floats, text: Ids) -> float | None:
    """Standard error of the mean over all positions, with texts as clusters; None under ``MINIMUM_CLUSTERS`` texts.

    The linearised ratio: sum over texts of (total of the text - mean x its positions), squared, over positions.
    """
    sizes = np.bincount(text)
    clusters = int(np.count_nonzero(sizes))
    if clusters < MINIMUM_CLUSTERS:
        return None
    residuals = np.bincount(text, weights=kl) - kl.mean() * sizes
    return float(np.sqrt(clusters / (clusters - 1) * (residuals**2).sum()) / kl.size)


def _bins(last: int) -> Iterator[tuple[int, int]]:
    """1 to w, to 2w, to 4w and so on; w is the smallest power of two that needs no more than eight bins, or 16."""
    width = 1
    while width < 16 and width * 2 ** (POSITION_BINS - 1) < last:
        width *= 2
    first, end = 1, width
    while first <= last:
        yield first, min(end, last)
        first, end = end + 1, end * 2


def _part(
    kl: Floats, same_top: NDArray[np.bool_], chosen: NDArray[np.bool_], name: str, ends: tuple[int, int] | None = None
) -> KLPart:
    values = kl[chosen]
    return KLPart(
        name=name,
        positions=int(values.size),
        mean=float(values.mean()),
        maximum=float(values.max()),
        top1_agreement=float(same_top[chosen].mean()),
        p99=_percentile(values, 990) if values.size >= MINIMUM_POSITIONS else None,
        first=None if ends is None else ends[0],
        last=None if ends is None else ends[1],
    )


def _percentile(values: Floats, per_mille: int) -> float:
    """The smallest value that ``per_mille`` of a thousand do not exceed; its rank in whole numbers, which no rounding moves."""
    rank = -(-values.size * per_mille // 1000)
    return float(np.partition(values, rank - 1)[rank - 1])


# ---------------------------------------------------------------------------------------------- rows


def _kl(log_p: Floats, log_q: Floats) -> Floats:
    possible = log_p > -np.inf
    difference = np.subtract(log_p, log_q, out=np.zeros_like(log_p), where=possible)
    ruled_out = (possible & (log_q == -np.inf)).any(axis=1)
    difference[~np.isfinite(difference)] = 0.0
    kl: Floats = np.maximum(np.einsum("ij,ij->i", np.exp(log_p), difference), 0.0)
    kl[ruled_out] = np.inf
    kl[np.isnan(log_p).any(axis=1) | np.isnan(log_q).any(axis=1)] = np.nan
    return kl


def _picked(log_probabilities: Floats, ids: Ids) -> Floats:
    found: Floats = np.take_along_axis(log_probabilities, ids[:, None], axis=1)[:, 0]
    return found


def _chunks(rows: int, vocabulary: int) -> Iterator[slice]:
    size = max(1, CHUNK_BYTES // (8 * vocabulary))
    for start in range(0, rows, size):
        yield slice(start, min(rows, start + size))


def _check_shapes(reference_logits: Logits, variant_logits: Logits) -> None:
    if reference_logits.ndim != 2 or reference_logits.shape != variant_logits.shape or reference_logits.shape[1] == 0:
        shapes = f"{reference_logits.shape} and {variant_logits.shape}"
        raise ValueError(f"expected two arrays of one shape [rows, vocabulary], found {shapes}")


def _check_ids(ids: Ids, shape: tuple[int, ...]) -> None:
    if ids.shape != shape[:1] or (ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < shape[1]):
        raise ValueError(f"expected {shape[0]} ids under {shape[1]}, found {ids.shape}, up to {ids.max(initial=-1)}")


def _log_softmax(logits: Logits) -> Floats:
    """Log probabilities in float64; NaN throughout a row that has NaN, +inf, or only -inf."""
    wide = logits.astype(np.float64)
    with np.errstate(invalid="ignore"):
        shifted: Floats = wide - wide.max(axis=1, keepdims=True)
    log_probabilities: Floats = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return log_probabilities
