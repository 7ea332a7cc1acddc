"""Time a variant beside the reference, quadruple by quadruple, until what is asked is shown or the time is used up.

Each side runs in a process of its own, and one works at a time: reference, variant, variant, reference. Points take turns, the one with the
fewest quadruples first, so that a drift of the machine falls on all alike.

Two processes of the same model differ for as long as they live: by 3 % on a CPU whose quadruples were 1 % apart. What a policy decides on
is therefore never timed twice in the same pair of processes, so that its interval over quadruples contains that difference.

Nothing is timed that does not fit into what is left of the budget: a step's cost is predicted from the steps before it, and a generation
that runs past the end of the budget is ended there. What is left out is noted with the reason.

How often one looks at a check is fixed beforehand (``stats.speed``). More quadruples are timed only as far as the next planned look, and
only where all of them fit into the budget: between two looks nothing can be shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from quantgate.records import Generation, LeftOut, Quadruple, SpeedPoint, SpeedRun, Timed, Workload
from quantgate.stages.speed import hopeless, resolved
from quantgate.stages.sweep import Target, predicted_s

Who: TypeAlias = Literal["reference", "variant"]
TimeOne = Callable[[Who, Workload, int, float | None], Timed]
"""``time_one(who, workload, batch, limit_s)``: one generation in that side's process, given up where it takes longer than ``limit_s``."""
ORDER: tuple[Who, ...] = ("reference", "variant", "variant", "reference")
SWEEP_SHARE = 0.5
"""Of the time that is left, what the sweep may take before open checks have had theirs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """What is to be timed of one variant."""

    targets: tuple[Target, ...]
    workloads: Mapping[str, Workload]
    level: float
    """The strictest one-sided level that a check may be decided at."""
    budget_s: float | None
    """None: no limit."""
    opening_s: float = 0.0
    """What loading both sides will take before the first batch."""
    fresh: bool = True
    """New processes before a checked point is timed again; False: one pair throughout."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Hands:
    """What a job is done with."""

    time_one: TimeOne
    renew: Callable[[], None]
    """End both processes; the next batch starts new ones."""
    keep: Callable[[SpeedRun], None]
    """Called after each quadruple with all that there is."""
    clock: Callable[[], float]
    progress: Callable[[SpeedPoint, int], None]


