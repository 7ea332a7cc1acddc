"""Timed runs by hand: quadruples of given ratios, and two sides on a clock that a test drives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from evidence import DEVICE
from quantgate.records import Generation, Quadruple, SpeedPoint, SpeedRun, Timed, Workload
from quantgate.stages.interleave import Hands, Who
from quantgate.stats.speed import look_sizes

TOKENS = 64


def generation(step_s: float, *, batch: int = 1, tokens: int = TOKENS, **fields: Any) -> Generation:
    """A generation whose steps all take as long, the first one ten times as long."""
    times = tuple(step_s * (10 + step) for step in range(tokens))
    made = Generation(batch_size=batch, prompt_tokens=64, output_tokens=tokens, produced_tokens=tokens * batch, step_s=times)
    return replace(made, **fields)


def speed_run(ratios: Sequence[float], *, at: SpeedPoint | None = None, most: int = 32, **fields: Any) -> SpeedRun:
    """A run whose quadruples have these ratios of the variant's speed to the reference's."""
    point = at or SpeedPoint(batch_size=1, reference_batch=1)
    ours: list[Generation] = []
    theirs: list[Generation] = []
    for ratio in ratios:
        ours += [generation(0.1 / ratio, batch=point.batch_size)] * 2
        theirs += [generation(0.1, batch=point.reference_batch or 1)] * 2
    quadruples = tuple(
        Quadruple(point=point, variant=(2 * place, 2 * place + 1), reference=(2 * place, 2 * place + 1), seconds=30.0, pair=place)
        for place in range(len(ratios))
    )
    made = SpeedRun(
        variant="int8",
        generations=tuple(ours),
        partner=tuple(theirs),
        order="R V V R",
        quadruples=quadruples,
        looks=look_sizes(most),
        device=DEVICE,
        partner_device=DEVICE,
    )
    return replace(made, **fields)


@dataclass
class Race:
    """Two sides on one clock. ``pace(who, workload, batch)`` gives the seconds of a step, or an outcome that is no time."""

    pace: Callable[[Who, Workload, int], float | str]
    now_s: float = 0.0
    asked: list[tuple[Who, int]] = field(default_factory=list)
    kept: list[SpeedRun] = field(default_factory=list)
    opening_s: float = 0.0
    """What it takes to start both sides anew."""
    renewed: list[int] = field(default_factory=list)
    """How many batches had been asked for, each time that both were."""

    def renew(self) -> None:
        self.now_s += self.opening_s
        self.renewed.append(len(self.asked))

    def time_one(self, who: Who, workload: Workload, batch: int, limit_s: float | None) -> Timed:
        self.asked.append((who, batch))
        found = self.pace(who, workload, batch)
        if isinstance(found, str):
            return Timed(generations=(), outcome=found, seconds=0.0, why_not="so it was told")  # type: ignore[arg-type]
        seconds = found * workload.output_tokens
        if limit_s is not None and seconds > limit_s:
            self.now_s += limit_s
            return Timed(generations=(), outcome="out of time", seconds=limit_s)
        self.now_s += seconds
        times = tuple(found * (1 + step) for step in range(workload.output_tokens))
        made = Generation(
            batch_size=batch,
            prompt_tokens=workload.prompt_tokens,
            output_tokens=workload.output_tokens,
            produced_tokens=workload.output_tokens * batch,
            step_s=times,
            workload=workload.name,
        )
        return Timed(generations=(made,), outcome="timed", seconds=seconds)

    def hands(self) -> Hands:
        return Hands(
            time_one=self.time_one,
            renew=self.renew,
            keep=self.kept.append,
            clock=lambda: self.now_s,
            progress=lambda point, number: None,
        )
