"""What timed quadruples say: each figure by its own formula, and one log ratio a quadruple. Pure.

Figures are derived from raw arrival times and never from a library's own statistics. A side of a quadruple is its two generations: rates
and times enter as the mean of their logarithms, a percentile over the waits of both together. A generation that stopped early, or whose
clock did not run forward, is no speed, and a quadruple that holds one says nothing at all: leaving it out would choose the lucky ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, log
from statistics import geometric_mean

from quantgate.errors import NotComparable
from quantgate.records import MAIN, CheckRule, DeviceInfo, Generation, Quadruple, SpeedPoint, SpeedRun, VariantEvidence
from quantgate.stages.percentiles import percentile

P99_FROM_WAITS = 100
"""Waits between tokens from which a 99th percentile is one."""
Side = Sequence[Generation]


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """A kind of speed check: its figure, which way is worse, and how it is said."""

    figure: Callable[[Side], float | None]
    sign: int
    """1 where a larger figure is worse, -1 where a smaller one is."""
    missing: str
    """Why a side may lack the figure."""
    name: str
    """First part of the check's name."""
    words: str
    """What the ratio is of."""


def waits(side: Side) -> list[float]:
    """The inter-token latencies of all its generations."""
    return [gap for one in side for gap in one.itl_s]


def p99_wait(side: Side) -> float | None:
    """99th percentile of the waits between tokens; None under 100 waits."""
    found = waits(side)
    return percentile(found, 99) if len(found) >= P99_FROM_WAITS else None


def _mean_of(figure: Callable[[Generation], float | None]) -> Callable[[Side], float | None]:
    """Geometric mean of a generation's figure; None where one of them lacks it."""

    def over(side: Side) -> float | None:
        found = [value for one in side if (value := figure(one)) is not None and value > 0]
        return geometric_mean(found) if found and len(found) == len(side) else None

    return over


KINDS: Mapping[str, Kind] = {
    "min_speed_ratio": Kind(
        figure=_mean_of(lambda one: one.output_tokens_per_s),
        sign=-1,
        missing="a generation of one token has no decode speed; give the workload more output tokens",
        name="speed_ratio",
        words="the reference's decode tokens per second",
    ),
    "max_ttft_ratio": Kind(
        figure=_mean_of(lambda one: one.ttft_s),
        sign=1,
        missing="a generation has no first token",
        name="ttft_ratio",
        words="the reference's time to the first token",
    ),
    "max_itl_p99_ratio": Kind(
        figure=p99_wait,
        sign=1,
        missing=f"a 99th percentile takes {P99_FROM_WAITS} waits a side; give the workload more output tokens",
        name="itl_p99_ratio",
        words="the reference's 99th percentile of the wait between tokens",
    ),
}
"""The kinds of checks on speed."""


def check_name(rule: CheckRule) -> str:
    """The name of the check that a rule becomes, for example ``speed_ratio/batch-8`` or ``ttft_ratio/chat/batch-1``."""
    where = "ceiling" if rule.at == "ceiling" else f"batch-{rule.at}"
    return "/".join([KINDS[rule.kind].name, *([] if rule.workload == MAIN else [rule.workload]), where])


def point_of(rule: CheckRule, variant: VariantEvidence, reference: VariantEvidence) -> SpeedPoint | None:
    """What a rule compares; None where it is a ceiling that is not known.

    The identity control has no ceiling of its own and takes the reference's.
    """
    if isinstance(rule.at, int):
        return SpeedPoint(batch_size=rule.at, reference_batch=rule.at, workload=rule.workload)
    theirs = confirmed(reference)
    ours = theirs if variant.variant.role == "identity" else confirmed(variant)
    return SpeedPoint(batch_size=ours, reference_batch=theirs, workload=rule.workload) if ours and theirs else None


def confirmed(one: VariantEvidence) -> int:
    """The confirmed ceiling; 0 where there is none."""
    return 0 if one.capacity is None else one.capacity.confirmed or 0


def losses(run: SpeedRun, point: SpeedPoint, kind: str) -> tuple[float, ...] | str:
    """One log ratio a quadruple of the point, positive where the variant is worse, in the order they were timed; or why there are none."""
    found = run.at(point)
    if not found:
        because = next((one.because for one in run.left_out if one.point == point), "it was not timed there")
        return f"{point.at}: {because}"
    rows = [_loss(run, one, KINDS[kind]) for one in found]
    odd = next((row for row in rows if isinstance(row, str)), None)
    return odd if odd is not None else tuple(row for row in rows if not isinstance(row, str))


def sides(run: SpeedRun, one: Quadruple) -> tuple[Side, Side] | None:
    """The variant's generations and the reference's; None where the record does not hold them."""
    if one.reference is None or max(one.variant) >= len(run.generations) or max(one.reference) >= len(run.partner):
        return None
    if min(*one.variant, *one.reference) < 0:
        return None
    return [run.generations[place] for place in one.variant], [run.partner[place] for place in one.reference]


def _loss(run: SpeedRun, one: Quadruple, kind: Kind) -> float | str:
    found = sides(run, one)
    if found is None:
        return f"{one.point.at}: a quadruple lacks one of its generations"
    if (reason := _why_no_ratio(one.point, *found)) is not None:
        return reason
    ours, theirs = kind.figure(found[0]), kind.figure(found[1])
    if ours is None or theirs is None or not (isfinite(ours) and isfinite(theirs)) or ours <= 0 or theirs <= 0:
        return kind.missing
    return kind.sign * (log(ours) - log(theirs))


def _why_no_ratio(point: SpeedPoint, ours: Side, theirs: Side) -> str | None:
    for who, side in (("the variant", ours), ("the reference", theirs)):
        for one in side:
            if one.warmup or (why := one.why_no_speed) is not None:
                return f"a generation of {who} at {point.at} is no speed: {'it was a warm-up' if one.warmup else why}"
    for field in ("prompt_tokens", "output_tokens"):
        found = [{getattr(one, field) for one in side} for side in (theirs, ours)]
        if found[0] != found[1] or len(found[0]) > 1:
            return str(NotComparable(field.replace("_", " "), *(", ".join(map(str, sorted(one))) for one in found)))
    if {one.batch_size for one in ours} != {point.batch_size} or {one.batch_size for one in theirs} != {point.reference_batch}:
        return f"{point.at}: its generations are of other batches"
    return None


def other_machine(variant: VariantEvidence, reference: VariantEvidence) -> str | None:
    """Why the two were not timed on the same machine in the same way, naming the field; None where they were."""
    run = variant.speed
    ours = variant.device if run is None or run.device is None else run.device
    theirs = reference.device if run is None or run.partner_device is None else run.partner_device
    if ours is None or theirs is None:
        return f"not comparable: the device is not known for the {'variant' if ours is None else 'reference'}"
    return _differing(theirs, ours)


def _differing(theirs: DeviceInfo, ours: DeviceInfo) -> str | None:
    for field in ("kind", "name", "uuid", "driver", "threads"):
        if getattr(theirs, field) != getattr(ours, field):
            what = field if field in ("driver", "threads") else f"the device's {field}"
            return str(NotComparable(what, getattr(theirs, field), getattr(ours, field)))
    return None