class _Timing:
    """One job under way."""

    def __init__(self, job: Job, so_far: SpeedRun, hands: Hands) -> None:
        self.job, self.hands = job, hands
        self.run = replace(so_far, complete=False)
        self.started_s, self.before_s = hands.clock(), so_far.seconds
        self.over = {one.point: one.because for one in so_far.left_out}
        """Points that are not timed any more, and why."""
        self.pair = max((one.pair or 0 for one in so_far.quadruples), default=0) + 1
        self.in_pair: set[SpeedPoint] = set()
        """Points that were timed by the processes that now live: those of a run that was interrupted are gone."""
        self.opening_s = job.opening_s

    def left_s(self) -> float | None:
        """What is left of the budget, by the run's clock or by the devices' own, whichever has moved further."""
        if self.job.budget_s is None:
            return None
        by_clock = self.before_s + self.hands.clock() - self.started_s
        return self.job.budget_s - max(by_clock, sum(one.seconds for one in self.run.quadruples))

    def has(self, target: Target) -> int:
        return len(self.run.at(target.point))

    def open(self, targets: Iterable[Target]) -> list[Target]:
        """Those that may be timed, the one with the fewest quadruples first."""
        return sorted((one for one in targets if one.point not in self.over), key=self.has)

    def fits(self, target: Target, quadruples: int, share: float = 1.0) -> bool:
        """Whether so many more quadruples fit into this share of what is left; where nothing is known, whether both sides can be loaded."""
        left = self.left_s()
        if left is None:
            return True
        cost = predicted_s(self.run, target.point, self.job.workloads)
        if cost is None:
            return left > self.opening_s
        opened = quadruples * self.opening_s if self.job.fresh and target.rules else 0.0
        return quadruples * cost + opened <= share * left

    def at_least(self, targets: Sequence[Target], share: float = 1.0) -> None:
        """Each as often as it is wanted, in turns. What does not fit now is passed by and may be taken up later."""
        passed: set[SpeedPoint] = set()
        while wanting := [one for one in self.open(targets) if self.has(one) < one.least and one.point not in passed]:
            target = wanting[0]
            if self.fits(target, 1, share):
                self.quadruple(target)
            else:
                passed.add(target.point)

    def quadruple(self, target: Target) -> None:
        """One more of a point, kept at once; one that cannot be finished closes the point."""
        self.hands.progress(target.point, self.has(target) + 1)
        started_s, fresh = self.hands.clock(), self.job.fresh and bool(target.rules) and target.point in self.in_pair
        if fresh:
            self.hands.renew()
            self.pair, self.in_pair = self.pair + 1, set()
        self.in_pair.add(target.point)
        found: dict[Who, list[Timed]] = {"reference": [], "variant": []}
        for who in ORDER:
            batch = target.point.batch_size if who == "variant" else target.point.reference_batch
            if batch is None:
                continue
            timed = self.hands.time_one(who, self.job.workloads[target.point.workload], batch, self.left_s())
            if timed.outcome != "timed":
                self.over[target.point] = _why(who, batch, timed)
                return
            found[who].append(timed)
        self.run = _with(self.run, target.point, found, self.pair)
        if fresh:
            self.opening_s = max(self.job.opening_s, self.hands.clock() - started_s - self.run.quadruples[-1].seconds)
        self.hands.keep(replace(self.run, seconds=self.seconds()))

    def looks(self, targets: Sequence[Target]) -> None:
        """Checks that are still open go on to their next look, while all of it fits."""
        while going := [(one, size) for one in self.open(targets) if (size := self.next_look(one)) is not None]:
            target, size = going[0]
            missing = size - self.has(target)
            if not self.fits(target, missing):
                self.over[target.point] = f"the time budget ends before the next planned look at {size} quadruples"
                continue
            for _ in range(missing):
                if target.point in self.over:
                    break
                self.quadruple(target)

    def next_look(self, target: Target) -> int | None:
        """The next planned number of quadruples of a point; None where it is settled, could not be settled, or has seen its last look."""
        has = self.has(target)
        if not target.rules or not has:
            return None
        if has in self.run.looks:
            if resolved(self.run, target.point, target.rules, self.job.level):
                return None
            if hopeless(self.run, target.point, target.rules, self.job.level):
                return None
        return next((size for size in self.run.looks if size > has), None)

    def seconds(self) -> float:
        """What it has taken by now, by whichever clock has moved further."""
        left = self.left_s()
        spent = sum(one.seconds for one in self.run.quadruples)
        return spent if left is None or self.job.budget_s is None else max(spent, self.job.budget_s - left)

    def left_out(self) -> tuple[LeftOut, ...]:
        """What was not timed as often as was wanted."""
        missed = {one.point: self.why_missed(one) for one in self.job.targets if self.has(one) < one.least}
        return tuple(LeftOut(point=point, because=because) for point, because in {**missed, **self.over}.items())

    def why_missed(self, target: Target) -> str:
        cost, left = predicted_s(self.run, target.point, self.job.workloads), self.left_s() or 0.0
        had = f"{self.has(target)} of {target.least} quadruples were timed; " if self.has(target) else ""
        takes = "" if cost is None else f": a quadruple takes about {cost:.3g} s there and {max(0.0, left):.3g} s are left"
        return f"{had}the time budget does not hold it{takes}"


def interleave(job: Job, so_far: SpeedRun, hands: Hands) -> SpeedRun:
    """Time a job's targets; ``so_far`` holds what an interrupted run has kept, and the planned looks."""
    work = _Timing(job, so_far, hands)
    checked = [one for one in job.targets if one.rules]
    asked = [one for one in job.targets if not one.rules and not one.sweep]
    sweep = [one for one in job.targets if one.sweep and not one.rules]
    work.at_least(checked)
    work.at_least(asked)
    work.at_least(sweep, SWEEP_SHARE if checked else 1.0)
    work.looks(checked)
    work.at_least(sweep)
    return replace(work.run, left_out=work.left_out(), complete=True, seconds=work.seconds())


def _with(run: SpeedRun, point: SpeedPoint, found: Mapping[Who, Sequence[Timed]], pair: int) -> SpeedRun:
    """The run with one more quadruple, and its generations behind those it has."""
    ours, theirs = found["variant"], found["reference"]
    generations, partner = _joined(run.generations, ours), _joined(run.partner, theirs)
    quadruple = Quadruple(
        point=point,
        variant=_places(len(run.generations), ours),
        reference=_places(len(run.partner), theirs) if theirs else None,
        seconds=sum(one.seconds for one in (*ours, *theirs)),
        pair=pair,
    )
    return replace(run, generations=generations, partner=partner, quadruples=(*run.quadruples, quadruple))


def _joined(before: tuple[Generation, ...], timed: Sequence[Timed]) -> tuple[Generation, ...]:
    return (*before, *(one for each in timed for one in each.generations))


def _places(start: int, timed: Sequence[Timed]) -> tuple[int, int]:
    """Where the generation of each of two answers comes to lie: it is the last of its answer, behind its warm-ups."""
    first = start + len(timed[0].generations)
    return first - 1, first + len(timed[1].generations) - 1


def _why(who: Who, batch: int, timed: Timed) -> str:
    what = {
        "out of memory": "ran out of memory",
        "out of time": "did not end within the time budget",
        "died": "lost its process",
    }.get(timed.outcome, timed.outcome)
    return f"the {who} {what} at batch {batch}{': ' if timed.why_not else ''}{timed.why_not}"
