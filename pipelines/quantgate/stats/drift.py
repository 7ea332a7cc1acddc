"""Change points in a series of nights: a sequential likelihood-ratio scan, with the noise taken from the nights themselves.

At every night t each split s of the nights since the last change is tried: the mean after s against the mean before it, in units
of its standard error, ``z = (after - before) / sqrt(v (1 / a + 1 / b))`` with a and b nights on either side. The largest |z| is the
generalised likelihood ratio of a step at an unknown night. It accumulates small differences as a CUSUM does, needs no size of
change to be set beforehand, and finds a slow drift as well. A change is told at the first night whose |z| exceeds Student's
quantile at ``TAIL``; then the scan starts again behind the split, and needs ``FEWEST`` further nights before it tells anything.

``v`` is the variance of one night, from differences of successive nights, which a step hardly touches and a drift even less. Where
the same items are asked every night it comes from the items: each item's own change from night to night. That is the noise that
counts, and much smaller than that of a fresh sample of questions. Its freedom is that of a sum of squares, ``(sum e^2)^2 / sum
e^4``; of a plain series 2/3 of the differences. So few nights ask for a larger step.

``TAIL`` was set by simulation (tests/statistical/test_drift_error.py): of 100 series of 30 unchanged nights, looked at every
night, at most 1 tells of a change. Arrays are [..., nights]; leading axes are separate series.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special  # type: ignore[import-untyped, unused-ignore]

Array = NDArray[np.float64]

TAIL = 3e-5
"""Two-sided tail probability of one split on one night."""
FEWEST = 5
"""Nights before anything is told."""
ITEM_FLOOR = 0.25
"""Least variance of a night in squared items: a set on which nothing ever flips is not infinitely precise."""
ITEM_FREEDOM = 8.0
"""Freedom that the floor adds."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Variance of one night as known after each night, and its freedom; [..., nights], of no meaning at the first night."""

    variance: Array
    freedom: Array


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """A change: ``start`` is the first night behind it, ``told`` the night on which it was found; both count from 0."""

    start: int
    told: int
    before: float
    after: float
    z: float


def noise_of_items(squares: Array, fourths: Array, items: int) -> Noise:
    """From each item's change of loss since the night before: sums over the items of its square and of its fourth power.

    Both are [..., nights - 1].
    """
    pairs = np.arange(1, squares.shape[-1] + 1)
    total, fourth = np.cumsum(squares, axis=-1), np.cumsum(fourths, axis=-1)
    variance = (total / (2 * pairs) + ITEM_FLOOR) / items**2
    freedom = ITEM_FREEDOM + np.divide(total**2, fourth, out=np.zeros_like(total), where=fourth > 0)
    return Noise(_led(variance), _led(freedom))


def noise_of_series(values: Array, least: float) -> Noise:
    """From the differences of the series itself; ``least`` is the smallest standard deviation of a night that is believed."""
    pairs = np.arange(1, values.shape[-1])
    total = np.cumsum(np.diff(values, axis=-1) ** 2, axis=-1)
    variance = np.maximum(total / (2 * pairs), least**2)
    return Noise(_led(variance), _led(np.broadcast_to(np.maximum(1.0, 2 * pairs / 3), total.shape)))


def _led(found: Array) -> Array:
    """With a first night that has no difference."""
    return np.concatenate([np.full_like(found[..., :1], np.nan), found], axis=-1)


def first_alarm(values: Array, noise: Noise) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
    """Night of the first alarm (-1: none), start of the change, and z, of each series."""
    shape = values.shape[:-1]
    told, start, size = np.full(shape, -1), np.full(shape, -1), np.zeros(shape)
    sums = np.cumsum(values, axis=-1)
    for night in range(FEWEST, values.shape[-1]):
        z, split = _largest(sums[..., : night + 1], noise.variance[..., night])
        limit = -special.stdtrit(noise.freedom[..., night], TAIL / 2)
        new = (told < 0) & (np.abs(z) > limit)
        told, start, size = (np.where(new, now, old) for now, old in ((night, told), (split, start), (z, size)))
    return told, start, size


def _largest(sums: Array, variance: Array) -> tuple[Array, NDArray[np.int64]]:
    """The split with the largest |z| among the nights so far, and that z."""
    nights = sums.shape[-1]
    before = np.arange(1, nights)
    after = nights - before
    difference = (sums[..., -1:] - sums[..., :-1]) / after - sums[..., :-1] / before
    error = np.sqrt(variance[..., None] * (1 / before + 1 / after))
    z = np.divide(difference, error, out=np.zeros_like(difference), where=error > 0)
    at = np.argmax(np.abs(z), axis=-1)
    return np.take_along_axis(z, at[..., None], axis=-1)[..., 0], at + 1


@dataclass(frozen=True, kw_only=True, slots=True)
class ItemChanges:
    """What ``noise_of_items`` needs of one series."""

    squares: Array
    fourths: Array
    items: int


def changes(values: Array, *, noise: ItemChanges | float) -> tuple[Change, ...]:
    """Every change of one series [nights], the scan starting again behind each.

    ``noise``: the items' own changes, or the least standard deviation that is believed of a series without items.
    """
    found: list[Change] = []
    origin = 0
    while len(values) - origin > FEWEST:
        part = values[origin:]
        told, start, z = first_alarm(part, _noise(part, noise, origin))
        if int(told) < 0:
            break
        found.append(_change(part, int(start), int(told), float(z), origin))
        origin += int(start)
    return tuple(found)


def _noise(part: Array, noise: ItemChanges | float, origin: int) -> Noise:
    if isinstance(noise, float):
        return noise_of_series(part, noise)
    return noise_of_items(noise.squares[origin:], noise.fourths[origin:], noise.items)


def _change(part: Array, start: int, told: int, z: float, origin: int) -> Change:
    before, after = float(part[:start].mean()), float(part[start : told + 1].mean())
    return Change(start=origin + start, told=origin + told, before=before, after=after, z=z)
