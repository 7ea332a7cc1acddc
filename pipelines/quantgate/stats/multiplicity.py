"""More than one chance to pass: Holm's step-down and the fixed sequence.

Both keep the chance of any false pass at alpha, however the p-values depend on one another. Neither is needed where all
must pass (intersection-union): there the p-value of the whole is `intersection_p`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from quantgate.stats.inputs import checked_count, checked_share


@dataclass(frozen=True, kw_only=True, slots=True)
class HolmStep:
    """One candidate's place in the step-down."""

    name: str
    p: float
    rank: int
    """1 for the smallest p-value; ties by name."""
    level: float
    """alpha / (K - rank + 1)."""
    bound_level: float
    """The level whose bound agrees with the decision: `level`, or that of the step that stopped all later ones."""
    rejected: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class SequenceStep:
    """One candidate's place in a fixed sequence."""

    name: str
    p: float
    tested: bool
    """False behind the first candidate that was not rejected."""
    rejected: bool


def holm(p_values: Mapping[str, float | None], *, alpha: float, k: int) -> tuple[HolmStep, ...]:
    """Holm's step-down over K hypotheses, ascending in p; None and every hypothesis not named count as p = 1.

    K is fixed by the caller before measuring and is not the number of p-values at hand. Ties are ordered by name. p
    equal to its level is rejected. An empty mapping gives an empty result.

    Source: Holm, Scandinavian Journal of Statistics 6 (1979).

    Raises:
        ValueError: alpha outside (0, 1); k < 1 or fewer than the names; a p-value outside [0, 1] or NaN.
    """
    alpha, k = checked_share(alpha, "alpha"), checked_count(k, "k", at_least=1)
    if len(p_values) > k:
        raise ValueError(f"k counts every candidate of the policy, found k = {k} and {len(p_values)} p-values")
    ranked = sorted((_checked_p(p, name), name) for name, p in p_values.items())
    steps: list[HolmStep] = []
    for rank, (p, name) in enumerate(ranked, start=1):
        steps.append(_step(name, p, rank, alpha / (k - rank + 1), steps[-1] if steps else None))
    return tuple(steps)


def fixed_sequence(p_values: Sequence[tuple[str, float | None]], *, alpha: float) -> tuple[SequenceStep, ...]:
    """Test in the order given, each at alpha; the first that is not rejected stops it, later ones are not tested.

    The order must be fixed before measuring. None counts as p = 1. An empty sequence gives an empty result.

    Raises:
        ValueError: alpha outside (0, 1); a name twice; a p-value outside [0, 1] or NaN.
    """
    alpha = checked_share(alpha, "alpha")
    if len({name for name, _ in p_values}) < len(p_values):
        raise ValueError(f"every name may stand once in a sequence, found {[name for name, _ in p_values]}")
    steps: list[SequenceStep] = []
    open_ = True
    for name, found in p_values:
        p = _checked_p(found, name)
        steps.append(SequenceStep(name=name, p=p, tested=open_, rejected=open_ and p <= alpha))
        open_ = steps[-1].rejected
    return tuple(steps)


def intersection_p(p_values: Sequence[float | None]) -> float:
    """P-value of "not all of them hold": the largest; None counts as 1, and so does an empty sequence.

    Source: Berger, Technometrics 24 (1982), intersection-union test; valid under any dependence.

    Raises:
        ValueError: a p-value outside [0, 1] or NaN.
    """
    return max((_checked_p(p, "p") for p in p_values), default=1.0)


def _step(name: str, p: float, rank: int, level: float, before: HolmStep | None) -> HolmStep:
    going = before is None or before.rejected
    bound_level = level if going or before is None else before.bound_level
    return HolmStep(name=name, p=p, rank=rank, level=level, bound_level=bound_level, rejected=going and p <= level)


def _checked_p(p: float | None, name: str) -> float:
    found = 1.0 if p is None else float(p)
    if not 0.0 <= found <= 1.0:
        raise ValueError(f"a p-value lies between 0 and 1, found {p!r} for {name!r}")
    return found
